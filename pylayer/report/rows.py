"""Rows: what is known of runs, as plain values. Each form (table, --json, Prometheus, page, trace) is made of them.

Durations are nanoseconds. ``at_ns`` counts from the beginning of the run; ``_s`` is seconds since 1970.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..common import outcomes
from ..store.timeline import FRAME_NS, Event, Timeline
from ..values import GOOD_OUTCOMES, KIND_NAMES
from . import late_frames
from .counters import NUMBERS
from .recorded import SHOWN, Run, number_in
from .words import human_time, plural, printable

Row = dict[str, Any]

#: The numbers that are no sums: of several runs, the highest counts.
HIGHEST = ("longest_frame_ns", "last_late_s", "first_frame_ns")
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


# ---- remarks: what is worth a line beside the numbers ------------------------------------------------------


def lost(row: Row) -> str:
    """Returns why the estimate of saved time is negative; empty if it is not."""
    saved, waited = row["saved_estimate_ns"], row["waited_ns"]
    if saved is None or saved >= 0:
        return ""
    gain = f"hits saved {human_time(saved + waited)}" if row["hits"] else "no hits counted, as in a first run"
    return f"waited {human_time(waited)} for the layer; {gain}"


def unknown(row: Row) -> list[str]:
    """Returns a line if it is not known which pipelines the driver compiled."""
    count, passed = row["unknown_pipelines"], row["passed"]
    if not count:
        return []
    whys = ["the layer did not touch the calls"] if passed else []
    whys += ["the program's device has no creation feedback"] if count > passed else []
    compiled = sum(kind["compiled"] for kind in row["kinds"])
    least = f"; it compiled at least {compiled}" if compiled else ""
    what = f"unknown of {plural(count, 'pipeline')} whether the driver compiled {'it' if count == 1 else 'them'}"
    return [f"{what}, because {', or '.join(whys)}{least}"]


def _of_each(counts: dict[str, int], text: str, meanings: dict[str, str], without: tuple[str, ...]) -> list[str]:
    """Returns a line for each outcome that is worth one."""
    found = {name: f" ({meanings[name]})" if name in meanings else "" for name in counts if name not in without}
    return [f"{text} {name}{meaning}: {counts[name]}" for name, meaning in found.items()]


def remarks(row: Row) -> list[str]:
    """Returns what is worth a line beside the numbers."""
    mode = row["mode"]
    shown = {key: number.meaning for key, number in NUMBERS.items() if number.remark and row[key]}
    if mode == "observe":
        shown.pop("plain", None)
    texts = [f"{meaning}: {row[key]}" for key, meaning in shown.items()]
    texts += unknown(row)
    # Journals end inside a record where programs were killed.
    texts += _of_each(row["damage"], "parts of the store left out as", outcomes.STORE, ("truncated",))
    texts += _of_each(row["refused"], "cache data refused as", outcomes.CACHE_DATA, ())
    given = "cache data that the driver was given although"
    texts += _of_each(row["cache_outcomes"], given, outcomes.CACHE_DATA, tuple(GOOD_OUTCOMES))
    if mode == "off":
        texts.append(f"nothing is stored: {row['reason']}")
    if mode == "observe":
        texts.append("observed only: nothing is stored")
    return texts


# ---- several runs of a program ---------------------------------------------------------------------------


def mean_compile_ns(group: Iterable[Run]) -> float:
    """Returns the mean time of a compilation over runs; 0 if they compiled nothing."""
    numbers = [run.numbers for run in group]
    count = sum(one["compiled"] for one in numbers)
    return sum(one["compile_ns"] for one in numbers) / count if count else 0.0


def _saved(group: list[Run], own_mean: float) -> int | None:
    """Returns an estimate in nanoseconds: the time that compiling the hits again would have taken, less the time that
    they took, and less what the program waited because of the layer. It is negative if that was longer.

    A stored record saves one compilation a run. Hits beyond the number of records are pipelines created twice, or
    linked from libraries, which the driver does fast by itself. A compilation is assumed to take the mean of those
    whose records the run read, or if it read none, ``own_mean``: the mean over all runs of the program. Returns None if
    nothing is known. Hits in the program's own cache count too, because it is unknown whether the program or the layer
    put the pipeline there.
    """
    saved = 0.0
    for run in group:
        hits = run.sums["hits"]
        replaced = min(hits, run.numbers["fetched"])
        mean = run.mean_compile_ns or own_mean
        if replaced and not mean:
            return None
        saved += replaced * (mean - run.numbers["hit_ns"] / hits) if replaced else 0
        saved -= run.sums["waited_ns"]
    return round(saved)


def shown_sums(found: Sequence[dict[str, int | None]]) -> dict[str, int | None]:
    """Returns sums of the numbers ``SHOWN``. The sum of unknown numbers is None."""
    columns = {key: [numbers[key] for numbers in found] for key in SHOWN}
    return {key: None if None in column else sum(filter(None, column)) for key, column in columns.items()}


def _counted(group: list[Run], key: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for run in group:
        for outcome, count in run.counts(key).items():
            total[outcome] = total.get(outcome, 0) + count
    return total


def _kinds(group: list[Run]) -> list[Row]:
    total: dict[str, Row] = {}
    for run in group:
        for kind, counts in run.kinds.items():
            own = total.setdefault(kind, {"kind": kind, **dict.fromkeys(counts, 0)})
            own |= {key: own[key] + count for key, count in counts.items()}
    return [own for own in total.values() if own["hits"] or own["compiled"]]


def of_runs(group: list[Run], own_mean: float | None = None) -> Row:
    """Returns the row of runs of one program. ``own_mean``: how long a compilation of the program takes on average, if
    other runs than these tell it."""
    newest = max(group, key=lambda run: run.date)
    numbers = {key: (max if key in HIGHEST else sum)([run.numbers[key] for run in group]) for key in NUMBERS}
    row = {
        **newest.texts,
        "program": newest.title,
        "program_id": f"{newest.program_id:016x}",
        "executable": newest.executable,
        "application": newest.application,
        "identity": newest.identity,
        "runs": len(group),
        "first_started_s": min(run.started for run in group),
        "last_started_s": newest.started,
        **numbers,
        **shown_sums([run.shown() for run in group]),
        "kinds": _kinds(group),
        "refused": _counted(group, "refused"),
        "cache_outcomes": _counted(group, "cache_outcomes"),
        "damage": _counted(group, "damage"),
        "saved_estimate_ns": _saved(group, mean_compile_ns(group) if own_mean is None else own_mean),
    }
    lines = dict.fromkeys(f"{line} (pylayer ls)" for run in group for line in run.blocks)
    classes = dict.fromkeys(run.policy for run in group if run.policy)
    return {**row, "remarks": [*remarks(row), *classes, *lines]}


def programs(found: Iterable[Run], newest_only: bool = False) -> list[Row]:
    """Returns a row for each program and identity, the program that ran last first."""
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in sorted(found, key=lambda run: run.date):
        groups.setdefault((run.identity, run.program_id), []).append(run)
    newest_first = sorted(groups.values(), key=lambda group: group[-1].date, reverse=True)
    return [of_runs(group[-1:] if newest_only else group, mean_compile_ns(group)) for group in newest_first]


# ---- one run ---------------------------------------------------------------------------------------------


def stages_of(bits: int) -> list[str]:
    """Returns the names of shader stages."""
    return [name for bit, name in STAGES if bits & bit]


def kind_name(kind: int) -> str:
    """Returns the name of a kind of pipeline, for people."""
    return KIND_NAMES[kind] if kind < len(KIND_NAMES) else f"kind {kind}"


def origin(run: Run) -> int:
    """Returns when the run began, in nanoseconds on the clock of its events."""
    starts = [event.start_ns for event in run.timeline.events] if run.timeline is not None else []
    return min([*starts, run.started_ns] if run.started_ns else starts, default=0)


def _duration(run: Run) -> int:
    """Returns how long the run lasted, in nanoseconds. For a run that goes on it counts until now, for one that died
    until its last event or frame."""
    lengths, line = [0], run.timeline
    if line is not None:
        ends = [event.start_ns + event.duration_ns for event in line.events]
        ends += [times[-1] for times, *_ in line.presents.values() if times]
        lengths += [max(ends) - origin(run)] if ends else []
    end = time.time() if run.state == "running" else run.ended
    lengths += [int((end - run.started) * 1e9)] if end > run.started > 0 else []
    return max(lengths)


def pipeline(event: Event, start: int, line: Timeline) -> Row:
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


def _slowest(line: Timeline, start: int, late: list[late_frames.Late]) -> list[Row]:
    """Returns the pipelines that took longest, and the late frame that each held up."""
    held = late_frames.held(late)
    compiles = (event for event in line.events if event.may_be_compile)
    slowest = sorted(compiles, key=lambda event: event.duration_ns, reverse=True)[:SLOWEST]
    return [
        {"frame": held[id(event)].number if id(event) in held else None, **pipeline(event, start, line)}
        for event in slowest
    ]


def cache_data(row: Row) -> list[Row]:
    """Returns how often cache data that the program passed was passed on or refused, by reason."""
    return [
        {"outcome": outcome, "reason": name, "meaning": outcomes.CACHE_DATA.get(name, ""), "count": count}
        for outcome, key in (("passed", "cache_outcomes"), ("refused", "refused"))
        for name, count in row[key].items()
    ]


def of_run(found: list[Run], run: Run, frame_ns: int = FRAME_NS) -> Row:
    """Returns everything about one of the recorded runs. Frames that take no longer than ``frame_ns`` are not late."""
    line, start = run.timeline, origin(run)
    own = [one for one in found if one.program_id == run.program_id and one.identity == run.identity]
    row = of_runs([run], mean_compile_ns(own))
    late = late_frames.late(line, frame_ns) if line is not None else []
    return {
        **row,
        "run": run.name,
        "pid": run.pid,
        "started_s": run.started,
        "ended_s": run.ended or None,
        "state": run.state,
        "duration_ns": _duration(run),
        **late_frames.row(run.numbers, line, late, frame_ns, start),
        "slowest": _slowest(line, start, late) if line is not None else [],
        "cache_data": cache_data(row),
        "timeline": {
            "outcome": line.outcome if line is not None else "missing",
            "events": len(line.events) if line is not None else 0,
            "dropped": int(number_in(run.values, "timeline_dropped")),
        },
    }
