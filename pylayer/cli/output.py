"""What all commands share: exit statuses, errors of one line, JSON, tables, and numbers for people.

rich is imported by the functions that draw: ``pylayer run`` stands before every start of a program.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

EXIT_OK, EXIT_PROBLEM, EXIT_USAGE = 0, 1, 2
EXIT_STATUSES = "Exit status: 0 fine, 1 a problem was found, 2 wrong use."
HELP = {"help_option_names": ["-h", "--help"]}

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with units in key names.")


def one_line(text: object) -> str:
    """A message without the line ends that a library put into it."""
    return " ".join(str(text).split())


def fail(message: str) -> None:
    """One line on standard error, without what a terminal would obey: it may repeat anybody's names."""
    click.echo(f"pylayer: {printable(one_line(message))}", err=True)


class Failure(click.ClickException):
    """Ends the command with one line that says what happened, what it means and what to do."""

    exit_code = EXIT_PROBLEM

    def show(self, file: IO[Any] | None = None) -> None:
        """Called by click."""
        fail(self.message)


class WrongUse(Failure):
    """A failure that the user's own words on the command line caused."""

    exit_code = EXIT_USAGE


def console(stderr: bool = False) -> Console:
    """A console with colours on a terminal only, none where NO_COLOR is set, and 80 columns elsewhere."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            """Called by rich while it handles the error, which main.py knows what to do about."""
            raise

    return Quiet(stderr=stderr, highlight=False, markup=False, emoji=False)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    click.echo(json.dumps(value, indent=2))


def print_total(text: str) -> None:
    """A closing line below tables."""
    console().print(text, style="dim", soft_wrap=True)


def printable(text: str) -> str:
    """A name from a file that anything may have happened to, without what a terminal would obey."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def day(seconds: float) -> str:
    """A day of the calendar."""
    if seconds <= 0:
        return "never"
    try:
        return time.strftime("%Y-%m-%d", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "?"


def plural(count: int, noun: str) -> str:
    """A number and what it counts."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{count} {noun}s"


@contextlib.contextmanager
def progress(text: str, total: int | None, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error while something takes its time, where that is a terminal; gives what to call with
    each amount that is done. ``total`` None: how much there is to do is not known."""
    if quiet or not sys.stderr.isatty() or console(stderr=True).is_dumb_terminal:
        yield lambda amount: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda amount: bar.advance(task, amount)


def shorten(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns: both ends tell more of a program's name than its middle."""
    if len(text) <= width:
        return text
    if width < 2:
        return text[:width]
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + "…" + text[len(text) - tail :]


def human_bytes(count: int) -> str:
    """A size in at most 8 characters."""
    if count < 1024:
        return f"{count} B"
    size, units = count / 1024, ["KiB", "MiB", "GiB"]
    while size >= 1000 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.1f} {units[0]}" if size < 100 else f"{size:.0f} {units[0]}"


def human_time(nanoseconds: float) -> str:
    """A duration in at most 8 characters, milliseconds where they are readable."""
    milliseconds = nanoseconds / 1e6
    if 0 < abs(milliseconds) < 1:
        return f"{milliseconds:.2f} ms"
    if abs(milliseconds) < 1000:
        return f"{milliseconds:.1f} ms" if abs(milliseconds) < 100 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if abs(seconds) < 600:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if abs(minutes) < 600 else f"{minutes / 60:.0f} h"


#: A program's column is cut to what is left beside the numbers, but not below this.
LEAST_NAME = 12


def program_table(out: Console, headings: tuple[str, ...], rows: list[list[str]]) -> tuple[Table, int]:
    """A table that fits the terminal, a column of programs before the numbers, without its rows yet; and how wide the
    programs' names may be. Where the numbers do not fit, they stand below each program."""
    from rich.padding import Padding
    from rich.table import Table

    class Blocks(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            """A program's name, and in the lines below what else is known of it."""
            numbers = (f"{heading} {cell}" for heading, cell in zip(headings, cells[1:], strict=True))
            super().add_row(cells[0], **options)
            super().add_row(Padding(", ".join(numbers), (0, 0, 0, 2)), **options)

    widths = [max(len(cell) for cell in column) for column in zip(headings, *rows, strict=True)]
    gap = 2 if sum(widths) + 2 * len(widths) + LEAST_NAME <= out.width else 1
    if sum(widths) + len(widths) + LEAST_NAME > out.width:
        blocks = Blocks(box=None, show_header=False, pad_edge=False)
        blocks.add_column()
        return blocks, out.width
    table = Table(box=None, padding=(0, 0, 0, gap), pad_edge=False)
    table.add_column("program", no_wrap=True)
    for heading, width in zip(headings, widths, strict=True):
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    return table, max(LEAST_NAME, out.width - sum(widths) - gap * len(widths))
