"""Programs, devices, records and folders of the store, for tests without Vulkan."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import disk
import xxhash

from pylayer.common import file_kinds
from pylayer.common.identity import Identity
from pylayer.store import compaction, format, journal
from pylayer.store.cache_history import Known
from pylayer.store.folder import Folder
from pylayer.store.format import Damage
from pylayer.store.pack import PackWriter
from pylayer.store.reader import Record, Scan
from pylayer.values import CacheData, DeviceFacts, Program


def facts(**changes: Any) -> DeviceFacts:
    """Returns a device whose driver supports everything."""
    values: dict[str, Any] = {
        "api_version": 4206896,
        "binaries_requested": False,
        "binaries_supported": False,
        "cache_control_requested": False,
        "cache_control_supported": True,
        "device_id": 0x73BF,
        "device_name": "AMD Radeon RX 6800 (RADV NAVI21)",
        "driver_id": 3,
        "driver_info": "Mesa 25.0.7",
        "driver_name": "radv",
        "driver_version": 104857607,
        "feedback_supported": True,
        "internal_cache": False,
        "internal_cache_control": False,
        "internal_cache_disabled": False,
        "pipeline_cache_uuid": bytes(range(16)),
        "vendor_id": 0x1002,
    }
    return DeviceFacts(**{**values, **changes})


def program(**changes: Any) -> Program:
    values: dict[str, Any] = {
        "api_version": 4206592,
        "application": "Stutter",
        "application_version": 1,
        "engine": "Anvil",
        "engine_version": 2,
        "executable": "stutter",
    }
    return Program(**{**values, **changes})


def program_id(executable: str, application: str) -> int:
    """Returns the number that the layer gives a program."""
    return xxhash.xxh3_64_intdigest(f"{executable}\0{application}".encode())


def binaries(*data: bytes, key: bytes = b"a pipeline's key", global_key: int = 1) -> bytes:
    """Returns the data of a BINR record, as docs/internals/format.md describes it."""
    head = struct.pack("<IIQ32s", len(data), len(key), global_key, key)
    entries = [struct.pack("<QII32s", len(one), 2, 0, b"k%d" % number) for number, one in enumerate(data)]
    return head + b"".join(entries) + b"".join(one + bytes(-len(one) % 16) for one in data)


def sketch_of(data: bytes) -> bytes:
    """Returns the sketch that shim/layer/caches/sketch.c makes of data."""
    words = [int.from_bytes(data[at : at + 8], sys.byteorder) for at in range(0, len(data) + -len(data) % 8, 8)]
    sums = [sum(words[::2]), sum(words[1::2])]
    sums += [sum(word * number**power for number, word in enumerate(words)) for power in (1, 2)]
    sketch = struct.pack("=5Q", *(one % 2**64 for one in sums), len(data.rstrip(data[-1:] or None)))
    at, size = 0, 256
    while len(data) - at >= size:
        sketch += struct.pack("=I", xxhash.xxh3_64_intdigest(data[at : at + size]) & 0xFFFFFFFF)
        at += size
        size = 256 if at < 16384 else 2 ** (at.bit_length() - 1) // 64
    return sketch


def cache_data(data: bytes = b"", **changes: Any) -> CacheData:
    """Returns what a program gave to its first vkCreatePipelineCache."""
    values: dict[str, Any] = {
        "damage": "",
        "data_is_null": not data,
        "data_size": len(data),
        "digest": xxhash.xxh3_128_digest(data) if data else bytes(16),
        "header": data[:32],
        "history": "unknown",
        "result": 0,
        "sketch": sketch_of(data),
        "slot": 0,
    }
    return CacheData(**{**values, **changes})


def scan(data: bytes, damage: list[Damage]) -> list[Record]:
    """Returns every record of a whole journal that verifies; ``start`` is the offset of its data in ``data``. Adds all
    damage to ``damage``."""
    found: list[Record] = []
    head = format.FILE_HEADER.size
    here: list[Damage] = []
    header, _ = format.read_file_header(data)
    Scan("a file", here, header.salt if header is not None else 0).part(
        data[head:], max(len(data) - head, 0), head, None, found
    )
    damage += here
    for one in found:
        one.start += head
    return found


def record(data: bytes, magic: bytes = format.CELL, **fields: int) -> bytes:
    """Returns the bytes of one record."""
    return b"".join(format.record_parts(magic, data, **fields))


def add_record(writer: PackWriter, data: bytes, magic: bytes = format.CELL, **fields: int) -> None:
    """Adds a record to a pack or an export."""
    writer.add_parts(format.record_parts(magic, data, **fields), (fields.get("fingerprint", 0),))


def write_journal(path: Path, identity: Identity, *records: bytes, program_id: int = 7) -> Path:
    """Writes a file with these records, named as a store names it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    kind = file_kinds.BY_SUFFIX.get(path.suffix, file_kinds.JOURNAL).magic
    path.write_bytes(format.file_header(kind, identity, program_id, "stutter", salt=0) + b"".join(records))
    return path


def run_python(code: str, *arguments: str) -> str:
    """Returns the output of a fresh interpreter with this one's module path."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def flip(path: str | Path, at: int, bits: int = 1) -> None:
    """Changes bits of one byte of a file."""
    data = bytearray(Path(path).read_bytes())
    data[at] ^= bits
    Path(path).write_bytes(data)


# ---- A folder of the store with journals of numbered pipelines -----------------------------------


IDENTITY = Identity.of(facts())


def data_of(number: int, size: int = 3000) -> bytes:
    """Returns data of a pipeline, which nothing else has."""
    return (random.Random(number).randbytes(size // 4) * 4)[:size]


def put(folder: Folder, program: int, numbers: Iterator[int] | range | list[int], **fields: int) -> str:
    """Writes a closed journal with cells of these numbers."""
    writer = journal.Journal(folder, program, f"program {program}")
    for number in numbers:
        writer.append(format.record_parts(format.CELL, data_of(number), fingerprint=number + 1, **fields))
    writer.close()
    assert writer.path is not None
    return writer.path


def put_known(folder: Folder, program: int, data: bytes) -> str:
    """Writes a file by which data is known."""
    parts = Known(xxhash.xxh3_128_digest(data), len(data), 1, 0).parts()
    return folder.write_file(file_kinds.ATTEST, program, f"program {program}", parts)[0]


def cells(folder: Folder, program: int | None = 7) -> list[bytes]:
    """Returns the cells that a run may give to the driver."""
    return list(disk.load(folder, program).cells.values())


def loaded(folder: Folder, program: int | None) -> tuple[list[bytes], disk.Loaded]:
    found = disk.load(folder, program)
    return list(found.cells.values()), found


def run(work: compaction.Compaction) -> compaction.Compaction:
    list(work.steps())
    return work


def run_all(folder: Folder, **options: Any) -> list[compaction.Compaction]:
    """Compacts the files of every program."""
    return [run(compaction.Compaction(folder, program, **options)) for program in folder.programs()]


def packs(folder: Folder) -> list[str]:
    return folder.files(None, (".pack",))
