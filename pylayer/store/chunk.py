"""Chunks: cells that the driver merged, so that the layer gives the driver many pipelines with one read and one merge.

A record's data is the number of cells, each cell's fingerprint and number, then the data of the merged VkPipelineCache.
A compaction makes them if a device is there to merge (``Compaction``, ``join``).
"""

from __future__ import annotations

from .format import CHUNK_CELL, CHUNK_HEAD, cells_of, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .reader import Record

#: The most bytes of cells in a chunk. A chunk is given to the driver as a whole, and a larger one takes as long as two.
MAX_BYTES = 512 << 10
#: Fewer cells stay as they are.
FEWEST_CELLS = 4
#: Larger cells share something: on NVIDIA each cell has the same 1.2 MB in it, once a process has compiled some 1,600
#: pipelines. They are joined up to this size, if the driver merges what they share.
LARGE_BYTES = MAX_BYTES // FEWEST_CELLS
MAX_LARGE_BYTES = 32 << 20


def data_of(cells: list[Record], merged: bytes) -> bytes:
    """Returns the data of a chunk. ``merged``: the driver's data of the cache into which it merged the cells."""
    table = b"".join(CHUNK_CELL.pack(cell.fingerprint, number_of(cell.digest)) for cell in cells)
    return CHUNK_HEAD.pack(len(cells), 0) + table + merged


def is_worth(merged: int, cells: list[int]) -> bool:
    """Returns whether the merged data of cells of these sizes is small enough for each of their pipelines to load."""
    return merged <= max(MAX_BYTES, 2 * max(cells))


def merged_of(data: memoryview) -> memoryview:
    """Returns the VkPipelineCache data of a chunk."""
    return data[CHUNK_HEAD.size + len(cells_of(data)) * CHUNK_CELL.size :]
