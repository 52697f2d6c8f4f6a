"""The end of ``pylayer run --summary``: what the program did under the layer, or why nothing is known of it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping

from .environment import obstacles
from .output import fail

#: Programs that start others in containers, which have manifests and a store of their own.
CONTAINERS = ("flatpak", "snap", "docker", "podman")
#: How the file of a 32-bit program begins.
ELF_32 = b"\x7fELF\x01"


def of_file(path: str) -> str:
    """Returns why the layer does nothing in a program with this file; empty text if the file does not tell."""
    name = os.path.basename(path)
    if os.path.basename(os.path.realpath(path)) in CONTAINERS:
        return f"{name} starts programs in a container, which needs the layer and a store inside: docs/containers.md"
    try:
        elevated = os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID)
        if elevated or "security.capability" in os.listxattr(path):
            return f"{name} has elevated privileges, with which the layer does nothing"
        with open(path, "rb") as file:
            if file.read(len(ELF_32)) == ELF_32:
                return f"{name} is a 32-bit program, for which there is no layer"
    except OSError:
        pass
    return ""


def _why_nothing(command: str, environment: Mapping[str, str]) -> str:
    from .status import why_off

    path, name = shutil.which(command) or command, os.path.basename(command)
    for found, _ in obstacles(environment):
        return found
    if found := of_file(path):
        return found
    nothing = f"nothing that {name} started created a Vulkan device under the layer"
    if off := why_off(name, name, None):
        return f"{nothing}, and {off}"
    return (
        "the program created no Vulkan device under the layer, a process that was already running started it, or the "
        "store cannot be written"
    )


def print_summary(root: str | None, session: str, command: str, environment: Mapping[str, str]) -> None:
    """Prints the table of the runs of processes that got ``session`` in their environment, on standard error."""
    from ..report import recorded
    from ..report.rows import programs
    from . import processes
    from .stats import print_tables

    found = [run for run in recorded.read(root) if run.session == session] if root else []
    if found:
        print_tables(programs(found), stderr=True)
    name = os.path.basename(shutil.which(command) or command)
    alive = [process for process in processes.of_session(session) if process.has_layer or not found]
    if alive:
        others = f", and {len(alive) - 1} more" if len(alive) > 1 else ""
        fail(
            f"{name} has ended, and what it started still runs: {alive[0].name} (pid {alive[0].pid}){others}; "
            "pylayer stats --last shows its run once it has ended"
        )
    elif not found:
        why = _why_nothing(command, environment)
        fail(f"nothing was recorded: {why}; pylayer doctor {name} and pylayer run --log info show more")
