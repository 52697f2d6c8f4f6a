"""``pylayer report``: what was compiled when, as a page, as a trace, or as numbers."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

import click

from .complete import files, recorded_runs
from .output import (
    EXIT_STATUSES,
    HELP,
    Failure,
    WrongUse,
    console,
    human_bytes,
    json_option,
    plural,
    print_json,
    program_table,
    progress,
    shorten,
)
from .selection import require_store

if TYPE_CHECKING:
    from ..report.recorded import Recorded

#: The most runs of a report. With more, the page gets slow.
MOST_RUNS = 20


@contextlib.contextmanager
def _output(path: str) -> Iterator[IO[str]]:
    """Yields a file that replaces ``path`` once all is written. On an error ``path`` stays as it was. ``-`` is standard
    output. Raises Failure if the file cannot be written."""
    from ..common.files import TEMPORARY, remove, unique_name

    if path == "-":
        yield sys.stdout
        return
    temporary = f"{path}.{unique_name()}{TEMPORARY}"
    try:
        # The file may contain program names that others should not see; its mode lets the user decide who reads it.
        # Open it here and not in the with: if it cannot be opened, nothing must be deleted.
        file = open(temporary, "x", encoding="utf-8")  # noqa: SIM115
        try:
            with file:
                yield file
            os.replace(temporary, path)
        except BaseException:
            remove(temporary)
            raise
    except OSError as error:
        raise Failure(
            f"{path} was not written: {error.strerror or error}; name a file in a directory that you can write to"
        ) from error


def _write(path: str, text: str) -> int:
    with _output(path) as file:
        file.write(text)
    return len(text.encode())


def _list(root: str, found: list[Recorded], as_json: bool) -> None:
    from rich.text import Text

    from ..report import figures, recorded

    groups = recorded.processes(found)
    if as_json:
        listed = [
            {
                "word": f"last~{number}" if number else "last",
                "program": group[0].title,
                "pid": group[0].pid,
                "started_s": group[0].started,
                "state": group[0].state,
                "runs": [{"run": run.name, "device": run.run.texts["device"]} for run in group],
                "pipelines": sum(run.run.pipelines for run in group),
                "compiled": sum(run.run.compiled for run in group),
                "timeline": any(run.timeline(root) is not None for run in group),
            }
            for number, group in enumerate(groups)
        ]
        print_json({"store": root, "processes": listed})
        return
    rows = []
    for number, group in enumerate(groups):
        newest = group[0]
        cells = [
            f"last~{number}" if number else "last",
            figures.moment(newest.started, short=True),
            str(newest.pid or "?"),
        ]
        cells += [str(sum(run.run.pipelines for run in group)), str(sum(run.run.compiled for run in group))]
        rows.append([*cells, newest.state])
    out = console()
    table, width = program_table(out, ("run", "began", "pid", "pipelines", "compiled", "state"), rows)
    for group, row in zip(groups, rows, strict=True):
        table.add_row(Text(shorten(group[0].title, width)), *row)
    out.print(table)


def _choose(found: list[Recorded], word: str, root: str) -> list[Recorded]:
    """Returns the runs of the process that a word names. Raises Failure or WrongUse if there is none."""
    from ..report import recorded

    try:
        return recorded.choose(found, word, root)
    except recorded.NoSuchRun as error:
        raise Failure(str(error)) from error
    except ValueError as error:
        raise WrongUse(str(error)) from error


def _chosen(found: list[Recorded], words: tuple[str, ...], root: str) -> list[Recorded]:
    chosen: list[Recorded] = []
    for word in words or ("last",):
        chosen += [run for run in _choose(found, word, root) if run not in chosen]
    if len(chosen) > MOST_RUNS:
        raise WrongUse(f"these are {len(chosen)} runs, but a report can have at most {MOST_RUNS}; name fewer")
    return chosen


def _compared(found: list[Recorded], word: str, chosen: list[Recorded], root: str) -> dict[str, Recorded]:
    """Returns the run to compare with each chosen run, by name. A run without an earlier run is left out. Raises
    Failure if no run has one."""
    from ..report import recorded

    if word != "previous":
        group = _choose(found, word, root)
        return {run.name: recorded.counterpart(group, run) for run in chosen}
    before = {run.name: recorded.earlier(found, run) for run in chosen}
    having = {name: other for name, other in before.items() if other is not None}
    if not having:
        raise Failure(f"{chosen[0].title} has no earlier run to compare with in {root}; run it once more")
    return having


def _trace(path: str, root: str, chosen: list[Recorded]) -> int:
    from ..report import trace

    lines = [(run, line) for run in chosen if (line := run.timeline(root)) is not None]
    if not lines:
        what = chosen[0].title if len(chosen) == 1 else f"these {len(chosen)} runs"
        raise Failure(
            f"no timeline is recorded for {what}, so there is no trace; the newest 50 runs have timelines, unless "
            "timeline_mib in the policy file is 0"
        )
    with _output(path) as file:
        return trace.write(file, lines)


def _page() -> ModuleType:
    """Returns the module that makes the page. Raises Failure if packages of the extra are not installed."""
    try:
        from ..report import page
    except ImportError as error:
        raise Failure(
            f"--html needs {error.name or 'packages'}, which is not installed; install it with: "
            "pip install 'vk-pylayer[report]'"
        ) from error
    return page


@click.command(context_settings=HELP, epilog=EXIT_STATUSES, short_help="Show what compiled when, and what it held up.")
@click.argument(
    "runs",
    metavar="[RUN]...",
    nargs=-1,
    shell_complete=recorded_runs,
    help="The runs to show. Default: the last. `pylayer report --list` lists them.",
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
    "--against",
    metavar="RUN",
    shell_complete=recorded_runs,
    help="Compare with this run; 'previous' is the program's previous run.",
)
@click.option(
    "--frame-ms", type=click.FloatRange(0.1, 10_000), default=16.7, show_default=True, metavar="MS",
    help="The length of a frame. A thread that is held up for longer has a stall.",
)  # fmt: skip
@click.option("--list", "as_list", is_flag=True, help="List the recorded runs, the newest first.")
@json_option
def report(
    runs: tuple[str, ...],
    html: str | None,
    trace: str | None,
    against: str | None,
    frame_ms: float,
    as_list: bool,
    as_json: bool,
) -> None:
    """Show what compiled when in a run, and where it held the program up.

    RUN is 'last', a process ID, or a program's name, in which * and ? are wildcards. It selects the newest run that
    matches; with ~N after it, the Nth run before that. The default is the last run. A program that used several
    devices has a run on each. FILE may be - for standard output.

    \b
    Example:
      pylayer report --html report.html
      pylayer report "blender*" --against previous --html report.html
      pylayer report last~1 --trace trace.json
      pylayer report --list
    """
    from ..report import compare, figures, origin, recorded

    if as_list and (html or trace or against or runs):
        raise WrongUse("--list lists all runs, and can be used only with --json")
    if not (html or trace or as_json or as_list):
        raise WrongUse("say what to write: --html FILE, --trace FILE or --json; --list shows the runs to choose from")
    if [html, trace].count("-") + as_json > 1:
        raise WrongUse("only one of --html -, --trace - and --json can use standard output")
    page = _page() if html else None
    root = require_store().root
    found = recorded.read(root)
    if not found and as_list and not as_json:
        click.echo(f"No run is recorded in {root} yet; start one with: pylayer run -- APP")
        return
    if not found and not as_list:
        raise Failure(f"no run is recorded in {root}; start one with: pylayer run -- APP")
    if as_list:
        _list(root, found, as_json)
        return
    chosen = _chosen(found, runs, root)
    compared = {} if against is None else _compared(found, against, chosen, root)
    frame_ns = round(frame_ms * 1e6)
    said, origin_of = [], origin.origins(root)
    with progress("reading runs", len(chosen) * (2 if html else 1), quiet=False) as advance:
        numbers: list[tuple[Recorded, dict[str, Any]]] = []
        for run in chosen:
            own = figures.of_run(root, found, run, frame_ns, origin_of)
            if run.name in compared:
                own["against"] = compare.against(root, run, compared[run.name], frame_ns)
            numbers.append((run, own))
            advance(1)
        if html and page:
            size = _write(html, page.render(root, numbers, frame_ns, advance))
            said.append(f"{html}: {human_bytes(size)}, of {plural(len(chosen), 'run')}")
        if trace:
            said.append(f"{trace}: {plural(_trace(trace, root, chosen), 'event')}")
    if as_json:
        print_json({"store": root, "frame_ns": frame_ns, "runs": [own for _, own in numbers]})
        return
    for path, line in zip([path for path in (html, trace) if path], said, strict=True):
        if path != "-":
            click.echo(line)
