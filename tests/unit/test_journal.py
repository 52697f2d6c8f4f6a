"""Journals: what was written is read back, and nothing else is, whatever happened to the file."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.things import facts, record, run_python, scan, write_journal

from pylayer.identity import Identity
from pylayer.store import journal

IDENTITY = Identity.of(facts())
DATA = [b"first", b"", b"x" * 16, b"CELL" * 9]


def contents(data: bytes) -> list[tuple[bytes, int, int, int, bytes]]:
    """Magic, kind, flags, duration and data of every record that is accepted."""
    return [
        (magic, kind, flags, create_ns, data[start : start + size])
        for magic, kind, flags, start, size, create_ns, _ in scan(data, [])
    ]


def small_journal() -> bytes:
    header = journal.file_header(IDENTITY, 7)
    return header + b"".join(record(data, kind=index, create_ns=100 + index) for index, data in enumerate(DATA))


def test_format_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of a journal are these: when this fails, journal.VERSION must rise, for stores exist."""
    monkeypatch.setattr(time, "time_ns", lambda: 0x1122334455667788)
    identity = Identity({"vendor_id": 1})
    identity.digest = bytes(range(16))
    header = journal.file_header(identity, 0x0102030405060708)
    one = record(b"data of a cell, 22 byt", kind=1, flags=1, create_ns=2_500_000)
    assert journal.VERSION == 1
    assert header.hex() == HEADER_HEX
    assert one.hex() == RECORD_HEX
    note = record(b"stub=b:1\n", journal.NOTE)
    assert note.hex() == NOTE_HEX


def test_round_trip() -> None:
    """Every record is read back with its kind, flags, duration and data, which starts at a multiple of 16."""
    data = small_journal()
    assert contents(data) == [(journal.CELL, i, 0, 100 + i, bytes(part)) for i, part in enumerate(DATA)]
    assert all(start % 16 == 0 for _, _, _, start, *_ in scan(data, []))


def test_torn_at_every_byte() -> None:
    """A journal cut anywhere gives exactly the records that lie before the cut."""
    whole = small_journal()
    ends = [start + size for _, _, _, start, size, *_ in scan(whole, [])]
    expected = contents(whole)
    for cut in range(len(whole)):
        torn = whole[:cut]
        reason = journal.check_file_header(torn, IDENTITY)
        assert reason == ("ok" if cut >= 64 else "truncated header")
        assert contents(torn) == expected[: sum(end <= cut for end in ends)], cut


@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_every_byte_flipped(change: int) -> None:
    """A changed byte costs the record that holds it, and no record that was not written is accepted."""
    whole = small_journal()
    expected = contents(whole)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= change
        if at < 64:
            assert journal.check_file_header(bytes(damaged), IDENTITY) != "ok", at
            continue
        found = contents(bytes(damaged))
        assert [one for one in expected if one in found] == found, at
        assert len(found) >= len(expected) - 1, at


def test_damage_is_named() -> None:
    """Each kind of damage is named once, with its place."""
    whole = small_journal()
    damage: list[str] = []
    header_hurt = bytearray(whole)
    header_hurt[64 + 8] ^= 1
    list(scan(bytes(header_hurt), damage))
    data_hurt = bytearray(whole)
    data_hurt[64 + 48] ^= 1
    list(scan(bytes(data_hurt), damage))
    list(scan(whole[: 64 + 50], damage))
    list(scan(whole[: 64 + 20], damage))
    assert damage == [
        "damaged record header at byte 64",
        "damaged data at byte 112",
        "truncated record at byte 64",
        "truncated record header at byte 64",
    ]


def test_resync_over_several_damaged_headers() -> None:
    """Records behind damaged headers are found again, also where data looks like records."""
    decoy = b"\0" * 3 + b"CELLSNAPNOTE" * 11 + b"\0" * 9 + b"CELL" * 40
    records = [record(decoy + bytes([number])) for number in range(6)]
    data = bytearray(journal.file_header(IDENTITY, 7) + b"".join(records))
    at = 64
    for number, one in enumerate(records):
        if number in (0, 2, 3):
            data[at + 30] ^= 0x40
        at += len(one)
    damage: list[str] = []
    found = [data[start + size - 1] for _, _, _, start, size, *_ in scan(bytes(data), damage)]
    assert found == [1, 4, 5]
    assert damage == [f"damaged record header at byte {64 + number * len(records[0])}" for number in (0, 2)]


def test_resync_ends_soon() -> None:
    """Megabytes of what looks like record headers behind a damaged one are passed in seconds."""
    data = journal.file_header(IDENTITY, 7) + bytes(48) + b"CELL" * (1 << 19) + record(b"behind")
    start = time.monotonic()
    assert [one[4] for one in contents(data)] == [b"behind"]
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("size", [1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_hostile_length(size: int) -> None:
    """A length beyond the file, under a header that verifies, ends the file: nothing is read or allocated."""
    head = journal.RECORD_HEADER.pack(journal.CELL, 0, 0, size, 0, bytes(16), 0)[: journal.HASHED_RECORD_HEADER]
    head += struct.pack("<Q", xxhash.xxh3_64_intdigest(head))
    damage: list[str] = []
    data = journal.file_header(IDENTITY, 7) + record(b"good") + head
    assert [one[5] for one in scan(data, damage)] == [0]
    assert damage == [f"truncated record at byte {64 + len(record(b'good'))}"]


def test_empty_file_and_empty_journal(tmp_path: Path) -> None:
    """A file of no bytes is refused by name; a journal without records has none and no damage."""
    empty = tmp_path / "empty.journal"
    empty.touch()
    assert journal.check_file_header(b"", IDENTITY) == "truncated header"
    damage: list[str] = []
    assert list(scan(journal.file_header(IDENTITY, 7), damage)) == []
    assert damage == []


def header_with(**changes: Any) -> bytes:
    fields = {"magic": journal.MAGIC, "version": 1, "size": 64, "digest": IDENTITY.digest, **changes}
    head = journal.FILE_HEADER.pack(fields["magic"], fields["version"], fields["size"], fields["digest"], 7, 0, 0, 0)
    head = head[: journal.HASHED_FILE_HEADER]
    return head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (header_with(), "ok"),
        (header_with(magic=b"SOMEBODY"), "not a journal"),
        (header_with(version=2), "format version 2"),
        (header_with(size=128), "format version 1"),
        (header_with(digest=bytes(16)), "another identity"),
        (header_with()[:-1] + b"\xff", "damaged header"),
        (b"\x7fELF" + bytes(100), "not a journal"),
    ],
)
def test_file_header_outcomes(data: bytes, reason: str) -> None:
    """Why a file is not used has a name."""
    assert journal.check_file_header(data, IDENTITY) == reason


def test_two_writers(tmp_path: Path) -> None:
    """Two writers of one program at once use two files, and lose nothing."""
    writers = [journal.Journal(str(tmp_path), IDENTITY, 7) for _ in range(2)]
    for number in range(20):
        data = b"cell %d" % number
        writers[number % 2].append(journal.record_parts(journal.CELL, data, xxhash.xxh3_128_digest(data)))
    for writer in writers:
        writer.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    assert all(path.name.startswith("0000000000000007-") and path.name.endswith(".journal") for path in files)
    found = sorted(one[4] for path in files for one in contents(Path(path).read_bytes()))
    assert found == sorted(b"cell %d" % number for number in range(20))


def test_file_appears_with_the_first_record(tmp_path: Path) -> None:
    """A program that compiles nothing leaves no file; the file is its owner's alone."""
    writer = journal.Journal(str(tmp_path), IDENTITY, 7)
    assert (writer.path, list(tmp_path.iterdir())) == (None, [])
    writer.append(journal.record_parts(journal.CELL, b"", xxhash.xxh3_128_digest(b"")))
    writer.close()
    assert writer.path is not None
    assert os.stat(writer.path).st_mode & 0o777 == 0o600


def test_many_records_in_one_append(tmp_path: Path) -> None:
    """More pieces than one system call takes are written all the same."""
    writer = journal.Journal(str(tmp_path), IDENTITY, 7)
    parts: list[bytes | memoryview] = []
    for number in range(1000):
        data = b"%d" % number
        parts += journal.record_parts(journal.CELL, data, xxhash.xxh3_128_digest(data))
    writer.append(parts)
    writer.close()
    assert [one[4] for one in contents(Path(writer.path).read_bytes())] == [b"%d" % n for n in range(1000)]


def test_full_journal_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that reached its greatest size is closed and another begun."""
    monkeypatch.setattr(journal, "MAX_BYTES", 200)
    writer = journal.Journal(str(tmp_path), IDENTITY, 7)
    for number in range(6):
        data = b"%d" % number * 50
        writer.append(journal.record_parts(journal.CELL, data, xxhash.xxh3_128_digest(data)))
    writer.close()
    found = [contents(Path(path).read_bytes()) for path in sorted(tmp_path.iterdir())]
    assert [len(records) for records in found] == [2, 2, 2]


FULL_DISK = """
import os, resource, sys
import xxhash
from pylayer.identity import Identity
from pylayer.store import journal

directory, limit, rollover = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
journal.MAX_BYTES = rollover

def append(number):
    data = b"%04d" % number * 200
    writer.append(journal.record_parts(journal.CELL, data, xxhash.xxh3_128_digest(data)))

def limit_files(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

writer = journal.Journal(directory, Identity({"vendor_id": 1}), 7)
kept = []
if rollover < limit:
    append(100)
    kept.append(100)
    limit = 32
limit_files(limit)
for number in range(20):
    try:
        append(number)
        kept.append(number)
    except OSError:
        break
else:
    raise SystemExit("the limit was never reached")
for _ in range(3):
    if limit < 64:
        try:
            append(99)
            raise SystemExit("a file beyond the limit was written")
        except OSError:
            pass
limit_files(resource.RLIM_INFINITY)
append(42)
kept.append(42)
writer.close()
print(*kept)
"""


@pytest.mark.parametrize(
    ("limit", "rollover", "files"),
    [(3000, 1 << 20, 2), (40, 1 << 20, 1), (900, 1 << 20, 1), (5000, 500, 2)],
    ids=["record", "header", "first record", "header of the next file"],
)
def test_disk_full(tmp_path: Path, limit: int, rollover: int, files: int) -> None:
    """What was stored before the disk was full stays, the next append works, and no empty or blown-up files remain."""
    kept = [int(number) for number in run_python(FULL_DISK, str(tmp_path), str(limit), str(rollover)).split()]
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == files
    found: list[int] = []
    for path in paths:
        damage: list[str] = []
        data = Path(path).read_bytes()
        found += [int(data[start : start + 4]) for _, _, _, start, *_ in scan(data, damage)]
        assert damage == []
        assert len(data) < 64 + 5 * 900
    assert found == kept


def test_too_large_to_be_a_journal(tmp_path: Path) -> None:
    """A file beyond the limit is refused before a byte of it is read."""
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(journal.MAX_READ_BYTES + 1)
    with pytest.raises(OSError, match="more than a journal can have"):
        journal.Reader(str(path))


@pytest.mark.parametrize("kind", ["symlink", "directory"])
def test_only_plain_files_are_read(tmp_path: Path, kind: str) -> None:
    """Links and directories are refused."""
    path = tmp_path / "it"
    if kind == "symlink":
        path.symlink_to(write_journal(tmp_path / "real", IDENTITY))
    else:
        path.mkdir()
    with pytest.raises(OSError):
        journal.Reader(str(path)).check_header(IDENTITY)


def test_pipe_does_not_block(tmp_path: Path) -> None:
    """A pipe in the store is refused, and nobody waits for its writer."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError):
        journal.Reader(str(path)).check_header(IDENTITY)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=100), max_size=8))
def test_any_data_round_trips(parts: list[bytes]) -> None:
    """Data of any bytes and sizes comes back in order."""
    data = journal.file_header(IDENTITY, 7) + b"".join(record(part) for part in parts)
    damage: list[str] = []
    assert [data[start : start + size] for _, _, _, start, size, *_ in scan(data, damage)] == parts
    assert damage == []


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.binary(max_size=60), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(min_value=64), st.binary(max_size=30)), max_size=4),
)
def test_damage_never_makes_records(parts: list[bytes], changes: list[tuple[int, bytes]]) -> None:
    """Bytes overwritten anywhere, at any length, leave a part of the records that were written, in their order."""
    data = bytearray(journal.file_header(IDENTITY, 7) + b"".join(record(part) for part in parts))
    for at, noise in changes:
        start = 64 + at % (len(data) - 64)
        data[start : start + len(noise)] = noise
    rest = iter(parts)
    assert all(one[4] in rest for one in contents(bytes(data)))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_noise_is_no_journal(noise: bytes) -> None:
    """Any bytes at all are read without an exception and give no record."""
    assert journal.check_file_header(noise, IDENTITY) != "ok"
    assert contents(noise) == []


HEADER_HEX = (
    "50594c415945524a0100000040000000000102030405060708090a0b0c0d0e0f"
    "0807060504030201887766554433221100000000000000004398c282c0680ba4"
)
RECORD_HEX = (
    "43454c4c010001001600000000000000a025260000000000abf4e46a26e3144f"
    "7d2b61b2647643679393ff8945b0963664617461206f6620612063656c6c2c20"
    "32322062797400000000000000000000"
)
NOTE_HEX = (
    "4e4f54450000000009000000000000000000000000000000fae4fe6571a1d831"
    "e19f47c42bbe34ff45faf029acf5f6f2737475623d623a310a00000000000000"
)


# ---- reading part by part --------------------------------------------------------------------------


def in_parts(path: Path, part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], list[str]]:
    """Data of all records read in parts of that size, and the damage."""
    monkeypatch.setattr(journal, "PART_BYTES", part_bytes)
    damage: list[str] = []
    reader = journal.Reader(str(path))
    found = [
        bytes(data[start : start + size])
        for data, records in reader.parts(damage)
        for _, _, _, start, size, _, _ in records
    ]
    reader.close()
    return found, damage


@pytest.mark.parametrize("part_bytes", [48, 64, 100, 256, 1000, 4096, 1 << 20])
def test_parts_hold_what_the_whole_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    """However small the parts, all records come out, once and in order, also those larger than a part."""
    data = [b"%d" % number * (1 + number * number % 97) for number in range(60)] + [b"x" * 5000, b""]
    path = tmp_path / "a.journal"
    records = b"".join(record(one) for one in data)
    path.write_bytes(journal.file_header(IDENTITY, 7) + records)
    assert in_parts(path, part_bytes, monkeypatch) == (data, [])


@pytest.mark.parametrize("part_bytes", [64, 200, 4096])
def test_damage_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    """With any byte of the file flipped, in any size of parts, no record comes out that was not put in, and at
    most two are lost."""
    data = [b"%03d" % number * 9 for number in range(12)]
    whole = journal.file_header(IDENTITY, 7) + b"".join(record(one) for one in data)
    path = tmp_path / "a.journal"
    for at in range(64, len(whole), 7):
        hurt = bytearray(whole)
        hurt[at] ^= 0x10
        path.write_bytes(hurt)
        found, _ = in_parts(path, part_bytes, monkeypatch)
        assert set(found) <= set(data) and len(found) >= len(data) - 2, at
    for size in range(64, len(whole), 11):
        path.write_bytes(whole[:size])
        found, damage = in_parts(path, part_bytes, monkeypatch)
        assert found == data[: len(found)]
        assert all(what.startswith(journal.TORN) for what in damage)


def test_length_beyond_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record whose verified header claims more than the file has is not waited for, nor allocated."""
    head = journal.RECORD_HEADER.pack(journal.CELL, 0, 0, 1 << 62, 0, bytes(16), 0)[:40]
    head += struct.pack("<Q", xxhash.xxh3_64_intdigest(head))
    path = tmp_path / "a.journal"
    path.write_bytes(journal.file_header(IDENTITY, 7) + head + bytes(1000))
    assert in_parts(path, 128, monkeypatch) == ([], ["truncated record at byte 64"])
