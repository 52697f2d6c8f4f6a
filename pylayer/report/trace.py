"""A run as a trace in Chrome's JSON format, which Perfetto, chrome://tracing and many other tools open.

Times are CLOCK_MONOTONIC, the clock of the layer and of most other tracers, so that one trace can be viewed beside
another (docs/observe.md). The format:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..common import outcomes
from . import late_frames
from .rows import OUTCOMES, kind_name, pipeline
from .words import FRAME_NS, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.store import Event, Timeline
    from .recorded import Run

#: What the layer did for a device on no thread of the program: names of the row and of its slices.
ROWS = {
    "device": ("pylayer: vkCreateDevice", "vkCreateDevice"),
    "load": ("pylayer: store", "store loaded"),
    "cache": ("pylayer: cache data", "vkCreatePipelineCache"),
    "end": ("pylayer: end of device", "device ends"),
}
#: The first row of these. No thread has such a number (PID_MAX_LIMIT is 2**22).
FIRST_ROW = 0x7F000000
#: Rows of frames, one for each swapchain of each device.
FRAME_ROWS = 0x7E800000
EVENTS_IN_PIECE = 1000
#: Arguments of events, by the fields of theirs that they are.
ARGUMENTS = {
    "cache": {"cache": "number", "bytes": "value", "outcome": "outcome", "reason": "text"},
    "load": {"records": "number", "bytes": "value"},
    "device": {"carrier": "outcome", "reason": "text"},
}


def _microseconds(nanoseconds: int) -> float:
    """Returns the time in a trace's unit, to the nanosecond: a double holds that for 104 days of uptime."""
    return nanoseconds / 1000


def _name_and_arguments(event: Event, line: Timeline) -> tuple[str, dict[str, Any]]:
    """Returns the name of an event's slice, and what else is known of it."""
    if event.type != "pipeline":
        named = {name: getattr(event, field) for name, field in ARGUMENTS.get(event.type, {}).items()}
        own = {name: printable(value) if isinstance(value, str) else value for name, value in named.items()}
        if event.type == "cache":
            own["meaning"] = outcomes.CACHE_DATA.get(own["reason"], "")
        return ROWS.get(event.type, ("", event.type))[1], own
    own = {**pipeline(event, 0, line), "meaning": OUTCOMES.get(event.outcome, "")}
    name = own["name"] or own["kind"] + ", slow hit" * (event.outcome == "slow")
    without = ("at_ns", "duration_ns", "thread")
    return name, {key: value for key, value in own.items() if value and key not in without}


def _counter(event: Event, totals: dict[str, int]) -> tuple[str, int]:
    """Returns the name of a counter, and its value at the end of the event's interval."""
    name = f"hits, {kind_name(event.kind)}" if event.type == "hits" else printable(event.text)
    totals[name] = totals.get(name, 0) + event.value
    return name, totals[name]


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
        yield _metadata(pid, row, "thread_sort_index", sort_index=-1)


def _of_device(run: Run, line: Timeline, pid: int) -> Iterator[dict[str, Any]]:
    totals: dict[str, int] = {}
    rows: dict[int, str] = {}
    device = run.texts["device"]
    for event in sorted(line.events, key=lambda event: event.start_ns):
        if event.type in ("hits", "count"):
            name, total = _counter(event, totals)
            at = _microseconds(event.start_ns + event.duration_ns)
            if total == event.value:  # a counter track begins at 0
                yield {"ph": "C", "pid": pid, "name": name, "ts": _microseconds(event.start_ns), "args": {"count": 0}}
            yield {"ph": "C", "pid": pid, "name": name, "ts": at, "args": {"count": total}}
            continue
        tid = event.thread
        if tid:
            rows.setdefault(tid, printable(line.threads.get(tid, "")))
        else:
            tid = FIRST_ROW + (list(ROWS).index(event.type) if event.type in ROWS else len(ROWS))
            rows[tid] = ROWS.get(event.type, ("pylayer", ""))[0]
        name, arguments = _name_and_arguments(event, line)
        arguments["device"] = device
        yield _slice(pid, tid, event.type, name, event.start_ns, event.duration_ns, arguments)
    for number, (tid, name) in enumerate(rows.items()):
        if name:
            yield _metadata(pid, tid, "thread_name", name=name)
        yield _metadata(pid, tid, "thread_sort_index", sort_index=number + (1000 if tid >= FIRST_ROW else 0))


def events(chosen: list[Run], frame_ns: int = FRAME_NS) -> Iterator[dict[str, Any]]:
    """Yields every event of the trace. Frames that take no longer than ``frame_ns`` are not late. Runs of one process
    share its pid. A run whose pid is unknown gets a number of its own."""
    named: set[int] = set()
    for number, run in enumerate(chosen):
        pid = run.pid or 0x7E000000 + number
        if pid not in named:
            named.add(pid)
            yield _metadata(pid, None, "process_name", name=run.title)
            yield _metadata(pid, None, "process_labels", labels=run.texts["device"])
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
