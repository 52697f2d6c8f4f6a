"""Puts written records on the disk itself without keeping the policy thread from its messages.

fsync waits for the disk, for seconds if that is slow. One thread at a time does it for journals, and a process may end
at any moment of it.
"""

from __future__ import annotations

import _thread
import time

from ..common import file_kinds
from ..common.files import sync_file
from .journal import CLOSED, OPEN, Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..common.file_kinds import Kind
    from .folder import Folder


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
    """Puts one device's records on the disk. ``interval``: seconds, None for never. ``failed`` is called with the first
    failure, on any thread."""

    def __init__(self, interval: float | None, failed: Callable[[OSError], None]) -> None:
        self._interval = interval
        self._failed: Callable[[OSError], None] | None = failed
        self._last = time.monotonic()
        self._busy = _thread.allocate_lock()
        self._jobs: list[Callable[[], None]] = []

    def written(self, journal: Journal) -> None:
        """Call this after every write. It starts a sync if the interval has passed."""
        if self._interval is not None and time.monotonic() - self._last >= self._interval:
            self.start(journal)

    def start(self, journal: Journal) -> None:
        """Puts what was appended since the last call on the disk, and the name of a new journal."""
        if self._interval is None:
            return
        self._last = time.monotonic()
        path = journal.take_unsynced()
        if path is not None:
            directory = journal.take_new_directory()
            self._add(lambda: self._sync_journal(path, directory))

    def wait(self, seconds: float) -> None:
        """Waits until journals are on the disk, at most this many seconds."""
        if self._busy.acquire(timeout=seconds):
            self._busy.release()

    def _add(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        if self._busy.acquire(False):
            self._start_thread(self._in_thread)

    @staticmethod
    def _start_thread(function: Callable[[], None]) -> None:
        try:
            _thread.start_new_thread(function, ())
        except RuntimeError:  # no thread can be started
            function()

    def _in_thread(self) -> None:
        while True:
            try:
                self._work()
            finally:
                self._busy.release()
            # A job that was added while the lock was still held has no other thread to run it.
            if not self._jobs or not self._busy.acquire(False):
                return

    def _work(self) -> None:
        while self._jobs:
            self._do(self._jobs.pop(0))

    def _do(self, job: Callable[[], None]) -> None:
        try:
            job()
        except OSError as error:  # the write succeeded; what the disk makes of it shows when it is read
            failed, self._failed = self._failed, None
            if failed is not None:
                failed(error)

    @staticmethod
    def _sync_journal(path: str, directory: str | None) -> None:
        # If neither exists, a pack on the disk has the records, or the directory is gone, which the next write reports.
        for name in (path, path.removesuffix(OPEN) + CLOSED):
            try:
                sync_file(name)
                break
            except (FileNotFoundError, NotADirectoryError):
                continue
        if directory is not None:
            sync_file(directory)


class SyncedJournal:
    """A journal in an identity's folder, which it makes if it is missing. ``syncer`` puts on the disk what it has."""

    def __init__(
        self, folder: Folder, program: int, application: str, syncer: Syncer, kind: Kind = file_kinds.JOURNAL
    ) -> None:
        self._folder = folder
        self._syncer = syncer
        self._journal = Journal(folder.path, folder.identity, program, application, kind)

    @property
    def path(self) -> str | None:
        """The file to which records are appended, or None before the first."""
        return self._journal.path

    def append(self, parts: list[bytes | memoryview]) -> None:
        """Appends whole records, given as the pieces of ``format.record_parts``. Raises OSError."""
        if self._journal.path is None:
            self._folder.prepare()
        try:
            self._journal.append(parts)
        except FileNotFoundError:  # somebody deleted the folder: make it again, so that later records are stored
            self._folder.prepare()
            self._journal.append(parts)
        self._syncer.written(self._journal)

    def sync(self) -> None:
        """Starts to put what was appended on the disk, as the fsync policy wants it."""
        self._syncer.start(self._journal)

    def close(self) -> None:
        """Closes the journal. If the fsync policy wants a sync, it is done or in progress."""
        self.sync()
        self._journal.close()
