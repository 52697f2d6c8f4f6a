"""The checks of ``pylayer doctor`` about containers: the one that it runs in, and those that programs run in.

docs/containers.md says which rules were tried and which were only read; each rule here comes from there.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..common.files import names_in
from ..common.paths import _base
from . import installed, layer_files
from .checks import OK, WARNING, Check

PAGE = "docs/containers.md"

#: Files whose presence tells which container this is.
MARKS = (("/.flatpak-info", "flatpak"), ("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))
#: systemd's container interface. The first line of this file is the container manager's name.
MANAGER_FILE = "/run/host/container-manager"
#: File systems whose content is lost when the container is removed, or when the machine restarts.
OF_THE_CONTAINER, IN_MEMORY = ("overlay", "aufs", "fuse-overlayfs"), ("tmpfs", "ramfs")

#: Host directories that Steam's containers show at the same path (pressure-vessel, docs/shared-paths.md), besides the
#: home.
STEAM_SHARES = ("/home", "/opt", "/srv", "/mnt", "/media", "/run/media", "/tmp", "/var/tmp", "/nix", "/gnu/store")
STEAM_PLACES = (".steam", ".local/share/Steam")
FLATPAK_EXTENSION, FLATPAK_SYSTEM = "org.freedesktop.Platform.VulkanLayer.pylayer", "/var/lib/flatpak"
STEAM_FLATPAK, STEAM_SNAP = ".var/app/com.valvesoftware.Steam", "snap/steam"


def container() -> str:
    """Returns the name of the container manager whose container this process is in, or empty text outside of
    containers."""
    try:
        lines = Path(MANAGER_FILE).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = [""]
    found = lines[0].strip() or next((name for path, name in MARKS if os.path.exists(path)), "")
    # systemd's variable for the container manager is lower-case.
    return found or os.environ.get("container", "") or ("snap" if "SNAP" in os.environ else "")  # noqa: SIM112


def file_system(path: str) -> tuple[str, str]:
    """Returns the mount point and the type of the file system that holds ``path``, or would hold it. Both are empty if
    unknown."""
    path = os.path.realpath(path)
    best, kind = "", ""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return "", ""
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields = before.split()
        if not separator or len(fields) < 5:
            continue
        place = fields[4].encode("latin-1", "replace").decode("unicode_escape", "replace")  # \040 is a space
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, after.split()[0]
    return best, kind


def _below(path: str, places: tuple[str, ...]) -> bool:
    return any(path.startswith(f"{place}/") for place in places if place)


def check_container(root: str | None) -> list[Check]:
    """Checks whether the store outlives the container that doctor runs in."""
    name = container()
    if not name:
        return []
    place, kind = file_system(root) if root else ("", "")
    own = place == "/" or kind in OF_THE_CONTAINER
    lost = "memory" if kind in IN_MEMORY else "the container's own file system" if own else ""
    if lost:
        advice = f"Mount a volume there, or set PYLAYER_STORE to one: {PAGE}."
        return [Check("container", WARNING, f"{name}: the store {root} is in {lost} and is lost with it", advice)]
    return [Check("container", OK, f"{name}: the store is not in the container's own file system")]


def check_steam(root: str | None) -> list[Check]:
    """Checks whether Steam's games, which run in containers of their own, can use the layer."""
    home = os.path.expanduser("~")
    checks = []
    if any(os.path.isdir(f"{home}/{place}") for place in STEAM_PLACES):
        package = str(layer_files.package_directory())
        is_in_usr = package.startswith("/usr/")
        if is_in_usr and not installed.is_installed_in_usr():
            found = f"its games see {package} at another path, and no manifest leads there"
            checks.append(Check("steam", WARNING, found, "Run pylayer install --system as root."))
        elif not is_in_usr and not _below(package, (*STEAM_SHARES, home)):
            found = f"its games do not see this installation: {package} is not shared with their containers"
            where = "/" + package.split("/")[1]
            advice = f"Install it below your home, or add PRESSURE_VESSEL_FILESYSTEMS_RO={where} to the launch options."
            checks.append(Check("steam", WARNING, found, advice))
        elif root and not _below(root + "/", (*STEAM_SHARES, home)):
            advice = "Use a store below your home."
            checks.append(Check("steam", WARNING, f"its games do not see the store {root}", advice))
        else:
            checks.append(Check("steam", OK, "its games see this installation: pylayer run -- %command%"))
    if os.path.isdir(f"{home}/{STEAM_SNAP}"):
        advice = f"This is untested: {PAGE}."
        checks.append(Check("steam", WARNING, "the snap of Steam does not see this installation", advice))
    return checks


def _extensions() -> list[tuple[str, str]]:
    """Returns the runtime versions for which the layer's Flatpak extension is installed, with the build id of each."""
    found = []
    for place in (f"{_base('XDG_DATA_HOME', '.local/share')}/flatpak", FLATPAK_SYSTEM):
        for package in sorted(Path(place).glob(f"runtime/{FLATPAK_EXTENSION}/*/*/active/files/lib/pylayer")):
            found.append((package.parents[3].name, layer_files.build_id(package)))
    return found


def check_flatpak() -> list[Check]:
    """Checks for Flatpak. Its programs, Steam among them, see only the layer of an extension."""
    home = os.path.expanduser("~")
    programs = names_in(f"{home}/.var/app")
    if not programs or container() == "flatpak":
        return []
    example = os.path.basename(STEAM_FLATPAK) if os.path.isdir(f"{home}/{STEAM_FLATPAK}") else programs[0]
    extensions = _extensions()
    if not extensions:
        found = "its programs do not see this installation, and pylayer run does not work for them"
        return [Check("flatpak", OK, found, f"{PAGE} has the commands that give the layer to {example}.")]
    versions = ", ".join(version for version, _ in extensions)
    if any(build != layer_files.build_id() for _, build in extensions):
        found = f"the layer's extension for the runtimes {versions} is of another build than this command"
        return [Check("flatpak", WARNING, found, f"Build and install it again: {PAGE}.")]
    found = f"programs on the Freedesktop runtimes {versions} have the layer in an extension"
    return [Check("flatpak", OK, found, f"Enable it: flatpak override --user --env=ENABLE_PYLAYER=1 {example}")]


def check_containers(root: str | None) -> list[Check]:
    """Returns the checks of containers that have something to report."""
    return [*check_container(root), *check_steam(root), *check_flatpak()]
