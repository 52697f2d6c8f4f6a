"""Prewarming: a game finds the pipelines that a replayer compiled. test_presets.py has programs that share a store."""

from __future__ import annotations

import shutil

from world import BUILD, World

COUNT = 30


def create(world: World, program: str, count: int) -> dict[str, int]:
    """Runs the demo under this name. Returns the counters of its run."""
    shutil.copy(BUILD / "demo" / "pipelines", world.directory / program)
    world.run([str(world.directory / program), "--count", str(count)])
    run = world.runs()[-1]
    assert run["executable"] == program and run["counters"]["pipelines"] == count
    counters: dict[str, int] = run["counters"]
    return counters


def test_pipelines_given_to_the_game(world: World) -> None:
    """By default a game finds only what it compiled itself. It finds the other program's pipelines once they are
    exported and imported for the game. Pipelines that the game had compiled itself are not imported again."""
    create(world, "replayer", COUNT)
    assert create(world, "game", 5)["compiled"] == 5
    world.pylayer("export", "replayed.pylayer", "--app", "replayer*")
    done = world.pylayer("import", "replayed.pylayer", "--for", "game*").stdout
    assert done.startswith(f"Imported: {COUNT - 5} pipelines, 5 records already in the store\n")
    for _ in range(2):  # from the imported pack, and from the pack that it was folded into
        counters = create(world, "game", COUNT)
        assert (counters["hits"], counters["compiled"]) == (COUNT, 0)
        world.pylayer("trim")
