"""The comparison of recipes with and without the layer (tests/recipes/seen.py)."""

from __future__ import annotations

import pytest
from recipes.seen import Line, difference


def differs(layered: str, alone: str, own_cache: bool = False) -> bool:
    """Whether a program sees another line with the layer than without it."""
    return difference(Line.parse(layered), Line.parse(alone), own_cache, steady=True) is not None


@pytest.mark.parametrize(
    ("layered", "alone"),
    [
        ("one result=0 P0=set:V:V", "one result=0 P0=set:V:V"),
        # Found, in no time, and without what only the compiler says of stages.
        ("one result=0 P0=set:VH0:-", "one result=0 P0=set:V:V"),
        ("one result=0 P0=set:VHB0:V", "one result=0 P0=set:VB:V"),
        # The driver writes none, and the layer does.
        ("one result=0 P0=set:V", "one result=0 P0=set:?"),
    ],
)
def test_same(layered: str, alone: str) -> None:
    """With a cache of the program, feedback may say where the pipeline was found and that it took no time."""
    assert not differs(layered, alone, own_cache=True)


@pytest.mark.parametrize(
    ("layered", "alone"),
    [
        ("one result=0 P0=null", "one result=0 P0=set"),
        ("two result=0 P0=set", "one result=0 P0=set"),
        # A hit in a cache that the program did not pass, bits that do not exist, nothing written.
        ("one result=0 P0=set:VH", "one result=0 P0=set:V"),
        ("one result=0 P0=set:V!", "one result=0 P0=set:V"),
        ("one result=0 P0=set:?", "one result=0 P0=set:V"),
        # Feedback that is other than the driver's, less than the driver's, or only with or without the layer.
        ("one result=0 P0=set:V", "one result=0 P0=set:VB"),
        ("one result=0 P0=set:V", "one result=0 P0=set:V:V"),
        ("one result=0 P0=set P1=set:V", "one result=0 P0=set:V P1=set:V"),
        ("one result=0 P0=set:V", "one result=0 P0=set"),
    ],
)
def test_different(layered: str, alone: str) -> None:
    """Everything else that a line says has to be the same."""
    assert differs(layered, alone)
