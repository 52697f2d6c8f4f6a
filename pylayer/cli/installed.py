"""Finds the layer's manifests in the directories that Vulkan loaders search, whoever installed them.

Loaders search these in order (loader, 'Layer Discovery' on Linux): the user's configuration, the system's (/etc), the
user's data, the system's data. The first manifest of a name and kind takes effect. If an explicit and an implicit
manifest have the same name, older loaders (1.3.239) use each for its own purpose: VK_INSTANCE_LAYERS does not find the
implicit one. Since about 1.4.326 (loader, 'Allow VK_INSTANCE_LAYERS to order implicit layers') loaders use the implicit
one for both; seen with 1.4.359.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from ..common.paths import _base
from . import layer_files
from .layer_files import MANIFEST_NAME
from .output import Failure

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
        return layer_files.build_id(Path(os.path.realpath(self.library)).parent) if self.library else ""

    @property
    def is_ours(self) -> bool:
        """Returns whether it leads to a layer of this command's build."""
        if self.build:
            return self.build == layer_files.build_id()
        return os.path.realpath(self.library) == os.path.realpath(layer_files.library_path())


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
    return str(layer_files.package_directory()).startswith("/usr/") and explicit is not None and explicit.is_ours


def state(manifest: Manifest) -> str:
    """Returns what a manifest leads to, as part of a sentence."""
    if manifest.is_ours:
        return "this build's layer"
    if not manifest.library:
        return "no library, because it cannot be read"
    if not os.path.exists(manifest.library):
        return f"a layer that is no longer there: {manifest.library}"
    build, own = manifest.build[: layer_files.SHORT], layer_files.build_id()[: layer_files.SHORT]
    where = (
        f"the layer of build {build}, and this command is of build {own}" if build else "another installation's layer"
    )
    return f"{where}: {manifest.library}"
