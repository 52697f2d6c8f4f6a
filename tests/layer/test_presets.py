"""The presets in config/: real programs show that each does what it promises."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from disk import FailingDisk
from programs.ways import ways
from scripted_driver import ScriptedDriver
from world import BUILD, World, seen

WAYS = ways()


def choose(world: World, preset: str, **own: Any) -> None:
    """Writes a policy file with this preset and with the user's own keys."""
    world.environment |= world.policy(json.dumps({"preset": preset, **own}))


# ---- engine-developers: what a program compiles is recorded, and nothing is changed -----------------


@pytest.mark.parametrize("way", WAYS)
def test_program_and_driver_notice_nothing(scripted: ScriptedDriver, way: str) -> None:
    """The program sees what it sees without the layer, and the driver gets the same calls."""
    choose(scripted.world, "engine-developers")
    alone = scripted.demo(*WAYS[way], layered=False)
    devices, counts = scripted.devices, scripted.counts
    for _ in range(2):
        layered = scripted.demo(*WAYS[way])
        assert seen(layered) == seen(alone)
        assert layered.get("feedback") == alone.get("feedback")
        assert (scripted.devices, scripted.counts) == (devices, counts)
        run = scripted.world.runs()[-1]
        assert run["mode"] == "observe" and run.get("stored_records", 0) == run["counters"]["fetched"] == 0
        counters = run["counters"]
        timed = counters["pipelines"] + counters["passed"] + counters["failed"] + counters["compile_required"]
        assert timed == layered["pipelines"]
    assert scripted.world.stored_files() == []


def test_what_is_recorded(world: World) -> None:
    """A run records how many pipelines were created and compiled and how long that took. If the program's cache has
    them, it records hits."""
    choose(world, "engine-developers")
    cache = world.directory / "engine.cache"
    world.demo("--count", 12, "--api", "1.3", "--cache", cache, "--cache-save", cache)
    cold = world.last()
    assert (cold["pipelines"], cold["plain_compiled"], cold["hits"]) == (12, 12, 0)
    told = world.demo("--count", 12, "--api", "1.3", "--cache", cache, "--feedback")["feedback"]
    assert told["application_cache_hit"] == 12
    warm = world.last()
    assert (warm["pipelines"], warm["plain_compiled"], warm["application_hits"]) == (12, 0, 12)
    assert 0 < warm["plain_ns"] < cold["plain_ns"]
    assert world.runs()[-1]["cache_outcomes"] == {"attested": 1}


def test_without_feedback(world: World) -> None:
    """On a device without creation feedback the layer does not enable it, and still records pipelines and their
    time. Every command says that it is unknown what the driver compiled, also in runs without policy."""
    choose(world, "engine-developers")
    for _ in range(3):
        world.demo("--count", 12, "--api", "1.1")
        counters = world.last()
        assert (counters["pipelines"], counters["plain"], counters["plain_compiled"]) == (12, 12, 0)
        assert counters["plain_ns"] > 0
        for words in (("stats", "--last"), ("report",)):
            known = json.loads(world.pylayer(*words, "--json").stdout)
            told = (known["programs"] if words[0] == "stats" else known["runs"])[0]
            assert (told["compiled"], told["unknown_pipelines"]) == (None, 12)
            text = world.pylayer(*words).stdout
            assert (
                "unknown of 12 pipelines whether the driver compiled them, because the program's device has no" in text
            )
    assert world.pylayer("stats", "--runs").stdout.count("?") >= 3
    assert "pylayer_pipelines_unknown_total{" in world.pylayer("stats", "--prometheus").stdout


def test_altered_cache_is_reported(world: World) -> None:
    """An engine's altered cache file still reaches the driver, and a line says so."""
    choose(world, "engine-developers")
    cache = world.directory / "engine.cache"
    world.demo("--count", 6, "--cache", cache, "--cache-save", cache)
    data = bytearray(cache.read_bytes())
    data[0x200] ^= 1
    cache.write_bytes(data)
    # Creates other pipelines than those in the file, because RADV may crash on the altered ones.
    result = world.demo("--count", 6, "--seed", 5, "--cache", cache)
    assert result["cache_loaded_bytes"] == len(data)
    assert "altered (one 64-bit word changed); the driver got it, because application_caches is report" in result.stderr
    assert world.runs()[-1]["cache_outcomes"] == {"altered": 1} and world.runs()[-1]["refused"] == {}


def test_program_does_not_wait_for_the_verdict(world: World) -> None:
    """A policy class that is slow to judge cache data costs an observed program no time."""
    choose(world, "engine-developers")
    settings = (world.directory / "policy.yaml").read_text()  # JSON, which is YAML in braces
    world.policy_class(
        "import time\n"
        "class Mine(Policy):\n"
        "    def admit_cache(self, data, facts, settings):\n"
        "        time.sleep(0.3)\n"
        "        return super().admit_cache(data, facts, settings)\n",
        settings.strip().removeprefix("{").removesuffix("}"),
    )
    cache = world.directory / "engine.cache"
    world.demo("--count", 2, "--cache", cache, "--cache-save", cache)
    world.demo("--count", 2, "--cache", cache)
    run = world.runs()[-1]
    assert run["counters"]["answers_late"] == run["cache_wait_ns"] == 0
    assert run["cache_outcomes"] == {"attested": 1}


# ---- The others ----------------------------------------------------------------------------------


def test_players(world: World, tmp_path: Path) -> None:
    """Pipelines that one program compiled are hits in another program with another name."""
    choose(world, "players")
    world.demo("--count", 16, "--cache", "object")
    game = shutil.copy(BUILD / "demo" / "pipelines", tmp_path / "game")
    world.run([str(game), "--count", "16"])
    run = world.runs()[-1]
    assert run["executable"] == "game"
    assert (run["counters"]["hits"], run["counters"]["compiled"]) == (16, 0)


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
