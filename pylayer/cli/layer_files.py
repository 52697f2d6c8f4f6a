"""The layer's library and the manifests that lead a loader to it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import xxhash

import pylayer

from ..common.files import replace_file
from ..common.paths import make_private
from .output import Failure

MANIFEST_NAME = "VkLayer_pylayer_pipeline_cache.json"
LIBRARY_NAME = "libVkLayer_pylayer_pipeline_cache.so"
#: Digits of a build id that people read.
SHORT = 8


def package_directory() -> Path:
    """Returns the directory where this pylayer is installed."""
    return Path(pylayer.__file__).absolute().parent


def library_path() -> Path:
    """Returns the path of the layer's library, which need not exist."""
    return package_directory() / LIBRARY_NAME


def build_id(package: Path | None = None) -> str:
    """Returns the build id of an installed package, of this one by default. Returns empty text if it has none."""
    try:
        text = ((package or package_directory()) / "_private" / "build_id").read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
    return text if re.fullmatch("[0-9a-f]{32}", text) else ""


def private_python() -> Path | None:
    """Returns the private copy of libpython that policy runs in. Returns None if the installation lacks it."""
    return next(iter(sorted((package_directory() / "_private" / "lib").glob("libpylayer-python*.so*"))), None)


def private_python_version() -> str:
    """Returns the version of the Python that policy runs in, such as 3.11. Returns empty text if the installation lacks
    it."""
    path = private_python()
    found = re.match(r"libpylayer-python(\d+\.\d+)", path.name) if path else None
    return found[1] if found else ""


def policy_library() -> Path | None:
    """Returns the library that opens the private libpython and provides replacements for functions that change the
    whole process (shim/policy/isolation.c). Returns None if the installation lacks it."""
    return next(iter(sorted(package_directory().glob("_policy*.so"))), None)


#: Makes a layer implicit, with the variables that switch it on and off. The loader disables the layer if
#: DISABLE_PYLAYER is set, whatever its value.
SWITCHES = {"enable_environment": {"ENABLE_PYLAYER": "1"}, "disable_environment": {"DISABLE_PYLAYER": "1"}}


def manifest_text(kind: str = "explicit") -> str:
    """Returns the manifest of an "explicit" or "implicit" layer, with the absolute path of this installation's library.

    Its file_format_version is 1.2.1, the first with library_arch: loaders of 32-bit programs then skip the layer
    without a message. Steam's containers skip layers of a later version (pressure-vessel, graphics-drivers-vulkan.c;
    1.2.1 since 0.20230418). Raises Failure if the installation is not complete.
    """
    if not library_path().is_file():
        raise Failure(f"{library_path()} is missing, so there is no layer to load; install vk-pylayer again")
    template = package_directory() / "data" / "manifests" / f"{MANIFEST_NAME}.in"
    try:
        text = template.read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f"{template} cannot be read ({error.strerror}); install vk-pylayer again") from error
    text = text.replace("@LIBRARY_PATH@", json.dumps(str(library_path()))[1:-1])
    if kind == "explicit":
        return text
    document = json.loads(text)
    document["layer"] |= SWITCHES
    return json.dumps(document, indent=4) + "\n"


def write_manifest(path: Path, text: str, in_store: bool = False) -> bool:
    """Writes ``text`` to ``path`` atomically. Returns false if the file already held it. Only manifests ``in_store``
    need a directory that nobody else may write to: the others' directories are the loader's.

    Raises OSError.
    """
    try:
        if path.read_bytes() == text.encode():
            return False
    except OSError:
        pass  # missing or unreadable: write it
    replace_file(str(path), text.encode(), anywhere=not in_store)
    return True


def run_directory(root: str) -> Path:
    """Creates a private directory in the store with the manifest for one ``pylayer run`` and returns its path. The
    directory is named by a hash of the manifest, so that installations and versions side by side do not disturb each
    other.

    Raises Failure and OSError.
    """
    text = manifest_text()
    directory = Path(root, "manifests", xxhash.xxh3_128_hexdigest(text.encode()))
    if ":" in str(directory):
        raise Failure(
            f"{root} has a colon in its name, which separates paths for the loader; set PYLAYER_STORE to another"
        )
    for place in (Path(root), directory.parent, directory):
        make_private(str(place))
    write_manifest(directory / MANIFEST_NAME, text, in_store=True)
    return directory
