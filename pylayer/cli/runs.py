"""``pylayer stats --runs``: the recorded runs, in the words by which ``pylayer report`` knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..report import figures, recorded
from ..report.totals import Total
from ..report.words import cell
from .output import Failure, console, print_json, print_marks, program_table

if TYPE_CHECKING:
    from ..report.recorded import Run


def _listed(found: list[Run], name: str | None) -> list[dict[str, Any]]:
    """Returns the processes to list, as JSON, the newest first. Those of a program keep the words that name them among
    all."""
    listed = []
    for number, group in enumerate(recorded.processes(found)):
        newest = group[0]
        if name is not None and not any(run.matches(name) for run in group):
            continue
        words = {"word": f"last~{number}" if number else "last", "pid": newest.pid, "state": newest.state}
        listed.append({**Total(group).as_json(), **words, "files": [run.name for run in group]})
    return listed


def _print_runs(listed: list[dict[str, Any]]) -> None:
    rows = []
    for own in listed:
        frames = [cell(own, key) if own["frames"] else "-" for key in ("late_frames", "longest_frame_ns")]
        numbers = [cell(own, key) for key in ("pid", "hits", "compiled")]
        rows.append([own["word"], figures.moment(own["last_started_s"], short=True), *numbers, *frames, own["state"]])
    out = console()
    headings = ("run", "began", "pid", "hits", "compiled", "late", "longest", "state")
    out.print(program_table(out, headings, [own["program"] for own in listed], rows))
    print_marks(
        [cell for row in rows for cell in row],
        {"?": "unknown; pylayer report RUN says why", "-": "no frames"},
    )


def print_runs(root: str, name: str | None, as_json: bool) -> None:
    """Prints the recorded runs of a program, or of all. Raises Failure if the program has none."""
    found = recorded.read(root)
    listed = _listed(found, name)
    if as_json:
        print_json({"store": root, "processes": listed})
    elif listed:
        _print_runs(listed)
    elif found:
        raise Failure(f"no run of {name} is recorded in {root}; pylayer stats --runs lists all")
    else:
        click.echo(f"No run is recorded in {root} yet; start one with: pylayer run -- APP")
