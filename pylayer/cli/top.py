"""``pylayer top``: what programs under the layer are doing now."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from .live import DIED, RUNNING, Compile, LiveRun, Watch
from .output import (
    EXIT_STATUSES,
    HELP,
    console,
    human_bytes,
    human_time,
    json_option,
    print_json,
    program_table,
    shorten,
)
from .selection import require_root

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

HEADINGS = ("pid", "state", "created", "hits", "compiled", "spent", "queue", "stored")
STATE_STYLES = {RUNNING: "", DIED: "red"}

#: A frame at 60 Hz: what takes longer is seen.
FRAME_NS = 16_666_667
#: Of the latest compilations so many are shown, less where the terminal is small.
LATEST = 8
NOTHING = "No program is running under pylayer now; start one with: pylayer run -- APP"
HELP_LINE = "q ends"


def _cells(run: dict[str, Any]) -> list[str]:
    return [
        str(run["pid"]),
        run["state"],
        str(run["pipelines"]),
        str(run["hits"]),
        str(run["compiled"]),
        human_time(run["compile_ns"]),
        human_bytes(run["queued_bytes"]) if run["queued"] else "-",
        human_bytes(run["stored_bytes"]),
    ]


def _programs(out: Console, runs: list[LiveRun]) -> RenderableType:
    from rich.text import Text

    values = [run.as_json() for run in runs]
    rows = [_cells(value) for value in values]
    table, name_width = program_table(out, HEADINGS, rows)
    for value, row in zip(values, rows, strict=True):
        style = STATE_STYLES.get(value["state"], "dim")
        table.add_row(Text(shorten(value["program"], name_width)), *row, style=style)
    return table


def _latest(runs: list[LiveRun], most: int) -> list[Compile]:
    return sorted((one for run in runs for one in run.compiles), key=lambda one: one.at, reverse=True)[:most]


def _clock(seconds: float) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "?"


def _compiles(out: Console, found: list[Compile]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False)
    width = max(8, out.width - 16 - 9 - 8 - 16 - 8)
    table.add_column("compiled", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True, min_width=8)
    table.add_column("pipeline", no_wrap=True, min_width=16)
    table.add_column("what", no_wrap=True, max_width=24, overflow="ellipsis")
    table.add_column("program", no_wrap=True, max_width=width, overflow="ellipsis")
    for one in found:
        style = "bold yellow" if one.event.duration_ns > FRAME_NS else ""
        what = " ".join(text for text in (one.kind, one.entry_point) if text)
        table.add_row(
            _clock(one.at),
            Text(human_time(one.event.duration_ns), style=style),
            f"{one.event.fingerprint:016x}" if one.event.fingerprint else "unknown",
            Text(what),
            Text(one.program),
        )
    return table


class Screen:
    """What is drawn, and what it is made of."""

    def __init__(self, root: str, out: Console) -> None:
        self._watch = Watch(root)
        self._root = root
        self._out = out
        self._store_bytes = 0
        self._measured = -1e9

    def _measure_store(self) -> int:
        """Not at each look: a large store has many files."""
        from ..store.bounds import total_bytes

        if time.monotonic() - self._measured > 5:
            self._store_bytes = total_bytes(self._root)
            self._measured = time.monotonic()
        return self._store_bytes

    def values(self) -> dict[str, Any]:
        """All of it for programs."""
        runs = self._watch.look()
        return {
            "store": self._root,
            "store_bytes": self._measure_store(),
            "programs": [run.as_json() for run in runs],
            "latest_compiles": [one.as_json() for one in _latest(runs, LATEST)],
        }

    def draw(self, height: int | None = None, hint: str = "") -> RenderableType:
        """All of it for people, in at most so many lines."""
        from rich.console import Group
        from rich.text import Text

        runs = self._watch.look()
        if not runs:
            return Text(f"{NOTHING}{f' ({hint})' if hint else ''}")
        running = sum(run.state == RUNNING for run in runs)
        head = [f"{running} running", f"store {human_bytes(self._measure_store())}", _clock(time.time())]
        title = Text(" · ".join([*head, *([hint] if hint else [])]), style="dim", no_wrap=True, overflow="ellipsis")
        room = len(runs) if height is None else max(1, height - 3)
        parts: list[RenderableType] = [title, _programs(self._out, runs[:room])]
        left = LATEST if height is None else min(LATEST, height - 4 - len(runs[:room]))
        found = _latest(runs, left) if left > 0 else []
        if found:
            parts += [Text(), _compiles(self._out, found)]
        return Group(*parts)


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """Keys as they are pressed, not echoed; gives the descriptor to read them from, None where there is no keyboard."""
    try:
        import termios
        import tty

        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
    except (ImportError, OSError, ValueError, termios.error):
        yield None
        return
    tty.setcbreak(fd)
    try:
        yield fd
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _end_asked() -> Iterator[int]:
    """Gives a descriptor that can be read once somebody has pressed Ctrl-C or sent SIGTERM. A second time raises
    KeyboardInterrupt, for where nobody takes the output.

    Raised at once it would be lost where it meets a finalizer, whose exceptions Python ignores, and the view would go
    on."""
    asked, ask = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def note(number: int, frame: object) -> None:
        if select.select([asked], [], [], 0)[0]:
            raise KeyboardInterrupt
        os.write(ask, b"\0")

    # What is ignored, as by a shell in whose background this runs, stays that.
    noted = [end for end in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(end) is not signal.SIG_IGN]
    before = [signal.signal(end, note) for end in noted]
    try:
        yield asked
    finally:
        for end, handler in zip(noted, before, strict=True):
            signal.signal(end, handler)
        os.close(asked)
        os.close(ask)


def _wait(keys: int | None, asked: int, seconds: float) -> bool:
    """False where somebody pressed q or asked for the end, or the terminal has gone."""
    until = time.monotonic() + seconds
    watched = [asked] if keys is None else [asked, keys]
    while (left := until - time.monotonic()) > 0:
        ready = select.select(watched, [], [], left)[0]
        if asked in ready:
            return False
        if keys in ready:
            pressed = os.read(keys, 32)
            if not pressed or pressed[:1] in (b"q", b"Q", b"\x1b", b"\x04"):
                return False
    return True


def _live(screen: Screen, out: Console, interval: float) -> None:
    """Until somebody ends it: in the terminal's other screen, which it leaves as it was."""
    from rich.live import Live

    with _end_asked() as asked, _keys() as keys, Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            live.update(screen.draw(out.height, HELP_LINE), refresh=True)
            if not _wait(keys, asked, interval):
                return


def _again_and_again(screen: Screen, out: Console, interval: float) -> None:
    """Until somebody ends it: one state below the other."""
    with _end_asked() as asked:
        while True:
            out.print(screen.draw())
            out.print()
            if not _wait(None, asked, interval):
                return


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    metavar="SECONDS",
    help="Between two looks; 1 by default. Programs write once a second while something changes.",
)
@click.option(
    "--once", is_flag=True, help="Print the state once. So it is where the output is no terminal, without --interval."
)
@json_option
def top(interval: float | None, once: bool, as_json: bool) -> None:
    """Show what programs under the layer are doing now.

    created counts pipelines, hits those that were found in a cache, compiled those that were not, and spent the
    time that these took. queue is what waits to be stored, stored what this run has written. Below are the latest
    compilations; bold ones took longer than a frame at 60 Hz. A program that ended is shown for a few seconds more, one
    that died for a minute. q ends, or Ctrl-C.

    \b
    Example:
      pylayer top
      pylayer top --once --json
    """
    root = require_root()
    out = console()
    screen = Screen(root, out)
    if as_json:
        print_json(screen.values())
        return
    with contextlib.suppress(KeyboardInterrupt):
        if once or (interval is None and not out.is_terminal):
            out.print(screen.draw())
        elif out.is_terminal:
            _live(screen, out, interval or 1.0)
        else:
            _again_and_again(screen, out, interval or 1.0)
