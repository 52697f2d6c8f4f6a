"""VkPipelineCache objects of a program: read, merged and destroyed under the layer as without it."""

from __future__ import annotations

import re

import pytest
from layer.recorder import only, record
from world import BUILD, FAULTS, LAYER_NAME, World

BOTH = f"{LAYER_NAME}:{FAULTS}"
CARRIERS = ["cells", "snapshot", "off"]


def run(world: World, *command: str, layers: str | None = BOTH, faults: str = "") -> str:
    """What a program of this directory prints; no rule of Vulkan may have been broken below the layer."""
    log = world.directory / "faults.log"
    environment = {"PYLAYER_TEST_FAULTS": faults, "PYLAYER_TEST_FAULTS_LOG": str(log)}
    process = world.run([str(BUILD / "tests" / command[0]), *command[1:]], VK_INSTANCE_LAYERS=layers, **environment)
    assert not log.exists() or "VIOLATION" not in log.read_text()
    return process.stdout


def use_carrier(world: World, carrier: str, seed_application_caches: str = "true") -> None:
    config = world.directory / "policy.yaml"
    config.write_text(f"settings: {{carrier: '{carrier}', seed_application_caches: {seed_application_caches}}}\n")
    world.environment["PYLAYER_CONFIG"] = str(config)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("what", ["sizes", "growth", "merges"])
def test_same_as_without_the_layer(world: World, what: str, carrier: str) -> None:
    """Sizes, VK_INCOMPLETE, partial data and merges of every mix come out as they do without the layer, where that does
    not seed caches: buffers are not written beyond their end, and a cache can be made of whatever was read."""
    use_carrier(world, carrier, seed_application_caches="false")
    assert run(world, "cache_objects", what) == run(world, "cache_objects", what, layers=None)


def test_small_reads(world: World) -> None:
    """A buffer without room for the header gets nothing and VK_INCOMPLETE; one with room for all gets all."""
    lines = [line.split() for line in run(world, "cache_objects", "sizes").splitlines()]
    assert [line[:2] for line in lines] == [["incomplete", "within"]] * 6 + [["success", "within"]] * 2
    assert [line[2] for line in lines[:3]] == ["0", "0", "0"] and lines[6][2] == lines[7][2]


def test_partial_data_is_told_as_such(world: World) -> None:
    """Policy hears of data that was cut off that it is incomplete, and nothing of a read that gave nothing."""
    records = record(world)
    lines = [line.split() for line in run(world, "cache_objects", "growth").splitlines()]
    reads = only(records.take(), "read")
    assert [(read["size"], read["incomplete"]) for read in reads] == [
        (int(size), result == "incomplete") for result, _, size in lines if size != "0"
    ]
    assert all(read["data"] is None for read in reads if read["incomplete"])


@pytest.mark.parametrize("carrier", CARRIERS)
def test_pipelines_are_found_after_merges(world: World, carrier: str) -> None:
    """What was compiled in one cache is found in those that it was merged into, once compiled and ever after."""
    use_carrier(world, carrier)
    for compiled in (2, 0):
        run(world, "cache_objects", "merges")
        counters = world.last()
        if carrier == "cells":
            assert (counters["compiled"], counters["hits"]) == (compiled, 5 - compiled)
        elif carrier == "snapshot":
            assert counters["plain_compiled"] == compiled


@pytest.mark.parametrize("faults", ["", "no-cache-control", "feedback-without-hit-bit", "stub-cache=empty"])
def test_allocation_callbacks(world: World, faults: str) -> None:
    """A program's allocation callbacks are called on the thread and during the command that was given them, get back
    what they gave, and as often as without the layer or in addition for pipelines that the layer creates for it."""
    alone = run(world, "allocators", layers=FAULTS, faults=faults)
    for _ in range(2):
        layered = run(world, "allocators", faults=faults)
        assert re.fullmatch(r"calls \d+, wrong 0, left 0\n", layered)
        assert int(layered.split()[1].rstrip(",")) >= int(alone.split()[1].rstrip(","))
