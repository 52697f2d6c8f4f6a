"""Trust in files is checked on the open descriptor that is then read, and only trusted files are read."""

from __future__ import annotations

import os
import py_compile
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import loads
import others
import pytest
from others import become_another, pretend_to_be, without_private_group
from unit.folders import IDENTITY, put_known

from pylayer.common import compiled, file_kinds, files, paths, user_policy
from pylayer.common.file_kinds import FileName
from pylayer.common.files import read_small
from pylayer.store import crash_marker, decisions, format
from pylayer.store.folder import Folder
from pylayer.store.reader import Reader
from pylayer.store.timeline import RunFile


def journal_in(folder: Folder, name: str = f"{7:016x}-1.journal") -> Path:
    path = Path(folder.path, name)
    record = b"".join(format.record_parts(format.CELL, b"data"))
    path.write_bytes(format.file_header(format.JOURNAL, folder.identity, 7, salt=0) + record)
    return path


def loaded(folder: Folder) -> tuple[int, list[str]]:
    """Returns the number of records handed over, and what was refused and why."""
    found = loads.load(folder, 7)
    return len(found.cells), [f"{what.outcome}: {what.detail}" for what in found.damage]


# ---- files of the store ------------------------------------------------------------------------------


def test_root_may_be_a_link(folder: Folder, tmp_path: Path) -> None:
    """The store's root, and directories above it, may be the user's own links: a cache may be on another disk."""
    journal_in(folder)
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").rename(tmp_path / "disk" / "root")
    (tmp_path / "root").symlink_to(tmp_path / "disk" / "root")
    (tmp_path / "home").symlink_to(tmp_path)
    for root in (tmp_path / "root", tmp_path / "home" / "root"):
        again = Folder(str(root), folder.identity)
        again.prepare()
        assert loaded(again) == (1, [])


def test_root_that_is_another_users_link(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that another user put in the place of the store is refused, wherever it leads."""
    journal_in(folder)
    (tmp_path / "link").symlink_to(tmp_path / "root")
    if os.geteuid() == 0:
        os.lchown(tmp_path / "link", 12345, -1)
    else:
        pretend_to_be(monkeypatch, 54321)
    count, (why,) = loaded(Folder(str(tmp_path / "link"), folder.identity))
    assert count == 0 and why.startswith("untrusted: ") and "belongs to user" in why


def test_directory_that_is_swapped(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Swapping a directory between its check and its use has no effect: no other file is read."""
    path = journal_in(folder)
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / path.name).write_bytes(b"evil")
    real = paths.open_directory

    def swap(path: str, **arguments: Any) -> int:
        checked = real(path, **arguments)
        Path(folder.path).rename(tmp_path / "aside")
        (tmp_path / "evil").rename(folder.path)
        return checked

    monkeypatch.setattr(paths, "open_directory", swap)
    reader = Reader(str(path))
    assert Path(folder.path, path.name).read_bytes() == b"evil"
    with pytest.raises(FileNotFoundError):
        reader.bytes_at(0, 256)


def test_file_that_is_swapped_for_another_users(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is never checked first and opened later, so it cannot lead elsewhere in between."""
    path = journal_in(folder)
    looked: list[object] = []
    for name in ("stat", "lstat"):
        monkeypatch.setattr(paths.posix, name, lambda *a, **k: looked.append(a))
    Reader(str(path))
    read_small(str(path), 10)
    assert looked == []


def make_folder(root: str) -> None:
    folder = Folder(root, IDENTITY)
    folder.prepare()
    put_known(folder, 7, b"data")


#: What makes files of a store. Any of them may be the first.
MAKERS: list[Callable[[str], object]] = [
    make_folder,
    lambda root: RunFile(root, "run", IDENTITY).note({"a": 1}),
    lambda root: decisions.keep(root, bytes(16), b"decision"),
    lambda root: compiled.write_copy(compiled.copy_path(root, None, b"text"), {"share": "all"}),
]


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o077, 0o777])
@pytest.mark.parametrize("first", range(len(MAKERS)))
def test_modes_of_what_is_made(root: str, mask: int, first: int) -> None:
    """Directories are created with mode 0700 and files with 0600, whatever the program's umask."""
    with others.umask(mask):
        for make in (*MAKERS[first:], *MAKERS[:first]):
            make(root)
    made = [Path(root), *Path(root).rglob("*")]
    assert len([path for path in made if path.is_file()]) >= 5
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}


def test_nothing_is_made_in_another_users_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root with a user's HOME (sudo -E) creates no directory there, which the user could not use afterwards."""
    home = tmp_path / "home"
    home.mkdir()
    become_another(home, monkeypatch)
    with pytest.raises(paths.UntrustedDirectory, match="is not created in it"):
        paths.make_private(str(home / ".cache" / "pylayer"))
    assert list(home.iterdir()) == []


def test_marker_where_everybody_may_write(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The crash marker in the runtime directory is not read if another user created the directory, or a
    link to one. A file that others could have written reports no death."""
    runtime = tmp_path / "shm"
    runtime.mkdir()
    monkeypatch.setattr(paths, "getenv", lambda name, default: str(runtime) if name == "XDG_RUNTIME_DIR" else default)
    live = runtime / "pylayer-live"
    live.mkdir(mode=0o700)
    path = str(live / f"{crash_marker._names_there(folder.path)}-{FileName(7, files.unique_name(), file_kinds.LIVE)}")
    Path(path).write_bytes(bytes(crash_marker.BYTES))  # what no header says has no living writer
    Path(path).chmod(0o600)
    assert [death.path for death in crash_marker.deaths(folder)] == [path]
    Path(path).chmod(0o666)
    assert crash_marker.deaths(folder) == []
    Path(path).chmod(0o600)
    live.chmod(0o777)
    assert crash_marker.deaths(folder) == []
    live.chmod(0o700)
    live.rename(tmp_path / "moved")
    live.symlink_to(tmp_path / "moved")
    assert crash_marker.deaths(folder) == []
    assert [file.name for file in (tmp_path / "moved").iterdir()] == [Path(path).name]


# ---- policy ------------------------------------------------------------------------------------------


POLICY = "from pylayer.policy import Policy\nclass Mine(Policy):\n    pass\n"


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_policy_module_that_others_may_write(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that others could have written is not executed, even if only the user may write to its directory."""
    without_private_group(monkeypatch)
    path = tmp_path / f"trust_mode_{mode:o}.py"
    path.write_text(f"raise SystemExit('it ran')\n{POLICY}")
    path.chmod(mode)
    with pytest.raises(paths.UntrustedDirectory):
        user_policy.load(f"{path.stem}:Mine", f"{tmp_path}/policy.yaml")


def test_policy_directory_that_others_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy directory that others may write to is refused before its file is read."""
    without_private_group(monkeypatch)
    (tmp_path / "mine.py").write_text(f"raise SystemExit('it ran')\n{POLICY}")
    tmp_path.chmod(0o777)
    with pytest.raises(paths.UntrustedDirectory):
        user_policy.load("mine:Mine", f"{tmp_path}/policy.yaml")


def test_policy_is_source_code(tmp_path: Path) -> None:
    """Compiled files beside the source are not executed: a group that may write to __pycache__ could have put them
    there."""
    import importlib.util

    path = tmp_path / "trust_cached.py"
    path.write_text("raise SystemExit('the compiled file ran')\n")
    kept = importlib.util.cache_from_source(str(path))
    py_compile.compile(str(path), kept, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_text(POLICY)
    assert type(user_policy.load("trust_cached:Mine", f"{tmp_path}/policy.yaml")).__name__ == "Mine"


@pytest.mark.parametrize("class_name", ["Absent", "Other", "Failing"])
def test_policy_class_that_cannot_be_used(tmp_path: Path, class_name: str) -> None:
    """If the class cannot be used, its directory is not a place for later imports."""
    text = "class Other:\n    pass\nclass Failing:\n    def __init__(self):\n        raise ValueError\n"
    (tmp_path / f"trust_{class_name}.py").write_text(text)
    before = list(sys.path)
    with pytest.raises((AttributeError, TypeError, ValueError)):
        user_policy.load(f"trust_{class_name}:{class_name}", f"{tmp_path}/policy.yaml")
    assert sys.path == before
