"""One page of HTML that contains everything it needs: no network, no file beside it.

The template escapes every text. The page's Content-Security-Policy allows it to load nothing, and to use only the
scripts and styles whose hashes it names: uPlot's (shim/page_library.py), and the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import time
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from .. import __version__
from . import page_data, view
from .rows import origin
from .words import human_time, moment, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from .recorded import Run
    from .rows import Row

#: The page's own script, in this order.
SCRIPTS = (
    *(f"timeline_{part}" for part in ("data", "draw", "frames", "threads", "panel", "move", "select", "input")),
    "timeline",
    "page",
)


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
        "kept": view.kept(row),
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
    data = page_data.of_run(run.timeline, origin(run), row["duration_ns"], frame_ns)
    events, frames = len(data["events"]["thread"]), len(data["frames"]["number"]) if data["frames"] else 0
    of = f"{plural(frames, 'frame')} and " if frames else ""
    label = f"{of}{plural(events, 'event')} on {plural(len(data['threads']), 'thread')}"
    took = human_time(row["duration_ns"])
    return {
        "timeline": Markup(page_data.packed(data)) if events or frames else "",
        "timeline_label": f"Timeline: {label} over {took}; the tables have them in words",
    }


def _of(shown: list[Any], there: int | None) -> str:
    return f": {len(shown):,} of {there:,}" if there and there > len(shown) else ""


def _scripts() -> list[str]:
    """Returns uPlot's script and the page's own, which is one function of several files."""
    own = "\n".join(_file(f"{name}.js") for name in SCRIPTS)
    return [_file("uplot.js"), f'(() => {{\n"use strict";\n{own}}})();\n']


def render(chosen: list[tuple[Run, Row]], frame_ns: int, advance: Callable[[int], None] = lambda amount: None) -> str:
    """Returns the page of these runs and their rows. Calls ``advance`` with 1 after each run."""
    said = []
    for number, (run, row) in enumerate(chosen):
        said.append({"id": f"run-{number + 1}", **_run(run, row, frame_ns)})
        advance(1)
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
