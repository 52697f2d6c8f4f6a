"""A program started twice compiles its pipelines once: the demo program in all its modes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from world import BUILD, World

#: Ways of creating pipelines. Each runs without the layer, cold and warm.
MODES: dict[str, list[str | int]] = {
    "mixed": ["--count", 20],
    "compute": ["--count", 8, "--compute"],
    "graphics": ["--count", 8, "--graphics"],
    "ray tracing": ["--count", 3, "--ray-tracing"],
    "deferred ray tracing": ["--count", 3, "--ray-tracing", "--deferred", 2],
    "batches": ["--count", 20, "--batch", 8],
    "large batches": ["--count", 20, "--batch", 20],
    "threads": ["--count", 24, "--threads", 4],
    "threads and batches": ["--count", 24, "--threads", 3, "--batch", 5],
    "derivatives": ["--count", 16, "--batch", 8, "--derivatives"],
    "early return": ["--count", 16, "--batch", 8, "--early-return"],
    "feedback": ["--count", 12, "--feedback"],
    "feedback in batches": ["--count", 16, "--batch", 8, "--feedback"],
    "own cache object": ["--count", 12, "--cache", "object"],
    "own cache object, threads": ["--count", 12, "--cache", "object", "--threads", 4],
    "own cache object, batches": ["--count", 20, "--cache", "object", "--batch", 8],
    "Vulkan 1.0": ["--count", 6, "--api", "1.0"],
    "Vulkan 1.1": ["--count", 6, "--api", "1.1"],
    "Vulkan 1.2": ["--count", 6, "--api", "1.2"],
    "Vulkan 1.3": ["--count", 6, "--api", "1.3"],
    "Vulkan 1.3, features chained": ["--count", 6, "--api", "1.3", "--features13"],
    "cache control asked for": ["--count", 6, "--api", "1.3", "--cache-control"],
    "second instance": ["--count", 6, "--repeat-instances", 2],
    "fork": ["--count", 8, "--fork"],
    "fork, child creates": ["--count", 8, "--fork=create"],
    "no destroy": ["--count", 8, "--no-destroy"],
    "no destroy, exit": ["--count", 8, "--no-destroy", "--exit", "exit"],
    "no destroy, return": ["--count", 8, "--no-destroy", "--exit", "return"],
}

#: Same with and without the layer, cold and warm.
SAME = ("driver", "device", "pipelines", "created", "failed", "null_handles", "compile_required", "calls", "results")


@pytest.mark.parametrize("mode", MODES)
def test_second_run_compiles_nothing(world: World, mode: str) -> None:
    """The second run under the layer compiles nothing, and results are those of the driver alone."""
    alone = world.demo(*MODES[mode], layers=None)
    cold = world.demo(*MODES[mode])
    counters = world.last()
    assert counters["compiled"] > 0
    assert counters["compiled"] + counters["hits"] == counters["pipelines"] == alone["created"]
    warm = world.demo(*MODES[mode])
    counters = world.last()
    assert counters["compiled"] == counters["uncacheable"] == counters["failed"] == 0
    assert counters["hits"] == counters["pipelines"] == alone["created"]
    assert world.runs()[-1]["carrier"] == "cells"
    for key in SAME:
        assert alone[key] == cold[key] == warm[key], key


def test_pipeline_libraries(world: World) -> None:
    """Graphics pipeline libraries and both kinds of linked pipeline compile nothing in the second run."""
    arguments = ["--gpl", "--count", 6]
    alone = world.demo(*arguments, layers=None)
    cold = world.demo(*arguments)
    warm = world.demo(*arguments)
    assert alone["created"] == cold["created"] == warm["created"]
    counters = world.last()
    assert counters["compiled"] == 0
    assert counters["hits"] + counters["uncacheable"] + counters["plain"] == counters["pipelines"]


def test_feedback_tells_the_truth(world: World) -> None:
    """A program that passed no cache never reads APPLICATION_PIPELINE_CACHE_HIT, and all feedback is written."""
    for _ in range(2):
        result = world.demo("--count", 24, "--batch", 4, "--feedback")
        assert result["feedback"]["valid"] == 24
        assert result["feedback"]["application_cache_hit"] == 0
        assert result["feedback"]["untouched"] == 0


def test_program_that_may_not_compile(world: World) -> None:
    """FAIL_ON_PIPELINE_COMPILE_REQUIRED set by the program gives COMPILE_REQUIRED until the store has it."""
    arguments = ["--count", 16, "--fail-on-compile-required"]
    alone = world.demo(*arguments, layers=None)
    cold = world.demo(*arguments)
    for key in SAME:
        assert alone[key] == cold[key], key
    assert cold["compile_required"] == 16
    assert world.last()["compiled"] == 0
    world.demo("--count", 16, "--cache-control")
    warm = world.demo(*arguments)
    assert warm["compile_required"] == 0 and warm["created"] == 16


def test_may_not_compile_and_early_return(world: World) -> None:
    """With EARLY_RETURN_ON_FAILURE the slots behind the first missing pipeline stay empty, as without the layer."""
    arguments = ["--count", 16, "--batch", 8, "--fail-on-compile-required", "--early-return"]
    alone = world.demo(*arguments, layers=None)
    cold = world.demo(*arguments)
    for key in SAME:
        assert alone[key] == cold[key], key


def test_half_stored_batches(world: World) -> None:
    """Hits and misses in one call each come out: a batch half of which is stored compiles the other half."""
    world.demo("--count", 20)
    result = world.demo("--count", 40, "--batch", 40)
    counters = world.last()
    assert result["created"] == 40
    assert (counters["hits"], counters["compiled"]) == (20, 20)


@pytest.mark.parametrize("ending", ["_exit", "abort"])
def test_abrupt_end_loses_little(world: World, ending: str) -> None:
    """A program that ends without exit() loses at most the pipelines of its last moments."""
    world.demo("--count", 60, "--no-destroy", "--exit", ending, check=False)
    world.demo("--count", 60)
    # A cell waits 20 ms for company; a pipeline takes 3 ms and more.
    assert world.last()["compiled"] <= 40
    world.demo("--count", 60)
    assert world.last()["compiled"] == 0


def test_what_the_application_saves_is_complete(world: World, tmp_path: Path) -> None:
    """An application's own cache holds every pipeline it created, also those that came from the store."""
    world.demo("--count", 30)
    saved = tmp_path / "saved.bin"
    world.demo("--count", 30, "--cache", "object", "--cache-save", saved)
    counters = world.last()
    assert (counters["hits"], counters["compiled"]) == (30, 0)
    alone = world.demo("--count", 30, "--cache", saved, "--feedback", layers=None)
    assert alone["feedback"]["application_cache_hit"] == 30


def test_cold_application_cache_is_complete(world: World, tmp_path: Path) -> None:
    """Pipelines compiled into cells are in the application's own cache when it saves it."""
    saved = tmp_path / "saved.bin"
    world.demo("--count", 30, "--cache", "object", "--cache-save", saved, "--threads", 3)
    alone = world.demo("--count", 30, "--cache", saved, "--feedback", layers=None)
    assert alone["feedback"]["application_cache_hit"] == 30


def test_driver_disk_cache_is_adopted_once(world: World, tmp_path: Path) -> None:
    """What the driver's own disk cache answers goes into the store, once."""
    disk = {"MESA_SHADER_CACHE_DISABLE": None, "MESA_SHADER_CACHE_DIR": str(tmp_path / "mesa")}
    world.demo("--count", 24, layers=None, **disk)
    world.demo("--count", 24, **disk)
    counters = world.last()
    assert counters["adopted"] + counters["compiled"] == 24 and counters["adopted"] > 12
    world.demo("--count", 24, **disk)
    counters = world.last()
    assert (counters["hits"], counters["adopted"], counters["compiled"]) == (24, 0, 0)
    world.demo("--count", 24)
    assert world.last()["compiled"] == 0


def test_two_processes_at_once_lose_nothing(world: World) -> None:
    """Two processes that store at the same time leave a store that holds the pipelines of both."""
    command = [str(BUILD / "demo" / "pipelines"), "--count", "40", "--seed"]
    both = [subprocess.Popen([*command, seed], env=world.environment, stderr=subprocess.DEVNULL) for seed in "12"]
    assert [process.wait(120) for process in both] == [0, 0]
    for seed in (1, 2):
        world.demo("--count", 40, "--seed", seed)
        assert world.last()["compiled"] == 0


def test_program_whose_own_device_is_lavapipe(lavapipe: World) -> None:
    """On a driver whose cache keeps nothing the layer says so and stays out of the way."""
    result = lavapipe.demo("--count", 8)
    assert "stub" in result.stderr
    assert result["created"] == 8
    assert lavapipe.stored_files() == []
