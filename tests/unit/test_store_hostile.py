"""Store files that no honest writer produces. tests/fuzz found each of them, and each did more harm than the loss of
the file."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from unit.folders import IDENTITY, cells, run
from unit.things import add_record, flip, record

from pylayer.store import bounds, compaction, format, pack, reader
from pylayer.store.compaction import Claim
from pylayer.store.folder import Folder


def file_of(*records: bytes, kind: bytes = format.JOURNAL) -> bytes:
    return format.file_header(kind, IDENTITY, 7, salt=0) + b"".join(records)


def write_pack(path: str, datas: list[bytes]) -> None:
    writer = pack.PackWriter(path, IDENTITY, 7)
    for data in datas:
        add_record(writer, data)
    writer.finish()


def put(folder: Folder, name: str, data: bytes) -> str:
    path = Path(folder.path, name)
    path.write_bytes(data)
    return str(path)


def run_compaction(folder: Folder, **options: Any) -> compaction.Compaction:
    return run(compaction.Compaction(folder, 7, everything=True, **options))


def test_junk_between_records_costs_what_it_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte is searched about once for each magic, even if the search restarts after every record."""
    searched = 0

    class Searched(bytearray):
        def find(self, what: Any, start: int = 0, end: int | None = None) -> int:
            nonlocal searched
            found = super().find(what, start, end)
            searched += ((end or len(self)) if found < 0 else found) - start
            return found

    monkeypatch.setattr(reader, "bytearray", Searched, raising=False)
    path = tmp_path / "x.journal"
    data = file_of((bytes(15) + b"x" + record(b"")) * 1000)
    path.write_bytes(data)
    one = reader.Reader(str(path))
    assert sum(len(part.records) for part in one.parts([])) == 1000
    assert searched <= len(format.MAGICS) * len(data)


@pytest.mark.parametrize("size", [0, 255, 256, 300, 1 << 40, (1 << 64) - 1])
def test_pack_whose_header_lies_about_its_size(folder: Folder, size: int) -> None:
    """Nothing after the end that a header claims is read, no memory beyond the file is allocated, and each case is
    reported."""
    body = record(b"cell")
    head = format.file_header(format.PACK, IDENTITY, 7, salt=0, size=size)
    path = put(folder, f"{7:016x}-1.pack", head + body)
    one = reader.Reader(path)
    header, _ = one.header()
    assert header is not None
    damage: list[format.Damage] = []
    records = [r for part in one.content(header, damage) for r in part.records]
    assert len(records) == (size > 336)
    assert {what.outcome for what in damage} == (
        {"truncated"} if size > 336 else {"extended"} | ({"truncated"} if size == 300 else set())
    )
    assert one.record_at(size) is None or size == 256
    list(bounds.Survey(folder.root).read())
    run_compaction(folder, must=frozenset([path]))
    assert len(cells(folder)) == (size > 336)


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


def test_compaction_takes_the_copy_that_verifies(folder: Folder) -> None:
    """If a record is in two packs and damaged in one of them, the good one is kept."""
    shared = os.urandom(500)
    paths = [os.path.join(folder.path, f"{7:016x}-{number}.pack") for number in (1, 2)]
    for path in paths:
        write_pack(path, [shared, os.urandom(500 + int(path[-6]))])
    flip(paths[0], Path(paths[0]).read_bytes().index(shared))
    before = set(cells(folder))
    assert len(before) == 3
    result = run_compaction(folder)
    assert set(cells(folder)) == before
    assert [what.outcome for what in result.damage] == ["damaged-data"]


def test_shattered_file(folder: Folder) -> None:
    """A compaction keeps all records of a file with thousands of damaged places, and deletes the file."""
    junk = b"".join(struct.pack("<QQ", n, 1) + record(struct.pack("<Q", n)) for n in range(2000))
    name = f"{7:016x}-1-1.closed"
    put(folder, name, file_of(junk))
    result = run_compaction(folder)
    assert (result.repaired, len(cells(folder))) == (1, 2000)
    assert name not in os.listdir(folder.path)


def test_record_larger_than_any() -> None:
    """No buffer is allocated for a length that no record has, even if the file, which may be sparse, is that long."""
    data = format.record_header(format.CELL, format.MAX_RECORD_BYTES + 16, bytes(16)) + record(b"behind")
    damage: list[format.Damage] = []
    found: list[reader.Record] = []
    assert reader.Scan("x", damage, 0).part(data, len(data), 0, 1 << 33, found) == len(data)
    assert [what.outcome for what in damage] == ["impossible"]
    assert len(found) == 1
