"""The numbers of a report, as ``--json`` prints them and the page shows them.

Durations are nanoseconds. ``at_ns`` counts from the beginning of the run; ``_s`` is seconds since 1970.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..common import outcomes
from ..values import KIND_NAMES
from . import late_frames
from .recorded import Run, number_in
from .remarks import remarks
from .totals import Total, mean_compile_ns
from .words import FRAME_NS, local_time, printable

if TYPE_CHECKING:
    from ..store.store import Event, Timeline

#: Most rows of the table of pipelines.
SLOWEST = 50

#: VkShaderStageFlagBits, in the order of a pipeline.
STAGES = (
    (0x00000001, "vertex"),
    (0x00000002, "tessellation control"),
    (0x00000004, "tessellation evaluation"),
    (0x00000008, "geometry"),
    (0x00000040, "task"),
    (0x00000080, "mesh"),
    (0x00000010, "fragment"),
    (0x00000020, "compute"),
    (0x00000100, "ray generation"),
    (0x00000200, "any hit"),
    (0x00000400, "closest hit"),
    (0x00000800, "miss"),
    (0x00001000, "intersection"),
    (0x00002000, "callable"),
)

#: What became of a pipeline, in words.
OUTCOMES = {
    "compiled": "compiled, and kept",
    "uncacheable": "compiled; the driver gave nothing to keep",
    "plain": "created without probing the cache first",
    "passed": "created by the driver alone",
    "unknown": "compiled or found by the driver, which does not say",
    "slow": "a hit that took long",
    "failed": "the driver returned an error",
}


def moment(seconds: float, short: bool = False) -> str:
    """Returns the local time of a moment; ``short`` omits year and seconds."""
    return local_time(seconds, "%m-%d %H:%M" if short else "%Y-%m-%d %H:%M:%S", "unknown time")


def stages_of(bits: int) -> list[str]:
    """Returns the names of shader stages."""
    return [name for bit, name in STAGES if bits & bit]


def kind_name(kind: int) -> str:
    """Returns the name of a kind of pipeline, for people."""
    return KIND_NAMES[kind] if kind < len(KIND_NAMES) else f"kind {kind}"


def origin(run: Run, line: Timeline | None) -> int:
    """Returns when the run began, in nanoseconds on the clock of its events."""
    starts = [event.start_ns for event in line.events] if line is not None else []
    if run.started_ns:
        starts.append(run.started_ns)
    return min(starts, default=0)


def duration(run: Run, line: Timeline | None) -> int:
    """Returns how long the run lasted, in nanoseconds. For a run that goes on it counts until now, for one that died
    until its last event or frame."""
    ends = [event.start_ns + event.duration_ns for event in line.events] if line is not None else []
    ends += [times[-1] for times, *_ in line.presents.values() if times] if line is not None else []
    last = max(ends, default=0)
    lengths = [last - origin(run, line)] if last else []
    if run.ended > run.started > 0:
        lengths.append(int((run.ended - run.started) * 1e9))
    elif run.state == "running":
        lengths.append(int(max(0.0, time.time() - run.started) * 1e9))
    return max(lengths, default=0)


def pipeline(event: Event, start: int, line: Timeline) -> dict[str, Any]:
    """Returns everything that is known of one pipeline."""
    return {
        "fingerprint": f"{event.fingerprint:016x}" if event.fingerprint else "",
        "kind": kind_name(event.kind),
        "stages": stages_of(event.stages),
        "entry_point": printable(event.text),
        "name": printable(line.name_of(event.fingerprint)),
        "shaders": [
            {"stage": ", ".join(stages_of(stage)), "hash": f"{code:016x}" if code else "", "name": printable(name)}
            for stage, code, name in line.shaders.get(event.fingerprint, ())
        ],
        "outcome": event.outcome,
        "at_ns": event.start_ns - start,
        "duration_ns": event.duration_ns,
        "pipelines": max(1, event.number),
        "kept_bytes": event.value,
        "thread": event.thread,
        "thread_name": printable(line.threads.get(event.thread, "")),
    }


def verdicts(run: Run) -> list[dict[str, Any]]:
    """Returns how often cache data that the program passed was passed on or refused, by reason."""
    return [
        {"verdict": verdict, "reason": name, "meaning": outcomes.CACHE_DATA.get(name, ""), "count": count}
        for verdict, counts in (("passed", run.outcomes), ("emptied", run.refused))
        for name, count in counts.items()
    ]


def of_run(root: str, found: list[Run], run: Run, frame_ns: int = FRAME_NS) -> dict[str, Any]:
    """Returns everything about one run."""
    line = run.timeline(root)
    start = origin(run, line)
    events = line.events if line is not None else []
    about_frames = late_frames.FrameFigures(run.numbers, line, frame_ns)
    slowest = sorted(
        (event for event in events if event.may_be_compile), key=lambda event: event.duration_ns, reverse=True
    )
    own = [one for one in found if one.program == run.program and one.identity == run.identity]
    total = Total([run], mean_compile_ns(own))
    return {
        **total.as_json(),
        "run": run.name,
        "pid": run.pid,
        "started_s": run.started,
        "ended_s": run.ended or None,
        "state": run.state,
        "duration_ns": duration(run, line),
        "store_bytes": int(number_in(run.values, "store_bytes")) or None,
        "kinds": [{"kind": name, **own} for name, own in run.kinds.items() if own["hits"] or own["compiled"]],
        **about_frames.as_json(start),
        "slowest": [
            pipeline(event, start, line)
            | {"frame": held.frame.number if (held := about_frames.held.get(id(event))) else None}
            for event in slowest[:SLOWEST]
        ]
        if line is not None
        else [],
        "verdicts": verdicts(run),
        "remarks": remarks(total),
        "timeline": {
            "outcome": line.outcome if line is not None else "missing",
            "events": len(events),
            "dropped": int(number_in(run.values, "timeline_dropped")),
        },
    }
