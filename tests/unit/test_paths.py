"""Where files are stored, who may own a directory, and what a program is called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from others import become_another, pretend_to_be

from pylayer.common import files, paths


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment variables that are set, and no others."""
    variables: dict[str, str] = {}
    monkeypatch.setattr(paths, "getenv", variables.get)
    return variables


@pytest.mark.parametrize(
    ("variables", "store", "policy"),
    [
        ({}, None, None),
        ({"HOME": "/home/x"}, "/home/x/.cache/pylayer", "/home/x/.config/pylayer/policy.yaml"),
        ({"HOME": "relative"}, None, None),
        ({"HOME": ""}, None, None),
        (
            {"HOME": "/home/x", "XDG_CACHE_HOME": "/c", "XDG_CONFIG_HOME": "/k"},
            "/c/pylayer",
            "/k/pylayer/policy.yaml",
        ),
        (
            {"HOME": "/home/x", "XDG_CACHE_HOME": "c", "XDG_CONFIG_HOME": "./k"},
            "/home/x/.cache/pylayer",
            "/home/x/.config/pylayer/policy.yaml",
        ),
        ({"XDG_CACHE_HOME": "/c"}, "/c/pylayer", None),
        (
            {"HOME": "/home/x", "XDG_CACHE_HOME": "/c", "PYLAYER_STORE": "/s", "PYLAYER_CONFIG": "/p.yaml"},
            "/s",
            "/p.yaml",
        ),
        (
            {"HOME": "/home/x", "PYLAYER_STORE": "", "PYLAYER_CONFIG": ""},
            "/home/x/.cache/pylayer",
            "/home/x/.config/pylayer/policy.yaml",
        ),
    ],
)
def test_places(environment: dict[str, str], variables: dict[str, str], store: str | None, policy: str | None) -> None:
    """PYLAYER_* takes precedence over XDG, and XDG over the home directory. Empty and relative XDG and HOME values are
    ignored."""
    environment.update(variables)
    assert paths.store_root() == store
    assert paths.config_file() == policy


def test_directory_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's directory is refused and the user is named, even through a link."""
    path = tmp_path / "it"
    path.mkdir()
    link = tmp_path / "link"
    link.symlink_to(path)
    become_another(path, monkeypatch)
    for name in (path, link):
        with pytest.raises(paths.UntrustedDirectory) as caught:
            paths.require_own(str(name))
        assert str(caught.value).startswith(str(name))
        assert str(caught.value).endswith(f"belongs to user {os.stat(path).st_uid}; it is not used")


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


def test_file_in_a_shared_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own file in a directory like /tmp is used. A file that others could write or replace is not."""
    path = tmp_path / "policy.yaml"
    path.touch(0o644)
    paths.read_own_file(str(path), 1)
    os.chmod(tmp_path, 0o1777)
    paths.read_own_file(str(path), 1)
    os.chmod(path, 0o666)
    with pytest.raises(paths.UntrustedDirectory):
        paths.read_own_file(str(path), 1)
    os.chmod(path, 0o644)
    os.chmod(tmp_path, 0o777)
    with pytest.raises(paths.UntrustedDirectory):
        paths.read_own_file(str(path), 1)
    os.chmod(tmp_path, 0o1777)
    become_another(path, monkeypatch)
    with pytest.raises(paths.UntrustedDirectory):
        paths.read_own_file(str(path), 1)


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
