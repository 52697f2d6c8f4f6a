"""pNext chains: flags that moved into a structure, unknown structures, and calls that must pass untouched."""

from __future__ import annotations

import pytest
from scripted_driver import ScriptedDriver
from world import World

DEVICE = "device control maintenance5 binaries modules\n"
#: One compute pipeline with chains that programs may pass.
CHAINS = f"""{DEVICE}
may-not-compile: compute - : P0 shader=comp0 flags=fail flags2
capture: compute - : P0 shader=comp0 flags=capture
flags2-first: compute - : P0 shader=comp0 flags=noopt flags2
flags2-behind-known: compute - : P0 shader=comp0 flags2=always feedback=pipeline
flags2-behind-unknown: compute - : P0 shader=comp0 flags2=always unknown
unknown-alone: compute - : P0 shader=comp0 unknown
legacy-ignored: compute - : P0 shader=comp0 flags2=always legacy=fail
plain-again: compute - : P0 shader=comp0
"""
#: With a VkPipelineBinaryInfoKHR that gives none. What is created from binaries must not have the flag that it must not
#: be compiled.
NO_BINARIES = f"""{DEVICE}
alone: compute - : P0 shader=comp0 no-binaries
alone-again: compute - : P0 shader=comp0 no-binaries
behind-flags2: compute - : P0 shader=comp0 no-binaries flags=noopt flags2 reversed
before-flags2: compute - : P0 shader=comp0 no-binaries flags=fail flags2
behind-flags2-that-change: compute - : P0 shader=comp0 no-binaries flags=noopt,fail flags2 reversed
behind-unknown: compute - : P0 shader=comp0 no-binaries unknown reversed
"""
#: Pipelines that derive from an earlier one of their call, which may not be compiled and does not come.
ORPHANS = f"""{DEVICE}
legacy: compute - : P0 shader=comp0 spec=1 flags=allow,fail / P1 shader=comp0 spec=2 base=#0
flags2: compute - : P0 shader=comp0 spec=3 flags=allow,fail / P1 shader=comp0 spec=4 flags2 base=#0
behind-unknown: compute - : P0 shader=comp0 spec=5 flags=allow,fail / P1 shader=comp0 spec=6 flags2 base=#0 unknown
"""
#: The log's text about a structure that the layer does not know.
UNKNOWN = "has a structure that the layer does not know (sType 2000000001"


#: Nothing here depends on the driver, but for the tests that take ``real``.
QUICK = True


def lines(output: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in output.splitlines())


def test_captures_pass_untouched(world: World) -> None:
    """A call with CAPTURE_DATA reaches the driver unchanged and is counted as passed."""
    policy = world.policy("settings: {mode: cells}")
    world.recipe(CHAINS, **policy)
    counters = world.last()
    assert counters["passed"] == 1
    # Two compile (optimized and not). The pipeline whose flags follow an unknown structure cannot be probed.
    assert counters["compiled"] == 2
    assert counters["plain"] == 1
    assert counters["compile_required"] == 1
    assert counters["pipelines"] == 6


def test_empty_binaries(scripted: ScriptedDriver) -> None:
    """Pipelines with a VkPipelineBinaryInfoKHR of the program's that has no binaries are stored as cells, so that no
    structure is in the chain twice."""
    alone = scripted.recipe(NO_BINARIES, layered=False).stdout
    scripted.settings(mode="binaries")
    cold = scripted.recipe(NO_BINARIES).stdout
    # By then two of them need not be compiled; without the layer the driver finds them in its own cache.
    assert lines(cold) == lines(alone)
    warm = lines(scripted.recipe(NO_BINARIES).stdout)
    assert {line.split(" ", 1)[0] for line in warm.values()} == {"result=0"}
    assert (scripted.counts["compiles"], scripted.counts["from-binaries"]) == (0, 0)


@pytest.mark.parametrize("mode", ["cells", "binaries"])
def test_parent_that_does_not_come(scripted: ScriptedDriver, mode: str) -> None:
    """A pipeline whose parent is not created is no longer a derivative, wherever its flags are: in its key, in its
    creation and in queries of the driver's own cache."""
    alone = scripted.recipe(ORPHANS, layered=False).stdout
    scripted.settings(mode=mode)
    for _ in range(2):
        assert scripted.recipe(ORPHANS).stdout == alone
    # The flags of the third pipeline follow an unknown structure, so the call is passed to the driver.
    assert (scripted.counts["compiles"], scripted.world.last()["passed"]) == (1, 2)


def given_up(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if UNKNOWN in line]


# ---- VkDeviceCreateInfo --------------------------------------------------------------------------------------

#: A program that has structures for all that the layer enables, and enables nothing itself.
OFF = "device control maintenance5 binaries modules off=control,maintenance5,binaries"
ONE = "compute - : P0 shader=comp0\n"


@pytest.mark.parametrize(
    ("words", "cells", "binaries"),
    [
        (OFF, "cells", "binaries"),
        (f"{OFF} unknown=0", "off", "off"),  # in front of Vulkan 1.3's features
        (f"{OFF} unknown=1", "cells", "cells"),  # in front of pipelineBinaries
        (f"{OFF} unknown=2", "cells", "cells"),  # in front of maintenance5
        (f"{OFF} unknown=3", "cells", "binaries"),  # behind all
        (f"{OFF} separate unknown=2", "off", "off"),  # in front of a structure for pipelineCreationCacheControl
        (f"{OFF} separate unknown=3", "cells", "binaries"),  # behind that
    ],
)
@pytest.mark.parametrize("mode", ["cells", "binaries"])
def test_device_with_an_unknown_structure(
    scripted: ScriptedDriver, words: str, cells: str, binaries: str, mode: str
) -> None:
    """An unknown structure anywhere in a device's chain prevents changes to the structures after it, and one line says
    what is not enabled. Everything else is enabled, and the second run compiles nothing."""
    scripted.settings(mode=mode)
    expected = {"cells": cells, "binaries": binaries}[mode]
    alone = scripted.recipe(f"{words}\n{ONE}", layered=False).stdout
    for _ in range(2):
        result = scripted.recipe(f"{words}\n{ONE}")
        assert result.stdout == alone
        assert scripted.world.runs()[-1]["mode"] == expected
        said = [line.split()[-4] for line in given_up(result.stderr)]
        assert said == {mode: [], "off": ["pipelineCreationCacheControl"]}.get(expected, ["pipelineBinaries"])
    assert expected == "off" or scripted.counts["compiles"] == 0


@pytest.mark.parametrize(("place", "expected"), [(0, "cells"), (1, "binaries")])
@pytest.mark.parametrize("mode", ["binaries"])
def test_device_of_vulkan_1_4(real: World, mode: str, place: int, expected: str) -> None:
    """What the layer enables for pipeline binaries stands in Vulkan 1.4's structure, unless an unknown structure is in
    front of that."""
    config = real.policy(f"settings: {{mode: {mode}}}")
    for _ in range(2):
        result = real.recipe(f"device vulkan14 separate modules unknown={place}\n{ONE}", **config)
        assert len(given_up(result.stderr)) == (expected == "cells")
        assert real.runs()[-1]["mode"] == expected
    assert real.last()["compiled"] == 0


def test_what_the_program_enables_is_enough(scripted: ScriptedDriver) -> None:
    """If the feature is already on in the structure after the unknown one, nothing is lost and nothing is logged."""
    result = scripted.recipe(f"device control modules unknown=0\n{ONE}")
    assert scripted.world.runs()[-1]["mode"] == "cells"
    assert given_up(result.stderr) == []


def test_binaries_without_cache_control(scripted: ScriptedDriver) -> None:
    """If a program enables pipeline binaries and cache control cannot be enabled, the layer probes nothing, not even
    the program's own cache (VUID 02878)."""
    recipe = """device control maintenance5 binaries modules off=control unknown=0
cache C0
compute C0 : P0 shader=comp0
read D0 C0
cache C1 data=D0
compute C1 : P0 shader=comp0
"""
    for _ in range(2):
        result = scripted.recipe(recipe)
        assert len(given_up(result.stderr)) == 1
        assert scripted.world.runs()[-1]["mode"] == "off"
    assert scripted.counts["probes"] == 0


# ---- Pipelines ------------------------------------------------------------------------------------------------

ELEMENTS = {"compute": "shader=comp0", "graphics": "vert=vert0 frag=frag0", "rays": "shaders=rgen,miss,hit"}


@pytest.mark.parametrize(
    ("words", "unprobed"),
    [
        ("unknown", 0),
        ("unknown=stage from=inline", 0),
        ("unknown flags=allow flags2", 1),  # the flags stand behind it
        ("unknown flags=allow flags2 reversed", 0),
    ],
)
@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.parametrize("mode", ["cells", "binaries"])
def test_pipeline_with_an_unknown_structure(world: World, kind: str, mode: str, words: str, unprobed: int) -> None:
    """A pipeline whose flags follow an unknown structure is created as the program asked, in each run, and one line
    says so. All others are found in the second run. The program gets its feedback."""
    config = world.policy(f"settings: {{mode: {mode}}}")
    recipe = "device control maintenance5 binaries rays modules\n"
    recipe += f"{kind} - : P0 {ELEMENTS[kind]} feedback=pipeline {words}\n"
    alone = world.recipe(recipe, VK_INSTANCE_LAYERS=None).stdout
    assert "result=0 P0=set:V" in alone
    for _ in range(2):
        result = world.recipe(recipe, **config)
        assert result.stdout == alone
        assert world.runs()[-1]["mode"] == mode
        assert len(given_up(result.stderr)) == unprobed
    counters = world.last()
    assert (counters["pipelines"], counters["compiled"], counters["plain"]) == (1, 0, unprobed)


def test_one_pipeline_costs_no_other_its_capture(scripted: ScriptedDriver) -> None:
    """A pipeline whose flags follow an unknown structure cannot be captured and is created as the program asked. The
    next one of its kind is still captured, and an equal one is created from its binaries. One line says so, once."""
    scripted.settings(mode="binaries")
    recipe = f"""{DEVICE}
compute - : P0 shader=comp0 flags=allow flags2 unknown
compute - : P1 shader=comp1
compute - : P2 shader=comp1 flags=allow flags2 unknown
"""
    result = scripted.recipe(recipe, script="internal-cache=no")
    counters = scripted.world.last()
    assert (counters["compiled"], counters["binaries_kept"], counters["plain"]) == (1, 1, 1)
    assert len(given_up(result.stderr)) == 1


@pytest.mark.parametrize(("form", "refused"), [("whole", 0), ("corrupted", 1)])
def test_cache_with_an_unknown_structure(scripted: ScriptedDriver, form: str, refused: int) -> None:
    """A structure chained to a VkPipelineCacheCreateInfo passes, and the data is checked as usual."""
    recipe = f"""{DEVICE}
cache C0 unknown
compute C0 : P0 shader=comp0
read D0 C0
cache C1 data=D0 form={form} unknown
compute C1 : P1 shader=comp0
"""
    for compiles in (1, 0):
        scripted.recipe(recipe)
        assert scripted.counts["compiles"] == compiles
        assert sum(scripted.world.runs()[-1]["refused"].values()) == refused


# ---- What newer registries have -------------------------------------------------------------------------------
