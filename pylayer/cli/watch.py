"""``pylayer stats --watch``: what programs under the layer are doing now. It reads only the files that they write
anyway."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import deque
from typing import TYPE_CHECKING

import click

from ..report import late_frames, rows
from ..report.recorded import Run
from ..report.words import FRAME_NS, local_time
from ..store import runs, timeline
from .output import EXIT_PROBLEM, console, is_terminal, print_json, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from ..report.rows import Row
    from ..store.store import Event

COLUMNS = {
    "program": "program",
    "#pid": "pid",
    "state": "state",
    "#late": "late_frames",
    "#created": "pipelines",
    "#hits": "hits",
    "#compiled": "compiled",
    "#spent": "spent_ns",
}
COMPILES = {"compiled": "when", "#took": "duration_ns", "pipeline": "fingerprint", "what": "what", "program": "program"}
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


class Followed:
    """What a run did lately, by its timeline."""

    def __init__(self, root: str, name: str) -> None:
        self.compiles: deque[Row] = deque(maxlen=LATEST)
        #: What the last late frame was, for people; empty if there was none, or the run has no timeline.
        self.last_late = ""
        self._path = timeline.path_of(root, name)
        self._line = timeline.Timeline()
        self._events: deque[Event] = deque(maxlen=SEARCHED)

    def follow(self, run: Run) -> None:
        """Reads what was compiled and presented since the last call."""
        line, line.events = self._line, []
        with contextlib.suppress(OSError):
            line.read(self._path)
        for event in line.events:
            if event.type == "pipeline":
                self._events.append(event)
            if event.may_be_compile:
                own = rows.pipeline(event, run.started_ns, line)
                ended = run.started + (own["at_ns"] + event.duration_ns) / 1e9
                self.compiles.append({"program": run.title, "time_s": ended, **own})
        line.events = list(self._events)
        for column in (column for columns in line.presents.values() for column in columns):
            del column[:-SEARCHED]
        if late := late_frames.late(line, FRAME_NS):
            self.last_late = late_frames.sentence(late[-1], line)


class Watch:
    """The runs of a store, read again at each look. ``name`` selects programs; None selects all."""

    def __init__(self, root: str, name: str | None) -> None:
        self._root, self._name = root, name
        self._followed: dict[str, Followed] = {}
        #: Runs that were over at an earlier look.
        self._over: set[str] = set()

    def _run(self, name: str, idle: float, sentinel: str | None) -> Row | None:
        """Returns the row of a run that goes on, or ended only recently. None: for others, and for a sentinel that
        counts no run yet."""
        try:
            values = runs.read(self._root, name, sentinel)
        except (OSError, ValueError):
            return None
        run = Run(values, name, self._root)
        state = run.state_after(idle)
        if not values or (state != "running" and idle >= SHOWN.get(state, 0)):
            self._over |= {name} if state in SHOWN else set()
            return None
        if self._name is not None and not run.matches(self._name):
            return None
        followed = self._followed.setdefault(name, Followed(self._root, name))
        followed.follow(run)
        row = rows.of_runs([run])
        own = {"pid": run.pid, "state": state, "last_late": followed.last_late}
        return {**row, **own, "why_unknown": "".join(rows.unknown(row))}

    def look(self) -> tuple[list[Row], list[Row]]:
        """Returns the runs to show, running ones first, the newest of them before the others; and the latest
        compiles."""
        now = time.time()
        live = runs.sentinels(self._root)
        there = {name: status for name, status in runs.files(self._root, live).items() if name not in self._over}
        looked = [self._run(name, now - status.st_mtime, live.get(name)) for name, status in there.items()]
        found = [row for row in looked if row is not None]
        found.sort(key=lambda row: (row["state"] != "running", -row["last_started_s"]))
        followed = [self._followed[name] for name in there if name in self._followed and name not in self._over]
        compiles = [one for own in followed for one in own.compiles]
        return found, sorted(compiles, key=lambda one: -one["time_s"])[:LATEST]


def _print_compiles(out: Console, latest: list[Row]) -> None:
    shown = []
    for one in latest:
        what = one["name"] or " ".join(text for text in (one["kind"], one["entry_point"]) if text)
        texts = {"when": local_time(one["time_s"], "%H:%M:%S"), "fingerprint": one["fingerprint"] or "unknown"}
        style = "bold yellow" if one["duration_ns"] > FRAME_NS else ""
        shown.append({**one, **texts, "what": what, "style": style})
    out.print()
    print_table(out, COMPILES, shown)


def _print(out: Console, found: list[Row], latest: list[Row], name: str | None, hint: str = "") -> None:
    """Prints everything for people."""
    if not found:
        out.print(f"{NOTHING if name is None else f'{name} is not running under pylayer now'}{hint}", soft_wrap=True)
        return
    out.print(f"{sum(row['state'] == 'running' for row in found)} running{hint}", style="dim")
    print_table(out, COLUMNS, [row if row["frames"] else row | {"late_frames": "-"} for row in found], MARKS)
    for key, style in (("last_late", "yellow"), ("why_unknown", "dim")):
        for row in (row for row in found if row[key]):
            out.print(f"{row['program']}: {row[key]}", style=style)
    if latest:
        _print_compiles(out, latest)


def _live(out: Console, watched: Watch, name: str | None) -> None:
    """Shows the view until the user ends it. Uses the terminal's alternate screen, so the previous content comes
    back."""
    from rich.text import Text

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), out.screen() as screen:
        while True:
            found, latest = watched.look()
            with out.capture() as text:
                _print(out, found, latest, name, " (Ctrl-C ends)")
            screen.update(Text.from_ansi(text.get()))
            time.sleep(INTERVAL)


def watch(root: str, name: str | None, as_json: bool) -> None:
    """Shows what programs are doing now, on a terminal until the user ends it. Ends with status 1 if ``name`` is given
    and was not running at the only look."""
    out, watched = console(), Watch(root, name)
    if is_terminal() and not as_json:
        _live(out, watched, name)
        return
    found, latest = watched.look()
    if as_json:
        print_json({"store": root, "programs": found, "latest_compiles": latest})
    else:
        _print(out, found, latest, name)
    if name is not None and not found:
        raise click.exceptions.Exit(EXIT_PROBLEM)
