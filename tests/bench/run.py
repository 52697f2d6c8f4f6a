"""What the layer costs and saves, against named baselines, in one interleaved run: `make bench`.

Every round runs baseline and layer one after the other, so that a machine whose speed drifts treats both
alike; a figure is the median over rounds of the rounds' ratios. On RADV null hardware (a real compiler, no
GPU). Each figure is measured twice, in turns: as installed, with Mesa's disk cache on, empty where pipelines are
compiled and filled where they are stored; and bare, with Mesa's disk cache off.

pages.py puts the figures into docs/internals/performance.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import xxhash
from binaries import Binaries, show_driver_cache
from figures import Figure, Row, created_ns, show, start_ns
from frames import frames
from pipeline_binaries import APPLICATION
from stores import copy
from world import BUILD, LAYER_NAME, Run, World

#: What is stored, and how the program ended that stored it.
FORMS = {"cells": ("--no-destroy",), "chunks": ()}
FROM_BLOB = "the same from one blob, reading and loading it"


@contextlib.contextmanager
def processor_time() -> Iterator[list[float]]:
    """Yields a list, which afterwards has the nanoseconds of the processor that this process's children took."""
    before, used = resource.getrusage(resource.RUSAGE_CHILDREN), [0.0]
    yield used
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used[0] = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9


class Bench:
    """One of the two columns. Its methods yield after each round, so that both columns take turns."""

    def __init__(self, options: argparse.Namespace, directory: Path, installed: bool) -> None:
        directory.mkdir()
        self.world = World(directory)
        self.layers = self.world.environment["VK_INSTANCE_LAYERS"]
        self.installed = installed
        self.disk = directory / "mesa"
        if installed:
            del self.world.environment["MESA_SHADER_CACHE_DISABLE"]
            self.world.environment["MESA_SHADER_CACHE_DIR"] = str(self.disk)
        self.world.environment["PYLAYER_LOG"] = "error"
        self.directory = directory
        self.count = options.count
        self.links_count = options.links
        self.own_caches = [int(text) for text in options.own_caches.split(",")]
        self.figures: list[Figure] = []
        self.blob = directory / "application.cache"

    def figure(self, name: str, baseline: str, limit: float | None, unit: str = "us") -> Figure:
        self.figures.append(Figure(name, baseline, limit, unit))
        return self.figures[-1]

    def more(self, name: str, baseline: str, limit: float | None) -> Figure:
        """A figure of the milliseconds that the layer adds."""
        self.figures.append(Figure(name, baseline, limit, "ms", difference=True))
        return self.figures[-1]

    def fresh_store(self) -> None:
        shutil.rmtree(self.world.store, ignore_errors=True)

    def fresh_disk(self) -> None:
        """Mesa's disk cache is empty, as before a program's first run."""
        shutil.rmtree(self.disk, ignore_errors=True)
        self.disk.mkdir()

    def use_store(self, form: str) -> None:
        """Copies a kept store: an idle program compacts its store, so each round begins with a copy."""
        copy(self.directory / form, self.world.store)

    def keep_store(self, form: str) -> None:
        copy(self.world.store, self.directory / form)

    # ---- runs ----------------------------------------------------------------------------------------

    def both(self, *arguments: str | float | Path) -> list[Run]:
        """The same run without the layer and under it."""
        return [self.world.demo(*arguments, layers=layers) for layers in (None, self.layers)]

    def save_blob(self, *arguments: str | float) -> None:
        """Without the layer, saves what a cache of the program's own then has."""
        self.world.demo(*arguments, "--cache", "object", "--cache-save", self.blob, layers=None)

    def from_blob(self, *arguments: str | float) -> Run:
        return self.world.demo(*arguments, "--cache", self.blob, layers=None)

    def found(self, *arguments: str | float) -> tuple[float, dict[str, int]]:
        """A run in which everything is stored: nanoseconds of all creations, and what was counted."""
        run, counters = self.world.demo(*arguments), self.world.last()
        assert counters["compiled"] == 0, counters
        return run["create_ns_total"], counters

    def process(self, steps: list[str], layers: str | None) -> tuple[float, float]:
        """Returns wall time and processor time of one process, in nanoseconds."""
        start = time.perf_counter_ns()
        with processor_time() as used:
            self.world.run([str(BUILD / "tests" / "host"), *steps], VK_INSTANCE_LAYERS=layers)
            took = time.perf_counter_ns() - start
        return took, used[0]

    def begin(self, layers: str | None) -> tuple[float, float]:
        """Returns how long a program takes until it has its cache, and its processor time, in nanoseconds."""
        with processor_time() as used:
            run = self.world.demo("--count", 1, "--cache", self.blob, layers=layers)
        return start_ns(run) + run["create_cache_ns"], used[0]

    # ---- figures -------------------------------------------------------------------------------------

    def cold(self, rounds: int) -> Iterator[None]:
        limit = 1.05 if self.installed else 1.03
        figure = self.figure("cold, per pipeline", "the driver alone, its cache empty", limit)
        for _ in range(rounds):
            totals = []
            for layers in (None, self.layers):
                self.fresh_disk()
                self.fresh_store()
                totals.append(self.world.demo("--count", self.count, layers=layers)["create_ns_total"] / self.count)
            figure.add(*totals)
            yield

    def state(self, rounds: int) -> Iterator[None]:
        """What it costs to record state, and what `pylayer rebuild` takes to compile from it."""
        recorded = self.figure("cold, state recorded", "the same, not recorded", 1.03)
        rebuilt = self.figure("pylayer rebuild --jobs 1, per pipeline", "the program's first run", None)
        for _ in range(rounds):
            totals = []
            for wanted in ("false", "true"):
                self.fresh_disk()
                self.fresh_store()
                policy = self.world.policy(f"settings: {{record_state: {wanted}}}")
                totals.append(self.world.demo("--count", self.count, **policy)["create_ns_total"] / self.count)
            recorded.add(*totals)
            for path in self.world.stored_files():
                path.unlink()
            self.fresh_disk()
            start = time.perf_counter_ns()
            self.world.run([sys.executable, "-m", "pylayer", "rebuild", "--jobs", "1"])
            rebuilt.add(totals[1], (time.perf_counter_ns() - start) / self.count)
            assert len(self.world.stored_files()) > 0
            yield

    def warm(self, rounds: int) -> Iterator[None]:
        """Stored pipelines created right after vkCreateDevice, against the program's own cache with its loading: its
        file is read, as the layer's are. The layer counts how long it read the store, so what is left is the hits."""
        hit = self.figure("warm, per pipeline", "the program's own VkPipelineCache from one blob", 1.15)
        for count in sorted({self.count // 2, self.count, 2 * self.count}):
            forms = [(form, self.figure(f"{count} warm, {form}", FROM_BLOB, 1.15, "ms")) for form in FORMS]
            self.save_blob("--count", count)
            for form, ending in FORMS.items():
                self.fresh_store()
                self.world.demo("--count", count, *ending)
                self.keep_store(form)
            for _ in range(rounds):
                alone = self.from_blob("--count", count)
                for form, figure in forms:
                    self.use_store(form)
                    under, counters = self.found("--count", count)
                    assert counters["hits"] == count == counters["fetched"], counters
                    figure.add(created_ns(alone), under)
                    if count == self.count:
                        hit.add(alone["create_ns_total"] / count, (under - counters["fetch_ns"]) / count)
                yield

    def empty_cache(self, rounds: int) -> Iterator[None]:
        """The program begins with an empty cache of its own, and the store has all of its pipelines."""
        figure = self.figure(f"{self.count} warm, own cache empty", FROM_BLOB, 1.30, "ms")
        self.save_blob("--count", self.count)
        self.fresh_store()
        for _ in range(2):  # the layer learns that the cache begins empty
            self.world.demo("--count", self.count, "--cache", "object")
        self.keep_store("empty-cache")
        for _ in range(rounds):
            alone = self.from_blob("--count", self.count)
            self.use_store("empty-cache")
            figure.add(created_ns(alone), self.found("--count", self.count, "--cache", "object")[0])
            yield

    def enables_binaries(self, rounds: int) -> Iterator[None]:
        """The program enables VK_KHR_pipeline_binary, uses none of its commands, and the store has its pipelines."""
        for count in (self.count // 2, self.count):
            name, baseline = f"{count} warm, pipeline binaries enabled", "the same without the extension, warm, too"
            figure = self.figure(name, baseline, 1.50, "ms")
            self.fresh_store()
            for source in ("plain", "unused"):
                self.without_commands(source, count)
            for _ in range(rounds):
                figure.add(*(self.without_commands(source, count) for source in ("plain", "unused")))
                counters = self.world.last()
                assert counters["compiled"] == 0 and counters["hits"] == count, counters
                yield

    def without_commands(self, source: str, count: int) -> float:
        """How long the program takes, with VK_KHR_pipeline_binary enabled and without, for its pipelines."""
        done = self.world.run([*APPLICATION, "--count", str(count), "--source", source], VK_INSTANCE_LAYERS=LAYER_NAME)
        return float(Run.of(done)["create_ns_total"])

    def links(self, rounds: int) -> Iterator[None]:
        """Pipelines linked from four libraries each, fast and optimized. Their libraries are included."""
        arguments = ("--gpl", "--count", self.links_count)
        baseline = "the program's own blob, reading and loading it"
        figure = self.figure(f"{self.links_count} links, fast and optimized", baseline, 1.15, "ms")
        self.save_blob(*arguments)
        self.fresh_store()
        self.world.demo(*arguments)
        for _ in range(rounds):
            figure.add(created_ns(self.from_blob(*arguments)), self.found(*arguments)[0])
            yield

    def processes(self, rounds: int) -> Iterator[None]:
        """Whole processes, as scripts and tools start hundreds of."""
        for what, pipelines, limit in (("no pipeline", 0, 3.0), ("one stored pipeline", 1, 4.0)):
            wall = self.more(f"a process with {what}", "without the layer", limit)
            cpu = self.more(f"processor time, {what}", "without the layer", 6.0)
            steps = ["instance", "device", "pipelines", str(pipelines), "destroy-device", "destroy-instance"]
            self.fresh_store()
            for _ in range(3):
                self.process(steps, self.layers)
            for _ in range(rounds):
                alone, under = self.process(steps, None), self.process(steps, self.layers)
                wall.add(alone[0], under[0])
                cpu.add(alone[1], under[1])
                yield

    def start(self, rounds: int) -> Iterator[None]:
        figure = self.more("vkCreateInstance + vkCreateDevice", "the driver alone", 1.0)
        self.world.demo("--count", 1)  # the first run of all waits for its plan; that is the figure below
        for _ in range(rounds):
            figure.add(*map(start_ns, self.both("--count", 1)))
            yield

    def own_cache(self, rounds: int) -> Iterator[None]:
        """A program that begins with its own cache's data, which it read under the layer."""
        for pipelines in self.own_caches:
            self.fresh_store()
            saved: tuple[str | float | Path, ...] = ("--cache", "object", "--cache-save", self.blob)
            for _ in range(3):
                self.world.demo("--count", pipelines, *saved)
                saved = ("--cache", self.blob, "--cache-save", self.blob)
            size, baseline = f"{self.blob.stat().st_size / 1e6:.2g} MB", "without the layer, and hashing"
            wall = self.more(f"vkCreateInstance to vkCreatePipelineCache, {size}", baseline, 1.0)
            cpu = self.more(f"processor time, own cache of {size}", baseline, 3.0)
            for _ in range(rounds):
                alone, under = (self.begin(layers) for layers in (None, self.layers))
                data, start = self.blob.read_bytes(), time.perf_counter_ns()
                xxhash.xxh3_128_digest(data)
                hashing = time.perf_counter_ns() - start
                wall.add(alone[0] + hashing, under[0])
                cpu.add(alone[1] + hashing, under[1])
                yield

    def start_with_store(self, rounds: int) -> Iterator[None]:
        """The store is read while the driver makes the device."""
        name = f"the same with {2 * self.count} pipelines in"
        figures = [(form, self.more(f"{name} {form}", "the driver alone", None)) for form in FORMS]
        for _ in range(rounds):
            alone = self.world.demo("--count", 1, layers=None)
            for form, figure in figures:
                self.use_store(form)
                figure.add(start_ns(alone), start_ns(self.world.demo("--count", 1)))
            yield

    def first_start(self, rounds: int) -> Iterator[None]:
        figure = self.more("the same, no plan kept yet", "the driver alone", None)
        for _ in range(rounds):
            self.fresh_store()
            figure.add(*map(start_ns, self.both("--count", 1)))
            yield

    def first_stored(self, rounds: int) -> Iterator[None]:
        """A container's first run with a store that was pulled or copied, and no plan."""
        figure = self.more("to the first stored pipeline, no plan kept yet", "the same with a plan", 20.0)
        self.fresh_store()
        for _ in range(3):
            self.world.demo("--count", 1)
        self.keep_store("one")
        for _ in range(rounds):
            samples = []
            for planned in (True, False):
                self.use_store("one")
                if not planned:
                    shutil.rmtree(self.world.store / "plans")
                run = self.world.demo("--count", 1)
                assert self.world.last()["hits"] == 1
                samples.append(start_ns(run) + run["create_ns_total"])
            figure.add(*samples)
            yield


#: In this order, with the rounds that each takes.
STEPS: dict[str, tuple[Callable[[Bench, int], Iterator[None]], str]] = {
    "start": (Bench.start, "rounds"),
    "first-start": (Bench.first_start, "rounds"),
    "first-stored": (Bench.first_stored, "rounds"),
    "own-cache": (Bench.own_cache, "rounds"),
    "warm": (Bench.warm, "rounds"),
    "start-with-store": (Bench.start_with_store, "rounds"),  # the store that `warm` has left
    "empty-cache": (Bench.empty_cache, "rounds"),
    "enables-binaries": (Bench.enables_binaries, "rounds"),
    "links": (Bench.links, "rounds"),
    "processes": (Bench.processes, "rounds"),
    "cold": (Bench.cold, "cold_rounds"),
    "state": (Bench.state, "cold_rounds"),
}
#: Of binaries.py and frames.py.
OTHERS = ("binaries", "driver-cache", "frames")


def measure(directory: Path, options: argparse.Namespace, steps: list[str]) -> list[Row]:
    """Both columns, one round of each in turns."""
    installed, bare = (Bench(options, directory / name, name == "installed") for name in ("installed", "bare"))
    for step, rounds in (STEPS[name] for name in steps if name in STEPS):
        for _ in zip_longest(*(step(bench, getattr(options, rounds)) for bench in (installed, bare))):
            pass
    return [Row(*pair) for pair in zip(installed.figures, bare.figures, strict=True)]


def speedup(rows: list[Row]) -> float:
    """How much faster a stored pipeline is created than the driver alone compiles it, both as installed."""
    by_name = {row.installed.name: row.installed for row in rows if row.installed}
    base = statistics.median(base for base, _ in by_name["cold, per pipeline"].samples)
    return base / statistics.median(layer for _, layer in by_name["warm, per pipeline"].samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=560, help="pipelines a run (560)")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of the warm figures (11)")
    parser.add_argument("--cold-rounds", type=int, default=3, help="rounds of the cold figures (3)")
    parser.add_argument(
        "--links", type=int, default=1000, help="pipelines that are linked twice, and their libraries (1000)"
    )
    parser.add_argument(
        "--own-caches", default="25,2600", help="pipelines in the program's own cache: 25,2600; 13000 are about 50 MB"
    )
    parser.add_argument("--here", action="store_true", help="binaries and driver-cache on the environment's own driver")
    parser.add_argument("--json", type=Path, help="where the figures go (build/bench.json; with --only none)")
    names = [*STEPS, *OTHERS]
    parser.add_argument("--only", help=f"some of the steps, separated by commas: {', '.join(names)}")
    options = parser.parse_args()
    steps = options.only.split(",") if options.only else names
    if unknown := set(steps) - set(names):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="pylayer-bench-") as name:
        directory = Path(name)
        rows = measure(directory, options, [name for name in names if name in steps])
        for of in ("binaries", "frames"):
            (directory / of).mkdir()
        binaries = Binaries(directory / "binaries", options.count, options.here)
        if "binaries" in steps:
            rows += binaries.rows(options.rounds, options.cold_rounds)
        driver_cache = binaries.driver_cache(options.cold_rounds) if "driver-cache" in steps else []
        if "frames" in steps:
            rows += frames(directory / "frames", options.rounds)
    console = show(rows)
    if driver_cache:
        show_driver_cache(driver_cache)
    for remark in binaries.remarks:
        console.print(remark)
    whole = not options.only
    if whole:
        console.print(f"A stored pipeline is created {speedup(rows):.0f} times faster than it is compiled.")
    path = options.json or (Path("build/bench.json") if whole else None)
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    document: dict[str, object] = {
        "count": options.count,
        "rows": [row.as_dict() for row in rows],
        "driver_cache": driver_cache,
    }
    if whole:
        document["speedup"] = speedup(rows)
    path.write_text(json.dumps(document, indent=2) + "\n")
    console.print(f"Figures as JSON: {path}. Into the pages: .venv/bin/python tests/bench/pages.py {path}")


if __name__ == "__main__":
    main()
