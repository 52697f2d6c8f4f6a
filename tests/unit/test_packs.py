"""Packs and folding: nothing is lost, nothing is there twice, and nobody is disturbed."""

from __future__ import annotations

import os
import random
import shutil
import struct
import threading
from pathlib import Path

import pytest
import xxhash
from unit.folders import IDENTITY, data_of, loaded, packs, put, run
from unit.things import record, run_python, write_journal

from pylayer.store import fold, format, journal, maintenance, pack, quarantine, runs
from pylayer.store.folder import Folder, Loaded, note_parts
from pylayer.store.reader import Reader


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    result = Folder(str(tmp_path / "root"), IDENTITY)
    result.prepare()
    return result


# ---- folding -----------------------------------------------------------------------------------------


def test_fold_keeps_everything(folder: Folder) -> None:
    """Each program loads the same from the pack as from the journals, kinds, flags and durations included."""
    writer = journal.Journal(folder.path, IDENTITY, 1, "one")
    for number in range(300):
        writer.append(
            format.record_parts(
                format.CELL, data_of(number), kind=number % 8, flags=number % 2, create_ns=number * 1000
            )
        )
    writer.append(note_parts({"plain_kind": 3}))
    writer.close()
    put(folder, 2, range(200, 400))
    before = {program: loaded(folder, program) for program in (1, 2, None)}
    result = run(fold.Fold(folder))
    assert (result.journals, result.records, result.damage) == (2, 401, [])
    assert [Path(path).suffix for path in folder.files(None)] == [".pack"]
    for program, (data, found) in before.items():
        now, now_found = loaded(folder, program)
        assert sorted(now) == sorted(data)
        assert now_found.damage == []
        assert now_found.plain_kinds == found.plain_kinds
        if program == 1:
            assert now_found.mean_create_ns == found.mean_create_ns > 0


def test_content_that_programs_share_is_stored_once(folder: Folder) -> None:
    """Equal content of three programs takes the place of one."""
    for program in (1, 2, 3):
        put(folder, program, range(100))
    sizes = sum(os.path.getsize(path) for path in folder.files(None))
    run(fold.Fold(folder, compress=False))
    assert os.path.getsize(packs(folder)[0]) < sizes / 2.5
    for program in (1, 2, 3):
        assert sorted(loaded(folder, program)[0]) == sorted(data_of(number) for number in range(100))


def test_compression(folder: Folder) -> None:
    """What shrinks is compressed; what the driver compressed already is stored as it is, and read as well."""
    put(folder, 1, range(200))
    run(fold.Fold(folder))
    raw = 200 * 3000
    assert os.path.getsize(packs(folder)[0]) < raw / 2
    dense = [random.Random(number).randbytes(3000) for number in range(500)]
    writer = journal.Journal(folder.path, IDENTITY, 2)
    for data in dense:
        writer.append(format.record_parts(format.CELL, data))
    writer.close()
    result = run(fold.Fold(folder, everything=True))
    assert result.pack is not None
    assert sorted(loaded(folder, 2)[0]) == sorted(dense)
    assert len(loaded(folder, 1)[0]) == 200


def test_large_records(folder: Folder) -> None:
    """Records larger than a block or than a part are stored and read by themselves."""
    sizes = [0, 1, 15, 16, format.BLOCK_BYTES - 64, format.BLOCK_BYTES + 1, 3 << 20]
    writer = journal.Journal(folder.path, IDENTITY, 1)
    wanted = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    for data in wanted:
        writer.append(format.record_parts(format.CELL, data))
    writer.close()
    run(fold.Fold(folder))
    assert sorted(loaded(folder, 1)[0]) == sorted(wanted)


def test_sizes_grow_by_a_factor(folder: Folder) -> None:
    """A small journal is not folded into a large pack each time, and what the large one has is not stored again."""
    put(folder, 1, range(500))
    run(fold.Fold(folder))
    large = packs(folder)[0]
    put(folder, 1, range(490, 520))
    run(fold.Fold(folder))
    assert large in packs(folder) and len(packs(folder)) == 2
    small = next(path for path in packs(folder) if path != large)
    reader = Reader(small)
    header, _ = reader.header()
    assert header is not None
    directory = pack.read_directory(reader, header, [])
    reader.close()
    assert directory is not None and directory.entries == 20
    run(fold.Fold(folder, everything=True))
    assert len(packs(folder)) == 1
    assert len(loaded(folder, 1)[0]) == 520


def test_index_of_another_pack_is_not_believed(folder: Folder) -> None:
    """A record that another pack's index has, and whose data there is damaged, is not left out."""
    put(folder, 1, range(300))
    run(fold.Fold(folder, compress=False))
    (large,) = packs(folder)
    put(folder, 1, [0, 1, 300])
    hurt(large, 256 + 80 + 64 + 1000)
    run(fold.Fold(folder))
    assert len(packs(folder)) == 2
    assert len(loaded(folder, 1)[0]) == 301


def test_pipes_in_the_store(folder: Folder) -> None:
    """Nobody waits for the writer of a pipe that lies where a small file should be."""
    put(folder, 1, range(4))
    Path(folder.root, "quarantine").mkdir(mode=0o700)
    Path(folder.root, "runs").mkdir(mode=0o700)
    for name in ("quarantine/1.reason", "runs/1.run", f"store/{IDENTITY.name}/folding"):
        os.mkfifo(Path(folder.root, name))
    Path(folder.root, "quarantine", "1.data").write_bytes(b"x")
    assert [item.outcome for item in quarantine.items(folder.root)] == ["unknown"]
    assert list(runs.read_all(folder.root)) == []
    assert run(fold.Fold(folder)).claimed


def test_nothing_to_fold(folder: Folder) -> None:
    """Without journals nothing is written, and one pack is not written anew for nothing."""
    assert run(fold.Fold(folder)).pack is None
    put(folder, 1, range(3))
    run(fold.Fold(folder, everything=True))
    before = packs(folder)
    assert run(fold.Fold(folder, everything=True)).pack is None
    assert packs(folder) == before


def test_fold_leaves_living_writers_alone(folder: Folder) -> None:
    """A journal whose writer lives is not folded; its records stay where they are."""
    writer = journal.Journal(folder.path, IDENTITY, 1)
    writer.append(format.record_parts(format.CELL, b"alive"))
    put(folder, 1, range(3))
    run(fold.Fold(folder, everything=True))
    assert writer.path is not None and os.path.exists(writer.path)
    writer.append(format.record_parts(format.CELL, b"still"))
    assert {b"alive", b"still"} <= set(loaded(folder, 1)[0])


DEAD_WRITER = """
import sys
from pylayer.identity import Identity
from pylayer.store import format, journal
from pylayer import flat
identity = Identity(flat.loads(sys.argv[2]))
writer = journal.Journal(sys.argv[1], identity, 1, "dead")
for number in range(10):
    writer.append(format.record_parts(format.CELL, b"of the dead %d" % number))
import os
os.kill(os.getpid(), 9)
"""


def test_fold_takes_what_the_dead_left(folder: Folder) -> None:
    """A journal whose writer was killed is folded as it is."""
    from pylayer import flat

    with pytest.raises(AssertionError):  # run_python wants an exit status of 0
        run_python(DEAD_WRITER, folder.path, flat.dumps(IDENTITY.fields))
    assert [Path(path).suffix for path in folder.files(None)] == [".journal"]
    assert run(fold.Fold(folder)).records == 10
    assert [Path(path).suffix for path in folder.files(None)] == [".pack"]


def test_interrupted_anywhere(folder: Folder) -> None:
    """A fold that stops after any step leaves all records, and the next one finishes."""
    put(folder, 1, range(120))
    put(folder, 2, range(60, 200))
    steps = sum(1 for _ in fold.Fold(folder, dry_run=True).steps()) + 30
    for stop in range(steps):
        work = fold.Fold(folder).steps()
        for number, _ in enumerate(work):
            if number == stop:
                break
        else:
            break
        work.close()
        assert not [name for name in os.listdir(folder.path) if name.endswith(".tmp")]
        assert (len(loaded(folder, 1)[0]), len(loaded(folder, 2)[0])) == (120, 140), stop
    run(fold.Fold(folder))
    assert (len(loaded(folder, 1)[0]), len(loaded(folder, 2)[0])) == (120, 140)


KILLED_FOLDER = """
import os, sys
from pylayer import flat
from pylayer.identity import Identity
from pylayer.store import fold
from pylayer.store.folder import Folder
work = fold.Fold(Folder(sys.argv[1], Identity(flat.loads(sys.argv[2])))).steps()
for number, _ in enumerate(work):
    if number == int(sys.argv[3]):
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("step", [0, 2, 5])
def test_killed_while_folding(folder: Folder, step: int) -> None:
    """A process that is killed in a fold leaves all records; its claim and its half pack go with the next fold."""
    from pylayer import flat

    put(folder, 1, range(120))
    with pytest.raises(AssertionError):
        run_python(KILLED_FOLDER, folder.root, flat.dumps(IDENTITY.fields), str(step))
    assert os.path.exists(os.path.join(folder.path, "folding"))
    assert len(loaded(folder, 1)[0]) == 120
    result = run(fold.Fold(folder))
    assert result.claimed and result.records == 120
    assert sorted(os.listdir(folder.path)) == sorted([os.path.basename(packs(folder)[0]), "identity"])


def test_two_folds_at_once(folder: Folder) -> None:
    """The second of two leaves the folder to the first; were both to fold, nothing would be lost or loaded twice."""
    put(folder, 1, range(50))
    first = fold.Fold(folder).steps()
    next(first)
    second = fold.Fold(folder)
    assert list(second.steps()) == [] and not second.result.claimed
    shutil.rmtree(os.path.join(folder.path, "folding"))
    third = fold.Fold(folder)
    run(third)
    for _ in first:
        pass
    assert third.result.claimed
    assert len(loaded(folder, 1)[0]) == 50


def test_folds_that_leave_out_what_the_other_has(folder: Folder, tmp_path: Path) -> None:
    """Two folds at once, each of a pack that the other one does not rewrite: what both packs have stays in one."""
    elsewhere = Folder(str(tmp_path / "other"), IDENTITY)
    elsewhere.prepare()
    for where, numbers in ((folder, range(60)), (elsewhere, range(40, 200))):
        put(where, 1, numbers)
        run(fold.Fold(where))
    (other,) = packs(elsewhere)
    shutil.copy(other, folder.path)
    works = [fold.Fold(folder, must=frozenset([path])) for path in packs(folder)]
    steps = [work.steps() for work in works]
    for running in steps:
        next(running)  # what the other packs have was left out
        shutil.rmtree(os.path.join(folder.path, "folding"))
    for running in steps:
        list(running)
    assert sorted(loaded(folder, 1)[0]) == sorted(data_of(number) for number in range(200))


def test_more_files_than_descriptors(folder: Folder) -> None:
    """A fold in a program's process leaves it its descriptors, however many journals there are."""
    for number in range(3 * fold.PROCESS_FILES):
        put(folder, 1, [number])
    code = """
import resource, sys
from pylayer.store import fold, folder
resource.setrlimit(resource.RLIMIT_NOFILE, (fold.PROCESS_FILES + 16, fold.PROCESS_FILES + 16))
found = folder.Folder(sys.argv[1], folder.read_identity(sys.argv[1], folder.identity_names(sys.argv[1])[0]))
for _ in range(3):
    work = fold.Fold(found)
    for _ in work.steps():
        pass
    print(work.result.journals, len(work.result.damage))
"""
    assert run_python(code, folder.root).splitlines() == [f"{fold.PROCESS_FILES} 0"] * 3
    assert len(loaded(folder, 1)[0]) == 3 * fold.PROCESS_FILES


def test_reader_beside_a_fold(folder: Folder) -> None:
    """A load that began before a fold and goes on after it misses nothing and hands nothing over twice."""
    for start in range(0, 400, 40):
        put(folder, 1, range(start, start + 40))
    found = Loaded()
    load = folder.load(1, found)
    data = [bytes(next(load).data[:0])]
    run(fold.Fold(folder, everything=True))
    for _ in load:
        pass
    assert len(found.digests) == 400
    assert data == [b""] and found.damage == []


def test_journal_that_grows_after_all(folder: Folder) -> None:
    """A journal to which somebody appended although it was closed is not deleted."""
    path = put(folder, 1, range(5))
    work = fold.Fold(folder).steps()
    next(work)
    header, _ = format.read_file_header(Path(path).read_bytes()[:256])
    assert header is not None
    with open(path, "ab") as file:
        file.writelines(format.seal(format.record_parts(format.CELL, b"late"), header.salt))
    for _ in work:
        pass
    assert b"late" in loaded(folder, 1)[0]


def test_full_disk_while_folding(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the pack cannot be written everything stays as it was."""
    put(folder, 1, range(50))
    before = sorted(os.listdir(folder.path))

    def full(fd: int, parts: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pack, "write_all", full)
    with pytest.raises(OSError):
        run(fold.Fold(folder))
    assert sorted(os.listdir(folder.path)) == before
    assert len(loaded(folder, 1)[0]) == 50


# ---- damage ------------------------------------------------------------------------------------------


def hurt(path: str, at: int, change: int = 0x10) -> None:
    data = bytearray(Path(path).read_bytes())
    data[at] ^= change
    Path(path).write_bytes(data)


def test_pack_without_its_directory(folder: Folder) -> None:
    """Where the directory of a pack is damaged its records are found by their groups, each program its own."""
    put(folder, 1, range(100))
    put(folder, 2, range(90, 150))
    run(fold.Fold(folder))
    path = packs(folder)[0]
    hurt(path, os.path.getsize(path) - 20)
    data, found = loaded(folder, 1)
    assert sorted(data) == sorted(data_of(number) for number in range(100))
    assert next((what.outcome, what.detail) for what in found.damage) == ("damaged-data", "GRPS")
    assert len(loaded(folder, 2)[0]) == 60
    result = run(fold.Fold(folder, must=frozenset([path])))
    assert len(result.damage) >= 1 and path not in packs(folder)
    for program, count in ((1, 100), (2, 60)):
        data, found = loaded(folder, program)
        assert (len(data), found.damage) == (count, [])


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (lambda data: data[:-100], "truncated"),
        (lambda data: data + b"behind the end", "extended"),
        (lambda data: data[:400] + bytes(400) + data[800:], "damaged-data"),
        (lambda data: bytes(len(data)), "zero-filled"),
        (lambda data: b"", "empty"),
        (lambda data: b"\x7fELF" + data[4:], "not-a-store-file"),
        (lambda data: data[:100] + b"\xff" + data[101:], "damaged-header"),
        (lambda data: data[:8] + struct.pack("<I", 1) + data[12:], "foreign-version"),
    ],
    ids=["truncated", "extended", "block", "zeros", "empty", "not ours", "header", "version"],
)
def test_damaged_pack(folder: Folder, change: object, outcome: str) -> None:
    """Each damage of a pack has a name; the damaged part goes to quarantine and the rest is used."""
    put(folder, 1, range(400))
    run(fold.Fold(folder))
    path = packs(folder)[0]
    Path(path).write_bytes(change(Path(path).read_bytes()))  # type: ignore[operator]
    before, found = loaded(folder, 1)
    assert outcome in [what.outcome for what in found.damage]
    result = run(fold.Fold(folder, must=frozenset([path])))
    assert outcome in [what.outcome for what in result.damage]
    assert not os.path.exists(path)
    now, found = loaded(folder, 1)
    assert (sorted(now), found.damage) == (sorted(before), [])
    if outcome not in ("extended", "truncated"):
        assert outcome in [item.outcome for item in quarantine.items(folder.root)]


def test_later_version_is_left_for_who_knows_it(folder: Folder) -> None:
    """A pack of a version to come is named, not used, and stays where it is."""
    put(folder, 1, range(4))
    run(fold.Fold(folder))
    path = packs(folder)[0]
    data = bytearray(Path(path).read_bytes())
    struct.pack_into("<I", data, 8, format.VERSION + 1)
    Path(path).write_bytes(data)
    assert [what.outcome for what in loaded(folder, 1)[1].damage] == ["foreign-version"]
    run(fold.Fold(folder, must=frozenset([path])))
    assert Path(path).read_bytes() == data


def test_damaged_journal_is_folded_without_the_damage(folder: Folder) -> None:
    """A damaged record of a journal goes to quarantine with its place; the others go into the pack."""
    path = put(folder, 1, range(5))
    hurt(path, 256 + 64 + 10)
    run(fold.Fold(folder))
    assert len(loaded(folder, 1)[0]) == 4
    (item,) = quarantine.items(folder.root)
    assert (item.outcome, item.offset, item.size) == ("damaged-data", 256, format.record_size(3000))
    assert item.source == os.path.relpath(path, folder.root)
    assert Path(item.path).read_bytes()[:4] == b"CELL"


def test_quarantine_that_cannot_be_written(folder: Folder) -> None:
    """Where the damage cannot be kept, its file stays, and the good records are folded all the same."""
    path = put(folder, 1, range(5))
    hurt(path, 256 + 64 + 10)
    Path(folder.root, "quarantine").write_text("in the way")
    run(fold.Fold(folder))
    assert os.path.exists(path)
    assert len(packs(folder)) == 1
    assert len(loaded(folder, 1)[0]) == 4


def test_quarantine_is_bounded(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest items leave when there are too many, or too many bytes of them."""
    for number in range(6):
        damage = format.Damage(os.path.join(folder.path, "x"), "damaged-data", number, 10)
        quarantine.keep_bytes(folder.root, damage, b"0123456789")
    monkeypatch.setattr(quarantine, "MAX_ITEMS", 4)
    assert quarantine.prune(folder.root) == 2
    monkeypatch.setattr(quarantine, "MAX_BYTES", 25)
    assert quarantine.prune(folder.root) == 2
    assert [item.offset for item in quarantine.items(folder.root)] == [4, 5]


def test_quarantine_keeps_what_was_just_put_there(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one pass moves to quarantine is there after it, also when it is larger than the bounds; a later pass deletes
    it."""
    monkeypatch.setattr(quarantine, "MAX_BYTES", 25)
    limits = maintenance.Limits(1 << 30, 1 << 30, True)
    damage = []
    for number in range(2):
        path = os.path.join(folder.path, f"{number}.snapshot")
        Path(path).write_bytes(bytes(20))
        damage.append(format.Damage(path, "damaged-data", 0, 20))
    list(maintenance.maintain(folder, damage, limits, print))
    assert [item.size for item in quarantine.items(folder.root)] == [20, 20]
    list(maintenance.maintain(folder, [], limits, print))
    assert [item.size for item in quarantine.items(folder.root)] == [20]


# ---- hostile packs -----------------------------------------------------------------------------------


def rebuilt(path: str, groups: bytes) -> bytes:
    """The pack with another GRPS record, its hashes in order."""
    data = Path(path).read_bytes()
    header, _ = format.read_file_header(data[:256])
    assert header is not None
    head = bytearray(data[:256])
    struct.pack_into("<Q", head, 136, len(groups))
    struct.pack_into("<Q", head, 248, xxhash.xxh3_64_intdigest(bytes(head[:248])))
    sealed = format.seal(format.record_parts(format.GROUPS, groups), header.salt)
    return bytes(head) + data[256 : header.groups_offset] + b"".join(sealed)


@pytest.mark.parametrize(
    "groups",
    [
        b"",
        struct.pack("<IIIIQQ", 0xFFFFFFFF, 0, 0, 0, 0, 0),
        struct.pack("<IIIIQQ", 1, 0, 0, 0, 256, 0) + struct.pack("<QQQII8x", 256, 1 << 63, 0, 0, 0),
        struct.pack("<IIIIQQ", 1, 0, 0, 0, 256, 0) + struct.pack("<QQQII8x", 2**64 - 16, 16, 0, 0, 0),
        struct.pack("<IIIIQQ", 2, 0, 0, 0, 256, 0) + struct.pack("<QQQII8x", 256, 64, 0, 0, 0) * 2,
        struct.pack("<IIIIQQ", 1, 0, 0, 0, 256, 0) + struct.pack("<QQQII8x", 0, 64, 0, 0, 0),
        struct.pack("<IIIIQQ", 1, 1, 0, 0, 256, 0) + struct.pack("<QQQII8x", 256, 64, 0, 0, 2) + bytes(8),
        struct.pack("<IIIIQQ", 1, 0, 0, 0, 2**64 - 64, 0) + struct.pack("<QQQII8x", 256, 64, 0, 0, 0),
        struct.pack("<IIIIQQ", 1, 0, 0, 0, 320, 0) + struct.pack("<QQQII8x", 256, 64, 0, 10_000_000, 0),
    ],
    ids=["nothing", "four billion", "long", "far", "twice", "header", "programs", "index", "ten million"],
)
def test_hostile_directory(folder: Folder, groups: bytes) -> None:
    """A directory that says what cannot be, under valid hashes, is named and not used; the records are."""
    put(folder, 1, range(20))
    run(fold.Fold(folder))
    path = packs(folder)[0]
    Path(path).write_bytes(rebuilt(path, groups))
    data, found = loaded(folder, 1)
    assert len(data) == 20
    assert "impossible" in [what.outcome for what in found.damage]


@pytest.mark.parametrize("raw_size", [0, 1, format.MAX_BLOCK_BYTES + 1, 2**63])
def test_hostile_block(folder: Folder, raw_size: int) -> None:
    """A compressed block that does not hold what it says is named; nothing is allocated from its word."""
    from pylayer.store import zstd

    bomb = zstd.compress(bytes(50 << 20))
    path = Path(folder.path, f"{1:016x}-1.closed")
    write_journal(path, IDENTITY, record(b"good"), record(bomb, format.COMPRESSED, create_ns=raw_size), record(b"fine"))
    data, found = loaded(folder, 1)
    assert data == [b"good", b"fine"]
    assert [what.outcome for what in found.damage] == ["impossible"]


def test_block_in_a_block(folder: Folder) -> None:
    """Compressed blocks do not nest."""
    from pylayer.store import zstd

    inner = record(zstd.compress(record(b"inside")), format.COMPRESSED, create_ns=80)
    raw = inner + record(b"beside")
    path = Path(folder.path, f"{1:016x}-1.closed")
    write_journal(path, IDENTITY, record(zstd.compress(raw), format.COMPRESSED, create_ns=len(raw)))
    data, found = loaded(folder, 1)
    assert (data, [what.outcome for what in found.damage]) == ([b"beside"], ["impossible"])


def test_no_step_of_a_fold_waits_for_the_disk(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are taken between the steps: they go on while the disk has not answered."""
    put(folder, 7, range(4))
    asked, answered = threading.Semaphore(0), threading.Semaphore(0)
    in_vain: list[int] = []

    def fsync(fd: int) -> None:
        asked.release()
        if not answered.acquire(timeout=60):
            in_vain.append(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    work = fold.Fold(folder)
    for _ in work.steps():
        if asked.acquire(blocking=False):
            answered.release()
    assert work.result.written and not in_vain


def test_a_fold_whose_disk_fails_leaves_everything(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(folder, 7, range(4))

    def fsync(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError):
        run(fold.Fold(folder))
    assert os.listdir(folder.path).count(os.path.basename(path)) == 1 and not folder.files(None, (".pack",))


def test_a_fold_that_is_given_up_while_the_disk_works_leaves_everything(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """exit() does not wait longer than it has to."""
    put(folder, 7, range(4))
    asked, answered, ended = threading.Event(), threading.Event(), threading.Event()

    def fsync(fd: int) -> None:
        asked.set()
        assert answered.wait(60)
        ended.set()

    monkeypatch.setattr(os, "fsync", fsync)
    steps = fold.Fold(folder).steps()
    while not asked.is_set():
        next(steps)
    steps.close()
    answered.set()
    assert ended.wait(60)
    assert sorted(name.rpartition(".")[2] for name in os.listdir(folder.path)) == ["closed", "identity"]
    assert len(loaded(folder, 7)[0]) == 4
