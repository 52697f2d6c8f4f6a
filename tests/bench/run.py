"""What the layer costs and saves, against named baselines, in one interleaved run: `make bench`.

Every round runs baseline and layer one after the other, so that a machine whose speed drifts treats both
alike; a figure is the median over rounds of the rounds' ratios. On RADV null hardware (a real compiler, no
GPU) with Mesa's disk cache off.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from binaries import Binaries, show_driver_cache
from figures import Figure, show
from rich.console import Console
from stores import copy, folder_of
from world import BUILD, World

from pylayer.store.fold import Fold

#: Of the store that is loaded.
FORMS = ("journals", "pack")


class Bench:
    def __init__(self, count: int, directory: Path, console: Console) -> None:
        self.world = World(directory)
        self.world.environment["PYLAYER_LOG"] = "error"
        self.directory = directory
        self.count = count
        self.console = console
        self.blob = directory / "application.cache"

    def fresh_store(self) -> None:
        shutil.rmtree(self.world.store, ignore_errors=True)

    def keep_stores(self) -> None:
        """What the store holds now, aside: as it is, in journals, and folded into a pack."""
        for form in FORMS:
            copy(self.world.store, self.directory / form)
        folder = folder_of(self.directory / "pack")
        for program in folder.programs():
            for _ in Fold(folder, program, everything=True).steps():
                pass
        assert self.files("journals") == {".closed"} and self.files("pack") == {".pack"}

    def files(self, form: str) -> set[str]:
        """How the names of the files end that are loaded from one of the kept stores."""
        return {Path(path).suffix for path in folder_of(self.directory / form).files(None)}

    def use_store(self, form: str) -> None:
        """One of the kept ones: a program that is idle folds its store, so each round begins with a copy."""
        copy(self.directory / form, self.world.store)

    def cold(self, rounds: int) -> Figure:
        figure = Figure("cold, per pipeline", "the driver alone, no cache", 1.03)
        for _ in range(rounds):
            alone = self.world.demo("--count", self.count, layers=None)
            self.fresh_store()
            under = self.world.demo("--count", self.count)
            figure.add(alone["create_ns_total"] / self.count, under["create_ns_total"] / self.count)
        return figure

    def warm(self, rounds: int) -> list[Figure]:
        """Stored pipelines created right after vkCreateDevice, against the program's own cache with its loading: its
        file is read, as the layer's are. The layer counts how long it read the store, so what is left is the hits."""
        hit = Figure("warm, per pipeline", "the application's own VkPipelineCache from one blob", 1.15)
        figures = [hit]
        for count in sorted({self.count // 2, self.count, 2 * self.count}):
            for form in FORMS:
                baseline = "the same from one blob, reading and loading it"
                figures.append(Figure(f"{count} warm, {form}", baseline, 1.15, "ms"))
            self.world.demo("--count", count, "--cache", "object", "--cache-save", self.blob, layers=None)
            self.fresh_store()
            self.world.demo("--count", count)
            self.keep_stores()
            for _ in range(rounds):
                alone = self.world.demo("--count", count, "--cache", self.blob, layers=None)
                for form, figure in zip(FORMS, figures[-len(FORMS) :], strict=True):
                    self.use_store(form)
                    under = self.world.demo("--count", count)
                    counters = self.world.last()
                    assert counters["compiled"] == 0 and counters["hits"] == count == counters["fetched"], counters
                    loading = alone["read_cache_ns"] + alone["create_cache_ns"]
                    figure.add(alone["create_ns_total"] + loading, under["create_ns_total"])
                    if count == self.count:
                        hits_ns = under["create_ns_total"] - counters["fetch_ns"]
                        hit.add(alone["create_ns_total"] / count, hits_ns / count)
            self.blob.unlink()
        return figures

    def links(self, rounds: int) -> Figure:
        """Pipelines linked from four libraries each, fast and optimized. Their libraries are included."""
        each = self.count // 6
        baseline = "the application's own blob, reading and loading it"
        figure = Figure(f"{each} links, fast and optimized", baseline, 1.15, "ms")
        self.world.demo("--gpl", "--count", each, "--cache", "object", "--cache-save", self.blob, layers=None)
        self.fresh_store()
        self.world.demo("--gpl", "--count", each)
        for _ in range(rounds):
            alone = self.world.demo("--gpl", "--count", each, "--cache", self.blob, layers=None)
            under = self.world.demo("--gpl", "--count", each)
            assert self.world.last()["compiled"] == 0
            loading = alone["read_cache_ns"] + alone["create_cache_ns"]
            figure.add(alone["create_ns_total"] + loading, under["create_ns_total"])
        self.blob.unlink()
        return figure

    def processes(self, rounds: int) -> list[Figure]:
        """Whole processes, as scripts and tools start hundreds of."""
        figures = []
        for what, pipelines, limit in (("no pipeline", 0, 3.0), ("one stored pipeline", 1, 4.0)):
            wall = Figure(f"a process with {what}", "without the layer", limit, "ms", difference=True)
            cpu = Figure("its processor time", "without the layer", 6.0, "ms", difference=True)
            steps = ["instance", "device", "pipelines", str(pipelines), "destroy-device", "destroy-instance"]
            self.fresh_store()
            for _ in range(3):
                self.process(steps, self.layers)
            for _ in range(rounds):
                alone, under = self.process(steps, None), self.process(steps, self.layers)
                wall.add(alone[0], under[0])
                cpu.add(alone[1], under[1])
            figures += [wall, cpu]
        return figures

    def process(self, steps: list[str], layers: str | None) -> tuple[float, float]:
        """Returns wall time and processor time of one process, in nanoseconds."""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter_ns()
        self.world.run([str(BUILD / "tests" / "host"), *steps], VK_INSTANCE_LAYERS=layers)
        took, after = time.perf_counter_ns() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        return took, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9

    def start(self, rounds: int) -> Figure:
        figure = Figure("vkCreateInstance + vkCreateDevice", "the driver alone", 1.0, "ms", difference=True)
        self.world.demo("--count", 1)  # the first run of all waits for its plan; that is the figure below
        for _ in range(rounds):
            alone, under = (self.world.demo("--count", 1, layers=layers) for layers in (None, self.layers))
            figure.add(*(run["create_instance_ns"] + run["create_device_ns"] for run in (alone, under)))
        return figure

    def start_with_store(self, rounds: int) -> list[Figure]:
        """The store is read while the driver makes the device."""
        name = f"the same with {self.count} pipelines in"
        figures = [
            Figure(f"{name} {what}", "the driver alone", None, "ms", difference=True) for what in ("journals", "a pack")
        ]
        for _ in range(rounds):
            alone = self.world.demo("--count", 1, layers=None)
            for form, figure in zip(FORMS, figures, strict=True):
                self.use_store(form)
                under = self.world.demo("--count", 1)
                figure.add(*(run["create_instance_ns"] + run["create_device_ns"] for run in (alone, under)))
        return figures

    def first_start(self, rounds: int) -> Figure:
        figure = Figure("the same, no plan kept yet", "the driver alone", None, "ms", difference=True)
        for _ in range(rounds):
            self.fresh_store()
            alone, under = (self.world.demo("--count", 1, layers=layers) for layers in (None, self.layers))
            figure.add(*(run["create_instance_ns"] + run["create_device_ns"] for run in (alone, under)))
        return figure

    @property
    def layers(self) -> str:
        return self.world.environment["VK_INSTANCE_LAYERS"]

    def speedup(self, cold: Figure, warm: Figure) -> float:
        base = statistics.median(base for base, _ in cold.samples)
        return base / statistics.median(layer for _, layer in warm.samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=560, help="pipelines a run (560)")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of the warm figures (25)")
    parser.add_argument("--cold-rounds", type=int, default=7, help="rounds of the cold figure (7)")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), help="where the figures go")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="pylayer-bench-") as directory:
        bench = Bench(options.count, Path(directory), console)
        steps: list[Callable[[], Figure | list[Figure]]] = [
            lambda: bench.start(options.rounds),
            lambda: bench.first_start(options.rounds),
            lambda: bench.warm(options.rounds),
            lambda: bench.links(options.rounds),
            lambda: bench.processes(options.rounds),
            lambda: bench.start_with_store(options.rounds),
            lambda: bench.cold(options.cold_rounds),
        ]
        figures: list[Figure] = []
        for step in steps:
            done = step()
            figures += done if isinstance(done, list) else [done]
    with tempfile.TemporaryDirectory(prefix="pylayer-bench-") as directory:
        binaries = Binaries(Path(directory), options.count)
        figures += binaries.figures(options.rounds, options.cold_rounds)
        driver_cache = binaries.driver_cache(options.cold_rounds)
    by_name = {figure.name: figure for figure in figures}
    speedup = bench.speedup(by_name["cold, per pipeline"], by_name["warm, per pipeline"])
    options.json.parent.mkdir(parents=True, exist_ok=True)
    document = {"figures": [figure.as_dict() for figure in figures], "speedup": speedup, "driver_cache": driver_cache}
    options.json.write_text(json.dumps(document, indent=2) + "\n")
    show(console, figures)
    console.print(f"A stored pipeline is created {speedup:.0f} times faster than it is compiled.")
    show_driver_cache(console, driver_cache)
    for remark in binaries.remarks:
        console.print(remark)
    console.print(f"Figures as JSON: {options.json}")


if __name__ == "__main__":
    main()
