"""Journals: exactly what was written is read back, whatever happened to the file."""

from __future__ import annotations

import copy
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import xxhash
from unit.things import IDENTITY, cells, flip, loaded, put_known, record, run, scan, write_journal

from pylayer.common import owner
from pylayer.store import compaction, format, reader
from pylayer.store.compaction import Claim
from pylayer.store.folder import Folder
from pylayer.store.format import Damage
from pylayer.store.journal import Journal
from pylayer.store.reader import Reader


def contents(data: bytes) -> list[tuple[bytes, int, int, int, bytes]]:
    """Returns magic, kind, flags, duration and data of every accepted record."""
    return [
        (one.magic, one.kind, one.flags, one.create_ns, data[one.start : one.start + one.size])
        for one in scan(data, [])
    ]


def test_format_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """These are the bytes of a file. If this fails, format.VERSION must be raised, because stores exist."""
    monkeypatch.setattr(time, "time_ns", lambda: 0x1122334455667788)
    monkeypatch.setattr(owner, "this_process", lambda: (bytes(range(16, 32)), 0x01020304, 0, 0x1112131415161718))
    identity = copy.copy(IDENTITY)
    identity.digest = bytes(range(16))
    header = format.file_header(format.JOURNAL, identity, 0x0102030405060708, "a program", salt=0, size=0x1000)
    one = record(b"data of a cell, 22 byt", kind=1, flags=1, create_ns=2_500_000, fingerprint=0xFEDC, last_used=99)
    salted = format.file_header(format.JOURNAL, identity, 7, salt=0x0123456789ABCDEF)
    assert format.VERSION == 3
    assert header.hex() == HEADER_HEX
    assert (salted[8:12], salted[240:248]) == (b"\x03\0\0\0", bytes.fromhex("efcdab8967452301"))
    sealed = format.seal(format.record_parts(format.CELL, b""), 0x0123456789ABCDEF)[0]
    assert sealed[56:] == xxhash.xxh3_64_intdigest(sealed[:56], 0x0123456789ABCDEF).to_bytes(8, "little")
    assert one.hex() == RECORD_HEX
    assert record(b"stub=b:1\n", format.NOTE).hex() == NOTE_HEX


def outcomes(damage: list[Damage]) -> list[tuple[str, int, int]]:
    return [(what.outcome, what.offset, what.size) for what in damage]


def test_damage_is_named() -> None:
    """Each kind of damage is reported once, with its place and length."""
    whole = format.file_header(format.JOURNAL, IDENTITY, 7, salt=0) + record(b"first") + record(b"x" * 16)
    damage: list[Damage] = []
    header_hurt = bytearray(whole)
    header_hurt[256 + 8] ^= 1
    scan(bytes(header_hurt), damage)
    data_hurt = bytearray(whole)
    data_hurt[256 + 64] ^= 1
    scan(bytes(data_hurt), damage)
    scan(whole[: 256 + 66], damage)
    scan(whole[: 256 + 20], damage)
    scan(whole + bytes(4096), damage)
    scan(whole + b"behind the end, whatever it is, there are no records here to be found, only this text", damage)
    end = len(whole)
    assert outcomes(damage) == [
        ("damaged-header", 256, 80),
        ("damaged-data", 256, 80),
        ("truncated", 256, 66),
        ("truncated", 256, 20),
        ("zero-filled", end, 4096),
        ("damaged-header", end, 85),
    ]


@pytest.mark.parametrize("size", [1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_hostile_length(size: int) -> None:
    """A length beyond the file, under a valid header, is neither read nor allocated. At the end it is a torn tail if a
    record can be that long. Elsewhere, the records after it are found."""
    start = 256 + len(record(b"good"))
    tail = "truncated" if size <= format.MAX_RECORD_BYTES else "impossible"
    for behind, outcome in ((b"", tail), (record(b"behind"), "impossible")):
        damage: list[Damage] = []
        long = format.record_header(format.CELL, size, bytes(16))
        data = format.file_header(format.JOURNAL, IDENTITY, 7, salt=0) + record(b"good") + long + behind
        if size == 1 and behind:
            continue  # it fits
        assert [one.size for one in scan(data, damage)] == [4] + [6] * bool(behind)
        assert outcomes(damage) == [(outcome, start, 64)]


def header_with(**changes: Any) -> bytes:
    """Returns a whole header with some fields changed and a valid hash."""
    header = bytearray(format.file_header(format.JOURNAL, IDENTITY, 7, salt=0))
    places = {"magic": (0, "8s"), "version": (8, "<I"), "size": (12, "<I"), "digest": (24, "16s")}
    for name, value in changes.items():
        struct.pack_into(places[name][1], header, places[name][0], value)
    struct.pack_into("<Q", header, 248, xxhash.xxh3_64_intdigest(bytes(header[:248])))
    return bytes(header)


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (header_with(), "ok"),
        (header_with()[:255], "truncated"),
        (header_with(magic=b"SOMEBODY"), "not-a-store-file"),
        (header_with(version=format.VERSION + 1), "foreign-version"),
        (header_with(version=0), "impossible"),
        (header_with(size=128), "impossible"),
        (header_with(digest=bytes(16)), "foreign-identity"),
    ],
)
def test_file_header_outcomes(data: bytes, outcome: str) -> None:
    """Each reason for not using a file has a name."""
    assert format.read_file_header(data, IDENTITY.digest)[1] == outcome


@pytest.mark.parametrize("how", ["renamed", "deleted", "replaced"])
def test_writer_notices_that_its_journal_was_taken(folder: Folder, how: str) -> None:
    """A writer whose journal another process took, because it seemed dead, writes its records again to a new
    journal."""
    writer = Journal(folder, 7)
    writer.append(format.record_parts(format.CELL, b"first"))
    assert writer.path is not None
    taken = Path(writer.path)
    if how == "renamed":
        taken.rename(taken.with_suffix(".closed"))
    else:
        taken.unlink()
    if how == "replaced":
        taken.write_bytes(b"")
    writer.append(format.record_parts(format.CELL, b"second"))
    assert writer.path != str(taken)
    assert [one[4] for one in contents(Path(writer.path).read_bytes())] == [b"second"]
    writer.append(format.record_parts(format.CELL, b"third"))
    assert [one[4] for one in contents(Path(writer.path).read_bytes())] == [b"second", b"third"]


def test_old_journal_is_followed_by_another(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody appends to a journal for longer than an hour, because another machine may then take it for abandoned."""
    writer = Journal(folder, 7)
    writer.append(format.record_parts(format.CELL, b"early"))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + owner.APPEND_SECONDS + 1)
    writer.append(format.record_parts(format.CELL, b"late"))
    assert [Path(path).suffix for path in folder.files(7)] == [".closed", ".journal"]


def test_many_records_in_one_append(folder: Folder) -> None:
    """An append with more pieces than one system call takes is written completely."""
    writer = Journal(folder, 7)
    parts: list[bytes | memoryview] = []
    for number in range(1000):
        data = b"%d" % number
        parts += format.record_parts(format.CELL, data)
    writer.append(parts)
    writer.close()
    assert writer.path is not None
    assert [one[4] for one in contents(Path(writer.path).read_bytes())] == [b"%d" % n for n in range(1000)]


def test_full_journal_is_followed_by_another(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that reaches its maximum size is closed, and another one is started."""
    monkeypatch.setattr(format, "MAX_JOURNAL_BYTES", 400)
    writer = Journal(folder, 7)
    for number in range(6):
        data = b"%d" % number * 50
        writer.append(format.record_parts(format.CELL, data))
    writer.close()
    found = [contents(Path(path).read_bytes()) for path in folder.files(7)]
    assert [len(records) for records in found] == [2, 2, 2]


def test_too_large_to_be_a_journal(tmp_path: Path) -> None:
    """A file beyond the limit is refused before a byte of it is read."""
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(format.MAX_FILE_BYTES + 1)
    with pytest.raises(OSError, match="more than a file of the store can have"):
        Reader(str(path))


HEADER_HEX = (
    "50594c434143484503000000000100004a524e4c000000000001020304050607"
    "08090a0b0c0d0e0f02100000bf73000007004006030000000001020304050607"
    "08090a0b0c0d0e0f080100000000000000000000000000000000000000000000"
    "0000000000000000000000000000000008070605040302018877665544332211"
    "00100000000000000000000000000000101112131415161718191a1b1c1d1e1f"
    "04030201000000001817161514131211612070726f6772616d00000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000685f3a586a21c3a"
)
RECORD_HEX = (
    "43454c4c010001001600000000000000a025260000000000abf4e46a26e3144f"
    "7d2b61b264764367dcfe000000000000630000000000000001ce9b3e500d74cf"
    "64617461206f6620612063656c6c2c2032322062797400000000000000000000"
)
NOTE_HEX = (
    "4e4f54450000000009000000000000000000000000000000fae4fe6571a1d831"
    "e19f47c42bbe34ff000000000000000000000000000000001d4b820aca83d041"
    "737475623d623a310a00000000000000"
)


# ---- Sealing -------------------------------------------------------------------------------------


def journal_of(folder: Folder, *datas: bytes) -> Path:
    journal = Journal(folder, 7)
    for data in datas:
        journal.append(format.record_parts(format.CELL, data))
    journal.close()
    assert journal.path is not None
    return Path(journal.path)


def test_a_record_inside_of_data_is_none(folder: Folder) -> None:
    """After a damaged header, data of that record that looks like a record, where one may begin, is not used."""
    path = journal_of(folder, bytes(64) + record(b"looks like a cell") + bytes(640), b"the next")
    flip(path, format.FILE_HEADER.size + 20)
    found, result = loaded(folder, 7)
    assert found == [b"the next"]
    assert [what.outcome for what in result.damage] == ["damaged-header"]


@pytest.mark.parametrize("first", [256, 4096])
def test_a_stretch_of_another_file(folder: Folder, first: int) -> None:
    """Blocks of another file, as a damaged file system may return, add no records."""
    mine = journal_of(folder, *(b"mine %d" % number for number in range(100)))
    theirs = journal_of(folder, *(b"other %d" % number for number in range(100))).read_bytes()
    data = mine.read_bytes()
    for path in Path(folder.path).glob("*.closed"):
        path.unlink()
    mine.write_bytes(data[:first] + theirs[first:])
    found, _ = loaded(folder, 7)
    assert found == [b"mine %d" % number for number in range((first - 256) // 80)]


def test_every_file_has_its_own(folder: Folder) -> None:
    """Each written file has another salt, and all its records verify."""
    journal_of(folder, b"one")
    put_known(folder, 7, b"one")
    put_known(folder, 7, b"two")
    salts = []
    for path in Path(folder.path).iterdir():
        if path.name == "identity":
            continue
        reader = Reader(str(path))
        damage: list[format.Damage] = []
        salts.append(reader.salt)
        assert sum(len(part.records) for part in reader.parts(damage)) >= 1 and not damage
    assert len(salts) == len(set(salts)) >= 3 and 0 not in salts


# ---- Files that no honest writer produces --------------------------------------------------------


@pytest.mark.parametrize("name", ["somebody", "-1-1-1", "00-1-inf-0", f"{'0' * 32}-1-1-0", f"00-{'f' * 100}-1-0"])
def test_claim_that_cannot_be(folder: Folder, name: str) -> None:
    """A claim that names no process, like one of another machine or container, is abandoned after a quarter of an
    hour."""
    path = os.path.join(folder.path, f"compacting.{name}.tmp")
    os.mkdir(path)
    os.utime(path, (time.time() - 800,) * 2)
    assert not Claim(folder).acquire()
    os.utime(path, (time.time() - 1000,) * 2)
    assert Claim(folder).acquire()


def test_shattered_file(folder: Folder) -> None:
    """A compaction keeps all records of a file with thousands of damaged places, and deletes the file."""
    junk = b"".join(struct.pack("<QQ", n, 1) + record(struct.pack("<Q", n)) for n in range(2000))
    path = write_journal(Path(folder.path, f"{7:016x}-1-1.closed"), IDENTITY, junk)
    result = run(compaction.Compaction(folder, 7, everything=True))
    assert (result.repaired, len(cells(folder))) == (1, 2000)
    assert not path.exists()


def test_record_larger_than_any() -> None:
    """No buffer is allocated for a length that no record has, even if the file, which may be sparse, is that long."""
    data = format.record_header(format.CELL, format.MAX_RECORD_BYTES + 16, bytes(16)) + record(b"behind")
    damage: list[format.Damage] = []
    found: list[reader.Record] = []
    assert reader.Scan("x", damage, 0).part(data, len(data), 0, 1 << 33, found) == len(data)
    assert [what.outcome for what in damage] == ["impossible"]
    assert len(found) == 1
