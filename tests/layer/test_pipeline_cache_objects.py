"""A program's VkPipelineCache objects are read, merged and destroyed under the layer as without it."""

from __future__ import annotations

import pytest
from scripted_driver import ScriptedDriver

MODES = ["cells", "off"]

DEVICE = "device control modules\n"
#: Buffers that are too small or larger, and a cache of whatever was read.
SIZES = f"{DEVICE}cache C0\ncompute C0 : P0 shader=comp0\n" + "".join(
    f"read: read D0 C0 {room} exact\ncache C1 data=D0\n"
    for room in ("room=0", "room=1", "room=31", "room=32", "room=33", "less", "", "more")
)
#: Reads all, then with room for that when there is more, and makes a cache of each.
GROWTH = f"""{DEVICE}
cache C0
compute C0 : P0 shader=comp0
read: read D0 C0 exact
compute C0 : P0 shader=comp1
read: read D1 C0 room=D0 exact
cache C1 data=D1
read: read D2 C0 exact
cache C2 data=D2
"""
#: Empty caches, one source twice, many sources, caches with and without EXTERNALLY_SYNCHRONIZED; pipelines are compiled
#: in some and found in others, whichever way they came there.
MERGES = (
    DEVICE
    + "".join(f"cache C{number}{' external' if number % 2 else ''}\n" for number in range(10))
    + """
compute C1 : P0 shader=comp0
compute C2 : P1 shader=comp1
one-twice-and-an-empty-one: merge C0 C1 C1 C4
nothing-into-nothing: merge C3 C5
many: merge C9 C0 C1 C2 C3 C4 C5 C6 C7 C8
merged-ones: merge C6 C9
read: read D0 C0 exact
read: read D0 C9 exact
read: read D0 C6 exact
compute C0 : P0 shader=comp0
compute C9 : P0 shader=comp1
compute C6 : P0 shader=comp0
"""
)


#: VkResult
INCOMPLETE = "5"


def found(printed: str) -> list[dict[str, str]]:
    """Returns what the lines named "read" say."""
    lines = [line.split() for line in printed.splitlines()]
    return [dict(word.split("=") for word in words) for name, *words in lines if name == "read"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recipe", [SIZES, GROWTH, MERGES], ids=["sizes", "growth", "merges"])
def test_same_as_without_the_layer(scripted: ScriptedDriver, recipe: str, mode: str) -> None:
    """Sizes, VK_INCOMPLETE, partial data and merges of every mix are as without the layer. No buffer is written beyond
    its end, and a cache can be created from whatever was read."""
    scripted.settings(mode=mode)
    alone = scripted.recipe(recipe, layered=False).stdout
    assert scripted.recipe(recipe).stdout == alone and "beyond=1" not in alone


def test_small_reads(scripted: ScriptedDriver) -> None:
    """A buffer too small for the header gets no data and VK_INCOMPLETE. A buffer with room for all data gets all of
    it."""
    reads = found(scripted.recipe(SIZES).stdout)
    assert [read["then"] for read in reads] == [INCOMPLETE] * 6 + ["0"] * 2
    assert all(read["beyond"] == "0" for read in reads)
    sizes = [read["bytes"] for read in reads]
    assert sizes[:3] == ["0", "0", "0"] and sizes[6] == sizes[7]


def test_partial_data_is_known(scripted: ScriptedDriver) -> None:
    """What was read is known as it was read, partial data too. A read that returned no data says nothing."""
    lines = found(scripted.recipe(SIZES).stdout) + found(scripted.recipe(GROWTH).stdout)
    assert {line["then"] for line in lines} == {"0", INCOMPLETE} and "0" in {line["bytes"] for line in lines}
    known = {one.size for one in scripted.world.known_data()}
    assert known == {int(line["bytes"]) for line in lines} - {0}


@pytest.mark.parametrize("mode", MODES)
def test_pipelines_are_found_after_merges(scripted: ScriptedDriver, mode: str) -> None:
    """Pipelines compiled with one cache are found in the caches that it was merged into, in the run that compiles and
    later."""
    scripted.settings(mode=mode)
    for compiled in (2, 0):
        scripted.recipe(MERGES)
        counters = scripted.world.last()
        if mode == "cells":
            assert (counters["compiled"], counters["hits"]) == (compiled, 5 - compiled)
