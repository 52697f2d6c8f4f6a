"""The binaries carrier: pipelines of programs that know nothing of VK_KHR_pipeline_binary, kept by their keys.

The witness of tests/faults stands below every run: no use of the driver that Vulkan forbids gets past it, and no byte
that the driver did not give out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pipeline_binaries import Archive, Driver, bytes_on_disk, with_disk_cache
from world import Run, World

#: What the program sees of its pipelines.
SEEN = ("pipelines", "created", "failed", "null_handles", "compile_required", "calls", "results")

#: Errors that a driver may give.
ERRORS = [
    "out-of-host-memory",
    "out-of-device-memory",
    "initialization-failed",
    "invalid-shader",
    "unknown",
    "compile-required",
]

#: Faults under which every call of the program itself still succeeds without the layer.
HARMLESS = [
    "no-binaries",
    "no-pipeline-binaries-feature",
    "no-maintenance5",
    "device-refuses-binaries",
    "internal-cache=0",
    "internal-cache-control=0",
    "prefers-internal-cache=1",
    "precompiled-internal-cache=1",
    "compressed-binaries=1",
    "key-fails=out-of-host-memory",
    "global-key-fails=out-of-host-memory",
    "binary-missing",
    "binary-missing-at-fetch",
    "binary-missing,capture-fails=unknown",
    "binary-missing,read-binaries-fails=out-of-host-memory",
    "binary-missing,binary-fails=3",
    "probe-binaries-fails=initialization-failed",
    "import-fails=initialization-failed",
    "from-binaries-fails=unknown",
    "binary-fails=1",
    "binary-fails=7",
    "binaries-incomplete",
    "binary-data-fails=out-of-host-memory",
    "binary-data-grows",
    "no-feedback",
    "no-cache-control",
    "pipelines-refused=1000000",
]

#: Of those, the ones with which the carrier works: the second run only hits.
WITHOUT_CONSEQUENCE = [
    "internal-cache=0",
    "internal-cache-control=0",
    "prefers-internal-cache=1",
    "compressed-binaries=1",
    "binary-missing",
    "binary-missing-at-fetch",
    "probe-binaries-fails=initialization-failed",
    "no-feedback",
]

#: Ways of a driver to give no binaries of any pipeline.
UNREADABLE = [
    "binary-missing,capture-fails=unknown",
    "binary-missing,read-binaries-fails=out-of-host-memory",
    "binaries-incomplete",
    "binary-data-fails=out-of-host-memory",
    "binary-data-grows",
]

#: The carrier of devices that cannot have it. Refused, a device is made as the program asked.
INSTEAD = {
    "no-binaries": "cells",
    "no-pipeline-binaries-feature": "cells",
    "no-maintenance5": "cells",
    "device-refuses-binaries": "snapshot",
    "no-cache-control": "snapshot",
}

#: With these, a device of the program can have pipeline binaries.
API = ["--api", "1.3"]


@pytest.fixture
def carrier(driver: Driver) -> Driver:
    """Programs with the binaries carrier."""
    driver.settings(carrier="binaries")
    return driver


def seen(result: Run) -> dict[str, Any]:
    return {key: result.get(key) for key in SEEN}


# ---- What it is for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--count", 24],
        ["--count", 24, "--threads", 3, "--batch", 4, "--feedback"],
        ["--count", 24, "--features13"],
        ["--count", 8, "--ray-tracing"],
        ["--count", 24, "--batch", 8, "--derivatives"],
        ["--count", 24, "--batch", 5, "--early-return"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments)),
)
def test_second_run_creates_from_binaries(world: World, carrier: Driver, arguments: list[str | int]) -> None:
    """The second run compiles nothing and creates every pipeline from binaries; the program sees no difference."""
    count = arguments[1]
    alone = carrier.demo(*arguments, *API, layered=False)
    first = carrier.demo(*arguments, *API)
    counters = world.last()
    assert world.runs()[-1]["carrier"] == "binaries"
    assert (counters["compiled"], counters["binaries_kept"]) == (count, count)
    second = carrier.demo(*arguments, *API)
    counters = world.last()
    assert (counters["hits"], counters["binary_hits"], counters["compiled"]) == (count, count, 0)
    assert second["witness"].counts["created_from_binaries"] == count
    assert seen(alone) == seen(first) == seen(second)
    assert not first["witness"].hazards + second["witness"].hazards


def test_first_run_captures_nothing(world: World, carrier: Driver) -> None:
    """Where the internal cache has what was compiled, nothing is created with CAPTURE_DATA, which skips all caches."""
    result = carrier.demo("--count", 24, *API)
    assert result["witness"].counts["captured"] == world.last()["binaries_captured"] == 0


def test_warm_driver_cache_is_adopted(world: World, carrier: Driver, tmp_path: Path) -> None:
    """A first run over the driver's warm disk cache compiles nothing and captures nothing, and the store has it all."""
    disk = with_disk_cache(tmp_path / "mesa")
    carrier.demo("--count", 24, *API, layered=False, **disk)
    first = carrier.demo("--count", 24, *API, **disk)
    counters = world.last()
    assert (counters["adopted"], counters["compiled"], counters["binaries_kept"]) == (24, 0, 24)
    assert first["witness"].counts["captured"] == 0
    carrier.demo("--count", 24, *API)
    counters = world.last()
    assert (counters["binary_hits"], counters["compiled"]) == (24, 0)


def test_driver_disk_cache_that_forgets_is_captured_from(world: World, carrier: Driver) -> None:
    """Where the internal cache has no binaries each pipeline is captured, and at most one a kind is compiled twice."""
    result = carrier.demo("--count", 24, *API, faults="binary-missing")
    counters = world.last()
    assert (counters["compiled"], counters["binaries_kept"], counters["binaries_captured"]) == (24, 24, 24)
    counts = result["witness"].counts
    assert counts["captured"] == counts["released"] == 24
    assert counts["created_plainly"] <= 24 + 2


def test_hit_needs_no_bytes_of_the_program(world: World, carrier: Driver) -> None:
    """FAIL_ON_PIPELINE_COMPILE_REQUIRED gives every pipeline that the store has, and none that it lacks."""
    arguments = ["--count", 8, "--batch", 4, "--fail-on-compile-required", "--early-return", *API]
    alone = seen(carrier.demo(*arguments, layered=False))
    assert alone["created"] == 0
    assert seen(carrier.demo(*arguments)) == alone
    carrier.demo("--count", 8, *API)
    assert carrier.demo(*arguments)["created"] == 8
    assert world.last()["binary_hits"] == 8


def test_own_cache_of_the_program(world: World, carrier: Driver) -> None:
    """A call with a VkPipelineCache goes the way of cells, for binaries are forbidden beside one."""
    for compiled in (12, 0):
        result = carrier.demo("--count", 12, "--cache", "object", *API)
        assert world.last()["compiled"] == compiled
        assert result["witness"].counts["created_from_binaries"] == 0


def test_cells_are_used(world: World, carrier: Driver) -> None:
    """What is stored as cells, beside a VkPipelineCache of the program, is found without one too."""
    carrier.demo("--count", 12, "--cache", "object", *API)
    for _ in range(2):
        carrier.demo("--count", 12, *API)
        counters = world.last()
        assert (counters["compiled"], counters["adopted"] + counters["hits"]) == (0, 12)


def test_binaries_do_not_grow(world: World, carrier: Driver) -> None:
    """Later runs store nothing again, and what two threads compile at once is stored once."""
    carrier.demo("--count", 12, *API)
    for _ in range(2):
        carrier.demo("--count", 12, *API)
        assert world.runs()[-1]["stored_records"] == 0


def test_memory_is_bounded(world: World, carrier: Driver) -> None:
    """What finds no room in the index is counted, and the pipelines are created all the same."""
    carrier.settings(carrier="binaries", binaries_mib=1)
    for _ in range(2):
        assert carrier.demo("--count", 60, "--ray-tracing", *API)["created"] == 60
    counters = world.last()
    assert counters["binaries_unindexed"] > 0
    assert counters["hits"] + counters["compiled"] + counters["adopted"] == 60


def test_small_instances_get_cells(world: World, carrier: Driver) -> None:
    """A program of Vulkan 1.1 cannot have VK_KHR_maintenance5: its device is as the cells carrier makes it."""
    for compiled in (12, 0):
        carrier.demo("--count", 12, "--api", "1.1")
        assert world.runs()[-1]["carrier"] == "cells" and world.last()["compiled"] == compiled


def test_program_may_switch_the_internal_cache_off(world: World, carrier: Driver) -> None:
    """A program that disables internal caches gets nothing of the layer's: the carrier is off."""
    arguments = ["--source", "capture", "--disable-internal-cache"]
    alone = carrier.application(*arguments, layered=False)
    for _ in range(2):
        result = carrier.application(*arguments)
        counts = result["witness"].counts
        # The layer asks for the global key: what the program read is of this identity.
        assert {**counts, "keys": counts["keys"] - 1} == alone["witness"].counts
        assert "internal_cache_disabled=1" in result["witness"].devices[0]
        assert world.runs()[-1]["carrier"] == "off"


# ---- What the driver does wrong (RADV 25.0.7) ----------------------------------------------------------------------


def test_fast_links_are_not_keyed(world: World, carrier: Driver) -> None:
    """RADV crashes on the key of a fast-linked pipeline, or gives all the same: they go the way of cells."""
    alone = seen(carrier.demo("--count", 4, "--gpl", *API, layered=False))
    for _ in range(2):
        result = carrier.demo("--count", 4, "--gpl", "--feedback", *API)
        assert seen(result) == alone
        assert not result["witness"].having("of a fast-linked pipeline")


def test_libraries_that_retain_are_not_made_from_binaries(world: World, carrier: Driver) -> None:
    """RADV links otherwise when such libraries came from binaries: optimized links are as without the layer."""
    arguments = ["--gpl", "--count", 3, "--executables", "--source", "plain"]
    alone = carrier.application(*arguments, layered=False)
    for _ in range(3):
        result = carrier.application(*arguments)
        assert result["executables_digest"] == alone["executables_digest"]
        assert not result["witness"].hazards


def test_optimized_links_are_made_from_binaries(world: World, carrier: Driver) -> None:
    """An optimized link of libraries that were not made from binaries is one of those that are."""
    for _ in range(2):
        result = carrier.demo("--count", 4, "--gpl", *API)
    assert world.last()["compiled"] == 0
    assert result["witness"].counts["created_from_binaries"] >= 4


def test_colliding_binary_keys(world: World, carrier: Driver, tmp_path: Path) -> None:
    """RADV gives several ray tracing binaries one key: each pipeline gets its own bytes all the same."""
    arguments = ["--ray-tracing", "--count", 12]
    carrier.settings(carrier="off")
    carrier.application(*arguments, "--source", "capture", "--archive", tmp_path / "archive", layered=False)
    binaries = Archive.read(tmp_path / "archive").contents_of_keys()
    assert any(len(contents) > 1 for contents in binaries.values())  # otherwise this shows nothing
    carrier.settings(carrier="binaries")
    for hits in (0, 12):
        result = carrier.application(*arguments, "--source", "plain")
        assert (result["created"], world.last()["binary_hits"]) == (12, hits)


def test_counts_begin_with_zero(carrier: Driver) -> None:
    """RADV adds the number of binaries to what is there: a query begins with zero."""
    # The layer counts where there are more than it has prepared for.
    result = carrier.demo("--count", 8, *API, faults="binaries-incomplete")
    assert not result["witness"].having("a count query that begins with")


def test_feedback_is_written(carrier: Driver) -> None:
    """RADV writes no feedback for pipelines from binaries: the layer does, and claims no hit in the program's cache."""
    for _ in range(2):
        result = carrier.demo("--count", 12, "--feedback", *API)
        assert result["feedback"] == {"valid": 12, "application_cache_hit": 0, "untouched": 0}


def test_executables_are_shown(carrier: Driver) -> None:
    """RADV crashes on the internal representations of a pipeline from binaries: such go the way of cells."""
    arguments = ["--executables", "--count", 8, "--source", "plain"]
    alone = carrier.application(*arguments, layered=False)
    for _ in range(2):
        result = carrier.application(*arguments)
        assert result["executables_digest"] == alone["executables_digest"]
        assert not result["witness"].hazards


def test_modules_are_not_needed(carrier: Driver, tmp_path: Path) -> None:
    """RADV crashes on the key of a stage without a shader: what the program makes of binaries is not keyed."""
    archive = ["--archive", tmp_path / "archive"]
    carrier.application(*archive)
    result = carrier.application(*archive, "--no-modules")
    assert result["from_archive"] == 24
    assert not result["witness"].having("a stage without a shader")


def test_handles_for_replay_are_not_made_from_binaries(carrier: Driver) -> None:
    """RADV makes no handles for capture and replay of a pipeline from binaries: such go the way of cells."""
    for _ in range(2):
        result = carrier.application("--ray-tracing", "--count", 4, "--capture-replay", "--source", "plain")
        assert result["created"] == 4
        assert not result["witness"].hazards


# ---- Drivers that fail, lie or know little -------------------------------------------------------------------------


@pytest.mark.parametrize("faults", HARMLESS)
def test_program_notices_nothing(carrier: Driver, faults: str) -> None:
    """In three runs of threads with batches the program sees what it sees without the layer."""
    arguments = ["--count", 18, "--threads", 3, "--batch", 3, *API]
    alone = seen(carrier.demo(*arguments, layered=False, faults=faults))
    for _ in range(3):
        assert seen(carrier.demo(*arguments, faults=faults)) == alone


@pytest.mark.parametrize("faults", WITHOUT_CONSEQUENCE)
def test_faults_without_consequence(world: World, carrier: Driver, faults: str) -> None:
    """Where the layer can do without what is missing, the second run creates all from binaries."""
    for _ in range(2):
        carrier.demo("--count", 18, *API, faults=faults)
    counters = world.last()
    assert (counters["binary_hits"], counters["compiled"]) == (18, 0)


@pytest.mark.parametrize("faults", UNREADABLE)
def test_kinds_without_binaries_are_kept_as_cells(world: World, carrier: Driver, faults: str) -> None:
    """Where the driver gives no binaries, all but the first of a kind go the way of cells, and the second run hits."""
    for _ in range(2):
        carrier.demo("--count", 18, *API, faults=faults)
    counters = world.last()
    assert (counters["binary_hits"], counters["hits"] + counters["compiled"]) == (0, 18)
    assert counters["compiled"] <= 2


@pytest.mark.parametrize("faults", INSTEAD)
def test_devices_without_the_carrier_get_another(world: World, carrier: Driver, faults: str) -> None:
    """Where a device cannot have this carrier its pipelines are kept in another way, and the second run hits."""
    for compiled in (12, 0):
        carrier.demo("--count", 12, *API, faults=faults)
        counters = world.last()
        assert world.runs()[-1]["carrier"] == INSTEAD[faults]
        assert counters["compiled"] + counters["plain_compiled"] == compiled


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("fault", ["from-binaries-fails", "import-fails"])
def test_binaries_that_fail_are_evicted(world: World, carrier: Driver, fault: str, error: str) -> None:
    """Where the driver creates nothing from binaries all is created as asked; four of a kind are enough to see it."""
    arguments = ["--count", 12, "--batch", 3, "--feedback", *API]
    alone = carrier.demo(*arguments, layered=False)
    carrier.demo(*arguments)
    result = carrier.demo(*arguments, faults=f"{fault}={error}")
    assert seen(result) == seen(alone) and result["feedback"]["untouched"] == 0
    counters = world.last()
    assert (counters["binaries_evicted"], counters["binary_hits"], counters["compiled"]) == (8, 0, 12)
    carrier.demo(*arguments)
    assert world.last()["binary_hits"] == 12


def test_one_failure_costs_one_pipeline(world: World, carrier: Driver) -> None:
    """Where one binary of a pipeline cannot be made, only that pipeline is compiled."""
    arguments = ["--graphics", "--count", 12, *API]
    carrier.demo(*arguments)
    carrier.demo(*arguments, faults="binary-fails=6")
    counters = world.last()
    assert (counters["binaries_evicted"], counters["binary_hits"], counters["compiled"]) == (1, 11, 1)
    carrier.demo(*arguments)
    assert world.last()["binary_hits"] == 12


def test_eviction_obeys_the_programs_flags(carrier: Driver) -> None:
    """A program that may not compile is told so where the driver creates nothing from what is stored."""
    carrier.demo("--count", 6, *API)
    arguments = ["--count", 6, "--batch", 3, "--fail-on-compile-required", *API]
    alone = carrier.demo(*arguments, layered=False)
    assert seen(carrier.demo(*arguments, faults="from-binaries-fails=unknown")) == seen(alone)


def test_programs_own_failures_stay(carrier: Driver) -> None:
    """Pipelines that the driver refuses fail as without the layer, in batches too."""
    arguments = ["--count", 24, "--batch", 4, *API]
    alone = carrier.demo(*arguments, layered=False, faults="pipelines-refused=3", check=False)
    assert alone["failed"] > 0
    for _ in range(2):
        assert seen(carrier.demo(*arguments, faults="pipelines-refused=3", check=False)) == seen(alone)


def test_device_is_created_as_the_program_made_it(carrier: Driver) -> None:
    """A device refused with pipeline binaries is asked for again with the program's own chain and extensions."""
    alone = carrier.demo("--count", 1, *API, layered=False)["witness"].devices
    layered = carrier.demo("--count", 1, *API, faults="device-refuses-binaries")["witness"].devices
    assert "binaries=1" in layered[0] and "refused=-8" in layered[0]
    assert layered[-1] == alone[0]


# ---- The driver's own cache ------------------------------------------------------------------------------------


def test_driver_cache_is_kept(carrier: Driver, tmp_path: Path) -> None:
    """With driver_cache: keep the driver's internal cache stays on, and it writes to the disk."""
    carrier.settings(carrier="binaries", driver_cache="keep")
    result = carrier.demo("--count", 12, *API, **with_disk_cache(tmp_path / "mesa"))
    assert "internal_cache_disabled=0" in result["witness"].devices[-1]
    assert bytes_on_disk(tmp_path / "mesa") > 0


@pytest.mark.parametrize("carrier_name", ["binaries", "cells"])
def test_driver_cache_is_replaced(world: World, carrier: Driver, tmp_path: Path, carrier_name: str) -> None:
    """With driver_cache: replace the driver writes nothing to the disk, and the second run only hits."""
    carrier.settings(carrier=carrier_name, driver_cache="replace")
    for compiled in (12, 0):
        result = carrier.demo("--count", 12, *API, **with_disk_cache(tmp_path / "mesa"))
        assert "internal_cache_disabled=1" in result["witness"].devices[-1]
        assert world.last()["compiled"] == compiled
    assert bytes_on_disk(tmp_path / "mesa") == 0


def test_driver_cache_cannot_be_replaced(world: World, carrier: Driver) -> None:
    """Where the driver's cache cannot be switched off the device is made without saying so."""
    carrier.settings(carrier="binaries", driver_cache="replace")
    for compiled in (12, 0):
        result = carrier.demo("--count", 12, *API, faults="internal-cache-control=0")
        assert "internal_cache_disabled=0" in result["witness"].devices[-1]
        assert world.last()["compiled"] == compiled
