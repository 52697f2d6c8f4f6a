"""What the page's script gets of a run: one JSON object, with numbers in columns. Times are microseconds from the run's
beginning. ``start_us`` is delta-coded: each number counts from the one before it."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

from ..common import outcomes
from . import figures, late_frames
from .words import plural, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from ..store.store import Event, Timeline

#: Most rows of threads. The threads that spent the least time share one more.
MOST_THREADS = 60
WIDEST_NAME = 40


class _Table:
    """Values by their index, each once."""

    def __init__(self) -> None:
        self._of: dict[Hashable, int] = {}

    def index(self, value: Hashable) -> int:
        """Returns the value's index."""
        return self._of.setdefault(value, len(self._of))

    def values(self) -> list[Any]:
        """Returns the values in the order of their indices."""
        return list(self._of)


def _us(nanoseconds: int) -> int:
    return round(nanoseconds / 1000)


def _deltas(values: list[int]) -> list[int]:
    return [now - before for now, before in zip(values, [0, *values], strict=False)]


def _threads(events: list[Event], line: Timeline, presenting: set[int]) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """Returns the rows of threads and the row of each thread: those that present first, then the busiest."""
    spent: dict[int, int] = {}
    for event in events:
        spent[event.thread] = spent.get(event.thread, 0) + event.duration_ns
    order = sorted(spent, key=lambda thread: (thread not in presenting, -spent[thread]))
    rows: list[dict[str, Any]] = []
    for thread in order[:MOST_THREADS]:
        name = shorten(printable(line.threads.get(thread, "")), WIDEST_NAME)
        rows.append({"id": thread, "name": name, "presents": thread in presenting})
    if len(order) > len(rows):
        rows.append({"id": 0, "name": f"{plural(len(order) - len(rows), 'other thread')}", "presents": False})
    return rows, {thread: min(number, len(rows) - 1) for number, thread in enumerate(order)}


def _what(event: Event) -> tuple[str, str, str]:
    """Returns kind, class of colour and outcome of an event. A class: compiled, found, or wait."""
    if event.type == "cache":
        meaning = outcomes.CACHE_DATA.get(event.text, printable(event.text))
        return "cache data judged", "wait", f"{event.outcome}: {meaning}"
    of = "compiled" if event.may_be_compile or event.outcome == "failed" else "found"
    return figures.kind_name(event.kind), of, figures.OUTCOMES.get(event.outcome, event.outcome)


def _pipelines(fingerprints: Sequence[int], line: Timeline, names: _Table) -> dict[str, Any]:
    """Returns what is known of each pipeline, by the index of its fingerprint."""
    shaders = _Table()
    listed = [
        [
            shaders.index((", ".join(figures.stages_of(stage)), f"{code:016x}" if code else "", printable(name)))
            for stage, code, name in line.shaders.get(fingerprint, ())
        ]
        for fingerprint in fingerprints
    ]
    return {
        "fingerprint": [f"{fingerprint:016x}" for fingerprint in fingerprints],
        "name": [names.index(printable(line.name_of(fingerprint))) for fingerprint in fingerprints],
        "shaders": listed,
        "shader": shaders.values(),
    }


def _frames(
    shown: Sequence[late_frames.Frame], late: dict[tuple[int, int], late_frames.Late], start: int
) -> dict[str, Any]:
    """Returns frames in the order in which they began. Only where a frame does not follow the one before are its number
    and swapchain told, and its duration only where it does not end as the next begins. Of a late one: its index, how
    much of it was pipelines, and whether they are the reason."""
    begins = [_us(frame.start_ns - start) for frame in shown]
    ends = [_us(frame.end_ns - start) for frame in shown]
    numbers, durations, late_ones = [], [], []
    for index, frame in enumerate(shown):
        before = shown[index - 1] if index else None
        if before is None or (before.swapchain, before.number + 1) != (frame.swapchain, frame.number):
            numbers.append([index, frame.swapchain, frame.number])
        if index + 1 == len(shown) or ends[index] != begins[index + 1]:
            durations.append([index, ends[index] - begins[index]])
        own = late.get((frame.swapchain, frame.number))
        if own is not None:
            late_ones.append([index, _us(own.pipelines_ns), int(own.by_pipelines)])
    return {"start_us": _deltas(begins), "numbers": numbers, "durations": durations, "late": late_ones}


def _hits(line: Timeline, start: int) -> list[list[int]]:
    """Returns start, duration and count of the hits of each second, all kinds together."""
    counted: dict[int, list[int]] = {}
    for event in line.events:
        if event.type == "hits":
            own = counted.setdefault(event.start_ns, [_us(event.start_ns - start), 0, 0])
            own[1:] = max(own[1], _us(event.duration_ns)), own[2] + event.value
    return [counted[at] for at in sorted(counted)]


def of_run(line: Timeline, start: int, length_ns: int, frame_ns: int) -> dict[str, Any]:
    """Returns the object. ``start``: when the run began, in nanoseconds on the clock of its events."""
    events = sorted((own for own in line.events if own.type in ("pipeline", "cache")), key=lambda own: own.start_ns)
    shown = sorted(late_frames.frames(line), key=lambda frame: frame.start_ns)
    late = {(own.frame.swapchain, own.frame.number): own for own in late_frames.late(line, frame_ns)}
    index_of = {(frame.swapchain, frame.number): index for index, frame in enumerate(shown)}
    held = {id(event): index_of[key] for key, own in late.items() if own.by_pipelines for event in own.events}
    threads, rows = _threads(events, line, {frame.thread for frame in shown})
    names, what, stages, fingerprints = _Table(), _Table(), _Table(), _Table()
    names.index("")
    return {
        "length_us": _us(length_ns),
        "budget_us": _us(frame_ns),
        "threads": threads,
        "frames": _frames(shown, late, start) if shown else None,
        "events": {
            "start_us": _deltas([_us(own.start_ns - start) for own in events]),
            "duration_us": [_us(own.duration_ns) for own in events],
            "thread": [rows[own.thread] for own in events],
            "what": [what.index(_what(own)) for own in events],
            "pipeline": [fingerprints.index(own.fingerprint) if own.fingerprint else -1 for own in events],
            "entry": [names.index(printable(own.text) if own.type == "pipeline" else "") for own in events],
            "count": [max(1, own.number) if own.type == "pipeline" else 0 for own in events],
            "stages": [stages.index(", ".join(figures.stages_of(own.stages))) for own in events],
            "frame": [[index, held[id(own)]] for index, own in enumerate(events) if id(own) in held],
        },
        "pipelines": _pipelines(fingerprints.values(), line, names),
        "names": names.values(),
        "what": what.values(),
        "stages": stages.values(),
        "hits": _hits(line, start),
    }


def packed(data: dict[str, Any]) -> str:
    """Returns the object as the page holds it: JSON, compressed, in base64."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
