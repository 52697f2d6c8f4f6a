"""Threads that create pipelines, of any kind, and merge caches at the same time wait for each other only where Vulkan
requires it."""

from __future__ import annotations

import re
import time
from typing import Any

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


def created(cache: str, number: int) -> str:
    return f"compute {cache} : P0 shader=comp0 spec={number}\n"


def creations(cache: str, first: int) -> str:
    """Returns the lines of a thread that creates 16 pipelines, from one of them on."""
    return "".join(created(cache, (first + number) % 16) for number in range(16))


def merges(rounds: int, *caches: str) -> list[str]:
    """Returns the lines of a thread for each merge, which it does so often."""
    return [f"merge {pair}\n" * rounds for pair in caches]


def beside(scripted: ScriptedDriver, before: str, *threads: str, **options: Any) -> None:
    """Runs lines and then, beside each other and with the caches of those, the lines of threads. None may fail."""
    paths = [scripted.directory / f"{number}.recipe" for number in range(1 + len(threads))]
    for path, lines in zip(paths, [before, *threads], strict=True):
        path.write_text(lines)
    printed = scripted.program("recipes", "--shared", "--times", 1, *paths, **options).stdout
    assert {line.split()[1] for line in printed.splitlines()} == {"result=0"}


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
    rounds = 20 if script == SLOW else 1000
    before = DEVICE + "cache C0\ncache C1\n" + "".join(created(f"C{number % 2}", number) for number in range(8))
    beside(scripted, before, *merges(rounds, "C0 C1", "C1 C0"), creations("-", 0), script=script)


@pytest.mark.parametrize("script", [ONLY_CACHES, f"{ONLY_CACHES};{SLOW}"], ids=["quick", "slow"])
def test_internally_synchronized_merge(scripted: ScriptedDriver, script: str) -> None:
    """Threads merge into an internally synchronized cache (VK_KHR_maintenance8) while others create pipelines with it,
    and no pipeline is lost."""
    before = (
        "device maintenance8 modules\ncache C0 synchronized\ncache C1\ncache C2\n" + created("C1", 0) + created("C2", 1)
    )
    threads = [creations("C0", first) for first in (0, 4, 8, 12)]
    for layered in (False, True):
        beside(scripted, before, *threads, *merges(20, "C0 C1", "C0 C2"), script=script, layered=layered)
    counters = scripted.world.last()
    assert counters["pipelines"] == 66 and counters["hits"] + counters["compiled"] == 66
    beside(scripted, before, *threads, *merges(1, "C0 C1", "C0 C2"), script=script)
    assert scripted.world.last()["compiled"] == 0


# ---- Commands that create other pipelines --------------------------------------------------------


COMMANDS = ["vkCreateRayTracingPipelinesNV", "vkCreateExecutionGraphPipelinesAMDX", "vkCreateDataGraphPipelinesARM"]

HAS = "more-pipelines=yes"
MORE = "device extension=VK_NV_ray_tracing modules\ncache C0\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_cache_in_use_is_not_merged_into(scripted: ScriptedDriver, command: str) -> None:
    """While one thread is in the command, pipelines that another thread compiles for the same cache are not merged into
    it. Afterwards they are."""
    scripted.settings(mode="cells")
    script = f"{HAS};create-more=wait:destroy-cache;pipeline=until:create-more"
    beside(scripted, MORE, f"more {command} C0\n", creations("C0", 0), script=script)
    assert scripted.counts["compiles"] > 1 and scripted.counts["violations"] == 0
    assert scripted.world.last()["passed"] == 1


def test_cache_of_a_deferred_operation_is_not_merged_into(scripted: ScriptedDriver) -> None:
    """A deferred operation uses the cache after its command has returned, so nothing is merged into that cache any
    more. What is compiled is still stored."""
    scripted.settings(mode="cells")
    for compiled in (3, 0):
        pipelines = "".join(created("C0", number) for number in range(3))
        beside(scripted, f"{MORE}more {COMMANDS[2]} C0 deferred\n{pipelines}", script=HAS, allow=True)
        assert scripted.counts["compiles"] == compiled
        # The only violation is the program's own: nobody joins the operation before its cache is destroyed.
        assert scripted.violations == ["VIOLATION vkDestroyPipelineCache of a cache that is in use"]


@pytest.mark.parametrize(
    ("settings", "library"),
    [
        ({"mode": "cells"}, "libVkLayer_pylayer_pipeline_cache.so"),
        ({"mode": "off"}, "libVkLayer_pylayer_pipeline_cache.so"),  # the layer checks caches
        ({"mode": "off", "application_caches": "pass"}, "libvulkan_test_driver.so"),
    ],
)
def test_commands_where_the_driver_has_them(scripted: ScriptedDriver, settings: dict[str, str], library: str) -> None:
    """If the layer handles caches, it provides the same commands as the driver and no others."""
    scripted.settings(**settings)
    where = f"found: where {' '.join(COMMANDS)}\n"
    _, *found = scripted.recipe(f"device extension=VK_NV_ray_tracing\n{where}", script=HAS).stdout.split()
    assert [one.rpartition(",")[0] for one in found] == [f"{command}={library}" for command in COMMANDS]
    for script in ("", HAS):
        assert scripted.recipe(f"device control\n{where}", script=script).stdout.split() == ["found"]
