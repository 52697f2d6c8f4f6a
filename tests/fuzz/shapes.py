"""Inputs for the fuzz targets: seeds, and mutators that know the formats.

Everything in the store stands behind an XXH3 hash, so bytes changed at random are refused at the first look and
nothing behind it is ever tried. These mutators change a field and then make the hashes fit again.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from unittest import mock

import xxhash
from fuzz import exports
from recovery.damage import KINDS
from unit.things import add_record, binaries, record

from pylayer.common import file_kinds, flat, owner
from pylayer.common.identity import Identity
from pylayer.store import cache_history, contents, format, pack, timeline

IDENTITY = Identity({"vendor_id": 0x1002, "abi": "64-bit little-endian"})

DAMAGE = [*KINDS.values()]
#: Lengths and places that no honest writer gives.
HOSTILE = (
    0, 1, 7, 15, 16, 17, 63, 64, 65, 255, 256, 4095, 4096, 10_000_000, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32,
    (1 << 63) - 1, 1 << 63, (1 << 64) - 65, (1 << 64) - 64, (1 << 64) - 16, (1 << 64) - 1,
)  # fmt: skip
#: Where each field of a record header and of a file header stands, and its bytes.
RECORD_FIELDS = {"kind": (4, 2), "flags": (6, 2), "size": (8, 8), "create_ns": (16, 8), "fingerprint": (40, 8),
                 "last_used": (48, 8)}  # fmt: skip
FILE_FIELDS = {"version": (8, 4), "header_size": (12, 4), "program": (112, 8), "created": (120, 8),
               "size": (128, 8), "pid": (160, 4), "start": (168, 8)}  # fmt: skip


def header_over(magic: bytes, size: int, create_ns: int = 0) -> bytes:
    """A record header that verifies, whatever follows it."""
    return format.record_header(magic, size, bytes(16), create_ns=create_ns)


# ---- making hashes fit -------------------------------------------------------------------------------


def fit_file_header(data: bytearray) -> None:
    if len(data) >= format.FILE_HEADER.size:
        struct.pack_into("<Q", data, 248, xxhash.xxh3_64_intdigest(data[: format.HASHED_FILE_HEADER]))


def fit_record(data: bytearray, at: int, its_data: bool = True) -> None:
    """Both hashes of the record at ``at``; only the header's where its data is not in the file."""
    if at + 64 > len(data):
        return
    size = struct.unpack_from("<Q", data, at + 8)[0]
    if its_data and at + 64 + size <= len(data):
        data[at + 24 : at + 40] = xxhash.xxh3_128_digest(data[at + 64 : at + 64 + size])
    struct.pack_into("<Q", data, at + 56, xxhash.xxh3_64_intdigest(data[at : at + format.HASHED_RECORD_HEADER]))


def walk(data: bytes | bytearray) -> list[tuple[int, bytes, int]]:
    """Offset, magic and size of what looks like records."""
    found = []
    at = format.FILE_HEADER.size
    while at + 64 <= len(data) and len(found) < 200:
        magic, size = bytes(data[at : at + 4]), struct.unpack_from("<Q", data, at + 8)[0]
        if magic not in format.MAGICS:
            at += 16
            continue
        found.append((at, magic, size))
        at += format.record_size(size) if at + size <= len(data) else 64
    return found


# ---- mutations of store files ------------------------------------------------------------------------


def _number(rng: random.Random, length: int) -> int:
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(HOSTILE)
    if kind < 0.9:
        return rng.randrange(0, length + 64)
    return rng.getrandbits(64)


def _put(rng: random.Random, data: bytearray, at: int, width: int, value: int | None = None) -> None:
    """Writes a number of so many bytes, mostly a hostile one."""
    value = _number(rng, len(data)) if value is None else value
    data[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def _place(rng: random.Random, data: bytearray) -> int:
    records = walk(data)
    return rng.choice(records)[0] if records and rng.random() < 0.9 else rng.randrange(0, len(data) + 1) & ~15


def _damage(rng: random.Random, data: bytearray) -> None:
    """Bytes changed at random, cut and more, which hashes do not fit."""
    if len(data) > 3:
        data[:] = rng.choice(DAMAGE)(rng, bytes(data))


def _record_field(rng: random.Random, data: bytearray) -> None:
    at = _place(rng, data)
    if at + 64 > len(data):
        return
    offset, size = rng.choice(list(RECORD_FIELDS.values()))
    _put(rng, data, at + offset, size)
    fit_record(data, at, rng.random() < 0.7)


def _record_magic(rng: random.Random, data: bytearray) -> None:
    at = _place(rng, data)
    if at + 64 <= len(data):
        data[at : at + 4] = rng.choice(format.MAGICS)
        fit_record(data, at)


def _record_data(rng: random.Random, data: bytearray) -> None:
    """A number in a record's data, under hashes that fit."""
    records = walk(data)
    if not records:
        return
    at, _, size = rng.choice(records)
    if size < 8 or at + 64 + size > len(data):
        return
    for _ in range(rng.randrange(1, 4)):
        width = rng.choice((4, 8))
        value = _place(rng, data) if width == 8 and rng.random() < 0.3 else None
        _put(rng, data, at + 64 + rng.randrange(0, size - width + 1) & -4, width, value)
    fit_record(data, at)


def _file_field(rng: random.Random, data: bytearray) -> None:
    if len(data) < format.FILE_HEADER.size:
        return
    name = rng.choice(list(FILE_FIELDS))
    value = _place(rng, data) if name == "size" and rng.random() < 0.5 else None
    _put(rng, data, *FILE_FIELDS[name], value)
    if rng.random() < 0.2:
        data[16:20] = rng.choice([kind.magic for kind in file_kinds.TABLE if kind.verified])
    fit_file_header(data)


def _move(rng: random.Random, data: bytearray) -> None:
    """A record twice, gone, or elsewhere."""
    records = walk(data)
    if not records:
        return
    at, _, size = rng.choice(records)
    whole = bytes(data[at : at + format.record_size(min(size, len(data)))])
    kind = rng.randrange(3)
    if kind:
        target = rng.choice(records)[0]
        data[target:target] = whole
    if kind != 1:
        del data[at : at + len(whole)]


def _insert(rng: random.Random, data: bytearray) -> None:
    at = rng.choice((_place(rng, data), len(data)))
    junk = (bytes(16), bytes(100), rng.randbytes(40), b"CELL" * 9)
    data[at:at] = rng.choice((some_record(rng), some_record(rng), rng.choice(junk)))


def _fit_size(rng: random.Random, data: bytearray) -> None:
    """The header's size is the file's again, or nearly."""
    if len(data) >= format.FILE_HEADER.size:
        struct.pack_into("<Q", data, 128, max(len(data) + rng.choice((0, 0, 0, -16, 16)), 0))
        data[16:20] = format.PACK
        fit_file_header(data)


MUTATIONS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    _damage, _damage, _damage, _insert, _record_field, _record_field, _record_magic, _record_data, _record_data,
    _record_data, _file_field, _move, _insert, _fit_size,
)  # fmt: skip


def mutate_store(rng: random.Random, seed: bytes) -> bytes:
    """A store file, changed in one to four ways."""
    data = bytearray(seed)
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        rng.choice(MUTATIONS)(rng, data)
    return bytes(data)


def some_record(rng: random.Random) -> bytes:
    """A record of a kind that is worth meeting."""
    kind = rng.randrange(15)
    if kind == 14:
        return record(mutate_binaries(rng, binaries(b"one", b"two" * 9)), format.BINARIES, kind=rng.randrange(4))
    if kind == 0:
        return header_over(rng.choice(format.MAGICS), rng.choice(HOSTILE), rng.choice(HOSTILE))
    if kind == 1:
        return record(rng.choice((b"plain_kind=i:3\n", b"stub=b:1\n", b"a.b.c.[0=d:\n", rng.randbytes(9))), format.NOTE)
    if kind == 2:
        when = rng.choice((0, int(time.time()), *HOSTILE))
        return b"".join(contents.used_parts([rng.choice(HOSTILE) for _ in range(rng.randrange(5))], when))
    if kind == 10:  # junk between records, over and over: each must cost what it is long
        return (bytes(15) + b"x" + record(b"")) * rng.choice((2, 30, 100))
    if kind == 11:
        return header_over(format.CELL, (1 << 64) - 64) * rng.choice((2, 30, 100))
    if kind == 12:
        packed = format.KNOWN.pack(rng.randbytes(16), rng.choice(HOSTILE), rng.choice(HOSTILE), 0, 1)
        return record(packed[: rng.choice((40, 40, 39))], format.ATTEST)
    return record(rng.randbytes(rng.randrange(100)), rng.choice(format.MAGICS), kind=rng.randrange(4))


# ---- mutations of text and of anything ---------------------------------------------------------------

FLAT_WORDS = (
    b"=", b".", b"[", b"[0", b"%", b"%0A", b"%zz", b"\n", b"\r", b"s:", b"i:", b"f:", b"b:1", b"n:", b"d:", b"l:", b"a",
    b"nan", b"inf", b"1e999", b"-1", b"9" * 400, b"1_0", b"\x00", b"\xff", "é".encode(), b"time=i:" + b"9" * 400,
    b"a." * 40, b"machine=s:00\n", b"pid=f:inf\n", b"outcome=d:\n", b"offset=b:1\n", b"ticks=i:-5\n", b"plain_kind=i:7",
)  # fmt: skip
JSON_WORDS = (b"{", b"}", b"[", b"]", b",", b":", b'"', b"null", b"-1", b"1e9", b"\\u0000", b"NaN", b"[" * 5000)
YAML_WORDS = (
    b":", b": ", b"- ", b"\n", b"\n  ", b"&a ", b"*a", b"<<: *a", b"<<: [*a, *a]", b"!!int ", b"!!binary ", b"!!float ",
    b"!!set ", b"!!timestamp ", b"!!python/object:os.system ", b"0x" + b"f" * 4000, b"1:1:1:1", b".nan", b".inf",
    b"2001-99-99", b"'", b'"', b"|", b">", b"{", b"}", b"[", b"]", b"? ", b"---\n", b"%YAML 9.9\n", b"\xff", b"\x00",
    b"\t", "\u2028".encode(), "\U0001f600".encode(), b"null", b"~", b"1e999", b"-0", b"0777", b"1_0", b"rules:",
    b"settings:", b"match:", b"set:", b"executable:", b"mode:", b"state_mib:", b"policy:", b"max_store_mib: ",
    b"rules: &a [*a]", b"settings: &a {mode: *a}", b"[" * 50, b"{a: " * 30,
)  # fmt: skip


def mutate_bytes(words: tuple[bytes, ...]) -> Callable[[random.Random, bytes], bytes]:
    """Words of a language put in, taken out and doubled, and numbers in place of others."""

    def mutate(rng: random.Random, seed: bytes) -> bytes:
        data = bytearray(seed)
        for _ in range(rng.choice((1, 2, 3, 6))):
            at = rng.randrange(len(data) + 1)
            kind = rng.randrange(7)
            if kind <= 1:
                data[at:at] = rng.choice(words)
            elif kind == 2:
                del data[at : at + rng.choice((1, 2, 4, 8, 16, 40))]
            elif kind == 3:
                data[at:at] = data[at : at + rng.choice((4, 16, 60))]
            elif kind == 4:
                _damage(rng, data)
            elif kind == 5 and data:
                data[min(at, len(data) - 1)] = rng.randrange(256)
            else:
                _put(rng, data, at & ~3, rng.choice((4, 8)))
        return bytes(data)

    return mutate


mutate_raw = mutate_bytes((bytes(1), bytes(4), bytes(16), b"\xff" * 8, bytes(range(16))))


def mutate_binaries(rng: random.Random, seed: bytes) -> bytes:
    """The data of a BINR record, or of an ABIN record whose digest fits again."""
    data = bytearray(mutate_raw(rng, seed))
    if rng.random() < 0.5 and len(data) >= 64:
        data[48:64] = xxhash.xxh3_128_digest(bytes(data[64:]))
    return bytes(data)


# ---- seeds -------------------------------------------------------------------------------------------


def journal_bytes(*records: bytes, kind: bytes = format.JOURNAL, program: int = 7) -> bytes:
    return format.file_header(kind, IDENTITY, program, "program seven", salt=0) + b"".join(records)


def pack_bytes(datas: list[bytes]) -> bytes:
    """A pack as PackWriter writes it."""

    def fill(writer: pack.PackWriter) -> None:
        writer.add_parts(contents.used_parts([5, 6], 1000))
        for data in datas:
            add_record(writer, data, create_ns=1000, fingerprint=5, last_used=1000)

    return exports.packed(fill, IDENTITY, 7, "program seven")


def seeds() -> dict[str, dict[str, bytes]]:
    """Every seed by target and name, the same bytes each time."""
    with (
        mock.patch.object(time, "time_ns", lambda: 1_700_000_000_000_000_000),
        mock.patch.object(owner, "this_process", lambda: (bytes(range(16)), 4_194_305, 0, 12345)),
    ):
        return _seeds()


def _seeds() -> dict[str, dict[str, bytes]]:
    cells = [record(data, kind=1, create_ns=5) for data in (b"", b"x", b"CELL" * 9, bytes(range(200)))]
    note = record(flat.dumps({"plain_kind": 2, "stub": True}).encode(), format.NOTE)
    used = b"".join(contents.used_parts([1, 2, 3], 1_700_000_000))
    attest = b"".join(b"".join(cache_history.Known(bytes([n]) * 16, 100 + n, n, n & 5).parts()) for n in range(6))
    of_pipelines = [record(binaries(*[b"x" * n] * n), format.BINARIES, kind=1) for n in (0, 1, 3)]
    packs = {
        "pack": pack_bytes([bytes([n]) * 90 for n in range(6)]),
        "pack-small": pack_bytes([b"one", b"", b"two" * 40]),
        "pack-empty": pack_bytes([]),
    }
    journals = {
        "journal": journal_bytes(*cells, note, used),
        "journal-binaries": journal_bytes(*of_pipelines, cells[1]),
        "journal-torn": journal_bytes(*cells)[:-70],
        "journal-zeros": journal_bytes(cells[0], bytes(128), cells[3]),
    }
    policy = b"share: all\nsettings:\n  mode: auto\n  record_state: false\n"
    policy += b"rules:\n- match: {executable: 'a*'}\n  set: {mode: cells}\n"
    reason = "store/x.pack: truncated at byte 5: the file ends inside a record\n"
    claim = b"00112233445566778899aabbccddeeff-5-6-0123456789abcdef"
    run = flat.dumps({"program": "p", "list": [1, 2, {"a": None}], "empty": {}, "none": [], "text": "a%\n.=["}).encode()
    noted = record(flat.dumps({"texts": {1: "altered", 2: "x"}, "threads": {77: "render"}}).encode(), format.NOTE)
    entries = [
        (5, 6, 7, 8, 77, 1, 17, 1, 1, 1, 0, 0, 0),
        (1, 2, 0, 3, 0, 0, 0, 1, 4, 0, 2, 0, 0),
        (9,) * 8 + (8, 0, 0, 0, 0),
    ]
    happened = record(b"".join(timeline.EVENT.pack(*entry) for entry in entries), format.EVENTS)
    header = struct.pack("<IIII", 32, 1, 0x1002, 0x73BF) + bytes(range(16))
    used_data = struct.pack("<3Q", 1, 2, 3)
    return {
        "records": {**packs, **journals, "header": journal_bytes()},
        "compaction": {**packs, **journals},
        "attest": {"attest": journal_bytes(attest, kind=file_kinds.ATTEST.magic)},
        "binaries": {"none": binaries(), "three": binaries(b"", b"x" * 16, b"y" * 17)},
        "notes": {"note": b"plain_kind=i:2\nstub=b:1\n", "used": used_data},
        "flat": {"run": run, "reason": reason.encode()},
        "compiled": {"copy": b"\n" + flat.dumps({"settings": {"mode": "auto"}, "rules": [{"match": {}}]}).encode()},
        "runs": {"run": journal_bytes(record(run, format.NOTE), kind=format.RUN_FILE)},
        "timeline": {"events": journal_bytes(noted, happened, happened, kind=format.RUN_FILE)},
        "claim": {"claim": claim},
        "export": {"plain": exports.export_bytes(), "signed": exports.signed_bytes(exports.export_bytes())},
        "state": {"two": exports.state_bytes()},
        "fleet-index": {"index": exports.payload()},
        "fleet-signature": {"index": exports.SIGNED},
        "fleet-pack": {"pack": exports.pack_bytes(), "one": exports.pack_bytes(1)},
        "judge": {"accepted": header, "data": header + bytes(8)},
        "policy": {"policy": policy},
    }


# ---- large ones, tried once in every run -------------------------------------------------------------


def large(kind: str) -> dict[str, bytes]:
    """Half a MiB each of what would be slow or large if anything were more than linear."""
    size = 1 << 19
    if kind == "store":
        junk = bytes(15) + b"x"
        whole = record(bytes(200_000))
        impossible = header_over(format.CELL, 1 << 62)
        alternating = (junk + record(b"")) * (size // 80)
        large_one = record(bytes(1 << 21))
        tiny = b"".join(record(struct.pack("<Q", n)) for n in range(size // 80))
        return {
            "junk-and-records": journal_bytes(alternating),
            "junk-and-records-behind-a-large-one": journal_bytes(whole, large_one, alternating),
            "impossible-headers": journal_bytes(impossible * (size // 64)),
            "magics": journal_bytes(b"CELLSNAPNOTEBLOBATSTUSEDBINREVTS" * (size // 32)),
            "magic-at-each-place": journal_bytes((b"CELL" + bytes(12)) * (size // 16)),
            "zeros": journal_bytes(bytes(size)),
            "tiny-records": journal_bytes(tiny),
        }
    if kind == "flat":
        return {
            "deep": b"".join(f"{n:x}".encode() + b".a" * 31 + b"=n:\n" for n in range(size // 70)),
            "one-list": b"".join(f"l.[{n}=i:1\n".encode() for n in range(size // 14)),
            "percents": b"a=s:" + b"%25" * (size // 3),
            "dots": b"." * size + b"=n:",
            "digits": b"a=i:" + b"9" * size,
            "no-lines": b"\n" * size,
        }
    return {}
