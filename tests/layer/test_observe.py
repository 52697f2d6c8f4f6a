"""``mode: observe`` and ``application_caches: report``: the layer records what a program compiles and changes
nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from programs.ways import ways
from scripted_driver import ScriptedDriver
from world import World, seen

OBSERVE: dict[str, Any] = {"mode": "observe", "application_caches": "report"}
WAYS = ways(
    only=(
        "mixed",
        "batches",
        "large batches",
        "own cache, threads",
        "own cache, feedback",
        "Vulkan 1.0",
        "Vulkan 1.3, features chained",
        "may not compile",
        "libraries",
        "ray tracing",
        "deferred ray tracing",
        "derivatives",
    )
)


def observing(world: World, **settings: Any) -> None:
    world.environment |= world.policy(json.dumps({"settings": {**OBSERVE, **settings}}))


@pytest.mark.parametrize("way", WAYS)
def test_program_and_driver_notice_nothing(scripted: ScriptedDriver, way: str) -> None:
    """The program sees what it sees without the layer, and the driver gets the same calls."""
    observing(scripted.world)
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
    observing(world)
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
    observing(world)
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
    observing(world)
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
    observing(world)
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
