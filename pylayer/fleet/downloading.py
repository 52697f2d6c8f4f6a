"""Downloads one pack into a file, and continues what another process left of it.

Several downloads of a pack need no lock. Each process has a file of its own, and takes over an unfinished one only
after the process that made it has ended, by renaming it. The worst that can happen is that a pack is downloaded twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator

from ..common import owner
from ..common.file_kinds import PART
from ..common.files import remove, remove_left_temporaries
from ..common.paths import open_in_store
from .backend import Backend, NoRanges
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

    def check_time(self) -> None:
        """Raises OutOfBudget if the time is used up."""
        if self._clock() >= self._end:
            raise OutOfBudget("the time budget was used up (fleet.pull_seconds); the next pull continues")

    def take(self, size: int) -> None:
        """Takes so many bytes. Raises OutOfBudget if there are not as many left."""
        if size > self._bytes:
            raise OutOfBudget("the byte budget was used up (fleet.pull_mib); the next pull continues")
        self._bytes -= size


def download(backend: Backend, folder: str, identity: str, pack: Pack, budget: Budget) -> Generator[int, None, str]:
    """Downloads a pack, or the rest of it; yields the number of bytes as they arrive. Returns the path of a file in
    ``folder`` that has exactly the bytes that the index says. Raises Untrusted, Unavailable, OutOfBudget and OSError.
    """
    path, arriving = _take_over(folder, pack), Arriving(pack)
    try:
        yield from _reread(path, arriving)
        budget.take(pack.bytes - arriving.size)
        if not arriving.is_whole:
            yield from _append(backend, path, f"v1/{identity}/{pack.name}", pack, arriving, budget)
        arriving.require_whole()
    except (Untrusted, NoRanges, OSError):  # wrong bytes, no way to continue, or a full disk
        remove(path)
        raise
    return path


def _append(
    backend: Backend, path: str, name: str, pack: Pack, arriving: Arriving, budget: Budget
) -> Generator[int, None, None]:
    fd = open_in_store(path, os.O_WRONLY | os.O_APPEND)
    with open(fd, "ab", buffering=0) as file:
        for data in backend.stream(name, arriving.size, pack.bytes):
            arriving.take(data)
            file.write(data)
            yield len(data)
            budget.check_time()


def _take_over(folder: str, pack: Pack) -> str:
    """Returns the path of a file for a pack's bytes: what an ended process left of them, or a new, empty one."""
    path = os.path.join(folder, f"{pack.sha256}.{owner.maker()}{PART}")
    for name in os.listdir(folder):
        if name.startswith(f"{pack.sha256}.") and name.endswith(PART):
            maker = name.removesuffix(PART).partition(".")[2]
            try:
                idle = time.time() - os.lstat(os.path.join(folder, name)).st_mtime
                if owner.maker_has_ended(maker, idle):
                    os.rename(os.path.join(folder, name), path)
                    return path
            except FileNotFoundError:
                continue  # another process was faster
    os.close(open_in_store(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    return path


def _reread(path: str, arriving: Arriving) -> Generator[int, None, None]:
    """Adds the bytes of a file to what arrived."""
    with open(open_in_store(path), "rb") as file:
        while data := file.read(_COPY_BYTES):
            arriving.take(data)
            yield len(data)


def remove_left_parts(folder: str) -> None:
    """Deletes unfinished downloads that nobody continued, and temporary files of processes that have ended."""
    remove_left_temporaries(folder)
    now = time.time()
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            idle = now - os.lstat(path).st_mtime
        except FileNotFoundError:
            continue
        if name.endswith(PART) and idle > PART_SECONDS:
            remove(path)
