"""The binaries mode: stores pipelines by their keys for programs that do not use VK_KHR_pipeline_binary.

A test with the scripted driver fails if a byte reaches the driver that the driver never returned. RADV has mistakes of
its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pipeline_binaries import APPLICATION, bytes_on_disk, with_disk_cache
from scripted_driver import ScriptedDriver
from world import Run, World, seen

pytestmark = pytest.mark.usefixtures("needs_binaries")


MISSING = "create-binaries=missing?from-create-info"
NO_CAPTURE = "pipeline=error:unknown?capture"

#: Faults under which the mode works: the second run only hits.
WITHOUT_CONSEQUENCE = [
    "internal-cache=no;internal-cache-control=no",
    "internal-cache-control=no",
    "prefers-internal-cache=yes",
    "compressed-binaries=yes",
    MISSING,
    f"{MISSING}?fetch",
    "create-binaries=error:initialization-failed?from-create-info",
    "feedback=no",
]

#: Faults under which the driver returns no binaries of any pipeline.
UNREADABLE = [
    f"{MISSING};{NO_CAPTURE}",
    f"{MISSING};create-binaries=error:out-of-host-memory?from-pipeline",
    "create-binaries=incomplete",
    "binary-data=error:out-of-host-memory?data",
    "binary-data=grow",
]

#: The mode of devices that cannot have binaries. A device that the driver refuses is created as the program asked.
REFUSED = "create-device=error:feature-not-present?binaries"
INSTEAD = {
    "binaries=no": "cells",
    "binaries=unfeatured": "cells",
    "binaries=null": "cells",
    "maintenance5=no": "cells",
    "maintenance5=unfeatured": "cells",
    REFUSED: "off",
    "cache-control=no": "off",
    "cache-control=unfeatured": "off",
    "cache-control=no;binaries=null": "off",
}

#: With these arguments a device of the program can have pipeline binaries.
API = ["--api", "1.3"]


@pytest.fixture
def radv(world: World) -> World:
    """Programs with the binaries mode on RADV."""
    world.configure(mode="binaries")
    return world


@pytest.fixture
def faulty(scripted: ScriptedDriver) -> ScriptedDriver:
    """Programs with the binaries mode on a driver that can have faults."""
    scripted.settings(mode="binaries")
    return scripted


# ---- The main job ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--count", 12, "--threads", 3, "--batch", 2, "--feedback"],
        ["--count", 12, "--features13"],
        ["--count", 6, "--ray-tracing"],
        ["--count", 12, "--batch", 4, "--derivatives"],
        ["--count", 12, "--batch", 5, "--early-return"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments)),
)
def test_second_run_creates_from_binaries(radv: World, arguments: list[str | int]) -> None:
    """The second run compiles nothing and creates every pipeline from binaries. The program sees no difference."""
    count = arguments[1]
    alone = radv.demo(*arguments, *API, layers=None)
    first = radv.demo(*arguments, *API)
    assert radv.runs()[-1]["mode"] == "binaries"
    assert (radv.last()["compiled"], radv.last()["binaries_kept"]) == (count, count)
    second = radv.demo(*arguments, *API)
    counters = radv.last()
    assert (counters["hits"], counters["binary_hits"], counters["compiled"]) == (count, count, 0)
    assert radv.runs()[-1]["stored_records"] == 0
    assert seen(alone) == seen(first) == seen(second)


def test_everything_is_captured(faulty: ScriptedDriver) -> None:
    """Each pipeline is created once, with CAPTURE_DATA, and its captured data is released."""
    faulty.demo("--count", 12, *API)
    assert faulty.counts["captured"] == faulty.counts["release-captured"] == faulty.counts["compiles"] == 12


def test_hit_needs_no_bytes_of_the_program(faulty: ScriptedDriver) -> None:
    """With FAIL_ON_PIPELINE_COMPILE_REQUIRED the program gets every pipeline that the store has, and none that it
    lacks."""
    arguments = ["--count", 8, "--batch", 4, "--fail-on-compile-required", "--early-return", *API]
    alone = seen(faulty.demo(*arguments, layered=False))
    assert alone["created"] == 0
    assert seen(faulty.demo(*arguments)) == alone
    faulty.demo("--count", 8, *API)
    assert faulty.demo(*arguments)["created"] == 8
    assert faulty.world.last()["binary_hits"] == 8


def test_own_cache_of_the_program(faulty: ScriptedDriver) -> None:
    """A call with a VkPipelineCache uses cells, because Vulkan forbids binaries beside a cache."""
    for compiled in (12, 0):
        faulty.demo("--count", 12, "--cache", "object", *API)
        assert faulty.world.last()["compiled"] == compiled
        assert faulty.counts["from-binaries"] == 0


def test_small_instances_get_cells(faulty: ScriptedDriver) -> None:
    """A Vulkan 1.1 program cannot have VK_KHR_maintenance5, so its device gets the cells faulty."""
    for compiled in (12, 0):
        faulty.demo("--count", 12, "--api", "1.1")
        assert faulty.world.runs()[-1]["mode"] == "cells" and faulty.world.last()["compiled"] == compiled


def test_program_may_switch_the_internal_cache_off(faulty: ScriptedDriver) -> None:
    """For a program that disables internal caches the mode is off."""
    arguments = ["--source", "capture", "--disable-internal-cache"]
    faulty.application(*arguments, layered=False)
    alone = faulty.counts
    for _ in range(2):
        faulty.application(*arguments)
        # The layer asks for the global key, under which it notes what the program read.
        own = ("get-key", "get-data", "create-cache")
        assert faulty.counts["get-key"] == alone["get-key"] + 1
        assert {name: count for name, count in faulty.counts.items() if name not in own} == {
            name: count for name, count in alone.items() if name not in own
        }
        assert "internal-cache=off" in faulty.devices[0]
        assert faulty.world.runs()[-1]["mode"] == "off"


# ---- What the driver does wrong (RADV 25.0.7) ----------------------------------------------------------------------


def test_links(radv: World) -> None:
    """RADV crashes on the key of a fast-linked pipeline, or gives all of them one key, so these use cells. An optimized
    link of libraries that were not created from binaries is itself created from binaries."""
    alone = seen(radv.demo("--count", 4, "--gpl", *API, layers=None))
    for _ in range(2):
        assert seen(radv.demo("--count", 4, "--gpl", "--feedback", *API)) == alone
    assert radv.last()["compiled"] == 0 and radv.last()["binary_hits"] >= 4


def test_counts_begin_with_zero(faulty: ScriptedDriver) -> None:
    """RADV adds the number of binaries to the count it is given, so the layer's count queries begin with zero."""
    # The layer asks for the count if there are more binaries than it has room for.
    faulty.demo("--count", 8, *API, script="create-binaries=incomplete")
    assert faulty.counts["create-binaries"] > 0 and not faulty.hazards


def test_feedback_is_written(radv: World) -> None:
    """RADV writes no feedback for pipelines from binaries. The layer does, and reports no application cache hit."""
    for _ in range(2):
        result = radv.demo("--count", 12, "--feedback", *API)
        assert result["feedback"] == {"valid": 12, "application_cache_hit": 0, "untouched": 0}


def test_modules_are_not_needed(radv: World, tmp_path: Path) -> None:
    """RADV crashes on the key of a stage without a shader, so the layer asks for no key of a pipeline that the program
    creates from binaries."""
    command = [*APPLICATION, "--archive", str(tmp_path / "archive")]
    radv.run(command)
    assert Run.of(radv.run([*command, "--no-modules"]))["from_archive"] == 12


# ---- What crashes NVIDIA's driver ----------------------------------------------------------------------------


#: Graphics pipelines, one of several views, a library, and a compute pipeline.
VIEWS = """device rendering libraries modules multiview
plain: graphics - : P0 vert=vert0 discard pass=dynamic
view-mask: graphics - : P1 vert=vert0 discard pass=dynamic flags=noopt mask=3
library: graphics - : P2 vert=vert0 discard pass=dynamic part=vertex flags=library
compute: compute - : P3 shader=comp0
"""


@pytest.mark.parametrize(("script", "asked"), [("driver-id=0", 4), ("driver-id=4", 1)])
def test_what_crashes_nvidia_is_not_asked(faulty: ScriptedDriver, script: str, asked: int) -> None:
    """NVIDIA's driver crashes in vkGetPipelineKeyKHR for some pipelines with several views, and in
    vkCreatePipelineBinariesKHR for some libraries. It is asked for no key of a graphics pipeline. The second run
    compiles none of them."""
    for compiled in (4, 0):
        faulty.recipe(VIEWS, script=script)
        assert faulty.take_counts()["get-key"] == asked + 1  # and the global key
        assert faulty.world.last()["compiled"] == compiled


# ---- Drivers that fail, lie or lack features -------------------------------------------------------------------------


@pytest.mark.parametrize("script", WITHOUT_CONSEQUENCE)
def test_faults_without_consequence(faulty: ScriptedDriver, script: str) -> None:
    """If the layer can do without what is missing, the second run creates all pipelines from binaries."""
    for _ in range(2):
        faulty.demo("--count", 18, *API, script=script)
    counters = faulty.world.last()
    assert (counters["binary_hits"], counters["compiled"]) == (18, 0)


@pytest.mark.parametrize("script", UNREADABLE)
def test_kinds_without_binaries_are_kept_as_cells(faulty: ScriptedDriver, script: str) -> None:
    """If the driver returns no binaries, all but the first pipeline of a kind use cells, and the second run hits."""
    for _ in range(2):
        faulty.demo("--count", 18, *API, script=script)
    counters = faulty.world.last()
    assert (counters["binary_hits"], counters["hits"] + counters["compiled"]) == (0, 18)
    assert counters["compiled"] <= 2


@pytest.mark.parametrize("script", INSTEAD)
def test_devices_without_the_mode_get_another(faulty: ScriptedDriver, script: str) -> None:
    """A device that cannot have this mode gets cells, and the second run compiles nothing. A device without
    pipelineCreationCacheControl passes everything."""
    for compiled in (0, 0) if INSTEAD[script] == "off" else (12, 0):
        faulty.demo("--count", 12, *API, script=script)
        counters = faulty.world.last()
        assert faulty.world.runs()[-1]["mode"] == INSTEAD[script]
        assert counters["compiled"] == compiled


@pytest.mark.parametrize(
    "script",
    [
        "feedback=everywhere",
        "feedback=everywhere;internal-cache=no",
        "feedback=everywhere;create-binaries=missing?from-create-info",
        "create-binaries=missing?from-create-info;pipeline=error:unknown?capture",
    ],
)
def test_feedback_is_that_of_the_creation(faulty: ScriptedDriver, script: str) -> None:
    """What the driver writes into the program's creation feedback in calls that the layer adds (for the key, to read
    the binaries, to capture them) does not stay there."""
    arguments = ["--count", 12, "--feedback", *API]
    alone = faulty.demo(*arguments, layered=False, script=script)
    for _ in range(2):
        under = faulty.demo(*arguments, script=script)
        assert under["feedback"] == alone["feedback"]
        assert under["feedback"]["application_cache_hit"] == 0


@pytest.mark.parametrize("error", ["out-of-host-memory", "unknown", "compile-required"])
@pytest.mark.parametrize("fault", ["pipeline=error:{}?from-binaries", "create-binaries=error:{}?from-data"])
def test_binaries_that_fail_are_evicted(faulty: ScriptedDriver, fault: str, error: str) -> None:
    """If the driver creates nothing from binaries, all pipelines are created as asked. The layer stops trying after
    four of a kind."""
    arguments = ["--count", 12, "--batch", 3, "--feedback", *API]
    alone = faulty.demo(*arguments, layered=False)
    faulty.demo(*arguments)
    result = faulty.demo(*arguments, script=fault.format(error))
    assert seen(result) == seen(alone) and result["feedback"]["untouched"] == 0
    counters = faulty.world.last()
    assert (counters["binaries_evicted"], counters["binary_hits"], counters["compiled"]) == (8, 0, 12)
    faulty.demo(*arguments)
    assert faulty.world.last()["binary_hits"] == 12


def test_one_failure_costs_one_pipeline(faulty: ScriptedDriver) -> None:
    """If one binary of a pipeline cannot be created, only that pipeline is compiled."""
    arguments = ["--graphics", "--count", 12, *API]
    faulty.demo(*arguments)
    faulty.demo(*arguments, script="create-binaries=partial:1?from-data@6")
    counters = faulty.world.last()
    assert (counters["binaries_evicted"], counters["binary_hits"], counters["compiled"]) == (1, 11, 1)
    faulty.demo(*arguments)
    assert faulty.world.last()["binary_hits"] == 12


def test_eviction_obeys_the_programs_flags(faulty: ScriptedDriver) -> None:
    """If the driver creates nothing from stored binaries, a program that may not compile gets
    VK_PIPELINE_COMPILE_REQUIRED."""
    faulty.demo("--count", 6, *API)
    arguments = ["--count", 6, "--batch", 3, "--fail-on-compile-required", *API]
    alone = faulty.demo(*arguments, layered=False)
    assert seen(faulty.demo(*arguments, script="pipeline=error:unknown?from-binaries")) == seen(alone)


# ---- The driver's own cache ------------------------------------------------------------------------------------


def test_driver_cache_is_kept(radv: World, tmp_path: Path) -> None:
    """With driver_cache: keep the driver's internal cache stays on and writes to the disk. What is captured passes it
    by (RADV), so the program has a cache."""
    radv.configure(mode="binaries", driver_cache="keep")
    radv.demo("--count", 12, "--cache", "object", *API, **with_disk_cache(tmp_path / "mesa"))
    assert bytes_on_disk(tmp_path / "mesa") > 0


@pytest.mark.parametrize("mode", ["binaries", "cells"])
def test_driver_cache_is_replaced(radv: World, tmp_path: Path, mode: str) -> None:
    """With driver_cache: replace the driver writes nothing to the disk, and the second run only hits."""
    radv.configure(mode=mode, driver_cache="replace")
    for compiled in (12, 0):
        radv.demo("--count", 12, *API, **with_disk_cache(tmp_path / "mesa"))
        assert radv.last()["compiled"] == compiled
    assert bytes_on_disk(tmp_path / "mesa") == 0


def test_driver_cache_cannot_be_replaced(faulty: ScriptedDriver) -> None:
    """If the driver's cache cannot be switched off, the device is created without disableInternalCache."""
    faulty.settings(mode="binaries", driver_cache="replace")
    for compiled in (12, 0):
        faulty.demo("--count", 12, *API, script="internal-cache-control=no")
        assert "internal-cache=off" not in faulty.devices[-1]
        assert faulty.world.last()["compiled"] == compiled
