"""``pylayer stats --prometheus``: the numbers of the recorded runs (docs/observe.md)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..report import rows
from ..report.counters import NUMBERS
from .output import printable
from .policy_in_force import read_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..report.recorded import Run
    from ..report.rows import Row
    from ..store.store import Store

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
