"""pNext chains: flags that moved into a structure, unknown structures, and calls that must pass untouched."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_driver import ScriptedDriver
from world import BUILD, World

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
MADE_UP = str(BUILD / "tests" / "made_up")

#: The log's text about a structure that the layer does not know.
UNKNOWN = "has a structure that the layer does not know (sType 19999990"


#: Nothing here depends on the driver, but for the tests that take ``real``.
QUICK = True


def lines(output: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in output.splitlines())


def test_results_are_the_drivers(real: World) -> None:
    """Every chain gives the same result as without the layer, and the layer writes to none of the program's
    structures."""
    alone = lines(real.recipe(CHAINS, VK_INSTANCE_LAYERS=None).stdout)
    cold = lines(real.recipe(CHAINS).stdout)
    assert alone == cold
    assert not any("changed" in line for line in cold.values())
    assert alone["may-not-compile"] == "result=1000297000 P0=null"
    assert alone["legacy-ignored"] == "result=0 P0=set"


def test_captures_pass_untouched(world: World) -> None:
    """A call with CAPTURE_DATA reaches the driver unchanged and is counted as passed."""
    policy = world.policy("settings: {carrier: cells}")
    world.recipe(CHAINS, **policy)
    counters = world.last()
    assert counters["passed"] == 1
    # Two compile (optimized and not). The pipeline whose flags follow an unknown structure cannot be probed.
    assert counters["compiled"] == 2
    assert counters["plain"] == 1
    assert counters["compile_required"] == 1
    assert counters["pipelines"] == 6


def test_warm_chains_hit(real: World) -> None:
    """The second run compiles nothing, whatever is in the chains."""
    real.recipe(CHAINS)
    warm = lines(real.recipe(CHAINS).stdout)
    counters = real.last()
    assert counters["compiled"] == counters["compile_required"] == 0
    assert warm["may-not-compile"] == "result=0 P0=set"


def test_empty_binaries(scripted: ScriptedDriver) -> None:
    """If a program's own VkPipelineBinaryInfoKHR has no binaries, the layer replaces it by one with the stored
    binaries, so that no structure is in the chain twice. After an unknown structure it cannot be replaced, and the
    pipeline comes from a cache."""
    alone = scripted.recipe(NO_BINARIES, layered=False).stdout
    scripted.settings(carrier="binaries")
    cold = scripted.recipe(NO_BINARIES).stdout
    # By then two of them need not be compiled; without the layer the driver finds them in its own cache.
    assert lines(cold) == lines(alone)
    warm = lines(scripted.recipe(NO_BINARIES).stdout)
    assert {line.split(" ", 1)[0] for line in warm.values()} == {"result=0"}
    assert (scripted.counts["compiles"], scripted.counts["from-binaries"]) == (0, 5)


@pytest.mark.parametrize("carrier", ["cells", "binaries"])
def test_parent_that_does_not_come(scripted: ScriptedDriver, carrier: str) -> None:
    """A pipeline whose parent is not created is no longer a derivative, wherever its flags are: in its key, in its
    creation and in queries of the driver's own cache."""
    alone = scripted.recipe(ORPHANS, layered=False).stdout
    scripted.settings(carrier=carrier)
    for _ in range(2):
        assert scripted.recipe(ORPHANS).stdout == alone
    # The flags of the third pipeline follow an unknown structure, so the call is passed to the driver.
    assert (scripted.counts["compiles"], scripted.world.last()["passed"]) == (1, 2)


def places(chain: str) -> list[str]:
    """Returns the chain, and the chain with a made-up structure at each position."""
    names = chain.split(",")
    return [chain, *(",".join([*names[:i], "made-up", *names[i:]]) for i in range(len(names) + 1))]


def stands_behind(chain: str, *names: str) -> bool:
    """Returns whether one of these structures follows the made-up one in the chain."""
    _, _, behind = chain.partition("made-up")
    return any(name in behind.split(",") for name in names)


def given_up(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if UNKNOWN in line]


# ---- VkDeviceCreateInfo --------------------------------------------------------------------------------------

DEVICE_CHAINS = ["vulkan13", "control", "maintenance5,vulkan13", "vulkan13,maintenance5,binary"]


@pytest.mark.parametrize("chain", [place for chain in DEVICE_CHAINS for place in places(chain)])
@pytest.mark.parametrize("carrier", ["cells", "binaries"])
def test_device_with_made_up_structures(scripted: ScriptedDriver, chain: str, carrier: str) -> None:
    """An unknown structure anywhere in a device's chain prevents changes to the structures after it, and one line says
    what is not enabled. Everything else is enabled, and the second run compiles nothing."""
    scripted.settings(carrier=carrier)
    no_control = stands_behind(chain, "vulkan13", "control")
    no_binaries = carrier == "binaries" and not no_control and stands_behind(chain, "maintenance5", "binary")
    expected = "off" if no_control else "cells" if no_binaries else carrier
    arguments = ["1.3", chain, "compute", "-", "-"]
    alone = scripted.program("made_up", *arguments, layered=False).stdout
    for _ in range(2):
        result = scripted.program("made_up", *arguments)
        assert result.stdout == alone and "changed=1" not in alone
        assert scripted.world.runs()[-1]["carrier"] == expected
        said = given_up(result.stderr)
        assert len(said) == (no_control or no_binaries)
        assert not no_control or said[0].endswith("pipelineCreationCacheControl is not enabled")
        assert not no_binaries or said[0].endswith("pipelineBinaries is not enabled")
    assert no_control or scripted.counts["compiles"] == 0


@pytest.mark.parametrize(
    ("carrier", "chain"),
    [
        ("cells", "made-up,vulkan13"),
        *(("binaries", place) for place in places("vulkan14")),
    ],
)
def test_device_of_a_real_driver(real: World, chain: str, carrier: str) -> None:
    """An unknown structure in a device's chain has the same effect with Vulkan 1.4 on RADV."""
    config = real.policy(f"settings: {{carrier: {carrier}}}")
    no_control = stands_behind(chain, "vulkan13")
    no_binaries = carrier == "binaries" and stands_behind(chain, "vulkan14")
    for _ in range(2):
        result = real.run([MADE_UP, "1.4", chain, "compute", "-", "-"], **config)
        assert len(given_up(result.stderr)) == (no_control or no_binaries)
        expected = "off" if no_control else "cells" if no_binaries else carrier
        assert real.runs()[-1]["carrier"] == expected
    assert no_control or real.last()["compiled"] == 0


def test_what_the_program_enables_is_enough(scripted: ScriptedDriver) -> None:
    """If the feature is already on in the structure after the made-up one, nothing is lost and nothing is logged."""
    result = scripted.program("made_up", "1.3", "made-up,control-on", "compute", "-", "-")
    assert scripted.world.runs()[-1]["carrier"] == "cells"
    assert given_up(result.stderr) == []


def test_binaries_without_cache_control(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """If a program enables pipeline binaries and cache control cannot be enabled, the layer probes nothing, not even
    the program's own cache (VUID 02878)."""
    chain = "made-up,vulkan13,maintenance5-on,binary-on"
    for _ in range(2):
        result = scripted.program("made_up", "cache", tmp_path / "cache", chain)
        assert len(given_up(result.stderr)) == 1
        assert scripted.world.runs()[-1]["carrier"] == "off"
    assert scripted.counts["probes"] == 0


# ---- Pipelines ------------------------------------------------------------------------------------------------

#: Compute pipelines have the made-up structure at every position, the others before the flags and after them.
PIPELINE_CHAINS = [("compute", place) for place in (*places("feedback"), *places("robustness,flags2,feedback"))]
PIPELINE_CHAINS += [
    (kind, chain) for kind in ("graphics", "rays") for chain in ("made-up,flags2,feedback", "flags2,made-up,feedback")
]


@pytest.mark.parametrize(("kind", "chain"), PIPELINE_CHAINS)
@pytest.mark.parametrize("carrier", ["cells", "binaries"])
def test_pipeline_with_made_up_structures(world: World, kind: str, carrier: str, chain: str) -> None:
    """A pipeline whose flags follow an unknown structure, anywhere in its chain, is created as the program asked, in
    each run, and one line says so. All others are found in the second run. The program gets its feedback."""
    config = world.policy(f"settings: {{carrier: {carrier}}}")
    command = [MADE_UP, "1.3", "maintenance5-on,binary-on", kind, "made-up,code", chain]
    alone = world.run(command, VK_INSTANCE_LAYERS=None).stdout
    assert f"created=1 feedback={int('feedback' in chain)} changed=0" in alone
    unprobed = stands_behind(chain, "flags2")
    for _ in range(2):
        result = world.run(command, **config)
        assert result.stdout == alone
        assert world.runs()[-1]["carrier"] == carrier
        assert len(given_up(result.stderr)) == unprobed
    counters = world.last()
    assert counters["pipelines"] == 1
    assert counters["compiled"] == 0
    assert counters["plain"] == unprobed


def test_one_pipeline_costs_no_other_its_capture(scripted: ScriptedDriver) -> None:
    """A pipeline whose flags follow a made-up structure cannot be captured and is created as the program asked. The
    next one of its kind is still captured, and an equal one is created from its binaries. One line says so, once."""
    scripted.settings(carrier="binaries")
    chains = ["made-up,flags2", "-", "made-up,flags2"]
    result = scripted.program(
        "made_up", "1.3", "maintenance5-on,binary-on", "compute", "-", *chains, script="internal-cache=no"
    )
    counters = scripted.world.last()
    assert (counters["compiled"], counters["binaries_kept"], counters["plain"]) == (1, 1, 1)
    assert len(given_up(result.stderr)) == 1


def test_cache_with_a_made_up_structure(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """A structure chained to a VkPipelineCacheCreateInfo passes, and the data is checked as usual: altered data never
    reaches the driver."""
    file = tmp_path / "cache"
    for _ in range(2):
        scripted.program("made_up", "cache", file, "-")
    assert scripted.counts["compiles"] == 0
    file.write_bytes(file.read_bytes()[:-9] + b"?" + file.read_bytes()[-8:])
    assert "changed=0" in scripted.program("made_up", "cache", file, "-").stdout
    assert scripted.counts["compiles"] == 0


# ---- What newer registries have -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "script", "expected"),
    [
        ("1.3", "", "binaries"),
        ("1.1", "", "cells"),
        ("1.3", "maintenance5=no", "cells"),
        ("1.3", "maintenance5=unfeatured", "cells"),
    ],
)
def test_what_binaries_depend_on(scripted: ScriptedDriver, api: str, script: str, expected: str) -> None:
    """VK_KHR_pipeline_binary depends on VK_KHR_maintenance5, which needs Vulkan 1.3."""
    scripted.settings(carrier="binaries")
    for _ in range(2):
        scripted.program("made_up", api, "-", "compute", "-", "-", script=script)
        assert scripted.world.runs()[-1]["carrier"] == expected
    assert (scripted.counts["compiles"], scripted.counts["from-binaries"]) == (0, expected == "binaries")
