"""The store's folder of one driver, its small files, and the files of runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import loads
import pytest
from others import without_private_group
from unit.folders import IDENTITY, cells
from unit.things import facts, record, write_journal

from pylayer.common import files, flat
from pylayer.common.identity import Identity
from pylayer.store import fold, format, runs
from pylayer.store.folder import Folder, read_identity
from pylayer.store.timeline import Event, RunFile


def journal_in(folder: Folder, name: str, *records: bytes) -> Path:
    return write_journal(Path(folder.path, name), IDENTITY, *records)


# ---- replace_file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("no space"), KeyboardInterrupt()])
def test_replace_file_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """A write that fails leaves the old content and no temporary file."""
    path = tmp_path / "file"
    files.replace_file(str(path), b"old")

    def fail(fd: int, parts: object) -> int:
        os.write(fd, b"ne")
        raise error

    monkeypatch.setattr(files, "write_all", fail)
    with pytest.raises(type(error)):
        files.replace_file(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_replace_file_in_pieces(tmp_path: Path) -> None:
    """A file may be written as its pieces come. If one cannot be made, the old content stays."""
    path = tmp_path / "file"
    files.replace_file(str(path), iter([b"one", b" and ", b"two"]))
    assert path.read_bytes() == b"one and two"

    def failing() -> Iterator[bytes]:
        yield b"three"
        raise ValueError

    with pytest.raises(ValueError):
        files.replace_file(str(path), failing())
    assert path.read_bytes() == b"one and two"
    assert os.listdir(tmp_path) == ["file"]


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
    older = Path(journal_in(folder, f"{7:016x}-1.closed", record(b"old")))
    data = bytearray(older.read_bytes())
    data[8:12] = (format.VERSION - 1).to_bytes(4, "little")
    older.write_bytes(data)
    fields = {**IDENTITY.fields, "format": format.VERSION - 1}
    Path(folder.path, "identity").write_text(flat.dumps(fields))
    folder.prepare()
    journal_in(folder, f"{7:016x}-2.closed", record(b"new"))
    assert cells(folder) == [b"new"]
    list(fold.Fold(folder, 7, must=frozenset([str(older)])).steps())
    assert cells(folder) == [b"new"] and older.read_bytes() == data


@pytest.mark.parametrize("damage", [b"", b"\n", bytes(300), b"format=i:1\n", b"abi=s:64-bit\nformat=i:2\n"])
def test_damaged_description(folder: Folder, damage: bytes) -> None:
    """A description that is empty after a power cut, or describes another folder, is written anew. The folder stays."""
    journal_in(folder, f"{7:016x}-1.closed", record(b"kept"))
    description = Path(folder.path, "identity")
    description.write_bytes(damage)
    folder.prepare()
    found = read_identity(folder.root, IDENTITY.name)
    assert found is not None and found.fields == IDENTITY.fields
    assert cells(folder) == [b"kept"]
    assert os.listdir(os.path.dirname(folder.path)) == [IDENTITY.name]


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


def test_load(folder: Folder) -> None:
    """The program's own records are loaded, oldest file first; for all programs, everybody's."""
    journal_in(folder, f"{7:016x}-0002-b.journal", record(b"second"))
    journal_in(folder, f"{7:016x}-0001-a.journal", record(b"first", create_ns=10), record(b"also", create_ns=30))
    journal_in(folder, f"{8:016x}-0003-c.journal", record(b"foreign"))
    Path(folder.path, f"{7:016x}-0004-d.journal.tmp").write_bytes(b"being written")
    assert cells(folder) == [b"first", b"also", b"second"]
    assert cells(folder, None) == [b"first", b"also", b"second", b"foreign"]


def test_unknown_record_stays_with_the_store(folder: Folder) -> None:
    """A record of a type that this version does not know never reaches a driver, and those behind it do."""
    journal_in(folder, f"{7:016x}-1.journal", record(b"future", b"BINY"), record(b"known"))
    loaded = loads.load(folder, 7)
    assert list(loaded.cells.values()) == [b"known"]
    assert loaded.damage == []


def test_damage_is_named_with_its_file(folder: Folder) -> None:
    """A damaged record, a foreign file and a foreign identity cost themselves alone, and each is named."""
    hurt = bytearray(record(b"hurt"))
    hurt[64] ^= 1
    path = journal_in(folder, f"{7:016x}-1.journal", record(b"good"), bytes(hurt), record(b"fine"))
    Path(folder.path, f"{7:016x}-2.journal").write_bytes(b"x" * 100)
    other = Identity.of(facts(driver_version=1))
    write_journal(Path(folder.path, f"{7:016x}-3.journal"), other, record(b"another driver's"))
    loaded = loads.load(folder, 7)
    assert list(loaded.cells.values()) == [b"good", b"fine"]
    assert [(what.path, what.outcome, what.offset) for what in loaded.damage] == [
        (str(path), "damaged-data", 256 + len(record(b"good"))),
        (f"{folder.path}/{7:016x}-2.journal", "truncated", 0),
        (f"{folder.path}/{7:016x}-3.journal", "foreign-identity", 0),
    ]
    assert str(loaded.damage[0]) == (f"{path}: damaged-data at byte 336, 80 bytes: data that does not match its hash")


@pytest.mark.parametrize("level", ["root", "store", "identity"])
def test_folder_that_others_may_write(folder: Folder, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If others can write to any level of the folder, nothing is loaded, and the level is named with what to do."""
    journal_in(folder, f"{7:016x}-1.journal", record(b"planted"))
    path = {"root": folder.root, "store": os.path.dirname(folder.path), "identity": folder.path}[level]
    without_private_group(monkeypatch)
    os.chmod(path, 0o1777 if level == "identity" else 0o770)
    loaded = loads.load(folder, 7)
    assert list(loaded.cells.values()) == []
    assert [(what.outcome, what.detail) for what in loaded.damage] == [
        ("untrusted", f"{path} can be written by others (chmod go-w {path}); it is not used")
    ]
    with pytest.raises(OSError):
        folder.prepare()


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


def test_damaged_run_is_passed_over(tmp_path: Path) -> None:
    """Files that are not runs, or of an earlier pylayer, are skipped. The rest is read, oldest first."""
    for number in (3, 1, 2):
        write_run(tmp_path, number, hits=number)
    directory = tmp_path / "runs"
    (directory / "4.run").write_text("hits=i:3\n")
    (directory / "5.run").mkdir()
    (directory / "7.run").touch()  # as after a power cut
    (directory / "0.run.tmp").write_text("hits=i:0\n")
    assert [run["hits"] for run in runs.read_all(str(tmp_path))] == [1, 2, 3]


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
