"""One page of HTML that contains everything it needs: no network, no file beside it.

The template escapes every text. The page's Content-Security-Policy allows it to load nothing, and to use only the
scripts and styles whose hashes it names: uPlot's (shim/page_library.py), and the page's own.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import time
from collections.abc import Iterable
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from .. import __version__
from ..common import outcomes
from ..store.timeline import Event, Timeline
from . import late_frames, view
from .recorded import Run
from .rows import OUTCOMES, Row, origin, pipeline
from .words import human_time, moment, plural, printable, shorten

#: The page's own script, in this order.
SCRIPTS = (
    *(f"timeline_{part}" for part in ("data", "draw", "tracks", "panel", "move", "input")),
    "timeline",
    "page",
)

#: Most rows of threads. The threads that spent the least time share one more.
MOST_THREADS = 60
WIDEST_NAME = 40


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
    names = {thread: shorten(printable(line.threads.get(thread, "")), WIDEST_NAME) for thread in order[:MOST_THREADS]}
    rows = [{"id": thread, "name": name, "presents": thread in presenting} for thread, name in names.items()]
    if len(order) > len(rows):
        rows.append({"id": 0, "name": f"{plural(len(order) - len(rows), 'other thread')}", "presents": False})
    return rows, {thread: min(number, len(rows) - 1) for number, thread in enumerate(order)}


def _event(event: Event, start: int, line: Timeline) -> Row:
    """Returns the row of a pipeline, or of cache data that was judged. ``sort``: compiled, found, or wait."""
    if event.type == "cache":
        said = f"{event.outcome}: {outcomes.CACHE_DATA.get(event.text, printable(event.text))}"
        judged = {"kind": "cache data judged", "entry_point": "", "outcome": said, "sort": "wait"}
        return pipeline(event, start, line) | judged
    sort = "compiled" if event.may_be_compile or event.outcome == "failed" else "found"
    return {**pipeline(event, start, line), "outcome": OUTCOMES.get(event.outcome, event.outcome), "sort": sort}


def _hits(line: Timeline, start: int) -> list[list[int]]:
    """Returns start, duration and count of the hits of each second, all kinds together."""
    counted: dict[int, list[int]] = {}
    for event in line.events:
        if event.type == "hits":
            own = counted.setdefault(event.start_ns, [_us(event.start_ns - start), 0, 0])
            own[1:] = max(own[1], _us(event.duration_ns)), own[2] + event.value
    return [counted[at] for at in sorted(counted)]


def timeline(line: Timeline, start: int, length_ns: int, frame_ns: int) -> Row:
    """Returns what the page's script gets: rows of events with the index of their thread's row and of the frame that
    they held up, or -1; and frames in columns. ``_us``: microseconds from ``start``, which is nanoseconds on the clock
    of the events. Of ``start_us`` and ``number``, each counts from the one before it."""
    events = sorted((own for own in line.events if own.type in ("pipeline", "cache")), key=lambda own: own.start_ns)
    frames = sorted(late_frames.frames(line), key=lambda frame: frame.start_ns)
    index_of = {frame.key: index for index, frame in enumerate(frames)}
    late = late_frames.late(line, frame_ns)
    held = {event: index_of[frame.key] for event, frame in late_frames.held(late).items()}
    threads, rows = _threads(events, line, {frame.thread for frame in frames})
    columns = {
        "start_us": _deltas(_us(frame.start_ns - start) for frame in frames),
        "duration_us": [_us(frame.took_ns) for frame in frames],
        "number": _deltas(frame.number for frame in frames),
        "swapchain": [frame.swapchain for frame in frames],
        "late": sorted([index_of[own.frame.key], _us(own.pipelines_ns), int(own.by_pipelines)] for own in late),
    }
    return {
        "length_us": _us(length_ns),
        "budget_us": _us(frame_ns),
        "threads": threads,
        "frames": columns if frames else None,
        "events": [
            {**_event(own, start, line), "row": rows[own.thread], "frame": held.get(id(own), -1)} for own in events
        ],
        "hits": _hits(line, start),
    }


def packed(data: Row) -> str:
    """Returns the object as the page holds it: JSON, compressed, in base64."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _file(name: str) -> str:
    found: str = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return found


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _run(run: Run, row: Row, frame_ns: int) -> dict[str, Any]:
    """Returns what the template shows of one run."""
    return {
        "row": row,
        "driver": run.driver,
        "began": moment(row["started_s"]),
        "state": view.state(row),
        "cards": view.cards(row, frame_ns),
        "note": view.timeline_note(row),
        "tables": view.tables(row),
        **_timeline(run, row, frame_ns),
    }


def _timeline(run: Run, row: Row, frame_ns: int) -> dict[str, Any]:
    """Returns the data of the timeline and its name; nothing if there is nothing to see."""
    if run.timeline is None or row["duration_ns"] <= 0:
        return {"timeline": ""}
    data = timeline(run.timeline, origin(run), row["duration_ns"], frame_ns)
    events, frames = len(data["events"]), len(data["frames"]["number"]) if data["frames"] else 0
    of = f"{plural(frames, 'frame')} and " if frames else ""
    label = f"{of}{plural(events, 'event')} on {plural(len(data['threads']), 'thread')}"
    took = human_time(row["duration_ns"])
    return {
        "timeline": Markup(packed(data)) if events or frames else "",
        "timeline_label": f"Timeline: {label} over {took}; the tables have them in words",
    }


def _of(shown: list[Any], there: int | None) -> str:
    return f": {len(shown):,} of {there:,}" if there and there > len(shown) else ""


def _scripts() -> list[str]:
    """Returns uPlot's script and the page's own, which is one function of several files."""
    own = "\n".join(_file(f"{name}.js") for name in SCRIPTS)
    return [_file("uplot.js"), f'(() => {{\n"use strict";\n{own}}})();\n']


def render(chosen: list[tuple[Run, Row]], frame_ns: int) -> str:
    """Returns the page of these runs and their rows."""
    said = [{"id": f"run-{number}", **_run(*one, frame_ns)} for number, one in enumerate(chosen, 1)]
    programs = list(dict.fromkeys(row["program"] for _, row in chosen))
    heading = ", ".join(programs[:3]) + (f" and {len(programs) - 3} more" if len(programs) > 3 else "")
    if len(said) == 1:
        heading += f", {said[0]['began']}"
    scripts, style = _scripts(), _file("uplot.css") + _file("page.css")
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    loader = jinja2.DictLoader({name: _file(name) for name in ("page.html.j2", "parts.html.j2")})
    # No text of a run is used as a template, and every text is escaped.
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template("page.html.j2").render(
        policy=Markup(policy),
        version=__version__,
        title=f"{heading} - pylayer report",
        heading=heading,
        made=moment(time.time()),
        runs=said,
        of=_of,
        css=Markup(style),
        scripts=[Markup(script) for script in scripts],
    )
