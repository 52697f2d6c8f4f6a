"""Packs and compacting: no record is lost or stored twice, and no other process is disturbed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from unit.folders import IDENTITY, loaded, packs, put, run
from unit.things import run_python

from pylayer.common.files import read_small
from pylayer.store import compaction, contents, format, journal, reader
from pylayer.store.folder import Folder
from pylayer.store.reader import Record

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


@pytest.mark.parametrize("first", ["without a name", "in a chunk"])
def test_cells_that_cannot_be_joined(folder: Folder, first: str) -> None:
    """A cell without a fingerprint is in no chunk, nor is one that is in a chunk already, though the program compiled
    it again. The cells after it are joined."""
    joined: list[list[int]] = []

    def join(cells: list[tuple[Record, bytes]]) -> bytes:
        joined.append([record.fingerprint for record, _ in cells])
        return contents.chunk_data([record for record, _ in cells], b"merged")

    if first == "in a chunk":
        put(folder, 7, range(4))
        run(compaction.Compaction(folder, 7, join=join))
        assert [joined.pop()] == [[1, 2, 3, 4]]
    put(folder, 7, [-1 if first == "without a name" else 0])  # of which the fingerprint is 0 or 1
    put(folder, 7, range(10, 15))
    run(compaction.Compaction(folder, 7, join=join))
    assert joined == [[11, 12, 13, 14, 15]]


def test_large_cells_are_joined(folder: Folder) -> None:
    """Large cells are joined with large ones, up to the bytes that a compaction may hold."""
    joined: list[list[int]] = []

    def join(cells: list[tuple[Record, bytes]]) -> bytes:
        joined.append([record.fingerprint for record, _ in cells])
        return contents.chunk_data([record for record, _ in cells], b"merged")

    writer = journal.Journal(folder, 7)
    for number, size in enumerate([4000] * 5 + [1 << 20] * 40, 1):
        writer.append(format.record_parts(format.CELL, bytes([number]) * size, fingerprint=number))
    writer.close()
    run(compaction.Compaction(folder, 7, join=join))
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
