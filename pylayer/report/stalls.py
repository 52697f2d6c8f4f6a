"""Stalls: times without a pause in which a thread was in calls that create pipelines, for longer than a frame lasts.

For a program whose frames are not seen. On a thread that renders, a stall is a stutter. On a thread that loads, it need
not be. A pause is longer than a quarter of what is on one of its sides: on a busy processor, a thread that creates
pipelines one after the other is interrupted in between. A present is a pause of the thread that presents.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..store.store import Event, Timeline
    from .recorded import Run

    #: By swapchain: times, numbers and threads.
    Presents = Mapping[int, tuple[Sequence[int], Sequence[int], Sequence[int]]]

#: A shorter gap is no pause, and a longer one always is.
GAP_NS, PAUSE_NS = 1_000_000, 50_000_000

#: Types of events that hold up a thread of the program.
HOLDS_UP = ("pipeline", "wait", "cache")


class Stall:
    """A time without a pause in which one thread was in calls that hold it up."""

    __slots__ = ("duration_ns", "events", "start_ns", "thread")

    def __init__(self, thread: int, events: list[Event]) -> None:
        self.thread = thread
        self.events = events
        self.start_ns = events[0].start_ns
        self.duration_ns = max(event.start_ns + event.duration_ns for event in events) - self.start_ns

    @property
    def longest(self) -> Event:
        """The event of the stall that took longest."""
        return max(self.events, key=lambda event: event.duration_ns)

    @property
    def pipelines(self) -> int:
        """How many pipelines were created in it, without hits that were not recorded one by one."""
        return sum(max(1, event.number) for event in self.events if event.type == "pipeline")


class _Busy:
    """Events of one thread, and when the first began and the last ended."""

    __slots__ = ("end", "events", "start")

    def __init__(self, event: Event) -> None:
        self.events = [event]
        self.start, self.end = event.start_ns, event.start_ns + event.duration_ns

    def goes_on(self, later: _Busy) -> bool:
        """Returns whether there is no pause before ``later``."""
        longer = max(self.end - self.start, later.end - later.start)
        return later.start - self.end <= max(GAP_NS, min(longer // 4, PAUSE_NS))

    def add(self, later: _Busy) -> None:
        self.events += later.events
        self.end = max(self.end, later.end)


def _without_pause(events: list[Event]) -> list[list[Event]]:
    """Returns the events of a thread, in order, in groups without a pause."""
    groups: list[_Busy] = []
    for event in events:
        groups.append(_Busy(event))
        while len(groups) > 1 and groups[-2].goes_on(groups[-1]):
            groups[-2].add(groups.pop())
    return [group.events for group in groups]


def find(events: Iterable[Event], budget_ns: int, presents: Presents | None = None) -> list[Stall]:
    """Returns the stalls longer than ``budget_ns``, ordered by their start. ``presents``: the timeline's."""
    presented: dict[int, list[int]] = {}
    for times, _, of in (presents or {}).values():
        for time_ns, thread in zip(times, of, strict=True):
            presented.setdefault(thread, []).append(time_ns)
    for own_times in presented.values():
        own_times.sort()
    busy: dict[tuple[int, int], list[Event]] = {}
    for event in events:
        if event.type in HOLDS_UP and event.thread:
            frame = bisect_right(presented.get(event.thread, []), event.start_ns)
            busy.setdefault((event.thread, frame), []).append(event)
    found = [
        Stall(thread, group)
        for (thread, _), own in busy.items()
        for group in _without_pause(sorted(own, key=lambda event: event.start_ns))
    ]
    return sorted((stall for stall in found if stall.duration_ns > budget_ns), key=lambda stall: stall.start_ns)


def known(run: Run, line: Timeline | None, budget_ns: int) -> bool:
    """Returns whether it is known which stalls a run had: it has a timeline, or all its creations together took less
    than a frame. Calls that passed are not timed without a timeline."""
    return line is not None or (run.spent_ns <= budget_ns and not run.numbers["passed"])


def totals(run: Run, line: Timeline | None, budget_ns: int) -> tuple[list[Stall], dict[str, int | None]]:
    """Returns the stalls of a run, and their numbers as in --json: None where they are not known."""
    found = find(line.events, budget_ns, line.presents) if line is not None else []
    is_known = known(run, line, budget_ns)
    return found, {
        "stalls": len(found) if is_known else None,
        "stalled_ns": sum(stall.duration_ns for stall in found) if is_known else None,
        "longest_stall_ns": max((stall.duration_ns for stall in found), default=0) if is_known else None,
    }


def as_json(stall: Stall, origin_ns: int) -> dict[str, Any]:
    """Returns a stall with units in key names. ``at_ns`` counts from the run's start."""
    longest = stall.longest
    return {
        "at_ns": stall.start_ns - origin_ns,
        "duration_ns": stall.duration_ns,
        "thread": stall.thread,
        "pipelines": stall.pipelines,
        "longest": f"{longest.fingerprint:016x}" if longest.fingerprint else "",
        "longest_ns": longest.duration_ns,
        "longest_type": longest.type,
    }
