"""Ray tracing pipelines with each of their states, linked from libraries, and with replayable group handles."""

from __future__ import annotations

from world import BUILD, World

RAYS = [str(BUILD / "tests" / "rays")]


def test_results_and_handles_are_the_drivers(world: World) -> None:
    """Every pipeline, compiled or from the store, has the same group handles and stack sizes as without the layer."""
    alone = world.run(RAYS, VK_INSTANCE_LAYERS=None).stdout
    assert alone.count("result=0 pipeline=1") == 18
    for _ in range(2):
        assert world.run(RAYS).stdout == alone


def test_second_run_compiles_nothing(world: World) -> None:
    """Libraries, libraries of libraries, and pipelines linked from them are found in the store."""
    world.run(RAYS)
    assert world.last()["compiled"] > 0
    world.run(RAYS)
    counters = world.last()
    assert (counters["pipelines"], counters["hits"]) == (16, 16)
    assert counters["compiled"] == counters["plain"] == 0


def test_replayable_handles_pass_untouched(world: World) -> None:
    """Pipelines whose handles are captured or replayed are passed to the driver, and other kinds are still probed."""
    for _ in range(3):
        world.run(RAYS)
        assert world.last()["passed"] == 2
    counters = world.last()
    assert counters["hits"] == counters["pipelines"]
