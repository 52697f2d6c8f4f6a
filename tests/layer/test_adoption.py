"""Adoption: pipelines that the driver's own disk cache has are stored although nobody compiles them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pipeline_binaries import with_disk_cache
from scripted_driver import ScriptedDriver
from world import World

#: Programs that pass no cache of their own and create no links and no ray tracing pipelines.
AT_ONCE: dict[str, tuple[str | int, ...]] = {
    "plain": (),
    "batches": ("--batch", 8),
    "threads": ("--threads", 4),
    "Vulkan 1.0": ("--api", "1.0"),
}
LATER: dict[str, tuple[str | int, ...]] = {
    "own cache": ("--count", 60, "--cache", "object"),
    "libraries and links": ("--count", 10, "--gpl", "--api", "1.3"),
    "different libraries with one fingerprint": ("--count", 300, "--gpl", "--api", "1.3"),
    "ray tracing": ("--count", 6, "--ray-tracing", "--api", "1.3"),
    "deferred ray tracing": ("--count", 6, "--ray-tracing", "--deferred", 2, "--api", "1.3"),
}

#: A driver that takes long to answer from its disk cache if the creation has a cache that lacks the pipeline, as
#: NVIDIA's (policy.ALONE_DRIVERS).
DEAR = "driver-id=4;filled-internal-cache=yes"


#: More than the budget of a run allows to adopt.
MANY = 1000


@pytest.mark.parametrize("arguments", AT_ONCE.values(), ids=AT_ONCE)
def test_first_run_stores_all(world: World, arguments: tuple[str | int, ...]) -> None:
    """The first run over a warm disk cache stores each pipeline, without creating any a second time."""
    disk = with_disk_cache(world.directory / "mesa")
    world.demo("--count", 60, *arguments, layers=None, **disk)
    world.demo("--count", 60, *arguments, **disk)
    counters = world.last()
    assert (counters["adopted"], counters["compiled"]) == (60, 0)
    world.demo("--count", 60, *arguments)
    counters = world.last()
    assert (counters["hits"], counters["compiled"]) == (60, 0)


@pytest.mark.parametrize("arguments", LATER.values(), ids=LATER)
def test_third_run_finds_all(world: World, arguments: tuple[str | int, ...]) -> None:
    """Two runs over a warm disk cache store each pipeline, whatever the program creates. The third stores nothing."""
    disk = with_disk_cache(world.directory / "mesa")
    world.demo(*arguments, layers=None, **disk)
    for _ in range(3):
        world.demo(*arguments, **disk)
        assert world.last()["compiled"] == 0
    assert (world.last()["adopted"], world.runs()[-1]["stored_records"]) == (0, 0)
    world.demo(*arguments)
    counters = world.last()
    assert (counters["hits"], counters["compiled"]) == (counters["pipelines"], 0)


@pytest.mark.usefixtures("needs_binaries")
def test_binaries(world: World) -> None:
    """With binaries, the first run over a warm disk cache stores what its budget allows, and the second the others."""
    disk = with_disk_cache(world.directory / "mesa")
    world.configure(carrier="binaries")
    world.demo("--count", 60, "--api", "1.3", layers=None, **disk)
    world.demo("--count", 60, "--api", "1.3", **disk)
    adopted = world.last()["adopted"]
    assert 0 < adopted <= 60
    world.demo("--count", 60, "--api", "1.3", **disk)
    assert world.last()["adopted"] == 60 - adopted
    world.demo("--count", 60, "--api", "1.3")
    assert world.last()["binary_hits"] == 60


def test_dear_caches_are_searched_alone(scripted: ScriptedDriver) -> None:
    """A driver that finds pipelines later with a cache that lacks them is asked without one. Each pipeline that fits
    into the budget is created once more."""
    scripted.demo("--count", MANY, script=DEAR)
    counters = scripted.world.last()
    assert counters["adopted"] + counters["hits"] == MANY
    assert scripted.counts["internal-hits"] == MANY + counters["adopted"]


@pytest.mark.parametrize("folded", [False, True])
def test_pipelines_that_come_back(scripted: ScriptedDriver, folded: bool) -> None:
    """With such a driver the second run stores what the budget of the first one did not allow, also after a fold, and
    the third run finds all."""
    scripted.demo("--count", MANY, script=DEAR)
    left = MANY - scripted.world.last()["adopted"]
    assert 0 < left < MANY
    if folded:
        scripted.world.pylayer("trim")
    scripted.demo("--count", MANY, script=DEAR)
    assert scripted.world.last()["adopted"] == left
    assert scripted.counts["internal-hits"] == 2 * left + scripted.world.last()["driver_asked"]
    scripted.demo("--count", MANY, script="driver-id=4")
    assert (scripted.world.last()["hits"], scripted.counts["compiles"]) == (MANY, 0)


def test_what_is_missing_is_said(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Until all pipelines that the program created are stored, ls and export say how many are missing."""
    world = scripted.world

    scripted.demo("--count", MANY, script=DEAR)
    stored = scripted.world.last()["adopted"]
    assert f"{stored} of {MANY} " in world.pylayer("ls").stdout
    exported = world.pylayer("export", "--app", "pipelines", tmp_path / "export").stdout
    assert f"{MANY - stored} known pipelines not stored yet" in exported
    scripted.demo("--count", MANY, script=DEAR)
    (identity,) = json.loads(world.pylayer("ls", "--json").stdout)["identities"]
    assert [(one["pipelines"], one["missing_pipelines"]) for one in identity["programs"]] == [(MANY, 0)]


def test_driver_that_takes_its_own(scripted: ScriptedDriver) -> None:
    """What a driver takes from its own cache, although it was given what is stored, is adopted once. Later runs adopt
    no more than their budget allows."""
    script = "filled-internal-cache=yes;internal-cache-first=yes"
    for _ in range(2):
        scripted.demo("--count", 200, script=script)
    scripted.demo("--count", 200, script=script)
    counters = scripted.world.last()
    assert counters["adopted"] < 50 and counters["hits"] + counters["adopted"] == 200
