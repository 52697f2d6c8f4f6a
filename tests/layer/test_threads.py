"""Threads that create pipelines and merge caches at the same time wait for each other only where Vulkan requires it."""

from __future__ import annotations

import re
import time

import pytest
from scripted_driver import ScriptedDriver

SLOW = "create-cache=slow:1;get-data=slow:1;merge=slow:1"
#: A driver that can find pipelines only in a VkPipelineCache.
ONLY_CACHES = "internal-cache=no;binaries=no"

DEVICE, FIRST = "device control modules\n", "compute - : P0 shader=comp0\n"
#: Another pipeline, without a cache and then with one, and how large that cache and an empty one are.
FOUND = """cache C0
cache C1
compute - : P0 shader=comp1
compute C0 : P0 shader=comp1
read D0 C0 exact
read D1 C1 exact
"""


# ---- No thread waits for a compile --------------------------------------------------------------------------


def test_compile_into_a_cell_keeps_no_hit_waiting(scripted: ScriptedDriver) -> None:
    """While one thread compiles, another thread with the same cache compiles, merges, and gets a cache hit."""
    other = scripted.directory / "other.recipe"
    other.write_text(2 * "compute - : P0 shader=comp1\n")
    script = f"{ONLY_CACHES};pipeline=wait:hits?compile@1"
    scripted.recipe(DEVICE + 2 * FIRST, "--cache", "--times", "1", str(other), script=script)
    counters = scripted.world.last()
    assert (counters["compiled"], counters["hits"], counters["failed"]) == (2, 2, 0)


def test_a_hit_that_hangs_is_waited_for_once(scripted: ScriptedDriver) -> None:
    """Of all merges during which a thread hangs in a lookup, the first waits for that thread, for a second."""
    scripted.demo("--count", 8, script=ONLY_CACHES)
    script = f"{ONLY_CACHES};pipeline=until:compiles:12?hit@1;pipeline=until:hits?compile"
    begin = time.monotonic()
    scripted.demo("--count", 48, "--threads", 2, script=script)
    assert time.monotonic() - begin < 20  # forty if each compile waited
    assert scripted.world.last()["compiled"] == 40


def test_pipeline_found_beside_a_lookup_is_in_the_programs_cache(scripted: ScriptedDriver) -> None:
    """A pipeline that was compiled without a cache, and is then created with one, is in that cache's data, also while
    another thread hangs in a lookup."""
    scripted.recipe(DEVICE + FIRST, script=ONLY_CACHES)
    other = scripted.directory / "other.recipe"
    other.write_text(FOUND)
    script = f"{ONLY_CACHES};pipeline=until:compiles:2?hit@1;pipeline=until:hits?compile"
    result = scripted.recipe(DEVICE + FIRST, "--times", "1", str(other), script=script)
    own, empty = map(int, re.findall(r"bytes=(\d+)", result.stdout))
    assert own > empty


# ---- Merges -------------------------------------------------------------------------------------------------


def test_threads_that_take_turns(scripted: ScriptedDriver) -> None:
    """If many threads wait for merges that are slow but end, no merge counts as hung: each pipeline is stored."""
    scripted.demo("--count", 48, "--threads", 24, script=f"{ONLY_CACHES};merge=slow:150", PYLAYER_LOG="warn")
    assert "merging" not in scripted.world.raw_stderr
    scripted.demo("--count", 48, "--threads", 24, script=ONLY_CACHES)
    assert scripted.world.last()["compiled"] == 0


@pytest.mark.parametrize("script", ["", SLOW, "cache-control=no"])
def test_merges_in_opposite_directions(scripted: ScriptedDriver, script: str) -> None:
    """One thread merges A into B while another merges B into A. The driver never sees both merges at once, so they
    cannot deadlock."""
    scripted.program("merge_threads", "opposite", "20" if script == SLOW else "1000", script=script)


@pytest.mark.parametrize("script", [ONLY_CACHES, f"{ONLY_CACHES};{SLOW}"], ids=["quick", "slow"])
def test_internally_synchronized_merge(scripted: ScriptedDriver, script: str) -> None:
    """Threads merge into an internally synchronized cache (VK_KHR_maintenance8) while others create pipelines with it,
    and no pipeline is lost."""
    for layered in (False, True):
        scripted.program("merge_threads", "one", "20", script=script, layered=layered)
    counters = scripted.world.last()
    assert counters["pipelines"] == 66 and counters["hits"] + counters["compiled"] == 66
    scripted.program("merge_threads", "one", "1", script=script)
    assert scripted.world.last()["compiled"] == 0
