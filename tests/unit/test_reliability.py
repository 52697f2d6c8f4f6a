"""docs/reliability.md: every test that it names exists, no row is half a row, and there are enough of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "reliability.md").read_text()
COLUMNS = ["fault", "how injected", "the program saw", "the user saw", "lost", "test"]


def rows() -> list[list[str]]:
    faults = TEXT.split("## Drivers that fail")[1]
    lines = [line for line in faults.splitlines() if line.startswith("|") and not line.startswith("|---")]
    split = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in split if row != COLUMNS]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w/]+\.py::\w+)`", TEXT))))
def test_named_test_exists(name: str) -> None:
    """A test that the page names is a function of that name in that file."""
    file, _, function = name.partition("::")
    assert re.search(rf"^def {function}\(", (ROOT / "tests" / file).read_text(), re.M)


def test_every_row_is_whole() -> None:
    """A row has all columns and names its test."""
    for row in rows():
        assert len(row) == len(COLUMNS) and row[0] and row[1] and row[2], row
        assert re.search(r"`[\w/]+\.py::\w+`$", row[-1]), row


def test_there_are_enough_rows() -> None:
    """At least sixty faults, each named once."""
    names = [row[0] for row in rows()]
    assert len(names) == len(set(names)) >= 60
