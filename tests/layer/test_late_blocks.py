"""A policy that gives no verdict on a program's cache data in time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from host_steps import END, HOST, run_host
from scripted_driver import ScriptedDriver
from world import World

#: A policy class whose admit_cache never answers.
HANGS = """
import time
from pylayer.policy import Policy

class Hangs(Policy):
    def plan_device(self, program, facts, settings):
        open({asked!r}, "w").close()
        return super().plan_device(program, facts, settings)

    def admit_cache(self, data, facts, settings):
        time.sleep(3600)
"""


def policy_that_hangs(world: World, tmp_path: Path, **settings: object) -> str:
    """Returns a policy file. One run calls its class before the test, so that the next plan comes soon."""
    (tmp_path / "hangs.py").write_text(HANGS.format(asked=str(tmp_path / "asked")))
    config = tmp_path / "hangs.yaml"
    config.write_text(json.dumps({"policy": "hangs:Hangs", "settings": settings}))
    world.demo("--count", 1, PYLAYER_CONFIG=str(config))
    assert (tmp_path / "asked").exists()
    return str(config)


@pytest.mark.parametrize("mode", ["cells", "off"])
def test_valid_data_passes_without_a_verdict(world: World, tmp_path: Path, mode: str) -> None:
    """If policy is late, a program's valid data reaches the driver."""
    config = policy_that_hangs(world, tmp_path, mode=mode)
    saved = tmp_path / "program.cache"
    world.demo("--count", 20, "--cache", "object", "--cache-save", saved)
    result = world.demo("--count", 20, "--cache", saved, "--feedback", PYLAYER_CONFIG=config)
    assert result["feedback"]["application_cache_hit"] == 20


@pytest.mark.parametrize("is_damaged", [False, True])
def test_strict_data_needs_a_verdict(scripted: ScriptedDriver, tmp_path: Path, is_damaged: bool) -> None:
    """With application_caches: strict and no verdict in time, the program gets an empty cache."""
    scripted.world.environment |= scripted.environment("")  # for the run before the test, too
    config = policy_that_hangs(scripted.world, tmp_path, application_caches="strict")
    saved = tmp_path / "program.cache"
    scripted.demo("--count", 8, "--cache", "object", "--cache-save", saved)
    data = saved.read_bytes()
    saved.write_bytes(data[:-1] + bytes([data[-1] ^ is_damaged]))
    result = scripted.demo("--count", 8, "--cache", saved, "--feedback", PYLAYER_CONFIG=config)
    assert result["created"] == 8 and result["feedback"]["application_cache_hit"] < 8


def test_thread_cancelled_while_it_waits(world: World, tmp_path: Path) -> None:
    """If a program cancels a thread that waits for a verdict, its other threads go on."""
    config = policy_that_hangs(world, tmp_path)
    run_host(world, "instance", "device", "cancel", "pipelines", 3, *END, PYLAYER_CONFIG=config)


#: A policy class that takes half a second for a verdict.
SLOW = """
class Mine(Policy):
    def admit_cache(self, data, facts, settings):
        import time
        time.sleep({seconds})
        return super().admit_cache(data, facts, settings)
"""


@pytest.mark.parametrize(("seconds", "known"), [(0.5, 11), (3600, 0)])
def test_the_wait_is_one_for_the_device(world: World, tmp_path: Path, seconds: float, known: int) -> None:
    """A device waits two seconds for all verdicts together. Beyond that, a program's data passes, and the next run
    knows it, but for what policy was working on, or if policy gave none."""
    files = [str(tmp_path / f"{number}.cache") for number in range(12)]
    fills = [word for number, file in enumerate(files) for word in ("pipelines", str(number + 1), "save-cache", file)]
    world.run([str(HOST), "instance", "device", "load-cache", "/nowhere", *fills], VK_INSTANCE_LAYERS="")
    loads = [word for file in files for word in ("load-cache", file, "destroy-cache")]
    policy = world.policy_class(SLOW.format(seconds=seconds))
    world.run([str(HOST), "instance", "device", *loads, "spawn", "sleep 1", *END], **policy)
    assert len(world.known_data()) == known
    if known:
        assert world.last()["caches_emptied"] == 0 and world.last()["answers_late"] >= 6
    world.run([str(HOST), "instance", "device", *loads, *END])
    outcomes = world.outcomes()
    assert (outcomes.get("attested", 0), outcomes["unknown"]) == (known, 12 - known)
