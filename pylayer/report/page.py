"""One page of HTML that contains everything it needs: no network, no file beside it.

The template escapes every text. The page's Content-Security-Policy allows it to load nothing, and to run only the two
scripts whose hashes it names: Plotly's, which is in the plotly package, and page.js.
"""

from __future__ import annotations

import base64
import hashlib
import time
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from .. import __version__
from . import drawing, view
from .figures import moment
from .words import human_time, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.store import Timeline
    from .recorded import Recorded


def _file(name: str) -> str:
    found: str = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return found


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _run(number: int, root: str, recorded: Recorded, own: dict[str, Any], frame_ns: int) -> dict[str, Any]:
    """Returns what the template shows of one run."""
    line = recorded.timeline(root)
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
        "stalls_more": _of(len(own["longest_stalls"]), own["stalls"]),
        "slow_more": _of(len(own["slowest"]), own["compiled"]),
        "saved_meaning": view.saved_meaning(own),
        "against": view.against(own["against"], own, names) if own.get("against") else None,
        "kinds": drawing.kinds(own["kinds"]),
        "history": drawing.history(own["history"]) if len(own["history"]) > 1 else None,
        **_timeline(recorded, line, own, frame_ns),
    }
    said["stall_columns"], said["stall_rows"] = view.stalls(own, names)
    said["slow_columns"], said["slow_rows"] = view.pipelines(own["slowest"], names)
    said["kind_columns"], said["kind_rows"] = view.kinds(own)
    said["verdict_columns"], said["verdict_rows"] = view.verdicts(own)
    said["history_columns"], said["history_rows"] = view.history(own)
    return said


def _timeline(recorded: Recorded, line: Timeline | None, own: dict[str, Any], frame_ns: int) -> dict[str, Any]:
    drawn = drawing.timeline(recorded, line, own["duration_ns"], frame_ns) if line is not None else None
    said = {"timeline": drawn, "timeline_note": view.timeline_note(own, drawn.left_out if drawn else 0)}
    if drawn is not None:
        said["length_s"] = own["duration_ns"] / 1e9
        said["timeline_label"] = (
            f"{plural(drawn.events, 'event')} on {plural(drawn.threads, 'thread')} over "
            f"{human_time(own['duration_ns'])}, {plural(own['stalls'], 'stall')} longer than {human_time(frame_ns)}; "
            "the tables have them in words"
        )
    return said


def _of(shown: int, there: int) -> str:
    return f": {shown:,} of {there:,}" if there > shown else ""


def render(
    root: str,
    chosen: list[tuple[Recorded, dict[str, Any]]],
    frame_ns: int,
    advance: Callable[[int], None] = lambda amount: None,
) -> str:
    """Returns the page of these runs and their figures. Calls ``advance`` with 1 after each run."""
    said = []
    for number, (recorded, own) in enumerate(chosen):
        said.append(_run(number, root, recorded, own, frame_ns))
        advance(1)
    programs = list(dict.fromkeys(texts["program"] for texts in said))
    heading = ", ".join(programs[:3]) + (f" and {len(programs) - 3} more" if len(programs) > 3 else "")
    if len(said) == 1:
        heading += f", {said[0]['began']}"
    css, script, plotly = _file("page.css"), _file("page.js"), get_plotlyjs()
    policy = (
        f"default-src 'none'; script-src {_hash(plotly)} {_hash(script)}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    loader = jinja2.DictLoader({name: _file(name) for name in ("page.html.j2", "parts.html.j2")})
    # No text of a run is used as a template, and every text is escaped.
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment.get_template("page.html.j2").render(
        policy=Markup(policy),
        version=__version__,
        title=f"{heading} - pylayer report",
        heading=heading,
        made=moment(time.time()),
        frame=human_time(frame_ns),
        runs=said,
        css=Markup(css),
        plotly=Markup(plotly),
        script=Markup(script),
    )
