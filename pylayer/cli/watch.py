"""``pylayer stats --watch``: what programs under the layer are doing now."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ..report.words import FRAME_NS, local_time
from .live import LiveRun, Watch
from .output import (
    EXIT_PROBLEM,
    console,
    human_bytes,
    human_time,
    is_terminal,
    marks,
    print_json,
    program_table,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from ..store.store import Store

#: The columns: a heading, a function that returns its cell, and how wide a terminal must be for it.
COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str], int], ...] = (
    ("pid", lambda run: str(run["pid"]), 0),
    ("state", lambda run: run["state"], 70),
    ("frames/s", lambda run: _rate(run, "frames_per_second") if run["frames"] else "-", 0),
    ("late", lambda run: "-" if run["late_frames"] is None else str(run["late_frames"]), 0),
    ("created", lambda run: str(run["pipelines"]), 90),
    ("hits", lambda run: str(run["hits"]), 0),
    ("compiled", lambda run: "?" if run["compiled"] is None else str(run["compiled"]), 0),
    ("/s", lambda run: _rate(run, "compiles_per_second"), 80),
    ("spent", lambda run: human_time(run["spent_ns"]), 60),
    ("queue", lambda run: human_bytes(run["queued_bytes"]) if run["queued"] else "-", 110),
    ("stored", lambda run: human_bytes(run["stored_bytes"]), 80),
)
CLOCK = "%H:%M:%S"
STATE_STYLES = {"running": "", "died": "red"}

#: The most compilations to show where output is no terminal. A terminal is filled.
LATEST = 8
#: Columns of a terminal that has room for less.
NARROW = 80
#: What the h key shows.
MEANINGS = """\
frames/s, late  frames presented in a second, and late ones in all: over 16.7 ms, and over 1.5 times the usual
created         pipelines in all: hits were found in a cache, compiled were not; /s is compiles in a second
spent           time that creating pipelines took, waits for the layer included
queue, stored   what waits to be stored, and what this run has stored
?, -            unknown, as a rate until the second look; does not apply, as to a program that presents no frames
Below: the last late frame of each program, then the latest compiles. Bold ones took longer than 16.7 ms.

h ends this help, q ends the view. A narrow terminal shows fewer columns."""
#: What is said of them below the view that is printed once.
MARKS = {"?": "unknown; rates need a second look", "-": "does not apply, as to a program that presents no frames"}
NOTHING = "No program is running under pylayer now; start one with: pylayer run -- APP"
#: Seconds between two looks.
INTERVAL = 1.0
#: Keys that end the view: q, Escape, Ctrl-C, Ctrl-D. Reading from a closed terminal returns b"".
ENDING = (b"q", b"Q", b"\x1b", b"\x03", b"\x04", b"")


def _rate(run: dict[str, Any], key: str) -> str:
    if run["state"] != "running":
        return "-"
    return "?" if run[key] is None else f"{run[key]:.0f}"


def _columns(out: Console) -> list[tuple[str, Callable[[dict[str, Any]], str]]]:
    return [(heading, cell) for heading, cell, width in COLUMNS if out.width >= width]


def _programs(out: Console, runs: list[LiveRun]) -> RenderableType:
    values = [run.as_json() for run in runs]
    rows = [[cell(value) for _, cell in _columns(out)] for value in values]
    headings = tuple(heading for heading, _ in _columns(out))
    styles = [STATE_STYLES.get(value["state"], "dim") for value in values]
    return program_table(out, headings, [value["program"] for value in values], rows, styles=styles)


def _sentences(runs: list[LiveRun]) -> list[Text]:
    """Returns what the last late frame of each program was, and why it is unknown what a program compiled."""
    from rich.text import Text

    late = [(run, run.last_late, "yellow") for run in runs if run.last_late and run.state == "running"]
    unknown = [(run, why, "dim") for run in runs if (why := run.as_json()["why_unknown"])]
    return [Text(f"{run.run.title}: {text}", style=style) for run, text, style in (*late, *unknown)]


def _latest(runs: list[LiveRun], most: int) -> list[dict[str, Any]]:
    return sorted((one for run in runs for one in run.compiles), key=lambda one: one["time_s"], reverse=True)[:most]


def _compiles(out: Console, found: list[dict[str, Any]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False)
    # A narrow terminal has room for a name or a fingerprint.
    both = not is_terminal() or out.width >= NARROW
    fixed = 8 + 10 + (18 if both else 0)
    width = max(8, out.width - fixed - 16)
    table.add_column("compiled", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True, min_width=8)
    if both:
        table.add_column("pipeline", no_wrap=True, min_width=16)
    what = max(16, min(48, out.width - fixed - 14)) if is_terminal() else None
    table.add_column("what", no_wrap=True, max_width=what, overflow="ellipsis")
    table.add_column("program", no_wrap=True, max_width=width, overflow="ellipsis")
    for one in found:
        fingerprint = one["fingerprint"] if int(one["fingerprint"], 16) else "unknown"
        kind = " ".join(text for text in (one["kind"], one["entry_point"]) if text)
        table.add_row(
            local_time(one["time_s"], CLOCK),
            Text(human_time(one["duration_ns"]), style="bold yellow" if one["duration_ns"] > FRAME_NS else ""),
            *([fingerprint] if both else []),
            one["name"] or (kind if both else fingerprint),
            one["program"],
        )
    return table


class Screen:
    """What is shown, and the data behind it. ``name`` selects programs; None selects all."""

    def __init__(self, store: Store, out: Console, name: str | None) -> None:
        self._name = name
        self._watch = Watch(store)
        self._store = store
        self._out = out
        self._store_bytes = 0
        self._measured = -1e9
        #: Whether a program was there at the last look.
        self.found = False

    def _measure_store(self) -> int:
        """Returns the store's size. Measures it at most every 5 s, because a large store has many files."""
        if time.monotonic() - self._measured > 5:
            self._store_bytes = self._store.total_bytes()
            self._measured = time.monotonic()
        return self._store_bytes

    def _look(self) -> list[LiveRun]:
        """Returns the runs to show: running ones first, the newest of them before the others."""
        runs = [run for run in self._watch.look() if self._name is None or run.run.matches(self._name)]
        self.found = bool(runs)
        return sorted(runs, key=lambda run: (run.state != "running", -run.run.started))

    def values(self) -> dict[str, Any]:
        """Returns everything for --json."""
        runs = self._look()
        return {
            "store": self._store.root,
            "store_bytes": self._measure_store(),
            "programs": [run.as_json() for run in runs],
            "latest_compiles": _latest(runs, LATEST),
        }

    def draw(self, height: int | None = None, hint: str = "") -> RenderableType:
        """Returns everything for people, in at most ``height`` lines."""
        from rich.console import Group
        from rich.text import Text

        runs = self._look()
        if not runs:
            nothing = NOTHING if self._name is None else f"{self._name} is not running under pylayer now"
            return Text(f"{nothing}{f' ({hint})' if hint else ''}")
        running = sum(run.state == "running" for run in runs)
        head = [f"{running} running"]
        if height is None or self._out.width >= NARROW:
            head += [f"store {human_bytes(self._measure_store())}", local_time(time.time(), CLOCK)]
        title = Text(" · ".join([*head, *([hint] if hint else [])]), style="dim", no_wrap=True, overflow="ellipsis")
        room = len(runs) if height is None else max(1, height - 3)
        parts: list[RenderableType] = [title, _programs(self._out, runs[:room])]
        lines = 0
        for text in _sentences(runs[:room]):
            high = len(text.wrap(self._out, self._out.width))
            if height is not None and lines + high > (height - 3 - len(runs[:room])) // 2:
                break
            lines += high
            parts.append(text)
        left = LATEST if height is None else height - 4 - len(runs[:room]) - lines
        found = _latest(runs, left) if left > 0 else []
        if found:
            parts += [Text(), _compiles(self._out, found)]
        if height is None:
            cells = [cell(run.as_json()) for run in runs for _, cell in _columns(self._out)]
            parts += [Text(), Text(said, style="dim")] if (said := marks(cells, MARKS)) else []
        return Group(*parts)


@contextlib.contextmanager
def _keys() -> Iterator[bool]:
    """Delivers keys as they are pressed, without echo. Yields whether there is a keyboard. Ctrl-C is read as a key,
    because Python would lose a KeyboardInterrupt that is raised in a finalizer."""
    import termios

    try:
        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
    except (OSError, ValueError, termios.error):
        yield False
        return
    changed = termios.tcgetattr(fd)
    changed[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    termios.tcsetattr(fd, termios.TCSANOW, changed)
    try:
        yield True
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _pressed(keys: bool, seconds: float) -> bytes | None:
    """Waits until the next look. Returns the key that the user pressed; None if there was none."""
    if not keys:
        time.sleep(seconds)
        return None
    return os.read(sys.stdin.fileno(), 32)[:1] if select.select([sys.stdin], [], [], seconds)[0] else None


def _live(screen: Screen, out: Console) -> None:
    """Shows the view until the user ends it. Uses the terminal's alternate screen, so the previous content comes
    back."""
    from rich.live import Live
    from rich.text import Text

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        _keys() as keys,
        Live(console=out, screen=True, auto_refresh=False) as live,
    ):
        helps = False
        while True:
            shown = Text(MEANINGS) if helps else screen.draw(out.height, "h help, q ends")
            live.update(shown, refresh=True)
            key = _pressed(keys, INTERVAL)
            if key in ENDING:
                return
            helps = not helps if key in (b"h", b"H", b"?") else helps and key is None


def watch(store: Store, name: str | None, as_json: bool) -> None:
    """Shows what programs are doing now, on a terminal until the user ends it. Ends with status 1 if ``name`` is given
    and was not running at the only look."""
    out = console()
    screen = Screen(store, out, name)
    if as_json:
        print_json(screen.values())
    elif not is_terminal():
        out.print(screen.draw())
    else:
        _live(screen, out)
        return
    if name is not None and not screen.found:
        raise click.exceptions.Exit(EXIT_PROBLEM)
