"""The store's folder of one driver, its small files, and the files of runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.things import IDENTITY, cells, record, write_journal

from pylayer.common import files, flat
from pylayer.store import compaction, format, runs
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
