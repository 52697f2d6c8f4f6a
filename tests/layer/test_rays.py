"""Ray tracing pipelines with each of their states, of libraries, and with group handles that can be replayed."""

from __future__ import annotations

from pathlib import Path

from world import BUILD, FAULTS, LAYER_NAME, World

RAYS = [str(BUILD / "tests" / "rays")]


def witnessed(world: World, tmp_path: Path, layers: str = f"{LAYER_NAME}:{FAULTS}") -> str:
    """Its output; the driver was not used in a way that Vulkan forbids."""
    log = tmp_path / "faults.log"
    log.unlink(missing_ok=True)
    output = world.run(RAYS, VK_INSTANCE_LAYERS=layers, PYLAYER_TEST_FAULTS_LOG=str(log)).stdout
    assert "VIOLATION" not in log.read_text()
    return output


def test_results_and_handles_are_the_drivers(world: World, tmp_path: Path) -> None:
    """Every pipeline has, from the compiler and from the store, the group handles and stack sizes that it has without
    the layer."""
    alone = witnessed(world, tmp_path, FAULTS)
    assert alone.count("result=0 pipeline=1") == 18
    assert witnessed(world, tmp_path) == alone
    assert witnessed(world, tmp_path) == alone


def test_second_run_compiles_nothing(world: World) -> None:
    """Libraries, libraries of libraries and what is linked of them are found in the store like any other pipeline."""
    world.run(RAYS)
    assert world.last()["compiled"] > 0
    world.run(RAYS)
    counters = world.last()
    assert (counters["pipelines"], counters["hits"]) == (16, 16)
    assert counters["compiled"] == counters["plain"] == counters["adopted"] == 0


def test_replayable_handles_pass_untouched(world: World) -> None:
    """Pipelines whose handles are captured or replayed are the driver's alone, and make no other kind plain."""
    for _ in range(3):
        world.run(RAYS)
        assert world.last()["passed"] == 2
    counters = world.last()
    assert counters["hits"] == counters["pipelines"]
