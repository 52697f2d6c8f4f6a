"""What one device's run writes into its folder: its journal, when that reaches the disk, and what is said where it
cannot be written."""

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

#: A failed write is tried again after this long; until then cells are counted as lost.
RETRY_SECONDS = 10.0
#: vkDestroyDevice and exit() wait for the disk at most this long.
CLOSE_SYNC_SECONDS = 0.5


class Storing:
    """``folder`` None: there is no store, and nothing is written. ``fsync_interval_ms``: as in the policy file."""

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
        #: What the log said once already of the store's failures.
        self.failures_said: set[str] = set()
        self.errors = 0
        self.syncer = Syncer(None if fsync_interval_ms is None else fsync_interval_ms / 1000, self._sync_failed)

    @property
    def paused(self) -> bool:
        """A write failed a moment ago; nothing is tried until ``RETRY_SECONDS`` have passed."""
        return time.monotonic() < self._retry_at

    def write(self, parts: list[bytes | memoryview]) -> bool:
        """Appends the pieces of whole records to the journal with one write; False where they are not there now."""
        if self._folder is None or self.paused:
            return False
        try:
            try:
                self.append(parts)
            except FileNotFoundError:  # somebody removed the folder; what he removed is gone, what follows is not
                self.append(parts)
            return True
        except OSError as error:
            self.failed(error)
            return False

    def append(self, parts: list[bytes | memoryview]) -> None:
        """Like ``write``, once, without a word. OSError where it failed; after that a new journal is begun."""
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
        """Something of this device could not be stored."""
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
        """Whether this failure was not said yet; it counts as said from now on."""
        first = failure not in self.failures_said
        self.failures_said.add(failure)
        return first

    def _sync_failed(self, error: OSError) -> None:
        assert self._folder is not None
        self._log(
            LOG_WARN,
            f"what was stored in {self._folder.path} may not be on the disk: {error.strerror or error}; "
            "a power failure would lose it",
        )

    def sync(self) -> None:
        """Puts what was written on the disk itself, by a thread of its own."""
        if self._journal is not None:
            self.syncer.start(self._journal)

    def close(self) -> None:
        """Ends the journal. What the fsync policy wants on the disk is there, or under way."""
        if self._journal is not None:
            self.sync()
            self._journal.close()

    def wait(self) -> None:
        """Until everything that was written is on the disk, ``CLOSE_SYNC_SECONDS`` at most."""
        self.syncer.wait(CLOSE_SYNC_SECONDS)
