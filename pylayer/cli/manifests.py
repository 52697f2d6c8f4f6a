"""The layer's library, and the manifests that lead loaders to it: this installation's own, and those that loaders find,
whoever installed them.

Loaders search these in order (loader, 'Layer Discovery' on Linux): the user's configuration, the system's (/etc), the
user's data, the system's data. The first manifest of a name and kind takes effect. If an explicit and an implicit
manifest have the same name, loaders before 1.3.262 use each for its own purpose: VK_INSTANCE_LAYERS does not find the
implicit one. Newer loaders use the implicit one for both (loader_add_environment_layers); seen with 1.3.275, 1.4.304,
1.4.309, 1.4.321 and 1.4.359.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pylayer

from ..common.paths import _base
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


EXPLICIT, IMPLICIT = KINDS = ("explicit", "implicit")

#: ``--system`` installs below this directory. A loader searches it after the user's own directories, so a user's choice
#: takes precedence. /etc/vulkan would be searched first; /usr/share is for the distribution's packages.
SYSTEM_PREFIX = Path("/usr/local")
#: The loader's own defaults, and the directory that it was built with (SYSCONFDIR).
SYSTEM_CONFIG, SYSTEM_DATA, SYSCONFDIR = "/etc/xdg", "/usr/local/share:/usr/share", "/etc"


@dataclass(frozen=True)
class Manifest:
    """A manifest that names the layer, and the library that it leads to. The library is empty if it leads to none."""

    path: Path
    kind: str
    library: str

    @property
    def build(self) -> str:
        """Returns the build id of the layer that it leads to; empty text if that is not known."""
        return build_id(Path(os.path.realpath(self.library)).parent) if self.library else ""

    @property
    def is_ours(self) -> bool:
        """Returns whether it leads to a layer of this command's build."""
        if self.build:
            return self.build == build_id()
        return os.path.realpath(self.library) == os.path.realpath(library_path())


def manifest_path(base: Path, kind: str) -> Path:
    """Returns the path of a manifest of a kind below a data directory."""
    return base / "vulkan" / f"{kind}_layer.d" / MANIFEST_NAME


def make_directory(path: Path, system: bool) -> None:
    """Creates a directory and its parents. With ``system``, everybody can read them. Raises OSError."""
    if path.is_dir():
        return
    make_directory(path.parent, system)
    path.mkdir(exist_ok=True)
    if system:
        path.chmod(0o755)


def user_data() -> Path:
    """Returns the user's data directory. Raises Failure without a home directory."""
    base = _base("XDG_DATA_HOME", ".local/share")
    if base is None:
        raise Failure("neither XDG_DATA_HOME nor HOME is an absolute path, so there is no data directory; set one")
    return Path(base)


def _places() -> list[str]:
    """Returns the directories that loaders search, in search order, without unset ones."""
    places = [
        _base("XDG_CONFIG_HOME", ".config") or "",
        *(os.environ.get("XDG_CONFIG_DIRS") or SYSTEM_CONFIG).split(":"),
        SYSCONFDIR,
        _base("XDG_DATA_HOME", ".local/share") or "",
        *(os.environ.get("XDG_DATA_DIRS") or SYSTEM_DATA).split(":"),
    ]
    return [place for place in dict.fromkeys(places) if place]


def _read(path: Path, kind: str) -> Manifest | None:
    """Reads a manifest of the layer, whose library is empty if that cannot be read. Returns None if there is none."""
    try:
        library = str(json.loads(path.read_bytes())["layer"]["library_path"])
    except (OSError, ValueError, TypeError, KeyError):
        return Manifest(path, kind, "") if os.path.lexists(path) else None
    # The dynamic linker searches for a library without a directory in its name.
    return Manifest(path, kind, os.path.normpath(path.parent / library) if "/" in library else library)


def find() -> list[Manifest]:
    """Returns all manifests of the layer that loaders find while no variable changes where they search, in the order of
    precedence. One that somebody gave another file name is not found."""
    paths = [(manifest_path(Path(place), kind), kind) for kind in KINDS for place in _places()]
    return [manifest for path, kind in paths if (manifest := _read(path, kind))]


def in_force(found: list[Manifest], kind: str) -> Manifest | None:
    """Returns the manifest of a kind that takes effect."""
    return next((manifest for manifest in found if manifest.kind == kind), None)


def is_installed_in_usr() -> bool:
    """Returns whether this package is in /usr, and loaders find it by its name."""
    explicit = in_force(find(), EXPLICIT)
    return str(package_directory()).startswith("/usr/") and explicit is not None and explicit.is_ours


def state(manifest: Manifest) -> str:
    """Returns what a manifest leads to, as part of a sentence."""
    if manifest.is_ours:
        return "this build's layer"
    if not manifest.library:
        return "no library, because it cannot be read"
    if not os.path.exists(manifest.library):
        return f"a layer that is no longer there: {manifest.library}"
    build, own = manifest.build[:SHORT], build_id()[:SHORT]
    where = (
        f"the layer of build {build}, and this command is of build {own}" if build else "another installation's layer"
    )
    return f"{where}: {manifest.library}"
