"""The binaries mode, on RADV and on a driver whose VK_KHR_pipeline_binary fails, lies or is incomplete. The program
sees what it sees without the layer. Afterwards the store is whole and the pipelines are hits. Programs that use the
extension themselves may bring back the bytes that they read. Altered data never reaches the driver, which would crash
on it or execute it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from disk import compact_everything
from host_steps import HOST
from pipeline_binaries import APPLICATION, Archive, bytes_on_disk, flipped, with_disk_cache
from recipes.small import BINARY_CALLS
from scripted_driver import ScriptedDriver
from world import LAYER_NAME, Run, World, seen

from pylayer.common import file_kinds

pytestmark = pytest.mark.usefixtures("needs_binaries")

ARGUMENTS: list[str | int] = ["--count", 8, "--api", "1.3"]

MISSING = "create-binaries=missing?from-create-info"
NO_CAPTURE = "pipeline=error:unknown?capture"
#: Faults, and what is found in the second run under one. ANY: nothing need be. BINARIES: all is created from binaries.
#: CELLS: the driver returns no binaries, so all but the first pipeline of a kind are cells.
ANY, BINARIES, CELLS = range(3)
FAULTS = {
    "create-binaries=error:device-lost?fetch": ANY,
    "create-binaries=error:1000999999": ANY,
    "create-binaries=missing": ANY,
    "create-binaries=missing?count@2": ANY,
    "create-binaries=incomplete": CELLS,
    "create-binaries=partial:1": ANY,
    "create-binaries=partial:2?fetch@2": ANY,
    "create-binaries=error:initialization-failed?from-data": ANY,
    "create-binaries=error:initialization-failed?from-create-info": BINARIES,
    "create-binaries=missing?from-data": ANY,
    "create-binaries=partial:1?from-data": ANY,
    "binary-data=error:out-of-host-memory": ANY,
    "binary-data=error:out-of-host-memory?data": CELLS,
    "binary-data=error:not-enough-space?data": ANY,
    "binary-data=grow": CELLS,
    "binary-data=garbage": ANY,
    "get-key=error:device-lost?!global": ANY,
    "get-key=error:out-of-host-memory?global": ANY,
    "get-key=zero?!global": ANY,
    "get-key=zero?global": ANY,
    "get-key=long": ANY,
    "internal-cache=no;release-captured=error:out-of-host-memory": ANY,
    "internal-cache=no;pipeline=error:out-of-device-memory?capture": ANY,
    "internal-cache=no;pipeline=null?capture": ANY,
    "internal-cache=no;internal-cache-control=no": BINARIES,
    "internal-cache-control=no": BINARIES,
    MISSING: BINARIES,
    f"{MISSING}?fetch": BINARIES,
    f"{MISSING};{NO_CAPTURE}": CELLS,
    f"{MISSING};create-binaries=error:out-of-host-memory?from-pipeline": CELLS,
    f"{MISSING};create-binaries=partial:1?from-pipeline@3": ANY,
    "prefers-internal-cache=yes": BINARIES,
    "pipeline=null": ANY,
    "pipeline=error:invalid-shader": ANY,
    "feedback=no": BINARIES,
}


@pytest.mark.parametrize("script", FAULTS)
def test_program_notices_nothing(scripted: ScriptedDriver, script: str) -> None:
    """The program sees what it sees without the layer. Once the fault is gone, every pipeline is a hit."""
    scripted.settings(mode="binaries")
    how = ["--count", 18] if FAULTS[script] else ["--count", 9, "--threads", 3, "--batch", 3]
    arguments = [*how, "--api", "1.3"]
    compiled = scripted.compiles_after(script, *arguments)
    if script == "binary-data=garbage":  # after four pipelines of a kind with garbage, the others became cells
        scripted.demo(*arguments)
        compiled = scripted.counts["compiles"]
    assert compiled == 0
    found = scripted.world.runs()[1]["counters"]
    if FAULTS[script] == BINARIES:
        assert (found["binary_hits"], found["compiled"]) == (18, 0)
    elif FAULTS[script] == CELLS:
        assert (found["binary_hits"], found["hits"] + found["compiled"]) == (0, 18)
        assert found["compiled"] <= 2


def test_bad_binaries_do_not_hide_good_ones(scripted: ScriptedDriver) -> None:
    """Binaries that the driver cannot use stay in the store beside the good ones that replace them. Later runs compile
    nothing, whichever of the two is tried first."""
    scripted.settings(mode="binaries")
    scripted.demo(*ARGUMENTS, script="binary-data=garbage")
    scripted.demo(*ARGUMENTS)
    assert (scripted.counts["compiles"], scripted.world.last()["binaries_evicted"]) == (8, 8)
    for _ in range(2):
        scripted.demo(*ARGUMENTS, verify=True)
        assert (scripted.counts["compiles"], scripted.counts["from-binaries"]) == (0, 8)


def test_the_newest_binaries_are_bad(scripted: ScriptedDriver) -> None:
    """If the newest binaries under a key are bad, they are tried first and evicted, and the older good ones are used
    without compiling."""
    scripted.settings(mode="binaries")
    scripted.demo("--count", 3, *ARGUMENTS[2:])
    scripted.demo("--count", 3, *ARGUMENTS[2:], script="binary-data=garbage;pipeline=error:unknown?from-binaries")
    scripted.demo("--count", 3, *ARGUMENTS[2:])
    assert (scripted.counts["compiles"], scripted.counts["from-binaries"]) == (0, 3)
    assert scripted.world.last()["binaries_evicted"] > 0


@pytest.mark.parametrize("mode", ["auto", "binaries"])
@pytest.mark.parametrize("change", [None, 1], ids=["in each process", "once"])
def test_another_global_key(scripted: ScriptedDriver, mode: str, change: int | None) -> None:
    """ANV 26.1.6 has another global key in each process. Cells do not belong to it and are found in the second run, in
    the one identity's folder. Binaries under another key never reach the driver, although their pipelines' keys are
    equal, and those under this one are found. A run that has only binaries under another key stores cells."""
    scripted.settings(mode=mode)
    keys = [1, 2, 3] if change is None else [1, 2, 1]
    compiles = []
    for key in keys:
        scripted.application("--source", "unused", "--count", 8, script=f"global-key={key}")
        compiles.append(scripted.counts["compiles"])
        scripted.verify()
    assert compiles == ([8, 0, 0] if mode == "auto" else [8, 8, 0])
    assert len(list(scripted.world.store.glob("store/*"))) == 1


def test_binaries_and_cells_of_one_pipeline(scripted: ScriptedDriver) -> None:
    """Pipelines that are stored as binaries are no cells, in journals as in packs. Either way compiles once, and then
    finds its own, in a process without policy, too."""
    for mode, compiles in (("binaries", 8), ("cells", 8), ("binaries", 0), ("cells", 0)):
        scripted.settings(mode=mode)
        for _ in range(2):
            scripted.demo(*ARGUMENTS, verify=True)
            assert scripted.counts["compiles"] == compiles
            compiles = 0
        compact_everything(scripted.world.store).wait()
    assert scripted.world.last()["fetched"] == 8


def test_damaged_binaries(scripted: ScriptedDriver) -> None:
    """A damaged record of binaries is told and repaired, and its pipeline alone is compiled. Equal ones count once."""
    scripted.settings(mode="binaries")
    scripted.demo(*ARGUMENTS)
    (stored,) = scripted.world.stored_files(".closed")
    folder = scripted.world.folder()
    shutil.copy(stored, folder.new_path(*folder.programs(), file_kinds.CLOSED))
    scripted.demo(*ARGUMENTS)
    assert (scripted.counts["compiles"], scripted.world.last()["fetched"]) == (0, 8)
    for path in scripted.world.stored_files(".closed"):
        data = bytearray(path.read_bytes())
        if b"BINR" in data:  # another one says what was used
            data[data.index(b"BINR") + 100] ^= 1
        path.write_bytes(data)
    result = scripted.demo(*ARGUMENTS, PYLAYER_LOG="warn")
    assert scripted.counts["compiles"] == 1 and "damaged-data" in scripted.warnings(result)
    for _ in range(2):
        result = scripted.demo(*ARGUMENTS, PYLAYER_LOG="warn")
    assert scripted.counts["compiles"] == 0 and "damaged" not in scripted.warnings(result)


@pytest.mark.parametrize("compacted", [False, True], ids=["journals", "packs"])
def test_stored_binaries_need_no_interpreter(scripted: ScriptedDriver, compacted: bool) -> None:
    """The layer itself reads stored binaries, and a whole file is none that policy has to look at."""
    scripted.settings(mode="binaries")
    for _ in range(2):
        scripted.demo(*ARGUMENTS)
    if compacted:
        assert compact_everything(scripted.world.store).wait(60) == 0
    for _ in range(4):
        scripted.demo(*ARGUMENTS)
    assert scripted.world.last()["binary_hits"] == 8 and scripted.world.without_policy(4)


# ---- The binaries mode ---------------------------------------------------------------------------


#: The mode of devices that cannot have binaries. A device that the driver refuses is created as the program asked.
REFUSED_DEVICE = "create-device=error:feature-not-present?binaries"
INSTEAD = {
    "binaries=no": "cells",
    "binaries=unfeatured": "cells",
    "binaries=null": "cells",
    "maintenance5=no": "cells",
    "maintenance5=unfeatured": "cells",
    REFUSED_DEVICE: "off",
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
    if "--feedback" in arguments:  # RADV writes none for pipelines from binaries
        assert second["feedback"] == {"valid": count, "application_cache_hit": 0, "untouched": 0}


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


def test_threads_that_create_one_pipeline(faulty: ScriptedDriver) -> None:
    """Of two threads that create a stored pipeline at the same time, one makes binaries of it, and the other waits."""
    recipe = "device control modules\ncompute - : P0 shader=comp0\n"
    faulty.recipe(recipe)
    faulty.recipe(recipe, "--times", "2", script="create-binaries=slow:500?from-data")
    assert (faulty.world.last()["binary_hits"], faulty.world.last()["compiled"]) == (2, 0)


def test_own_cache_of_the_program(faulty: ScriptedDriver) -> None:
    """A call with a VkPipelineCache uses cells, because Vulkan forbids binaries beside a cache."""
    for compiled in (12, 0):
        faulty.demo("--count", 12, "--cache", "object", *API)
        assert faulty.world.last()["compiled"] == compiled
        assert faulty.counts["from-binaries"] == 0


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


@pytest.mark.parametrize(("script", "api"), [*((script, "1.3") for script in INSTEAD), ("", "1.1")])
def test_devices_without_the_mode_get_another(faulty: ScriptedDriver, script: str, api: str) -> None:
    """A device that cannot have this mode gets cells, and the second run compiles nothing. A device without
    pipelineCreationCacheControl passes everything. A Vulkan 1.1 program cannot have VK_KHR_maintenance5."""
    mode = INSTEAD.get(script, "cells")
    for compiled in (0, 0) if mode == "off" else (12, 0):
        faulty.demo("--count", 12, "--api", api, script=script)
        counters = faulty.world.last()
        assert faulty.world.runs()[-1]["mode"] == mode
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


# ---- Programs that use VK_KHR_pipeline_binary themselves -----------------------------------------


REFUSED = -3  # VK_ERROR_INITIALIZATION_FAILED

#: Counters of the binaries that the program brought.
OUTCOMES = ("application_binaries", "binaries_attested", "binaries_altered", "binaries_stale")


def outcomes(world: World) -> dict[str, int]:
    counters = world.last()
    return {name: counters[name] for name in (*OUTCOMES, "binaries_refused") if counters[name]}


def count_of(path: Path) -> int:
    return len(Archive.read(path).binaries)


# ---- What a program asks for -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "cells", "binaries", "off"])
def test_every_command_answers_as_without_the_layer(scripted: ScriptedDriver, mode: str) -> None:
    """Every way of calling the extension's commands gives the same results, sizes, keys and bytes as without the layer,
    in two runs."""
    without = scripted.world.recipe(BINARY_CALLS, VK_INSTANCE_LAYERS=None).stdout
    scripted.settings(mode=mode)
    for _ in range(2):
        assert scripted.world.recipe(BINARY_CALLS, VK_INSTANCE_LAYERS=LAYER_NAME).stdout == without


@pytest.mark.parametrize("mode", ["auto", "binaries"])
@pytest.mark.parametrize("source", ["capture", "internal", "create"])
@pytest.mark.parametrize("kind", ["mixed", "ray-tracing", "gpl"])
def test_program_gets_the_drivers_binaries(
    scripted: ScriptedDriver, tmp_path: Path, kind: str, source: str, mode: str
) -> None:
    """However a program gets binaries, they are byte for byte the same as without the layer, in two runs."""
    arguments = ["--source", source, "--count", 6, *([] if kind == "mixed" else [f"--{kind}"])]
    alone = scripted.application(*arguments, "--archive", tmp_path / "alone", layered=False)
    scripted.settings(mode=mode)
    for number in range(2):
        under = scripted.application(*arguments, "--archive", tmp_path / f"under-{number}")
        assert under["created"] == alone["created"]
        if kind != "gpl":
            assert (tmp_path / f"under-{number}").read_bytes() == (tmp_path / "alone").read_bytes()
        else:  # some libraries are compiled into cells, so the internal cache does not have them
            read = Archive.read(tmp_path / f"under-{number}").binaries
            assert read and all(binary in Archive.read(tmp_path / "alone").binaries for binary in read)


@pytest.mark.parametrize("mode", ["auto", "binaries"])
def test_program_with_an_archive(scripted: ScriptedDriver, tmp_path: Path, mode: str) -> None:
    """The program brings in later runs what it read back in its first, and nothing is refused or changed. Once
    everything is known, it compiles nothing, and nobody opens policy's library."""
    scripted.settings(mode=mode, record_state=False)
    archive = ["--archive", tmp_path / "archive"]
    scripted.application(*archive)
    first = (tmp_path / "archive").read_bytes()
    second = scripted.application(*archive)
    assert (second["from_archive"], second["import_failed"]) == (12, 0)
    count = count_of(tmp_path / "archive")
    assert outcomes(scripted.world) == {"application_binaries": count, "binaries_attested": count}
    assert (tmp_path / "archive").read_bytes() == first
    for _ in range(3):
        scripted.application(*archive)
    assert scripted.world.without_policy(3) and scripted.world.last()["binaries_attested"] == count
    history, *_ = scripted.world.stored_files(file_kinds.ATTEST)
    for number in range(70):  # which policy combines only at the end of a run
        shutil.copy(history, history.with_name(f"{history.name[:33]}-{number:016x}.attest"))
    scripted.application(*archive)
    assert scripted.world.last()["binaries_attested"] == count


def test_program_calls_reach_the_driver_as_made(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """The driver creates, imports and releases the same as without the layer. The layer only reads more."""
    for _ in range(2):
        scripted.application("--archive", tmp_path / "alone", layered=False)
        alone = scripted.counts
        scripted.application("--archive", tmp_path / "under")
        names = ("captured", "from-binaries", "made-from-data", "made-from-create-info", "release-captured")
        assert [scripted.counts[name] for name in names] == [alone[name] for name in names]


# ---- Data that is not what the program read --------------------------------------------------------------------


Change = Callable[[Archive], None]


def change_all(change: Callable[[bytes], bytes], stride: int = 1) -> Change:
    """Changes every n-th binary."""

    def changed(archive: Archive) -> None:
        for binary in archive.binaries[::stride]:
            binary.data = change(binary.data)

    return changed


def change_one_of_two(archive: Archive) -> None:
    entry = next(entry for entry in archive.entries if len(entry.binaries) == 2)
    entry.binaries[1].data = flipped(entry.binaries[1].data)


def swap(archive: Archive) -> None:
    """Puts good bytes under another binary's key."""
    one, other = archive.binaries[:2]
    one.data, other.data = other.data, one.data


#: Changes of the program's file; how many pipelines cannot be imported, and how many binaries are refused. 0: all.
CHANGES: dict[str, tuple[Change, int, int]] = {
    "one bit": (change_all(flipped), 0, 0),
    "cut": (change_all(lambda data: data[: len(data) // 2]), 0, 0),
    "longer": (change_all(lambda data: data + bytes(64)), 0, 0),
    "others": (change_all(lambda data: random.Random(1).randbytes(len(data))), 0, 0),
    "zeros": (change_all(lambda data: bytes(len(data))), 0, 0),
    "one of two": (change_one_of_two, 1, 1),
    "swapped": (swap, 2, 2),
}


def saved(scripted: ScriptedDriver, directory: Path, change: Change | None = None, **options: Any) -> list[str | Path]:
    """Runs the program, and changes the file that it saves. Returns its arguments."""
    arguments = ["--source", "capture", "--archive", directory / "archive"]
    scripted.application(*arguments, **options)
    archive = Archive.read(directory / "archive")
    if change:
        change(archive)
    archive.write(directory / "archive")
    return arguments


@pytest.mark.parametrize(("change", "pipelines", "binaries"), CHANGES.values(), ids=CHANGES)
def test_altered_binaries_are_refused(
    scripted: ScriptedDriver, tmp_path: Path, change: Change, pipelines: int, binaries: int
) -> None:
    """The program gets an error for altered data, and compiles those pipelines alone."""
    result = scripted.application(*saved(scripted, tmp_path, change))
    count = count_of(tmp_path / "archive")
    pipelines, binaries = pipelines or 12, binaries or count
    assert (result["import_failed"], result["import_result"]) == (pipelines, REFUSED)
    assert (result["from_archive"], result["captured"]) == (12 - pipelines, pipelines)
    found = outcomes(scripted.world)
    assert found.pop("binaries_attested", 0) == count - binaries
    assert found == {"application_binaries": count, "binaries_altered": binaries, "binaries_refused": binaries}


def test_keys_of_several_contents(world: World, tmp_path: Path) -> None:
    """RADV gives several ray tracing binaries one key. Each content that was read under it passes, and data that is
    none of them is an error."""
    command = [*APPLICATION, "--ray-tracing", "--archive", str(tmp_path / "archive")]
    world.run(command)
    archive = Archive.read(tmp_path / "archive")
    contents = archive.contents_of_keys()
    entry = next(entry for entry in archive.entries if any(len(contents[binary.key]) > 1 for binary in entry.binaries))
    binary = next(binary for binary in entry.binaries if len(contents[binary.key]) > 1)
    binary.data = flipped(binary.data)
    archive.write(tmp_path / "archive")
    result = Run.of(world.run(command))
    assert (result["import_failed"], result["import_result"], result["created"]) == (1, REFUSED, 12)
    assert world.last()["binaries_altered"] == 1


def test_altered_binaries_pass_where_nobody_looks(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """With application_caches: pass the driver gets whatever the program brings."""
    scripted.settings(application_caches="pass")
    scripted.application(*saved(scripted, tmp_path, change_all(flipped, 100)), allow=True)
    assert len(scripted.violations) == 1 and "did not give out" in scripted.violations[0]
    assert not outcomes(scripted.world)


def test_unknown_binaries(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Binaries that a program read without the layer pass, except for empty data, on which RADV crashes."""
    result = scripted.application(*saved(scripted, tmp_path, layered=False))
    assert result["from_archive"] == 12
    assert outcomes(scripted.world) == {"application_binaries": count_of(tmp_path / "archive")}
    (tmp_path / "archive").unlink()
    empty = saved(scripted, tmp_path, change_all(lambda data: b"", 100), layered=False)
    result = scripted.application(*empty)
    assert (result["import_failed"], result["import_result"]) == (1, REFUSED)


@pytest.mark.parametrize("script", ["global-key=2", "driver-version=77"])
def test_stale_binaries_are_refused(scripted: ScriptedDriver, tmp_path: Path, script: str) -> None:
    """Binaries read under another global key, or from a driver with another identity, are refused, although the program
    presents them as current."""
    archive = ("--archive", tmp_path / "archive")
    scripted.application(*archive)
    count = count_of(tmp_path / "archive")
    result = scripted.application(*archive, "--any-global-key", script=script)
    assert (result["import_failed"], result["import_result"], result["created"]) == (12, REFUSED, 12)
    counters = scripted.world.last()
    assert counters["binaries_stale"] == counters["binaries_refused"] == count


# ---- Programs that use none ----------------------------------------------------------------------------------------


def test_enabled_and_not_used(scripted: ScriptedDriver) -> None:
    """A program that enables pipeline binaries and calls none of their commands gets its pipelines from cells, without
    keys: a warm run from binaries took 2.7 times as long (RADV)."""
    for compiled in (12, 0):
        scripted.application("--source", "unused")
        counters = scripted.world.last()
        assert (counters["compiled"], counters["hits"], counters["binary_hits"]) == (compiled, 12 - compiled, 0)
        assert scripted.counts["get-key"] == scripted.counts["from-binaries"] == scripted.counts["create-binaries"] == 0


def test_programs_that_keep_binaries(scripted: ScriptedDriver) -> None:
    """From the first key that a program asks for on, its pipelines are created as it asked: their binaries have to be
    in the driver's internal cache."""
    scripted.application("--source", "create", layered=False)
    alone = scripted.counts
    scripted.application("--source", "create")
    names = ("get-key", "create-binaries", "create-cache", "get-data", "merge")
    added = {name: scripted.counts[name] - alone[name] for name in names}
    # In vkCreateDevice, and the global key when the program reads its first binary.
    assert added == {"get-key": 1, "create-binaries": 0, "create-cache": 1, "get-data": 2, "merge": 0}
    assert scripted.world.last()["passed"] == 12


@pytest.mark.parametrize("mode", ["auto", "cells", "binaries"])
def test_properties_are_the_drivers(scripted: ScriptedDriver, mode: str) -> None:
    """What a program reads in VkPhysicalDevicePipelineBinaryPropertiesKHR is what it reads without the layer. A program
    of Vulkan 1.0 that enables no extension can call the command, too."""
    world, program = scripted.world, [str(HOST), "properties"]
    scripted.settings(mode=mode)
    for script in ("internal-cache=no;internal-cache-control=no", "prefers-internal-cache=yes", ""):
        alone = world.run(program, VK_INSTANCE_LAYERS=None, PYLAYER_TEST_DRIVER=script).stdout
        assert world.run(program, PYLAYER_TEST_DRIVER=script).stdout == alone


# ---- Drivers that fail -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "binaries"])
@pytest.mark.parametrize(
    "script",
    [
        "create-binaries=missing?from-create-info",
        "create-binaries=missing?from-create-info?fetch",
        "create-binaries=error:out-of-host-memory?from-pipeline",
        "create-binaries=incomplete",
        "binary-data=error:out-of-host-memory?data",
        "binary-data=grow@1",
        "create-binaries=error:initialization-failed?from-data",
        "create-binaries=error:out-of-device-memory?from-data",
        "pipeline=error:out-of-device-memory?from-binaries",
        "pipeline=error:unknown?from-binaries",
        "feedback=no",
    ],
)
def test_program_sees_the_drivers_failures(scripted: ScriptedDriver, tmp_path: Path, script: str, mode: str) -> None:
    """The program gets every failure that the driver returns for the program's own calls."""
    failures = ("created", "failed", "import_failed", "import_result", "from_binaries_failed", "read_failed")
    scripted.settings(mode=mode)
    for _ in range(2):
        arguments = ["--source", "capture", "--feedback"]
        alone = scripted.application(
            *arguments, "--archive", tmp_path / "alone", layered=False, script=script, check=False
        )
        under = scripted.application(*arguments, "--archive", tmp_path / "under", script=script, check=False)
        assert {name: under[name] for name in failures} == {name: alone[name] for name in failures}
