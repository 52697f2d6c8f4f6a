"""Programs that run with and without the layer see no difference except the listed ones.

tests/recipes/main.c says what recipes are.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from layer.validation import NULL_BINARY_LEFT, messages, needs_validation
from world import BUILD, ROOT, World, clean_environment

PROGRAM = BUILD / "tests" / "recipes"


def run_recipe(world: World, *lines: str, layer: bool = True, arguments: tuple[str, ...] = ()) -> list[str]:
    """Returns what each line of a recipe printed, without the line 'end'."""
    recipe = "\n".join(["begin 1", *lines, "end", ""])
    changes = {} if layer else {"VK_INSTANCE_LAYERS": None}
    output = world.run([str(PROGRAM), *arguments], input=recipe, **changes).stdout.splitlines()
    return [line for line in output if line != "end"]


COMPUTE = "compute - : P0 shader=comp0 from=inline spec=1 feedback=stages"


#: Misses and hits, with a cache and without, merges, and data that goes in and out.
EVERYTHING = ("cache C0", "cache C1", COMPUTE, COMPUTE.replace("-", "C0", 1))
EVERYTHING += ("compute C0 : P0 shader=comp1 from=inline", "compute - : P0 shader=comp1 from=inline")
EVERYTHING += ("merge C1 C0", "read D0 C1", "cache C2 data=D0", "compute C2 : P0 shader=comp1 from=inline")
#: The driver of tests/driver, where the layer creates pipelines in other ways.
OTHERS = ["", "cache-control=no", "feedback=no-hits", "pipeline=ignore"]


@pytest.mark.parametrize("script", OTHERS)
def test_allocation_callbacks(quick: World, script: str) -> None:
    """Only a thread that is in one of the program's commands calls its allocation callbacks, which get back what they
    allocated."""
    quick.environment["PYLAYER_TEST_DRIVER"] = script
    for layer in (False, True, True):
        printed = run_recipe(quick, "device control maintenance5 allocator", *EVERYTHING, layer=layer)
        assert printed[-1] == "used=1 live=0 foreign=0"


@pytest.mark.parametrize(("device", "arguments"), [("allocator", ()), ("", ("allocator",))])
def test_allocation_callbacks_and_threads(world: World, device: str, arguments: tuple[str, ...]) -> None:
    """Only a thread that is in one of the program's commands calls the allocation callbacks of the program's device or
    instance, never the thread that loads the store."""
    first = f"device control maintenance5 {device}"
    assert run_recipe(world, first, COMPUTE, arguments=arguments)[-1] == "used=1 live=0 foreign=0"
    # Policy answers about the second cache's data after it has loaded the store, without help of this thread.
    recipe = (first, "cache C0", "read D0 C0", "cache C1 data=D0")
    assert run_recipe(world, *recipe, arguments=arguments)[-1] == "used=1 live=0 foreign=0"


def test_feedback_of_stages_is_cleared(world: World) -> None:
    """Feedback that a driver leaves unwritten has no VALID bit, neither for the stages nor for the pipeline."""
    recipe = ("device control maintenance5", COMPUTE)
    assert run_recipe(world, *recipe) == ["result=0", "result=0 P0=set:V:V"]
    assert run_recipe(world, *recipe, layer=False) == ["result=0", "result=0 P0=set:V:V"]
    rays = "rays - : P0 shaders=rgen,miss,hit from=inline feedback=stages"
    outputs = [run_recipe(world, "device control maintenance5 rays", rays)[1] for _ in range(2)]
    assert outputs == ["result=0 P0=set:V:V,V,V", "result=0 P0=set:V:-,-,-"]
    refused = COMPUTE + " flags=fail"
    assert run_recipe(world, "device control maintenance5", refused.replace("spec=1", "spec=2"))[1] == (
        "result=1000297000 P0=null:-:-"
    )


def test_feedback_behind_an_early_return(world: World) -> None:
    """A pipeline that is VK_NULL_HANDLE because the call ended before it has no valid feedback, even if it is
    stored."""
    refused = COMPUTE.replace("spec=1", "spec=2") + " flags=fail,early"
    stored = COMPUTE.removeprefix("compute - : ").replace("P0", "P1")
    outputs = run_recipe(world, "device control maintenance5", COMPUTE, f"{refused} / {stored}")
    assert outputs[2] == "result=1000297000 P0=null:-:- P1=null:-:-"


def test_ray_tracing_library_without_optimization(world: World) -> None:
    """A ray tracing library with DISABLE_OPTIMIZATION can be linked, although RADV crashes if it was found in a
    cache."""
    library = "rays - : P0 shaders=miss,hit from=inline flags=library,noopt"
    for number in range(4):
        linked = f"rays - : P1 shaders=rgen link=P0 from=inline spec={number}"
        assert run_recipe(world, "device control maintenance5 rays", library, linked)[1:] == [
            "result=0 P0=set",
            "result=0 P1=set",
        ]


def generate(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tests" / "differential" / "run.py"), *options],
        capture_output=True,
        text=True,
        timeout=240,
        env=clean_environment(),
    )


def test_generated_programs() -> None:
    """Programs generated by hypothesis see no difference except those in tests/differential/differences.py."""
    done = generate("--programs", "20", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr


#: False errors of validation 1.4.309: it does not know of destroyed pipeline binaries, takes a VK_NULL_HANDLE that
#: vkCreatePipelineBinariesKHR left with VK_PIPELINE_BINARY_MISSING_KHR for a created binary, and looks for
#: VK_PIPELINE_CREATE_2_LIBRARY_BIT_KHR among the legacy flags.
KNOWN = (
    "vkDestroyPipelineBinaryKHR(): Couldn't find VkPipelineBinaryKHR Object",
    *NULL_BINARY_LEFT,
    "The stage member of at least one element of pStages must be VK_SHADER_STAGE_RAYGEN_BIT_KHR",
)


def unknown_errors(log: Path) -> set[str]:
    """Returns the errors in the log that are not KNOWN."""
    errors = {message for message in messages(log.read_text()) if message.startswith("Validation Error")}
    return {error for error in errors if not any(known in error for known in KNOWN)}


@pytest.fixture(scope="module")
def generated() -> str:
    """Returns the recipes of fifteen programs, one after the other."""
    # The unknown structure is there to test the layer. Validation would report it.
    return generate("--write", "--programs", "15", "--seed", "1").stdout.replace(" unknown", "")


@needs_validation
@pytest.mark.parametrize("mode", [None, "cells", "binaries"])
def test_generated_programs_are_valid(world: World, tmp_path: Path, mode: str | None, generated: str) -> None:
    """Validation reports nothing about generated programs, so that a difference is never the program's fault. It also
    reports nothing below the layer, with an empty store and a full one."""
    config, log = tmp_path / "policy.yaml", tmp_path / "validation.txt"
    config.write_text(f"settings: {{mode: '{mode}'}}\n")
    command = [str(ROOT / "tests" / "validation" / "run.sh"), "--log", str(log), "--", str(PROGRAM)]
    changes = {"PYLAYER_CONFIG": str(config)} if mode else {"VK_INSTANCE_LAYERS": None}
    for _ in range(2 if mode else 1):
        output = world.run(command, input=generated, **changes).stdout
        assert output.count("end\n") == generated.count("end\n") >= 15
        assert unknown_errors(log) == set()
    assert len(world.runs()) == (30 if mode else 0)
