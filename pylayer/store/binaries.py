"""The data of a BINR record: all VkPipelineBinaryKHR of one pipeline (docs/internals/format.md, 'Binaries').

The layer writes it and checks it again when it loads it. Python treats it as plain bytes, except where it verifies the
store.
"""

from __future__ import annotations

import struct

#: Number of binaries, size of the pipeline key, XXH3-64 of the driver's global key, and the pipeline key. The entries
#: follow without a gap.
HEADER = struct.Struct("<IIQ32s")
#: For each binary: its size, the size of its key, zero, and its key.
ENTRY = struct.Struct("<QII32s")
#: VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR
MAX_KEY_BYTES = 32
_ALIGNMENT = 16
assert HEADER.size == 48 and ENTRY.size == 48


def is_key(size: int, key: bytes) -> bool:
    """Returns whether a key has a possible size, and zeros behind it."""
    return 0 < size <= MAX_KEY_BYTES and not any(key[size:])


def problem(data: bytes | bytearray | memoryview) -> str:
    """Returns what is impossible in the data of a BINR record, in words; empty if nothing is. Raises nothing."""
    if len(data) < HEADER.size:
        return "binaries shorter than their header"
    count, key_size, _, key = HEADER.unpack_from(data)
    if not is_key(key_size, key):
        return "binaries of a pipeline without a key"
    place = HEADER.size + count * ENTRY.size
    if place > len(data):
        return "more binaries than fit into it"
    for at in range(HEADER.size, place, ENTRY.size):
        size, key_size, zero, key = ENTRY.unpack_from(data, at)
        if zero or not is_key(key_size, key):
            return "a binary without a key"
        end = place + size + -size % _ALIGNMENT
        if end > len(data):
            return "a binary larger than its record"
        if any(data[place + size : end]):
            return "bytes between the binaries"
        place = end
    return "bytes after the binaries" if place != len(data) else ""
