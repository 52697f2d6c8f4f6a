"""Each file's records are sealed with its own number, so that data that looks like a record of another file is
refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.folders import loaded, put_known
from unit.things import flip

from pylayer.store import format
from pylayer.store.folder import Folder
from pylayer.store.journal import Journal
from pylayer.store.reader import Reader


def cell(data: bytes) -> list[bytes | memoryview]:
    return format.record_parts(format.CELL, data, create_ns=1)


def journal_of(folder: Folder, *datas: bytes) -> Path:
    journal = Journal(folder, 7)
    for data in datas:
        journal.append(cell(data))
    journal.close()
    assert journal.path is not None
    return Path(journal.path)


def embedded() -> bytes:
    """Returns data of a cell that contains a whole record at a place where a record may begin."""
    return bytes(64) + b"".join(cell(b"looks like a cell")) + bytes(640)


def test_a_record_inside_of_data_is_none(folder: Folder) -> None:
    """After a damaged header, data of that record that looks like a record is not used."""
    path = journal_of(folder, embedded(), b"the next")
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
