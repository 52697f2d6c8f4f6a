"""The data of records, where it is more than that of a VkPipelineCache (docs/internals/format.md).

A *chunk* is made of cells that the driver merged, so that the layer gives the driver many pipelines with one read and
one merge. Its data is the number of cells, each cell's fingerprint and number, then that of the merged VkPipelineCache.
A compaction makes chunks if a device is there to merge (``Compaction``, ``join``).

*Binaries* are all VkPipelineBinaryKHR of one pipeline. The layer checks them when it loads them. Python treats them as
plain bytes, except where it verifies the store.

*Uses* tell which stored records are still in use, because a hit never reaches policy. The layer collects the
approximate fingerprints of the pipelines that a run created (shim/layer/run/seen.c), and the run writes them as one
USED record when its device is destroyed: 8 bytes each, and only those that no run recorded within the last day. A
record's last use is the latest of its own time and of USED records with its fingerprint. A record without a fingerprint
was last used when its program last ran.

Two pipelines with the same fingerprint keep each other's records. A pipeline whose record was evicted too early is
compiled and stored again under its present fingerprint.
"""

from __future__ import annotations

import struct
import time

from ..common.files import AHEAD_SECONDS
from . import format
from .format import CHUNK_CELL, CHUNK_HEAD, cells_of, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .reader import Record

#: The most bytes of cells in a chunk. A chunk is given to the driver as a whole, and a larger one takes as long as two.
CHUNK_BYTES = 512 << 10
#: Fewer cells stay as they are.
FEWEST_CELLS = 4
#: Larger cells share something: on NVIDIA each cell has the same 1.2 MB in it, once a process has compiled some 1,600
#: pipelines. They are joined up to this size, if the driver merges what they share.
LARGE_BYTES = CHUNK_BYTES // FEWEST_CELLS
MAX_LARGE_BYTES = 32 << 20


def chunk_data(cells: list[Record], merged: bytes) -> bytes:
    """Returns the data of a chunk. ``merged``: the driver's data of the cache into which it merged the cells."""
    table = b"".join(CHUNK_CELL.pack(cell.fingerprint, number_of(cell.digest)) for cell in cells)
    return CHUNK_HEAD.pack(len(cells), 0) + table + merged


def is_worth(merged: int, cells: list[int]) -> bool:
    """Returns whether the merged data of cells of these sizes is small enough for each of their pipelines to load."""
    return merged <= max(CHUNK_BYTES, 2 * max(cells))


def merged_of(data: memoryview) -> memoryview:
    """Returns the VkPipelineCache data of a chunk."""
    return data[CHUNK_HEAD.size + len(cells_of(data)) * CHUNK_CELL.size :]


#: Number of binaries, size of the pipeline key, XXH3-64 of the driver's global key, and the pipeline key. The entries
#: follow without a gap.
BINARIES_HEAD = struct.Struct("<IIQ32s")
#: For each binary: its size, the size of its key, zero, and its key.
BINARY = struct.Struct("<QII32s")
#: VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR
MAX_KEY_BYTES = 32
_ALIGNMENT = 16
assert BINARIES_HEAD.size == 48 and BINARY.size == 48


def is_key(size: int, key: bytes) -> bool:
    """Returns whether a key has a possible size, and zeros behind it."""
    return 0 < size <= MAX_KEY_BYTES and not any(key[size:])


def binaries_problem(data: bytes | bytearray | memoryview) -> str:
    """Returns what is impossible in the data of a BINR record, in words; empty if nothing is. Raises nothing."""
    if len(data) < BINARIES_HEAD.size:
        return "binaries shorter than their header"
    count, key_size, _, key = BINARIES_HEAD.unpack_from(data)
    if not is_key(key_size, key):
        return "binaries of a pipeline without a key"
    place = BINARIES_HEAD.size + count * BINARY.size
    if place > len(data):
        return "more binaries than fit into it"
    for at in range(BINARIES_HEAD.size, place, BINARY.size):
        size, key_size, zero, key = BINARY.unpack_from(data, at)
        if zero or not is_key(key_size, key):
            return "a binary without a key"
        end = place + size + -size % _ALIGNMENT
        if end > len(data):
            return "a binary larger than its record"
        if any(data[place + size : end]):
            return "bytes between the binaries"
        place = end
    return "bytes after the binaries" if place != len(data) else ""


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
