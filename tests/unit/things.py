"""Programs, devices and records for tests without Vulkan, and fakes of the C parts."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import xxhash

from pylayer.common import file_kinds
from pylayer.common.identity import Identity
from pylayer.common.settings import DEFAULTS
from pylayer.inhost.boundary import COUNTER_NAMES
from pylayer.inhost.session import DeviceSession
from pylayer.store import format
from pylayer.store.folder import Batch
from pylayer.store.format import Damage
from pylayer.store.pack import PackWriter
from pylayer.store.reader import Record, Scan
from pylayer.values import (
    CARRIER_BINARIES,
    CARRIER_CELLS,
    UNIT_CELL,
    Activity,
    Attested,
    CacheData,
    CacheRead,
    Cell,
    DeviceFacts,
    DeviceState,
    Program,
)

KIND_COMPUTE, KIND_GRAPHICS, KIND_LIBRARY = 0, 1, 2
#: The number of the device in messages and in sessions.
SERIAL = 5


def facts(**changes: Any) -> DeviceFacts:
    """Returns a device whose driver supports everything."""
    values: dict[str, Any] = {
        "api_version": 4206896,
        "binaries_requested": False,
        "binaries_supported": False,
        "binary_data_compressed": False,
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
        "precompiled_internal_cache": False,
        "prefers_internal_cache": False,
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


def cell(
    data: bytes = b"a compiled pipeline",
    flags: int = 0,
    kind: int = KIND_COMPUTE,
    create_ns: int = 1000,
    fingerprint: int = 0,
    unit: int = UNIT_CELL,
    **changes: Any,
) -> Cell:
    values: dict[str, Any] = {
        "create_ns": create_ns,
        "data": memoryview(data),
        "entry_point": "main",
        "fingerprint": fingerprint,
        "flags": flags,
        "kind": kind,
        "others": [0] * 7,
        "outcome": 0,
        "pipelines": 1,
        "shaders": (),
        "stages": 0x20,
        "start_ns": 0,
        "thread": 0,
        "unit": unit,
    }
    return Cell(**{**values, **changes})


def binary_read(data: bytes = b"a binary", key: bytes = b"its key", **changes: Any) -> Attested:
    """Returns what a program read out of a pipeline binary."""
    values: dict[str, Any] = {
        "digest": xxhash.xxh3_128_digest(data),
        "global_key": 1,
        "key": key,
        "size": len(data),
        "stale": False,
    }
    return Attested(**{**values, **changes})


def binaries(*data: bytes, key: bytes = b"a pipeline's key", global_key: int = 1) -> bytes:
    """Returns the data of a BINR record, as docs/internals/format.md describes it."""
    head = struct.pack("<IIQ32s", len(data), len(key), global_key, key)
    entries = [struct.pack("<QII32s", len(one), 2, 0, b"k%d" % number) for number, one in enumerate(data)]
    return head + b"".join(entries) + b"".join(one + bytes(-len(one) % 16) for one in data)


def device_state(**changes: Any) -> DeviceState:
    """Returns the state of a device with the cells carrier."""
    values: dict[str, Any] = {
        "binaries": False,
        "cache_control": True,
        "carrier": CARRIER_CELLS,
        "driver_cache_off": False,
        "empty_cache_bytes": 32,
        "feedback": True,
        "off_by": 0,
        "reads_store": False,
        "stored_cells": 0,
        "records_state": False,
        "used_recently": False,
    }
    return DeviceState(**{**values, **changes})


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
        "cache": 1,
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


def cache_read(data: bytes = b"all of a cache", **changes: Any) -> CacheRead:
    """Returns what a program read out of its first cache."""
    values: dict[str, Any] = {
        "cache": 1,
        "digest": xxhash.xxh3_128_digest(data),
        "incomplete": False,
        "size": len(data),
        "sketch": sketch_of(data),
        "slot": 0,
    }
    return CacheRead(**{**values, **changes})


def load(session: DeviceSession) -> None:
    """Loads a whole store, as the policy thread does."""
    session.load.device_exists = True
    while session.load.step():
        pass
    session.load_finished()


def counters(**changes: int) -> dict[str, int]:
    return {**dict.fromkeys(COUNTER_NAMES, 0), **changes}


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


def add_record(
    writer: PackWriter,
    data: bytes,
    magic: bytes = format.CELL,
    kind: int = 0,
    flags: int = 0,
    create_ns: int = 1,
    fingerprint: int = 0,
    last_used: int = 0,
) -> None:
    """Adds a record to a pack or an export."""
    head = (None, kind, flags, create_ns, fingerprint, last_used)
    writer.add_parts(format.record_parts(magic, data, *head), fingerprint)


def write_journal(path: Path, identity: Identity, *records: bytes, program_id: int = 7) -> Path:
    """Writes a file with these records, named as a store names it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    kind = file_kinds.BY_SUFFIX.get(path.suffix, file_kinds.JOURNAL).magic
    path.write_bytes(format.file_header(kind, identity, program_id, "stutter", salt=0) + b"".join(records))
    return path


def run_python(code: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Returns the output of a fresh interpreter with this one's module path."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment,
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


def session(
    root: str | None,
    commands: FakeCommands,
    settings: dict[str, Any] | None = None,
    *,
    carrier: int = CARRIER_CELLS,
    share: str = "program",
    application: str = "Stutter",
    **changes: Any,
) -> DeviceSession:
    """Returns a session of a device that exists, as a new process of the program would make it."""
    wanted = {**DEFAULTS, **(settings or {})}
    device = facts(**changes)
    new = DeviceSession(commands, SERIAL, program(application=application), device, root, share, wanted)
    new.state = device_state(binaries=carrier == CARRIER_BINARIES or device.binaries_requested, carrier=carrier)
    return new


def keep(session: DeviceSession, *cells: Cell) -> None:
    """Stores what a program compiled, in one write."""
    parts: list[bytes | memoryview] = []
    for one in cells:
        parts += session.pipelines.new(one)
    session.pipelines.write(parts)


class FakeCommands:
    """A fake of the layer's side of the boundary, as a session sees it. Records what it is told."""

    def __init__(self) -> None:
        self.logged: list[tuple[int, str]] = []
        self.loaded: list[bytes] = []
        self.binaries: list[bytes] = []
        self.attested: list[tuple[bytes, bytes, bool]] = []
        #: The number of binaries that the index has room for.
        self.binaries_room = 1 << 62
        self.done: list[int] = []
        self.suspected: list[tuple[list[int], int]] = []
        self.switched_off: list[int] = []
        #: All calls that are switched off.
        self.off: list[tuple[int, int, int]] = []
        self.totals: dict[str, int] | None = counters()
        self.refuses = False
        self.seen: bytes | None = b""
        self.doing: Activity | None = Activity(
            kind_hits=[0] * 8, queued=0, queued_bytes=0, queued_bytes_most=0, untold=0
        )

    def log(self, level: int, text: str, **fields: str | int) -> None:
        self.logged.append((level, text))

    def log_wanted(self, level: int) -> bool:
        return True

    def load_records(self, device: int, batch: Batch) -> bool:
        """Copies the records at once. The real layer reads them until the next call."""
        if not self.refuses:
            places = zip(batch.offsets, batch.sizes, strict=True)
            self.loaded += [bytes(batch.data[start : start + size]) for start, size in places]
        return True

    def watch(self, device: int, descriptor: int) -> int:
        """Maps nothing."""
        return 0

    def suspect(self, device: int, fingerprints: list[int], kinds: int) -> bool:
        """Records what is to be left alone."""
        self.suspected.append((fingerprints, kinds))
        return True

    def load_binaries(self, device: int, batch: Batch) -> int:
        """Copies as many binaries as there is room for."""
        taken = 0
        for start, size in zip(batch.binary_offsets, batch.binary_sizes, strict=True):
            if size <= self.binaries_room:
                self.binaries_room -= size
                self.binaries.append(bytes(batch.data[start : start + size]))
                taken += 1
        return taken

    def load_attested(self, device: int, attested: list[Attested]) -> int:
        """Records key, digest, and whether it is stale."""
        self.attested += [(one.key, one.digest, one.stale) for one in attested]
        return len(attested)

    def load_done(self, device: int) -> int:
        self.done.append(device)
        return len(self.loaded)

    def call_off(self, device: int, call: int, kind: int) -> None:
        self.off.append((device, call, kind))

    def switch_off(self, device: int) -> None:
        self.switched_off.append(device)

    def activity(self, device: int) -> Activity | None:
        return self.doing

    def counters(self, device: int) -> dict[str, int] | None:
        return self.totals

    def fingerprints(self, device: int) -> bytes | None:
        return self.seen

    def lines(self, level: int) -> list[str]:
        return [text for logged_level, text in self.logged if logged_level == level]
