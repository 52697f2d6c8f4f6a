"""Stored data that crashes RADV, under hashes that are right: as of a driver that gave out what it cannot take."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pylayer.store import contents, format
from pylayer.store.reader import Reader

if TYPE_CHECKING:
    from pylayer.store.reader import Record

#: Mesa's vk_pipeline_cache.c: the header, a count, then for each object its type, the sizes of its key and its data,
#: and these, each at a multiple of 8 and of 4 bytes.
_ENTRY = struct.Struct("<iII")
#: Keys of 32 bytes name shaders; a pipeline, under 20 bytes, is found by what its data says.
_SHADER_KEY_BYTES = 32
#: The beginning of a shader, which stays: RADV 26.1.6 takes noise there for a size, fills 20 GiB of memory and goes on.
_KEPT_BYTES = 64


def poison_cache(data: bytes) -> bytes:
    """A RADV cache of the same structure whose shaders are noise: it loads, and what creates a pipeline with it
    crashes (RADV 25.0.7 and 26.1.6)."""
    noise = random.Random(len(data))
    changed = bytearray(data)
    (count,) = struct.unpack_from("<I", data, 32)
    at = 36
    for _ in range(count):
        _, key_size, size = _ENTRY.unpack_from(data, at)
        at = (at + _ENTRY.size + key_size + 7) // 8 * 8
        if key_size == _SHADER_KEY_BYTES and size > _KEPT_BYTES:
            changed[at + _KEPT_BYTES : at + size] = noise.randbytes(size - _KEPT_BYTES)
        at = (at + size + 3) // 4 * 4
    assert at - 4 < len(data) <= at and changed != data  # 26.0.3 does not pad the last one
    return bytes(changed)


def poison_binaries(data: bytes) -> bytes:
    """A BINR record whose binaries are noise: docs/internals/format.md, 'Binaries'."""
    (count,) = struct.unpack_from("<I", data, 0)
    start = (48 + 48 * count + 15) // 16 * 16
    return data[:start] + random.Random(len(data)).randbytes(len(data) - start)


def poison_chunk(data: bytes) -> bytes:
    """A CHNK record whose shaders are noise."""
    merged = contents.merged_of(memoryview(data))
    return data[: len(data) - len(merged)] + poison_cache(bytes(merged))


POISON: dict[bytes, Callable[[bytes], bytes]] = {
    format.CELL: poison_cache,
    format.CHUNK: poison_chunk,
    format.BINARIES: poison_binaries,
}


def poison_records(path: Path, wanted: Callable[[int, Record], bool]) -> list[bytes]:
    """Writes a file of the store anew with the records that are ``wanted``, by their number and fields, poisoned; what
    they hold now. Everything else stays, in the same places."""
    reader = Reader(str(path))
    pieces: list[bytes | memoryview] = [reader.head]
    poisoned = []
    number = 0
    for part in reader.parts([]):
        for record in part.records:
            data = bytes(part.data_of(record))
            if record.magic in POISON:
                if wanted(number, record):
                    data = POISON[record.magic](data)
                    poisoned.append(data)
                number += 1
            head = (None, record.kind, record.flags, record.create_ns, record.fingerprint, record.last_used)
            pieces += format.record_parts(record.magic, data, *head)
    pieces = format.seal(pieces, reader.salt)
    path.write_bytes(b"".join(pieces))
    return poisoned
