"""Files whose writers have ended: whoever finds one may fold or delete it."""

from __future__ import annotations

import os
import time

from . import owner
from .folder import Folder
from .journal import CLOSED, OPEN
from .reader import Reader


def journals_to_fold(folder: Folder) -> tuple[int, int]:
    """How many closed journals there are, and their bytes: whether a fold is worth its while."""
    count = size = 0
    for path in folder.files(None, (CLOSED,)):
        try:
            size += os.stat(path).st_size
            count += 1
        except OSError:
            pass  # another process folded it
    return count, size


def has_writer(path: str) -> bool:
    """Whether a process may still append to a file. One whose header cannot be read has none: a file has its
    header before it has its name. Raises OSError."""
    reader = Reader(path)
    try:
        header, outcome = reader.header()
    finally:
        reader.close()
    idle = time.time() - os.stat(path).st_mtime
    if header is None:
        return outcome == "foreign-version" and idle <= owner.FOREIGN_SECONDS
    return not owner.has_ended(header.machine, header.pid, header.start_ticks, idle)


def close_ended_journals(folder: Folder) -> int:
    """Gives journals whose writers have ended the name of closed ones; returns how many."""
    closed = 0
    for path in folder.files(None, (OPEN,)):
        try:
            if not has_writer(path):
                os.rename(path, path[: -len(OPEN)] + CLOSED)
                closed += 1
        except OSError:
            continue  # gone, or not ours to rename
    return closed
