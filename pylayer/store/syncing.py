"""Puts written records on the disk itself without keeping the policy thread from its messages.

fsync waits for the disk, for seconds if that is slow. One thread at a time does it for journals, and a process may end
at any moment of it.
"""

from __future__ import annotations

import _thread
import time

from ..common.file_kinds import CLOSED, JOURNAL
from ..common.files import sync_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def fsync_in_steps(path: str) -> Iterator[None]:
    """Runs fsync on a file or directory in another thread; yields about every millisecond until it is done. Raises
    OSError. If the caller stops early, the fsync goes on by itself."""
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
    except RuntimeError:  # no thread can be started
        in_thread()
    while not done.acquire(timeout=0.001):
        yield
    if errors:
        raise errors[0]


class Syncer:
    """Puts one device's records on the disk, at most once in ``interval`` seconds. ``failed`` is called with the first
    failure, on any thread."""

    def __init__(self, interval: float, failed: Callable[[OSError], None]) -> None:
        self._interval = interval
        self._failed: Callable[[OSError], None] | None = failed
        self._last = time.monotonic()
        self._busy = _thread.allocate_lock()
        #: Files and directories that were written to since the last sync, and those that are being put on the disk.
        self._written: list[str] = []
        self._syncing: list[str] = []

    def written(self, *paths: str) -> None:
        """Call this after every write, with the journal and the directory of a new one. It starts a sync if the
        interval has passed."""
        self._written += [path for path in paths if path not in self._written]
        if time.monotonic() - self._last >= self._interval:
            self.start()

    def start(self) -> None:
        """Puts what was written since the last call on the disk."""
        self._last = time.monotonic()
        written, self._written = self._written, []
        self._syncing += written
        if self._syncing and self._busy.acquire(False):
            try:
                _thread.start_new_thread(self._in_thread, ())
            except RuntimeError:  # no thread can be started
                self._in_thread()

    def wait(self, seconds: float) -> None:
        """Waits until journals are on the disk, at most this many seconds."""
        if self._busy.acquire(timeout=seconds):
            self._busy.release()

    def _in_thread(self) -> None:
        while True:
            try:
                while self._syncing:
                    self._sync(self._syncing.pop(0))
            finally:
                self._busy.release()
            # What was added while the lock was still held has no other thread.
            if not self._syncing or not self._busy.acquire(False):
                return

    def _sync(self, path: str) -> None:
        # If neither exists, a pack on the disk has the records, or the directory is gone, which the next write reports.
        for name in (path, path.removesuffix(JOURNAL) + CLOSED):
            try:
                sync_file(name)
                return
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:  # the write succeeded; what the disk makes of it shows when it is read
                failed, self._failed = self._failed, None
                if failed is not None:
                    failed(error)
                return
