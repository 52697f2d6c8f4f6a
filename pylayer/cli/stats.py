"""``pylayer stats``: what the layer did, by program and driver; with --prometheus as metrics (docs/observe.md)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..report import recorded, rows
from ..report.counters import NUMBERS
from ..report.recorded import Run
from ..report.rows import Row
from ..report.words import SHORT, human_bytes, human_time, moment, printable
from ..store.store import Store
from .output import (
    Failure,
    WrongUse,
    console,
    files,
    json_option,
    print_indented,
    print_json,
    print_table,
    print_total,
    write_whole,
)
from .policy_in_force import read_limits
from .selection import NAMES, meant, require_store

if TYPE_CHECKING:
    from rich.console import Console

#: The tables' headings, and the keys of their numbers in --json.
COLUMNS = {
    "program": "name",
    "#runs": "runs",
    "#created": "pipelines",
    "#hits": "hits",
    "#compiled": "compiled",
    "#refused": "refused_caches",
    "#spent": "spent_ns",
    "#saved": "saved_estimate_ns",
}
RUN_COLUMNS = {
    "program": "program",
    "run": "word",
    "began": "began",
    "#pid": "pid",
    "#hits": "hits",
    "#compiled": "compiled",
    "#late": "late_frames",
    "#longest": "longest_frame_ns",
    "state": "state",
}
#: Numbers of the sum over all programs, beside those that every command shows. An unknown one counts as 0.
SUMS = ("runs", "stored_bytes", "saved_estimate_ns")


def _remarks(row: Row) -> list[str]:
    """Returns the lines below the table about one program."""
    texts = []
    if row["late_frames"]:
        texts.append(
            f"{row['late_frames']:,} of {row['frames']:,} frames late, {row['late_by_pipelines']:,} by "
            f"pipelines; the longest took {human_time(row['longest_frame_ns'])}, the last late one was at "
            f"{moment(row['last_late_s'])}"
        )
    if less := rows.lost(row):
        texts.append(f"no time was saved: the program {less}")
    return texts + list(row["remarks"])


def _print_identity(out: Console, group: list[Row]) -> None:
    first, titles = group[0], [row["program"] for row in group]
    out.print(first["device"] or "unknown device", style="bold")
    driver = ", ".join(text for text in (first["driver"], first["driver_info"]) if text)
    out.print(f"{driver or 'unknown driver'}; identity {first['identity']}", style="dim")
    # Programs of one name, which name themselves differently to Vulkan, have their number in the store behind it.
    names = [row["program"] + f" {row['program_id']}" * (titles.count(row["program"]) > 1) for row in group]
    print_table(out, COLUMNS, [row | {"name": name} for row, name in zip(group, names, strict=True)])
    for name, row in zip(names, group, strict=True):
        for remark in _remarks(row):
            print_indented(out, f"{name}: {remark}", "yellow")


def print_tables(found: list[Row], stderr: bool = False) -> None:
    """Prints one table for each driver identity."""
    out = console(stderr)
    for number, identity in enumerate(dict.fromkeys(row["identity"] for row in found)):
        if number:
            out.print()
        _print_identity(out, [row for row in found if row["identity"] == identity])


def _processes(found: list[Run], name: str | None) -> list[Row]:
    """Returns the processes to list, the newest first, in the words by which ``pylayer report`` knows them. Those of a
    program keep the words that name them among all."""
    listed = []
    for number, group in enumerate(recorded.processes(found)):
        if name is None or any(run.matches(name) for run in group):
            word = f"last~{number}" if number else "last"
            own = {"word": word, "pid": group[0].pid, "state": group[0].state, "files": [run.name for run in group]}
            listed.append(rows.of_runs(group) | own)
    return listed


def _print_processes(listed: list[Row]) -> None:
    none = dict.fromkeys(("late_frames", "longest_frame_ns"), "-")
    shown = [
        {**row, **({} if row["frames"] else none), "began": moment(row["last_started_s"], SHORT)} for row in listed
    ]
    print_table(console(), RUN_COLUMNS, shown, {"?": "unknown; pylayer report RUN says why", "-": "no frames"})


def _print_programs(root: str, found: list[Row], total: Row) -> None:
    print_tables(found)
    print_total(f"\n{human_bytes(total['stored_bytes'])} were written by these runs; saved is an estimate (--help).")
    if any(row["saved_estimate_ns"] is None for row in found):
        print_total("? unknown: no run has noted how long compiling the stored pipelines took")
    print_total(f"Store: {root}")


@click.command
@click.argument(
    "name",
    required=False,
    help=f"Only this program, {NAMES}; or the identity that begins with this. Default: all.",
)
@click.option("--last", is_flag=True, help="Only the newest run of each program.")
@click.option("--runs", "lists", is_flag=True, help="List the runs, the newest first, with late frames.")
@click.option(
    "--prometheus",
    metavar="[FILE]",
    is_flag=False,
    flag_value="-",
    shell_complete=files,
    help="Write the numbers of all runs for Prometheus, to standard output or to FILE, which is replaced whole.",
)
@json_option
def stats(name: str | None, last: bool, lists: bool, prometheus: str | None, as_json: bool) -> None:
    """Show what the layer did, for each driver and program.

    spent is the time that creating pipelines took under the layer, including waits for the layer. saved is an
    estimate: the hits, one for each stored pipeline and run, times the average time of a compile, minus the time of
    the hits and minus these waits. It is negative if the program waited longer than the hits saved. refused counts the
    programs' own cache data that the layer or the driver refused. pylayer ls shows what the store holds for a program.

    Programs that are running are included, with what they did so far: watch(1) shows how --runs changes.

    --prometheus is for the textfile collector of node_exporter, which reads only names that end in .prom. Everybody may
    read FILE, which also says what each metric means. Run it from cron or a timer (docs/observe.md).

    \b
    Example:
      pylayer stats blender --last
      watch pylayer stats --runs
      pylayer stats --prometheus /var/lib/prometheus/node-exporter/pylayer.prom
    """
    store = require_store()
    root = store.root
    if lists + last + bool(prometheus) > 1 or (prometheus and (name or as_json)):
        raise WrongUse("give one of --last, --runs and --prometheus; --prometheus takes no name and no --json")
    runs = recorded.read(root)
    if prometheus:
        write_whole(prometheus, render(store, runs), 0o644)
        return
    if lists:
        found = _processes(runs, name)
        data: dict[str, Any] = {"processes": found}
    else:
        found = rows.programs(filter(meant(name, None, {run.identity for run in runs}).takes_run, runs), last)
        total = rows.shown_sums(found) | {key: sum(row[key] or 0 for row in found) for key in SUMS}
        data = {"programs": found, "total": total}
    if not found and (runs or name):
        raise Failure(
            f"no run of {name} is recorded in {root}; pylayer stats --runs lists all, pylayer ls what is stored"
        )
    if as_json:
        print_json({"store": root, **data})
    elif not found:
        click.echo(f"Nothing is recorded in {root} yet; start a program with: pylayer run -- APP")
    elif lists:
        _print_processes(found)
    else:
        _print_programs(root, found, total)


# ---- --prometheus --------------------------------------------------------------------------------------------

#: Metrics that are the sum of one number over the runs, by the number's name.
_SUMS = {name: f"pylayer_{row.metric}_total" for name, row in NUMBERS.items() if row.metric}
#: Metrics of each kind of pipeline, by the number's name.
_KINDS = {
    "hits": "pylayer_pipeline_hits_total",
    "compiled": "pylayer_pipeline_compiles_total",
    "compile_ns": "pylayer_pipeline_compile_seconds_total",
}
#: Name, type and help of each metric, in the order of the output. Units are seconds and bytes, as Prometheus expects.
METRICS = (
    ("pylayer_program_info", "gauge", "Always 1. The labels describe the newest run."),
    ("pylayer_last_run_start_time_seconds", "gauge", "When the newest run began, in seconds since 1970."),
    ("pylayer_runs_total", "counter", "Recorded runs."),
    (_KINDS["hits"], "counter", "Pipelines that were found in a cache or among binaries, by kind."),
    (_KINDS["compiled"], "counter", "Pipelines that the driver compiled, by kind."),
    (_KINDS["compile_ns"], "counter", "Time that compiles took, summed over threads, by kind."),
    ("pylayer_pipelines_unknown_total", "counter", "Pipelines of which the driver does not say if it compiled them."),
    *(
        (metric, "counter", f"{NUMBERS[name].meaning[0].upper()}{NUMBERS[name].meaning[1:]}.")
        for name, metric in _SUMS.items()
    ),
    ("pylayer_damaged_parts_total", "counter", "Damaged parts of the store that were not loaded, by outcome."),
    ("pylayer_cache_data_total", "counter", "Initial data of the program's own caches, by outcome and reason."),
    ("pylayer_store_bytes", "gauge", "Size of the whole store."),
    ("pylayer_store_limit_bytes", "gauge", "Size beyond which the layer evicts records (max_store_mib)."),
)

#: A metric, labels and a value.
Sample = tuple[str, dict[str, str], float]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _in_unit(name: str, value: int) -> float:
    return value / 1e9 if name.endswith("_ns") else value


def _of_program(row: Row) -> Iterator[Sample]:
    """Yields the samples of one program with one driver. Labels that all of them share are added later."""
    info = {key: row[key] for key in ("driver", "driver_info", "engine", "mode")}
    info |= {key: printable(row[key]) for key in ("executable", "application")}
    yield "pylayer_program_info", info, 1
    yield "pylayer_last_run_start_time_seconds", {}, row["last_started_s"]
    yield "pylayer_runs_total", {}, row["runs"]
    yield "pylayer_pipelines_unknown_total", {}, row["unknown_pipelines"]
    yield from ((metric, {}, _in_unit(name, row[name])) for name, metric in _SUMS.items())
    for kind in row["kinds"]:
        yield from ((metric, {"kind": kind["kind"]}, _in_unit(name, kind[name])) for name, metric in _KINDS.items())
    for outcome, count in row["damage"].items():
        yield "pylayer_damaged_parts_total", {"outcome": outcome}, count
    for one in rows.cache_data(row):
        yield "pylayer_cache_data_total", {key: one[key] for key in ("outcome", "reason")}, one["count"]


def _samples(store: Store, runs: list[Run]) -> Iterator[Sample]:
    """Yields the samples of every program, and of the store. Programs that are displayed alike count as one."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.title, run.texts["device"], run.identity), []).append(run)
    for names, group in groups.items():
        row = rows.of_runs(group)
        # A new series begins when the oldest run is evicted, so no counter of a series ever decreases.
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(max(0.0, min(row["first_started_s"], 1e11))))
        common = dict(
            zip(("store", "program", "device", "identity", "since"), (store.root, *names, since), strict=True)
        )
        yield from ((metric, common | labels, value) for metric, labels, value in _of_program(row))
    yield "pylayer_store_bytes", {"store": store.root}, store.total_bytes()
    yield "pylayer_store_limit_bytes", {"store": store.root}, read_limits()[0].max_store


def render(store: Store, runs: list[Run]) -> str:
    """Returns the whole output for a store and its runs."""
    lines = {name: [f"# HELP {name} {text}", f"# TYPE {name} {kind}"] for name, kind, text in METRICS}
    for metric, labels, value in _samples(store, runs):
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines[metric].append(f"{metric}{{{pairs}}} {value!r}")
    return "\n".join(line for group in lines.values() for line in group) + "\n"
