"""The comparison of tests/differential: the table allows its differences, and no others."""

from __future__ import annotations

import pytest
from differential.differences import Comparison

PLAIN = "compute C0 : P0 shader=comp0 from=inline feedback=stages"
MAY_NOT = "compute - : P0 shader=comp0 from=inline flags=fail feedback=stages"
REFUSED = "result=1000297000 P0=null:?:?"


def rows(line: str, driver: str, layer: str, run: str = "warm") -> list[str] | None:
    """Returns the rows of the table that explain a difference, or None if part of it is unexplained."""
    comparison = Comparison()
    found = list(comparison.compare([line], [driver], [layer], "cells", run))
    return None if found else sorted(comparison.rows)


@pytest.mark.parametrize(
    ("line", "driver", "layer"),
    [
        # A pipeline that the layer loses, and one that it makes up.
        (PLAIN, "result=0 P0=set:V:V", "result=-3 P0=null:-:-"),
        (PLAIN, REFUSED, "result=0 P0=set:V:V"),
        # Results that do not match the pipelines.
        (MAY_NOT, REFUSED, "result=1000297000 P0=set:V:-"),
        (MAY_NOT, REFUSED, "result=0 P0=null:-:-"),
        # Hits in a cache that the program did not pass; bits that do not exist; nothing written.
        (MAY_NOT, REFUSED, "result=0 P0=set:VH:-"),
        (PLAIN, "result=0 P0=set:V:V", "result=0 P0=set:V!:V"),
        (PLAIN, "result=0 P0=set:V:V", "result=0 P0=set:?:V"),
        (PLAIN, "result=0 P0=set:VH:V", "result=0 P0=set:V:V"),
        # Data that is lost, or that is written beyond its buffer.
        ("read D0 C0", "result=0 size=filled", "result=0 size=empty"),
        ("read D0 C0", "result=0 size=filled then=0 beyond=0", "result=0 size=filled then=0 beyond=1"),
        ("key P0", "result=0 size=20 key=00", "result=0 size=20 key=01"),
        ("binaries B0 pipeline=P0", "result=0 total=1", "result=1000483000"),
        ("unpipeline P0", "done", "skip P0"),
        ("allocator", "used=1 live=0 foreign=0", "used=1 live=0 foreign=1"),
    ],
)
def test_unlisted(line: str, driver: str, layer: str) -> None:
    """Every difference that is not listed is found."""
    assert rows(line, driver, layer) is None
