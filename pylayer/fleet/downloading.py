"""Downloads one pack into a file, and continues what an earlier pull left of it.

One process at a time downloads from a URL into a store (``memory.turn``). Where a file system has no locks, two may
write to the same file. Its bytes are then not those of the index, and the next pull begins anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator

from ..common.file_kinds import PART
from ..common.files import entries_in, remove, remove_left_temporaries
from ..common.paths import open_in_store
from .backend import Backend, Denied
from .index import Pack
from .trust import Arriving, Untrusted

#: Unfinished downloads that nobody continued for this long are deleted.
PART_SECONDS = 7 * 24 * 3600
_COPY_BYTES = 1 << 20


class OutOfBudget(Exception):
    """The time or the bytes of a pull are used up. What is there stays, and the next pull continues."""


class Budget:
    """What a pull may take. ``clock`` is a monotonic clock in seconds."""

    def __init__(self, seconds: float, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._bytes = most_bytes

    def check(self) -> None:
        """Raises OutOfBudget if the time or the bytes are used up."""
        if self._clock() >= self._end:
            raise OutOfBudget("the time budget was used up (fleet.pull_seconds); the next pull continues")
        if self._bytes <= 0:
            raise OutOfBudget("the byte budget was used up (fleet.pull_mib); the next pull continues")

    def take(self, size: int) -> None:
        """Takes so many bytes, which have arrived."""
        self._bytes -= size


def download(backend: Backend, folder: str, identity: str, pack: Pack, budget: Budget) -> Generator[int, None, str]:
    """Downloads a pack, or the rest of it; yields the number of bytes as they arrive. Returns the path of a file in
    ``folder`` that has exactly the bytes that the index says. Raises Untrusted, Unavailable, OutOfBudget and OSError.
    """
    path, arriving = os.path.join(folder, f"{pack.sha256}{PART}"), Arriving(pack)
    budget.check()
    try:
        with open(open_in_store(path, os.O_RDWR | os.O_APPEND | os.O_CREAT), "ab+", buffering=0) as file:
            file.seek(0)
            while data := file.read(_COPY_BYTES):
                arriving.take(data)
                yield len(data)
            name = f"v1/{identity}/{pack.name}"
            for data in () if arriving.is_whole else backend.stream(name, arriving.size, pack.bytes):
                arriving.take(data)
                file.write(data)
                budget.take(len(data))
                yield len(data)
                if not arriving.is_whole:
                    budget.check()
        arriving.require_whole()
    except (Untrusted, Denied, OSError):  # wrong bytes, no way to continue, or a full disk
        remove(path)
        raise
    return path


def remove_left_parts(folder: str) -> None:
    """Deletes unfinished downloads that nobody continued, and temporary files of processes that have ended."""
    remove_left_temporaries(folder)
    now = time.time()
    for entry, status in entries_in(folder, PART):
        if now - status.st_mtime > PART_SECONDS:
            remove(entry.path)
