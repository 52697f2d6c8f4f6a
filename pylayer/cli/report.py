"""``pylayer report``: what was compiled when, as text, as a page, as a trace, or as numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import click

from ..report import recorded, rows, view
from ..report.recorded import Run
from ..report.words import human_bytes, moment
from .output import (
    Failure,
    WrongUse,
    console,
    files,
    json_option,
    print_facts,
    print_indented,
    print_json,
    print_table,
    usual_mode,
    write_whole,
)
from .selection import require_store

if TYPE_CHECKING:
    from rich.console import Console

#: The most runs of a report. With more, the page gets slow.
MOST_RUNS = 20
#: The most lines of each part of the text.
MOST_ROWS = 10


def _write(path: str, text: str | Iterator[str]) -> None:
    """Writes a report for others, as far as the user lets them read files. Raises Failure."""
    mode = None if os.path.exists(path) else usual_mode()
    write_whole(path, text, mode, "; name a file in a directory that you can write to")


def _chosen(found: list[Run], words: tuple[str, ...], root: str) -> list[Run]:
    """Returns the runs of the processes that words name. Raises Failure or WrongUse."""
    chosen: list[Run] = []
    for word in words or ("last",):
        try:
            chosen += [run for run in recorded.choose(found, word, root) if run not in chosen]
        except LookupError as error:
            raise Failure(str(error)) from error
    if len(chosen) > MOST_RUNS:
        raise WrongUse(f"these are {len(chosen)} runs, but a report can have at most {MOST_RUNS}; name fewer")
    return chosen


def _trace(path: str, chosen: list[Run], frame_ns: int) -> None:
    from ..report import trace

    having = [run for run in chosen if run.timeline is not None]
    if not having:
        what = chosen[0].title if len(chosen) == 1 else f"these {len(chosen)} runs"
        raise Failure(f"no timeline is recorded for {what}, so there is no trace")
    _write(path, trace.pieces(having, frame_ns))


def _page() -> ModuleType:
    """Returns the module that makes the page. Raises Failure if packages of the extra are not installed."""
    try:
        from ..report import page
    except ImportError as error:
        raise Failure(
            f"--html needs {error.name or 'packages'}, which is not installed; install it with: pip install jinja2"
        ) from error
    return page


def _print_title(out: Console, title: str, lines: int, there: int = 0) -> None:
    """Prints the title above at most ``MOST_ROWS`` of so many lines, and how many of all these are."""
    shown, there = min(lines, MOST_ROWS), max(lines, there)
    out.print()
    out.print(f"{title}: {shown} of {there:,}" if there > shown else title, style="bold")


def _print_table(out: Console, title: str, found: view.Table, there: int = 0) -> None:
    columns, rows = found
    if rows:
        _print_title(out, title, len(rows), there)
        shown = [dict(zip(columns, (cell["text"] for cell in row), strict=True)) for row in rows[:MOST_ROWS]]
        print_table(out, {column.lower(): column for column in columns}, shown)


def _print_run(out: Console, run: Run, own: rows.Row, frame_ns: int) -> None:
    """Prints what mattered in one run: the numbers and tables of the page, without its charts."""
    shown = view.tables(own)
    out.print(f"{own['program']}, {moment(own['started_s'])}", style="bold")
    facts = [
        ("run", f"{own['run']}, process {own['pid'] or 'unknown'}"),
        ("state", view.state(own)),
        ("device", f"{own['device'] or 'unknown device'}; {run.driver or 'unknown driver'}"),
        ("mode", "; ".join(text for text in (own["mode"] or "unknown", own["reason"]) if text)),
    ]
    facts += [(card["name"].lower(), f"{card['value']}; {card['detail']}") for card in view.cards(own, frame_ns)]
    print_facts(out, facts)
    for remark in [*own["remarks"], view.timeline_note(own)]:
        if remark:
            print_indented(out, remark, "yellow")
    if own["late"]:
        _print_title(out, "Late frames, the longest first", len(own["late"]), own["late_frames"] or 0)
    for late in own["late"][:MOST_ROWS]:
        print_indented(out, f"{late['at_ns'] / 1e9:.3f} s: {late['text']}")
    _print_table(out, "Slowest pipelines", shown["slow"], own["compiled"] or 0)
    _print_table(out, "Hits and compiled pipelines by kind", shown["kind"])
    refused = [one for one in own["cache_data"] if one["outcome"] == "refused"]
    _print_table(out, "Refused cache data of the program", view.table(refused, view.CACHE_DATA))


@click.command()
@click.argument(
    "runs",
    metavar="[RUN]...",
    nargs=-1,
    help="The runs to show. Default: the last.",
)
@click.option(
    "--html",
    metavar="FILE",
    shell_complete=files,
    help="Write a page for a browser, in one file. Needs vk-pylayer[report].",
)
@click.option(
    "--trace",
    metavar="FILE",
    shell_complete=files,
    help="Write a trace for Perfetto and others that read Chrome's JSON format.",
)
@click.option(
    "--frame-ms", type=click.FloatRange(0.1, 10_000), default=16.7, show_default=True, metavar="MS",
    help="The length of a frame. Only a frame that takes longer is late.",
)  # fmt: skip
@json_option
def report(
    runs: tuple[str, ...],
    html: str | None,
    trace: str | None,
    frame_ms: float,
    as_json: bool,
) -> None:
    """Show what a run compiled, which pipelines held it up and when, and what was refused.

    RUN is 'last', a process ID, the name that a report or pylayer stats --runs gives, or a program's name, in which *
    and ? are wildcards. It selects the newest run that matches; with ~N after it, the Nth run before that. A program
    that used several devices has a run on each. FILE may be - for standard output.

    With --json, each slow pipeline has its shaders. A shader's hash is the XXH3-64 of its SPIR-V (xxhsum -H3 FILE); of
    a program that uses shader module identifiers, it is that of the identifier. Names are those that the program sets
    with vkSetDebugUtilsObjectNameEXT.

    \b
    Example:
      pylayer report
      pylayer report "blender*" --html report.html
      pylayer report last~1 --trace trace.json
    """
    if bool(html) + bool(trace) + as_json > 1:
        raise WrongUse("give one of --html, --trace and --json")
    page = _page() if html else None
    root = require_store().root
    found = recorded.read(root)
    if not found:
        raise Failure(f"no run is recorded in {root}; start one with: pylayer run -- APP")
    chosen = _chosen(found, runs, root)
    frame_ns = round(frame_ms * 1e6)
    numbers = [(run, rows.of_run(found, run, frame_ns)) for run in chosen]
    if html and page:
        _write(html, page.render(numbers, frame_ns))
    elif trace:
        _trace(trace, chosen, frame_ns)
    path = html or trace
    if as_json:
        print_json({"store": root, "frame_ns": frame_ns, "runs": [own for _, own in numbers]})
    elif not path:
        out = console()
        for number, (run, own) in enumerate(numbers):
            if number:
                out.print()
            _print_run(out, run, own, frame_ns)
    elif path != "-":
        names = ", ".join(f"{run.title} of {moment(run.started)}" for run in chosen)
        click.echo(f"{path}: {names}; {human_bytes(os.stat(path).st_size)}")
