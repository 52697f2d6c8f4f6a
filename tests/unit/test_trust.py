"""Trust in files is checked on the open descriptor that is then read, and only trusted files are read."""

from __future__ import annotations

import os
import py_compile
import sys
from pathlib import Path
from typing import Any

import loads
import pytest
from others import become_another, pretend_to_be, without_private_group

from pylayer.common import files, paths, user_policy
from pylayer.common.files import read_small
from pylayer.store import format
from pylayer.store.folder import Folder
from pylayer.store.reader import Reader


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
        reader.first_bytes()


def test_file_that_is_swapped_for_another_users(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is never checked first and opened later, so it cannot lead elsewhere in between."""
    path = journal_in(folder)
    looked: list[object] = []
    for name in ("stat", "lstat"):
        monkeypatch.setattr(paths.posix, name, lambda *a, **k: looked.append(a))
    Reader(str(path))
    read_small(str(path), 10)
    assert looked == []


def test_nothing_is_made_in_another_users_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root with a user's HOME (sudo -E) creates no directory there, which the user could not use afterwards."""
    home = tmp_path / "home"
    home.mkdir()
    become_another(home, monkeypatch)
    with pytest.raises(paths.UntrustedDirectory, match="is not created in it"):
        paths.make_private(str(home / ".cache" / "pylayer"))
    assert list(home.iterdir()) == []


# ---- policy ------------------------------------------------------------------------------------------


POLICY = "from pylayer.policy import Policy\nclass Mine(Policy):\n    pass\n"


@pytest.mark.parametrize(("what", "mode"), [("file", 0o664), ("file", 0o646), ("directory", 0o777)])
def test_policy_module_that_others_may_write(
    tmp_path: Path, what: str, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that others could have written is not executed, nor one that they could have put into its directory."""
    without_private_group(monkeypatch)
    path = tmp_path / f"trust_mode_{mode:o}.py"
    path.write_text(f"raise SystemExit('it ran')\n{POLICY}")
    (path if what == "file" else tmp_path).chmod(mode)
    with pytest.raises(paths.UntrustedDirectory):
        user_policy.load(f"{path.stem}:Mine", f"{tmp_path}/policy.yaml")


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


# ---- Places --------------------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment variables that are set, and no others."""
    variables: dict[str, str] = {}
    monkeypatch.setattr(paths, "getenv", variables.get)
    return variables


X = {"HOME": "/home/x"}
HOMES, XDG = ("/home/x/.cache/pylayer", "/home/x/.config/pylayer/policy.yaml"), ("/c/pylayer", "/k/pylayer/policy.yaml")


@pytest.mark.parametrize(
    ("variables", "store", "policy"),
    [
        ({}, None, None),
        (X, *HOMES),
        ({"HOME": "relative"}, None, None),
        ({"HOME": ""}, None, None),
        (X | {"XDG_CACHE_HOME": "/c", "XDG_CONFIG_HOME": "/k"}, *XDG),
        (X | {"XDG_CACHE_HOME": "c", "XDG_CONFIG_HOME": "./k"}, *HOMES),
        ({"XDG_CACHE_HOME": "/c"}, XDG[0], None),
        (X | {"XDG_CACHE_HOME": "/c", "PYLAYER_STORE": "/s", "PYLAYER_CONFIG": "/p.yaml"}, "/s", "/p.yaml"),
        (X | {"PYLAYER_STORE": "", "PYLAYER_CONFIG": ""}, *HOMES),
    ],
)
def test_places(environment: dict[str, str], variables: dict[str, str], store: str | None, policy: str | None) -> None:
    """PYLAYER_* takes precedence over XDG, and XDG over the home directory. Empty and relative XDG and HOME values are
    ignored."""
    environment.update(variables)
    assert paths.store_root() == store
    assert paths.config_file() == policy


@pytest.mark.parametrize(
    ("user", "group", "trusted"), [(54321, 54321, True), (54321, 100, False), (100, 54321, False), (0, 0, False)]
)
def test_private_group(user: int, group: int, trusted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user's private group may write to is trusted. A group is private if it has the number of the user and
    the process runs with it. Root has none."""
    pretend_to_be(monkeypatch, user)
    for mode, expected in ((0o755, True), (0o775, trusted), (0o777, False)):
        status = os.stat_result((mode, 0, 0, 1, user, 54321 if user else 0, 0, 0, 0, 0))
        monkeypatch.setattr(paths.posix, "getegid", lambda: group)
        monkeypatch.setattr(paths.posix, "fstat", lambda fd, found=status: found)
        if expected:
            paths.require_own("/tmp")
        else:
            with pytest.raises(paths.UntrustedDirectory):
                paths.require_own("/tmp")


def test_files_are_no_standard_streams(tmp_path: Path) -> None:
    """In a program without standard streams no file to write to is open under the number of one, and all three are free
    afterwards."""
    journal = tmp_path / "a.journal"
    journal.touch(mode=0o600)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.closerange(0, 3)
            made, _ = files.create_temporary(str(tmp_path / "b"))
            anywhere, _ = files.create_temporary(str(tmp_path / "c"), anywhere=True)
            opened = paths.open_in_store(str(journal), os.O_WRONLY | os.O_APPEND)
            appended = paths.open_made(str(journal), os.O_WRONLY)
            free = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]
            status = 0 if min(made, anywhere, opened, appended) > 2 and free == [0, 1, 2] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
