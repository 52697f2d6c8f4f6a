"""Putting written records on the disk itself, without keeping the policy thread from its messages.

fsync waits for the disk, for seconds if that is slow. One thread at a time does it, and a process may end at any moment
of it.
"""

from __future__ import annotations

import _thread
import os
import time

from .files import remove, sync_file
from .journal import CLOSED, OPEN, Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def fsync_in_steps(path: str) -> Iterator[None]:
    """fsync of a file or directory, elsewhere; steps of a millisecond until it is done. Raises OSError. A caller that
    ends before leaves it to itself."""
    errors: list[OSError] = []
    done = _thread.allocate_lock()
    done.acquire()

    def in_thread() -> None:
        try:
            sync_file(path)
        except OSError as error:
            errors.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(in_thread, ())
    except RuntimeError:  # no thread to be had
        in_thread()
    while not done.acquire(timeout=0.001):
        yield
    if errors:
        raise errors[0]


class Syncer:
    """The fsync policy of one device. ``interval``: seconds, 0 for each write, None for never. ``failed`` is told of
    the first failure, on whatever thread."""

    def __init__(self, interval: float | None, failed: Callable[[OSError], None]) -> None:
        self._interval = interval
        self._failed: Callable[[OSError], None] | None = failed
        self._last = time.monotonic()
        self._busy = _thread.allocate_lock()
        self._jobs: list[Callable[[], None]] = []

    def written(self, journal: Journal) -> None:
        """Called after every write."""
        if self._interval is not None and time.monotonic() - self._last >= self._interval:
            self.start(journal)

    def start(self, journal: Journal) -> None:
        """Puts what was appended since the last time on the disk, and a new journal's name."""
        if self._interval is None:
            return
        self._last = time.monotonic()
        path = journal.take_unsynced()
        if path is not None:
            directory = journal.take_new_directory()
            self._add(lambda: self._sync_journal(path, directory))

    def replaced(self, path: str, older: list[str]) -> None:
        """A file that was written whole takes the place of older ones: these go when it is on the disk, else a power
        failure could take both."""
        if self._interval is None:
            _delete(older)
        elif self._interval == 0:
            self._do(lambda: self._sync_file(path, older))
        else:  # in a thread of its own: it may be large, and journals do not wait for it
            self._start_thread(lambda: self._do(lambda: self._sync_file(path, older)))

    def wait(self, seconds: float) -> None:
        """Until journals are on the disk, at most so long. Nobody need wait for whole files: what they replace is
        still there."""
        if self._busy.acquire(timeout=seconds):
            self._busy.release()

    def _add(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        if self._interval == 0:
            self._work()
        elif self._busy.acquire(False):
            self._start_thread(self._in_thread)

    @staticmethod
    def _start_thread(function: Callable[[], None]) -> None:
        try:
            _thread.start_new_thread(function, ())
        except RuntimeError:  # no thread to be had
            function()

    def _in_thread(self) -> None:
        while True:
            try:
                self._work()
            finally:
                self._busy.release()
            # One that was added while the lock was still held has nobody else to do it.
            if not self._jobs or not self._busy.acquire(False):
                return

    def _work(self) -> None:
        while self._jobs:
            self._do(self._jobs.pop(0))

    def _do(self, job: Callable[[], None]) -> None:
        try:
            job()
        except OSError as error:  # the write itself succeeded; what the disk does with it shows when it is read
            failed, self._failed = self._failed, None
            if failed is not None:
                failed(error)

    @staticmethod
    def _sync_journal(path: str, directory: str | None) -> None:
        for name in (path, path.removesuffix(OPEN) + CLOSED):  # what is in neither is in a pack, which is on the disk
            try:
                sync_file(name)
                break
            except FileNotFoundError:
                continue
        if directory is not None:
            sync_file(directory)

    @staticmethod
    def _sync_file(path: str, older: list[str]) -> None:
        sync_file(path)
        sync_file(os.path.dirname(path))
        _delete(older)


def _delete(paths: list[str]) -> None:
    for path in paths:
        remove(path)  # another process deleted it, or it stays and is found again
