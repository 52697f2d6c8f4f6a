"""Pipeline binaries that a program reads and gives back later: attested, stale, and bounded."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from unit.folders import IDENTITY
from unit.things import binary_read, facts, flip, record, scan, write_journal

from pylayer.common.identity import Identity
from pylayer.store import binary_history, bounds, checking, format, maintenance
from pylayer.store.binary_history import BinaryHistory, compact, parse
from pylayer.store.folder import Folder
from pylayer.values import Attested

#: What the layer is told of a binary: key, digest, stale.
Told = tuple[bytes, bytes, bool]

Make = Callable[..., BinaryHistory]
#: The program.
NUMBER = 7


@pytest.fixture
def make(root: str) -> Make:
    """Returns the history of a program, as each of its processes has it."""
    return lambda **changes: BinaryHistory(Folder(root, Identity.of(facts(**changes))), NUMBER, "stutter")


def read(history: BinaryHistory, *reads: Attested) -> None:
    parts: list[bytes | memoryview] = []
    for one in reads:
        parts += history.new(one)
    history.write(parts)


def told(history: BinaryHistory) -> list[Told]:
    """Returns what the layer is told when the program passes data of binaries."""
    return [(one.key, one.digest, one.stale) for batch in history.load() for one in batch]


def known(data: bytes, key: bytes = b"its key", stale: bool = False) -> Told:
    return key, xxhash.xxh3_128_digest(data), stale


def files(root: str) -> list[Path]:
    return sorted(Path(root).rglob("*.binaries"))


# ---- what comes back ---------------------------------------------------------------------------------


def test_no_more_stale_ones_than_there_is_room_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of binaries from many other drivers, those that were read last are known. They are told in batches."""
    monkeypatch.setattr(binary_history, "MAX_STALE", 5)
    for version in (1, 2):
        read(make(driver_version=version), *(binary_read(b"%d of %d" % (n, version)) for n in range(4)))
    assert told(make()) == [
        *(known(b"%d of 2" % n, stale=True) for n in range(4)),
        known(b"0 of 1", stale=True),
    ]


def test_damage_elsewhere(make: Make, root: str) -> None:
    """Of a damaged file of another driver, the damaged record alone is lost."""
    read(make(driver_version=1), *(binary_read(b"%d" % number) for number in range(4)))
    (path,) = files(root)
    places = [one.start for one in scan(path.read_bytes(), [])]
    flip(path, places[2] - 60)
    assert told(make()) == [known(b"%d" % number, stale=True) for number in (0, 1, 3)]
    path.write_bytes(b"")
    assert told(make()) == []


# ---- bounds ------------------------------------------------------------------------------------------


def test_no_more_binaries_than_are_known(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the maximum number, the binaries of the newest files are known. A run adds at most as many as are kept."""
    monkeypatch.setattr(binary_history, "MAX_BINARIES", 3)
    read(make(), *(binary_read(b"%d" % number) for number in range(9)))
    assert told(make()) == [known(b"%d" % number) for number in range(3)]
    session = make()
    read(session, *(binary_read(b"new %d" % number) for number in range(9)))
    assert told(make()) == [known(b"new %d" % number) for number in range(3)]


# ---- hostile files -----------------------------------------------------------------------------------


def abin(data: bytes | None, **changes: Any) -> bytes:
    """Returns the data of an ABIN record, as docs/internals/format.md describes it. Earlier pylayers added data."""
    values: dict[str, Any] = {
        "key_size": 7,
        "has_data": data is not None,
        "size": len(data or b""),
        "key": b"its key",
        "digest": xxhash.xxh3_128_digest(data or b""),
        **changes,
    }
    return struct.pack("<IIQ32s16s", *values.values()) + (data or b"")


def test_layout() -> None:
    """The bytes of a record are these."""
    for data in (abin(b"data"), abin(None, size=4, digest=xxhash.xxh3_128_digest(b"data"))):
        assert parse(data, global_key=1) == binary_read(b"data")
    parts = binary_history.record_parts(binary_read(b"data"))
    assert b"".join(parts)[64:] == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        abin(b"data")[:63],
        abin(b"data")[:-1],
        abin(b"data") + b"\0",
        abin(b"data", key_size=0),
        abin(b"data", key_size=33),
        abin(b"data", key_size=6),
        abin(b"data", has_data=2),
        abin(b"data", has_data=0),
        abin(b"data", size=3),
        abin(b"data", size=1 << 63),
        abin(b"data", digest=bytes(16)),
        abin(None, has_data=1, size=1 << 40),
    ],
)
def test_impossible_records(make: Make, root: str, data: bytes) -> None:
    """An impossible record is ignored, and verify names it."""
    folder = Folder(root, IDENTITY)
    folder.prepare()
    good = record(abin(b"good"), format.APPLICATION_BINARY)
    path = Path(folder.path, f"{NUMBER:016x}-1.binaries")
    write_journal(path, IDENTITY, record(data, format.APPLICATION_BINARY), good)
    assert told(make()) == [known(b"good")]
    checked = checking.Checked()
    list(checking.check_file(str(path), format.APPLICATION_BINARIES_FILE, IDENTITY.digest, checked, NUMBER))
    assert [(what.outcome, what.offset) for what in checked.damage] == [("impossible", 256)]


def test_damage_is_named_and_put_aside(make: Make, root: str) -> None:
    """Damage loses only its record. Maintenance deletes the whole file."""
    read(make(), binary_read(b"one"), binary_read(b"two"))
    (path,) = files(root)
    flip(path, 256 + 64 + 20)
    session = make()
    assert told(session) == [known(b"two")]
    assert [what.outcome for what in session.damage] == ["damaged-data"]
    list(maintenance.tidy(Folder(root, IDENTITY), session.damage, print))
    assert files(root) == []


# ---- one file of many --------------------------------------------------------------------------------


def compacted(root: str) -> None:
    list(compact(Folder(root, IDENTITY)))


@pytest.fixture
def ended_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every file's writer appear to have ended."""
    monkeypatch.setattr(binary_history, "has_writer", lambda path: False)


def test_one_file_of_many(make: Make, root: str, ended_writers: None) -> None:
    """The files of many runs become one, with everything that they knew and with the program's name."""
    for number in range(binary_history.MAX_FILES + 1):
        read(make(), binary_read(b"%d" % number), binary_read(b"in all"))
    before = sorted(told(make()))
    compacted(root)
    (path,) = files(root)
    assert sorted(told(make())) == before
    header, _ = format.read_file_header(path.read_bytes()[:256])
    assert header is not None and header.application == "stutter"


def test_files_being_written_stay(make: Make, root: str) -> None:
    """A fold leaves files alone that a running process writes."""
    for number in range(binary_history.MAX_FILES + 1):
        read(make(), binary_read(b"%d" % number))
    before = files(root)
    compacted(root)
    assert files(root) == before


def test_data_leaves(make: Make, root: str, ended_writers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data that an earlier pylayer kept of binaries leaves with a file that is larger than digests make it. What is
    known stays known."""
    monkeypatch.setattr(binary_history, "MAX_BINARIES", 100)
    session = make()
    read(session, binary_read(b"new"))
    (path,) = files(root)
    records = [record(abin(bytes([number]) * 400_000), format.APPLICATION_BINARY, fingerprint=1) for number in range(4)]
    write_journal(path, IDENTITY, *records)
    before = told(make())
    assert before == [known(bytes([number]) * 400_000) for number in range(4)]
    compacted(root)
    (path,) = files(root)
    assert path.stat().st_size < 2000
    assert told(make()) == before
    compacted(root)
    assert files(root) == [path]


def test_damaged_file_is_left(make: Make, root: str, ended_writers: None) -> None:
    """A damaged file is not deleted: the next load reports it."""
    for number in range(binary_history.MAX_FILES + 1):
        read(make(), binary_read(b"%d" % number))
    damaged = files(root)[3]
    flip(damaged, 256 + 64 + 20)
    compacted(root)
    assert damaged in files(root) and len(files(root)) == 2


# ---- the store's limits ------------------------------------------------------------------------------


def test_oldest_files_leave(make: Make, root: str) -> None:
    """Beyond the limit of the store, the program's own binaries are evicted, oldest files first."""
    for number in range(3):
        session = make()
        read(session, *(binary_read(b"%d of %d" % (one, number)) for one in range(50)))
        os.utime(files(root)[-1], (1000 + number, 1000 + number))
    trimmed = bounds.Eviction(root, 19_000)
    list(trimmed.steps())
    assert trimmed.files == 1
    assert sorted(told(make())) == sorted(known(b"%d of %d" % (one, number)) for one in range(50) for number in (1, 2))


def test_far_beyond_the_limit(make: Make, root: str) -> None:
    """A store far beyond its limit also evicts them at a program's end."""
    read(make(), *(binary_read(b"%d" % one) for one in range(50)))
    assert bounds.drop_oldest_files(root, 5000) == 1
    assert files(root) == []
