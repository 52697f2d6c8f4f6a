"""Which files and directories are believed: the layer's C and Python give the same answers (process/trusted.c,
common/paths.py)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from layer.test_skip_rules import answers

from pylayer.common import paths

#: Nothing here depends on the driver.
QUICK = True
NOBODY = 65534
DIRECTORIES = (0o700, 0o755, 0o775, 0o777, 0o1777, 0o2775)
FILES = (0o600, 0o644, 0o664, 0o646, 0o666)
#: User and group of a file or directory; None: as it is. Others need root.
OWNERS = ((None, None), (NOBODY, NOBODY), (0, NOBODY))


def opens(call: Callable[[str], Any], path: Path) -> str:
    try:
        found = call(str(path))
    except OSError:
        return "0"
    if found is not None:
        os.close(found)
    return "1"


def directory(path: str) -> int:
    return paths.open_directory(path, follow=False)


def give(path: Path, owner: tuple[int | None, int | None]) -> None:
    if owner != (None, None):
        os.chown(
            path, -1 if owner[0] is None else owner[0], -1 if owner[1] is None else owner[1], follow_symlinks=False
        )


def make(path: Path, kind: str, mode: int) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "link":
        target = path.with_name(f"{path.name}.target")
        target.touch()
        target.chmod(mode)
        path.symlink_to(target)
        return
    else:
        path.touch()
    path.chmod(mode)


@pytest.mark.parametrize("as_root", [False, pytest.param(True, marks=pytest.mark.root)])
def test_alike(tmp_path: Path, as_root: bool) -> None:
    """Whatever the kind, the owner and the mode of a file, of its directory and of links to both: what one believes,
    the other does."""
    owners = OWNERS if as_root else OWNERS[:1]
    commands: list[tuple[str, bytes, bytes]] = []
    wanted: list[str] = []

    def compare(letter: str, call: Callable[[str], Any], path: Path, part: bytes = b"", name: bytes = b"") -> None:
        commands.append((letter, part or os.fsencode(path), name))
        wanted.append(opens(call, path))

    for number, (mode, owner) in enumerate(itertools.product(DIRECTORIES, owners)):
        place, link = tmp_path / f"{number}", tmp_path / f"{number}.link"
        place.mkdir()
        link.symlink_to(place)
        for kind, each, whose in itertools.product(("file", "link", "pipe", "directory"), FILES, owners):
            path = place / f"{kind}-{each:o}-{whose[0]}"
            make(path, kind, each)
            give(path, whose)
        for path in (*sorted(place.iterdir()), place / "absent"):
            place.chmod(mode)
            give(place, owner)
            compare("o", paths.open_own_file, path)
            compare("o", paths.open_own_file, link / path.name)
            compare("i", paths.open_in_store, path, os.fsencode(place), os.fsencode(path.name))
            compare("i", paths.open_in_store, link / path.name, os.fsencode(link), os.fsencode(path.name))
        for path in (place, link, place / "absent"):
            compare("r", paths.require_own, path)
            compare("d", directory, path)
    found = answers(*commands)
    differ = [(command, want, got) for command, want, got in zip(commands, wanted, found, strict=True) if want != got]
    assert differ == []
    assert set(wanted) == {"0", "1"} and len(wanted) > 600
