"""However a Windows program ends, nothing that is stored is held against it: ``make wine``."""

from __future__ import annotations

import time

import pytest
from wine.programs import wine as wine
from wine.wine import Wine
from world import World

from pylayer.store.block_files import read_all
from pylayer.store.block_list import BLOCKED, LAYER_OFF
from pylayer.store.deaths import review

COUNT, TIMES = 20, 4


@pytest.mark.parametrize(
    "end", ["return", "exit 4", "terminate 4", "terminate-late 4", "loop 4"], ids=lambda end: end.partition(" ")[0]
)
def test_normal_ends(wine: Wine, real: World, end: str) -> None:
    """A Windows program ends several times in the same way, with threads in the driver that use stored pipelines.
    Nothing is blocked, and nothing is switched off. A program that loops is ended by wineserver."""
    for _ in range(2):
        wine.run(real, COUNT)
    for _ in range(TIMES):
        process = wine.start(real, COUNT, *end.split())
        if end.startswith("loop"):
            wine.ready(process)
            time.sleep(0.2)
            wine.stop()
        process.communicate(timeout=60)
        review(real.folder())
        known = read_all(real.folder()).values()
        assert not [one for each in known for one in each.in_force(*BLOCKED, LAYER_OFF)]
    wine.run(real, COUNT)
    assert (real.last()["hits"], real.last()["compiled"]) == (COUNT, 0)


def test_ends_right_after_compiling(wine: Wine, real: World) -> None:
    """A Windows program that compiles a few pipelines and then ends by TerminateProcess loses them once at most."""
    for _ in range(2):
        wine.run(real, 3, "terminate")
    wine.run(real, 3)
    assert (real.last()["hits"], real.last()["compiled"]) == (3, 0)
