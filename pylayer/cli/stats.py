"""``pylayer stats``: what the layer did, by program and driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..report import recorded
from ..report.figures import moment
from ..report.remarks import lost, remarks
from ..report.totals import add_up, shown_sums
from ..report.words import cell
from .output import (
    Failure,
    WrongUse,
    console,
    files,
    human_bytes,
    human_time,
    json_option,
    print_indented,
    print_json,
    print_total,
    program_table,
    write_whole,
)
from .runs import print_runs
from .selection import NAMES, meant, require_store

if TYPE_CHECKING:
    from rich.console import Console

    from ..report.totals import Total

#: The table's columns, and the keys of their numbers in --json.
COLUMNS = {
    "runs": "runs",
    "created": "pipelines",
    "hits": "hits",
    "compiled": "compiled",
    "refused": "refused_caches",
    "spent": "spent_ns",
    "saved": "saved_estimate_ns",
}


def _frames(total: Total) -> list[str]:
    """Returns a line on the frames that the program presented, if any was late."""
    numbers = total.numbers
    if not numbers["late_frames"]:
        return []
    return [
        f"{numbers['late_frames']:,} of {numbers['frames']:,} frames late, {numbers['late_by_pipelines']:,} by "
        f"pipelines; the longest took {human_time(numbers['longest_frame_ns'])}, the last late one was at "
        f"{moment(numbers['last_late_s'])}"
    ]


def _names(group: list[Total]) -> list[str]:
    """Returns the programs' names. Programs with one name, which name themselves differently to Vulkan, have their
    number in the store behind it."""
    names = [total.name for total in group]
    return [
        f"{name} {total.newest.program_id:016x}" if names.count(name) > 1 else name
        for name, total in zip(names, group, strict=True)
    ]


def _print_identity(out: Console, group: list[Total]) -> None:
    texts = group[0].newest.texts
    out.print(texts["device"] or "unknown device", style="bold")
    out.print(f"{group[0].newest.driver or 'unknown driver'}; identity {group[0].newest.identity}", style="dim")
    names = _names(group)
    rows = [[cell(own, key) for key in COLUMNS.values()] for own in (total.as_json() for total in group)]
    out.print(program_table(out, tuple(COLUMNS), names, rows))
    for name, total in zip(names, group, strict=True):
        less = lost(total.saved_ns, total.numbers["waited_ns"], total.numbers["hits"])
        saved = [f"no time was saved: the program {less}"] if less else []
        for remark in [*_frames(total), *saved, *remarks(total)]:
            print_indented(out, f"{name}: {remark}", "yellow")


def print_tables(found: list[Total], stderr: bool = False) -> None:
    """Prints one table for each driver identity."""
    out = console(stderr)
    identities: dict[str, list[Total]] = {}
    for total in found:
        identities.setdefault(total.newest.identity, []).append(total)
    for number, group in enumerate(identities.values()):
        if number:
            out.print()
        _print_identity(out, group)


def _sum(found: list[Total]) -> dict[str, Any]:
    """Returns the sums over all programs. An unknown estimate counts as 0."""
    return {
        "runs": sum(total.runs for total in found),
        **shown_sums([total.numbers for total in found]),
        "stored_bytes": sum(total.numbers["stored_bytes"] for total in found),
        "saved_estimate_ns": sum(total.saved_ns or 0 for total in found),
    }


@click.command
@click.argument(
    "name",
    required=False,
    help=f"Only this program, {NAMES}; or the identity that begins with this. Default: all.",
)
@click.option("--last", is_flag=True, help="Only the newest run of each program.")
@click.option("--runs", "lists", is_flag=True, help="List the runs, the newest first, with late frames.")
@click.option("--watch", "watches", is_flag=True, help="Show what programs are doing now.")
@click.option(
    "--prometheus",
    metavar="[FILE]",
    is_flag=False,
    flag_value="-",
    shell_complete=files,
    help="Write the numbers of all runs for Prometheus, to standard output or to FILE, which is replaced whole.",
)
@json_option
def stats(name: str | None, last: bool, lists: bool, watches: bool, prometheus: str | None, as_json: bool) -> None:
    """Show what the layer did, for each driver and program.

    spent is the time that creating pipelines took under the layer, including waits for the layer. saved is an
    estimate: the hits, one for each stored pipeline and run, times the average time of a compile, minus the time of
    the hits and minus these waits. It is negative if the program waited longer than the hits saved. refused counts the
    programs' own cache data that the layer or the driver refused. pylayer ls shows what the store holds for a program.

    --watch also shows the last late frame of each program and the latest compiles; bold ones took longer than 16.7 ms.
    A program that ended is shown for a few more seconds, one that died for a minute. On a terminal, the view is drawn
    every second until Ctrl-C ends it. Otherwise it is printed once.

    --prometheus is for the textfile collector of node_exporter, which reads only names that end in .prom. Everybody may
    read FILE. Run it from cron or a timer. docs/observe.md has a line for cron, and the meaning of each metric.

    \b
    Example:
      pylayer stats blender --last
      pylayer stats --watch
      pylayer stats --prometheus /var/lib/prometheus/node-exporter/pylayer.prom
    """
    store = require_store()
    root = store.root
    if lists + watches + last + bool(prometheus) > 1 or (prometheus and (name or as_json)):
        raise WrongUse("give one of --last, --runs, --watch and --prometheus; --prometheus takes no name and no --json")
    if prometheus:
        from .metrics import render

        write_whole(prometheus, render(store), 0o644)
        return
    if watches:
        from .watch import watch

        watch(root, name, as_json)
        return
    if lists:
        print_runs(root, name, as_json)
        return
    runs = recorded.read(root)
    selection = meant(name, None, {run.identity for run in runs})
    found = add_up(filter(selection.takes_run, runs), last)
    if name is not None and not found:
        raise Failure(f"no run of {name} is recorded; pylayer stats lists what ran, and pylayer ls shows the store")
    if as_json:
        print_json({"store": root, "programs": [total.as_json() for total in found], "total": _sum(found)})
        return
    if not found:
        click.echo(f"Nothing is recorded in {root} yet; start one with: pylayer run -- APP")
        return
    print_tables(found)
    written = human_bytes(_sum(found)["stored_bytes"])
    print_total(f"\n{written} were written by these runs; saved is an estimate (--help).")
    if any(total.saved_ns is None for total in found):
        print_total("? unknown: no run has noted how long compiling the stored pipelines took")
    print_total(f"Store: {root}")
