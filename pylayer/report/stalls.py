"""Stalls: times when a thread was held up for longer than a frame lasts.

The layer does not see frames. It sees when a thread is in calls that create pipelines. Calls that follow each other
within ``GAP_NS`` are one stall, because a frame that creates ten pipelines waits for all of them. On a thread that
renders, a stall longer than a frame is a stutter. On a thread that loads, it need not be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..store.store import Event

#: What a program does between two pipelines of the same frame takes less time than this.
GAP_NS = 1_000_000

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


def find(events: Iterable[Event], budget_ns: int) -> list[Stall]:
    """Returns the stalls longer than ``budget_ns``, ordered by their start."""
    threads: dict[int, list[Event]] = {}
    for event in events:
        if event.type in HOLDS_UP and event.thread:
            threads.setdefault(event.thread, []).append(event)
    found = []
    for thread, own in threads.items():
        own.sort(key=lambda event: event.start_ns)
        group: list[Event] = []
        end = 0
        for event in own:
            if group and event.start_ns - end > GAP_NS:
                found.append(Stall(thread, group))
                group = []
            end = max(end, event.start_ns + event.duration_ns) if group else event.start_ns + event.duration_ns
            group.append(event)
        if group:
            found.append(Stall(thread, group))
    return sorted((stall for stall in found if stall.duration_ns > budget_ns), key=lambda stall: stall.start_ns)


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
