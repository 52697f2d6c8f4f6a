"""How the store's cost grows with the store, part of `make bench` (docs/internals/performance.md).

Stores of 1,000, 10,000 and 100,000 records as journals and as packs. Each measurement is a process of
its own (`measure.py`, or the demo program under the layer); rounds are interleaved, so that a machine whose speed
drifts treats all alike; a figure is the median over rounds, and a ratio the median of the rounds' own ratios.
The files are in the page cache. The stores of 1,000 and 10,000 are what the layer stored of the demo's pipelines on
RADV without hardware; `stores.py` says how the larger one is made of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import stores
from rich.console import Console
from rich.table import Table
from world import BUILD, World

FORMS = ("journals", "packs")
PROGRAMS = 100
Sample = dict[str, float]


def median(values: list[float]) -> float:
    return statistics.median(values)


class Series:
    """Samples of one thing, one a round."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def of(self, key: str) -> list[float]:
        return [sample[key] for sample in self.samples]

    def rates(self) -> list[float]:
        """GB/s of a core."""
        return [sample["bytes"] / sample["cpu_ns"] for sample in self.samples]

    def as_dict(self) -> dict[str, Any]:
        keys = self.samples[0]
        values = {key: {"median": median(self.of(key)), "spread": spread(self.of(key))} for key in keys}
        if "bytes" in keys and "cpu_ns" in keys:
            values["gb_per_s"] = {"median": median(self.rates()), "spread": spread(self.rates())}
        return {"rounds": len(self.samples), **values}


def spread(values: list[float]) -> list[float]:
    return [min(values), max(values)]


def ratio(above: list[float], below: list[float]) -> dict[str, Any]:
    """Of series of the same rounds."""
    values = [a / b for a, b in zip(above, below, strict=True)]
    return {"median": median(values), "spread": spread(values)}


def measure(*arguments: str | Path | int) -> Sample:
    command = [sys.executable, str(Path(__file__).with_name("measure.py")), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


class Scale:
    def __init__(self, directory: Path, options: argparse.Namespace, console: Console) -> None:
        self.directory = directory
        self.options = options
        self.console = console
        self.world = World(directory)
        self.world.environment["PYLAYER_LOG"] = "error"
        self.figures: dict[str, Any] = {}
        self._load_averages: list[float] = []

    def say(self, text: str) -> None:
        self._load_averages.append(os.getloadavg()[0])
        self.console.print(f"[dim]{time.strftime('%H:%M:%S')} load {os.getloadavg()[0]:.1f}  {text}[/]")

    # ---- stores ----------------------------------------------------------------------------------

    def real(self, count: int) -> Path:
        return self.directory / f"real-{count}-journals"

    def make_real(self, count: int) -> None:
        """What the layer stores of so many pipelines, compiled by two threads."""
        kept = self.options.keep / f"real-{count}" if self.options.keep else None
        if kept is not None and kept.exists():
            shutil.copytree(kept, self.real(count))
            return
        self.say(f"compiling {count} pipelines")
        self.demo(self.real(count), "--count", count, "--threads", 2, timeout=1800)
        if kept is not None:
            shutil.copytree(self.real(count), kept)

    def demo(self, store: Path, *arguments: str | int, timeout: float = 600) -> dict[str, Any]:
        command = [str(BUILD / "demo" / "pipelines"), "--json", *map(str, arguments)]
        done = self.world.run(command, timeout=timeout, PYLAYER_STORE=str(store))
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]

    def make(self) -> None:
        for count in self.options.real:
            self.make_real(count)
        largest = stores.folder_of(self.real(max(self.options.real)))
        cells = stores.cells_of(largest)
        for count in self.options.sizes:
            self.say(f"stores of {count} records")
            source = stores.folder_of(self.real(count)) if count in self.options.real else largest
            own = stores.cells_of(source) if count in self.options.real else cells
            self.forms(f"{count}", stores.write(self.directory / f"{count}-journals", source, own, count))
        name = f"programs-{max(self.options.sizes)}"
        self.forms(
            name, stores.write(self.directory / f"{name}-journals", largest, cells, max(self.options.sizes), PROGRAMS)
        )
        for count in self.options.real:
            self.forms(f"real-{count}", stores.folder_of(self.real(count)))

    def forms(self, name: str, journals: stores.Folder) -> None:
        """Packs beside the journals."""
        root = self.directory / f"{name}-packs"
        stores.copy(Path(journals.root), root)
        stores.fold(stores.folder_of(root))

    # ---- the Python side ---------------------------------------------------------------------------

    def load(self) -> None:
        sizes = self.options.sizes
        series = {(size, what): Series() for size in sizes for what in (*FORMS, "read", "hash")}
        for number in range(self.options.rounds):
            self.say(f"loading: round {number + 1} of {self.options.rounds}")
            for size in sizes:
                for form in FORMS:
                    sample = measure("load", self.directory / f"{size}-{form}")
                    assert sample["records"] == size
                    series[size, form].samples.append(sample)
                for what in ("read", "hash"):
                    series[size, what].samples.append(measure(what, self.directory / f"{size}-journals"))
        result: dict[str, Any] = {}
        for size in sizes:
            raw = series[size, "journals"].samples[0]["bytes"]
            for form in FORMS:
                one = series[size, form]
                folder = stores.folder_of(self.directory / f"{size}-{form}")
                result[f"{size} {form}"] = {
                    **one.as_dict(),
                    "disk_bytes": stores.size_of(folder),
                    "raw_bytes": raw,
                    "all_against_read": ratio(one.of("all_ns"), series[size, "read"].of("all_ns")),
                    "all_against_hash": ratio(one.of("all_ns"), series[size, "hash"].of("all_ns")),
                    "all_against_journals": ratio(one.of("all_ns"), series[size, "journals"].of("all_ns")),
                    "first_against_smallest": ratio(one.of("first_ns"), series[sizes[0], form].of("first_ns")),
                }
            for what in ("read", "hash"):
                result[f"{size} {what}"] = series[size, what].as_dict()
        self.figures["load"] = result

    def programs(self) -> None:
        """One program's records out of a store of a hundred programs: the first group and the last."""
        size = max(self.options.sizes)
        series = {(form, program): Series() for form in FORMS for program in (1, PROGRAMS)}
        for _ in range(self.options.rounds):
            for (form, program), one in series.items():
                sample = measure("load", self.directory / f"programs-{size}-{form}", program)
                assert sample["records"] == size // PROGRAMS
                one.samples.append(sample)
        self.figures["programs"] = {
            f"{form} {'first' if program == 1 else 'last'}": {
                **one.as_dict(),
                "first_against_first_program": ratio(one.of("first_ns"), series[form, 1].of("first_ns")),
            }
            for (form, program), one in series.items()
        }

    def fold(self) -> None:
        """As a program's process folds, in steps and within its limits."""
        series = {size: Series() for size in self.options.sizes}
        for number in range(self.options.fold_rounds):
            self.say(f"folding: round {number + 1} of {self.options.fold_rounds}")
            for size, one in series.items():
                root = self.directory / "folded"
                stores.copy(self.directory / f"{size}-journals", root)
                one.samples.append(measure("fold", root))
        self.figures["fold"] = {f"{size} packs": one.as_dict() for size, one in series.items()}

    # ---- the real layer ----------------------------------------------------------------------------

    def layer(self) -> None:
        counts = self.options.real
        series = {(count, what): Series() for count in counts for what in (*FORMS, "alone")}
        store = self.directory / "in-use"
        for count in counts:
            stores.copy(self.real(count), store)
            blob = self.directory / f"{count}.cache"
            self.demo(store, "--count", count, "--cache", "object", "--cache-save", str(blob))
        for number in range(self.options.layer_rounds):
            self.say(f"through the layer: round {number + 1} of {self.options.layer_rounds}")
            for (count, what), one in series.items():
                if what == "alone":
                    blob = self.directory / f"{count}.cache"
                    ran = self.world.demo("--count", count, "--cache", blob, layers=None)
                    one.samples.append(
                        {
                            "create_cache_ns": ran["create_cache_ns"],
                            "per_pipeline_ns": ran["create_ns_total"] / count,
                            "start_ns": ran["create_instance_ns"] + ran["create_device_ns"],
                        }
                    )
                    continue
                # The program itself folds a store when it is idle, so each round has its own.
                stores.copy(self.directory / f"real-{count}-{what}", store)
                for old in store.glob("runs/*"):
                    old.unlink()
                ran = self.demo(store, "--count", count)
                (run,) = self.runs(store)
                counters = run["counters"]
                assert counters["hits"] == count and counters["compiled"] == 0, counters
                one.samples.append(
                    {
                        "fetch_ns": counters["fetch_ns"],
                        "per_pipeline_ns": (ran["create_ns_total"] - counters["fetch_ns"]) / count,
                        "start_ns": ran["create_instance_ns"] + ran["create_device_ns"],
                    }
                )
        self.figures["layer"] = {
            f"{count} {what}": {
                **one.as_dict(),
                **(
                    {}
                    if what == "alone"
                    else {"fetch_against_blob": ratio(one.of("fetch_ns"), series[count, "alone"].of("create_cache_ns"))}
                ),
            }
            for (count, what), one in series.items()
        }

    def first(self) -> None:
        """The first stored pipeline, in stores of any size: what the driver alone takes for one from its own blob is
        the baseline."""
        store, blob = self.directory / "in-use", self.directory / "one.cache"
        self.world.demo("--count", 1, "--cache", "object", "--cache-save", blob, layers=None)
        result: dict[str, Any] = {}
        for size in self.options.sizes:
            for form in FORMS:
                stores.copy(self.directory / f"{size}-{form}", store)
                one = Series()
                for number in range(self.options.layer_rounds + 1):
                    alone = self.world.demo("--count", 1, "--cache", blob, layers=None)
                    ran = self.demo(store, "--count", 1)
                    if number == 0:  # policy makes the plan, and reads the store
                        continue
                    counters = self.runs(store)[-1]["counters"]
                    assert (counters["hits"], counters["compiled"]) == (1, 0), counters
                    over = ran["create_ns_total"] - alone["create_ns_total"]
                    starts = [run["create_instance_ns"] + run["create_device_ns"] for run in (alone, ran)]
                    one.samples.append(
                        {"first_ns": over, "start_ns": starts[1] - starts[0], "fetched": counters["fetched"]}
                    )
                result[f"{size} {form}"] = one.as_dict()
        self.figures["first"] = result

    @staticmethod
    def runs(store: Path) -> list[dict[str, Any]]:
        from pylayer.store.runs import read_all

        return list(read_all(str(store)))

    # ---- the application's own caches ------------------------------------------------------------------

    def caches(self) -> None:
        """Data of a program's own: made by the driver from real pipelines, through the layer's store."""
        store = self.directory / "in-use"
        result: dict[str, Any] = {}
        for count in self.options.cache_pipelines:
            blob = self.directory / f"application-{count}.cache"
            if count <= 3000:  # without the layer, which would put everything stored into it
                self.world.demo("--count", count, "--cache", "object", "--cache-save", blob, layers=None)
            else:
                self.say(f"an application's cache of {count} pipelines")
                stores.copy(self.real(max(self.options.real)), store)
                self.demo(
                    store,
                    "--count",
                    count,
                    "--cache",
                    "object",
                    "--cache-save",
                    str(blob),
                    "--threads",
                    2,
                    timeout=1800,
                )
            series = {what: Series() for what in ("alone", "unknown", "attested")}
            for _ in range(self.options.layer_rounds):
                shutil.rmtree(store, ignore_errors=True)
                saved = self.directory / "saved.cache"
                for what, one in series.items():
                    data = saved if what == "attested" else blob
                    one.samples.append(self.cache_times(store, data, saved, under=what != "alone"))
                outcomes = [outcome for run in self.runs(store) for outcome in run["cache_outcomes"]]
                assert outcomes == ["unknown", "attested"], outcomes
            alone = series["alone"]
            result[f"{blob.stat().st_size}"] = {
                what: {
                    **one.as_dict(),
                    "create_against_alone": ratio(one.of("create_ns"), alone.of("create_ns")),
                    "get_against_alone": ratio(one.of("get_ns"), alone.of("get_ns")),
                    "second_get_against_alone": ratio(one.of("second_get_ns"), alone.of("second_get_ns")),
                }
                for what, one in series.items()
            }
        self.figures["caches"] = result
        done = [json.loads(self.world.run([str(BUILD / "bench" / "fingerprints")]).stdout) for _ in range(7)]
        self.figures["fingerprints"] = {
            key: {"median": median([one[key] for one in done]), "spread": spread([one[key] for one in done])}
            for key in done[0]
        }

    def cache_times(self, store: Path, blob: Path, saved: Path, under: bool) -> Sample:
        command = [str(BUILD / "bench" / "caches"), str(blob), str(saved)]
        layers = self.world.environment["VK_INSTANCE_LAYERS"] if under else None
        done = json.loads(self.world.run(command, PYLAYER_STORE=str(store), VK_INSTANCE_LAYERS=layers).stdout)
        assert done["read"] >= done["bytes"] * 0.99  # it was not refused
        return done  # type: ignore[no-any-return]

    def run(self) -> None:
        self.make()
        self.load()
        self.programs()
        self.fold()
        self.layer()
        self.first()
        self.caches()
        self.figures["machine"] = {
            "processors": os.cpu_count(),
            "model": processor(),
            "load_average": {"median": median(self._load_averages), "spread": spread(self._load_averages)},
            "python": sys.version.split()[0],
        }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return ""


# ---- what is shown -----------------------------------------------------------------------------------


def ms(value: dict[str, Any]) -> str:
    return f"{value['median'] / 1e6:.2f} ms"


def mib(value: dict[str, Any]) -> str:
    return f"{value['median'] / (1 << 20):.1f} MiB"


def table(console: Console, title: str, rows: list[list[str]]) -> None:
    shown = Table(title=title)
    for number, heading in enumerate(rows[0]):
        shown.add_column(heading, justify="right" if number else "left")
    for row in rows[1:]:
        shown.add_row(*row)
    console.print(shown)


def show(console: Console, figures: dict[str, Any]) -> None:
    rows = [["store", "first record", "all", "x read()", "x read + XXH3", "GB/s a core", "memory, peak", "disk"]]
    for name, one in figures["load"].items():
        if "first_ns" not in one:
            rows.append([name, "", ms(one["all_ns"]), "", "", f"{one['gb_per_s']['median']:.2f}", "", ""])
            continue
        rows.append(
            [
                name,
                ms(one["first_ns"]),
                ms(one["all_ns"]),
                f"{one['all_against_read']['median']:.2f}",
                f"{one['all_against_hash']['median']:.2f}",
                f"{one['gb_per_s']['median']:.2f}",
                mib(one["rss_peak_delta"]),
                f"{one['disk_bytes'] / one['raw_bytes']:.0%}",
            ]
        )
    table(console, "Load, Python's side", rows)
    rows = [["store of 100 programs", "first record", "all of one"]]
    rows += [[name, ms(one["first_ns"]), ms(one["all_ns"])] for name, one in figures["programs"].items()]
    table(console, "One program of many", rows)
    rows = [["store", "fold", "folds", "steps", "longest step", "of it processor time", "memory, peak"]]
    rows += [
        [
            name,
            ms(one["all_ns"]),
            f"{one['folds']['median']:.0f}",
            f"{one['steps']['median']:.0f}",
            ms(one["longest_step_ns"]),
            ms(one["longest_step_cpu_ns"]),
            mib(one["rss_peak_delta"]),
        ]
        for name, one in figures["fold"].items()
    ]
    table(console, "Fold, as a program's process does it", rows)
    rows = [["store", "read and merged", "against the blob", "a pipeline", "instance + device"]]
    for name, one in figures["layer"].items():
        against = f"{one['fetch_against_blob']['median']:.2f} x" if "fetch_against_blob" in one else ""
        rows.append(
            [
                name,
                ms(one["fetch_ns" if "fetch_ns" in one else "create_cache_ns"]),
                against,
                f"{one['per_pipeline_ns']['median'] / 1e3:.1f} us",
                ms(one["start_ns"]),
            ]
        )
    table(console, "Through the layer, on RADV without hardware", rows)
    rows = [["store", "the first stored pipeline, over the driver's time", "start, over the driver's", "records read"]]
    rows += [
        [name, ms(one["first_ns"]), ms(one["start_ns"]), f"{one['fetched']['median']:.0f}"]
        for name, one in figures["first"].items()
    ]
    table(console, "One pipeline out of stores of any size", rows)
    rows = [["data", "", "create", "get", "get again", "vkDestroyDevice"]]
    for size, kinds in figures["caches"].items():
        for what, one in kinds.items():
            cells = [f"{int(size) / 1e6:.1f} MB", what]
            for key, against in (
                ("create_ns", "create_against_alone"),
                ("get_ns", "get_against_alone"),
                ("second_get_ns", "second_get_against_alone"),
            ):
                factor = "" if what == "alone" else f" ({one[against]['median']:.2f} x)"
                cells.append(ms(one[key]) + factor)
            rows.append([*cells, ms(one["destroy_device_ns"])])
    table(
        console, "An application's own cache data: the driver alone; under the layer, unknown to it and attested", rows
    )
    prints = figures["fingerprints"]
    console.print(
        f"A fingerprint takes {prints['compute_ns']['median']:.0f} ns for a compute and "
        f"{prints['graphics_ns']['median']:.0f} ns for a graphics pipeline, {prints['module_ns']['median']:.0f} ns for "
        "a shader module of 8 KiB."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10000, 100000], help="records")
    parser.add_argument("--real", type=int, nargs="+", default=[1000, 10000], help="pipelines that are compiled")
    parser.add_argument("--cache-pipelines", type=int, nargs="+", default=[300, 2950, 14300], help="1, 10 and 46 MB")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of loading (11)")
    parser.add_argument("--fold-rounds", type=int, default=5, help="rounds of folding (5)")
    parser.add_argument("--layer-rounds", type=int, default=7, help="rounds with the layer (7)")
    parser.add_argument("--keep", type=Path, help="a directory that keeps compiled stores for the next run")
    parser.add_argument("--json", type=Path, default=Path("build/scale.json"), help="where the figures go")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    with tempfile.TemporaryDirectory(prefix="pylayer-scale-") as directory:
        scale = Scale(Path(directory), options, console)
        scale.run()
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(scale.figures, indent=2) + "\n")
    show(console, scale.figures)
    console.print(f"Figures as JSON: {options.json}")


if __name__ == "__main__":
    main()
