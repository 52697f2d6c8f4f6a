"""The layer's library and the manifests that lead a loader to it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pylayer

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


def manifest_directory() -> str:
    """Returns the directory with this installation's own manifest, for one ``pylayer run``. Raises Failure if no loader
    could use it."""
    directory = package_directory() / "data" / "manifests"
    for path in (library_path(), directory / MANIFEST_NAME):
        if not path.is_file():
            raise Failure(f"{path} is missing, so there is no layer to load; install vk-pylayer again")
    if ":" in str(directory):
        raise Failure(f"{directory} has a colon in its name, which separates paths for the loader; move it")
    return str(directory)


def manifest_text(kind: str = "explicit") -> str:
    """Returns the manifest of an "explicit" or "implicit" layer, with the absolute path of this installation's library.

    Its file_format_version is 1.2.1, the first with library_arch: loaders of 32-bit programs then skip the layer
    without a message. Steam's containers skip layers of a later version (pressure-vessel, graphics-drivers-vulkan.c;
    1.2.1 since 0.20230418). Raises Failure if the installation is not complete.
    """
    document = json.loads(Path(manifest_directory(), MANIFEST_NAME).read_text(encoding="utf-8"))
    document["layer"]["library_path"] = str(library_path())
    document["layer"] |= SWITCHES if kind == "implicit" else {}
    return json.dumps(document, indent=4) + "\n"
