"""A driver whose VkPipelineCache fails, lies, is slow or returns too little, also as drivers in use do. The program
sees what it sees without the layer. Afterwards the store is whole and the pipelines are cache hits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from host_steps import END, HOST
from programs.ways import WAYS, Arguments, ways
from scripted_driver import ScriptedDriver
from world import repeated, seen

#: Of VkResult.
SUCCESS, OUT_OF_HOST_MEMORY, DEVICE_LOST, UNKNOWN = 0, -1, -4, -13
#: Results of vkCreatePipelineCache. The layer only tells VK_SUCCESS from the rest. The values are an ordinary error,
#: the error after which pipelines may not be tried again, a success code, and two results that no version of Vulkan
#: knows.
RESULTS = ["out-of-host-memory", "device-lost", "incomplete", "1000999999", "-1000999999"]

#: Faults that happen always or sometimes, with each way in which get-data can lie. The next run without faults compiles
#: what the faults kept from the store, and the run after that compiles nothing.
FAULTS = [
    "create-cache=null",
    "create-cache=null@2+",
    "create-cache=error:unknown@/3",
    "create-cache=slow:5;merge=slow:5",
    "get-data=error:device-lost?data",
    "get-data=error:1000999999",
    "get-data=error:initialization-failed@2",
    "get-data=empty",
    "get-data=grow",
    "get-data=incomplete",
    "get-data=incomplete@2",
    "get-data=overstate",
    "merge=error:out-of-device-memory@2",
    "merge=error:device-lost",
    "merge=error:1000999999",
    "merge=ignore",
]

OFF = "the layer is off, because the driver finds nothing in its own cache data"
#: Ways in which nothing is in a cache that is made of the driver's own data.
GIVES_NOTHING_BACK = [
    "create-cache=ignore",
    "get-data=garbage",
    "get-data=header:vendor",
    "get-data=header:length",
    "get-data=header:short",
    "get-data=shrink",
    "get-data=stub",
    "pipeline=ignore",
]

BATCHES: list[str | int] = ["--count", 24, "--threads", 3, "--batch", 4]
OWN_CACHE: list[str | int] = ["--count", 8, "--cache", "object", "--feedback"]
MAY_NOT_COMPILE: list[str | int] = ["--count", 8, "--batch", 4, "--fail-on-compile-required", "--early-return"]

REFUSED_CACHE_CONTROL = "create-device=error:feature-not-present?cache-control"
#: No probe ever hits, for pipelines of one kind or for all.
PROBE_MISSES = "pipeline=error:compile-required?may-not-compile"
NO_INITIAL_DATA = "create-cache=error:initialization-failed?data"
#: A driver that can find pipelines only in a VkPipelineCache.
ONLY_CACHES = "internal-cache=no;binaries=no"
#: A compile takes so long that the layer learns from the first pipelines while the program creates the others.
SLOW_COMPILES = "internal-cache=no;binaries=no;pipeline=slow:5?compile"
SLOW = "create-cache=slow:2;get-data=slow:2;merge=slow:2"

#: Faults that keep nothing from the store.
WITHOUT_CONSEQUENCE = [
    "get-data=grow@1",
    "get-data=error:out-of-host-memory?data@1",
    "feedback=no;get-data=grow@1",
    SLOW,
]
WITHOUT_CONSEQUENCE += ["feedback=no", "feedback=no-hits"]


@pytest.mark.parametrize("result", RESULTS)
def test_no_cache_can_be_created(scripted: ScriptedDriver, result: str) -> None:
    """If vkCreatePipelineCache always fails, the mode is off, the layer warns once that the driver refused an empty
    cache, and passes all calls."""
    assert scripted.compiles_after(f"create-cache=error:{result}", "--count", 8) == 0
    assert scripted.warnings(scripted.under_fault).count("the driver refused an empty pipeline cache") == 1
    assert [(run["mode"], run["counters"]["passed"]) for run in scripted.world.runs()[:2]] == [("off", 8)] * 2


@pytest.mark.parametrize(
    ("result", "seen"),
    [
        ("out-of-host-memory", -1),
        ("out-of-device-memory", -2),
        ("device-lost", -4),
        ("initialization-failed", 0),
        ("unknown", 0),
        ("-1000999999", 0),
    ],
)
def test_data_of_the_program_fails(scripted: ScriptedDriver, tmp_path: Path, result: str, seen: int) -> None:
    """If the driver refuses the program's data, the program gets an empty cache. If it has no memory, or the device is
    lost, the program gets that result and no cache."""
    file, world = str(tmp_path / "cache"), scripted.world
    steps = [str(HOST), "instance", "device", "load-cache", file, "pipelines", "2"]
    world.run([*steps, "save-cache", file, "destroy-cache", *END], **scripted.environment(""))
    script = scripted.environment(f"create-cache=error:{result}?data@1")
    assert f"load-cache {seen}\npipelines 0\n" in world.run([*steps, "destroy-cache", *END], **script).stdout
    assert scripted.violations == []
    assert world.runs()[-1]["refused"] == ({} if seen else {"driver-error": 1})
    assert world.last()["caches_emptied"] == (seen == 0)


NO_CACHE: list[str | int] = ["--count", 8]
NOTICES_NOTHING = [(script, arguments) for script in FAULTS for arguments in (NO_CACHE, OWN_CACHE)]
#: What a driver lacks, or does not tell: threads that create pipelines in batches notice nothing of it.
LACKS = ["", "cache-control=no", REFUSED_CACHE_CONTROL, PROBE_MISSES, f"{PROBE_MISSES}?compute", NO_INITIAL_DATA]
LACKS += [f"{PROBE_MISSES}?graphics", "get-data=incomplete", "merge=error:out-of-device-memory@1"]
NOTICES_NOTHING += [(script, BATCHES) for script in (*LACKS, *WITHOUT_CONSEQUENCE)]
NOTICES_NOTHING += [
    (script, MAY_NOT_COMPILE)
    for script in ("", PROBE_MISSES, NO_INITIAL_DATA, "get-data=stub", "feedback=no-hits", SLOW)
]
#: A cache that cannot be read, where nothing else has its pipelines.
NOTICES_NOTHING += [
    ("internal-cache=no;binaries=no;pipeline=ignore;get-data=error:out-of-host-memory?data@1", NO_CACHE)
]
#: Every compile fails, or returns VK_SUCCESS and no pipeline.
NO_PIPELINE = ["pipeline=null", "pipeline=error:invalid-shader", "pipeline=error:1000999999"]
NOTICES_NOTHING += [(script, WAYS["early return"]) for script in NO_PIPELINE]
#: Every command of the device fails, from the first or a later one on.
NOTICES_NOTHING += [("any=error:device-lost", NO_CACHE), ("any=error:device-lost@5+", OWN_CACHE)]
NOTICES_NOTHING += [("any=error:out-of-host-memory", NO_CACHE), ("any=error:out-of-host-memory", OWN_CACHE)]


@pytest.mark.parametrize(("script", "arguments"), NOTICES_NOTHING)
def test_program_notices_nothing(scripted: ScriptedDriver, script: str, arguments: list[str | int]) -> None:
    """The program sees what it sees without the layer, including its failures. Once the fault is gone, every pipeline
    is a cache hit."""
    assert scripted.compiles_after(script, *arguments) == 0
    if script in WITHOUT_CONSEQUENCE:
        assert scripted.counts_under_fault["compiles"] == 0


@pytest.mark.parametrize("arguments", [NO_CACHE, OWN_CACHE], ids=["no cache", "its own cache"])
@pytest.mark.parametrize("script", GIVES_NOTHING_BACK)
def test_driver_gives_nothing_back(scripted: ScriptedDriver, script: str, arguments: list[str | int]) -> None:
    """If a cache made of the first cell's data is empty, nothing is stored. After two such runs the layer is off for
    the program."""
    assert scripted.compiles_after(script, *arguments) == 8
    assert sum(run["stored_records"] for run in scripted.world.runs()) == 0
    assert scripted.world.runs()[-1]["reason"] == OFF


def test_equal_pipelines_with_two_fingerprints(scripted: ScriptedDriver) -> None:
    """The driver does not tell two pipelines apart that differ in a constant which the shader lacks. Each is stored, so
    later runs find both."""
    recipe = "device control modules\n"
    recipe += "".join(f"one{n}: compute - : P{n} shader=comp0 spec=1000:{n}\n" for n in range(2))
    for compiled, driver_compiles in ((2, 1), (0, 0), (0, 0)):
        scripted.recipe(recipe)
        assert (scripted.world.last()["compiled"], scripted.take_counts()["compiles"]) == (compiled, driver_compiles)
        assert scripted.world.last()["hits"] == 2 - compiled


def test_two_pipelines_with_one_fingerprint(scripted: ScriptedDriver) -> None:
    """Flags are in no fingerprint. Of what is stored under one, the driver gets only what it needs to find the
    pipeline, the oldest first."""
    one, other = ("one: compute - : P0 shader=comp0\n", "other: compute - : P1 shader=comp0 flags=noopt\n")
    runs = [(one, 1, 0), (other, 1, 1), (one, 0, 1), (other, 0, 2), (one + other, 0, 2), (other + one, 0, 2)]
    for lines, compiles, fetched in runs:
        scripted.recipe("device control modules\n" + lines, script="internal-cache=no")
        assert (scripted.counts["compiles"], scripted.world.last()["fetched"]) == (compiles, fetched)


def test_one_refused_record_costs_one_compile(scripted: ScriptedDriver) -> None:
    """If the driver refuses one of eight stored records, one pipeline is compiled and the others are cache hits."""
    scripted.demo("--count", 8)
    scripted.demo("--count", 8, script="create-cache=error:initialization-failed?data@5")
    assert (scripted.counts["compiles"], scripted.counts["hits"]) == (1, 7)
    assert scripted.world.last()["load_failed"] == 1


@pytest.mark.parametrize("mode", ["auto", "binaries"])
def test_memory_ends_at_any_allocation(scripted: ScriptedDriver, mode: str) -> None:
    """If any one allocation of the driver fails, at worst a command of the program returns VK_ERROR_OUT_OF_HOST_MEMORY.
    The store verifies afterwards, and is complete."""
    scripted.settings(mode=mode)
    arguments: list[str | int] = ["--count", 4, "--compute", "--api", "1.3"]
    scripted.demo(*arguments)
    scripted.demo(*arguments)
    reached = 0
    # Every third allocation fails, in turn with stored pipelines and with others.
    for number in range(2, scripted.counts["allocate"] + 1, 3):
        seed = 1 if number % 2 else number
        script = f"allocate=error:out-of-host-memory@{number}"
        result = scripted.demo(*arguments, "--seed", seed, script=script, check=False)
        reached += scripted.counts["acts"]
        assert result.returncode in (0, 1)
        assert set(result.get("results", [])) <= {SUCCESS, OUT_OF_HOST_MEMORY}
    assert reached >= 10
    scripted.verify()
    scripted.demo(*arguments)
    assert scripted.counts["compiles"] == 0


@pytest.mark.parametrize("number", [20, 48, 76])
def test_device_is_lost(scripted: ScriptedDriver, number: int) -> None:
    """If the device is lost while the program creates pipelines, the program gets VK_ERROR_DEVICE_LOST and no other
    error, and the store is whole afterwards."""
    for _ in range(2):
        result: Any = scripted.demo("--count", 12, script=f"any=error:device-lost@{number}+", check=False)
        assert result.returncode in (0, 1)
        if "results" in result:
            assert set(result["results"]) <= {SUCCESS, DEVICE_LOST}
    scripted.demo("--count", 12, verify=True)
    scripted.demo("--count", 12)
    assert scripted.counts["compiles"] == 0


# ---- Pipelines from stored data ------------------------------------------------------------------


PROGRAMS = ways(only=("Vulkan 1.3", "early return", "own cache, feedback"))

#: Faults when a pipeline is created from stored data, in a VkPipelineCache or as binaries. Without the layer they never
#: happen.
FROM_CACHE = [
    "pipeline=error:out-of-host-memory?hit",
    "pipeline=error:unknown?hit@3",
    "pipeline=error:1000999999?hit@/2",
    "pipeline=error:compile-required?hit@3",
    "pipeline=null?hit",
    "pipeline=null?hit@3",
    "pipeline=slow:5?hit",
    *["pipeline=error:unknown?may-not-compile"] * 3,
]
FROM_BINARIES = [
    "pipeline=error:out-of-host-memory?from-binaries",
    "pipeline=error:1000999999?from-binaries@3",
    "pipeline=null?from-binaries",
    "pipeline=null?from-binaries@3",
]
USES = [*(("auto", program, FROM_CACHE) for program in PROGRAMS), ("binaries", "Vulkan 1.3", FROM_BINARIES)]


@pytest.mark.parametrize(("mode", "program", "scripts"), USES)
def test_what_is_stored_cannot_be_used(scripted: ScriptedDriver, mode: str, program: str, scripts: list[str]) -> None:
    """If creating a pipeline from stored data fails, or returns VK_SUCCESS and no pipeline, it is compiled, and the
    program gets it."""
    scripted.settings(mode=mode)
    first = seen(scripted.demo(*PROGRAMS[program], layered=False))
    assert seen(scripted.demo(*PROGRAMS[program])) == first
    repeated(lambda: scripted.demo(*PROGRAMS[program]) and not scripted.counts["compiles"])
    for script in scripts:
        assert seen(scripted.demo(*PROGRAMS[program], script=script)) == first, script
        assert scripted.counts["acts"] > 0, script
        scripted.verify()
    scripted.demo(*PROGRAMS[program])
    assert scripted.counts["compiles"] == 0
    assert not list(scripted.world.store.glob("store/*/*.verdict"))


@pytest.mark.parametrize("mode", ["auto", "binaries"])
@pytest.mark.parametrize("result", ["out-of-host-memory", "1000999999"])
def test_one_pipeline_fails_once(scripted: ScriptedDriver, result: str, mode: str) -> None:
    """A failure that does not repeat does not reach the program, because the layer tries a second time."""
    scripted.settings(mode=mode)
    script = f"pipeline=error:{result}?compile@3"
    assert seen(scripted.demo("--count", 8, layered=False, script=script, check=False))["failed"] == 1
    result_above: Any = scripted.demo("--count", 8, script=script)
    assert result_above["created"] == 8


@pytest.mark.parametrize("mode", ["auto", "binaries"])
def test_lost_device_is_not_tried_again(scripted: ScriptedDriver, mode: str) -> None:
    """VK_ERROR_DEVICE_LOST reaches the program, whichever call of the layer returned it."""
    scripted.settings(mode=mode)
    arguments = ["--count", 8, "--api", "1.3"]
    scripted.demo(*arguments)
    for way in ("hit", "from-binaries"):
        result: Any = scripted.demo(*arguments, script=f"pipeline=error:device-lost?{way}", check=False)
        assert set(result["results"]) <= {SUCCESS, DEVICE_LOST}
    assert scripted.counts["acts"] in (0, 8)


# ---- Programs of every kind ----------------------------------------------------------------------


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
    assert alone["failed"] > 0 and UNKNOWN in alone["results"]
    for _ in range(2):
        assert seen(scripted.demo(*FAILING_WAYS[way], script=script, check=False)) == seen(alone)
    assert scripted.world.last()["compiled"] == 0
    assert scripted.world.last()["failed"] > 0


# ---- Slow drivers ----------------------------------------------------------------------------------------


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


# ---- Defects that drivers in use have ------------------------------------------------------------


COUNT = 8

#: A program without a cache, and one with a cache of its own.
DEFECTIVE: dict[str, list[str | int]] = {
    "no cache": ["--count", COUNT, "--api", "1.3"],
    "own cache": ["--count", COUNT, "--api", "1.3", "--cache", "object"],
}

NOTHING = "the driver finds nothing in its own cache data"


class Defect(NamedTuple):
    """``script`` is that of every run. ``warm``: the driver has all pipelines in the first run. ``finds``: the run,
    counted from 0, from which on everything is found, unless ``off``."""

    script: str
    warm: bool = False
    mode: str = "auto"
    finds: int = 1
    off: bool = False


DEFECTS = {
    # NVK, Honeykrisp and ANV since Mesa 26.1 report hits in an empty cache of what their disk cache has.
    "everything is a hit": Defect("feedback=hits"),
    "everything is a hit, warm": Defect("feedback=hits", warm=True),
    # Turnip of Mesa 26.1.6 and 26.2.6, for graphics pipelines.
    "nothing is a hit, warm": Defect("feedback=no-hits", warm=True),
    "compiles are hits, hits are none": Defect("feedback=wrong"),
    "compiles are hits, hits are none, warm": Defect("feedback=wrong", warm=True),
    # ANV of Mesa 26.1.6.
    "each process has a global key": Defect("global-key=process"),
    "each process has a global key, binaries": Defect("global-key=process", mode="binaries", finds=2),
    # NVK, for some pipelines.
    "VK_INCOMPLETE at the exact size": Defect("get-data=tight"),
    # ANV and HASVK of Mesa 22.3.6.
    "a count of 0": Defect("get-data=header:count", off=True),
    # Lavapipe.
    "a header alone": Defect("get-data=stub", off=True),
}


@pytest.mark.parametrize("program", DEFECTIVE)
@pytest.mark.parametrize("name", DEFECTS)
def test_defect(scripted: ScriptedDriver, name: str, program: str) -> None:
    """The program sees the same in each run. Everything is stored once and found later, or the layer is off."""
    defect, arguments = DEFECTS[name], DEFECTIVE[program]
    scripted.settings(mode=defect.mode)
    alone = seen(scripted.demo(*arguments, script=defect.script, layered=False))
    # Binaries are for pipelines without a cache.
    finds = 1 if program == "own cache" else defect.finds
    sizes = []
    for number in range(finds + 4):
        more = "warm=yes;" if defect.warm and number == 0 else "internal-cache=no;"
        assert seen(scripted.demo(*arguments, script=more + defect.script, verify=True)) == alone
        run = scripted.world.runs()[-1]
        if defect.off:
            assert (run["stored_records"], run["mode"]) == (0, "off")
            assert NOTHING in run["reason"]
        else:
            found = number >= finds
            assert run["stored_records"] == (0 if found else COUNT)
            assert scripted.counts["compiles"] == (0 if found or more == "warm=yes;" else COUNT)
        sizes.append(sum(path.stat().st_size for path in scripted.world.store.glob("s*/**/*") if path.is_file()))
    assert (scripted.world.last()["passed"] == COUNT) is defect.off
    assert sizes[-1] - sizes[finds + 1] < 1024  # pipelines, verdicts and recordings; a compaction may add a table


@pytest.mark.parametrize("name", DEFECTS)
def test_doctor(scripted: ScriptedDriver, name: str) -> None:
    """doctor says in one line whether pipelines can be stored, and if not, why."""
    defect = DEFECTS[name]
    scripted.settings(mode=defect.mode)
    done = scripted.world.pylayer("doctor", "--json", check=False, **scripted.environment(defect.script))
    (device,) = json.loads(done.stdout)["devices"]
    wanted = {"status": "ok", "mode": "cells", "tried": "its second run found it in the store"}
    if defect.off:
        wanted = {"status": "warning", "mode": "off", "tried": "nothing is stored", "reason": NOTHING}
    elif defect.mode == "binaries":
        wanted = {"status": "warning", "mode": "binaries", "tried": "its second run did not find it"}
    assert {key: part for key, part in wanted.items() if part in device[key]} == wanted
    assert "\n" not in device["reason"]


NEW_DRIVER = "internal-cache=no;build=2;uuid=7e58"


def test_recorded_until_the_layer_is_off(scripted: ScriptedDriver) -> None:
    """Until a driver's useless caches switch the layer off for a program, its runs are recorded. These pipelines are
    rebuilt for a better driver, and the others are recorded when the program creates them there."""
    for count, mode_is_known in ((8, False), (16, False), (24, True)):
        scripted.demo("--count", count, "--api", "1.3", script="get-data=header:count")
        assert (scripted.world.last()["passed"] == count) is mode_is_known
    for found in (16, 24):
        scripted.world.pylayer("rebuild", **scripted.environment(NEW_DRIVER))
        scripted.demo("--count", 24, "--api", "1.3", script=NEW_DRIVER)
        assert (scripted.world.last()["hits"], scripted.world.last()["compiled"]) == (found, 24 - found)


def test_one_fingerprint_over_a_warm_cache(scripted: ScriptedDriver) -> None:
    """Flags are in no fingerprint. Of pipelines that share one, a run stores the first, and finds the others in the
    driver's own cache. It records all. Once that cache is gone, the next run compiles and stores the others."""
    recipe = (
        "device control modules\none: compute - : P0 shader=comp0\nother: compute - : P1 shader=comp0 flags=noopt\n"
    )
    for script, compiles, stored in (("warm=yes", 0, 1), ("warm=yes", 0, 0), ("", 1, 1), ("", 0, 0)):
        scripted.recipe(recipe, script=script or "internal-cache=no")
        assert (scripted.take_counts()["compiles"], scripted.world.runs()[-1]["stored_records"]) == (compiles, stored)
        if (script, stored) == ("warm=yes", 1):
            done = scripted.world.pylayer("rebuild", **scripted.environment(NEW_DRIVER))
            assert done.stdout.startswith("Rebuilt: 2 of 2 pipelines")


#: Why a process finds nothing of what others stored: its keys are other ones, as ANV's of compute pipelines in one of
#: some 250 processes, or it ignores the data that it is given.
BAD_PROCESS = ["keys=process", "create-cache=ignore"]


@pytest.mark.parametrize("program", DEFECTIVE)
@pytest.mark.parametrize("script", BAD_PROCESS)
def test_bad_process(scripted: ScriptedDriver, script: str, program: str) -> None:
    """Of a driver that finds nothing in some processes all others find everything and store nothing, and nothing is
    decided against it."""
    arguments = DEFECTIVE[program]
    alone = seen(scripted.demo(*arguments, layered=False))
    for number in range(8):
        bad = number in (2, 4, 5)
        assert seen(scripted.demo(*arguments, script=f"internal-cache=no;{script if bad else ''}")) == alone
        run = scripted.world.runs()[-1]
        compiles = 0 if number > 0 and not bad else COUNT
        assert (run["mode"], scripted.counts["compiles"]) == ("cells", compiles)
        assert run["stored_records"] <= compiles
        # The records of bad processes are not read, unless an idle policy has joined them with good ones.
        joined = bool(scripted.world.stored_files(".pack"))
        assert compiles or joined or run["counters"]["fetched"] == COUNT
    assert not list(scripted.world.store.glob("store/*/*.verdict"))
