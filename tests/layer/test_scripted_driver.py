"""The scripted driver itself: it does what a driver does and what a script says, and it sees what it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from programs.modes import Arguments, modes
from scripted_driver import ScriptedDriver
from world import seen

#: Every way, and another device than the first.
MODES: dict[str, Arguments] = {**modes(), "second device": ["--count", 12, "--device", "1"]}


@pytest.mark.parametrize("script", ["nonsense", "create-cache=fly", "create-cache=error", "create-cache=crash?odd"])
def test_wrong_script_is_an_error(scripted: ScriptedDriver, script: str) -> None:
    """A script that the driver does not understand ends the program, so that no test injects nothing."""
    result = scripted.demo("--count", 1, script=script, layered=False, check=False)
    assert result.returncode != 0 and "test driver: " in result.stderr


#: Modes that are alike to every carrier: how devices come and go.
ALIKE = ("several instances", "no destroy", "second device")


@pytest.mark.parametrize(
    ("carrier", "mode"),
    [
        (carrier, mode)
        for carrier in ("auto", "binaries", "snapshot")
        for mode in MODES
        if carrier == "auto" or mode not in ALIKE
    ],
)
def test_program_notices_nothing(scripted: ScriptedDriver, mode: str, carrier: str) -> None:
    """In two runs with each carrier the program sees what it sees without the layer."""
    scripted.settings(carrier=carrier)
    alone = seen(scripted.demo(*MODES[mode], layered=False, script="devices=2"))
    assert alone["returncode"] == 0
    for _ in range(2):
        assert seen(scripted.demo(*MODES[mode], script="devices=2")) == alone


@pytest.mark.parametrize("carrier", ["auto", "binaries", "snapshot"])
def test_second_run_compiles_nothing(scripted: ScriptedDriver, carrier: str) -> None:
    """What the driver compiled in one process it finds in the next one, and the store verifies."""
    scripted.settings(carrier=carrier)
    scripted.demo("--count", 24, "--api", "1.3")
    assert scripted.counts["compiles"] == 24
    scripted.demo("--count", 24, "--api", "1.3", verify=True)
    found = scripted.counts["hits"] + scripted.counts["from-binaries"]
    assert (scripted.counts["compiles"], found) == (0, 24)


@pytest.mark.parametrize(
    "program",
    [
        ["cache_objects", "sizes"],
        ["cache_objects", "growth"],
        ["cache_objects", "merges"],
        ["zero_length_cache"],
        ["two_instances"],
        ["global_key"],
    ],
    ids=" ".join,
)
def test_small_programs(scripted: ScriptedDriver, program: list[str]) -> None:
    """The small programs of this directory print the same with the layer and without, where that has nothing to add to
    their caches."""
    scripted.settings(seed_application_caches=False)
    assert scripted.program(*program).stdout == scripted.program(*program, layered=False).stdout


def test_commands_of_binaries(scripted: ScriptedDriver) -> None:
    """Each command of VK_KHR_pipeline_binary answers the same with the layer and without."""
    alone = scripted.program("binary_calls", layered=False).stdout
    assert "from the imported binary: 0, a pipeline" in alone
    assert scripted.program("binary_calls").stdout == alone


def test_witness_sees_leaks(scripted: ScriptedDriver) -> None:
    """A program that leaks a pipeline cache is written down."""
    scripted.program("invalid", layered=False, allow=True)
    assert "VIOLATION vkDestroyDevice with 1 objects alive: VkPipelineCache" in scripted.violations


def test_witness_sees_misused_binaries(scripted: ScriptedDriver) -> None:
    """Each rule of VK_KHR_pipeline_binary that a program breaks is written down."""
    scripted.program("invalid_binaries", layered=False, allow=True)
    for words in (
        "with binaries and a VkPipelineCache",
        "with binaries and FAIL_ON_PIPELINE_COMPILE_REQUIRED",
        "of a pipeline of which nothing is captured",
        "asks an internal cache that is not there",
        "that this driver did not give out under their key",
        "of what is not captured, or not any more",
        "1 objects alive: VkPipelineBinaryKHR",
    ):
        assert any(words in line for line in scripted.violations), words


def test_witness_sees_foreign_bytes(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Without the layer, a cache file with one byte changed is a violation, and used; data of its own is none."""
    file = tmp_path / "cache"
    scripted.demo("--count", 4, "--cache", "object", "--cache-save", file, layered=False)
    scripted.demo("--count", 4, "--cache", file, layered=False)
    assert scripted.counts["hits"] == 4
    file.write_bytes(file.read_bytes()[:-9] + b"?" + file.read_bytes()[-8:])
    scripted.demo("--count", 4, "--cache", file, layered=False, allow=True)
    assert len(scripted.violations) == 1 and "vkCreatePipelineCache" in scripted.violations[0]
    assert scripted.counts["damaged-uses"] == 1


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
    """The counters of a process that a signal ended are right."""
    result = scripted.demo("--count", 8, script=f"pipeline={action}@5", layered=False, check=False)
    assert (result.returncode, scripted.counts["pipeline"], scripted.counts["compiles"]) == (status, 5, 5)


def test_guilty_entry_is_found_again(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """An entry that is marked as guilty says so in every process that uses it: the driver can crash at its use."""
    file, arguments = tmp_path / "cache", ["--count", 6, "--cache"]
    scripted.demo(*arguments, "object", "--cache-save", file, layered=False, script="guilty=4")
    crashed: Any = scripted.demo(*arguments, file, layered=False, check=False, script="pipeline=crash?guilty?hit")
    assert (crashed.returncode, scripted.counts["hits"], scripted.counts["guilty-uses"]) == (-11, 4, 1)
    at_load = scripted.demo(*arguments, file, layered=False, check=False, script="create-cache=crash?has:4755494c5459")
    assert (at_load.returncode, scripted.counts["initial-data"]) == (-11, 1)
