"""Writes to one device's folder: appends to its journal, syncs it to the disk, and logs write errors."""

from __future__ import annotations

import time

from ..store.journal import Journal
from ..store.syncing import Syncer
from ..values import LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..common.identity import Identity
    from ..store.folder import Folder

#: After a failed write, storing pauses for this long. Cells of that time are counted as lost.
RETRY_SECONDS = 10.0
#: Longest wait of vkDestroyDevice and exit() for the disk.
CLOSE_SYNC_SECONDS = 0.5


class JournalWriter:
    """The journal of one device. ``folder`` is None without a store, or if the store is read-only.
    ``fsync_interval_ms``: as in the policy file."""

    def __init__(
        self,
        folder: Folder | None,
        identity: Identity,
        program_id: int,
        program_name: str,
        fsync_interval_ms: int | None,
        log: Callable[[int, str], None],
    ) -> None:
        self._folder = folder
        self._identity = identity
        self._program_id = program_id
        self._program_name = program_name
        self._log = log
        self._journal: Journal | None = None
        self._retry_at = 0.0
        #: Failures of the store that were already logged.
        self.failures_said: set[str] = set()
        self.errors = 0
        self.syncer = Syncer(None if fsync_interval_ms is None else fsync_interval_ms / 1000, self._sync_failed)

    @property
    def paused(self) -> bool:
        """Whether a write failed less than ``RETRY_SECONDS`` ago. Nothing is written until then."""
        return time.monotonic() < self._retry_at

    def write(self, parts: list[bytes | memoryview]) -> bool:
        """Appends the pieces of whole records to the journal in one write. Returns False if they were not stored."""
        if self._folder is None or self.paused:
            return False
        try:
            try:
                self.append(parts)
            except FileNotFoundError:  # somebody deleted the folder: make it again, so that later records are stored
                self.append(parts)
            return True
        except OSError as error:
            self.failed(error)
            return False

    def append(self, parts: list[bytes | memoryview]) -> None:
        """Like ``write``, but tries once and logs nothing. Raises OSError; the next call then begins a new journal."""
        assert self._folder is not None
        try:
            if self._journal is None:
                self._folder.prepare()
                self._journal = Journal(self._folder.path, self._identity, self._program_id, self._program_name)
            self._journal.append(parts)
        except OSError:
            self._journal = None
            raise
        self.syncer.written(self._journal)

    def failed(self, error: OSError) -> None:
        """Counts a write error, logs the first one, and pauses storing."""
        assert self._folder is not None
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self.errors += 1
        if self.is_first("write"):
            self._log(
                LOG_WARN,
                f"pipelines cannot be stored in {self._folder.path}: {error.strerror or error}; "
                "the program goes on, and storing is tried again",
            )

    def is_first(self, failure: str) -> bool:
        """Returns whether this failure was not logged yet, and marks it as logged."""
        first = failure not in self.failures_said
        self.failures_said.add(failure)
        return first

    def _sync_failed(self, error: OSError) -> None:
        assert self._folder is not None
        self._log(
            LOG_WARN,
            f"the data stored in {self._folder.path} may not be on the disk: {error.strerror or error}; "
            "a power failure would lose it",
        )

    def sync(self) -> None:
        """Starts to sync what was written to the disk, in another thread."""
        if self._journal is not None:
            self.syncer.start(self._journal)

    def close(self) -> None:
        """Closes the journal. If the fsync policy wants a sync, it is done or in progress."""
        if self._journal is not None:
            self.sync()
            self._journal.close()

    def wait(self) -> None:
        """Waits until journals are on the disk, ``CLOSE_SYNC_SECONDS`` at most."""
        self.syncer.wait(CLOSE_SYNC_SECONDS)
