"""Pipeline binaries that a program reads and gives back later: attested, stale, and bounded."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import xxhash
from unit.folders import IDENTITY
from unit.things import FakeCommands, binary_read, cell, flip, keep, load, record, scan, write_journal
from unit.things import session as new_session

from pylayer.common.identity import Identity
from pylayer.common.settings import Limits
from pylayer.inhost.session import DeviceSession
from pylayer.store import binary_history, bounds, checking, format, pack
from pylayer.store.binary_history import BinaryHistory, compact, parse
from pylayer.store.folder import Folder
from pylayer.store.format import Damage
from pylayer.store.journal import Journal
from pylayer.store.maintenance import maintain, repair_whole_files
from pylayer.values import CARRIER_OFF, LOG_WARN, Attested

#: What the layer is told of a binary: key, digest, stale.
Told = tuple[bytes, bytes, bool]

Make = Callable[..., DeviceSession]


@pytest.fixture
def make(root: str) -> Make:
    """Makes sessions of a program that uses pipeline binaries, as processes of their own would."""

    def new(settings: dict[str, Any] | None = None, **changes: Any) -> DeviceSession:
        return new_session(root, FakeCommands(), settings, **{"binaries_requested": True, **changes})

    return new


def read(session: DeviceSession, *reads: Attested) -> None:
    parts: list[bytes | memoryview] = []
    for one in reads:
        parts += session.binaries.new(one)
    session.binaries.write(parts)


def told(session: DeviceSession) -> list[Told]:
    """Returns what the layer is told when the program passes data of binaries."""
    session.binaries.load()
    load(session)
    commands: Any = session.commands
    return commands.attested  # type: ignore[no-any-return]


def known(data: bytes, key: bytes = b"its key", stale: bool = False) -> Told:
    return key, xxhash.xxh3_128_digest(data), stale


def files(root: str) -> list[Path]:
    return sorted(Path(root).rglob("*.binaries"))


# ---- what comes back ---------------------------------------------------------------------------------


def test_known_in_the_next_run(make: Make) -> None:
    """The next run knows what the program read, even if the process was killed."""
    read(make(), binary_read(b"one"), binary_read(b"two", key=b"another"))
    session = make()
    assert told(session) == [known(b"one"), known(b"two", b"another")]
    assert session.binaries.attested == 2


def test_several_contents_under_a_key(make: Make) -> None:
    """Each content that was read under one key is known. The same content read twice is known once."""
    read(make(), binary_read(b"one"), binary_read(b"two"), binary_read(b"one"))
    read(make(), binary_read(b"one"), binary_read(b"three"))
    assert sorted(told(make())) == sorted([known(b"one"), known(b"two"), known(b"three")])


def test_read_again_after_a_failed_write(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written is written when the program reads it again."""
    session = make()
    binaries = session.binaries.history
    assert binaries is not None
    with monkeypatch.context() as full:
        full.setattr(Journal, "append", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(OSError):
            binaries.write(binaries.new(binary_read(b"one")) + binaries.new(binary_read(b"two")))
    for data in (b"one", b"two"):
        binaries.write(binaries.new(binary_read(data)))
        assert binaries.new(binary_read(data)) == []
    assert told(make()) == [known(b"one"), known(b"two")]


def test_a_run_that_knows_writes_nothing(make: Make, root: str) -> None:
    """What is already known is not written again."""
    read(make(), binary_read(b"one"))
    session = make()
    read(session, binary_read(b"one"))
    assert len(files(root)) == 1
    assert told(session) == [known(b"one")]


def test_another_global_key(make: Make, root: str) -> None:
    """What was read under another global key is told with that key, and stored once more under this one."""
    read(make(), binary_read(b"one"))
    session = make()
    read(session, binary_read(b"one", global_key=2))
    assert told(make()) == [known(b"one"), known(b"one")]
    (first, second) = [scan(path.read_bytes(), [])[0].fingerprint for path in files(root)]
    assert (first, second) == (1, 2)


def test_read_under_an_identity_of_an_earlier_pylayer(make: Make, root: str) -> None:
    """What the program read of the same driver, under an identity with the global key, is not stale."""
    session = make()
    older = Folder(root, Identity({**session.identity.fields, "global_key": "00" * 32}))
    history = BinaryHistory(older, session.program_id, "")
    history.write(history.new(binary_read(b"one")))
    assert len(files(root)) == 1 and told(session) == []


@pytest.mark.parametrize("setting", ["report", "pass"])
def test_where_all_data_passes(make: Make, root: str, setting: str) -> None:
    """Where all data of the program's own passes, nothing is stored or known."""
    session = make({"application_caches": setting})
    read(session, binary_read(b"one"))
    assert told(session) == told(make()) == []


def test_a_program_without_binaries(make: Make, root: str) -> None:
    """For a program that does not use pipeline binaries, nothing is read."""
    read(make(), binary_read(b"one"))
    assert told(make(binaries_requested=False)) == []


def test_another_program(make: Make) -> None:
    """A program is told of its own binaries only."""
    read(make(application="another"), binary_read(b"one"))
    assert told(make()) == []


def test_without_a_carrier(make: Make) -> None:
    """For a program that wants no internal cache, its own binaries are still checked. Nothing else is loaded."""
    read(make(), binary_read(b"one"))
    session = make()
    keep(session, cell(b"a pipeline"))
    session = make(carrier=CARRIER_OFF)
    assert told(session) == [known(b"one")]
    assert session.load.loaded.records == set()


def test_stale(make: Make) -> None:
    """What the program read from another driver is known as stale. The layer passes what is known as
    good, too."""
    read(make(driver_version=1), binary_read(b"old"), binary_read(b"same in both"))
    session = make()
    read(session, binary_read(b"same in both"))
    stale = [known(data, stale=True) for data in (b"old", b"same in both")]
    assert told(make()) == [known(b"same in both"), *stale]


def test_no_more_stale_ones_than_there_is_room_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of binaries from many other drivers, those that were read last are known. They are told in batches."""
    monkeypatch.setattr(binary_history, "MAX_STALE", 5)
    monkeypatch.setattr(binary_history, "BATCH", 2)
    for version in (1, 2):
        read(make(driver_version=version), *(binary_read(b"%d of %d" % (n, version)) for n in range(4)))
    assert told(make()) == [
        *(known(b"%d of 2" % n, stale=True) for n in range(4)),
        known(b"0 of 1", stale=True),
    ]


def test_damage_elsewhere(make: Make, root: str) -> None:
    """A damaged file of another driver is read up to the damage."""
    read(make(driver_version=1), *(binary_read(b"%d" % number) for number in range(4)))
    (path,) = files(root)
    places = [one.start for one in scan(path.read_bytes(), [])]
    flip(path, places[2] - 60)
    assert told(make()) == [known(b"%d" % number, stale=True) for number in range(2)]
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
    session = make()
    path = Path(root, "store", session.identity.name, f"{session.program_id:016x}-1.binaries")
    good = record(abin(b"good"), format.APPLICATION_BINARY)
    write_journal(path, session.identity, record(data, format.APPLICATION_BINARY), good, program_id=session.program_id)
    path.parent.parent.chmod(0o700)
    path.parent.parent.parent.chmod(0o700)
    assert told(session) == [known(b"good")]
    checked = checking.Checked(str(path))
    kind = format.APPLICATION_BINARIES_FILE
    list(checking.check_file(str(path), kind, session.identity.digest, checked, session.program_id))
    assert [(what.outcome, what.offset) for what in checked.damage] == [("impossible", 256)]


def test_damage_is_named_and_put_aside(make: Make, root: str) -> None:
    """Damage loses only its record. The log reports it, and the whole file goes to quarantine."""
    read(make(), binary_read(b"one"), binary_read(b"two"))
    (path,) = files(root)
    flip(path, 256 + 64 + 20)
    session = make()
    assert told(session) == [known(b"two")]
    assert [what.outcome for what in session.load.loaded.damage] == ["damaged-data"]
    commands: Any = session.commands
    assert any("damaged-data" in line for line in commands.lines(LOG_WARN))
    assert repair_whole_files(Folder(root, session.identity), session.load.loaded.damage) == 1
    assert files(root) == []


def test_torn_tail(make: Make, root: str) -> None:
    """A writer that was killed in the middle of a record loses only this record. This is not damage."""
    read(make(), binary_read(b"one"), binary_read(b"two"))
    (path,) = files(root)
    path.write_bytes(path.read_bytes()[:-20])
    session = make()
    assert told(session) == [known(b"one")]
    assert session.load.loaded.damage == []
    assert repair_whole_files(Folder(root, IDENTITY), [Damage(str(path), "truncated", 400)]) == 0


def test_store_that_cannot_be_written(make: Make, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing disk is reported once, and the program goes on."""
    session = make()
    monkeypatch.setattr(BinaryHistory, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    for number in range(3):
        read(session, binary_read(b"%d" % number))
    commands: Any = session.commands
    assert session.writer.errors == 1 and len(commands.lines(LOG_WARN)) == 1


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
    assert header is not None and header.application == make().program.name


def test_few_files_stay(make: Make, root: str, ended_writers: None) -> None:
    """A few files are left as they are."""
    for number in range(binary_history.MAX_FILES):
        read(make(), binary_read(b"%d" % number))
    before = files(root)
    compacted(root)
    assert files(root) == before


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
    write_journal(path, session.identity, *records, program_id=session.program_id)
    before = told(make())
    assert before == [known(bytes([number]) * 400_000) for number in range(4)]
    compacted(root)
    (path,) = files(root)
    assert path.stat().st_size < 2000
    assert told(make()) == before
    compacted(root)
    assert files(root) == [path]


def test_disk_that_is_full(make: Make, root: str, ended_writers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the new file cannot be written, the old files stay and nothing else is left."""
    for number in range(binary_history.MAX_FILES + 1):
        read(make(), binary_read(b"%d" % number))
    before = files(root)

    def fail(path: str, parts: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pack, "append", fail)
    with pytest.raises(OSError, match="No space"):
        compacted(root)
    assert files(root) == before
    assert not [name for name in os.listdir(before[0].parent) if name.endswith(".tmp")]


def test_damaged_file_is_left(make: Make, root: str, ended_writers: None) -> None:
    """A damaged file is not deleted: the next load reports it."""
    for number in range(binary_history.MAX_FILES + 1):
        read(make(), binary_read(b"%d" % number))
    damaged = files(root)[3]
    flip(damaged, 256 + 64 + 20)
    compacted(root)
    assert damaged in files(root) and len(files(root)) == 2


# ---- the store's limits ------------------------------------------------------------------------------


def test_maintenance(make: Make, root: str, ended_writers: None) -> None:
    """A program's process folds many files into one when it is idle."""
    for number in range(binary_history.MAX_FILES + 1):
        read(make(), binary_read(b"%d" % number))
    limits = Limits(1 << 40, 1 << 40)
    list(maintain(Folder(root, IDENTITY), [], limits, lambda text: None))
    assert len(files(root)) == 1


@pytest.mark.parametrize("whole_store", [True, False])
def test_oldest_files_leave(make: Make, root: str, whole_store: bool) -> None:
    """Beyond the limit of the store or of the program, the program's own binaries are evicted, oldest files first."""
    for number in range(3):
        session = make()
        read(session, *(binary_read(b"%d of %d" % (one, number)) for one in range(50)))
        os.utime(files(root)[-1], (1000 + number, 1000 + number))
    limits = (19_000, 1 << 40) if whole_store else (1 << 40, 19_000)
    trimmed = bounds.Trimmed()
    list(bounds.enforce(root, *limits, trimmed))
    assert trimmed.files == 1
    assert sorted(told(make())) == sorted(known(b"%d of %d" % (one, number)) for one in range(50) for number in (1, 2))


def test_far_beyond_the_limit(make: Make, root: str) -> None:
    """A store far beyond its limit also evicts them at a program's end."""
    read(make(), *(binary_read(b"%d" % one) for one in range(50)))
    assert bounds.drop_oldest_files(root, 5000) == 1
    assert files(root) == []
