"""The scripted driver itself: it behaves as a driver and as its script says, and its witness checks what it is
given."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_steps import LEAKS_A_CACHE
from programs.ways import Arguments, ways
from scripted_driver import ScriptedDriver
from world import seen

#: Every way, and one that uses the second device.
WAYS: dict[str, Arguments] = {**ways(), "second device": ["--count", 12, "--device", "1"]}


@pytest.mark.parametrize("script", ["nonsense", "create-cache=fly", "create-cache=error", "create-cache=crash?odd"])
def test_wrong_script_is_an_error(scripted: ScriptedDriver, script: str) -> None:
    """An invalid script ends the program, so that a misspelt one cannot pass a test by injecting nothing."""
    result = scripted.demo("--count", 1, script=script, layered=False, check=False)
    assert result.returncode != 0 and "test driver: " in result.stderr


#: Programs that run differently with each mode. The others are about the process, the device and its version, which do
#: not depend on the mode, or have less than one of these.
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
    ("mode", "way"),
    [(mode, way) for mode in ("auto", "binaries") for way in WAYS if mode == "auto" or way in DIFFERENT],
)
def test_program_notices_nothing(scripted: ScriptedDriver, way: str, mode: str) -> None:
    """With each mode the program sees in two runs what it sees without the layer."""
    scripted.settings(mode=mode)
    alone = seen(scripted.demo(*WAYS[way], layered=False, script="devices=2"))
    assert alone["returncode"] == 0
    for _ in range(2):
        assert seen(scripted.demo(*WAYS[way], script="devices=2")) == alone


def test_witness_sees_leaks(scripted: ScriptedDriver) -> None:
    """The witness reports a program that leaks a pipeline cache."""
    scripted.program(LEAKS_A_CACHE, layered=False, allow=True)
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
