"""Reading a store for a device, piece by piece."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .session import DeviceSession
    from .store.folder import Batch


class Loading:
    """A store being read for a device: verified while the driver creates the device, then handed over."""

    def __init__(self, session: DeviceSession) -> None:
        self.session = session
        self.device_exists = False
        self._verified: Batch | None = None
        self._source: Iterator[Batch] | None = session.verify()

    def step(self) -> bool:
        """A piece of work of about a millisecond; False when there is nothing to do now."""
        if self.session.awaits_global_key and not self.device_exists:
            return False
        if self._verified is None and self._source is not None:
            start = time.monotonic_ns()
            self._verified = next(self._source, None)
            self.session.verify_ns += time.monotonic_ns() - start
            if self._verified is None:
                self._source = None
            elif not self.device_exists:
                return True
        if self._verified is None or not self.device_exists:
            return False
        batch, self._verified = self._verified, None
        self.session.hand_over(batch)
        return True

    def give_up(self) -> None:
        """Nothing more is read or handed over."""
        self._source = None
        self._verified = None

    @property
    def finished(self) -> bool:
        """Everything was handed over."""
        return self.device_exists and self._source is None and self._verified is None
