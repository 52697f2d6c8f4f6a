"""A run as a trace in Chrome's JSON format, which Perfetto, chrome://tracing and many other tools open.

Times are CLOCK_MONOTONIC, the clock of the layer and of most other tracers, so that one trace can be viewed beside
another (docs/observe.md). The format:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .. import __version__
from ..common import outcomes
from ..store.timeline import FRAME_NS, Event, Timeline
from . import late_frames
from .recorded import Run
from .rows import OUTCOMES, kind_name, pipeline
from .words import printable

#: The row of what is on no known thread, such as cache data that was judged. No thread has such a number
#: (PID_MAX_LIMIT is 2**22).
OTHER_ROW = 0x7F000000
#: Rows of frames, one for each swapchain of each device.
FRAME_ROWS = 0x7E800000
EVENTS_IN_PIECE = 1000


def _microseconds(nanoseconds: int) -> float:
    """Returns the time in a trace's unit, to the nanosecond: a double holds that for 104 days of uptime."""
    return nanoseconds / 1000


def _name_and_arguments(event: Event, line: Timeline) -> tuple[str, dict[str, Any]]:
    """Returns the name of an event's slice, and what else is known of it."""
    if event.type == "cache":
        meaning = outcomes.CACHE_DATA.get(event.text, "")
        known = {"cache": event.number, "bytes": event.value, "outcome": event.outcome, "meaning": meaning}
        return "vkCreatePipelineCache", {**known, "reason": printable(event.text)}
    own = {**pipeline(event, 0, line), "meaning": OUTCOMES.get(event.outcome, "")}
    name = own["name"] or own["kind"] + ", slow hit" * (event.outcome == "slow")
    without = ("at_ns", "duration_ns", "thread")
    return name, {key: value for key, value in own.items() if value and key not in without}


def _slice(
    pid: int, tid: int, kind: str, name: str, start_ns: int, took_ns: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    own = {"ph": "X", "pid": pid, "tid": tid, "cat": f"pylayer,{kind}", "name": name, "args": arguments}
    return {**own, "ts": _microseconds(start_ns), "dur": _microseconds(took_ns)}


def _metadata(pid: int, tid: int | None, what: str, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, **({"tid": tid} if tid is not None else {}), "name": what, "args": arguments}


def _frames(line: Timeline, pid: int, first: int, frame_ns: int) -> Iterator[dict[str, Any]]:
    """Yields a row of frames for each swapchain. Late ones are named as such, with what held them up. ``first``: the
    number of the first row."""
    late = {own.frame.key: own for own in late_frames.late(line, frame_ns)}
    rows: dict[int, int] = {}
    for frame in late_frames.frames(line):
        own = late.get(frame.key)
        arguments: dict[str, Any] = {"number": frame.number, "swapchain": frame.swapchain, "thread": frame.thread}
        if own is not None:
            arguments |= {"pipelines_ms": own.pipelines_ns / 1e6, "what": late_frames.sentence(own, line)}
        row = rows.setdefault(frame.swapchain, first + len(rows))
        kind = "frame" if own is None else "late frame"
        name = f"{kind}, pipelines" if own is not None and own.by_pipelines else kind
        yield _slice(pid, row, kind, name, frame.start_ns, frame.took_ns, arguments)
    for swapchain, row in rows.items():
        name = "frames" if len(rows) == 1 else f"frames of swapchain {swapchain}"
        yield _metadata(pid, row, "thread_name", name=name)


def _of_device(run: Run, line: Timeline, pid: int) -> Iterator[dict[str, Any]]:
    totals: dict[int, int] = {}
    rows: dict[int, str] = {}
    device = run.texts["device"]
    for event in sorted(line.events, key=lambda event: event.start_ns):
        if event.type == "hits":
            before = totals.get(event.kind, 0)  # a counter track begins at 0
            totals[event.kind] = before + event.value
            for at, count in ((event.start_ns, before), (event.start_ns + event.duration_ns, before + event.value)):
                own = {"ph": "C", "pid": pid, "name": f"hits, {kind_name(event.kind)}"}
                yield {**own, "ts": _microseconds(at), "args": {"count": count}}
            continue
        tid = event.thread or OTHER_ROW
        rows.setdefault(tid, printable(line.threads.get(tid, "")) if event.thread else "pylayer: cache data")
        name, arguments = _name_and_arguments(event, line)
        arguments["device"] = device
        yield _slice(pid, tid, event.type, name, event.start_ns, event.duration_ns, arguments)
    for tid, name in rows.items():
        if name:
            yield _metadata(pid, tid, "thread_name", name=name)


def events(chosen: list[Run], frame_ns: int = FRAME_NS) -> Iterator[dict[str, Any]]:
    """Yields every event of the trace. Frames that take no longer than ``frame_ns`` are not late. Runs of one process
    share its pid. A run whose pid is unknown gets a number of its own."""
    named: set[int] = set()
    for number, run in enumerate(chosen):
        pid = run.pid or 0x7E000000 + number
        if pid not in named:
            named.add(pid)
            yield _metadata(pid, None, "process_name", name=run.title)
        if run.timeline is not None:
            yield from _of_device(run, run.timeline, pid)
            yield from _frames(run.timeline, pid, FRAME_ROWS + 1024 * (number % 1024), frame_ns)


def pieces(chosen: list[Run], frame_ns: int = FRAME_NS) -> Iterator[str]:
    """Yields the trace of these runs as text in pieces: that of a run with a million events takes gigabytes as Python's
    objects."""
    yield '{"traceEvents":[\n'
    found, before = events(chosen, frame_ns), ""
    while taken := list(islice(found, EVENTS_IN_PIECE)):
        yield before + ",\n".join(json.dumps(event, separators=(",", ":")) for event in taken)
        before = ",\n"
    runs = [{"run": run.name, "started_monotonic_us": _microseconds(run.started_ns)} for run in chosen]
    clock = "CLOCK_MONOTONIC, in microseconds"
    about = {"program": "pylayer", "version": __version__, "clock": clock, "runs": runs}
    yield f'\n],"displayTimeUnit":"ms","otherData":{json.dumps(about)}}}\n'
