"""Packs and compacting: no record is lost or stored twice, no other process is disturbed, and limits hold."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from unit.things import (
    IDENTITY,
    cells,
    data_of,
    facts,
    flip,
    loaded,
    packs,
    put,
    record,
    run,
    run_all,
    run_python,
    write_journal,
)

from pylayer.common import file_kinds, files, flat, owner
from pylayer.common.files import read_small
from pylayer.common.identity import Identity
from pylayer.common.settings import Limits
from pylayer.inhost.maintaining import Maintaining
from pylayer.store import bounds, compaction, contents, format, journal, maintenance, reader, runs
from pylayer.store.compaction import Claim
from pylayer.store.contents import used_parts
from pylayer.store.folder import Folder, read_identity
from pylayer.store.pack import PackWriter
from pylayer.store.reader import Record
from pylayer.store.timeline import Event, RunFile
from pylayer.values import MODE_CELLS

# ---- compacting -----------------------------------------------------------------------------------------


def test_equal_content_of_two_pipelines(folder: Folder) -> None:
    """A compaction keeps both fingerprints of equal content, each once, so that the layer finds it by either."""
    for when in (1, 2):
        writer = journal.Journal(folder, 1)
        for fingerprint in (7, 8):
            writer.append(format.record_parts(format.CELL, b"same", fingerprint=fingerprint, last_used=when))
        writer.close()
    run(compaction.Compaction(folder, 1))
    (path,) = packs(folder)
    records = [record for part in reader.Reader(str(path)).verified(IDENTITY.digest, []) for record in part.records]
    cells = [record for record in records if record.magic == format.CELL]
    assert sorted((cell.fingerprint, cell.last_used) for cell in cells) == [(7, 2), (8, 2)]


def join(joined: list[list[int]], cells: list[tuple[Record, bytes]]) -> bytes:
    """What a driver does with cells, whose fingerprints it notes."""
    joined.append([record.fingerprint for record, _ in cells])
    return contents.chunk_data([record for record, _ in cells], b"merged")


@pytest.mark.parametrize("first", ["without a name", "in a chunk"])
def test_cells_that_cannot_be_joined(folder: Folder, first: str) -> None:
    """A cell without a fingerprint is in no chunk, nor is one that is in a chunk already, though the program compiled
    it again. The cells after it are joined."""
    joined: list[list[int]] = []
    if first == "in a chunk":
        put(folder, 7, range(4))
        run(compaction.Compaction(folder, 7, join=partial(join, joined)))
        assert [joined.pop()] == [[1, 2, 3, 4]]
    put(folder, 7, [-1 if first == "without a name" else 0])  # of which the fingerprint is 0 or 1
    put(folder, 7, range(10, 15))
    run(compaction.Compaction(folder, 7, join=partial(join, joined)))
    assert joined == [[11, 12, 13, 14, 15]]


def test_process_ends_between_chunk_and_journal(folder: Folder) -> None:
    """A process that ends once its cells are a chunk, before it removes their journals, leaves them twice. The next
    compaction leaves them out, but not equal data with another fingerprint."""
    writer = journal.Journal(folder, 7)
    for number, fingerprint in ((0, 1), (1, 2), (2, 3), (3, 4), (0, 99)):
        writer.append(format.record_parts(format.CELL, data_of(number), fingerprint=fingerprint))
    writer.close()
    assert writer.path
    os.rename(writer.path, f"{folder.root}/left")
    put(folder, 7, range(4))
    run(compaction.Compaction(folder, 7, join=partial(join, [])))
    os.rename(f"{folder.root}/left", writer.path)
    run(compaction.Compaction(folder, 7, join=partial(join, [])))
    records = [one for path in packs(folder) for part in reader.Reader(path).parts([]) for one in part.records]
    assert [one.fingerprints for one in records if one.is_pipeline] == [(1, 2, 3, 4), (99,)]


def test_large_cells_are_joined(folder: Folder) -> None:
    """Large cells are joined with large ones, up to the bytes that a compaction may hold."""
    joined: list[list[int]] = []
    writer = journal.Journal(folder, 7)
    for number, size in enumerate([4000] * 5 + [1 << 20] * 40, 1):
        writer.append(format.record_parts(format.CELL, bytes([number]) * size, fingerprint=number))
    writer.close()
    run(compaction.Compaction(folder, 7, join=partial(join, joined)))
    assert joined == [list(range(1, 6)), list(range(6, 38)), list(range(38, 46))]


@pytest.mark.parametrize(
    ("merged", "cells", "worth"),
    [(500_000, [4000] * 5, True), (1_300_000, [1_250_000] * 20, True), (4_000_000, [200_000] * 20, False)],
    ids=["small", "large, and most of it is shared", "large, and nothing is shared"],
)
def test_chunks_that_are_worth_it(merged: int, cells: list[int], worth: bool) -> None:
    """A chunk is about as large as its largest cell, or small."""
    assert contents.is_worth(merged, cells) is worth


def test_more_files_than_descriptors(folder: Folder) -> None:
    """A compaction in a program's process uses few file descriptors, however many journals there are."""
    for number in range(200):
        put(folder, 1, [number])
    code = """
import resource, sys
from pylayer.store import compaction, folder
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
found = folder.Folder(sys.argv[1], folder.read_identity(sys.argv[1], folder.identity_names(sys.argv[1])[0]))
work = compaction.Compaction(found, 1)
list(work.steps())
print(len(found.files(1)), len(work.written))
"""
    assert run_python(code, folder.root) == "1 1\n"
    assert len(loaded(folder, 1)[0]) == 200


def test_journal_that_grows_after_all(folder: Folder) -> None:
    """A closed journal is not deleted if somebody appended to it nevertheless."""
    path = put(folder, 1, range(5))
    work = compaction.Compaction(folder, 1).steps()
    next(work)
    header, _ = format.read_file_header(Path(path).read_bytes()[:256])
    assert header is not None
    with open(path, "ab") as file:
        file.writelines(format.seal(format.record_parts(format.CELL, b"late"), header.salt))
    list(work)
    assert b"late" in loaded(folder, 1)[0]


def test_journal_that_is_damaged_meanwhile(folder: Folder) -> None:
    """A record that does not verify any more when it is copied is lost alone."""
    path = put(folder, 1, range(5))
    work = compaction.Compaction(folder, 1)
    steps = work.steps()
    next(steps)
    flip(path, Path(path).read_bytes().index(data_of(2)))
    list(steps)
    assert [what.outcome for what in work.damage] == ["damaged-data"]
    assert sorted(loaded(folder, 1)[0]) == sorted(map(data_of, (0, 1, 3, 4)))


# ---- damage ------------------------------------------------------------------------------------------


def test_reads_that_give_less(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may give less than was asked for with one call. Nothing is damaged then."""
    put(folder, 1, range(400))
    run(compaction.Compaction(folder, 1))
    before, _ = loaded(folder, 1)
    whole, preadv, read = Path(packs(folder)[0]).read_bytes(), os.preadv, os.read
    monkeypatch.setattr(os, "preadv", lambda fd, into, at: preadv(fd, [memoryview(into[0])[:1000]], at))
    monkeypatch.setattr("posix.read", lambda fd, size: read(fd, min(size, 1000)))
    now, found = loaded(folder, 1)
    assert (now, found.damage) == (before, [])
    assert read_small(packs(folder)[0], len(whole)) == whole


def test_no_step_of_a_compaction_waits_for_the_disk(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are answered between the steps, even while the disk has not finished a write."""
    put(folder, 7, range(4))
    asked, answered = threading.Semaphore(0), threading.Semaphore(0)
    in_vain: list[int] = []

    def fsync(fd: int) -> None:
        asked.release()
        if not answered.acquire(timeout=60):
            in_vain.append(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    work = compaction.Compaction(folder, 7)
    for _ in work.steps():
        if asked.acquire(blocking=False):
            answered.release()
    assert work.written and not in_vain


def test_a_compaction_that_is_given_up_while_the_disk_works_leaves_everything(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """exit() does not wait for the disk if a compaction is abandoned."""
    put(folder, 7, range(4))
    asked, answered, ended = threading.Event(), threading.Event(), threading.Event()

    def fsync(fd: int) -> None:
        asked.set()
        assert answered.wait(60)
        ended.set()

    monkeypatch.setattr(os, "fsync", fsync)
    steps = compaction.Compaction(folder, 7).steps()
    while not asked.is_set():
        next(steps)
    steps.close()
    answered.set()
    assert ended.wait(60)
    assert sorted(name.rpartition(".")[2] for name in os.listdir(folder.path)) == ["closed", "identity"]
    assert len(loaded(folder, 7)[0]) == 4


# ---- The claim -----------------------------------------------------------------------------------


#: A process that ends when half a pack is written.
DIES = """
import os, sys
from pylayer.store.compaction import Claim
from pylayer.store.folder import folders
from pylayer.store.pack import PackWriter
(folder,) = folders(sys.argv[1])
Claim(folder).acquire()
PackWriter(f"{folder.path}/1.pack", folder.identity)
os._exit(0)
"""


def abandon(folder: Folder) -> None:
    """Takes the claim in a process that dies in the middle of a pack."""
    run_python(DIES, folder.root)
    assert any(name.startswith("compacting.") for name in os.listdir(folder.path))


def test_slow_taker_leaves_the_claim_of_a_fast_one(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """If two processes find a claim abandoned, only the faster one gets it, and the slower one does not remove the pack
    that the faster one has begun."""
    abandon(folder)
    known, writers = owner.has_ended, []

    def has_ended(process: owner.Process, idle_seconds: float, limit: float) -> bool:
        ended = known(process, idle_seconds, limit)
        if ended and not writers:
            monkeypatch.setattr(owner, "has_ended", known)
            assert Claim(folder).acquire()
            writers.append(PackWriter(os.path.join(folder.path, "2.pack"), IDENTITY))
        return ended

    monkeypatch.setattr(owner, "has_ended", has_ended)
    assert not Claim(folder).acquire()
    assert os.path.exists(writers[0].finish())


def test_pack_of_a_living_writer_stays(folder: Folder) -> None:
    """A compaction removes the half pack of a dead process, but not a file that another process writes without a claim,
    such as an import."""
    put(folder, 1, range(3))
    abandon(folder)
    writer = PackWriter(os.path.join(folder.path, "2.pack"), IDENTITY)
    run(compaction.Compaction(folder, 1))
    assert len([name for name in os.listdir(folder.path) if name.endswith(".tmp")]) == 1
    assert os.path.exists(writer.finish())


# ---- recency and limits ------------------------------------------------------------------------------


def uses(folder: Folder, program: int, fingerprints: list[int], when: int) -> None:
    writer = journal.Journal(folder, program, f"program {program}")
    writer.append(used_parts(fingerprints, when))
    writer.close()


def numbers_left(folder: Folder, program: int) -> list[int]:
    left = set(loaded(folder, program)[0])
    return [number for number in range(1000) if data_of(number) in left]


def enforce(folder: Folder, max_store: int) -> bounds.Eviction:
    trimmed = bounds.Eviction(folder.root, max_store)
    list(trimmed.steps())
    return trimmed


def test_uses_reach_packs_that_are_not_rewritten(folder: Folder) -> None:
    """A use that was recorded after its record was compacted counts, even if it was compacted into a pack of its
    own."""
    put(folder, 1, range(200), last_used=1000)
    run_all(folder)
    uses(folder, 1, [6], 9000)
    run_all(folder)
    assert len(packs(folder)) == 2
    enforce(folder, 100_000)
    assert 5 in numbers_left(folder, 1)


def test_old_drivers_leave_before_todays(folder: Folder) -> None:
    """The least recently used records of all identities are evicted first: another driver's old pipelines before the
    current driver's."""
    old = Folder(folder.root, Identity.of(facts(driver_version=1)))
    old.prepare()
    writer = journal.Journal(old, 1)
    for number in range(50):
        writer.append(format.record_parts(format.CELL, data_of(number), last_used=100))
    writer.close()
    run_all(old)
    put(folder, 1, range(50), last_used=5000)
    run_all(folder)
    enforce(folder, 200_000)
    assert len(numbers_left(folder, 1)) == 50
    assert bounds.total_bytes(folder.root) <= 200_000


def test_use_from_the_future(folder: Folder) -> None:
    """A use that is dated a year ahead, because the clock was wrong, does not keep a record before those used since."""
    ahead = int(time.time()) + 365 * 86400
    put(folder, 1, range(20), last_used=ahead)
    put(folder, 1, range(20, 100), last_used=1000)
    uses(folder, 1, [number + 1 for number in range(20, 50)], ahead)
    uses(folder, 1, [number + 1 for number in range(50, 100)], int(time.time()))
    run_all(folder)
    enforce(folder, 200_000)
    left = numbers_left(folder, 1)
    assert set(range(50, 100)) <= set(left) and len(left) < 70


def test_one_new_journal_rewrites_no_large_pack(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compacting everything leaves a pack alone that is much larger than what there is to add, and joins packs of
    similar sizes."""
    monkeypatch.setattr(compaction, "SMALL_PACK_BYTES", 0)
    put(folder, 1, range(100))
    run_all(folder)
    (large,) = packs(folder)
    put(folder, 1, [200])
    run_all(folder, everything=True)
    assert large in packs(folder) and len(packs(folder)) == 2
    put(folder, 1, range(300, 390))
    run_all(folder, everything=True)
    assert len(packs(folder)) == 1 and numbers_left(folder, 1) == [*range(100), 200, *range(300, 390)]


def test_packs_have_a_size_limit(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large compaction writes several packs, none beyond the size limit. Enforcing a store limit rewrites one pack
    after another."""
    monkeypatch.setattr(compaction, "MAX_PACK_RECORDS", 50)
    put(folder, 1, range(180), last_used=1000)
    put(folder, 2, range(170, 220), last_used=2000)
    results = run_all(folder)
    assert [len(result.written) for result in results] == [4, 1] and len(packs(folder)) == 5
    assert (len(loaded(folder, 1)[0]), len(loaded(folder, 2)[0])) == (180, 50)
    assert [result.damage for result in run_all(folder, everything=True)] == [[], []]
    assert (len(loaded(folder, 1)[0]), len(loaded(folder, 2)[0])) == (180, 50)
    enforce(folder, 300_000)
    assert bounds.total_bytes(folder.root) <= 300_000
    assert numbers_left(folder, 2) == list(range(170, 220))
    assert 30 <= len(numbers_left(folder, 1)) < 180


def test_only_packs_with_something_to_lose_are_rewritten(folder: Folder) -> None:
    """A pack from which nothing is evicted is not rewritten."""
    put(folder, 1, range(100), last_used=1000)
    run_all(folder)
    (old,) = packs(folder)
    put(folder, 1, range(200, 500), last_used=9000)
    for number in range(3):
        put(folder, 1, [600 + number], last_used=9000)
    with mock.patch.object(compaction, "PACK_FACTOR", 0):
        run_all(folder)
    (new,) = set(packs(folder)) - {old}
    enforce(folder, 1_200_000)
    assert new in packs(folder) and old not in packs(folder)
    assert set(range(200, 500)) <= set(numbers_left(folder, 1))


# ---- maintenance ---------------------------------------------------------------------------------------


def test_one_folder_that_fails_at_exit(tmp_path: Path) -> None:
    """If the folder of one driver cannot be maintained, that of another one is, and one line says which failed."""
    folders = [Folder(str(tmp_path), Identity.of(facts(device_id=number))) for number in (1, 2)]
    for folder in folders:
        for number in range(maintenance.EXIT_JOURNALS):
            put(folder, 7, [number])
    os.chmod(folders[0].path, 0o777)
    sessions: Any = [
        SimpleNamespace(
            folder=folder, identity=folder.identity, plan=SimpleNamespace(mode=MODE_CELLS), read_only=False,
            joins=False, found=SimpleNamespace(damage=[]), pipelines=SimpleNamespace(stored_bytes=0),
        )
        for folder in folders
    ]  # fmt: skip
    said: list[str] = []
    Maintaining(Limits(1 << 30, 1 << 30), lambda level, text: said.append(text)).at_exit(sessions)
    assert [len(folder.files(7, (file_kinds.CLOSED,))) for folder in folders] == [maintenance.EXIT_JOURNALS, 0]
    assert len(said) == 1 and folders[0].identity.name in said[0]


# ---- The folder of one driver, its small files, and the files of runs ----------------------------


# ---- replace_file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("no space"), KeyboardInterrupt(), ValueError()])
def test_replace_file_that_fails(tmp_path: Path, error: BaseException) -> None:
    """A file may be written as its pieces come. If one cannot be made or written, the old content stays, and no
    temporary file."""
    path = tmp_path / "file"
    files.replace_file(str(path), iter([b"one", b" and ", b"two"]))

    def failing() -> Iterator[bytes]:
        yield b"three"
        raise error

    with pytest.raises(type(error)):
        files.replace_file(str(path), failing())
    assert path.read_bytes() == b"one and two" and os.listdir(tmp_path) == ["file"]


# ---- folder ------------------------------------------------------------------------------------------


def test_prepare(folder: Folder) -> None:
    """The folder is described by the identity's fields and the format's version, and every level of it is its owner's
    alone."""
    fields = {**IDENTITY.fields, "format": format.VERSION}
    assert flat.loads(Path(folder.path, "identity").read_text()) == fields
    found = read_identity(folder.root, IDENTITY.name)
    assert found is not None and found.fields == IDENTITY.fields
    for level in (folder.path, os.path.dirname(folder.path), folder.root):
        assert os.stat(level).st_mode & 0o777 == 0o700


def test_folder_of_an_older_pylayer(folder: Folder) -> None:
    """What an older pylayer wrote stays where it is and is not used, and what this one writes is stored beside it."""
    older = write_journal(Path(folder.path, f"{7:016x}-1.closed"), IDENTITY, record(b"old"))
    data = bytearray(older.read_bytes())
    data[8:12] = (format.VERSION - 1).to_bytes(4, "little")
    older.write_bytes(data)
    fields = {**IDENTITY.fields, "format": format.VERSION - 1}
    Path(folder.path, "identity").write_text(flat.dumps(fields))
    folder.prepare()
    write_journal(Path(folder.path, f"{7:016x}-2.closed"), IDENTITY, record(b"new"))
    assert cells(folder) == [b"new"]
    list(compaction.Compaction(folder, 7, must=frozenset([str(older)])).steps())
    assert cells(folder) == [b"new"] and older.read_bytes() == data


def test_description_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The description has its name after its content is on the disk, and the name is on the disk before anything is
    stored."""
    done: list[str] = []
    rename, fsync = os.rename, os.fsync
    monkeypatch.setattr("os.rename", lambda old, new: (done.append(f"rename {new}"), rename(old, new)))
    monkeypatch.setattr("os.fsync", lambda fd: (done.append("fsync"), fsync(fd)))
    folder = Folder(str(tmp_path / "root"), IDENTITY)
    folder.prepare()
    folder.prepare()
    assert done == ["fsync", f"rename {folder.path}/identity", "fsync"]


# ---- runs --------------------------------------------------------------------------------------------


def write_run(root: Path, number: int, program: int = 7, events: int = 0, **values: Any) -> str:
    """Writes the file of a run; returns its name."""
    file = RunFile(str(root), f"{program:016x}-{number:016x}-{0:016x}", IDENTITY, program)
    for _ in range(events):
        file.add(Event("hits", 1))
    file.flush()
    file.note(values)
    return os.path.basename(file.path)


def left(root: Path) -> list[str]:
    return sorted(os.listdir(root / "runs"))


@pytest.mark.parametrize(("there", "kept"), [(0, 0), (7, 7), (8, 8), (9, 6), (20, 6)])
def test_prune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: int, kept: int) -> None:
    """Up to the limit all runs stay. Beyond it the oldest are deleted until three quarters of the limit are left. What
    an earlier pylayer left goes."""
    monkeypatch.setattr(runs, "MAX_RUNS", 8)
    names = [write_run(tmp_path, number, hits=1) for number in range(there)]
    (tmp_path / "runs").mkdir(mode=0o700, exist_ok=True)
    (tmp_path / "runs" / "0123-4567.run").touch()
    (tmp_path / "runs" / "0123-4567.events").touch()
    (tmp_path / "runs" / "other").touch()
    assert runs.prune(str(tmp_path)) == there - kept + 2
    assert left(tmp_path) == [*names[there - kept :], "other"]


def test_runs_of_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with many runs takes no room from older ones of others."""
    monkeypatch.setattr(runs, "MAX_RUNS", 8)
    names = [write_run(tmp_path, number, 1 if number < 2 else 2, 300, hits=1) for number in range(20)]
    assert runs.prune(str(tmp_path)) == 14
    assert left(tmp_path) == [*names[:2], *names[16:]]
    sizes = [(tmp_path / "runs" / name).stat().st_size for name in left(tmp_path)]
    monkeypatch.setattr(runs, "MAX_TOTAL_BYTES", 4 * max(sizes))
    assert runs.prune(str(tmp_path)) == 2
    assert left(tmp_path) == [*names[:2], *names[18:]]


def test_runs_from_the_future(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that are dated in the future, because the clock was wrong, are deleted before those of today."""
    monkeypatch.setattr(runs, "MAX_RUNS", 8)
    now = time.time_ns()
    for number in range(9):
        write_run(tmp_path, now + 10**16 + number, hits=1)
    today = write_run(tmp_path, now, hits=1)
    runs.prune(str(tmp_path))
    assert len(left(tmp_path)) == 6 and left(tmp_path)[0] == today
