"""Programs that run without the layer and with it: all that they can see is the same, but for what is listed.

The scripts are those of tests/differential/interpreter.c.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from world import BUILD, ROOT, World, clean_environment

INTERPRETER = BUILD / "differential" / "interpreter"


def run_script(world: World, *lines: str, layer: bool = True, arguments: tuple[str, ...] = ()) -> list[str]:
    """What each line of a script printed, without the end."""
    script = "\n".join(["begin 1", *lines, "end", ""])
    changes = {} if layer else {"VK_INSTANCE_LAYERS": None}
    output = world.run([str(INTERPRETER), *arguments], input=script, **changes).stdout.splitlines()
    return [line for line in output if line != "end"]


COMPUTE = "compute - : P0 shader=comp0 from=inline spec=1 feedback=stages"


@pytest.mark.parametrize(("device", "arguments"), [("allocator", ()), ("", ("allocator",))])
def test_allocation_callbacks_and_threads(world: World, device: str, arguments: tuple[str, ...]) -> None:
    """The allocation callbacks of a program's device, or of its instance, are called by the thread that is in one of
    its commands only, and not by the one that loads what is stored."""
    first = f"device control maintenance5 {device}"
    assert run_script(world, first, COMPUTE, arguments=arguments)[-1] == "used=1 live=0 foreign=0"
    # Policy answers about the second cache's data when it has loaded what is stored, without help of this thread.
    script = (first, "cache C0", "read D0 C0", "cache C1 data=D0")
    assert run_script(world, *script, arguments=arguments)[-1] == "used=1 live=0 foreign=0"


def test_feedback_of_stages_is_cleared(world: World) -> None:
    """Feedback that a driver leaves unwritten has no VALID bit, of stages as of the pipeline."""
    script = ("device control maintenance5", COMPUTE)
    assert run_script(world, *script) == ["result=0", "result=0 P0=set:V:V"]
    assert run_script(world, *script, layer=False) == ["result=0", "result=0 P0=set:V:V"]
    rays = "rays - : P0 shaders=rgen,miss,hit from=inline feedback=stages"
    outputs = [run_script(world, "device control maintenance5 rays", rays)[1] for _ in range(2)]
    assert outputs == ["result=0 P0=set:V:V,V,V", "result=0 P0=set:V:-,-,-"]
    refused = COMPUTE + " flags=fail"
    assert run_script(world, "device control maintenance5", refused.replace("spec=1", "spec=2"))[1] == (
        "result=1000297000 P0=null:-:-"
    )


def test_feedback_behind_an_early_return(world: World) -> None:
    """A pipeline that is VK_NULL_HANDLE because the call ended before it has no valid feedback, stored as it may be."""
    refused = COMPUTE.replace("spec=1", "spec=2") + " flags=fail,early"
    stored = COMPUTE.removeprefix("compute - : ").replace("P0", "P1")
    outputs = run_script(world, "device control maintenance5", COMPUTE, f"{refused} / {stored}")
    assert outputs[2] == "result=1000297000 P0=null:-:- P1=null:-:-"


def test_ray_tracing_library_without_optimization(world: World) -> None:
    """A ray tracing library with DISABLE_OPTIMIZATION is linked, though RADV crashes where it was found in a cache."""
    library = "rays - : P0 shaders=miss,hit from=inline flags=library,noopt"
    for number in range(4):
        linked = f"rays - : P1 shaders=rgen link=P0 from=inline spec={number}"
        assert run_script(world, "device control maintenance5 rays", library, linked)[1:] == [
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
    """Programs that hypothesis makes see no difference that tests/differential/differences.py does not list."""
    done = generate("--programs", "80", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr


#: What validation 1.4.309 says of valid calls: it does not know of pipeline binaries that are destroyed, takes what
#: vkCreatePipelineBinariesKHR left VK_NULL_HANDLE with VK_PIPELINE_BINARY_MISSING_KHR for made, and looks for
#: VK_PIPELINE_CREATE_2_LIBRARY_BIT_KHR among the legacy flags.
KNOWN = (
    "vkDestroyPipelineBinaryKHR(): Couldn't find VkPipelineBinaryKHR Object",
    "VkPipelineBinaryKHR 0x0 has not been destroyed",
    "The stage member of at least one element of pStages must be VK_SHADER_STAGE_RAYGEN_BIT_KHR",
)


def unknown_errors(log: Path) -> set[str]:
    """What validation says in the line below the name of each rule that is broken."""
    lines = log.read_text().splitlines()
    said = {f"{line} {text}" for line, text in itertools.pairwise(lines) if line.startswith("Validation Error")}
    return {error for error in said if not any(known in error for known in KNOWN)}


@pytest.fixture(scope="module")
def generated() -> str:
    """Forty programs, one behind the other."""
    # A structure that nobody knows is there for the layer, not for validation.
    return generate("--write", "--programs", "40", "--seed", "1").stdout.replace(" unknown", "")


@pytest.mark.parametrize("carrier", [None, "cells", "binaries", "snapshot"])
def test_generated_programs_are_valid(world: World, tmp_path: Path, carrier: str | None, generated: str) -> None:
    """Validation has nothing to say of what is generated, so that a difference is never the program's own fault, nor of
    what the layer above it makes of it, cold and warm."""
    config, log = tmp_path / "policy.yaml", tmp_path / "validation.txt"
    config.write_text(f"settings: {{carrier: '{carrier}'}}\n")
    command = [str(ROOT / "tests" / "validation" / "run.sh"), "--log", str(log), "--", str(INTERPRETER)]
    changes = {"PYLAYER_CONFIG": str(config)} if carrier else {"VK_INSTANCE_LAYERS": None}
    for _ in range(2 if carrier else 1):
        output = world.run(command, input=generated, **changes).stdout
        assert output.count("end\n") == generated.count("end\n") >= 40
        assert unknown_errors(log) == set()
    assert len(world.runs()) == (80 if carrier else 0)
