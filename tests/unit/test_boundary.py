"""Names on both sides of the boundary."""

from __future__ import annotations

from pylayer._policy import ffi

from pylayer.inhost import boundary
from pylayer.report.counters import COUNTERS
from pylayer.values import Plan


def test_names() -> None:
    """Every field of a plan has its name in Python, and every name has a field."""
    assert sorted(name for name, _ in ffi.typeof("PylayerPlan").fields) == sorted(Plan.__slots__)


def test_counters_are_shown() -> None:
    """Every counter of PylayerCounters has a row in the table of what is shown, but three that only policy uses."""
    hidden = ("caches_emptied", "absorbed", "caches_attested")
    assert [name for name in boundary.COUNTER_NAMES if name not in hidden] == list(COUNTERS)
