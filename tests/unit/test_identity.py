"""Identity: data is given only to a driver with an equal identity."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from unit.things import FakeCommands, cell, device_state, facts, program

from pylayer.common import identity as identity_module
from pylayer.common.identity import Identity
from pylayer.common.settings import DEFAULTS
from pylayer.inhost.session import DeviceSession
from pylayer.store.folder import identity_names, read_identity
from pylayer.values import DeviceFacts


def session(root: str, on: DeviceFacts, commands: FakeCommands, global_key: bytes = b"") -> DeviceSession:
    result = DeviceSession(commands, 1, program(), on, root, "program", dict(DEFAULTS))
    result.use_global_key(global_key)
    result.state = device_state()
    return result


def keep(root: str, on: DeviceFacts, data: bytes, global_key: bytes = b"") -> None:
    one = session(root, on, FakeCommands(), global_key)
    one.pipelines.write(one.pipelines.new(cell(data)))
    one.close()


def loaded(root: str, on: DeviceFacts, global_key: bytes = b"") -> list[bytes]:
    commands = FakeCommands()
    one = session(root, on, commands, global_key)
    one.load.device_exists = True
    while one.load.step():
        pass
    return commands.loaded


CHANGES = {
    "driver update": facts(driver_version=1),
    "same version, other build": facts(driver_info="Mesa 25.0.7-1 (git-0123456789)"),
    "other driver for the device": facts(driver_id=4, driver_name="amdvlk"),
    "device swapped": facts(device_id=0x744C, device_name="AMD Radeon RX 7900 XTX"),
    "other vendor": facts(vendor_id=0x10DE),
    "other UUID": facts(pipeline_cache_uuid=bytes(16)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_driver_or_device(tmp_path: Path, change: str) -> None:
    """Each part of the identity keeps data apart. Data of both sides stays: after a change back, it is still there."""
    root, here, there = str(tmp_path / "root"), facts(), CHANGES[change]
    keep(root, here, b"here")
    assert loaded(root, there) == []
    keep(root, there, b"there")
    assert loaded(root, there) == [b"there"]
    assert loaded(root, here) == [b"here"]


def test_names_do_not_matter(tmp_path: Path) -> None:
    """A device's name is only for people. Equal devices with equal drivers share data."""
    root = str(tmp_path / "root")
    keep(root, facts(), b"shared")
    assert loaded(root, facts(device_name="another name", api_version=1)) == [b"shared"]


def test_two_devices_in_one_machine(tmp_path: Path) -> None:
    """Two different devices have a folder each. Two equal devices share theirs."""
    root = str(tmp_path / "root")
    keep(root, facts(), b"first")
    keep(root, facts(device_id=1), b"second")
    keep(root, facts(), b"twin of the first")
    assert len(identity_names(root)) == 2
    assert sorted(loaded(root, facts())) == [b"first", b"twin of the first"]


def test_pointer_size_and_byte_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 32-bit program under the same driver version never gets a 64-bit program's data."""
    root = str(tmp_path / "root")
    keep(root, facts(), b"64-bit")
    for abi in ("32-bit little-endian", "64-bit big-endian"):
        monkeypatch.setattr(identity_module, "ABI", abi)
        assert loaded(root, facts()) == []
        keep(root, facts(), abi.encode())
        assert loaded(root, facts()) == [abi.encode()]


def test_global_key(tmp_path: Path) -> None:
    """The global key of pipeline binaries is part of the identity if there is one."""
    root = str(tmp_path / "root")
    keep(root, facts(), b"without")
    keep(root, facts(), b"with", b"one key")
    assert loaded(root, facts()) == [b"without"]
    assert loaded(root, facts(), b"one key") == [b"with"]
    assert loaded(root, facts(), b"another") == []
    assert Identity.of(facts(), b"one key").fields["global_key"] == b"one key".hex()


def test_moved_store(tmp_path: Path) -> None:
    """A store, or its home directory, can be moved or copied, because no file in it contains its path."""
    root, moved = str(tmp_path / "root"), str(tmp_path / "moved")
    keep(root, facts(), b"data")
    shutil.move(root, moved)
    assert loaded(moved, facts()) == [b"data"]
    for path in Path(moved).rglob("*"):
        assert not path.is_file() or str(tmp_path).encode() not in path.read_bytes()


def test_folder_says_whose_it_is(tmp_path: Path) -> None:
    """The identity file of a folder gives its identity. A file that does not match the folder's name gives none."""
    root = str(tmp_path / "root")
    keep(root, facts(), b"data")
    (name,) = identity_names(root)
    found = read_identity(root, name)
    assert found is not None and found.fields == Identity.of(facts()).fields
    description = Path(root, "store", name, "identity")
    description.write_text(description.read_text().replace("vendor_id=i:4098", "vendor_id=i:4099"))
    assert read_identity(root, name) is None
