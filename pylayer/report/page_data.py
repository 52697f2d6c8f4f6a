"""What the page's script gets of a run: one JSON object, with numbers in columns. Times are microseconds from the run's
beginning. ``start_us`` and ``number`` are delta-coded: each number counts from the one before it."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

from ..common import outcomes
from . import late_frames
from .rows import OUTCOMES, kind_name, stages_of
from .words import plural, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..store.store import Event, Timeline

#: Most rows of threads. The threads that spent the least time share one more.
MOST_THREADS = 60
WIDEST_NAME = 40


class _Table(dict[Any, int]):
    """Values with their index, each once."""

    def __missing__(self, value: Any) -> int:
        self[value] = len(self)
        return self[value]


def _us(nanoseconds: int) -> int:
    return round(nanoseconds / 1000)


def _deltas(values: Iterable[int]) -> list[int]:
    known = list(values)
    return [now - before for now, before in zip(known, [0, *known], strict=False)]


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
    return kind_name(event.kind), of, OUTCOMES.get(event.outcome, event.outcome)


def _pipelines(fingerprints: Iterable[int], line: Timeline, names: _Table) -> dict[str, Any]:
    """Returns what is known of each pipeline, by the index of its fingerprint."""
    shaders, of = _Table(), list(fingerprints)
    listed = [
        [
            shaders[", ".join(stages_of(stage)), f"{code:016x}" if code else "", printable(name)]
            for stage, code, name in line.shaders.get(fingerprint, ())
        ]
        for fingerprint in of
    ]
    return {
        "fingerprint": [f"{fingerprint:016x}" for fingerprint in of],
        "name": [names[printable(line.name_of(fingerprint))] for fingerprint in of],
        "shaders": listed,
        "shader": list(shaders),
    }


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
    frames = sorted(late_frames.frames(line), key=lambda frame: frame.start_ns)
    index_of = {frame.key: index for index, frame in enumerate(frames)}
    late = late_frames.late(line, frame_ns)
    held = late_frames.held(late)
    threads, rows = _threads(events, line, {frame.thread for frame in frames})
    names, what, stages, fingerprints = _Table({"": 0}), _Table(), _Table(), _Table()
    return {
        "length_us": _us(length_ns),
        "budget_us": _us(frame_ns),
        "threads": threads,
        "frames": {
            "start_us": _deltas(_us(frame.start_ns - start) for frame in frames),
            "duration_us": [_us(frame.took_ns) for frame in frames],
            "number": _deltas(frame.number for frame in frames),
            "swapchain": [frame.swapchain for frame in frames],
            "late": sorted([index_of[own.frame.key], _us(own.pipelines_ns), int(own.by_pipelines)] for own in late),
        }
        if frames
        else None,
        "events": {
            "start_us": _deltas(_us(own.start_ns - start) for own in events),
            "duration_us": [_us(own.duration_ns) for own in events],
            "thread": [rows[own.thread] for own in events],
            "what": [what[_what(own)] for own in events],
            "pipeline": [fingerprints[own.fingerprint] if own.fingerprint else -1 for own in events],
            "entry": [names[printable(own.text) if own.type == "pipeline" else ""] for own in events],
            "count": [max(1, own.number) if own.type == "pipeline" else 0 for own in events],
            "stages": [stages[", ".join(stages_of(own.stages))] for own in events],
            "frame": [[index, index_of[held[id(own)].key]] for index, own in enumerate(events) if id(own) in held],
        },
        "pipelines": _pipelines(fingerprints, line, names),
        "names": list(names),
        "what": list(what),
        "stages": list(stages),
        "hits": _hits(line, start),
    }


def packed(data: dict[str, Any]) -> str:
    """Returns the object as the page holds it: JSON, compressed, in base64."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
