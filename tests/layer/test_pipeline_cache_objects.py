"""A program's VkPipelineCache objects are read, merged and destroyed under the layer as without it."""

from __future__ import annotations

import re

import pytest
from layer.recorder import only, record
from scripted_driver import ScriptedDriver

CARRIERS = ["cells", "snapshot", "off"]


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("what", ["sizes", "growth", "merges"])
def test_same_as_without_the_layer(driver: ScriptedDriver, what: str, carrier: str) -> None:
    """If the layer does not seed caches, sizes, VK_INCOMPLETE, partial data and merges of every mix are as without it.
    No buffer is written beyond its end, and a cache can be created from whatever was read."""
    driver.settings(carrier=carrier, seed_application_caches=False)
    alone = driver.program("cache_objects", what, layered=False).stdout
    assert driver.program("cache_objects", what).stdout == alone


def test_small_reads(driver: ScriptedDriver) -> None:
    """A buffer too small for the header gets no data and VK_INCOMPLETE. A buffer with room for all data gets all of
    it."""
    lines = [line.split() for line in driver.program("cache_objects", "sizes").stdout.splitlines()]
    assert [line[:2] for line in lines] == [["incomplete", "within"]] * 6 + [["success", "within"]] * 2
    assert [line[2] for line in lines[:3]] == ["0", "0", "0"] and lines[6][2] == lines[7][2]


def test_partial_data_is_told_as_such(driver: ScriptedDriver) -> None:
    """Policy is told that partial data is incomplete, and is not told of a read that returned no data."""
    records = record(driver.world)
    lines = [line.split() for line in driver.program("cache_objects", "growth").stdout.splitlines()]
    reads = only(records.take(), "read")
    assert [(read["size"], read["incomplete"]) for read in reads] == [
        (int(size), result == "incomplete") for result, _, size in lines if size != "0"
    ]
    assert all(read["data"] is None for read in reads if read["incomplete"])


@pytest.mark.parametrize("carrier", CARRIERS)
def test_pipelines_are_found_after_merges(driver: ScriptedDriver, carrier: str) -> None:
    """Pipelines compiled with one cache are found in the caches that it was merged into, in the run that compiles and
    later."""
    driver.settings(carrier=carrier)
    for compiled in (2, 0):
        driver.program("cache_objects", "merges")
        counters = driver.world.last()
        if carrier == "cells":
            assert (counters["compiled"], counters["hits"]) == (compiled, 5 - compiled)
        elif carrier == "snapshot":
            assert counters["plain_compiled"] == compiled


def check_callbacks(driver: ScriptedDriver, script: str = "") -> None:
    alone = driver.program("allocators", layered=False, script=script).stdout
    for _ in range(2):
        layered = driver.program("allocators", script=script).stdout
        assert re.fullmatch(r"calls \d+, wrong 0, left 0\n", layered)
        assert int(layered.split()[1].rstrip(",")) >= int(alone.split()[1].rstrip(",")) > 0


def test_allocation_callbacks(driver: ScriptedDriver) -> None:
    """Allocation callbacks are called only on the thread and during the command that got them, and they get back what
    they allocated. They are called as often as without the layer, except for more calls for pipelines that the layer
    creates."""
    check_callbacks(driver)


@pytest.mark.parametrize("script", ["", "cache-control=no", "feedback=no-hits", "pipeline=ignore"])
def test_allocation_callbacks_of_other_drivers(scripted: ScriptedDriver, script: str) -> None:
    """The rules of allocation callbacks also hold where the layer creates pipelines in other ways."""
    check_callbacks(scripted, script)
