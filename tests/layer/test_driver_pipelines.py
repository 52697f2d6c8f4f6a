"""A driver that fails to create pipelines from stored data. The program still gets its pipelines."""

from __future__ import annotations

from typing import Any

import pytest
from programs.ways import ways
from scripted_driver import ScriptedDriver
from world import seen

PROGRAMS = ways(only=("Vulkan 1.3", "early return", "own cache, feedback"))

#: Faults when a pipeline is created from stored data, in a VkPipelineCache or as binaries. Without the layer they never
#: happen.
FROM_CACHE = [
    "pipeline=error:out-of-host-memory?hit",
    "pipeline=error:unknown?hit@3",
    "pipeline=error:1000999999?hit@/2",
    "pipeline=null?hit",
    "pipeline=null?hit@3",
    "pipeline=slow:5?hit",
]
FROM_BINARIES = [
    "pipeline=error:out-of-host-memory?from-binaries",
    "pipeline=error:1000999999?from-binaries@3",
    "pipeline=null?from-binaries",
    "pipeline=null?from-binaries@3",
]
WAYS = [
    *[(mode, program, FROM_CACHE) for mode in ("auto",) for program in PROGRAMS],
    ("binaries", "Vulkan 1.3", FROM_BINARIES),
]


@pytest.mark.parametrize(("mode", "program", "scripts"), WAYS)
def test_what_is_stored_cannot_be_used(scripted: ScriptedDriver, mode: str, program: str, scripts: list[str]) -> None:
    """If creating a pipeline from stored data fails, or returns VK_SUCCESS and no pipeline, it is compiled, and the
    program gets it."""
    scripted.settings(mode=mode)
    first = seen(scripted.demo(*PROGRAMS[program], layered=False))
    assert seen(scripted.demo(*PROGRAMS[program])) == first
    for script in scripts:
        assert seen(scripted.demo(*PROGRAMS[program], script=script)) == first, script
        assert scripted.counts["acts"] > 0, script
        scripted.verify()
    scripted.demo(*PROGRAMS[program])
    assert scripted.counts["compiles"] == 0


@pytest.mark.parametrize(
    ("mode", "script"),
    [
        ("auto", "pipeline=null"),
        ("auto", "pipeline=error:invalid-shader"),
        ("auto", "pipeline=error:1000999999"),
        ("binaries", "pipeline=null"),
        ("binaries", "pipeline=error:invalid-shader"),
    ],
)
def test_no_pipeline_can_be_created(scripted: ScriptedDriver, script: str, mode: str) -> None:
    """If every compile fails, or returns VK_SUCCESS and no pipeline, the program sees what it sees without the
    layer."""
    scripted.settings(mode=mode)
    assert scripted.compiles_after(script, *PROGRAMS["early return"]) == 0


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
        assert set(result["results"]) <= {"VK_SUCCESS", "VK_ERROR_DEVICE_LOST"}
    assert scripted.counts["acts"] in (0, 8)
