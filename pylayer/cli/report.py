"""``pylayer report``: what was compiled when, as text, as a page, as a trace, or as numbers."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from ..report import figures, limits, recorded
from ..report.view import thread_names
from .output import (
    Failure,
    WrongUse,
    console,
    files,
    human_bytes,
    json_option,
    plural,
    print_json,
    progress,
    usual_mode,
    write_whole,
)
from .report_text import print_run
from .selection import require_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..report.recorded import Run

#: The most runs of a report. With more, the page gets slow.
MOST_RUNS = 20


def _write(path: str, text: str | Iterator[str]) -> int:
    """Writes a report for others, as far as the user lets them read files. Raises Failure."""
    mode = None if os.path.exists(path) else usual_mode()
    return write_whole(path, text, mode, "; name a file in a directory that you can write to")


def _limits(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> list[limits.Limit]:
    """Called by click."""
    try:
        return [limits.Limit(text) for text in texts]
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _chosen(found: list[Run], words: tuple[str, ...], root: str) -> list[Run]:
    """Returns the runs of the processes that words name. Raises Failure or WrongUse."""
    chosen: list[Run] = []
    for word in words or ("last",):
        try:
            chosen += [run for run in recorded.choose(found, word, root) if run not in chosen]
        except recorded.NoSuchRun as error:
            raise Failure(str(error)) from error
        except ValueError as error:
            raise WrongUse(str(error)) from error
    if len(chosen) > MOST_RUNS:
        raise WrongUse(f"these are {len(chosen)} runs, but a report can have at most {MOST_RUNS}; name fewer")
    return chosen


def _trace(path: str, root: str, chosen: list[Run], frame_ns: int) -> int:
    from ..report import trace

    lines = [(run, line) for run in chosen if (line := run.timeline(root)) is not None]
    if not lines:
        what = chosen[0].title if len(chosen) == 1 else f"these {len(chosen)} runs"
        raise Failure(f"no timeline is recorded for {what}, so there is no trace; the newest 50 runs have timelines")
    written = trace.Trace(lines, frame_ns)
    _write(path, written.pieces())
    return written.count


def _page() -> ModuleType:
    """Returns the module that makes the page. Raises Failure if packages of the extra are not installed."""
    try:
        from ..report import page
    except ImportError as error:
        raise Failure(
            f"--html needs {error.name or 'packages'}, which is not installed; install it with: pip install jinja2"
        ) from error
    return page


def _print(root: str, numbers: list[tuple[Run, dict[str, Any]]], frame_ns: int) -> None:
    out = console()
    for number, (run, own) in enumerate(numbers):
        if number:
            out.print()
        print_run(out, own, thread_names(run.timeline(root)), frame_ns)


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
@click.option(
    "--fail-on",
    metavar="LIMIT",
    multiple=True,
    callback=_limits,
    help="Exit with 1 if it holds, and say which: 'late-frames>0', 'compiled>0', 'longest-frame>50ms'; also if it is "
    "unknown. May be repeated.",
)
@json_option
def report(
    runs: tuple[str, ...],
    html: str | None,
    trace: str | None,
    frame_ms: float,
    fail_on: list[limits.Limit],
    as_json: bool,
) -> None:
    """Show what a run compiled, which pipelines held it up and when, and what was refused.

    RUN is 'last', a process ID, the name that a report or pylayer stats --runs gives, or a program's name, in which *
    and ? are wildcards. It selects the newest run that matches; with ~N after it, the Nth run before that. A program
    that used several devices has a run on each. FILE may be - for standard output.

    With --json, each slow pipeline has its shaders. A shader's hash is the XXH3-64 of its SPIR-V (xxhsum -H3 FILE); of
    a program that uses shader module identifiers, it is that of the identifier. Names are those that the program sets
    with vkSetDebugUtilsObjectNameEXT. The newest 50 runs have timelines, so an older run is missing there.

    \b
    Example:
      pylayer report
      pylayer report "blender*" --html report.html
      pylayer report last~1 --trace trace.json
      pylayer report game --fail-on 'late-frames>0'
    """
    if [html, trace].count("-") + as_json > 1:
        raise WrongUse("only one of --html -, --trace - and --json can use standard output")
    page = _page() if html else None
    root = require_store().root
    found = recorded.read(root)
    if not found:
        raise Failure(f"no run is recorded in {root}; start one with: pylayer run -- APP")
    chosen = _chosen(found, runs, root)
    frame_ns = round(frame_ms * 1e6)
    said = []
    names = ", ".join(f"{run.title} of {figures.moment(run.started)}" for run in chosen)
    with progress("reading runs", len(chosen) * (2 if html else 1), quiet=False) as advance:
        numbers: list[tuple[Run, dict[str, Any]]] = []
        for run in chosen:
            numbers.append((run, figures.of_run(root, found, run, frame_ns)))
            advance(1)
        if html and page:
            size = _write(html, page.render(root, numbers, frame_ns, advance))
            said.append(f"{html}: {names}; {human_bytes(size)}")
        if trace:
            said.append(f"{trace}: {names}; {plural(_trace(trace, root, chosen, frame_ns), 'event')}")
    if as_json:
        print_json({"store": root, "frame_ns": frame_ns, "runs": [own for _, own in numbers]})
    elif html or trace:
        for path, line in zip([path for path in (html, trace) if path], said, strict=True):
            if path != "-":
                click.echo(line)
    else:
        _print(root, numbers, frame_ns)
    failed = [text for _, own in numbers for limit in fail_on if (text := limit.failure(own))]
    if failed:
        raise Failure("; ".join(failed))
