"""The comparison of tests/differential: the table allows its differences, and no others."""

from __future__ import annotations

import pytest
from differential.differences import ALLOWED, Comparison

PLAIN = "compute C0 : P0 shader=comp0 from=inline feedback=stages"
MAY_NOT = "compute - : P0 shader=comp0 from=inline flags=fail feedback=stages"
REFUSED = "result=1000297000 P0=null:?:?"


def rows(line: str, driver: str, layer: str, run: str = "warm") -> list[str] | None:
    """Returns the rows of the table that explain a difference, or None if part of it is unexplained."""
    comparison = Comparison()
    found = list(comparison.compare([line], [driver], [layer], "cells", run))
    return None if found else sorted(comparison.rows)


@pytest.mark.parametrize(
    ("line", "driver", "layer", "explained"),
    [
        (
            MAY_NOT,
            REFUSED,
            "result=0 P0=set:V:V",
            ["answered", "feedback of answers", "result of answers"],
        ),
        (MAY_NOT, REFUSED, "result=1000297000 P0=null:-:-", ["feedback cleared"]),
        (PLAIN, "result=0 P0=set:V:V", "result=0 P0=set:VH:-", ["found in seeded cache", "stages not compiled"]),
        ("read D0 C0", "result=0 size=empty", "result=0 size=filled", ["seeded data"]),
        ("binaries B0 info=P0", "result=0 total=1", "result=1000483000", ["internal cache"]),
    ],
)
def test_listed(line: str, driver: str, layer: str, explained: list[str]) -> None:
    """A difference that the table lists is explained by the intended row."""
    assert rows(line, driver, layer) == explained


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


def test_cold_store() -> None:
    """On an empty store, the layer can only answer with what the program itself has compiled."""
    assert rows(MAY_NOT, REFUSED, "result=0 P0=set:V:-", run="cold") is None
    lines, answer = [MAY_NOT.replace(" flags=fail", ""), MAY_NOT], "result=0 P0=set:V:-"
    comparison = Comparison()
    assert not list(comparison.compare(lines, [answer, REFUSED], [answer, answer], "cells", "cold"))
    assert comparison.rows["answered"] == 1
    twice = f"{PLAIN} / {PLAIN.partition(' : ')[2].replace('P0', 'P1')}"
    alone, found = "result=0 P0=set:V:V P1=set:V:V", "result=0 P0=set:V:V P1=set:V:-"
    assert rows(twice, alone, found, run="cold") == ["stages not compiled"]


def test_parts_of_pipelines() -> None:
    """A library of vertex shaders is the same library whichever fragment shader is linked with it."""
    part = "graphics C0 : P0 part=vertex vert=vert0 frag=frag{} from=inline flags=library feedback=pipeline"
    hit, compiled = "result=0 P0=set:VH", "result=0 P0=set:V"
    comparison = Comparison()
    lines = [part.format(0).replace("C0", "-"), part.format(1)]
    assert not list(comparison.compare(lines, [compiled] * 2, [compiled, hit], "cells", "cold"))
    lines[1] = lines[1].replace("vert0", "vert1")
    assert list(Comparison().compare(lines, [compiled] * 2, [compiled, hit], "cells", "cold"))


def test_objects_of_one_run() -> None:
    """A call on a pipeline that exists in only one run may differ, until both runs have another pipeline in its
    place."""
    lines = [MAY_NOT, "unpipeline P0", "unpipeline P0"]
    comparison = Comparison()
    driver, layer = [REFUSED, "skip P0", "skip P0"], ["result=0 P0=set:V:-", "done", "skip P0"]
    assert not list(comparison.compare(lines, driver, layer, "cells", "warm"))
    assert comparison.rows["follows"] == 1
    layer[2] = "done"
    assert list(comparison.compare(lines, driver, layer, "cells", "warm"))


def test_lost_lines() -> None:
    """Output that ends early is a difference."""
    assert list(Comparison().compare([PLAIN], ["result=0 P0=set:V:V"], [], "cells", "cold"))


def test_reasons() -> None:
    """Every row of the table says what it allows and why."""
    assert all(row.what and row.why for row in ALLOWED)
    assert len({row.name for row in ALLOWED}) == len(ALLOWED)
