"""Threads that create pipelines and merge caches at the same time wait for each other only where Vulkan wants it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from world import BUILD, FAULTS, LAYER_NAME, World

BOTH = f"{LAYER_NAME}:{FAULTS}"

Program = Callable[..., str]


@pytest.fixture
def program(world: World, tmp_path: Path) -> Program:
    """Runs a program of this directory above a driver with faults, which must not have been misused."""

    def run(faults: str, name: str, *arguments: str, layers: str = BOTH) -> str:
        log = tmp_path / "faults.log"
        environment = {"PYLAYER_TEST_FAULTS": faults, "PYLAYER_TEST_FAULTS_LOG": str(log), "PYLAYER_LOG": "warn"}
        process = world.run([str(BUILD / "tests" / name), *arguments], VK_INSTANCE_LAYERS=layers, **environment)
        assert "VIOLATION" not in log.read_text()
        return process.stdout

    return run


# ---- Compiles keep nobody waiting --------------------------------------------------------------------------


def test_compile_into_a_cell_keeps_no_hit_waiting(world: World, program: Program) -> None:
    """While one thread compiles, another one with the same cache compiles, merges, and finds its pipeline again."""
    program("compile-waits-for-hit", "compile_beside", "shared")
    counters = world.last()
    assert (counters["compiled"], counters["hits"], counters["failed"]) == (2, 2, 0)


def test_compile_with_the_layers_cache_keeps_no_merge_waiting(world: World, program: Program) -> None:
    """While the snapshot carrier compiles with the layer's cache, caches that end are merged; nothing of it is lost."""
    program("no-cache-control,compile-waits-for-merge", "compile_beside", "none")
    assert world.last()["absorbed"] > 0
    program("no-cache-control", "compile_beside", "none")
    assert world.last()["plain_compiled"] == 0


# ---- Merges -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("faults", ["merges-alone", "merges-alone,slow-cache=1", "merges-alone,no-cache-control"])
def test_merges_in_opposite_directions(program: Program, faults: str) -> None:
    """A merged into B beside B into A: the driver never sees two merges at once, so none waits for the other."""
    program(faults, "merge_threads", "opposite", "20" if "slow" in faults else "1000")


def test_merges_in_opposite_directions_reach_the_driver_together(world: World, tmp_path: Path) -> None:
    """Without the layer the same program does merge both ways at once: the test above can fail."""
    log = tmp_path / "faults.log"
    faults = {"PYLAYER_TEST_FAULTS": "merges-alone,slow-cache=1", "PYLAYER_TEST_FAULTS_LOG": str(log)}
    command = [str(BUILD / "tests" / "merge_threads"), "opposite", "20"]
    # RADV 25.0.7 takes the destination's lock, then the source's, and now and then hangs here for ever (seen).
    with contextlib.suppress(subprocess.TimeoutExpired):
        world.run(command, timeout=10, VK_INSTANCE_LAYERS=FAULTS, **faults)
    assert "vkMergePipelineCaches while another merge of the device goes on" in log.read_text()


@pytest.mark.parametrize("faults", ["merges-alone", "merges-alone,slow-cache=1"])
def test_internally_synchronized_merge(world: World, program: Program, faults: str) -> None:
    """Into a cache of VK_KHR_maintenance8's kind threads merge while others create pipelines in it; all are kept."""
    for layers in (FAULTS, BOTH):
        program(faults.replace("merges-alone", "") if layers == FAULTS else faults, "merge_threads", "one", "20",
                layers=layers)  # fmt: skip
    counters = world.last()
    assert counters["pipelines"] == 66 and counters["hits"] + counters["compiled"] == 66
    program("", "merge_threads", "one", "1")
    assert world.last()["compiled"] == 0
