"""The scripted driver itself: it behaves as a driver and as its script says, and its witness checks what it is
given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pipeline_binaries import Archive, flipped
from programs.modes import Arguments, modes
from scripted_driver import ScriptedDriver
from world import seen

#: Every mode, and one that uses the second device.
MODES: dict[str, Arguments] = {**modes(), "second device": ["--count", 12, "--device", "1"]}


@pytest.mark.parametrize("script", ["nonsense", "create-cache=fly", "create-cache=error", "create-cache=crash?odd"])
def test_wrong_script_is_an_error(scripted: ScriptedDriver, script: str) -> None:
    """An invalid script ends the program, so that a misspelt one cannot pass a test by injecting nothing."""
    result = scripted.demo("--count", 1, script=script, layered=False, check=False)
    assert result.returncode != 0 and "test driver: " in result.stderr


#: Modes in which carriers differ. The others are about the process, the device and its version, which do not depend on
#: the carrier, or have less than one of these.
DIFFERENT = (
    "ray tracing",
    "deferred ray tracing",
    "libraries, feedback",
    "large batches",
    "threads and batches",
    "derivatives",
    "early return",
    "may not compile",
    "feedback in batches",
    "own cache, threads",
    "own cache, batches",
    "own cache, feedback",
    "own cache, no destroy",
)


@pytest.mark.parametrize(
    ("carrier", "mode"),
    [(carrier, mode) for carrier in ("auto", "binaries") for mode in MODES if carrier == "auto" or mode in DIFFERENT],
)
def test_program_notices_nothing(scripted: ScriptedDriver, mode: str, carrier: str) -> None:
    """With each carrier the program sees in two runs what it sees without the layer."""
    scripted.settings(carrier=carrier)
    alone = seen(scripted.demo(*MODES[mode], layered=False, script="devices=2"))
    assert alone["returncode"] == 0
    for _ in range(2):
        assert seen(scripted.demo(*MODES[mode], script="devices=2")) == alone


@pytest.mark.parametrize("carrier", ["auto", "binaries"])
def test_second_run_compiles_nothing(scripted: ScriptedDriver, carrier: str) -> None:
    """Pipelines that the driver compiled in one process are found in the next one, and the store verifies."""
    scripted.settings(carrier=carrier)
    scripted.demo("--count", 24, "--api", "1.3")
    assert scripted.counts["compiles"] == 24
    scripted.demo("--count", 24, "--api", "1.3", verify=True)
    found = scripted.counts["hits"] + scripted.counts["from-binaries"]
    assert (scripted.counts["compiles"], found) == (0, 24)


def test_two_instances(scripted: ScriptedDriver) -> None:
    """A program with two instances prints the same with and without the layer."""
    assert scripted.program("two_instances").stdout == scripted.program("two_instances", layered=False).stdout


def test_witness_sees_leaks(scripted: ScriptedDriver) -> None:
    """The witness reports a program that leaks a pipeline cache."""
    scripted.program("invalid", layered=False, allow=True)
    assert "VIOLATION vkDestroyDevice with 1 objects alive: VkPipelineCache" in scripted.violations


def test_witness_sees_foreign_bytes(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Without the layer, a cache file with one byte changed is used and is a violation. The driver's own data is
    not."""
    file = tmp_path / "cache"
    scripted.demo("--count", 4, "--cache", "object", "--cache-save", file, layered=False)
    scripted.demo("--count", 4, "--cache", file, layered=False)
    assert scripted.counts["hits"] == 4
    file.write_bytes(file.read_bytes()[:-9] + b"?" + file.read_bytes()[-8:])
    scripted.demo("--count", 4, "--cache", file, layered=False, allow=True)
    assert len(scripted.violations) == 1 and "vkCreatePipelineCache" in scripted.violations[0]
    assert scripted.counts["damaged-uses"] == 1


@pytest.mark.usefixtures("needs_binaries")
def test_witness_in_front_of_radv(driver: ScriptedDriver, tmp_path: Path) -> None:
    """The witness layer reports one changed bit of one binary, and does not report data that RADV returned in another
    process."""
    path = tmp_path / "archive"
    for _ in range(2):
        driver.application("--archive", path, layered=False)
    archive = Archive.read(path)
    archive.binaries[7].data = flipped(archive.binaries[7].data)
    archive.write(path)
    result = driver.application("--archive", path, layered=False, allow=True)
    assert len(driver.violations) == 1 and "did not give out" in driver.violations[0]
    assert result["from_archive"] == 12  # and the driver accepted the altered data


def test_witness_sees_binaries_of_another_build(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Without the layer, binaries of another driver build under an equal global key are a violation."""
    file = tmp_path / "archive"
    arguments = ["--archive", file, "--count", 4]
    scripted.program("binaries", *arguments, layered=False)
    assert json.loads(scripted.program("binaries", *arguments, layered=False).stdout)["from_archive"] == 4
    scripted.program("binaries", *arguments, "--any-global-key", layered=False, allow=True, script="build=2")
    assert "vkCreatePipelineBinariesKHR" in scripted.violations[0]


@pytest.mark.parametrize(
    ("action", "status"), [("crash", -11), ("abort", -6), ("kill", -9)], ids=["crash", "abort", "kill"]
)
def test_counters_outlive_the_process(scripted: ScriptedDriver, action: str, status: int) -> None:
    """The counters are right after a signal ended the process."""
    result = scripted.demo("--count", 8, script=f"pipeline={action}@5", layered=False, check=False)
    assert (result.returncode, scripted.counts["pipeline"], scripted.counts["compiles"]) == (status, 5, 5)


def test_guilty_entry_is_found_again(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """A guilty entry is recognized in every process that uses it, so the driver can crash at its use."""
    file, arguments = tmp_path / "cache", ["--count", 6, "--cache"]
    scripted.demo(*arguments, "object", "--cache-save", file, layered=False, script="guilty=4")
    crashed: Any = scripted.demo(*arguments, file, layered=False, check=False, script="pipeline=crash?guilty?hit")
    assert (crashed.returncode, scripted.counts["hits"], scripted.counts["guilty-uses"]) == (-11, 4, 1)
    at_load = scripted.demo(*arguments, file, layered=False, check=False, script="create-cache=crash?has:4755494c5459")
    assert (at_load.returncode, scripted.counts["initial-data"]) == (-11, 1)
