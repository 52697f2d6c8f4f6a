"""Putting written records on the disk itself, without keeping the policy thread from its messages.

fdatasync waits for the disk, for seconds where that is slow. One thread at a time does it; it holds nothing but a
descriptor of its own, and a process may end at any moment of it.
"""

from __future__ import annotations

import _thread
import os
import time

from .journal import Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def fsync_in_steps(fd: int) -> Iterator[None]:
    """fsync of a file, elsewhere; steps of a millisecond until it is done. Raises OSError. A caller that ends before
    leaves it to itself."""
    own = os.dup(fd)
    errors: list[OSError] = []
    done = _thread.allocate_lock()
    done.acquire()

    def in_thread() -> None:
        try:
            os.fsync(own)
        except OSError as error:
            errors.append(error)
        finally:
            os.close(own)
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
    """The fsync policy of one device's journal. ``interval``: seconds, 0 for each write, None for never. ``failed`` is
    told of the first failure, on whatever thread."""

    def __init__(self, interval: float | None, failed: Callable[[OSError], None]) -> None:
        self._interval = interval
        self._failed: Callable[[OSError], None] | None = failed
        self._last = time.monotonic()
        self._busy = _thread.allocate_lock()

    def written(self, journal: Journal) -> None:
        """Called after every write."""
        if self._interval is None:
            return
        if self._interval == 0:
            self._sync(journal.duplicate_descriptor())
        elif time.monotonic() - self._last >= self._interval:
            self.start(journal)

    def start(self, journal: Journal) -> None:
        """Syncs what was written since the last time, elsewhere; nothing where that is under way or switched off."""
        if self._interval is None or not self._busy.acquire(False):
            return
        self._last = time.monotonic()
        fd = journal.duplicate_descriptor()
        if fd < 0:
            self._busy.release()
            return
        try:
            _thread.start_new_thread(self._in_thread, (fd,))
        except RuntimeError:  # no thread to be had
            self._in_thread(fd)

    def _in_thread(self, fd: int) -> None:
        try:
            self._sync(fd)
        finally:
            self._busy.release()

    def _sync(self, fd: int) -> None:
        if fd < 0:
            return
        try:
            os.fdatasync(fd)
        except OSError as error:  # the write itself succeeded; what the disk does with it shows when it is read
            failed, self._failed = self._failed, None
            if failed is not None:
                failed(error)
        finally:
            os.close(fd)
