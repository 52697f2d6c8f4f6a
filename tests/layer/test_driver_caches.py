"""A driver whose VkPipelineCache fails, lies or returns too little. The program sees what it sees without the layer.
Afterwards the store is whole and the pipelines are cache hits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from host_steps import END, HOST
from scripted_driver import ScriptedDriver

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

#: For each command a failure, and the lies that the program could see.
FAULTS_WITH_A_CACHE = [
    "create-cache=null",
    "get-data=error:device-lost?data",
    "get-data=grow",
    "get-data=overstate",
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

#: What a driver lacks, or does not tell: threads that create pipelines in batches notice nothing of it.
LACKS = [
    "",
    "cache-control=no",
    "create-device=error:feature-not-present?cache-control",
    "pipeline=error:compile-required?may-not-compile",
    "pipeline=error:compile-required?may-not-compile?compute",
    "pipeline=error:compile-required?may-not-compile?graphics",
    "create-cache=error:initialization-failed?data",
    "feedback=no",
    "feedback=no-hits",
]

BATCHES: list[str | int] = ["--count", 24, "--threads", 3, "--batch", 4]
OWN_CACHE: list[str | int] = ["--count", 8, "--cache", "object", "--feedback"]


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


NO_CACHE: list[str | int] = ["--count", 8]
NOTICES_NOTHING = [(script, NO_CACHE) for script in FAULTS] + [(script, OWN_CACHE) for script in FAULTS_WITH_A_CACHE]
NOTICES_NOTHING += [
    (script, BATCHES) for script in (*LACKS, "get-data=incomplete", "merge=error:out-of-device-memory@1")
]
#: Every command of the device fails, from the first or a later one on.
NOTICES_NOTHING += [("any=error:device-lost", NO_CACHE), ("any=error:device-lost@5+", OWN_CACHE)]
NOTICES_NOTHING += [("any=error:out-of-host-memory", NO_CACHE), ("any=error:out-of-host-memory", OWN_CACHE)]


@pytest.mark.parametrize(("script", "arguments"), NOTICES_NOTHING)
def test_program_notices_nothing(scripted: ScriptedDriver, script: str, arguments: list[str | int]) -> None:
    """The program sees what it sees without the layer, including its failures. Once the fault is gone, every pipeline
    is a cache hit."""
    assert scripted.compiles_after(script, *arguments) == 0


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
    a later run finds both, whether the layer reads the store or policy does."""
    recipe = "device control modules\n"
    recipe += "".join(f"one{n}: compute - : P{n} shader=comp0 spec=1000:{n}\n" for n in range(2))
    for compiled, driver_compiles in ((2, 1), (0, 0), (0, 0)):
        scripted.recipe(recipe)
        assert (scripted.world.last()["compiled"], scripted.take_counts()["compiles"]) == (compiled, driver_compiles)
    shutil.rmtree(scripted.world.store / "plans")
    scripted.recipe(recipe)
    assert (scripted.world.last()["compiled"], scripted.world.last()["hits"]) == (0, 2)


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
        assert set(result.get("results", [])) <= {"VK_SUCCESS", "VK_ERROR_OUT_OF_HOST_MEMORY"}
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
            assert set(result["results"]) <= {"VK_SUCCESS", "VK_ERROR_DEVICE_LOST"}
    scripted.demo("--count", 12, verify=True)
    scripted.demo("--count", 12)
    assert scripted.counts["compiles"] == 0
