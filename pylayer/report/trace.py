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
from .figures import OUTCOMES, kind_name, pipeline
from .words import FRAME_NS, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.store import Event, Timeline
    from .recorded import Run

#: Rows for what the layer did for a device on no thread of the program. No thread has such a number (PID_MAX_LIMIT is
#: 2**22).
ROWS = {"device": 0x7F000000, "load": 0x7F000001, "cache": 0x7F000002, "end": 0x7F000003}
ROW_NAMES = {
    "device": "pylayer: vkCreateDevice",
    "load": "pylayer: store",
    "cache": "pylayer: cache data",
    "end": "pylayer: end of device",
}
OTHER_ROW = 0x7F000005
#: Rows of frames, one for each swapchain of each device.
FRAME_ROWS = 0x7E800000
EVENTS_IN_PIECE = 1000


def _microseconds(nanoseconds: int) -> float:
    """Returns the time in a trace's unit, to the nanosecond: a double holds that for 104 days of uptime."""
    return nanoseconds / 1000


def _name(event: Event, line: Timeline) -> str:
    if event.type == "pipeline" and (name := line.name_of(event.fingerprint)):
        return printable(name)
    if event.type == "pipeline":
        return kind_name(event.kind) if event.outcome != "slow" else f"{kind_name(event.kind)}, slow hit"
    return {
        "cache": "vkCreatePipelineCache",
        "load": "store loaded",
        "device": "vkCreateDevice",
        "end": "device ends",
    }.get(event.type, event.type)


def _arguments(event: Event, line: Timeline) -> dict[str, Any]:
    if event.type == "pipeline":
        own = {**pipeline(event, 0, line), "meaning": OUTCOMES.get(event.outcome, "")}
        return {key: value for key, value in own.items() if value and key not in ("at_ns", "duration_ns", "thread")}
    if event.type == "cache":
        reason = printable(event.text)
        own = {"cache": event.number, "bytes": event.value, "verdict": event.outcome}
        return {**own, "reason": reason, "meaning": outcomes.CACHE_DATA.get(reason, "")}
    if event.type == "load":
        return {"records": event.number, "bytes": event.value}
    if event.type == "device":
        return {"carrier": event.outcome, "reason": printable(event.text)}
    return {}


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
    late = {(own.frame.swapchain, own.frame.number): own for own in late_frames.late(line, frame_ns)}
    rows: dict[int, int] = {}
    for frame in late_frames.frames(line):
        own = late.get((frame.swapchain, frame.number))
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
            tid = ROWS.get(event.type, OTHER_ROW)
            rows[tid] = ROW_NAMES.get(event.type, "pylayer")
        arguments = {**_arguments(event, line), "device": device}
        yield _slice(pid, tid, event.type, _name(event, line), event.start_ns, event.duration_ns, arguments)
    for number, (tid, name) in enumerate(rows.items()):
        if name:
            yield _metadata(pid, tid, "thread_name", name=name)
        yield _metadata(pid, tid, "thread_sort_index", sort_index=number + (1000 if tid >= ROWS["device"] else 0))


def events(chosen: list[tuple[Run, Timeline]], frame_ns: int = FRAME_NS) -> Iterator[dict[str, Any]]:
    """Yields every event of the trace. Runs of one process share its pid. A run whose pid is unknown gets a number of
    its own."""
    named: set[int] = set()
    for number, (run, line) in enumerate(chosen):
        pid = run.pid or 0x7E000000 + number
        if pid not in named:
            named.add(pid)
            yield _metadata(pid, None, "process_name", name=run.title)
            yield _metadata(pid, None, "process_labels", labels=run.texts["device"])
        yield from _of_device(run, line, pid)
        yield from _frames(line, pid, FRAME_ROWS + 1024 * (number % 1024), frame_ns)


class Trace:
    """The trace of these runs as text. Frames that take no longer than ``frame_ns`` are not late. ``count`` is how many
    events it has, once all its pieces were taken."""

    def __init__(self, chosen: list[tuple[Run, Timeline]], frame_ns: int = FRAME_NS) -> None:
        self.count = 0
        self._chosen = chosen
        self._events = events(chosen, frame_ns)

    def pieces(self) -> Iterator[str]:
        """Yields the text in pieces: that of a run with a million events takes gigabytes as Python's objects."""
        yield '{"traceEvents":[\n'
        while taken := list(islice(self._events, EVENTS_IN_PIECE)):
            lines = (json.dumps(event, separators=(",", ":")) for event in taken)
            yield (",\n" if self.count else "") + ",\n".join(lines)
            self.count += len(taken)
        yield f'\n],"displayTimeUnit":"ms","otherData":{json.dumps(_about(self._chosen))}}}\n'


def _about(chosen: list[tuple[Run, Timeline]]) -> dict[str, Any]:
    runs = [{"run": run.name, "started_monotonic_us": _microseconds(run.started_ns)} for run, _ in chosen]
    return {"program": "pylayer", "version": __version__, "clock": "CLOCK_MONOTONIC, in microseconds", "runs": runs}
