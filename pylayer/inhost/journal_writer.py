"""Writes to one device's folder: appends to its journal, and logs write errors."""

from __future__ import annotations

import time

from ..store.journal import Journal
from ..values import LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .device import Device

#: After a failed write, storing pauses for this long. Cells of that time are counted as lost.
RETRY_SECONDS = 10.0


class JournalWriter:
    """The journal of one device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._retry_at = 0.0
        #: Failures of the store that were already logged.
        self.failures_said: set[str] = set()
        self.errors = 0
        #: None without a store, or if the store is read-only.
        self._journal: Journal | None = None
        if device.folder is not None and not device.read_only:
            self._journal = Journal(device.folder, device.program_id, device.program.name)

    @property
    def paused(self) -> bool:
        """Whether a write failed less than ``RETRY_SECONDS`` ago. Nothing is written until then."""
        return time.monotonic() < self._retry_at

    def write(self, parts: list[bytes | memoryview]) -> bool:
        """Appends the pieces of whole records to the journal in one write. Returns False if they were not stored."""
        if self._journal is None or self.paused:
            return False
        try:
            self._journal.append(parts)
        except OSError as error:
            self.failed(error)
            return False
        return True

    def failed(self, error: OSError) -> None:
        """Counts a write error, logs the first one, and pauses storing."""
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self.errors += 1
        if self.is_first("write") and self._device.folder is not None:
            self._device.log(
                LOG_WARN,
                f"pipelines cannot be stored in {self._device.folder.path}: {error.strerror or error}; "
                "the program goes on, and storing is tried again",
            )

    def is_first(self, failure: str) -> bool:
        """Returns whether this failure was not logged yet, and marks it as logged."""
        first = failure not in self.failures_said
        self.failures_said.add(failure)
        return first

    def close(self) -> None:
        """Closes the journal."""
        if self._journal is not None:
            self._journal.close()
