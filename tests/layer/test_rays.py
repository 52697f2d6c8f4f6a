"""Ray tracing pipelines with each of their states, linked from libraries, and with replayable group handles."""

from __future__ import annotations

from world import BUILD, World

RAYS = [str(BUILD / "tests" / "rays")]


def test_rays(world: World) -> None:
    """Every pipeline, compiled or from the store, has the same group handles and stack sizes as without the layer.
    Libraries, libraries of libraries and pipelines linked from them are found in the store. Pipelines whose handles are
    captured or replayed are passed to the driver, and other kinds are still probed."""
    alone = world.run(RAYS, VK_INSTANCE_LAYERS=None).stdout
    assert alone.count("result=0 pipeline=1") == 18
    for compiled in (13, 0, 0):
        assert world.run(RAYS).stdout == alone
        last = world.last()
        assert (last["pipelines"], last["hits"], last["compiled"]) == (16, 16 - compiled, compiled)
        assert (last["plain"], last["passed"]) == (0, 2)
