"""``pylayer stats --watch``: what programs under the layer are doing now. It reads only the files that they write
anyway."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import click

from ..report import figures, late_frames
from ..report.recorded import Run
from ..report.remarks import unknown
from ..report.totals import Total
from ..report.words import FRAME_NS, cell, local_time
from ..store import runs
from ..store.timeline import Follower
from .output import EXIT_PROBLEM, console, human_time, is_terminal, marks, print_json, program_table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ..store.store import Event

HEADINGS = ("pid", "state", "late", "created", "hits", "compiled", "spent")
MARKS = {"?": "unknown", "-": "presents no frames"}
NOTHING = "No program is running under pylayer now; start one with: pylayer run -- APP"
#: Seconds for which a program is shown after its last write, if it does not run any more.
SHOWN = {"ended": 5.0, "died": 60.0}
#: The most compiles that are shown.
LATEST = 8
#: Number of events and frames in which the last late frame is searched for.
SEARCHED = 2000
#: Seconds between two looks.
INTERVAL = 1.0


class LiveRun:
    """A run on one device, as its files were at the last look."""

    def __init__(self, root: str, name: str) -> None:
        self._root, self._name = root, name
        self.run = Run({})
        self.state = "unknown"
        self.compiles: deque[dict[str, Any]] = deque(maxlen=LATEST)
        #: What the last late frame was, for people; empty if there was none, or the run has no timeline.
        self.last_late = ""
        self._follower = Follower(root, name)
        self._events: deque[Event] = deque(maxlen=SEARCHED)

    def is_shown(self, status: os.stat_result, now: float) -> bool:
        """Reads the run's file, whose state is given. Returns whether the run goes on, or ended only recently. A file
        without a run is not shown: a sentinel counts none as long as the program's first plan is not there."""
        try:
            values = runs.read(self._root, self._name)
        except (OSError, ValueError):
            return False
        self.run = Run(values)
        idle = now - status.st_mtime
        self.state = self.run.state_after(idle)
        return bool(values) and (self.state == "running" or idle < SHOWN.get(self.state, 0))

    def follow(self) -> None:
        """Reads what was compiled and presented since the last call."""
        line = self._follower.line
        seen = sum(len(times) for times, *_ in line.presents.values())
        for event in self._follower.new():
            if event.type == "pipeline":
                self._events.append(event)
            if event.may_be_compile:
                own = figures.pipeline(event, self.run.started_ns, line)
                ended = self.run.started + (own["at_ns"] + event.duration_ns) / 1e9
                self.compiles.append({"program": self.run.title, "time_s": ended, **own})
        if sum(len(times) for times, *_ in line.presents.values()) == seen:
            return
        line.events = list(self._events)
        late = late_frames.late(line, FRAME_NS)
        if late:
            self.last_late = late_frames.sentence(late[-1], line)
        for columns in line.presents.values():
            for column in columns:
                del column[:-SEARCHED]

    def as_json(self) -> dict[str, Any]:
        """Returns what ``pylayer stats`` says of it, and what only a running program has."""
        total = Total([self.run])
        own = {"pid": self.run.pid, "state": self.state, "last_late": self.last_late}
        return {**total.as_json(), **own, "why_unknown": "".join(unknown(total))}


class Watch:
    """The runs of a store, read again at each look. ``name`` selects programs; None selects all."""

    def __init__(self, root: str, name: str | None) -> None:
        self._root, self._name = root, name
        self._runs: dict[str, LiveRun] = {}
        #: Runs that were over at an earlier look.
        self._over: set[str] = set()

    def look(self) -> list[LiveRun]:
        """Returns the runs to show: running ones first, the newest of them before the others."""
        now = time.time()
        shown = []
        for name, status in runs.files(self._root).items():
            if name in self._over:
                continue
            run = self._runs.setdefault(name, LiveRun(self._root, name))
            if not run.is_shown(status, now):
                self._over |= {name} if run.state in SHOWN else set()
            elif self._name is None or run.run.matches(self._name):
                run.follow()
                shown.append(run)
        return sorted(shown, key=lambda run: (run.state != "running", -run.run.started))


def _latest(found: list[LiveRun]) -> list[dict[str, Any]]:
    return sorted((one for run in found for one in run.compiles), key=lambda one: one["time_s"], reverse=True)[:LATEST]


def _cells(own: dict[str, Any]) -> list[str]:
    numbers = [cell(own, key) for key in ("pipelines", "hits", "compiled", "spent_ns")]
    return [str(own["pid"]), own["state"], cell(own, "late_frames") if own["frames"] else "-", *numbers]


def _compiles(found: list[dict[str, Any]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False)
    for heading in ("compiled", "took", "pipeline", "what", "program"):
        justify, overflow = ("right" if heading == "took" else "left"), "ellipsis"
        table.add_column(heading, no_wrap=True, justify=justify, overflow=overflow)  # type: ignore[arg-type]
    for one in found:
        took = Text(human_time(one["duration_ns"]), style="bold yellow" if one["duration_ns"] > FRAME_NS else "")
        what = one["name"] or " ".join(text for text in (one["kind"], one["entry_point"]) if text)
        when = local_time(one["time_s"], "%H:%M:%S")
        table.add_row(when, took, one["fingerprint"] or "unknown", what, one["program"])
    return table


def _view(out: Console, found: list[LiveRun], name: str | None, hint: str = "") -> RenderableType:
    """Returns everything for people."""
    from rich.console import Group
    from rich.text import Text

    if not found:
        nothing = NOTHING if name is None else f"{name} is not running under pylayer now"
        return Text(f"{nothing}{hint}")
    programs = [run.as_json() for run in found]
    rows = [_cells(own) for own in programs]
    running = sum(run.state == "running" for run in found)
    parts: list[RenderableType] = [Text(f"{running} running{hint}", style="dim")]
    parts += [program_table(out, HEADINGS, [own["program"] for own in programs], rows)]
    said = [(own["last_late"], "yellow") for own in programs] + [(own["why_unknown"], "dim") for own in programs]
    named = zip([own["program"] for own in programs] * 2, said, strict=True)
    parts += [Text(f"{program}: {text}", style=style) for program, (text, style) in named if text]
    if latest := _latest(found):
        parts += [Text(), _compiles(latest)]
    if meaning := marks([cell for row in rows for cell in row], MARKS):
        parts += [Text(), Text(meaning, style="dim")]
    return Group(*parts)


def _live(out: Console, watched: Watch, name: str | None) -> None:
    """Shows the view until the user ends it. Uses the terminal's alternate screen, so the previous content comes
    back."""
    from rich.live import Live

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_view(out, watched.look(), name, " (Ctrl-C ends)"), refresh=True)
            time.sleep(INTERVAL)


def watch(root: str, name: str | None, as_json: bool) -> None:
    """Shows what programs are doing now, on a terminal until the user ends it. Ends with status 1 if ``name`` is given
    and was not running at the only look."""
    out, watched = console(), Watch(root, name)
    if is_terminal() and not as_json:
        _live(out, watched, name)
        return
    found = watched.look()
    if as_json:
        programs = [run.as_json() for run in found]
        print_json({"store": root, "programs": programs, "latest_compiles": _latest(found)})
    else:
        out.print(_view(out, found, name))
    if name is not None and not found:
        raise click.exceptions.Exit(EXIT_PROBLEM)
