"""First runs: the layer has nothing stored, and no pipeline creation waits for it."""

from __future__ import annotations

import shutil

from world import BUILD, World


def test_first_run_of_a_program_waits_for_no_load(world: World) -> None:
    """Where the store has nothing of a program, its first pipeline creation does not wait for the store: neither in a
    new store nor in one that has pipelines of another program. All pipelines are stored nevertheless."""
    for name in ("first-game", "second-game"):
        program = world.directory / name
        shutil.copy(BUILD / "demo" / "pipelines", program)
        world.run([str(program), "--count", "8"])
        assert world.last()["load_wait_ns"] == 0
        world.run([str(program), "--count", "8"])
        assert (world.last()["hits"], world.last()["compiled"]) == (8, 0)


def test_first_run_without_a_plan_finds_what_is_stored(world: World) -> None:
    """If the store has pipelines of the program but no plan, as after an update of pylayer, the run finds them all."""
    world.demo("--count", 8)
    shutil.rmtree(world.store / "plans")
    world.demo("--count", 8)
    assert (world.last()["hits"], world.last()["compiled"]) == (8, 0)
