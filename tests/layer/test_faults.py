"""Drivers that fail, lie or lack features, with programs of every kind. The program sees what it sees without the
layer, or something better. tests/layer/test_driver_*.py tests each command of the driver by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.ways import Arguments, ways
from scripted_driver import ScriptedDriver
from world import seen

REFUSED_CACHE_CONTROL = "create-device=error:feature-not-present?cache-control"
#: No probe ever hits, for pipelines of one kind or for all.
PROBE_MISSES = "pipeline=error:compile-required?may-not-compile"
NO_INITIAL_DATA = "create-cache=error:initialization-failed?data"
#: A driver that can find pipelines only in a VkPipelineCache.
ONLY_CACHES = "internal-cache=no;binaries=no"
#: A compile takes so long that the layer learns from the first pipelines while the program creates the others.
SLOW_COMPILES = "internal-cache=no;binaries=no;pipeline=slow:5?compile"
SLOW = "create-cache=slow:2;get-data=slow:2;merge=slow:2"


# ---- Every fault -------------------------------------------------------------------------------------


def test_feedback_that_never_tells_of_hits(scripted: ScriptedDriver) -> None:
    """As without the layer, the program's feedback reports no application cache hit."""
    scripted.demo("--count", 12, script="feedback=no-hits")
    for layered in (False, True):
        result = scripted.demo("--count", 12, "--feedback", script="feedback=no-hits", layered=layered)
        assert result["feedback"] == {"valid": 12, "application_cache_hit": 0, "untouched": 0}
    assert scripted.counts["compiles"] == 0


DEVICES: list[Arguments] = [
    ["--api", "1.0"],
    ["--api", "1.1", "--feedback"],
    ["--api", "1.3", "--features13"],
    ["--ray-tracing"],
    ["--gpl"],
]


@pytest.mark.parametrize("arguments", DEVICES, ids=lambda arguments: " ".join(map(str, arguments)))
def test_device_is_created_as_the_program_made_it(scripted: ScriptedDriver, arguments: Arguments) -> None:
    """If the driver refuses a device with cache control, the layer creates it with the program's own chain and
    extensions."""
    scripted.demo("--count", 2, *arguments, script=REFUSED_CACHE_CONTROL, layered=False)
    (alone,) = scripted.devices
    scripted.demo("--count", 2, *arguments, script=REFUSED_CACHE_CONTROL)
    refused, created = scripted.devices
    assert "result=-8" in refused and created == alone


def test_device_that_cannot_be_created(scripted: ScriptedDriver) -> None:
    """If no device can be created at all, the program gets the driver's error."""
    script = "create-device=error:initialization-failed"
    alone = scripted.demo("--count", 1, script=script, layered=False, check=False)
    layered = scripted.demo("--count", 1, script=script, check=False)
    assert layered.returncode == alone.returncode == 1
    assert alone.stderr.splitlines()[-1] in layered.stderr


# ---- Probes that never hit -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["compute", "graphics"])
def test_probe_misses(scripted: ScriptedDriver, kind: str) -> None:
    """Pipelines of this kind that the driver does not find in what it gave out are compiled in each run, as without the
    layer, and stored once."""
    arguments, script = ["--count", 40, "--api", "1.3"], f"{SLOW_COMPILES};{PROBE_MISSES}?{kind}"
    scripted.demo(*arguments, script=script)
    assert scripted.world.last()["compiled"] == 40
    for _ in range(2):
        scripted.demo(*arguments, script=script)
        assert scripted.world.last()["compiled"] == scripted.world.last()["hits"] == 20
        assert scripted.world.runs()[-1]["stored_records"] == 0


# ---- Caches that the driver refuses ----------------------------------------------------------------------


def test_driver_fails_on_initial_data(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """If the driver fails on a program's own good data, the program gets an empty cache and works."""
    saved = tmp_path / "application.cache"
    scripted.demo("--count", 12, "--cache", "object", "--cache-save", saved, layered=False)
    alone = scripted.demo("--count", 12, "--cache", saved, script=NO_INITIAL_DATA, layered=False, check=False)
    assert alone.returncode != 0 and "vkCreatePipelineCache" in alone.stderr
    layered = scripted.demo("--count", 12, "--cache", saved, script=NO_INITIAL_DATA)
    assert layered["created"] == 12
    assert scripted.world.last()["caches_emptied"] == 1
    assert scripted.world.runs()[-1]["refused"] == {"driver-error": 1}


@pytest.mark.parametrize("script", [NO_INITIAL_DATA, "merge=error:out-of-device-memory"])
def test_refused_records_are_kept(scripted: ScriptedDriver, script: str) -> None:
    """Records that the driver refused in one run are used in the next. The layer stores nothing twice and loses
    nothing."""
    scripted.demo("--count", 24)
    scripted.demo("--count", 24, script=script)
    counters = scripted.world.last()
    assert (counters["load_failed"], counters["compiled"]) == (24, 24)
    assert scripted.world.runs()[-1]["stored_records"] == 0
    scripted.demo("--count", 24)
    counters = scripted.world.last()
    assert (counters["hits"], counters["compiled"], counters["plain"]) == (24, 0, 0)


@pytest.mark.parametrize("made", [1, 2, 7])
def test_no_more_caches_can_be_made(scripted: ScriptedDriver, made: int) -> None:
    """If the driver can create no more caches from some moment on, the pipelines are still created."""
    script = f"{ONLY_CACHES};create-cache=error:out-of-host-memory@{made + 1}+"
    alone = seen(scripted.demo("--count", 12, "--threads", 2, script=script, layered=False))
    assert seen(scripted.demo("--count", 12, "--threads", 2, script=script)) == alone
    counters = scripted.world.last()
    # The first cache is the layer's own, and one or two cells are read back, each into another cache.
    assert counters["compiled"] + counters["plain"] == 12
    assert counters["compiled"] in {1: (0,), 2: (1,), 7: (4, 5)}[made]


# ---- Caches that keep or return nothing --------------------------------------------------------------------


@pytest.mark.parametrize("script", ["get-data=incomplete", "get-data=error:out-of-host-memory?data"])
def test_unreadable_cache(scripted: ScriptedDriver, script: str) -> None:
    """If the driver does not return cache data, the layer says so once, counts what is lost, and stores nothing."""
    result = scripted.demo("--count", 12, "--threads", 2, script=script, PYLAYER_LOG="warn")
    assert result.stderr.count("the driver does not return the data of a pipeline cache") == 1
    assert scripted.world.last()["uncacheable"] == 12
    assert scripted.world.runs()[-1]["stored_records"] == 0


# ---- Pipelines that fail ---------------------------------------------------------------------------------

#: Some pipelines always fail, the same ones in every process.
FAILING = "pipeline=error:unknown?chosen?!may-not-compile"
FAILING_WAYS: dict[str, Arguments] = {
    **ways(only=("mixed", "large batches", "derivatives", "own cache", "threads and batches", "feedback in batches")),
    "batches, early return": ["--count", 30, "--batch", 6, "--early-return"],
    "derivatives, early return": ["--count", 30, "--batch", 6, "--derivatives", "--early-return"],
    "own cache, early return": ["--count", 30, "--batch", 6, "--early-return", "--cache", "object"],
    "ray tracing": ["--count", 12, "--batch", 4, "--ray-tracing", "--feedback"],
}


@pytest.mark.parametrize("way", FAILING_WAYS)
def test_failing_pipelines(scripted: ScriptedDriver, way: str) -> None:
    """Pipelines that the driver refuses fail with its result, with an empty store and a full one. The others are
    created."""
    script = f"{ONLY_CACHES};{FAILING}"
    alone = scripted.demo(*FAILING_WAYS[way], script=script, layered=False, check=False)
    assert alone["failed"] > 0 and "VK_ERROR_UNKNOWN" in alone["results"]
    for _ in range(2):
        assert seen(scripted.demo(*FAILING_WAYS[way], script=script, check=False)) == seen(alone)
    assert scripted.world.last()["compiled"] == 0
    assert scripted.world.last()["failed"] > 0


# ---- Slow drivers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [["--exit", "exit"], ["--no-destroy"], []], ids=["exit", "return", "destroy"])
def test_end_while_loading(scripted: ScriptedDriver, ending: list[str]) -> None:
    """A program that ends while the store is still being loaded ends at once, with no thread in the driver."""
    scripted.demo("--count", 60)
    scripted.settings(application_caches="check")  # another policy file, so policy loads the store
    result = scripted.demo("--count", 1, *ending, script=SLOW.replace(":2", ":200"))
    assert result["created"] == 1
    assert "did not finish" not in result.stderr
    scripted.settings()
    scripted.demo("--count", 60)
    assert scripted.world.last()["hits"] == 60


def test_merges_and_reads_that_meet(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Many threads with one application cache break no rule of Vulkan, on a driver slow enough to make their calls
    overlap."""
    saved, slow = tmp_path / "application.cache", SLOW.replace(":2", ":3")
    arguments = ["--threads", 8, "--cache", "object"]
    scripted.demo("--count", 40, *arguments, "--cache-save", saved, script=slow)
    scripted.demo("--count", 60, *arguments, script=slow)
    counters = scripted.world.last()
    assert (counters["hits"], counters["compiled"]) == (40, 20)
    alone = scripted.demo("--count", 40, "--cache", saved, "--feedback", layered=False)
    assert alone["feedback"]["application_cache_hit"] == 40
