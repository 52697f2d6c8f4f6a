"""Drivers of different builds that look alike. No data ever reaches the driver of another build, whichever property
tells them apart. The witness below the layer sees every byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import radv
from scripted_driver import ScriptedDriver
from world import World

#: Another driver, another build of it, another device. Each differs from the default in one property that Vulkan
#: reports, and in its data, which only its own build may get. The pipelineCacheUUID is equal in all but one.
OTHERS = [
    "build=2;driver-version=2",
    "build=3;uuid=7e58",
    "build=4;driver-info=build-4",
    "build=5;driver-name=other",
    "build=6;driver-id=3",
    "build=7;vendor-id=7",
    "build=8;device-id=9",
]

Change = Callable[[bytes], bytes]

#: The driver crashes on any data of another build.
STRICT = ";create-cache=crash?stale;create-binaries=crash?stale;pipeline=crash?stale"

OUTCOMES: dict[str, tuple[Change, str]] = {
    "flipped": (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "altered (one 64-bit word changed)"),
    "cut": (lambda data: data[:-30], "altered (cut off, it has {size} of {good} bytes)"),
    "cut in the header": (lambda data: data[:20], "truncated"),
    "zeros": (lambda data: bytes(64), "wrong-version"),
    "wrong length": (lambda data: b"\x07" + data[1:], "wrong-length"),
    "wrong version": (lambda data: data[:4] + b"\x02" + data[5:], "wrong-version"),
    "wrong vendor": (lambda data: data[:8] + b"\x00" + data[9:], "wrong-vendor"),
    "wrong device": (lambda data: data[:12] + b"\x00" + data[13:], "wrong-device"),
    "wrong UUID": (lambda data: data[:31] + b"\x01" + data[32:], "wrong-uuid"),
}
#: Data that is not known to be damaged. With application_caches: strict the driver gets only what was once read.
UNKNOWN: dict[str, tuple[Change, str]] = {
    "header alone": (lambda data: data[:32], "unknown"),
    "twice": (lambda data: data + data, "unknown"),
}


@pytest.mark.parametrize(("mode", "others"), [("auto", OTHERS), ("binaries", OTHERS[:2])])
def test_nothing_crosses_to_another_build(scripted: ScriptedDriver, others: list[str], mode: str) -> None:
    """Several builds use one store in turn. Each finds its own pipelines and none of the others'."""
    scripted.settings(mode=mode)
    arguments = ["--count", 6, "--api", "1.3"]
    for compiled in (6, 0):
        for script in ("build=1", *others):
            scripted.demo(*arguments, script=script + STRICT)
            assert (scripted.counts["compiles"], scripted.counts["stale-uses"]) == (compiled, 0), script
    scripted.verify()


def test_nothing_crosses_between_devices_of_one_process(scripted: ScriptedDriver) -> None:
    """Two devices with equal UUID, vendor and device number and drivers of different builds each have their own folder
    in the store."""
    script = "devices=2;device-id=9/9;build=1/2;driver-info=one/two" + STRICT
    for device in (0, 1, 0, 1):
        scripted.demo("--count", 6, "--device", device, script=script)
    assert scripted.counts["compiles"] == 0
    assert len(list(scripted.world.store.glob("store/*"))) == 2


def test_nothing_crosses_between_programs_of_32_and_64_bits(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Drivers for 32-bit and 64-bit programs have equal properties and different data. The pointer size is part of the
    identity, so no data crosses.

    The 32-bit program is a 64-bit one whose policy says that it is not."""
    (tmp_path / "narrow.py").write_text(
        "from pylayer.common import identity\nfrom pylayer.policy import Policy\n"
        'identity.ABI = "32-bit little-endian"\n\n\nclass Narrow(Policy):\n    pass\n'
    )
    narrow = tmp_path / "narrow.yaml"
    narrow.write_text("policy: narrow:Narrow\n")
    for _ in range(2):
        scripted.demo("--count", 6, script="abi=32" + STRICT, PYLAYER_CONFIG=str(narrow))
        scripted.demo("--count", 6, script="abi=64" + STRICT)
    assert (scripted.counts["compiles"], scripted.counts["hits"]) == (0, 6)
    assert len(list(scripted.world.store.glob("store/*"))) == 2


def test_cache_file_of_another_build(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """A program whose cache file was written under another build gets an empty cache, and saves what it compiled. The
    build that wrote the file accepts it again."""
    file, saved = tmp_path / "cache", tmp_path / "saved"
    scripted.demo("--count", 6, "--cache", "object", "--cache-save", file)
    for other in OTHERS:
        result = scripted.demo("--count", 6, "--cache", file, "--cache-save", saved, script=other + STRICT)
        assert "stale; the program gets an empty cache" in scripted.warnings(result), other
        assert scripted.counts["compiles"] == 6 and saved.stat().st_size == file.stat().st_size, other
    scripted.demo("--count", 6, "--cache", file, script=STRICT)
    assert (scripted.counts["compiles"], scripted.counts["hits"]) == (0, 6)


@pytest.mark.parametrize(("setting", "changes"), [("attest", OUTCOMES), ("strict", UNKNOWN)])
def test_changed_cache_file(
    scripted: ScriptedDriver, tmp_path: Path, setting: str, changes: dict[str, tuple[Change, str]]
) -> None:
    """A program's cache file that was changed in any of these ways is replaced by an empty cache. The driver, which
    would crash on the data, never sees it, and the program gets its pipelines from the store."""
    scripted.settings(application_caches=setting)
    file = tmp_path / "cache"
    scripted.demo("--count", 6, "--cache", "object", "--cache-save", file)
    good = file.read_bytes()
    for name, (change, outcome) in changes.items():
        changed = change(good)
        file.write_bytes(changed)
        result = scripted.demo("--count", 6, "--cache", file, script="create-cache=crash?damaged" + STRICT)
        said = outcome.format(size=len(changed), good=len(good))
        assert f"bytes: {said}; the program gets an empty cache" in scripted.warnings(result), name
        assert (scripted.counts["compiles"], scripted.counts["hits"]) == (0, 6), name


def test_binaries_of_another_build(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """If a program wrongly brings pipeline binaries of another build, the driver gets none of them, and the program
    compiles."""
    file = tmp_path / "archive"
    arguments = ["--archive", file, "--any-global-key", "--count", 4]
    scripted.application(*arguments)
    good = file.read_bytes()
    for other in OTHERS:
        file.write_bytes(good)
        result = scripted.application(*arguments, script=other + STRICT)
        assert (result["created"], result["from_archive"], scripted.counts["stale-uses"]) == (4, 0, 0), other


# ---- Files ---------------------------------------------------------------------------------------


def test_records_of_another_driver_in_a_file(world: World) -> None:
    """If a file system puts another driver's records into a file, the layer does not load them."""
    world.demo("--count", 8, **radv.gpu("navi31"))
    foreign = world.stored_files(".closed")
    world.demo("--count", 8)
    own = set(world.stored_files(".closed")).difference(foreign)
    for path in own:  # a slow run leaves more than one
        path.write_bytes(path.read_bytes()[:256] + foreign[0].read_bytes()[256:])
    world.demo("--count", 8)
    run = world.runs()[-1]
    assert (run["counters"]["fetched"], run["counters"]["compiled"]) == (0, 8)
    assert run["damage"] == {"damaged-header": len(own)}


# ---- The identity --------------------------------------------------------------------------------


def identity(world: World) -> str:
    return str(world.runs()[-1]["identity"])


def compiled_and_hits(world: World) -> tuple[int, int]:
    return world.last()["compiled"], world.last()["hits"]


def test_moved_home(world: World) -> None:
    """Pipelines are found after the home directory was moved, as after a copy to another machine with the same
    driver."""
    home = world.directory / "home"
    old = {"PYLAYER_STORE": None, "HOME": str(home), "XDG_CACHE_HOME": None}
    world.demo("--count", 12, **old)
    moved = world.directory / "moved"
    shutil.move(home, moved)
    world.store = moved / ".cache" / "pylayer"
    world.demo("--count", 12, **{**old, "HOME": str(moved)})
    assert compiled_and_hits(world) == (0, 12)


@pytest.mark.parametrize("damage", [b"", bytes(400), b"format=i:1\n"], ids=["empty", "zeros", "another's"])
def test_damaged_identity_file(world: World, damage: bytes) -> None:
    """An identity file that is empty after a power cut costs nothing: everything is found, nothing is renamed, and the
    first run that starts policy writes the file anew."""
    world.demo("--count", 12)
    path = world.store / "store" / identity(world) / "identity"
    good = path.read_bytes()
    path.write_bytes(damage)
    world.demo("--count", 12)
    assert compiled_and_hits(world) == (0, 12)
    world.demo("--count", 12, PYLAYER_LOG="info")  # policy does not rest
    assert compiled_and_hits(world) == (0, 12)
    assert path.read_bytes() == good and len(list((world.store / "store").iterdir())) == 1
