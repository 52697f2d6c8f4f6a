"""Names on both sides of the boundary."""

from __future__ import annotations

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


def test_reasons_by_number() -> None:
    """Each reason why state is not recorded stands at its number."""
    said = {"NOT": "", "STRUCTURE": "structure", "HANDLE": "refers to", "IDENTIFIER": "identifier"}
    said |= {"CAPTURE": "capture", "QUEUE": "queue", "MEMORY": "memory"}
    assert len(values.UNRECORDED) == len(said)
    for name, word in said.items():
        reason = values.UNRECORDED[getattr(values, f"UNRECORDED_{name}")]
        assert word in reason and bool(word) == bool(reason)
