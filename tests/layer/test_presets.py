"""The presets in config/: a real program shows that each does what it promises."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from disk import FailingDisk
from scripted_driver import ScriptedDriver
from world import BUILD, World


def choose(world: World, preset: str, **own: Any) -> None:
    """Writes a policy file with this preset and with the user's own keys."""
    world.environment |= world.policy(json.dumps({"preset": preset, **own}))


def test_players(world: World, tmp_path: Path) -> None:
    """Pipelines that one program compiled are hits in another program with another name."""
    choose(world, "players")
    world.demo("--count", 16, "--cache", "object")
    game = tmp_path / "the-game"
    shutil.copytree(BUILD / "demo", game)
    (game / "pipelines").rename(game / "game")
    world.run([str(game / "game"), "--count", "16"])
    run = world.runs()[-1]
    assert run["executable"] == "game"
    assert (run["counters"]["hits"], run["counters"]["compiled"]) == (16, 0)


def test_engine_developers(scripted: ScriptedDriver) -> None:
    """The layer changes neither the engine's device nor its caches, records what it compiles, and stores only
    digests."""
    world = scripted.world
    choose(world, "engine-developers")
    cache = world.directory / "engine.cache"
    arguments = ("--count", 12, "--api", "1.3", "--cache", cache, "--cache-save", cache)
    alone = scripted.demo(*arguments, layered=False)
    devices = scripted.devices
    cache.unlink()
    observed = scripted.demo(*arguments)
    assert scripted.devices == devices and observed["created"] == alone["created"]
    assert (world.last()["plain_compiled"], world.last()["plain"]) == (12, 12)
    assert {path.suffix for path in world.store.glob("store/*/*")} == {".attest", ""}
    data = bytearray(cache.read_bytes())
    data[-1] ^= 1
    cache.write_bytes(data)
    result = world.demo("--count", 12, "--seed", 8, "--cache", cache)
    assert result["cache_loaded_bytes"] == len(data)
    assert world.runs()[-1]["cache_outcomes"] == {"altered": 1}


def test_fleets(world: World, tmp_path: Path) -> None:
    """A store of imported pipelines gives hits from a read-only file system, and only exports signed with the fleet's
    key can be imported."""
    world.pylayer("key", tmp_path / "farm.key", "--new")
    shown = world.pylayer("key", tmp_path / "farm.key").stdout
    (key,) = (word for word in shown.split() if word.startswith("pylayer-ed25519:"))
    world.demo("--count", 16)
    world.pylayer("export", tmp_path / "signed.pylayer", "--app", "*", "--sign", tmp_path / "farm.key")
    world.pylayer("export", tmp_path / "unsigned.pylayer", "--app", "*")
    shutil.rmtree(world.store)

    choose(world, "fleets", trusted_keys=[{"name": "farm", "key": key}])
    assert "signature" in world.pylayer("import", tmp_path / "unsigned.pylayer", check=False).stderr
    assert world.stored_files() == []
    world.pylayer("import", tmp_path / "signed.pylayer")
    before = {path: path.read_bytes() for path in world.stored_files()}
    assert before
    for rules in ("change:EROFS", "change:EACCES", ""):
        result = world.demo("--count", 24, **FailingDisk(world, rules).environment, PYLAYER_LOG="warn")
        assert result["created"] == 24
        assert "pylayer: " not in result.stderr
    assert (world.last()["hits"], world.last()["compiled"]) == (16, 8)
    assert {path: path.read_bytes() for path in world.stored_files()} == before


def test_fleets_replace_the_drivers_cache(scripted: ScriptedDriver) -> None:
    """In a container the driver's own cache is empty, and some drivers search it for ten times as long as a stored
    pipeline takes. The preset switches it off where the driver can."""
    scripted.demo("--count", 2, "--api", "1.3")
    assert "internal-cache=off" not in scripted.devices[-1]
    choose(scripted.world, "fleets")
    scripted.demo("--count", 2, "--api", "1.3")
    assert "internal-cache=off" in scripted.devices[-1]


def test_hardening(scripted: ScriptedDriver) -> None:
    """A program's altered cache file never reaches the driver. The program's device is created as it asked, and no
    pipelines are stored."""
    world = scripted.world
    choose(world, "hardening")
    cache = world.directory / "program.cache"
    arguments = ("--count", 12, "--cache", cache, "--cache-save", cache)
    scripted.demo("--count", 12, layered=False)
    devices = scripted.devices
    scripted.demo(*arguments)
    assert scripted.devices == devices
    good = cache.read_bytes()
    result = world.demo("--count", 12, "--cache", cache)
    assert world.runs()[-1]["cache_outcomes"] == {"attested": 1}
    data = bytearray(good)
    data[0x300] ^= 1
    cache.write_bytes(data)
    result = world.demo("--count", 12, "--cache", cache)
    assert result["created"] == 12
    assert world.runs()[-1]["refused"] == {"altered": 1} and world.last()["caches_emptied"] == 1
    assert {path.suffix for path in world.store.glob("store/*/*")} == {".attest", ""}
