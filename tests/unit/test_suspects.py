"""The mark of a process that died: the fewest records that explain the death are set aside, and are later used
again."""

from __future__ import annotations

import mmap
import os
import re
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import xxhash
from unit.things import FakeCommands, cell, device_state, facts, load, program

from pylayer.common import file_kinds, flat, owner
from pylayer.common.files import unique_name
from pylayer.common.identity import Identity, program_id
from pylayer.common.settings import DEFAULTS
from pylayer.inhost.session import DeviceSession
from pylayer.store import crash_notes, format, sentinel, suspects
from pylayer.store.folder import Folder
from pylayer.values import CARRIER_CELLS, CARRIER_OFF

SERIAL = 5
ROOM = struct.Struct("<IHHQ14Q")
#: A pid that belongs to no process.
GONE = (1 << 22) + 7


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(str(tmp_path / "root"), Identity.of(facts()))
    folder.prepare()
    return folder


def number(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "little")


def mark(call: int, *ids: int, kind: int = 0, cache: int = 0) -> bytes:
    return ROOM.pack(call, kind, len(ids), cache, *ids, *([0] * (14 - len(ids))))


def header(folder: Folder, pid: int, machine: bytes | None = None) -> bytes:
    """Returns a file header as another process would write it."""
    fields = list(
        format.FILE_HEADER.unpack(format.file_header(file_kinds.LIVE.magic, folder.identity, 7, "a game", salt=0))
    )
    fields[19:21] = [owner.this_process()[0] if machine is None else machine, pid]
    head = format.FILE_HEADER.pack(*fields)[: format.HASHED_FILE_HEADER]
    return head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head))


def death(folder: Folder, *marks: bytes, pid: int = GONE, machine: bytes | None = None, directory: str = "") -> Path:
    """Writes what a process leaves that died with these marks."""
    data = header(folder, pid, machine) + b"".join(marks)
    path = Path(directory or folder.path, f"{7:016x}-{unique_name()}{file_kinds.LIVE}")
    path.write_bytes(data + bytes(sentinel.BYTES - len(data)))
    return path


def session(folder: Folder, commands: FakeCommands | None = None) -> DeviceSession:
    """Returns a session of a device that exists, as the next process would make it."""
    wanted = {**DEFAULTS, "fsync_interval_ms": None}
    new = DeviceSession(commands or FakeCommands(), SERIAL, program(), facts(), folder.root, "program", wanted)
    new.state = device_state(carrier=CARRIER_CELLS)
    return new


def stored(folder: Folder, **pipelines: int) -> dict[str, bytes]:
    """Stores cells with these fingerprints, from a run that has ended. Returns their data by name."""
    run = session(folder)
    run.watch()
    parts: list[Any] = []
    for name, fingerprint in pipelines.items():
        parts += run.keeping.new(cell(name.encode(), fingerprint=fingerprint))
    run.keeping.write(parts)
    run.close()
    return {name: name.encode() for name in pipelines}


def loads(folder: Folder) -> tuple[set[bytes], FakeCommands]:
    """Returns what the next run gives to the driver."""
    commands = FakeCommands()
    run = session(folder, commands)
    run.watch()
    load(run)
    run.close()
    return set(commands.loaded), commands


# ---- marks ---------------------------------------------------------------------------------------


def test_layout_is_the_layers() -> None:
    """The numbers here match shim/boundary.h."""
    text = Path(__file__).parents[2].joinpath("shim", "boundary.h").read_text()
    for name, value in {
        "PYLAYER_MARKS_OFFSET": sentinel.OFFSET,
        "PYLAYER_LIVE_BYTES": sentinel.BYTES,
        "PYLAYER_MARK_COUNT": (sentinel.BYTES - sentinel.OFFSET) // sentinel.MARK.size,
    }.items():
        assert f"#define {name} {value}" in text
    for name, value in {"RECORDS": 2, "APPLICATION": 3, "MERGE": 4, "PIPELINES": 5, "COMPILE": 6}.items():
        assert f"PYLAYER_MARK_{name} = {value}," in text and getattr(sentinel, name) == value
    marked = {int(value): name for name, value in re.findall(r"PYLAYER_MARK_(\w+) = (\d+),", text)}
    assert sentinel.ADDED.keys() == marked.keys() - range(sentinel.COMPILE + 1)
    assert (marked[sentinel.PROBE], marked[sentinel.ADOPT]) == ("PROBE", "ADOPT")
    assert f"PYLAYER_MARK_ADDED {min(sentinel.ADDED)} " in text
    assert f"PYLAYER_MARK_END {max(sentinel.ADDED) + 1}\n" in text


@pytest.mark.parametrize("call", [0, 1, *sentinel.ADDED, 0xFFFFFFFF])
def test_calls_that_say_nothing(folder: Folder, call: int) -> None:
    """No mark, an incomplete mark, a call that the layer added, and a mark that no layer writes make no stored data
    suspected."""
    stored(folder, one=11)
    path = death(folder, mark(call, 11))
    assert loads(folder)[0] == {b"one"} and not path.exists()


def test_process_that_lives(folder: Folder) -> None:
    """A sentinel whose process still runs is left alone. So is one of another container or boot, and a damaged one, as
    long as a process has the file open or mapped: then the kernel knows that it lives."""
    mine = death(folder, mark(sentinel.PIPELINES, 11), pid=os.getpid())
    data = bytearray(mine.read_bytes())
    data[:256] = format.file_header(file_kinds.LIVE.magic, folder.identity, salt=0)
    mine.write_bytes(data)
    other = death(folder, mark(sentinel.PIPELINES, 11), machine=b"another machine!")
    damaged = death(folder, mark(sentinel.PIPELINES, 11))
    damaged.write_bytes(damaged.read_bytes()[:100])
    with other.open("r+b") as opened, damaged.open("r+b"):
        mapping = mmap.mmap(opened.fileno(), 0)
        opened.close()
        assert not crash_notes.review(folder)[0] and all(path.exists() for path in (mine, other, damaged))
    mapping.close()
    assert crash_notes.review(folder)[0].pipelines.keys() == {11}
    assert mine.exists() and not other.exists() and not damaged.exists()


def test_file_system_without_leases(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel does not say whether a sentinel is mapped, that of a process elsewhere is left alone for a
    day."""
    monkeypatch.setattr(sentinel, "_state_of_mapping", lambda fd: owner.ELSEWHERE)
    other = death(folder, mark(sentinel.PIPELINES, 11), machine=b"another machine!")
    assert not crash_notes.review(folder)[0] and other.exists()
    os.utime(other, (time.time() - 25 * 3600,) * 2)
    assert crash_notes.review(folder)[0].pipelines.keys() == {11} and not other.exists()


def test_more_ids_than_a_mark_has(folder: Folder) -> None:
    """An impossible count is cut to the number of existing ids."""
    data = bytearray(mark(sentinel.PIPELINES, *range(1, 15)))
    data[6:8] = b"\xff\xff"
    death(folder, bytes(data))
    assert crash_notes.review(folder)[0].pipelines.keys() == set(range(1, 15))


# ---- what is set aside, and comes back --------------------------------------------------------------


def test_record_that_was_loaded(folder: Folder) -> None:
    """The suspected records of a load are left out and compiled again. They are used again if the new bytes are
    equal."""
    stored(folder, one=11, two=12)
    death(folder, mark(sentinel.RECORDS, number(xxhash.xxh3_128_digest(b"one"))))
    assert loads(folder)[0] == {b"two"}
    run = session(folder)
    load(run)
    assert run.keeping.new(cell(b"one", fingerprint=11)) == []  # it is already stored
    run.close()
    assert loads(folder)[0] == {b"one", b"two"}


def test_other_bytes_take_the_place(folder: Folder) -> None:
    """A suspected pipeline that compiles to other bytes is stored and probed for again. The old bytes stay out."""
    stored(folder, one=11, two=12)
    death(folder, mark(sentinel.PIPELINES, 11))
    loaded, commands = loads(folder)
    assert loaded == {b"two"} and commands.suspected == [([11], 0)]
    stored(folder, other=11)
    loaded, commands = loads(folder)
    assert loaded == {b"two", b"other"} and commands.suspected == []


def test_suspected_after_it_was_made_anew(folder: Folder) -> None:
    """If a process dies with a record that was already compiled again, the record stays out, whatever is compiled
    next."""
    stored(folder, one=11)
    for _ in range(2):
        death(folder, mark(sentinel.PIPELINES, 11))
        assert loads(folder)[0] == set()
        run = session(folder)
        load(run)
        assert run.keeping.new(cell(b"one", fingerprint=11)) == []
        run.close()
    assert loads(folder)[0] == set()


def test_unknown_fingerprint(folder: Folder) -> None:
    """For a pipeline without a fingerprint, the layer is told its kind."""
    death(folder, mark(sentinel.PIPELINES, 0, kind=3))
    assert loads(folder)[1].suspected == [([], 8)]


def test_application_data(folder: Folder) -> None:
    """An application's data is identified by the beginning of its digest, even if pipelines were created with it."""
    digest = xxhash.xxh3_128_digest(b"a cache file")
    death(folder, mark(sentinel.APPLICATION, number(digest)))
    assert crash_notes.review(folder)[0].takes_application_data(digest)
    crash_notes.forget(folder)
    death(folder, mark(sentinel.PIPELINES, 11, cache=number(digest)))
    found = crash_notes.review(folder)[0]
    assert found.takes_application_data(digest) and found.takes_pipeline(11)


def test_snapshots_after_two_deaths(folder: Folder) -> None:
    """Two deaths at pipelines set aside all earlier snapshots, but none that is made later."""
    old = folder.write_snapshot(7, "a game", b"old snapshot", 0)
    death(folder, mark(sentinel.COMPILE, 11))
    assert not crash_notes.review(folder)[0].takes_snapshot(old)
    death(folder, mark(sentinel.COMPILE, 12))
    found = crash_notes.review(folder)[0]
    new = folder.write_snapshot(7, "a game", b"new snapshot", 0)
    assert found.takes_snapshot(old) and not found.takes_snapshot(new)


def test_too_many_deaths(folder: Folder) -> None:
    """After three starts that found deaths which nothing cleared, the carrier is off. Two weeks later it is on
    again."""
    for fingerprint in (11, 12, 13):
        death(folder, mark(sentinel.PIPELINES, fingerprint))
        crash_notes.review(folder)
    commands = FakeCommands()
    run = session(folder, commands)
    run.watch()
    assert (
        run.state is not None
        and run.state.carrier == CARRIER_OFF
        and run.left_alone
        and commands.switched_off == [SERIAL]
    )
    run.close()
    age(folder, suspects.SUSPECTED_SECONDS - 60)
    assert crash_notes.read(folder).too_many
    age(folder, 120)
    assert not crash_notes.read(folder).too_many


def test_processes_that_die_together(folder: Folder) -> None:
    """Deaths that one start finds count once. What was compiled again since stays in use even if an earlier death is
    found late."""
    stored(folder, one=11)
    for fingerprint in (11, 11, 12, 13):
        death(folder, mark(sentinel.PIPELINES, fingerprint))
    late = death(folder, mark(sentinel.PIPELINES, 11))
    data = late.read_bytes()
    late.unlink()
    found = crash_notes.review(folder)[0]
    assert found.pipelines.keys() == {11, 12, 13} and not found.too_many
    stored(folder, one=11)  # clears it
    late.write_bytes(data)
    assert loads(folder)[0] == {b"one"}


def age(folder: Folder, seconds: float) -> None:
    """Makes all notes older."""
    for path in folder.files(None, (file_kinds.SUSPECTS,)):
        notes = list(crash_notes._read_notes(path, folder))
        os.unlink(path)
        for note in notes:
            note["time"] = float(note["time"]) - seconds
            crash_notes._write(folder, 7, "a game", note)


def test_suspicion_ends(folder: Folder) -> None:
    """After 14 days, suspected records are used again and the note is deleted, unless the store is only read."""
    stored(folder, one=11)
    death(folder, mark(sentinel.PIPELINES, 11))
    assert loads(folder)[0] == set()
    age(folder, suspects.SUSPECTED_SECONDS + 60)
    assert not crash_notes.review(folder, read_only=True)[0]
    assert len(folder.files(None, (file_kinds.SUSPECTS,))) == 1
    assert loads(folder)[0] == {b"one"}
    assert folder.files(None, (file_kinds.SUSPECTS,)) == []


def test_two_starts_find_the_same_death(folder: Folder) -> None:
    """If two processes record the same death, it is suspected once."""
    path = death(folder, mark(sentinel.PIPELINES, 11))
    data = path.read_bytes()
    crash_notes.review(folder)
    path.write_bytes(data)
    assert len(crash_notes.review(folder)[0].notes) == 1


def test_notes_are_bounded(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit, the oldest notes are deleted."""
    monkeypatch.setattr(crash_notes, "MAX_NOTES", 3)
    for fingerprint in range(1, 6):
        note = {"death": str(fingerprint), "time": time.time(), "pipelines": [f"{fingerprint:x}"]}
        crash_notes._write(folder, 7, "", note)
    assert set(crash_notes.read(folder).pipelines) == {3, 4, 5}
    assert len(folder.files(None, (file_kinds.SUSPECTS,))) == 3


@pytest.mark.parametrize(
    "note",
    [
        {},
        {"time": "never", "pipelines": ["11"]},
        {"time": float("nan"), "pipelines": "11"},
        {"time": 1e300, "records": [5]},
        {"death": "x", "time": 0.0, "kinds": "many"},
        {"cleared": [7], "time": 1.0},
        {"time": None, "applications": {"a": 1}},
    ],
)
def test_notes_that_are_none(folder: Folder, note: dict[str, Any]) -> None:
    """A note with a valid hash and invalid fields is ignored."""
    good = {"death": "good", "time": time.time(), "pipelines": ["b"]}
    path = os.path.join(folder.path, f"{7:016x}-{unique_name()}{file_kinds.SUSPECTS}")
    head = format.file_header(format.SUSPECTS_FILE, folder.identity, salt=0)
    records = [part for one in (note, good) for part in format.record_parts(format.NOTE, flat.dumps(one).encode())]
    Path(path).write_bytes(b"".join([head, *records]))
    assert crash_notes.read(folder).takes_pipeline(11)


def test_runtime_directory(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the store's file system is not suitable, the sentinel is in the runtime directory. The next start finds it
    there; starts with other stores do not."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    asked: list[str] = []

    def watch(fd: int) -> int:
        asked.append(os.path.realpath(f"/proc/self/fd/{fd}"))
        return sentinel.UNFIT if asked[-1].startswith(folder.path) else 0

    path = sentinel.open_sentinel(folder, program_id("a", "b"), "a game", watch)
    assert path is not None and path.startswith(str(tmp_path / "pylayer-live")) and len(asked) == 2
    assert os.stat(path).st_size == sentinel.BYTES and not list(Path(folder.path).glob("*.live"))
    data = bytearray(Path(path).read_bytes())
    data[:256] = header(folder, GONE)
    data[256:384] = mark(sentinel.PIPELINES, 11)
    Path(path).write_bytes(data)
    other = Folder(folder.root, Identity.of(facts(driver_version=1)))
    other.prepare()
    assert not crash_notes.review(other)[0] and crash_notes.review(folder)[0].pipelines.keys() == {11}


def test_no_place_is_fit(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no file system is suitable, there is no sentinel, and no file is left."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert sentinel.open_sentinel(folder, 7, "a game", lambda fd: sentinel.UNFIT) is None
    assert sentinel.open_sentinel(folder, 7, "a game", lambda fd: -1) is None
    assert not list(tmp_path.rglob("*.live"))


def test_store_that_is_only_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A death that cannot be recorded is still suspected in this process."""
    stored(folder, one=11)
    death(folder, mark(sentinel.PIPELINES, 11))

    def fails(*arguments: object, **options: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(crash_notes, "_write", fails)
    monkeypatch.setattr(sentinel, "open_sentinel", fails)
    assert loads(folder)[0] == set()
