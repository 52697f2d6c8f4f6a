"""One device's session, over a fake layer that only records what it is told."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.things import (
    KIND_GRAPHICS,
    KIND_LIBRARY,
    SERIAL,
    FakeCommands,
    cell,
    counters,
    device_state,
    keep,
    load,
    record,
    scan,
    write_journal,
)
from unit.things import session as new_session

from pylayer.common import file_kinds
from pylayer.inhost import journal_writer, learning
from pylayer.inhost.session import DeviceSession
from pylayer.report.counters import RUN_VALUES
from pylayer.store import format, journal, runs
from pylayer.store.folder import Batch, Folder, Loaded
from pylayer.values import (
    CARRIER_CELLS,
    CELL_EMPTY,
    LOG_WARN,
    Cell,
)

KEEPS_NOTHING = "because the driver's VkPipelineCache keeps nothing"


class Clock:
    """time.monotonic under the test's control."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    result = Clock()
    monkeypatch.setattr(time, "monotonic", result)
    return result


Make = Callable[..., DeviceSession]


def stored(session: DeviceSession, root: str) -> list[tuple[bytes, int, int, int]]:
    """Returns data, kind, flags and duration of every cell on disk."""
    found = []
    for path in Folder(root, session.identity).files(None):
        data = Path(path).read_bytes()
        for one in scan(data, []):
            if one.magic != format.NOTE:
                found.append((data[one.start : one.start + one.size], one.kind, one.flags, one.create_ns))
    return found


def reloaded(session: DeviceSession, root: str) -> Loaded:
    """Returns what the next process loads."""
    loaded = Loaded()
    list(Folder(root, session.identity).load(session.program_id, loaded))
    return loaded


# ---- cells -------------------------------------------------------------------------------------------


def test_new_cell_is_stored(make: Make, root: str) -> None:
    """A new cell is on disk when the write returns, with its kind and duration."""
    session = make()
    keep(
        session,
        cell(b"one", kind=KIND_GRAPHICS, create_ns=500),
        cell(b"two", create_ns=7),
    )
    assert stored(session, root) == [(b"one", KIND_GRAPHICS, 0, 500), (b"two", 0, 0, 7)]
    assert (session.pipelines.stored_records, session.writer.errors, session.pipelines.lost_records) == (2, 0, 0)
    assert session.pipelines.stored_bytes == len(record(b"one") + record(b"two"))


def test_next_process_loads_it(make: Make, commands: FakeCommands) -> None:
    """What one session stored is handed to the driver by the next, and the waiting pipeline creations continue."""
    keep(make(), cell(b"one"), cell(b"two"))
    load(make())
    assert commands.loaded == [b"one", b"two"]
    assert commands.done == [SERIAL]


def test_own_duplicate(make: Make, root: str) -> None:
    """A pipeline that two threads compiled at the same time is stored once."""
    session = make()
    load(session)
    keep(session, cell(b"one"))
    keep(session, cell(b"one"), cell(b"one"))
    assert len(stored(session, root)) == 1
    assert session.pipelines.duplicates == 2


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows happens in a process that begins now."""
    monkeypatch.setattr(learning, "BEGAN_NS", time.time_ns())


def run(make: Make, *cells: Cell) -> DeviceSession:
    """Returns a run that loaded the store, compiled these cells, and then was judged."""
    session = make()
    session.commands.loaded.clear()
    session.watch()
    load(session)
    keep(session, *cells)
    session.read_counters()
    session.judge()
    return session


@pytest.mark.parametrize("kind", [0, 1, 5])
def test_empty_cells_of_whole_pipelines(
    make: Make, commands: FakeCommands, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    """A driver that puts nothing into the first four cells of a run is given up for this run. After two such runs the
    layer is off for the program, and says so once."""
    for number in (1, 2):
        another_process(monkeypatch)
        session = run(make, *[cell(b"", CELL_EMPTY, kind)] * 5)
        assert commands.switched_off == [SERIAL] * number
        assert "keeps nothing" in session.reason
        assert session.learning.told == (["the layer is off, " + KEEPS_NOTHING] if number == 2 else [])
    commands.switched_off.clear()
    following = run(make)
    assert commands.switched_off == [SERIAL] and following.off_by_verdict
    assert following.reason == "the layer is off, " + KEEPS_NOTHING and following.learning.told == []


def test_cell_with_data_refutes_a_stub(make: Make, commands: FakeCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose cells have data refutes that the driver's cache is a stub. No file is left."""
    session = run(make, *[cell(b"", CELL_EMPTY)] * 4)
    assert session.folder is not None and len(session.folder.files(None, (file_kinds.VERDICT,))) == 1
    another_process(monkeypatch)
    run(make, cell(b"one"))
    assert session.folder.files(None, (file_kinds.VERDICT,)) == []


@pytest.mark.parametrize("kind", [2, 3, 4, 6, 7])
def test_empty_cell_of_a_library(make: Make, commands: FakeCommands, root: str, kind: int) -> None:
    """Libraries and linked pipelines may add nothing to a cell. Nothing is concluded from that."""
    session = make()
    keep(session, cell(b"", CELL_EMPTY, kind))
    assert (commands.switched_off, stored(session, root)) == ([], [])
    assert kind != KIND_LIBRARY or session.reason == ""


@pytest.mark.parametrize("by_layer", [False, True], ids=["policy reads", "the layer reads"])
def test_empty_cells_of_a_driver_that_keeps_others(make: Make, commands: FakeCommands, by_layer: bool) -> None:
    """A driver that was seen to cache one pipeline is not a stub because it does not cache others, whoever reads the
    store."""
    session = make()
    keep(session, cell(b"one"), cell(b"", CELL_EMPTY))
    following = make()
    if by_layer:
        following.load.leave_to_layer(device_state(reads_store=True, stored_cells=1))
    else:
        load(following)
    keep(following, *[cell(b"", CELL_EMPTY)] * 5)
    assert commands.switched_off == []


def test_share(make: Make, commands: FakeCommands, root: str) -> None:
    """The program's own records are loaded, or everybody's if the policy file says so."""
    session = make()
    path = Path(Folder(root, session.identity).path, f"{1:016x}-1.journal")
    keep(session, cell(b"own"))
    write_journal(path, session.identity, record(b"foreign"), program_id=1)
    load(make())
    assert commands.loaded == [b"own"]
    commands.loaded.clear()
    load(make(share="all"))
    assert sorted(commands.loaded) == [b"foreign", b"own"]


# ---- failures ----------------------------------------------------------------------------------------


def test_write_failure(
    make: Make, commands: FakeCommands, root: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is reported once, and lost records are counted. Writing is tried again later, and then works."""
    session = make()
    keep(session, cell(b"before"))
    append = journal.Journal.append
    tries = []

    def fail(self: journal.Journal, parts: object) -> None:
        tries.append(clock.now)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(journal.Journal, "append", fail)
    keep(session, cell(b"1"), cell(b"2"))
    keep(session, cell(b"3"))
    clock.now += journal_writer.RETRY_SECONDS + 1
    keep(session, cell(b"4"))
    assert tries == [1000.0, 1011.0]
    assert (session.writer.errors, session.pipelines.lost_records, session.pipelines.stored_records) == (2, 4, 1)
    warnings = commands.lines(LOG_WARN)
    assert len(warnings) == 1
    assert "No space left on device" in warnings[0]
    monkeypatch.setattr(journal.Journal, "append", append)
    keep(session, cell(b"5"))
    clock.now += journal_writer.RETRY_SECONDS + 1
    keep(session, cell(b"6"))
    assert sorted(data for data, *_ in stored(session, root)) == [b"6", b"before"]
    assert (session.pipelines.lost_records, session.pipelines.stored_records) == (5, 2)


def test_store_deleted_while_running(make: Make, root: str) -> None:
    """If somebody deletes the store, the next record creates it again. Only what was deleted is lost."""
    session = make()
    keep(session, cell(b"1"))
    shutil.rmtree(root)
    keep(session, cell(b"2"))
    keep(session, cell(b"3"))
    assert [data for data, *_ in stored(session, root)] == [b"2", b"3"]
    assert (session.pipelines.lost_records, session.writer.errors) == (0, 0)


def test_store_of_others(make: Make, commands: FakeCommands, root: str) -> None:
    """A store that others may write to is reported, and neither read nor written."""
    keep(make(), cell(b"one"))
    os.chmod(root, 0o777)
    session = make()
    load(session)
    keep(session, cell(b"two"))
    assert commands.loaded == []
    assert commands.done == [SERIAL]
    assert all("can be written by others" in line for line in commands.lines(LOG_WARN))
    assert len(commands.lines(LOG_WARN)) == 1
    assert session.pipelines.lost_records == 1


def test_without_a_store(commands: FakeCommands) -> None:
    """Without a home directory everything runs, and nothing is written."""
    session = new_session(None, commands, carrier=CARRIER_CELLS)
    load(session)
    keep(session, cell(b"one"))
    session.write_run()
    session.close()
    assert (commands.done, session.pipelines.stored_records) == ([SERIAL], 0)


def test_refused_records(make: Make, commands: FakeCommands) -> None:
    """Records that the driver refuses are reported and do not count as loaded."""
    keep(make(), cell(b"one"))
    commands.refuses = True
    session = make()
    load(session)
    assert session.load.records == 0
    assert not session.load.whole


def test_damage_is_said_within_bounds(make: Make, commands: FakeCommands, root: str) -> None:
    """The log names the first few damaged files, and gives the number of the others."""
    session = make()
    keep(session, cell(b"one"))
    for number in range(20):
        path = Path(Folder(root, session.identity).path, f"{session.program_id:016x}-{number:02}.journal")
        path.write_bytes(b"not a journal" * 10)
    load(make())
    warnings = commands.lines(LOG_WARN)
    assert len(warnings) == 9
    assert warnings[-1] == "not used: 12 more damaged records"
    assert commands.loaded == [b"one"]


# ---- recency -----------------------------------------------------------------------------------------


def test_uses_are_recorded_once_a_day(make: Make, commands: FakeCommands, root: str) -> None:
    """Fingerprints of pipelines that a run created are written once, and not again by other runs of the same day."""
    commands.seen = struct.pack("=2Q", 5, 9)
    session = make()
    load(session)
    session.pipelines.write_uses()
    session.pipelines.write_uses()
    commands.seen = struct.pack("=3Q", 5, 9, 11)
    session.pipelines.write_uses()
    session.close()
    assert reloaded(session, root).used.keys() == {5, 9, 11}
    size = sum(path.stat().st_size for path in Path(root).rglob("*") if path.is_file())
    again = make()
    load(again)
    again.pipelines.write_uses()
    again.close()
    assert sum(path.stat().st_size for path in Path(root).rglob("*") if path.is_file()) == size


def test_uses_in_a_store_that_is_only_read(make: Make, commands: FakeCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there is nothing to store except uses, a store that cannot be written causes no warning."""

    def fail(self: journal.Journal, parts: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(journal.Journal, "append", fail)
    commands.seen = struct.pack("=Q", 5)
    session = make()
    load(session)
    session.pipelines.write_uses()
    assert commands.lines(LOG_WARN) == []


# ---- statistics --------------------------------------------------------------------------------------


def test_run_statistics(make: Make, commands: FakeCommands, root: str) -> None:
    """The run's file has the device, the program, the layer's counters, and the outcomes of caches and cells."""
    session = make()
    commands.totals = counters(pipelines=3, hits=2)
    keep(session, cell(b"one"))
    for outcome in ("accepted", "wrong-uuid", "wrong-uuid", "truncated"):
        session.caches.count(outcome, refused=outcome != "accepted")
    session.read_counters()
    session.write_run()
    (run,) = runs.read_all(root)
    assert run["counters"] == commands.totals
    assert run["refused"] == {"wrong-uuid": 2, "truncated": 1}
    assert run["cache_outcomes"] == {"accepted": 1}
    assert run["damage"] == {}
    assert (run["carrier"], run["stored_records"], run["pid"]) == ("cells", 1, os.getpid())
    assert set(RUN_VALUES) <= set(run), "each row of the table of what is shown has its value"
    assert run["identity"] == session.identity.name
    assert run["program"] == "stutter"


def test_no_statistics_before_the_run_has_its_name(make: Make, root: str) -> None:
    """Nothing is written while policy waits to be told that the device exists, which also tells the run's name."""
    session = make()
    session.read_counters()
    session.state = None
    assert not session.write_run() and list(runs.read_all(root)) == []
    session.state = device_state(carrier=CARRIER_CELLS)
    assert session.write_run() and len(list(runs.read_all(root))) == 1


def test_totals_of_a_device_that_is_gone(make: Make, commands: FakeCommands, root: str) -> None:
    """When the layer no longer has counters, the last known ones stay."""
    session = make()
    assert session.read_counters() == counters()
    commands.totals = counters(hits=9)
    session.read_counters()
    commands.totals = None
    assert session.read_counters()["hits"] == 9
    session.write_run()
    assert next(runs.read_all(root))["counters"]["hits"] == 9


def test_statistics_that_cannot_be_written(make: Make, commands: FakeCommands, root: str) -> None:
    """A run's file that cannot be written is reported once."""
    Path(root).touch()
    session = make()
    session.read_counters()
    session.write_run()
    session.write_run()
    assert session.writer.errors == 2
    assert len(commands.lines(LOG_WARN)) == 1


def test_torn_tail_is_no_damage(make: Make, commands: FakeCommands, root: str) -> None:
    """A journal whose writer has not finished loses its tail without a warning."""
    session = make()
    keep(session, cell(b"one"))
    (path,) = Path(Folder(root, session.identity).path).glob("*.journal")
    with path.open("ab") as file:
        file.write(b"CELL\0\0")
    load(make())
    assert commands.lines(LOG_WARN) == []
    assert commands.loaded == [b"one"]


def test_damage_is_counted_by_outcome(make: Make, root: str) -> None:
    """A run records how often a load found each kind of damage."""
    session = make()
    keep(session, cell(b"one"), cell(b"two"), cell(b"three"))
    assert session.folder is not None
    (path,) = session.folder.files(None)
    data = bytearray(Path(path).read_bytes())
    data[256 + 64] ^= 1
    Path(path).write_bytes(bytes(data[:-20]))
    again = make()
    load(again)
    again.read_counters()
    again.write_run()
    (run,) = runs.read_all(root)
    assert run["damage"] == {"damaged-data": 1, "truncated": 1}
    assert run["damaged_records"] == 1


def test_published_memory_is_left_alone(make: Make, commands: FakeCommands, root: str) -> None:
    """Memory that was published for the driver does not change before the next publication, even if the store has much
    in between that is already published."""
    session = make()
    old, new = [bytes([n]) * 4000 for n in range(250)], [bytes([n, 1]) * 2000 for n in range(250)]
    folder = Folder(root, session.identity)
    folder.prepare()
    for name, cells in (("1", old[100:]), ("2", old + new)):
        path = Path(folder.path, f"{session.program_id:016x}-{name}.closed")
        write_journal(path, folder.identity, *map(record, cells), program_id=session.program_id)
    published: list[tuple[Any, bytes]] = []
    changed = []

    def load_records(device: int, batch: Batch) -> bool:
        changed.extend(before for now, before in published if bytes(now) != before)
        places = zip(batch.offsets, batch.sizes, strict=True)
        views = [memoryview(batch.data)[start : start + size] for start, size in places]
        published[:] = [(view, bytes(view)) for view in views]
        return True

    commands.load_records = load_records  # type: ignore[method-assign]
    load(session)
    assert not changed
