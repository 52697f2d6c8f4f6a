"""Names of programs: as the layer gives them to processes, and as people write them."""

from __future__ import annotations

import os
import re

#: The loader of Wine, as wine64-preloader. It runs Windows programs in its own process.
_WINE = re.compile(rb"wine(?:loader.*|[-0-9.].*)?", re.DOTALL)
#: Interpreters that run a script or another program. A version may follow the name.
_INTERPRETER = re.compile(
    rb"(?:python|pypy|ld-linux|ld-musl|qemu-(?!system)).*|(?:javaw?|lua(?:jit)?|node(?:js)?|perl|ruby)[-0-9.]*",
    re.DOTALL,
)
_DELETED = b" (deleted)"
#: A Windows program, with the loader of Wine before it and the application behind it.
_WINDOWS = re.compile(
    r"(?-i:wine(?:loader\S*|[-0-9.]\S*)? )?(?:.*[\\/])?(?P<name>[^\\/]+?\.exe)(?P<application> \(.*)?",
    re.DOTALL | re.IGNORECASE,
)


def _base(path: bytes) -> bytes:
    """Returns what follows the last slash of either kind."""
    return path[max(path.rfind(b"/"), path.rfind(b"\\")) + 1 :]


def _is_wine(name: bytes) -> bool:
    return _WINE.fullmatch(name) is not None and not name.lower().endswith(b".exe")


def _program_in(line: bytes) -> bytes:
    """Returns the name of the file that a line of /proc/PID/maps maps as a program: from its first byte, and private.
    Returns no bytes for all other lines."""
    parts = line.split(None, 5)
    if len(parts) < 6 or parts[1][3:] != b"p" or parts[2].strip(b"0") or not parts[5].startswith(b"/"):
        return b""
    name = parts[5].rpartition(b"/")[2].removesuffix(_DELETED)
    return name[:-3] if name.lower().endswith(b".exe.so") else name


def _windows(executable: bytes, arguments: list[bytes], maps: str) -> bytes:
    """Returns the name of a Windows program, or no bytes if this is none."""
    wine, called = _is_wine(executable), b""
    for argument in map(_base, arguments):
        if not _is_wine(argument) and not argument.startswith(b"-"):
            called = argument
        elif not wine:
            break
        if called:
            break
    if not wine and not called.lower().endswith(b".exe"):
        return b""
    found = b""
    try:
        with open(maps, "rb") as file:
            for name in map(_program_in, file.read().split(b"\n")):
                if name and name.lower() == called.lower():
                    return name
                if not found and name.lower().endswith(b".exe"):
                    found = name
    except OSError:
        pass
    return found or (called if wine else b"")


def program_name(executable: bytes, command_line: bytes, maps: str) -> bytes:
    """Returns the name that shim/layer/process/program_name.c gives a process: see its header."""
    arguments = command_line.removesuffix(b"\0").split(b"\0") if command_line else []
    if found := _windows(executable, arguments, maps):
        return found
    if _INTERPRETER.fullmatch(executable):
        for argument in arguments[1:]:
            if argument in (b"-c", b"-e"):
                return executable + b" " + argument
            if argument and not argument.startswith(b"-"):
                return executable + b" " + _base(argument)
    return executable


def of_process(pid: int) -> str:
    """Returns the name that the layer gives a process. Raises OSError."""
    executable = _base(os.readlink(f"/proc/{pid}/exe".encode()).removesuffix(_DELETED))
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return os.fsdecode(program_name(executable, file.read(), f"/proc/{pid}/maps"))


def without_loader(executable: str) -> str:
    """Returns how rules name an executable that a user or an older version named: a Windows program is named by its
    .exe alone."""
    match = _WINDOWS.fullmatch(executable)
    return match["name"] if match and not match["application"] else executable


def executable_in(title: str) -> str:
    """Returns the part of a program's name for people that is the executable."""
    match = _WINDOWS.fullmatch(title)
    return match["name"] if match else title.partition(" (")[0]


def comparable(name: str) -> str:
    """Returns a name such that equal names mean one program: a Windows program may be written in any case, with its
    path, and with the loader of Wine before it."""
    match = _WINDOWS.fullmatch(name)
    return match["name"].lower() + (match["application"] or "") if match else name
