"""Names on both sides of the boundary."""

from __future__ import annotations

import re

import pytest
from pylayer._policy import ffi

from pylayer import values
from pylayer.inhost import boundary
from pylayer.report.counters import COUNTERS, NOT_SHOWN
from pylayer.values import Plan


def test_names() -> None:
    """Every field of a plan has its name in Python, and every name has a field."""
    assert sorted(name for name, _ in ffi.typeof("PylayerPlan").fields) == sorted(Plan.__slots__)


def test_counters_are_shown() -> None:
    """The layer counts what the table has."""
    assert list(boundary.COUNTER_NAMES) == [*COUNTERS, *NOT_SHOWN]


def numbers(enum: str) -> dict[str, int]:
    """Returns the numbers of an enum of shim/boundary.h, by their names without what all of them begin with."""
    found = ffi.typeof(f"enum {enum}").relements
    return {name.split("_", 2)[2]: number for name, number in sorted(found.items(), key=lambda pair: pair[1])}


@pytest.mark.parametrize(
    ("enum", "beginning", "others"),
    [
        ("PylayerMode", "MODE", set()),
        ("PylayerCellFlags", "CELL", set()),
        ("PylayerLogLevel", "LOG", set()),
        ("PylayerUnit", "UNIT", set()),
        ("PylayerVerdict", "VERDICT", {"NONE"}),
    ],
)
def test_numbers(enum: str, beginning: str, others: set[str]) -> None:
    """The numbers in values.py are those of the enum, but for what policy never sends."""
    known = {name: value for name, value in vars(values).items() if isinstance(value, int)}
    found = {name: known.get(f"{beginning}_{name}") for name in numbers(enum).keys() - others}
    assert found == {name: number for name, number in numbers(enum).items() if name not in others}


def words(text: str) -> str:
    return re.sub(r"\W+", "_", text).upper()


def test_names_by_number() -> None:
    """Names that stand in the order of an enum's numbers are the enum's."""
    assert [words(name) for name in values.MODE_NAMES] == list(numbers("PylayerMode"))
    assert [words(name) for name in values.KIND_NAMES] == list(numbers("PylayerPipelineKind"))
    assert ["KEPT", *(words(name) for name in values.OUTCOME_NAMES[1:])] == list(numbers("PylayerOutcome"))


def test_reasons_by_number() -> None:
    """Each reason why state is not recorded stands at the number that the layer sends. The list of those that another
    run may not meet has both that depend on the moment."""
    said = {"NOT": "", "STRUCTURE": "structure", "HANDLE": "refers to", "IDENTIFIER": "identifier"}
    said |= {"CAPTURE": "capture", "QUEUE": "queue", "MEMORY": "memory"}
    reasons = numbers("PylayerUnrecorded")
    assert reasons.keys() == said.keys() and list(reasons.values()) == list(range(len(values.UNRECORDED)))
    for name, number in reasons.items():
        assert said[name] in values.UNRECORDED[number] and bool(said[name]) == bool(values.UNRECORDED[number])
    assert (reasons["QUEUE"], reasons["MEMORY"]) == values.UNRECORDED_ONCE
