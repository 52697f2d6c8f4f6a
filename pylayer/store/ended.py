"""Finds files whose writers have ended. Any process may fold or delete such a file."""

from __future__ import annotations

import os
import time

from ..common import owner
from .folder import Folder
from .journal import CLOSED, OPEN
from .reader import Reader

#: What earlier builds called files of state. A fold reads them as closed journals.
EARLIER = (".objects", ".objectpack")


def has_writer(path: str) -> bool:
    """Returns whether a process may still append to a file. Returns False if the header cannot be read, because a file
    gets its header before its name; a recently written file of another version is the exception. Raises OSError."""
    header, outcome = Reader(path).header()
    idle = time.time() - os.stat(path).st_mtime
    if header is None:
        return outcome == "foreign-version" and idle <= owner.FOREIGN_SECONDS
    return not owner.has_ended(header.process, idle)


def may_have_writer(path: str) -> bool:
    """As ``has_writer``. Returns True for a file that is gone or cannot be read: it is not to be folded or deleted."""
    try:
        return has_writer(path)
    except OSError:
        return True


def close_ended_journals(folder: Folder, program: int | None) -> int:
    """Renames journals whose writers have ended to closed ones, of one program or of all with ``program`` None; returns
    how many."""
    closed = 0
    for path in folder.files(program, (OPEN, *EARLIER)):
        try:
            if not has_writer(path):
                os.rename(path, os.path.splitext(path)[0] + CLOSED)
                closed += 1
        except OSError:
            continue  # gone, or not ours to rename
    return closed
