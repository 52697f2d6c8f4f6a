"""Frames of a run: which came late, and which pipelines held them up.

A creation holds up a frame if it lies in it and is on the thread that presents. On another thread it holds up a frame
only if no more than ``QUEUE`` frames were presented in time since that thread is busy with creations: otherwise the
program did not wait for it. Nor does it if the creations on the thread that presents explain the frame by themselves.
Generated frames, which follow another at once, count as one with that. A late frame is late *by pipelines* if creations
took at least half of what was too long: the time beyond the usual. Creations of all devices of the process count.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..store.timeline import AT_ONCE_NS, FRAME_NS, PAUSE_NS, Event, Timeline, Usual
from .words import human_time, plural, printable

#: As many frames may be presented while a thread waits for a compile on another one.
QUEUE = 2
#: A thread that begins its next creation within this time is still busy.
GAP_NS = 1_000_000
#: The most late frames that are listed.
LISTED = 20


class Frame(NamedTuple):
    """A frame: from one present of a swapchain to the next, which has the number and the thread."""

    number: int
    swapchain: int
    start_ns: int
    end_ns: int
    thread: int

    @property
    def took_ns(self) -> int:
        """How long the frame took."""
        return self.end_ns - self.start_ns

    @property
    def key(self) -> tuple[int, int]:
        """What identifies the frame."""
        return self.swapchain, self.number


class Late:
    """A late frame, and the events that held it up. ``pipelines_ns``: for how long at least one of them did."""

    __slots__ = ("events", "frame", "pipelines_ns", "usual_ns")

    def __init__(self, frame: Frame, usual_ns: int, events: list[Event]) -> None:
        self.frame = frame
        self.usual_ns = usual_ns
        own = [event for event in events if event.thread == frame.thread]
        self.events, self.pipelines_ns = own, _covered(frame, own)
        if not self.by_pipelines:
            self.events, self.pipelines_ns = events, _covered(frame, events)

    @property
    def by_pipelines(self) -> bool:
        """Whether pipelines took at least half of what was too long."""
        return 2 * self.pipelines_ns >= self.frame.took_ns - self.usual_ns

    @property
    def is_pause(self) -> bool:
        """Whether nothing was to be seen for so long that it is no late frame: a hidden window, a loading screen."""
        return self.frame.took_ns > PAUSE_NS and 2 * self.pipelines_ns < self.frame.took_ns


def _covered(frame: Frame, events: list[Event]) -> int:
    total = until = 0
    for event in sorted(events, key=lambda event: event.start_ns):
        start = max(event.start_ns, frame.start_ns, until)
        end = min(event.start_ns + event.duration_ns, frame.end_ns)
        total += max(0, end - start)
        until = max(until, end)
    return total


def frames(line: Timeline) -> Iterator[Frame]:
    """Yields the frames of a timeline, swapchain by swapchain. A frame is missing if one of its presents is."""
    for swapchain, (times, numbers, threads) in line.presents.items():
        for at in range(1, len(times)):
            if numbers[at] == numbers[at - 1] + 1:
                yield Frame(numbers[at], swapchain, times[at - 1], times[at], threads[at])


def _at_once(times: Sequence[int]) -> list[int]:
    """Returns for each present how many so far followed another at once."""
    found, count, last = [], 0, -AT_ONCE_NS
    for time in times:
        if time - last < AT_ONCE_NS:
            count += 1
        else:
            last = time
        found.append(count)
    return found


class _Events:
    """Finds the events that held up a frame. ``late``: by swapchain, the numbers of late frames."""

    def __init__(self, line: Timeline, late: dict[int, list[int]]) -> None:
        events = [event for event in (*line.events, *line.beside) if event.type == "pipeline" and event.thread]
        self._presents = line.presents
        self._at_once = {swapchain: _at_once(times) for swapchain, (times, *_) in line.presents.items()}
        self._late = late
        self._events = sorted(events, key=lambda event: event.start_ns)
        self._starts = [event.start_ns for event in self._events]
        self._longest = max((event.duration_ns for event in events), default=0)
        #: Since when an event's thread was busy with creations, by ``id`` of the event.
        self._busy_since: dict[int, int] = {}
        until: dict[int, tuple[int, int]] = {}
        for event in self._events:
            since, end = until.get(event.thread, (event.start_ns, event.start_ns))
            since = since if event.start_ns <= end + GAP_NS else event.start_ns
            until[event.thread] = since, max(end, event.start_ns + event.duration_ns)
            self._busy_since[id(event)] = since

    def of(self, frame: Frame) -> list[Event]:
        """Returns the events that held up a frame."""
        first = bisect_left(self._starts, frame.start_ns - self._longest)
        return [
            event
            for event in self._events[first : bisect_right(self._starts, frame.end_ns)]
            if event.start_ns + event.duration_ns > frame.start_ns and self._holds(event, frame)
        ]

    def _holds(self, event: Event, frame: Frame) -> bool:
        if event.thread == frame.thread:
            return True
        times, numbers, _ = self._presents[frame.swapchain]
        first = bisect_right(times, self._busy_since[id(event)])
        last = bisect_left(times, event.start_ns + event.duration_ns) - 1
        if last < first:
            return True
        late = self._late[frame.swapchain]
        late_ones = bisect_right(late, numbers[last]) - bisect_left(late, numbers[first])
        # By their numbers: a timeline lacks presents for which policy was too busy.
        at_once = self._at_once[frame.swapchain]
        return numbers[last] - numbers[first] + 1 - late_ones - (at_once[last] - at_once[first]) <= QUEUE


def late(line: Timeline, budget_ns: int) -> list[Late]:
    """Returns the late frames, in order. ``budget_ns``: frames that take no longer are not late."""
    usual: dict[int, Usual] = {}
    numbers: dict[int, list[int]] = {swapchain: [] for swapchain in line.presents}
    slow = []
    for frame in frames(line):
        known = usual.setdefault(frame.swapchain, Usual())
        if known.is_late(frame.took_ns, budget_ns):
            slow.append((frame, known.usual_ns()))
            numbers[frame.swapchain].append(frame.number)
        known.add(frame.took_ns)
    events = _Events(line, numbers)
    found = [Late(frame, usual_ns, events.of(frame)) for frame, usual_ns in slow]
    return sorted((own for own in found if not own.is_pause), key=lambda own: own.frame.start_ns)


def longest_ns(line: Timeline, found: list[Late]) -> int:
    """Returns how long the longest frame took, without pauses. ``found``: what ``late`` returned."""
    seen = {own.frame.took_ns for own in found}
    return max((took for frame in frames(line) if (took := frame.took_ns) <= PAUSE_NS or took in seen), default=0)


def row(
    numbers: dict[str, int], line: Timeline | None, found: list[Late], budget_ns: int, origin_ns: int
) -> dict[str, Any]:
    """Returns what is known of a run's frames, with units in key names. ``numbers``: what the layer counted, which is
    shown if the timeline lacks frames. ``found``: what ``late`` returned."""
    seen = sum(len(times) for times, *_ in line.presents.values()) if line is not None else 0
    count = max(numbers["frames"], seen)
    known: dict[str, int | None] = {
        "late_frames": len(found),
        "late_by_pipelines": sum(own.by_pipelines for own in found),
        "longest_frame_ns": longest_ns(line, found) if line is not None else 0,
    }
    if not count:
        known = dict.fromkeys(known)
    elif seen == count and budget_ns == FRAME_NS:  # a timeline lacks short creations, the layer counts them
        known["late_by_pipelines"] = min(len(found), max(known["late_by_pipelines"] or 0, numbers["late_by_pipelines"]))
    elif seen < count:  # the layer counts late frames by one budget only
        has = budget_ns == FRAME_NS
        known = {key: numbers[key] if has or key == "longest_frame_ns" else None for key in known}
    longest = sorted(found, key=lambda own: -own.frame.took_ns)[:LISTED]
    return {
        "frames": count or None,
        **known,
        "frames_all_seen": seen == count if count else None,
        "late": [as_json(own, line, origin_ns) for own in longest if line is not None],
    }


def held(found: list[Late]) -> dict[int, Frame]:
    """Returns the late frame that each event held up, by ``id`` of the event. ``found``: what ``late`` returned."""
    return {id(event): own.frame for own in found if own.by_pipelines for event in own.events}


def _names(own: Late, line: Timeline) -> str:
    """Returns the pipelines of a late frame, the longest first, as in 'water.frag and 3 more'."""
    made = sorted((event for event in own.events if event.type == "pipeline"), key=lambda event: -event.duration_ns)
    if not made:
        return ""
    first = printable(line.name_of(made[0].fingerprint)) or (
        f"{made[0].fingerprint:016x}" if made[0].fingerprint else "a pipeline"
    )
    more = sum(max(1, event.number) for event in made) - 1
    return f"{first} and {more:,} more" if more else first


def _thread(thread: int, line: Timeline) -> str:
    name = printable(line.threads.get(thread, ""))
    return f"the {name} thread ({thread})" if name else f"thread {thread}"


def sentence(own: Late, line: Timeline) -> str:
    """Returns what a late frame was, as in 'frame 4,312 took 92 ms, 88 ms of it compiling water.frag on the render
    thread (71)'."""
    frame = own.frame
    of = f" of swapchain {frame.swapchain}" if len(line.presents) > 1 else ""
    text = f"frame {frame.number:,}{of} took {human_time(frame.took_ns)}"
    if not own.pipelines_ns:
        return f"{text}, none of it in pipelines"
    threads = sorted({event.thread for event in own.events})
    where = _thread(threads[0], line) + (f" and {plural(len(threads) - 1, 'more thread')}" if threads[1:] else "")
    names = _names(own, line)
    compiled = any(event.is_compile for event in own.events)
    doing = f"{'compiling' if compiled else 'creating'} {names}" if names else "waiting for the store"
    return f"{text}, {human_time(own.pipelines_ns)} of it {doing} on {where}"


def as_json(own: Late, line: Timeline, origin_ns: int) -> dict[str, Any]:
    """Returns a late frame with units in key names. ``at_ns`` counts from the run's start."""
    frame = own.frame
    return {
        "frame": frame.number,
        "swapchain": frame.swapchain,
        "at_ns": frame.start_ns - origin_ns,
        "duration_ns": frame.took_ns,
        "usual_ns": own.usual_ns,
        "pipelines_ns": own.pipelines_ns,
        "by_pipelines": own.by_pipelines,
        "text": sentence(own, line),
    }
