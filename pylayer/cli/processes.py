"""Running processes that may be a program of the user's: what /proc says of them.

A game that Steam starts has the environment that Steam gave it, which nobody can see from a shell. /proc can show it to
the process's owner.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator

from ..common.program_name import comparable
from ..report.recorded import is_named
from .layer_files import LIBRARY_NAME, library_path

#: The C library of a Vulkan program: a process without it has not used Vulkan yet.
LOADER = "libvulkan.so"
#: The layer cuts longer names (shim/layer/process/program_name.h).
NAME_ROOM = 8192


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()


def program_name(process: str) -> str:
    """Returns the name that the layer gives a process. ``process``: its directory in /proc. Raises OSError."""
    name = ctypes.create_string_buffer(NAME_ROOM)
    if ctypes.CDLL(str(library_path())).pylayer_program_name(name, process.encode()) != 0:
        raise FileNotFoundError(process)
    return name.value.decode("utf-8", "replace")


def _names(pid: int) -> list[str]:
    """Returns the names that people may have for a process, the layer's first: then that of a script, and what the
    process calls itself. Raises OSError."""
    name = program_name(f"/proc/{pid}")
    executable = os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)"))
    called = os.path.basename(os.fsdecode(_read(pid, "cmdline").partition(b"\0")[0]))
    return [one for one in (name, name.removeprefix(f"{executable} "), called, executable) if one]


class Process:
    """A running process of this user. What /proc did not tell is None."""

    def __init__(self, pid: int, name: str) -> None:
        self.pid = pid
        self.name = name
        self.environment: dict[str, str] | None = None
        self.has_layer: bool | None = None
        self.has_vulkan: bool | None = None
        try:
            maps = _read(pid, "maps").decode("utf-8", "replace")
            self.has_layer, self.has_vulkan = LIBRARY_NAME in maps, LOADER in maps
            entries = (entry.partition("=") for entry in os.fsdecode(_read(pid, "environ")).split("\0"))
            self.environment = {name: value for name, equals, value in entries if equals}
        except OSError:
            pass  # it has ended, or does not let itself be looked at


def _pids() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            try:
                if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                    yield int(name)
            except OSError:
                continue  # it has ended


def _processes(takes: Callable[[int, list[str]], bool]) -> list[Process]:
    """Returns this user's processes that ``takes`` selects by number and names. Those that use Vulkan come first."""
    found = []
    for pid in _pids():
        try:
            names = _names(pid)
            if takes(pid, names):
                found.append(Process(pid, names[0]))
        except OSError:
            continue  # it has ended, is a thread of the kernel, or does not let itself be looked at
    return sorted(found, key=lambda one: (not one.has_layer, not one.has_vulkan, one.pid))


def running(wanted: str, executables: set[str]) -> list[Process]:
    """Returns the processes that a person means by a name, or that run one of these executables."""
    known = {comparable(executable) for executable in executables}
    return _processes(lambda _, names: any(comparable(name) in known or is_named(wanted, name, 0) for name in names))


def of_session(session: str) -> list[Process]:
    """Returns the processes that were started with a ``PYLAYER_SESSION``."""
    variable = f"PYLAYER_SESSION={session}".encode()
    return _processes(lambda pid, _: variable in _read(pid, "environ").split(b"\0"))
