"""Identity: what does not count for it, and the file that describes it. layer/test_driver_identity.py tests that no
data reaches a driver with another identity."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from unit import things
from unit.things import FakeCommands, cell, facts, load, session

from pylayer.common.identity import Identity
from pylayer.store.folder import identity_names, read_identity


def keep(root: str, data: bytes) -> None:
    one = session(root, FakeCommands())
    things.keep(one, cell(data))
    one.close()


def loaded(root: str, **on: Any) -> list[bytes]:
    commands = FakeCommands()
    load(session(root, commands, **on))
    return commands.loaded


def test_what_does_not_matter(root: str) -> None:
    """A device's name is only for people. Equal devices with equal drivers share data, whatever program asks."""
    keep(root, b"shared")
    other = {"device_name": "another", "api_version": 1, "feedback_supported": False, "cache_control_supported": False}
    assert loaded(root, **other) == [b"shared"]


def test_moved_store(root: str, tmp_path: Path) -> None:
    """A store, or its home directory, can be moved or copied, because no file in it contains its path."""
    moved = str(tmp_path / "moved")
    keep(root, b"data")
    shutil.move(root, moved)
    assert loaded(moved) == [b"data"]
    for path in Path(moved).rglob("*"):
        assert not path.is_file() or str(tmp_path).encode() not in path.read_bytes()


def test_folder_says_whose_it_is(root: str) -> None:
    """The identity file of a folder gives its identity. A file that does not match the folder's name gives none."""
    keep(root, b"data")
    (name,) = identity_names(root)
    found = read_identity(root, name)
    assert found is not None and found.fields == Identity.of(facts()).fields
    description = Path(root, "store", name, "identity")
    description.write_text(description.read_text().replace("vendor_id=i:4098", "vendor_id=i:4099"))
    assert read_identity(root, name) is None
