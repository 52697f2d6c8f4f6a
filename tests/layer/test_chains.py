"""pNext chains: flags that moved into a struct, structs nobody knows, and calls that must pass untouched."""

from __future__ import annotations

import pytest
from scripted_driver import ScriptedDriver
from world import BUILD, World

CHAINS = [str(BUILD / "tests" / "chains")]


def lines(output: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in output.splitlines())


def test_results_are_the_drivers(world: World) -> None:
    """Every chain gives the result that it gives without the layer, and nothing of the program's is written to."""
    alone = lines(world.run(CHAINS, VK_INSTANCE_LAYERS=None).stdout)
    cold = lines(world.run(CHAINS).stdout)
    assert alone == cold
    assert all(line.endswith("changed=0") for line in cold.values())
    assert alone["flags2-may-not-compile"].startswith("result=1000297000 pipeline=0")
    assert alone["legacy-ignored"].startswith("result=0 pipeline=1")


def test_captures_pass_untouched(world: World) -> None:
    """A call with CAPTURE_DATA reaches the driver as it was made, and is counted as passed."""
    policy = world.directory / "policy.yaml"
    policy.write_text("settings: {carrier: cells}")
    world.run(CHAINS, PYLAYER_CONFIG=str(policy))
    counters = world.last()
    assert counters["passed"] == 1
    # Two compile (optimized and not); what stands behind an unknown struct cannot be asked and is made plainly.
    assert counters["compiled"] == 2
    assert counters["plain"] == 1
    assert counters["compile_required"] == 1
    assert counters["pipelines"] == 6


def test_captures_are_kept(world: World) -> None:
    """What such a program captures itself is where its other pipelines come from."""
    world.run(CHAINS)
    counters = world.last()
    assert (counters["passed"], counters["binaries_kept"], counters["compile_required"]) == (1, 2, 1)
    assert (counters["compiled"], counters["binary_hits"]) == (1, 5)


def test_warm_chains_hit(world: World) -> None:
    """The second run compiles nothing, whatever stands in the chains."""
    world.run(CHAINS)
    warm = lines(world.run(CHAINS).stdout)
    counters = world.last()
    assert counters["compiled"] == counters["compile_required"] == 0
    assert warm["flags2-may-not-compile"].startswith("result=0 pipeline=1")


def test_empty_binaries(scripted: ScriptedDriver) -> None:
    """Where a program's own VkPipelineBinaryInfoKHR gives no binaries, those of the store take its place: no structure
    stands twice in a chain. Behind a struct nobody knows it cannot be replaced, and a cache has the pipeline."""
    alone = scripted.program("chains", "empty-binaries", layered=False).stdout
    scripted.settings(carrier="binaries")
    cold = scripted.program("chains", "empty-binaries").stdout
    # By then two of them need not be compiled; the driver alone finds them in its own cache.
    assert lines(cold) == lines(alone)
    warm = lines(scripted.program("chains", "empty-binaries").stdout)
    assert {line.split(" ", 1)[0] for line in warm.values()} == {"result=0"}
    assert (scripted.counts["compiles"], scripted.counts["from-binaries"]) == (0, 5)


@pytest.mark.parametrize("carrier", ["cells", "binaries"])
def test_parent_that_does_not_come(scripted: ScriptedDriver, carrier: str) -> None:
    """A pipeline whose parent is not created is none of its derivatives any more, wherever its flags stand: in its
    key, in its creation and in what is asked of the driver's own cache."""
    alone = scripted.program("chains", "derivatives", layered=False).stdout
    scripted.settings(carrier=carrier)
    for _ in range(2):
        assert scripted.program("chains", "derivatives").stdout == alone
    # The flags of the third stand behind an unknown struct: the call is the driver's.
    assert (scripted.counts["compiles"], scripted.world.last()["passed"]) == (1, 2)
