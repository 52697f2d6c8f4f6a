"""The check of ``pylayer doctor`` about the container that it runs in (docs/containers.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .checks import OK, WARNING, Check

PAGE = "docs/containers.md"

#: Files whose presence tells which container this is.
MARKS = (("/.flatpak-info", "flatpak"), ("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))
#: systemd's container interface. The first line of this file is the container manager's name.
MANAGER_FILE = "/run/host/container-manager"
#: File systems whose content is lost when the container is removed, or when the machine restarts.
OF_THE_CONTAINER, IN_MEMORY = ("overlay", "aufs", "fuse-overlayfs"), ("tmpfs", "ramfs")


def container(environment: Mapping[str, str], root: str = "") -> str:
    """Returns the name of the container manager whose container a process with this root directory and environment is
    in, or empty text outside of containers."""
    try:
        lines = Path(root + MANAGER_FILE).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = [""]
    found = lines[0].strip() or next((name for path, name in MARKS if os.path.exists(root + path)), "")
    # systemd's variable for the container manager is lower-case.
    return found or environment.get("container", "") or ("snap" if "SNAP" in environment else "")


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


def check_containers(root: str | None) -> list[Check]:
    """Checks whether the store outlives the container that doctor runs in."""
    name = container(os.environ)
    if not name:
        return []
    place, kind = file_system(root) if root else ("", "")
    own = place == "/" or kind in OF_THE_CONTAINER
    lost = "memory" if kind in IN_MEMORY else "the container's own file system" if own else ""
    if lost:
        advice = f"Mount a volume there, or set PYLAYER_STORE to one: {PAGE}."
        return [Check("container", WARNING, f"{name}: the store {root} is in {lost} and is lost with it", advice)]
    return [Check("container", OK, f"{name}: the store is not in the container's own file system")]
