"""Determines which stored records are still in use.

A hit never reaches policy. So the layer collects the approximate fingerprints of the pipelines that a run created
(shim/layer/run/seen.c), and the run writes them as one USED record when its device is destroyed: 8 bytes each, and
only those that no run recorded within the last day. A record's last use is the latest of its own time and of USED
records with its fingerprint. A record without a fingerprint was last used when its program last ran.

Two pipelines with the same fingerprint keep each other's records. A pipeline whose record was evicted too early is
compiled and stored again under its present fingerprint.
"""

from __future__ import annotations

import struct
import time

from ..common.files import AHEAD_SECONDS
from . import format

#: A use is recorded once in this many seconds.
RECENT_SECONDS = 24 * 3600

#: So long a compaction keeps the uses of pipelines that the store does not have.
UNSTORED_SECONDS = 30 * 24 * 3600


def used_parts(fingerprints: list[int], when: int) -> list[bytes | memoryview]:
    """Returns a USED record as the pieces to write. ``when``: seconds since 1970."""
    data = struct.pack(f"<{len(fingerprints)}Q", *fingerprints)
    return format.record_parts(format.USED, data, last_used=when)


def fingerprints_of(data: bytes | memoryview) -> tuple[int, ...]:
    """Returns the fingerprints in a USED record's data."""
    return struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])


class Uses:
    """The contents of one program's USED records. ``last_run`` is 0 if there are none. ``unknown``: what counts as last
    use of a record of which nothing is known."""

    def __init__(self, unknown: int = 0) -> None:
        self._unknown = unknown
        self.by_fingerprint: dict[int, int] = {}
        self.last_run = 0
        self._latest = int(time.time() + AHEAD_SECONDS)

    def note(self, fingerprints: tuple[int, ...], when: int) -> None:
        """Adds one USED record. One from the future was dated by a wrong clock, and says nothing."""
        if when > self._latest:
            return
        self.last_run = max(self.last_run, when)
        for fingerprint in fingerprints:
            if when > self.by_fingerprint.get(fingerprint, -1):
                self.by_fingerprint[fingerprint] = when

    def last_use(self, fingerprints: tuple[int, ...], own_time: int) -> int:
        """Returns when a record with these pipelines was last used, in seconds since 1970."""
        own_time = own_time if own_time <= self._latest else 0
        uses = [self.by_fingerprint.get(each, 0) if each else self.last_run for each in fingerprints]
        when = max([own_time, *uses])
        return when or self._unknown
