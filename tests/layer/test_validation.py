"""The Khronos validation layer reports nothing about what the layer passes to the driver, nor about what it returns to
the program."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
from host_steps import LEAKS_A_CACHE
from layer.validation import VALIDATES, messages, validated
from pipeline_binaries import APPLICATION
from programs.ways import Arguments, ways
from scripted_driver import ScriptedDriver
from world import BUILD, LAYER_NAME, ROOT, World

pytestmark = VALIDATES

DEMO = [str(BUILD / "demo" / "pipelines")]

#: Modes of the demo program. Without the layer, validation reports nothing in any of them. What the layer does alike in
#: all ways is in each; test_recipes.py validates the rest of what programs chain.
WAYS = ways(
    only=(
        "mixed",
        "deferred ray tracing",
        "libraries, feedback",
        "derivatives",
        "may not compile",
        "own cache, threads",
        "feedback in batches",
        "Vulkan 1.0",
        "features chained and asked for",
    )
)
#: The same for devices that can have pipeline binaries.
FOR_BINARIES: dict[str, Arguments] = {way: [*arguments, "--api", "1.3"] for way, arguments in WAYS.items()}
#: Modes for validation above the layer, which sees what the program gets: handles, results and cache data. Threads and
#: device chains do not change these.
SEEN_ABOVE = ("deferred ray tracing", "libraries, feedback", "own cache, threads")

#: Modes of the program that uses VK_KHR_pipeline_binary. Without the layer, validation reports nothing in any of them.
USING_BINARIES: dict[str, Arguments] = {
    "capture": ["--source", "capture"],
    "internal cache": ["--source", "internal"],
    "created, then asked": ["--source", "create"],
    "without modules": ["--source", "capture", "--no-modules"],
    "ray tracing": ["--ray-tracing", "--count", 3],
    "libraries": ["--gpl", "--count", 3],
    "internal cache disabled": ["--disable-internal-cache"],
}


def reported(world: World, program: list[Any], settings: str = "{}", above: bool = False, **more: Any) -> str:
    """Runs the program with validation above or below the layer. Returns what validation reported."""
    more |= world.policy(f"settings: {settings}\n")
    if above:
        return validated(world, program, "--below", LAYER_NAME, VK_INSTANCE_LAYERS=None, **more)
    return validated(world, program, **more)


#: Ways of the demo program, the layer's mode, and whether validation is above it.
CASES: dict[str, tuple[Arguments, str, bool]] = {
    **{f"cells, {way}": (WAYS[way], "auto", False) for way in WAYS},
    **{f"binaries, {way}": (FOR_BINARIES[way], "binaries", False) for way in FOR_BINARIES},
    **{f"binaries below, {way}": (FOR_BINARIES[way], "binaries", True) for way in SEEN_ABOVE},
    "the driver's cache is replaced": (FOR_BINARIES["mixed"], "binaries, driver_cache: replace", False),
}


@pytest.mark.parametrize(("arguments", "mode", "above"), CASES.values(), ids=CASES)
def test_validation_has_nothing_to_say(world: World, arguments: Arguments, mode: str, above: bool) -> None:
    """Validation reports nothing, below the layer and above it, with an empty store and a full one."""
    for _ in range(2):
        said = reported(world, DEMO + list(arguments), f"{{mode: {mode}}}", above)
        assert said == "" if mode == "auto" else messages(said) == []
    assert world.runs()[-1]["mode"] == ("cells" if mode == "auto" else "binaries")


def test_validation_of_driver_disk_cache(world: World, tmp_path: Path) -> None:
    """Storing pipelines that the driver's disk cache has is valid."""
    disk = {"MESA_SHADER_CACHE_DISABLE": "0", "MESA_SHADER_CACHE_DIR": str(tmp_path / "mesa")}
    world.demo("--count", 12, "--feedback", layers=None, **disk)
    assert reported(world, [*DEMO, "--count", 12, "--feedback", "--batch", 3], **disk) == ""
    assert world.last()["compiled"] > 0


@pytest.mark.parametrize(
    "script",
    [
        "create-binaries=missing?from-create-info",
        "create-binaries=missing?from-create-info;create-binaries=error:out-of-host-memory?from-pipeline",
        "create-binaries=incomplete",
        "create-binaries=partial:1?fetch@3",
        "pipeline=error:unknown?from-binaries",
        "create-binaries=error:out-of-host-memory?from-data",
    ],
)
def test_validation_over_a_driver_with_faults(scripted: ScriptedDriver, script: str) -> None:
    """Captures, retries and replacements are valid, with an empty store and a full one. The driver's limits are all
    zero, so validation reports errors of the program's shaders, the same as without the layer."""
    program = DEMO + list(FOR_BINARIES["feedback in batches"])

    def rules(under: str, layers: str | None = LAYER_NAME) -> set[str]:
        more = {"VK_INSTANCE_LAYERS": layers, "PYLAYER_TEST_DRIVER": under}
        said = reported(scripted.world, program, "{mode: binaries}", **more)
        return set(re.findall(r"\[ (\S+) \]", "".join(messages(said))))

    alone = rules("", None)
    assert not [rule for rule in alone if "inar" in rule]
    for under in (script, "", script):
        assert rules(under) <= alone
    assert scripted.world.runs()[-1]["mode"] == "binaries"


@pytest.mark.parametrize("above", [False, True], ids=["below", "above"])
def test_validation_of_hits_that_may_not_compile(world: World, above: bool) -> None:
    """The layer never combines binaries with FAIL_ON_PIPELINE_COMPILE_REQUIRED, which Vulkan forbids."""
    program = [*DEMO, "--count", 8, "--batch", 4, "--api", "1.3"]
    for more in ((), ("--fail-on-compile-required", "--early-return")):
        assert messages(reported(world, [*program, *more], "{mode: binaries}", above)) == []
    assert world.last()["binary_hits"] == 8


@pytest.mark.parametrize(
    ("above", "way"), [*((False, way) for way in USING_BINARIES), (True, "capture"), (True, "ray tracing")]
)
def test_validation_of_programs_with_binaries(world: World, tmp_path: Path, way: str, above: bool) -> None:
    """Validation reports nothing about a program with pipeline binaries, with an archive and without, with an empty
    store and a full one. Above the layer it sees handles, results and binaries, which two ways have all of."""
    program = [*APPLICATION, *USING_BINARIES[way]]
    archive = ["--archive", tmp_path / "archive"]
    for arguments in (archive, archive, []):
        assert messages(reported(world, program + arguments, "{mode: binaries}", above)) == []


@pytest.mark.parametrize("program", ["rays", "deferred"])
def test_validation_of_rays(world: World, program: str) -> None:
    """For programs with every kind of ray tracing pipeline validation reports nothing that it does not report without
    the layer, with an empty store and a full one."""
    command = [BUILD / "tests" / "recipes", ROOT / "tests" / "recipes" / f"{program}.recipe"]
    said = []
    for layers in (None, LAYER_NAME, LAYER_NAME):
        try:
            text = reported(world, command, VK_INSTANCE_LAYERS=layers)
        except AssertionError as failure:
            if layers is None and f"exit {128 + signal.SIGSEGV}\n" in str(failure):
                pytest.skip("validation crashes in this program without the layer: 1.4.341 does")
            raise
        said.append({line for line in text.splitlines() if line.startswith("Validation ")})
    assert said[1] <= said[0] and said[2] <= said[0]
    assert world.last()["hits"] > 0


@pytest.mark.parametrize(
    ("above", "below", "order"),
    [
        (LAYER_NAME, None, ["pylayer_pipeline_cache", "khronos_validation"]),
        (None, LAYER_NAME, ["khronos_validation", "pylayer_pipeline_cache"]),
    ],
)
def test_validation_stands_where_it_should(
    world: World, above: str | None, below: str | None, order: list[str]
) -> None:
    """The loader's log shows the layers in the order that run.sh asked for."""
    below_it = ["--below", below] if below else []
    validated(world, [*DEMO, "--count", 1], *below_it, VK_INSTANCE_LAYERS=above, VK_LOADER_DEBUG="layer")
    manifests = re.findall(r"Manifest: .*/VkLayer_(\w+)\.json", world.raw_stderr)
    assert manifests[-len(order) :] == order


def test_validation_is_really_there(world: World) -> None:
    """Validation reports a program that breaks a rule: the tests above can fail."""
    assert "VUID-" in reported(world, list(LEAKS_A_CACHE), check=False)
