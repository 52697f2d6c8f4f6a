"""The main job: a program that runs twice compiles its pipelines once. The demo program runs in all its ways."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_steps import LEAKS_A_CACHE
from pipeline_binaries import with_disk_cache
from programs.ways import Arguments, ways
from scripted_driver import ScriptedDriver
from world import LAYER_NAME, World, seen

#: Each way runs without the layer, with an empty store and with a full one. Libraries, and pipelines that may not be
#: compiled, have tests below.
WAYS = ways("libraries", "libraries, feedback", "may not compile")


@pytest.mark.parametrize("way", WAYS)
def test_second_run_compiles_nothing(world: World, way: str) -> None:
    """The second run under the layer compiles nothing, and the program sees the same results as without the layer."""
    alone = world.demo(*WAYS[way], layers=None)
    cold = world.demo(*WAYS[way])
    counters = world.last()
    assert counters["compiled"] > 0
    assert counters["compiled"] + counters["hits"] == counters["pipelines"] == alone["created"]
    warm = world.demo(*WAYS[way])
    counters = world.last()
    assert counters["compiled"] == counters["uncacheable"] == counters["failed"] == 0
    assert counters["hits"] == counters["pipelines"] == alone["created"]
    assert world.runs()[-1]["mode"] == "cells"
    assert seen(alone) == seen(cold) == seen(warm)


def test_implicit_layer_beside(world: World) -> None:
    """The second run compiles nothing with Mesa's implicit layer in the chain, as users have it."""
    del world.environment["NODEVICE_SELECT"]
    for compiled in (12, 0):
        assert world.demo("--count", 12)["created"] == 12
        assert world.last()["compiled"] == compiled


@pytest.mark.parametrize("way", [(), ("--cache", "object"), ("--gpl",), ("--ray-tracing",)], ids=" ".join)
def test_first_run_over_a_warm_driver_cache(world: World, tmp_path: Path, way: tuple[str, ...]) -> None:
    """What the driver has in its own cache is stored in the first run: the second compiles nothing, with that cache
    gone. Libraries that are linked fast leave nothing to store, and count as hits."""
    arguments = ["--count", 4, *way]
    for layers in (None, LAYER_NAME):
        world.demo(*arguments, layers=layers, **with_disk_cache(tmp_path / "mesa"))
    assert world.runs()[-1]["stored_records"] > 0
    world.demo(*arguments)
    counters = world.last()
    assert (counters["compiled"], counters["uncacheable"], counters["hits"]) == (0, 0, counters["pipelines"])


def test_program_that_may_not_compile(world: World) -> None:
    """A program that sets FAIL_ON_PIPELINE_COMPILE_REQUIRED gets COMPILE_REQUIRED until the store holds the
    pipeline."""
    arguments = ["--count", 16, "--fail-on-compile-required"]
    alone = world.demo(*arguments, layers=None)
    cold = world.demo(*arguments)
    assert seen(alone) == seen(cold)
    assert cold["compile_required"] == 16
    assert world.last()["compiled"] == 0
    world.demo("--count", 16, "--cache-control")
    warm = world.demo(*arguments)
    assert warm["compile_required"] == 0 and warm["created"] == 16


def test_half_stored_batches(world: World) -> None:
    """If half of the pipelines of one call are stored, the call compiles only the other half."""
    world.demo("--count", 20)
    result = world.demo("--count", 40, "--batch", 40)
    counters = world.last()
    assert result["created"] == 40
    assert (counters["hits"], counters["compiled"]) == (20, 20)


# ---- The scripted driver -------------------------------------------------------------------------


#: Every way, and one that uses the second device.
EVERY_WAY: dict[str, Arguments] = {**ways(), "second device": ["--count", 12, "--device", "1"]}


@pytest.mark.parametrize("script", ["nonsense", "create-cache=fly", "create-cache=error", "create-cache=crash?odd"])
def test_wrong_script_is_an_error(scripted: ScriptedDriver, script: str) -> None:
    """An invalid script ends the program, so that a misspelt one cannot pass a test by injecting nothing."""
    result = scripted.demo("--count", 1, script=script, layered=False, check=False)
    assert result.returncode != 0 and "test driver: " in result.stderr


@pytest.mark.parametrize("mode", ["auto", "binaries"])
@pytest.mark.parametrize("way", EVERY_WAY)
def test_program_notices_nothing(scripted: ScriptedDriver, way: str, mode: str) -> None:
    """With each mode the program sees in two runs what it sees without the layer."""
    scripted.settings(mode=mode)
    alone = seen(scripted.demo(*EVERY_WAY[way], layered=False, script="devices=2"))
    assert alone["returncode"] == 0
    for _ in range(2):
        assert seen(scripted.demo(*EVERY_WAY[way], script="devices=2")) == alone


def test_witness_sees_leaks(scripted: ScriptedDriver) -> None:
    """The witness reports a program that leaks a pipeline cache."""
    scripted.program(LEAKS_A_CACHE, layered=False, allow=True)
    assert "VIOLATION vkDestroyDevice with 1 objects alive: VkPipelineCache" in scripted.violations


def test_witness_sees_foreign_bytes(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Without the layer, a cache file with one byte changed is used and is a violation. The driver's own data is
    not."""
    file = tmp_path / "cache"
    scripted.demo("--count", 4, "--cache", "object", "--cache-save", file, layered=False)
    scripted.demo("--count", 4, "--cache", file, layered=False)
    assert scripted.counts["hits"] == 4
    file.write_bytes(file.read_bytes()[:-9] + b"?" + file.read_bytes()[-8:])
    scripted.demo("--count", 4, "--cache", file, layered=False, allow=True)
    assert len(scripted.violations) == 1 and "vkCreatePipelineCache" in scripted.violations[0]
    assert scripted.counts["damaged-uses"] == 1
