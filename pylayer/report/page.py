"""One page of HTML, with all that it needs inside: no network, no file beside it.

The template escapes every text. The page's Content-Security-Policy lets it load nothing, and run only the two scripts
whose hashes it names.
"""

from __future__ import annotations

import base64
import hashlib
import time
from importlib import resources
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..words import human_time, plural, printable
from . import drawing, view
from .figures import moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from .recorded import Recorded


def _file(name: str) -> str:
    found: str = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return found


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _names(recorded: Recorded, root: str) -> dict[int, str]:
    line = recorded.timeline(root)
    known = line.threads.items() if line is not None else ()
    return {thread: f"{printable(name)} ({thread})" for thread, name in known if name}


def _run(
    number: int, root: str, recorded: Recorded, own: dict[str, Any], shared: drawing.Shared, frame_ns: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the template and what the script need of one run."""
    drawn = drawing.of_run(recorded, recorded.timeline(root), own, shared, frame_ns)
    names = _names(recorded, root)
    duration = human_time(own["duration_ns"])
    driver = ", ".join(text for text in (own["driver"], own["driver_info"]) if text)
    said: dict[str, Any] = {
        "id": f"run-{number + 1}",
        **{key: own[key] for key in ("program", "device", "reason")},
        "remarks": [text[:1].upper() + text[1:] for text in own["remarks"]],
        "driver_text": driver,
        "kept": view.CARRIERS.get(own["carrier"], own["carrier"] or "unknown"),
        "began": moment(own["started_s"]),
        "when": f"Began {moment(own['started_s'])}, {view.STATES[own['state']].format(duration=duration)}",
        "process": f", process {own['pid']}" if own["pid"] else "",
        "cards": view.cards(own, frame_ns),
        "timeline_note": view.timeline_note(own, drawn["left_out"]),
        "has_timeline": bool(drawn["events"]["at"]) and own["duration_ns"] > 0,
        "timeline_label": f"{plural(len(drawn['events']['at']), 'event')} on {plural(len(drawn['threads']), 'thread')} "
        f"over {duration}, {plural(own['stalls'], 'stall')} longer than {human_time(frame_ns)}; "
        "the tables have them in words",
        "stalls_more": _of(len(own["longest_stalls"]), own["stalls"]),
        "slow_more": _of(len(own["slowest"]), own["compiled"]),
        "kinds_label": "Hits and compiled pipelines by kind; the table below has the numbers",
        "history_label": "Hits, compiled pipelines and what was stored, by run; the table below has the numbers",
        "has_growth": len(own["history"]) > 1,
        "saved_meaning": view.saved_meaning(own),
        "against": view.against(own["against"], own, names, number) if own.get("against") else None,
    }
    said["stall_columns"], said["stall_rows"] = view.stalls(own, names, number)
    said["slow_columns"], said["slow_rows"] = view.pipelines(own["slowest"], names, number)
    said["kind_columns"], said["kind_rows"] = view.kinds(own)
    said["verdict_columns"], said["verdict_rows"] = view.verdicts(own)
    said["history_columns"], said["history_rows"] = view.history(own)
    return said, drawn


def _of(shown: int, there: int) -> str:
    return f": {shown:,} of {there:,}" if there > shown else ""


def render(
    root: str,
    chosen: list[tuple[Recorded, dict[str, Any]]],
    frame_ns: int,
    advance: Callable[[int], None] = lambda amount: None,
) -> str:
    """The page of these runs and their figures; ``advance`` is told of each that is done."""
    import jinja2
    from jinja2.utils import htmlsafe_json_dumps
    from markupsafe import Markup

    shared = drawing.Shared()
    said, drawn = [], []
    for number, (recorded, own) in enumerate(chosen):
        texts, columns = _run(number, root, recorded, own, shared, frame_ns)
        said.append(texts)
        drawn.append(columns)
        advance(1)
    programs = list(dict.fromkeys(texts["program"] for texts in said))
    heading = ", ".join(programs[:3]) + (f" and {len(programs) - 3} more" if len(programs) > 3 else "")
    css, script, echarts = _file("page.css"), _file("page.js"), _file("echarts/echarts.min.js")
    policy = (
        f"default-src 'none'; script-src {_hash(echarts)} {_hash(script)}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    loader = jinja2.DictLoader({name: _file(name) for name in ("page.html.j2", "table.html.j2")})
    # No text of a run is a template, and none gets past the escaping.
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template("page.html.j2").render(
        policy=Markup(policy),
        version=__version__,
        title=f"pylayer: {heading}",
        heading=heading,
        made=moment(time.time()),
        frame=human_time(frame_ns),
        runs=said,
        css=Markup(css),
        echarts=Markup(echarts),
        script=Markup(script),
        data=htmlsafe_json_dumps({"runs": drawn, **shared.as_json()}, separators=(",", ":")),
    )
