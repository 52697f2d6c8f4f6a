"""Files that other users own or may write to. Only root can make some of them: then tests with the mark ``root`` are
skipped for everybody else, and the others use what an ordinary user can make and the layer checks at the same place."""

from __future__ import annotations

import contextlib
import os
import posix
import shutil
from collections.abc import Iterator
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pytest

STRANGER = 12345


def private_group() -> bool:
    """Returns whether files that this user creates belong to a group that the layer trusts."""
    return os.geteuid() == os.getegid() != 0


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    """Files that this process makes inside have the modes that this mask leaves."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def give_away(path: Path) -> None:
    """Gives the path to another user. An ordinary user lets everybody write to it instead."""
    if os.geteuid() == 0:
        os.lchown(path, STRANGER, -1)
    else:
        open_to_all(path)


def become_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the path to another user, for tests of Python alone. An ordinary user becomes another one instead."""
    if os.geteuid() == 0:
        os.lchown(path, STRANGER, -1)
    else:
        pretend_to_be(monkeypatch, os.geteuid() + 1)


def pretend_to_be(monkeypatch: pytest.MonkeyPatch, user: int) -> None:
    """Makes this process believe that it runs as ``user``."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(posix, "geteuid", lambda: user)


def without_private_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this process believe that its user has no private group, which the layer trusts: the group of files that
    it creates has other members."""
    monkeypatch.setattr(posix, "getegid", lambda: STRANGER)


def public_copy(directory: Path, copy: Path) -> None:
    """Copies a directory so that every user may read it, whatever the umask is and was when it was made."""
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("__pycache__"))
    copy.parent.chmod(0o755)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def open_to_all(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


def open_to_group(path: Path) -> None:
    """Lets a group of several people write to the path. Root's own group is one. An ordinary user may have no group but
    the private one, which the layer trusts (test_private_group), and lets everybody write instead."""
    groups = [group for group in os.getgroups() if group != os.getgid()]
    if os.geteuid() == 0:
        path.chmod(path.stat().st_mode | 0o020)
    elif groups:
        os.chown(path, -1, groups[0])
        path.chmod(path.stat().st_mode | 0o020)
    else:
        open_to_all(path)
