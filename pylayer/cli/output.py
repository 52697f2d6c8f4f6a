"""What all commands share: exit statuses, errors of one line, JSON, tables, and numbers for people.

rich is imported by the functions that draw: ``pylayer run`` stands before every start of a program.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

import click

from ..report.words import day as day
from ..report.words import human_bytes as human_bytes
from ..report.words import human_time as human_time
from ..report.words import one_line as one_line
from ..report.words import plural as plural
from ..report.words import printable as printable
from ..report.words import shorten as shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

EXIT_OK, EXIT_PROBLEM, EXIT_USAGE = 0, 1, 2
EXIT_STATUSES = "Exit status: 0 fine, 1 a problem was found, 2 wrong use."
HELP = {"help_option_names": ["-h", "--help"]}

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with units in key names.")


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


#: Columns of output that is piped: more than any line has.
UNWRAPPED = 10_000


def console(stderr: bool = False) -> Console:
    """A console with colours on a terminal only, and none where NO_COLOR is set. Output that is piped is never wrapped
    or cut, so that grep finds whole names and paths; COLUMNS sets another width."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            """Called by rich while it handles the error, which main.py knows what to do about."""
            raise

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else UNWRAPPED
    return Quiet(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    click.echo(json.dumps(value, indent=2))


def print_facts(out: Console, facts: list[tuple[str, str]], style: str = "") -> None:
    """Lines of a name and a text, which goes on below its own beginning."""
    from rich.text import Text

    width = max((len(name) for name, _ in facts), default=0) + 4
    for name, text in facts:
        first = f"  {name}".ljust(width)
        lines = textwrap.wrap(printable(text), max(12, out.width - width), break_on_hyphens=False) or [""]
        for number, line in enumerate(lines):
            out.print(Text((first if number == 0 else " " * width) + line, style=style), soft_wrap=True)


def print_total(text: str) -> None:
    """A closing line below tables."""
    console().print(text, style="dim", soft_wrap=True)


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


def write_whole(path: str, text: str, mode: int | None = None) -> None:
    """Makes or replaces a file. ``mode`` None: the one that the file has, or for its owner alone. Raises OSError; the
    file is then as it was before."""
    from ..store.files import create_temporary, remove

    descriptor, temporary = create_temporary(path, anywhere=True)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="replace") as out:
            out.write(text)
        if mode is not None:
            os.chmod(temporary, mode)
        elif os.path.exists(path):
            shutil.copymode(path, temporary)
        os.rename(temporary, path)
    except BaseException:
        remove(temporary)
        raise


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
