"""Descriptors whose number the program takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pylayer.store import descriptors
from pylayer.store.descriptors import HIGH, LOWEST, OwnFile, move_up


@pytest.fixture
def own(tmp_path: Path) -> OwnFile:
    """A file of the layer's."""
    return OwnFile(os.open(tmp_path / "own", os.O_RDWR | os.O_CREAT))


def take_number(own: OwnFile, path: Path) -> int:
    """Closes a file of the layer's behind its back, and opens another under its number."""
    number = own.fileno()
    other = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(other, number)
    os.close(other)
    return number


def test_closed_by_the_program(own: OwnFile) -> None:
    """What was closed is not used, and closing it again is nothing."""
    os.close(own.fileno())
    assert not own.is_own()
    with pytest.raises(OSError, match="program closed"):
        own.fileno()
    with pytest.raises(OSError, match="program closed"):
        own.duplicate()
    own.close()


def test_taken_by_the_program(own: OwnFile, tmp_path: Path) -> None:
    """A number that is the program's by now is neither used nor closed."""
    number = take_number(own, tmp_path / "programs")
    with pytest.raises(OSError, match="program closed"):
        own.fileno()
    own.close()
    own.close()
    os.write(number, b"still open")
    os.close(number)
    assert (tmp_path / "own").read_bytes() == b""


def test_duplicate_outlives_the_original(own: OwnFile, tmp_path: Path) -> None:
    """A duplicate is the same file, also when the original's number is gone."""
    duplicate = own.duplicate()
    own.close()
    os.write(duplicate.fileno(), b"text")
    duplicate.close()
    assert (tmp_path / "own").read_bytes() == b"text"


def test_moved_up(tmp_path: Path) -> None:
    """A descriptor gets a high number, is closed on exec, and keeps its file."""
    low = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    moved = move_up(low)
    assert moved >= HIGH
    assert not os.get_inheritable(moved)
    with pytest.raises(OSError):
        os.fstat(low)
    os.close(moved)


def test_nowhere_to_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no other number the descriptor stays as it is."""

    def full(fd: int) -> int:
        raise OSError("no more")

    monkeypatch.setattr(descriptors, "_duplicate", full)
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert move_up(fd) == fd
    file = OwnFile(fd)
    assert file.is_own()
    file.close()
    assert LOWEST < HIGH
