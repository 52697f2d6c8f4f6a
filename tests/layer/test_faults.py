"""Drivers that fail, lie or know little: the program sees what it sees without the layer, or something better.

A test layer stands between the layer and the driver. It injects the faults, and writes down every use of the
driver that Vulkan forbids; no run here may have one.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from world import BUILD, FAULTS, LAYER_NAME, Run, World

BOTH = f"{LAYER_NAME}:{FAULTS}"

#: What the program sees of its pipelines.
SEEN = ("pipelines", "created", "failed", "null_handles", "compile_required", "calls", "results")

#: Faults under which every call of the program itself still succeeds without the layer.
HARMLESS = [
    "",
    "no-cache-control",
    "device-refuses-cache-control",
    "probe-misses",
    "probe-misses=compute",
    "probe-misses=graphics",
    "cache-data-refused",
    "stub-cache",
    "stub-cache=empty",
    "data-grows",
    "data-incomplete",
    "data-fails",
    "data-fails=1",
    "data-fails=3",
    "merge-fails",
    "merge-fails=1",
    "no-feedback",
    "feedback-without-hit-bit",
    "slow-cache=2",
]

#: Of those, the ones that make no difference to the cells carrier: the second run only hits.
WITHOUT_CONSEQUENCE = [
    "",
    "data-grows",
    "data-fails=1",
    "no-feedback",
    "feedback-without-hit-bit",
    "no-feedback,data-grows",
    "slow-cache=2",
]

#: Ways to the snapshot carrier: the feature is not there, or only said to be.
WITHOUT_CACHE_CONTROL = ["no-cache-control", "device-refuses-cache-control"]

Demo = Callable[..., Run]


@pytest.fixture
def faulty(world: World, tmp_path: Path) -> Demo:
    """The demo on a driver with faults: the layer is above it, or is not with ``layers=FAULTS``."""
    numbers = itertools.count()

    def run(faults: str, *arguments: str | int, layers: str = BOTH, check: bool = True, **environment: Any) -> Run:
        log = tmp_path / f"faults-{next(numbers)}.log"
        result = world.demo(
            *arguments,
            layers=layers,
            check=check,
            PYLAYER_TEST_FAULTS=faults,
            PYLAYER_TEST_FAULTS_LOG=str(log),
            **environment,
        )
        result["witness"] = log.read_text().splitlines()
        assert not [line for line in result["witness"] if "VIOLATION" in line]
        return result

    return run


def seen(result: Run) -> dict[str, Any]:
    return {key: result.get(key) for key in SEEN}


# ---- The witness itself ------------------------------------------------------------------------------


def test_witness_tells(world: World, tmp_path: Path) -> None:
    """A program that leaks a pipeline cache is written down: the test layer does look."""
    log = tmp_path / "faults.log"
    world.run([str(BUILD / "tests" / "invalid")], VK_INSTANCE_LAYERS=FAULTS, PYLAYER_TEST_FAULTS_LOG=str(log))
    assert "VIOLATION vkDestroyDevice with 1 objects alive: VkPipelineCache" in log.read_text()


def test_unknown_fault_is_an_error(world: World) -> None:
    """A fault that does not exist ends the program, so that no test injects nothing."""
    result = world.demo("--count", 1, check=False, layers=FAULTS, PYLAYER_TEST_FAULTS="no-such-thing")
    assert result.returncode != 0 and "no such fault" in result.stderr


# ---- Every fault -------------------------------------------------------------------------------------


@pytest.mark.parametrize("faults", HARMLESS)
def test_program_notices_nothing(faulty: Demo, faults: str) -> None:
    """In three runs of threads with batches the program sees what it sees without the layer."""
    arguments = ["--count", 24, "--threads", 3, "--batch", 4]
    alone = seen(faulty(faults, *arguments, layers=FAULTS))
    for _ in range(3):
        assert seen(faulty(faults, *arguments)) == alone


@pytest.mark.parametrize("faults", HARMLESS)
def test_program_with_a_cache_notices_nothing(faulty: Demo, faults: str) -> None:
    """With a VkPipelineCache object of its own the program sees what it sees without the layer."""
    arguments = ["--count", 12, "--threads", 2, "--cache", "object", "--feedback"]
    alone = seen(faulty(faults, *arguments, layers=FAULTS))
    for _ in range(2):
        assert seen(faulty(faults, *arguments)) == alone


@pytest.mark.parametrize("faults", [faults for faults in HARMLESS if faults not in WITHOUT_CACHE_CONTROL])
def test_program_that_may_not_compile_notices_nothing(faulty: Demo, faults: str) -> None:
    """FAIL_ON_PIPELINE_COMPILE_REQUIRED set by the program is obeyed under every fault that leaves it the flag."""
    arguments = ["--count", 8, "--batch", 4, "--fail-on-compile-required", "--early-return"]
    alone = seen(faulty(faults, *arguments, layers=FAULTS))
    assert seen(faulty(faults, *arguments)) == alone


@pytest.mark.parametrize("faults", WITHOUT_CONSEQUENCE)
def test_second_run_compiles_nothing(world: World, faulty: Demo, faults: str) -> None:
    """Where the layer can do without what is missing, the second run hits all pipelines."""
    arguments = ["--count", 24, "--threads", 3, "--api", "1.3"]
    faulty(faults, *arguments)
    assert world.last()["compiled"] == 24
    faulty(faults, *arguments)
    counters = world.last()
    assert (counters["hits"], counters["compiled"], counters["adopted"]) == (24, 0, 0)
    assert world.runs()[-1]["carrier"] == "cells"


def test_feedback_that_never_tells_of_hits(faulty: Demo) -> None:
    """One pipeline, not each, is created twice to find out that the driver's feedback says nothing."""
    faulty("feedback-without-hit-bit", "--count", 12)
    faulty("feedback-without-hit-bit", "--count", 12)
    for layers in (FAULTS, BOTH):
        result = faulty("feedback-without-hit-bit", "--count", 12, "--feedback", layers=layers)
        assert result["feedback"] == {"valid": 12, "application_cache_hit": 0, "untouched": 0}


# ---- A driver without pipelineCreationCacheControl: the snapshot carrier -------------------------------

SNAPSHOT_MODES: dict[str, list[str | int]] = {
    "one by one": ["--count", 24],
    "batches": ["--count", 24, "--batch", 8],
    "threads": ["--count", 24, "--threads", 3],
    "own cache": ["--count", 24, "--cache", "object"],
    "own cache, threads": ["--count", 24, "--cache", "object", "--threads", 3],
    "Vulkan 1.0": ["--count", 12, "--api", "1.0"],
    "Vulkan 1.3": ["--count", 12, "--api", "1.3"],
    "Vulkan 1.3, features chained": ["--count", 12, "--api", "1.3", "--features13"],
    "ray tracing": ["--count", 2, "--ray-tracing"],
    "libraries": ["--count", 4, "--gpl"],
    "second device": ["--count", 12, "--repeat-instances", 2],
    "no destroy": ["--count", 12, "--no-destroy"],
    "no destroy, exit": ["--count", 12, "--exit", "exit"],
    "own cache, no destroy": ["--count", 12, "--cache", "object", "--no-destroy"],
    "own cache, no destroy, exit": ["--count", 12, "--cache", "object", "--exit", "exit"],
}


@pytest.mark.parametrize("faults", WITHOUT_CACHE_CONTROL)
@pytest.mark.parametrize("mode", SNAPSHOT_MODES)
def test_snapshot_carrier(world: World, faulty: Demo, mode: str, faults: str) -> None:
    """Without cache control the second run compiles nothing either, in every mode and however the program ends."""
    cold = faulty(faults, *SNAPSHOT_MODES[mode])
    run = world.runs()[-1]
    assert run["carrier"] == "snapshot" and run["stored_records"] == 1
    warm = faulty(faults, *SNAPSHOT_MODES[mode])
    counters = world.last()
    assert counters["plain"] == counters["pipelines"] == warm["created"] == cold["created"]
    # Below Vulkan 1.3 a device made as the program asked has no creation feedback; the last run's device has it.
    assert counters["plain_compiled"] == 0
    assert (world.runs()[-1]["loaded_records"], counters["load_failed"]) == (1, 0)
    faulty("no-cache-control", *SNAPSHOT_MODES[mode])
    assert world.last()["plain_compiled"] == 0


def test_snapshots_of_two_processes(world: World, tmp_path: Path) -> None:
    """Two processes that write snapshots at the same time leave a store with the pipelines of both."""
    faults = {"PYLAYER_TEST_FAULTS": "no-cache-control", "PYLAYER_TEST_FAULTS_LOG": str(tmp_path / "faults.log")}
    environment = {**world.environment, **faults, "VK_INSTANCE_LAYERS": BOTH}
    command = [str(BUILD / "demo" / "pipelines"), "--count", "24", "--seed"]
    both = [subprocess.Popen([*command, seed], env=environment, stderr=subprocess.DEVNULL) for seed in "12"]
    assert [process.wait(120) for process in both] == [0, 0]
    for seed in (1, 2):
        world.demo("--count", 24, "--seed", seed, layers=BOTH, **faults)
        assert world.last()["plain_compiled"] == 0
    assert "VIOLATION" not in (tmp_path / "faults.log").read_text()


@pytest.mark.parametrize("ending", ["_exit", "abort"])
def test_snapshot_of_a_program_that_just_stops(world: World, faulty: Demo, ending: str) -> None:
    """A program that stops without exit() loses at most what it compiled, never what was stored before."""
    faulty("no-cache-control", "--count", 12)
    faulty("no-cache-control", "--count", 24, "--exit", ending, check=False)
    faulty("no-cache-control", "--count", 12)
    assert world.last()["plain_compiled"] == 0


def test_snapshot_grows(world: World, faulty: Demo) -> None:
    """A later run's snapshot holds what earlier ones held, and takes their place."""
    config = world.directory / "policy.yaml"
    config.write_text("settings: {fsync_interval_ms: 0}\n")  # else a process may end before the old one is deleted
    for count in (8, 16, 24):
        faulty("no-cache-control", "--count", count, PYLAYER_CONFIG=str(config))
        assert world.last()["plain_compiled"] == 8
    assert len(list(world.store.glob("store/*/*.snapshot"))) == 1
    faulty("no-cache-control", "--count", 24)
    assert world.last()["plain_compiled"] == 0


def test_snapshot_without_any_feedback(world: World, faulty: Demo) -> None:
    """A driver that has creation feedback and leaves it unwritten gets its snapshot all the same."""
    arguments = ["--count", 12, "--api", "1.3"]
    faulty("no-cache-control,no-feedback", *arguments)
    assert world.runs()[-1]["stored_records"] == 1
    faulty("no-cache-control", *arguments)
    assert world.last()["plain_compiled"] == 0


def devices(result: Run) -> list[str]:
    """One line for each vkCreateDevice that reached the driver: its chain and its extensions."""
    return [line for line in result["witness"] if "vkCreateDevice" in line]


@pytest.mark.parametrize(
    "arguments",
    [["--api", "1.0"], ["--api", "1.1", "--feedback"], ["--api", "1.3", "--features13"], ["--ray-tracing"], ["--gpl"]],
    ids=" ".join,
)
def test_device_is_created_as_the_program_made_it(faulty: Demo, arguments: list[str]) -> None:
    """A device refused with cache control is asked for again with the program's own chain and extensions."""
    alone = devices(faulty("device-refuses-cache-control", "--count", 2, *arguments, layers=FAULTS))
    layered = devices(faulty("device-refuses-cache-control", "--count", 2, *arguments))
    assert len(alone) == 1 and len(layered) == 2
    assert "refused=-8" in layered[0]
    assert layered[1] == alone[0]


def test_device_that_cannot_be_created(faulty: Demo) -> None:
    """The program gets the driver's own error when no device can be created at all."""
    alone = faulty("device-refused", "--count", 1, layers=FAULTS, check=False)
    layered = faulty("device-refused", "--count", 1, check=False)
    assert layered.returncode == alone.returncode == 1
    assert alone.stderr.splitlines()[-1] in layered.stderr


# ---- Probes that never hit -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["compute", "graphics"])
def test_probe_misses_are_noticed(world: World, faulty: Demo, kind: str) -> None:
    """The second run learns that this kind cannot be probed, the third compiles nothing."""
    arguments = ["--count", 40, "--api", "1.3"]
    faulty(f"probe-misses={kind}", *arguments)
    assert world.last()["compiled"] == 40
    second = faulty(f"probe-misses={kind}", *arguments)
    counters = world.last()
    assert f"{kind} pipelines are created without a probe" in second.stderr
    assert 0 < counters["compiled"] < 20 and counters["hits"] == 20
    faulty(f"probe-misses={kind}", *arguments)
    counters = world.last()
    assert (counters["compiled"], counters["plain"], counters["plain_compiled"]) == (0, 20, 0)
    assert counters["hits"] == 20


def test_probe_misses_with_own_cache(world: World, faulty: Demo) -> None:
    """A program with its own cache gets right results where probes never hit, and stores each pipeline once."""
    for _ in range(3):
        assert faulty("probe-misses", "--count", 12, "--cache", "object")["created"] == 12
    assert sum(run["stored_records"] for run in world.runs()) <= 14


# ---- Caches that the driver refuses ----------------------------------------------------------------------


def test_driver_fails_on_initial_data(world: World, faulty: Demo, tmp_path: Path) -> None:
    """Where the driver fails on a program's own good data the program gets an empty cache and works."""
    saved = tmp_path / "application.cache"
    world.demo("--count", 12, "--cache", "object", "--cache-save", saved, layers=None)
    alone = faulty("cache-data-refused", "--count", 12, "--cache", saved, layers=FAULTS, check=False)
    assert alone.returncode != 0 and "vkCreatePipelineCache" in alone.stderr
    layered = faulty("cache-data-refused", "--count", 12, "--cache", saved)
    assert layered["created"] == 12
    assert world.last()["caches_emptied"] == 1
    assert world.runs()[-1]["refused"] == {"driver-error": 1}


@pytest.mark.parametrize("faults", ["cache-data-refused", "merge-fails"])
def test_refused_records_say_nothing_about_probes(world: World, faulty: Demo, faults: str) -> None:
    """Records that the driver refused in one run are used in the next: nothing is noted, nothing is lost."""
    faulty("", "--count", 24)
    refused = faulty(faults, "--count", 24)
    counters = world.last()
    assert (counters["load_failed"], counters["compiled"]) == (24, 24)
    assert "without a probe" not in refused.stderr
    assert "refused 24 stored records" in refused.stderr
    assert world.runs()[-1]["stored_records"] == 0
    faulty("", "--count", 24)
    counters = world.last()
    assert (counters["hits"], counters["compiled"], counters["plain"]) == (24, 0, 0)


def test_no_cache_can_be_made(world: World, faulty: Demo) -> None:
    """Where the driver makes no cache at all the layer is off and the pipelines are the driver's own."""
    alone = seen(faulty("cache-refused", "--count", 12, "--batch", 4, layers=FAULTS))
    layered = faulty("cache-refused", "--count", 12, "--batch", 4)
    assert seen(layered) == alone
    assert world.runs()[-1]["carrier"] == "off" and world.last()["passed"] == 12


@pytest.mark.parametrize("made", [1, 2, 7])
def test_no_more_caches_can_be_made(world: World, faulty: Demo, made: int) -> None:
    """Where the driver stops making caches the pipelines are still created."""
    alone = seen(faulty(f"cache-refused={made}", "--count", 12, "--threads", 2, layers=FAULTS))
    assert seen(faulty(f"cache-refused={made}", "--count", 12, "--threads", 2)) == alone
    counters = world.last()
    # The first cache is the layer's own.
    assert (counters["compiled"], counters["plain"]) == (made - 1, 12 - (made - 1))


# ---- Caches that keep or give nothing --------------------------------------------------------------------


@pytest.mark.parametrize("faults", ["stub-cache", "stub-cache=empty"])
def test_stub_cache(world: World, faulty: Demo, faults: str) -> None:
    """Of a cache that keeps nothing the layer says so in one line and stays out, from the start the next time."""
    first = faulty(faults, "--count", 40, PYLAYER_LOG="info")
    assert first.stderr.count("nothing can be stored; the layer stays out") == 1
    counters = world.last()
    assert counters["compiled"] == 0 and counters["passed"] > 0
    second = faulty(faults, "--count", 40, PYLAYER_LOG="info")
    assert second.stderr.count("nothing can be stored; the layer stays out") == 1
    assert (world.last()["passed"], world.last()["uncacheable"]) == (40, 0)


@pytest.mark.parametrize("faults", ["data-incomplete", "data-fails"])
def test_unreadable_cache(world: World, faulty: Demo, faults: str) -> None:
    """Of a driver that does not give its data the layer says so once, counts what is lost, and stores nothing."""
    result = faulty(faults, "--count", 12, "--threads", 2, PYLAYER_LOG="warn")
    assert result.stderr.count("the driver does not give the data of a pipeline cache") == 1
    assert world.last()["events_dropped"] == 12
    assert world.runs()[-1]["stored_records"] == 0


def test_empty_cache_that_cannot_be_read(world: World, faulty: Demo) -> None:
    """Where only the first read fails, that of the layer's empty cache, nothing is compared with it."""
    assert faulty("stub-cache=empty,data-fails=1", "--count", 12, "--api", "1.3")["created"] == 12
    assert world.last()["compiled"] == 12


@pytest.mark.parametrize("faults", ["data-incomplete", "data-fails", "stub-cache", "merge-fails"])
def test_snapshot_that_cannot_be_taken(world: World, faulty: Demo, faults: str) -> None:
    """Without cache control, too, such drivers cost nothing but the store."""
    for _ in range(2):
        assert faulty(f"no-cache-control,{faults}", "--count", 12)["created"] == 12
        assert world.runs()[-1]["carrier"] in ("snapshot", "off")


# ---- Pipelines that fail ---------------------------------------------------------------------------------

FAILING_MODES: dict[str, list[str | int]] = {
    "one by one": ["--count", 30],
    "batches": ["--count", 30, "--batch", 6],
    "large batches": ["--count", 30, "--batch", 15],
    "early return": ["--count", 30, "--batch", 6, "--early-return"],
    "derivatives": ["--count", 30, "--batch", 6, "--derivatives"],
    "derivatives, early return": ["--count", 30, "--batch", 6, "--derivatives", "--early-return"],
    "own cache, early return": ["--count", 30, "--batch", 6, "--early-return", "--cache", "object"],
    "threads": ["--count", 30, "--batch", 3, "--threads", 3],
    "graphics with feedback": ["--count", 20, "--batch", 5, "--graphics", "--feedback"],
    "ray tracing": ["--count", 12, "--batch", 4, "--ray-tracing", "--feedback"],
}


@pytest.mark.parametrize("mode", FAILING_MODES)
def test_failing_pipelines(world: World, faulty: Demo, mode: str) -> None:
    """Pipelines that the driver refuses fail with its result, cold and warm; the others are there."""
    faults = "pipelines-refused=5"
    alone = faulty(faults, *FAILING_MODES[mode], layers=FAULTS, check=False)
    assert alone["results"] == ["VK_SUCCESS", "VK_ERROR_UNKNOWN"] or alone["failed"] > 0
    for _ in range(2):
        layered = faulty(faults, *FAILING_MODES[mode], check=False)
        assert seen(layered) == seen(alone)
        assert layered.returncode == alone.returncode
    assert world.last()["compiled"] == 0
    assert world.last()["failed"] > 0


@pytest.mark.parametrize("mode", [mode for mode in FAILING_MODES if "early return" not in mode])
def test_failing_pipelines_without_cache_control(faulty: Demo, mode: str) -> None:
    """The snapshot carrier passes the driver's failures on unchanged."""
    faults = "no-cache-control,pipelines-refused=5"
    alone = faulty(faults, *FAILING_MODES[mode], layers=FAULTS, check=False)
    for _ in range(2):
        assert seen(faulty(faults, *FAILING_MODES[mode], check=False)) == seen(alone)


@pytest.mark.parametrize("number", [1, 7, 12])
def test_pipeline_that_fails_once(world: World, faulty: Demo, number: int) -> None:
    """A failure that passes, such as memory that is short for a moment, does not reach the program."""
    arguments = ["--count", 12, "--batch", 4]
    alone = faulty(f"pipeline-fails={number}", *arguments, layers=FAULTS, check=False)
    assert alone["failed"] == 1
    assert faulty(f"pipeline-fails={number}", *arguments)["created"] == 12
    faulty("", *arguments)
    assert world.last()["hits"] == 11 and world.last()["compiled"] == 1


# ---- Slow drivers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [["--exit", "exit"], ["--no-destroy"], []], ids=["exit", "return", "destroy"])
def test_end_while_loading(world: World, faulty: Demo, ending: list[str]) -> None:
    """A program that ends while its store is still being loaded ends at once, with no thread in the driver."""
    faulty("", "--count", 60)
    config = world.directory / "policy.yaml"
    config.write_text("settings: {load_wait_ms: 0}\n")
    result = faulty("slow-cache=100", "--count", 1, *ending, PYLAYER_CONFIG=str(config))
    assert result["created"] == 1
    assert "did not finish" not in result.stderr
    faulty("", "--count", 60)
    assert world.last()["hits"] == 60


def test_merges_and_reads_that_meet(world: World, faulty: Demo, tmp_path: Path) -> None:
    """Many threads with one cache of their own, on a driver slow enough to make them meet, break no rule."""
    saved = tmp_path / "application.cache"
    faulty("slow-cache=3", "--count", 40, "--threads", 8, "--cache", "object", "--cache-save", saved)
    faulty("slow-cache=3", "--count", 60, "--threads", 8, "--cache", "object")
    counters = world.last()
    assert (counters["hits"], counters["compiled"]) == (40, 20)
    alone = world.demo("--count", 40, "--cache", saved, "--feedback", layers=None)
    assert alone["feedback"]["application_cache_hit"] == 40
