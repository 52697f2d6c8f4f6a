"""Identity: data is given only to a driver with an equal identity."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from unit import things
from unit.things import FakeCommands, cell, facts, load, session

from pylayer.common import identity as identity_module
from pylayer.common.identity import Identity
from pylayer.store.folder import identity_names, read_identity


def keep(root: str, data: bytes, global_key: bytes = b"", **on: Any) -> None:
    one = session(root, FakeCommands(), **on)
    one.use_global_key(global_key)
    things.keep(one, cell(data))
    one.close()


def loaded(root: str, global_key: bytes = b"", **on: Any) -> list[bytes]:
    commands = FakeCommands()
    one = session(root, commands, **on)
    one.use_global_key(global_key)
    load(one)
    return commands.loaded


@pytest.mark.parametrize(
    "there",
    [
        {"vendor_id": 0x10DE},
        {"device_id": 0x744C},
        {"driver_version": 1},
        {"driver_id": 4},
        {"driver_name": "amdvlk"},
        {"driver_info": "Mesa 25.0.7-1 (git-0123456789)"},
        {"pipeline_cache_uuid": bytes(16)},
    ],
    ids=lambda there: next(iter(there)),
)
def test_other_driver_or_device(root: str, there: dict[str, Any]) -> None:
    """Each part of the identity keeps data apart. Data of both sides stays: after a change back, it is still there."""
    keep(root, b"here")
    assert loaded(root, **there) == []
    keep(root, b"there", **there)
    assert loaded(root, **there) == [b"there"]
    assert loaded(root) == [b"here"]


def test_what_does_not_matter(root: str) -> None:
    """A device's name is only for people. Equal devices with equal drivers share data, whatever program asks."""
    keep(root, b"shared")
    other = {"device_name": "another", "api_version": 1, "feedback_supported": False, "cache_control_supported": False}
    assert loaded(root, **other) == [b"shared"]


def test_two_devices_in_one_machine(root: str) -> None:
    """Two different devices have a folder each. Two equal devices share theirs."""
    keep(root, b"first")
    keep(root, b"second", device_id=1)
    keep(root, b"twin of the first")
    assert len(identity_names(root)) == 2
    assert sorted(loaded(root)) == [b"first", b"twin of the first"]


def test_pointer_size_and_byte_order(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 32-bit program under the same driver version never gets a 64-bit program's data."""
    keep(root, b"64-bit")
    for abi in ("32-bit little-endian", "64-bit big-endian"):
        monkeypatch.setattr(identity_module, "ABI", abi)
        assert loaded(root) == []
        keep(root, abi.encode())
        assert loaded(root) == [abi.encode()]


def test_global_key(root: str) -> None:
    """The global key of pipeline binaries is part of the identity if there is one."""
    keep(root, b"without")
    keep(root, b"with", b"one key")
    assert loaded(root) == [b"without"]
    assert loaded(root, b"one key") == [b"with"]
    assert loaded(root, b"another") == []
    assert Identity.of(facts(), b"one key").fields["global_key"] == b"one key".hex()


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
