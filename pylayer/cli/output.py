"""What all commands share: exit statuses, one-line errors, JSON, tables, and numbers for people.

Only the functions that draw import rich, because ``pylayer run`` delays every start of a program.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from ..report.words import MINUTE, cell, moment, one_line, printable, shorten

if TYPE_CHECKING:
    from rich.console import Console

    from ..store.store import BlockText


def reason(error: OSError) -> str:
    """Returns what failed, with the path if the error names one."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else error.strerror or str(error)


EXIT_OK, EXIT_PROBLEM, EXIT_USAGE = 0, 1, 2


#: The shell completes names of files.
files = click.Path().shell_complete

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with units in key names.")


def fail(message: str) -> None:
    """Prints one line on standard error. Replaces control characters, because the message may contain anybody's
    names."""
    click.echo(f"pylayer: {printable(one_line(message))}", err=True)


class Failure(click.ClickException):
    """Ends the command with one line that says what happened, what it means and what to do."""

    exit_code = EXIT_PROBLEM

    def show(self, file: IO[Any] | None = None) -> None:
        """Called by click."""
        fail(self.message)


class WrongUse(Failure):
    """A failure that the user's own command line caused."""

    exit_code = EXIT_USAGE


@contextlib.contextmanager
def failing(what: str, *others: type[Exception], hint: str = "", named: bool = False) -> Iterator[None]:
    """For ``with``: turns errors of the system, and ``others``, into a Failure that says what was not done, and why.
    ``named``: also with what file."""
    try:
        yield
    except others as error:
        raise Failure(f"{what}: {error}") from error
    except OSError as error:
        raise Failure(f"{what}: {reason(error) if named else error.strerror or error}{hint}") from error


def end_if(problem: object) -> None:
    """Ends the command with status 1 if there is a problem, of which the user has been told."""
    if problem:
        raise click.exceptions.Exit(EXIT_PROBLEM)


#: Width of piped output in columns: more than any line has.
UNWRAPPED = 10_000


def console(stderr: bool = False) -> Console:
    """Returns a console. It has colours on a terminal only, and none if NO_COLOR is set. It prints texts as they are:
    nothing in a program's name is markup. Piped output is never wrapped or cut, so that grep finds whole names and
    paths."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            """Called by rich while it handles the error. Raises it again; main.py handles it."""
            raise

    width = None if (sys.stderr if stderr else sys.stdout).isatty() else UNWRAPPED
    return Quiet(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def print_json(value: dict[str, Any]) -> None:
    """Prints one JSON object on standard output."""
    click.echo(json.dumps(value, indent=2))


def print_indented(out: Console, text: str, style: str = "") -> None:
    """Prints a text below what it is about."""
    from rich.padding import Padding

    out.print(Padding(text, (0, 0, 0, 2), expand=False), style=style)


def print_facts(out: Console, facts: list[tuple[str, str]], style: str = "") -> None:
    """Prints a line for each name and text. A long text continues below its own beginning."""
    width = max((len(name) for name, _ in facts), default=0) + 4
    for name, text in facts:
        first = f"  {name}".ljust(width)
        lines = textwrap.wrap(printable(text), max(12, out.width - width), break_on_hyphens=False) or [""]
        for number, line in enumerate(lines):
            out.print((first if number == 0 else " " * width) + line, style=style, soft_wrap=True)


def print_total(text: str) -> None:
    """Prints a closing line below tables."""
    console().print(text, style="dim", soft_wrap=True)


@contextlib.contextmanager
def progress(
    text: str, total: int | None, quiet: bool = False, remaining: bool = False
) -> Iterator[Callable[..., None]]:
    """Shows a progress bar on standard error if that is a terminal. Yields a function to call with each amount that is
    done, and with the whole amount if that changed. ``total`` is None if the whole amount is unknown. ``remaining``:
    shows the time that is left, too."""
    if quiet or not sys.stderr.isatty() or console(stderr=True).is_dumb_terminal:
        yield lambda amount, total=None: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), *[TimeRemainingColumn()] * remaining
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda amount, total=None: bar.update(task, advance=amount, total=total)


def work_through(text: str, total: int | None, steps: Iterable[int | None], quiet: bool = False) -> None:
    """Does work in steps, each of which yields the amount that is done; with None, each step counts alike."""
    with progress(text, total, quiet) as advance:
        for amount in steps:
            advance(1 if amount is None else amount)


def write_whole(path: str, text: str | Iterator[str], mode: int | None = None, hint: str = "") -> None:
    """Creates or replaces a file atomically; ``-`` is standard output. A large text may come in pieces. With ``mode``
    None, an existing file keeps its mode and a new one is for its owner alone. Raises Failure, which ends in ``hint``,
    and then leaves the file as it was."""
    from ..common.files import replace_file

    pieces = (piece.encode(errors="replace") for piece in ([text] if isinstance(text, str) else text))
    if path == "-":
        for data in pieces:
            click.echo(data.decode(), nl=False)
        return
    with failing(f"{path} was not written", hint=hint):
        if mode is None:
            mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o600
        replace_file(path, pieces, anywhere=True, mode=mode)


def usual_mode() -> int:
    """Returns the mode of a file that the user's own programs make."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


#: A column of texts is never cut below this.
LEAST_TEXT = 12


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int = UNWRAPPED) -> list[str]:
    """Returns the headings and rows of a table as texts. Numbers are those columns whose heading begins with #. Texts
    are cut if the table is wider than ``width``, the longest first. If the numbers do not fit, each row's are below its
    first text."""
    from rich.cells import cell_len

    names = [heading.removeprefix("#") for heading in headings]
    is_text = [name == heading for name, heading in zip(names, headings, strict=True)]
    widths = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
    while (excess := sum(widths) + 2 * len(widths) - 2 - width) > 0:
        longest = max((number for number, text in enumerate(is_text) if text), key=widths.__getitem__)
        if widths[longest] <= LEAST_TEXT:
            break
        widths[longest] -= 1
    lines = []
    for row in [names, *rows]:
        cells = [shorten(cell, own) if text else cell for cell, own, text in zip(row, widths, is_text, strict=True)]
        numbers = ", ".join(f"{name} {cell}" for name, cell in zip(names[1:], row[1:], strict=True))
        below = textwrap.wrap(numbers, width - 2) if row is not names else []
        spaced = [
            cell + " " * (own - cell_len(cell)) if text else " " * (own - cell_len(cell)) + cell
            for cell, own, text in zip(cells, widths, is_text, strict=True)
        ]
        lines.append("\n  ".join([cells[0], *below]) if excess > 0 else "  ".join(spaced).rstrip())
    return lines


def print_table(
    out: Console, columns: dict[str, str], rows: Sequence[dict[str, Any]], marks: dict[str, str] | None = None
) -> None:
    """Prints a table of rows, and below it what those ``marks`` mean that are in its cells. ``columns``: the headings,
    as ``table`` takes them, and the key of what is below. A row may have a ``style``."""
    cells = [[cell(row, key) for key in columns.values()] for row in rows]
    styles = ["bold", *(row.get("style", "") for row in rows)]
    for line, style in zip(table(list(columns), cells, out.width), styles, strict=True):
        out.print(line, style=style, soft_wrap=True)
    there = {text for row in cells for text in row}
    said = [f"{mark} {meaning}" for mark, meaning in (marks or {}).items() if mark in there]
    if said:
        out.print("; ".join(said), style="dim", soft_wrap=True)


def picked(source: object, *names: str) -> dict[str, Any]:
    """Returns attributes of an object by their names, for --json."""
    return {name: getattr(source, name) for name in names}


def block_line(block: BlockText) -> str:
    """Returns a line about a block."""
    after = {
        "in force": f"; until {moment(block.until_s, MINUTE)}",
        "on trial": f"; this ended {moment(block.until_s, MINUTE)} and is tried again",
        "evidence": "; this is not decided yet",
    }
    return f"{moment(block.since_s, MINUTE)}  {block.program}: {block.text}{after.get(block.state, '')}"


def print_blocks(found: list[BlockText]) -> None:
    """Prints a line for each block, below the driver that it is about."""
    out, identity = console(), ""
    for one in found:
        if identity != one.identity:
            identity = one.identity
            out.print(f"{printable(one.driver)}; identity {identity}", style="bold", soft_wrap=True)
        out.print(f"  {printable(block_line(one))}", soft_wrap=True)
