"""``pylayer stats --prometheus``: the numbers of the recorded runs. docs/observe.md lists the metrics."""

from __future__ import annotations

import time

from ..report import recorded
from ..report.counters import NUMBERS
from ..report.recorded import Run
from ..report.totals import Total
from ..store.store import Store
from .output import printable
from .policy_in_force import read_limits

#: Metrics that are the sum of one number over the runs.
_SUMS = {name: row for name, row in NUMBERS.items() if row.metric}
#: Name, type and help of each metric, in the order of the output. Units are seconds and bytes, as Prometheus expects.
METRICS = (
    ("pylayer_program_info", "gauge", "Always 1. The labels describe the newest run."),
    ("pylayer_last_run_start_time_seconds", "gauge", "When the newest run began, in seconds since 1970."),
    ("pylayer_runs_total", "counter", "Recorded runs."),
    ("pylayer_pipeline_hits_total", "counter", "Pipelines that were found in a cache or among binaries, by kind."),
    ("pylayer_pipeline_compiles_total", "counter", "Pipelines that the driver compiled, by kind."),
    ("pylayer_pipeline_compile_seconds_total", "counter", "Time that compiles took, summed over threads, by kind."),
    ("pylayer_pipelines_unknown_total", "counter", "Pipelines of which the driver does not say if it compiled them."),
    *((row.metric, "counter", f"{row.meaning[0].upper()}{row.meaning[1:]}.") for row in _SUMS.values()),
    ("pylayer_damaged_parts_total", "counter", "Damaged parts of the store that were not loaded, by outcome."),
    ("pylayer_cache_data_total", "counter", "Initial data of the program's own caches, by verdict and reason."),
    ("pylayer_store_bytes", "gauge", "Size of the whole store."),
    ("pylayer_store_limit_bytes", "gauge", "Size beyond which the layer evicts records (max_store_mib)."),
)

#: Samples by metric. Each has its labels and its value.
Samples = dict[str, list[tuple[dict[str, str], float]]]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _of_program(total: Total) -> Samples:
    """Returns the samples of one program on one device with one driver. Labels that all its samples share are added
    later."""
    newest, numbers = total.newest, total.numbers
    info = {key: newest.texts[key] for key in ("driver", "driver_info", "engine", "carrier")}
    info |= {"executable": printable(newest.executable), "application": printable(newest.application)}
    samples: Samples = {
        row.metric: [({}, numbers[name] / 1e9 if name.endswith("_ns") else numbers[name])]
        for name, row in _SUMS.items()
    }
    samples |= {
        "pylayer_program_info": [(info, 1)],
        "pylayer_last_run_start_time_seconds": [({}, newest.started)],
        "pylayer_runs_total": [({}, total.runs)],
        "pylayer_pipelines_unknown_total": [({}, numbers["unknown_pipelines"])],
        "pylayer_damaged_parts_total": [({"outcome": outcome}, count) for outcome, count in total.damage.items()],
    }
    for name, key, unit in (("hits", "hits", 1), ("compiles", "compiled", 1), ("compile_seconds", "compile_ns", 1e9)):
        samples[f"pylayer_pipeline_{name}_total"] = [
            ({"kind": kind}, counts[key] / unit if unit > 1 else counts[key]) for kind, counts in total.kinds.items()
        ]
    samples["pylayer_cache_data_total"] = [
        ({"verdict": verdict, "reason": reason}, count)
        for verdict, counts in (("passed", total.outcomes), ("refused", total.refused))
        for reason, count in counts.items()
    ]
    return samples


def _all_samples(store: Store) -> Samples:
    """Returns the samples of every program, and of the store."""
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in recorded.read(store.root):
        groups.setdefault((run.title, run.texts["device"], run.identity), []).append(run)
    found: Samples = {name: [] for name, _, _ in METRICS}
    for (program, device, identity), group in groups.items():
        total = Total(group)
        # A new series begins when the oldest run is evicted, so no counter of a series ever decreases.
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(max(0.0, min(total.first_started, 1e11))))
        common = {"store": store.root, "program": program, "device": device, "identity": identity, "since": since}
        for name, samples in _of_program(total).items():
            found[name] += [(common | labels, value) for labels, value in samples]
    found["pylayer_store_bytes"] = [({"store": store.root}, store.total_bytes())]
    found["pylayer_store_limit_bytes"] = [({"store": store.root}, read_limits()[0].max_store)]
    return found


def render(store: Store) -> str:
    """Returns the whole output for a store."""
    found = _all_samples(store)
    lines = []
    for name, kind, text in METRICS:
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        for labels, value in found[name]:
            pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            lines.append(f"{name}{{{pairs}}} {value!r}")
    return "\n".join(lines) + "\n"
