"""Stalls: times without a pause in which a thread creates pipelines."""

from __future__ import annotations

from pylayer.report import stalls
from pylayer.store.timeline import Event

MS = 1_000_000


def found(*spans: tuple[float, float]) -> list[tuple[int, int]]:
    """Returns the stalls, in milliseconds, of pipelines that began and took these milliseconds."""
    events = [Event("pipeline", int(at * MS), int(took * MS), "compiled", thread=1) for at, took in spans]
    return [(stall.start_ns // MS, stall.duration_ns // MS) for stall in stalls.find(events, 16 * MS)]


def test_preemption_does_not_split() -> None:
    """A thread that creates pipelines one after the other and is interrupted in between has one stall."""
    assert found((0, 25), (29, 25)) == [(0, 54)]
    interrupted = [(at, 10.0) if at % 5 else (at, 40.0) for at in range(0, 3000, 50)]
    assert found(*interrupted) == [(0, 2990)]


def test_pause_splits() -> None:
    """A pause as long as what is around it, or over 50 ms, ends a stall."""
    assert found((0, 20), (40, 20)) == [(0, 20), (40, 20)]
    assert found((0, 900), (960, 900)) == [(0, 900), (960, 900)]


def test_short_creations_are_no_stall() -> None:
    """Short creations with pauses never add up to one."""
    assert found(*((at, 2) for at in range(0, 1000, 10))) == []
