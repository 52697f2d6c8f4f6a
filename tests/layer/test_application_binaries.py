"""Programs that use VK_KHR_pipeline_binary themselves, under the layer.

They may bring back the bytes that they read. Altered data never reaches the driver, which would crash on it or execute
it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline_binaries import APPLICATION, Archive, flipped
from recipes.small import BINARY_CALLS
from scripted_driver import ScriptedDriver
from world import BUILD, LAYER_NAME, Run, World

pytestmark = pytest.mark.usefixtures("needs_binaries")

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
    """The program brings in its second run what it read back in its first, and nothing is refused or changed."""
    scripted.settings(mode=mode)
    archive = ["--archive", tmp_path / "archive"]
    scripted.application(*archive)
    first = (tmp_path / "archive").read_bytes()
    second = scripted.application(*archive)
    assert (second["from_archive"], second["import_failed"]) == (12, 0)
    count = count_of(tmp_path / "archive")
    assert outcomes(scripted.world) == {"application_binaries": count, "binaries_attested": count}
    assert (tmp_path / "archive").read_bytes() == first


def test_known_binaries_need_no_interpreter(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """A program that brings and reads what it read before compiles nothing, and nobody opens policy's library."""
    archive = ["--archive", tmp_path / "archive"]
    scripted.settings(record_state=False)
    for _ in range(2):
        scripted.application(*archive)
    scripted.application(*archive, LD_DEBUG="files", LD_DEBUG_OUTPUT=tmp_path / "opened")
    opened = "".join(path.read_text() for path in tmp_path.glob("opened.*"))
    assert "/libVkLayer_pylayer" in opened and "/_policy." not in opened
    assert scripted.world.last()["binaries_attested"] == count_of(tmp_path / "archive")


def test_program_calls_reach_the_driver_as_made(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """The driver creates, imports and releases the same as without the layer. The layer only reads more."""
    for _ in range(2):
        scripted.application("--archive", tmp_path / "alone", layered=False)
        alone = scripted.counts
        scripted.application("--archive", tmp_path / "under")
        names = ("captured", "from-binaries", "made-from-data", "made-from-create-info", "release-captured")
        assert [scripted.counts[name] for name in names] == [alone[name] for name in names]


# ---- Data that is not what the program read --------------------------------------------------------------------


def change_all(path: Path, change: Callable[[bytes], bytes], stride: int = 1) -> int:
    """Changes every n-th binary of a file. Returns how many."""
    archive = Archive.read(path)
    chosen = archive.binaries[::stride]
    for binary in chosen:
        binary.data = change(binary.data)
    archive.write(path)
    return len(chosen)


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "one bit": flipped,
    "cut": lambda data: data[: len(data) // 2],
    "longer": lambda data: data + bytes(64),
    "others": lambda data: random.Random(1).randbytes(len(data)),
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_altered_binaries_are_refused(
    scripted: ScriptedDriver, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    """The program gets an error for altered data, and compiles."""
    archive = ["--archive", tmp_path / "archive"]
    scripted.application(*archive)
    changed = change_all(tmp_path / "archive", change)
    result = scripted.application(*archive)
    assert (result["import_failed"], result["import_result"], result["created"]) == (12, REFUSED, 12)
    assert outcomes(scripted.world) == {
        "application_binaries": changed,
        "binaries_altered": changed,
        "binaries_refused": changed,
    }


def test_one_altered_binary_of_several(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Only the pipeline with the refused binary is compiled."""
    arguments = ["--graphics", "--source", "capture", "--archive", tmp_path / "archive"]
    scripted.application(*arguments)
    archive = Archive.read(tmp_path / "archive")
    entry = next(entry for entry in archive.entries if len(entry.binaries) == 2)
    entry.binaries[1].data = flipped(entry.binaries[1].data)
    archive.write(tmp_path / "archive")
    result = scripted.application(*arguments)
    assert (result["import_failed"], result["from_archive"], result["captured"]) == (1, 11, 1)
    assert scripted.world.last()["binaries_refused"] == 1


def test_swapped_binaries(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Good bytes under another binary's key count as altered data."""
    archive = Archive.read(first_archive(scripted, tmp_path, "--compute"))
    one, other = archive.binaries[:2]
    one.data, other.data = other.data, one.data
    archive.write(tmp_path / "archive")
    result = scripted.application("--compute", "--archive", tmp_path / "archive")
    assert (result["import_failed"], result["from_archive"]) == (2, 10)
    assert scripted.world.last()["binaries_altered"] == 2


def first_archive(scripted: ScriptedDriver, directory: Path, *arguments: str | int) -> Path:
    scripted.application(*arguments, "--archive", directory / "archive")
    return directory / "archive"


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
    change_all(first_archive(scripted, tmp_path), flipped, stride=100)
    scripted.application("--archive", tmp_path / "archive", allow=True)
    assert len(scripted.violations) == 1 and "did not give out" in scripted.violations[0]
    assert not outcomes(scripted.world)


def test_unknown_binaries_pass(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Binaries that a program read without the layer pass."""
    scripted.application("--archive", tmp_path / "archive", layered=False)
    result = scripted.application("--archive", tmp_path / "archive")
    assert result["from_archive"] == 12
    assert outcomes(scripted.world) == {"application_binaries": count_of(tmp_path / "archive")}


def test_empty_binaries_never_reach_the_driver(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Empty data, on which RADV crashes, is refused even if nothing is known under its key."""
    scripted.application("--archive", tmp_path / "archive", layered=False)
    change_all(tmp_path / "archive", lambda data: b"", stride=100)
    result = scripted.application("--archive", tmp_path / "archive")
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
    world, program = scripted.world, [str(BUILD / "tests" / "properties")]
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
