"""Ray tracing pipelines with each of their states, of libraries, and with group handles that can be replayed."""

from __future__ import annotations

from scripted_driver import ScriptedDriver
from world import BUILD, World

RAYS = [str(BUILD / "tests" / "rays")]


def test_results_and_handles_are_the_drivers(driver: ScriptedDriver) -> None:
    """Every pipeline has, from the compiler and from the store, the group handles and stack sizes that it has without
    the layer."""
    alone = driver.program("rays", layered=False).stdout
    assert alone.count("result=0 pipeline=1") == 18
    for _ in range(2):
        assert driver.program("rays").stdout == alone


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
