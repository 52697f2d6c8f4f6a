"""The data of a BINR record: all VkPipelineBinaryKHR of one pipeline (docs/format.md, 'Binaries').

The layer makes it, and checks it again when it is loaded; here it is bytes, but for those who verify a store.
"""

from __future__ import annotations

import struct

#: How many binaries, the pipeline key's size, and the key. Nothing stands in between.
HEADER = struct.Struct("<IIQ32s")
#: Of each binary: its size, and its key.
ENTRY = struct.Struct("<QII32s")
#: VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR
MAX_KEY_BYTES = 32
_ALIGNMENT = 16
assert HEADER.size == 48 and ENTRY.size == 48


def _is_key(size: int, key: bytes) -> bool:
    return 0 < size <= MAX_KEY_BYTES and not any(key[size:])


def problem(data: bytes | bytearray | memoryview) -> str:
    """What cannot be in the data of a BINR record, in words; empty where nothing is wrong with it. Raises nothing."""
    if len(data) < HEADER.size:
        return "binaries shorter than their header"
    count, key_size, zero, key = HEADER.unpack_from(data)
    if zero or not _is_key(key_size, key):
        return "binaries of a pipeline without a key"
    place = HEADER.size + count * ENTRY.size
    if place > len(data):
        return "more binaries than there is room for"
    for at in range(HEADER.size, place, ENTRY.size):
        size, key_size, zero, key = ENTRY.unpack_from(data, at)
        if zero or not _is_key(key_size, key):
            return "a binary without a key"
        end = place + size + -size % _ALIGNMENT
        if end > len(data):
            return "a binary larger than its record"
        if any(data[place + size : end]):
            return "bytes between the binaries"
        place = end
    return "bytes behind the binaries" if place != len(data) else ""
