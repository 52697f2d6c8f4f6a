"""Names of programs as people write them. shim/layer/process/program_name.c names processes."""

from __future__ import annotations

import re

#: A Windows program, with the loader of Wine before it and the application behind it.
_WINDOWS = re.compile(
    r"(?-i:wine(?:loader\S*|[-0-9.]\S*)? )?(?:.*[\\/])?(?P<name>[^\\/]+?\.exe)(?P<application> \(.*)?",
    re.DOTALL | re.IGNORECASE,
)


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
