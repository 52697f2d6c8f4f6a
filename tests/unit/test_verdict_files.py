"""The mark of a process that died: the fewest records that explain the death are set aside, for its program alone, and
are later used again. The files of verdicts."""

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
from unit.things import SERIAL, FakeCommands, cell, facts, keep, load
from unit.things import session as new_session

from pylayer.common import file_kinds, owner
from pylayer.common.files import unique_name
from pylayer.common.identity import Identity, program_id
from pylayer.inhost.session import DeviceSession
from pylayer.store import deaths, fold, format, marks, sentinel, verdict_files, verdicts
from pylayer.store.folder import Folder
from pylayer.store.verdicts import DAY, DECIDED, PIPELINE, STUB, Verdict, Verdicts
from pylayer.values import CARRIER_OFF

#: The program of the sessions here.
PROGRAM = program_id("stutter", "Stutter")
ROOM = struct.Struct("<IHHQ13QQ")
#: A pid that belongs to no process.
GONE = (1 << 22) + 7


def number(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "little")


def mark(call: int, *ids: int, kind: int = 0, cache: int = 0, used: int = 0) -> bytes:
    return ROOM.pack(call, kind, len(ids), cache, *ids, *([0] * (13 - len(ids))), used)


def header(folder: Folder, pid: int, machine: bytes | None = None) -> bytes:
    """Returns a file header as another process would write it."""
    fields = list(
        format.FILE_HEADER.unpack(format.file_header(file_kinds.LIVE.magic, folder.identity, PROGRAM, "a game", salt=0))
    )
    fields[17:19] = [owner.this_process()[0] if machine is None else machine, pid]
    head = format.FILE_HEADER.pack(*fields)[: format.HASHED_FILE_HEADER]
    return head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head))


def death(folder: Folder, *marks: bytes, pid: int = GONE, machine: bytes | None = None, directory: str = "") -> Path:
    """Writes what a process leaves that died with these marks."""
    data = header(folder, pid, machine) + b"".join(marks)
    path = Path(directory or folder.path, f"{PROGRAM:016x}-{unique_name()}{file_kinds.LIVE}")
    path.write_bytes(data + bytes(sentinel.BYTES - len(data)))
    return path


def session(folder: Folder, commands: FakeCommands | None = None) -> DeviceSession:
    """Returns a session of a device that exists, as the next process would make it."""
    return new_session(folder.root, commands or FakeCommands())


def stored(folder: Folder, **pipelines: int) -> dict[str, bytes]:
    """Stores cells with these fingerprints, from a run that has ended. Returns their data by name."""
    run = session(folder)
    run.watch()
    keep(run, *(cell(name.encode(), fingerprint=fingerprint) for name, fingerprint in pipelines.items()))
    run.close()
    return {name: name.encode() for name in pipelines}


def reviewed(folder: Folder, read_only: bool = False) -> Verdicts:
    """Returns what is decided for the program after a start that looked for deaths."""
    found = deaths.review(folder, read_only)
    return found[PROGRAM].known if PROGRAM in found else verdict_files.read(folder, PROGRAM)


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
        "PYLAYER_RUN_OFFSET": sentinel.RUN_OFFSET,
        "PYLAYER_LIVE_BYTES": sentinel.BYTES,
        "PYLAYER_MARK_COUNT": (sentinel.RUN_OFFSET - sentinel.OFFSET) // sentinel.MARK.size,
    }.items():
        assert f"#define {name} {value}" in text
    for name, value in {"RECORDS": 2, "APPLICATION": 3, "MERGE": 4, "PIPELINES": 5, "COMPILE": 6}.items():
        assert f"PYLAYER_MARK_{name} = {value}," in text and getattr(marks, name) == value
    marked = {int(value): name for name, value in re.findall(r"PYLAYER_MARK_(\w+) = (\d+),", text)}
    assert sentinel.ADDED.keys() == marked.keys() - range(marks.COMPILE + 1)
    assert marked[sentinel.PROBE] == "PROBE"
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
    mine = death(folder, mark(marks.PIPELINES, 11), pid=os.getpid())
    data = bytearray(mine.read_bytes())
    data[:256] = format.file_header(file_kinds.LIVE.magic, folder.identity, salt=0)
    mine.write_bytes(data)
    other = death(folder, mark(marks.PIPELINES, 11), machine=b"another machine!")
    damaged = death(folder, mark(marks.PIPELINES, 11))
    damaged.write_bytes(damaged.read_bytes()[:100])
    with other.open("r+b") as opened, damaged.open("r+b"):
        mapping = mmap.mmap(opened.fileno(), 0)
        opened.close()
        assert not reviewed(folder).entries and all(path.exists() for path in (mine, other, damaged))
    mapping.close()
    assert reviewed(folder).fingerprints == [11]
    assert mine.exists() and not other.exists() and not damaged.exists()


def test_file_system_without_leases(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel does not say whether a sentinel is mapped, that of a process elsewhere is left alone for a
    day."""
    monkeypatch.setattr(sentinel, "_state_of_mapping", lambda fd: owner.ELSEWHERE)
    other = death(folder, mark(marks.PIPELINES, 11), machine=b"another machine!")
    assert not reviewed(folder).entries and other.exists()
    os.utime(other, (time.time() - 25 * 3600,) * 2)
    assert reviewed(folder).fingerprints == [11] and not other.exists()


def test_more_ids_than_a_mark_has(folder: Folder) -> None:
    """An impossible count is cut to the number of existing ids."""
    data = bytearray(mark(marks.PIPELINES, *range(1, 14)))
    data[6:8] = b"\xff\xff"
    death(folder, bytes(data))
    assert reviewed(folder).fingerprints == list(range(1, 14))


# ---- what is set aside, and comes back --------------------------------------------------------------


def test_record_that_was_loaded(folder: Folder) -> None:
    """The suspected records of a load are left out and compiled again. They are used again if the new bytes are
    equal."""
    stored(folder, one=11, two=12)
    death(folder, mark(marks.RECORDS, number(xxhash.xxh3_128_digest(b"one"))))
    assert loads(folder)[0] == {b"two"}
    run = session(folder)
    load(run)
    assert run.pipelines.new(cell(b"one", fingerprint=11)) == []  # it is already stored
    run.close()
    assert loads(folder)[0] == {b"one", b"two"}


def test_one_line_for_all_that_comes_back(folder: Folder) -> None:
    """What one death set aside and is compiled again piece by piece is one line when it ends, as when it began."""
    names = {name: number for number, name in enumerate(("one", "two", "three"), 11)}
    stored(folder, **names)
    death(folder, mark(marks.RECORDS, *(number(xxhash.xxh3_128_digest(name.encode())) for name in names)))
    run = session(folder)
    load(run)
    for name, fingerprint in names.items():
        run.pipelines.write(run.pipelines.new(cell(name.encode(), fingerprint=fingerprint)))
    run.close()
    assert run.learning.told == [
        "3 stored records are set aside, because the program died while the driver handled them",
        "3 stored records are used again",
    ]


def test_other_bytes_take_the_place(folder: Folder) -> None:
    """A suspected pipeline that compiles to other bytes is stored and probed for again. The old bytes stay out."""
    stored(folder, one=11, two=12)
    death(folder, mark(marks.PIPELINES, 11))
    loaded, commands = loads(folder)
    assert loaded == {b"two"} and commands.suspected == [([11], 0)]
    stored(folder, other=11)
    loaded, commands = loads(folder)
    assert loaded == {b"two", b"other"} and commands.suspected == [([], 0)]  # only a record


def test_other_bytes_than_those_of_the_system(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds if the old bytes are in the system's store, where nothing is written."""
    system = Folder(str(tmp_path / "system"), folder.identity)
    system.prepare()
    stored(system, one=11, two=12)
    list(fold.Fold(system, PROGRAM).steps())
    monkeypatch.setenv("PYLAYER_SYSTEM_STORE", system.root)
    assert loads(folder)[0] == {b"one", b"two"}
    death(folder, mark(marks.PIPELINES, 11))
    assert loads(folder)[0] == {b"two"}
    stored(folder, other=11)
    assert loads(folder)[0] == {b"two", b"other"}


def test_suspected_after_it_was_made_anew(folder: Folder) -> None:
    """If a process dies with a record that was already compiled again, the record stays out, whatever is compiled
    next."""
    stored(folder, one=11)
    for _ in range(2):
        death(folder, mark(marks.PIPELINES, 11))
        assert loads(folder)[0] == set()
        run = session(folder)
        load(run)
        assert run.pipelines.new(cell(b"one", fingerprint=11)) == []
        run.close()
    assert loads(folder)[0] == set()


def test_unknown_fingerprint(folder: Folder) -> None:
    """For a pipeline without a fingerprint, the layer is told its kind."""
    death(folder, mark(marks.PIPELINES, 0, kind=3))
    assert loads(folder)[1].suspected == [([], 8)]


def test_application_data(folder: Folder) -> None:
    """An application's data is identified by the beginning of its digest, even if pipelines were created with it."""
    digest = xxhash.xxh3_128_digest(b"a cache file")
    death(folder, mark(marks.APPLICATION, number(digest)))
    assert reviewed(folder).takes_application_data(digest)
    verdict_files.forget(folder)
    death(folder, mark(marks.PIPELINES, 11, cache=number(digest)))
    found = reviewed(folder)
    assert found.takes_application_data(digest) and found.holds(PIPELINE, 0, 11)


def test_too_many_deaths(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """After three starts that found deaths which nothing cleared, the layer is off for this program, and for no other.
    A week later it is tried again: the first death renews the verdict."""
    for fingerprint in (11, 12, 13):
        death(folder, mark(marks.PIPELINES, fingerprint))
        reviewed(folder)
    commands = FakeCommands()
    run = session(folder, commands)
    run.watch()
    assert run.state is not None and run.state.carrier == CARRIER_OFF
    assert run.off_by_verdict and commands.switched_off == [SERIAL] and "died repeatedly" in run.reason
    run.close()
    assert verdict_files.read(folder, PROGRAM + 1).off is None
    at(monkeypatch, 7 * DAY - 60)
    assert verdict_files.read(folder, PROGRAM).off is not None
    at(monkeypatch, 7 * DAY + 60)
    assert reviewed(folder).off is None
    death(folder, mark(marks.PIPELINES, 14))
    assert reviewed(folder).off is not None


def test_deaths_while_compiling(folder: Folder) -> None:
    """A program that is always killed while the driver may compile never loses the layer."""
    for fingerprint in range(11, 21):
        death(folder, mark(marks.COMPILE, fingerprint))
        assert reviewed(folder).off is None


def test_deaths_that_are_cleared(folder: Folder) -> None:
    """A program that is always killed while it uses stored data never loses the layer if much of it did no harm before,
    and each pipeline compiles to the same bytes."""
    for fingerprint in range(11, 21):
        name = f"p{fingerprint}".encode()
        stored(folder, **{name.decode(): fingerprint})
        death(folder, mark(marks.PIPELINES, fingerprint, used=verdicts.SUCCESSES))
        assert name not in loads(folder)[0]
        run = session(folder)
        run.watch()
        load(run)
        assert run.pipelines.new(cell(name, fingerprint=fingerprint)) == []
        run.pipelines.write([])  # the process is killed after this
        assert verdict_files.read(folder, PROGRAM).off is None
        assert name in loads(folder)[0]


def test_processes_that_die_together(folder: Folder) -> None:
    """Deaths that one start finds count once. What was compiled again since stays in use even if an earlier death is
    found late."""
    stored(folder, one=11)
    for fingerprint in (11, 11, 12, 13):
        death(folder, mark(marks.PIPELINES, fingerprint))
    late = death(folder, mark(marks.PIPELINES, 11))
    data = late.read_bytes()
    late.unlink()
    found = reviewed(folder)
    assert found.fingerprints == [11, 12, 13] and found.off is None
    stored(folder, one=11)  # clears it
    late.write_bytes(data)
    assert loads(folder)[0] == {b"one"}


def at(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Moves the clock of verdicts so far ahead of the real one."""
    real = time.time_ns
    monkeypatch.setattr(Verdicts, "now_ns", property(lambda self: real() + int(seconds * 1e9)))


def test_suspicion_ends(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 14 days, suspected records are used again. Twice as long later they are forgotten."""
    stored(folder, one=11)
    death(folder, mark(marks.PIPELINES, 11))
    assert loads(folder)[0] == set()
    at(monkeypatch, 14 * DAY + 60)
    assert loads(folder)[0] == {b"one"}
    at(monkeypatch, 29 * DAY)
    verdict_files.write(folder, PROGRAM, "a game", [])
    assert folder.files(None, (file_kinds.VERDICT,)) == []


def test_clock_that_was_ahead(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided while the clock was a year ahead does not count once it is right, and the next decision does."""
    stored(folder, one=11)
    path = death(folder, mark(marks.PIPELINES, 11))
    data = path.read_bytes()
    at(monkeypatch, 365 * DAY)
    assert reviewed(folder).fingerprints == [11]
    monkeypatch.undo()
    assert loads(folder)[0] == {b"one"}
    path.write_bytes(data)
    assert reviewed(folder).fingerprints == [11]
    at(monkeypatch, 365 * DAY)  # ahead again, and back
    assert verdict_files.read(folder, PROGRAM).fingerprints == []
    monkeypatch.undo()
    assert verdict_files.read(folder, PROGRAM).fingerprints == [11]


def test_two_starts_find_the_same_death(folder: Folder) -> None:
    """If two processes record the same death, it counts once."""
    path = death(folder, mark(marks.PIPELINES, 11))
    data = path.read_bytes()
    reviewed(folder)
    path.write_bytes(data)
    assert reviewed(folder).entries[PIPELINE, 0, 11].runs == 1


def test_death_of_another_program(folder: Folder) -> None:
    """A death costs the program that died, and not this one."""
    stored(folder, one=11)
    path = death(folder, mark(marks.PIPELINES, 11))
    data = bytearray(path.read_bytes())
    data[:256] = header(folder, GONE)
    fields = list(format.FILE_HEADER.unpack(data[:256]))
    fields[13] = 77
    head = format.FILE_HEADER.pack(*fields)[: format.HASHED_FILE_HEADER]
    data[:256] = head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head))
    path.write_bytes(data)
    assert loads(folder)[0] == {b"one"} and not path.exists()
    assert verdict_files.read(folder, 77).fingerprints == [11]


@pytest.mark.parametrize("call", sentinel.ADDED)
def test_death_in_an_added_call(folder: Folder, call: int) -> None:
    """A death in a call that the layer adds switches it off for that kind, in all programs, for a day. If a process
    dies in it again after that, for 90 days. Calls that kills hit often need a second death."""
    if call in verdicts.OFTEN_KILLED:
        death(folder, mark(call, 11, kind=3))
        assert loads(folder)[1].off == []
    death(folder, mark(call, 11, kind=3))
    assert loads(folder)[1].off == [(SERIAL, call, 3)]
    known = verdict_files.read(folder, verdict_files.EVERY_PROGRAM)
    (verdict,) = known.in_force(verdicts.ADDED_CALL)
    assert DAY - 60 < verdict.until_s - time.time() <= DAY
    later = Verdicts(time.time_ns() + 2 * DAY * 10**9)
    later.add(verdict)
    again = later.accuse(verdicts.ADDED_CALL, 3, call, later.now_ns)
    assert again is not None and again.until_s - later.now_s > 89 * DAY


# ---- files ---------------------------------------------------------------------------------------


def verdict(subject: int = 11, type: int = PIPELINE, **changes: int) -> Verdict:
    """Returns a verdict that was just decided."""
    now = time.time_ns()
    values = {"kind": 0, "runs": 1, "flags": DECIDED, "decided_ns": now, "until_s": now // 10**9 + DAY, "found_ns": now}
    return Verdict(type=type, subject=subject, **{**values, **changes})


def test_layer_knows_the_same() -> None:
    """shim/layer/store/verdicts.c knows in which words the layer is off. No verdict lasts longer than it believes."""
    source = Path(__file__).parents[2].joinpath("shim", "layer", "store", "verdicts.c").read_text()
    assert max(max(row.seconds, row.again) for row in verdicts.TABLE.values()) == verdicts.LONGEST_SECONDS
    for type in verdicts.OFF:
        assert re.sub(r'"\s+"', "", source).count(verdicts.TABLE[type].effect) == 1


def test_files_become_one(folder: Folder) -> None:
    """A writer combines all files of the program. The newest decision counts, whoever wrote it."""
    for subject in (11, 12):
        verdict_files.write(folder, PROGRAM, "a game", [verdict(subject)])
    verdict_files.write(folder, 77, "another", [verdict(13)])
    assert len(folder.files(None, (file_kinds.VERDICT,))) == 2
    assert verdict_files.read(folder, PROGRAM).fingerprints == [11, 12]
    old = verdict(11, decided_ns=5)
    verdict_files.write(folder, PROGRAM, "a game", [verdict(11, until_s=0), old])
    assert verdict_files.read(folder, PROGRAM).fingerprints == [12]


@pytest.mark.parametrize("how", ["read", "read_all", "write"])
def test_files_that_become_one_meanwhile(folder: Folder, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """If another process puts all files into a new one between the listing and the reading, everything is still
    found."""
    verdict_files.write(folder, PROGRAM, "a game", [verdict(11)])
    listing, meanwhile = folder.files, [verdict(12)]

    def files(*arguments: Any) -> list[str]:
        listed = listing(*arguments)
        if meanwhile:
            verdict_files.write(folder, PROGRAM, "a game", [meanwhile.pop()])
        return listed

    monkeypatch.setattr(folder, "files", files)
    subjects = [11, 12]
    if how == "read_all":
        found = verdict_files.read_all(folder)[PROGRAM][1]
    else:
        if how == "write":
            verdict_files.write(folder, PROGRAM, "a game", [verdict(13)])
            subjects.append(13)
        found = verdict_files.read(folder, PROGRAM)
    assert sorted(one.subject for one in found.entries.values()) == subjects
    assert not meanwhile and len(listing(PROGRAM, (file_kinds.VERDICT,))) == 1


def test_nothing_to_remember(folder: Folder) -> None:
    """Evidence that a success refuted leaves no file."""
    verdict_files.write(folder, PROGRAM, "a game", [verdict(0, STUB, flags=0)])
    known = verdict_files.read(folder, PROGRAM)
    cleared = known.acquit(STUB)
    assert cleared is not None
    verdict_files.write(folder, PROGRAM, "a game", [cleared])
    assert folder.files(None, (file_kinds.VERDICT,)) == []


@pytest.mark.parametrize("what", ["version", "type"])
def test_newer_version(folder: Folder, what: str) -> None:
    """A newer version's file stays, and so does one with types that this version does not know. What this version knows
    of it counts."""
    verdict_files.write(folder, PROGRAM, "a game", [verdict(11)])
    (path,) = map(Path, folder.files(None, (file_kinds.VERDICT,)))
    if what == "version":
        data = bytearray(path.read_bytes())
        data[8:12] = (format.VERSION + 1).to_bytes(4, "little")
        path.write_bytes(data)
    else:
        monster = verdict(12)
        monster.type = 200
        salt = format.new_salt()
        head = format.file_header(format.VERDICT_FILE, folder.identity, PROGRAM, "a game", salt=salt)
        entries = verdict(11).pack() + monster.pack()
        path.write_bytes(b"".join([head, *format.seal(format.record_parts(format.VERDICTS, entries), salt)]))
    verdict_files.write(folder, PROGRAM, "a game", [verdict(13)])
    assert path.exists()
    assert verdict_files.read(folder, PROGRAM).fingerprints == ([13] if what == "version" else [11, 13])


@pytest.mark.parametrize("damage", [b"", b"\0" * 300, b"\xff" * 5000, None])
def test_damaged_file(folder: Folder, damage: bytes | None) -> None:
    """A damaged or empty file says nothing, is replaced by the next writer, and costs nothing else."""
    verdict_files.write(folder, PROGRAM, "a game", [verdict(11)])
    (path,) = map(Path, folder.files(None, (file_kinds.VERDICT,)))
    data = bytearray(path.read_bytes())
    data[330] ^= 1
    path.write_bytes(data if damage is None else damage)
    assert verdict_files.read(folder, PROGRAM).entries == {}
    verdict_files.write(folder, PROGRAM, "a game", [verdict(12)])
    assert not path.exists() and verdict_files.read(folder, PROGRAM).fingerprints == [12]


def test_entries_are_bounded(folder: Folder) -> None:
    """Beyond the limit, the oldest entries are dropped."""
    now = time.time_ns()
    many = [verdict(number, decided_ns=now + number) for number in range(verdicts.MAX_ENTRIES + 5)]
    verdict_files.write(folder, PROGRAM, "a game", many)
    assert verdict_files.read(folder, PROGRAM).fingerprints == list(range(5, verdicts.MAX_ENTRIES + 5))
    (path,) = map(Path, folder.files(None, (file_kinds.VERDICT,)))
    assert path.stat().st_size < verdict_files.MAX_BYTES


def test_notes_of_older_versions(folder: Folder) -> None:
    """Files and notes that older versions wrote for the same purpose do no harm."""
    stored(folder, one=11)
    Path(folder.path, f"{PROGRAM:016x}-{unique_name()}.suspects").write_bytes(b"anything")
    salt = format.new_salt()
    head = format.file_header(format.JOURNAL, folder.identity, PROGRAM, "a game", salt=salt)
    notes = [part for text in (b"stub=b:1\n", b"plain_kind=i:0\n") for part in format.record_parts(format.NOTE, text)]
    Path(folder.path, f"{PROGRAM:016x}-{unique_name()}.closed").write_bytes(b"".join([head, *format.seal(notes, salt)]))
    loaded, commands = loads(folder)
    assert loaded == {b"one"} and commands.switched_off == []


# ---- where the sentinel's file is --------------------------------------------------------------------


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
    data[256:384] = mark(marks.PIPELINES, 11)
    Path(path).write_bytes(data)
    other = Folder(folder.root, Identity.of(facts(driver_version=1)))
    other.prepare()
    assert not reviewed(other).entries and reviewed(folder).fingerprints == [11]


def test_no_place_is_fit(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no file system is suitable, there is no sentinel, and no file is left."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert sentinel.open_sentinel(folder, 7, "a game", lambda fd: sentinel.UNFIT) is None
    assert sentinel.open_sentinel(folder, 7, "a game", lambda fd: -1) is None
    assert not list(tmp_path.rglob("*.live"))


def test_store_that_is_only_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A death that cannot be recorded is still suspected in this process."""
    stored(folder, one=11)
    death(folder, mark(marks.PIPELINES, 11))

    def fails(*arguments: object, **options: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(verdict_files, "write", fails)
    monkeypatch.setattr(sentinel, "open_sentinel", fails)
    assert loads(folder)[0] == set()


def test_death_of_a_process_that_could_not_know(folder: Folder) -> None:
    """A run that read what is decided before a death was judged does not count as a second run with evidence, although
    its sentinel was made later."""
    stored(folder, one=11)
    run = session(folder)
    assert not run.learning.known.entries
    death(folder, mark(marks.PIPELINES, 11))
    assert reviewed(folder).fingerprints == [11]
    run.watch()
    (path,) = sentinel.files(folder.path)
    data = bytearray(Path(path).read_bytes())
    created = slice(120, 128)
    fields = bytearray(header(folder, GONE))
    fields[created] = data[created]
    fields[format.HASHED_FILE_HEADER : format.FILE_HEADER.size] = struct.pack(
        "<Q", xxhash.xxh3_64_intdigest(bytes(fields[: format.HASHED_FILE_HEADER]))
    )
    data[:256] = fields
    data[256:384] = mark(marks.PIPELINES, 11)
    Path(path).write_bytes(data)
    (verdict,) = (one for one in reviewed(folder).in_force(PIPELINE))
    assert verdict.runs == 1 and not os.path.exists(path)
