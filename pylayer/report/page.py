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
from .figures import moment, origin
from .words import human_time, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.store import Timeline
    from .recorded import Run

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


def _run(number: int, root: str, run: Run, own: dict[str, Any], frame_ns: int) -> dict[str, Any]:
    """Returns what the template shows of one run."""
    line = run.timeline(root)
    names = view.thread_names(line)
    driver = ", ".join(text for text in (own["driver"], own["driver_info"]) if text)
    said: dict[str, Any] = {
        "id": f"run-{number + 1}",
        "name": own["run"],
        **{key: own[key] for key in ("program", "device", "reason")},
        "remarks": [text[:1].upper() + text[1:] for text in own["remarks"]],
        "driver_text": driver,
        "kept": view.CARRIERS.get(own["carrier"], own["carrier"] or "unknown"),
        "began": moment(own["started_s"]),
        "when": f"Began {moment(own['started_s'])}, {view.state(own)}",
        "process": f", process {own['pid']}" if own["pid"] else "",
        "cards": view.cards(own, frame_ns),
        "late_more": _of(len(own["late"]), own["late_frames"] or 0),
        "slow_more": _of(len(own["slowest"]), own["compiled"] or 0),
        "timeline_note": view.timeline_note(own),
        "timeline": None,
        "frames": own["frames"],
    }
    if line is not None and own["duration_ns"] > 0:
        said |= _timeline(run, line, own, frame_ns)
    for key, table in view.tables(own, names).items():
        said[f"{key}_columns"], said[f"{key}_rows"] = table
    return said


def _timeline(run: Run, line: Timeline, own: dict[str, Any], frame_ns: int) -> dict[str, Any]:
    data = page_data.of_run(line, origin(run, line), own["duration_ns"], frame_ns)
    events, frames = len(data["events"]["thread"]), len(data["frames"]["start_us"]) if data["frames"] else 0
    if not events and not frames:
        return {}
    of = f"{plural(frames, 'frame')} and " if frames else ""
    return {
        "timeline": Markup(page_data.packed(data)),
        "timeline_label": (
            f"Timeline: {of}{plural(events, 'event')} on {plural(len(data['threads']), 'thread')} over "
            f"{human_time(own['duration_ns'])}; the tables have them in words"
        ),
    }


def _of(shown: int, there: int) -> str:
    return f": {shown:,} of {there:,}" if there > shown else ""


def _scripts() -> list[str]:
    """Returns uPlot's script and the page's own, which is one function of several files."""
    own = "\n".join(_file(f"{name}.js") for name in SCRIPTS)
    return [_file("uplot.js"), f'(() => {{\n"use strict";\n{own}}})();\n']


def render(
    root: str,
    chosen: list[tuple[Run, dict[str, Any]]],
    frame_ns: int,
    advance: Callable[[int], None] = lambda amount: None,
) -> str:
    """Returns the page of these runs and their figures. Calls ``advance`` with 1 after each run."""
    said = []
    for number, (run, own) in enumerate(chosen):
        said.append(_run(number, root, run, own, frame_ns))
        advance(1)
    programs = list(dict.fromkeys(texts["program"] for texts in said))
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
        css=Markup(style),
        scripts=[Markup(script) for script in scripts],
    )
