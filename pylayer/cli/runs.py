"""``pylayer stats --runs``: the recorded runs, in the words by which ``pylayer report`` knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..report import figures, recorded
from ..report.totals import shown_sums
from .output import Failure, console, human_time, print_json, print_marks, program_table

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
        sums = shown_sums([run.shown() for run in group])
        presented = sum(run.numbers["frames"] for run in group)
        listed.append(
            {
                "word": f"last~{number}" if number else "last",
                "program": newest.title,
                "pid": newest.pid,
                "started_s": newest.started,
                "state": newest.state,
                "runs": [{"run": run.name, "device": run.texts["device"]} for run in group],
                **{key: sums[key] for key in ("pipelines", "hits", "compiled")},
                "frames": presented or None,
                "late_frames": sum(run.numbers["late_frames"] for run in group) if presented else None,
                "late_by_pipelines": sum(run.numbers["late_by_pipelines"] for run in group) if presented else None,
                "longest_frame_ns": max(run.numbers["longest_frame_ns"] for run in group) if presented else None,
            }
        )
    return listed


def _print_runs(listed: list[dict[str, Any]]) -> None:
    rows = []
    for own in listed:
        longest = human_time(own["longest_frame_ns"]) if own["frames"] else "-"
        numbers = ["?" if own[key] is None else str(own[key]) for key in ("pid", "hits", "compiled")]
        late = "-" if own["late_frames"] is None else str(own["late_frames"])
        rows.append([own["word"], figures.moment(own["started_s"], short=True), *numbers, late, longest, own["state"]])
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
