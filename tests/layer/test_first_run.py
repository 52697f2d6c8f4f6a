"""A run of a program without a kept plan, whose store has pipelines already."""

from __future__ import annotations

import shutil

import pytest
from world import World


@pytest.mark.parametrize("carrier", ["cells", "binaries"])
def test_run_without_a_plan_finds_what_is_stored(world: World, carrier: str) -> None:
    """If the store has pipelines of the program but no plan, as after an update of pylayer, the run finds them all."""
    world.configure(carrier=carrier)
    for _ in range(2):
        world.demo("--count", 24)
    shutil.rmtree(world.store / "plans")
    world.demo("--count", 24)
    last = world.last()
    assert (last["hits"], last["compiled"]) == (24, 0)
