"""What the layer costs and saves, against named baselines, in one interleaved run: `make bench`.

Every round runs baseline and layer one after the other, so that a machine whose speed drifts treats both
alike; a figure is the median over rounds of the rounds' ratios. On RADV null hardware (a real compiler, no
GPU), or with --here on the driver that the environment gives. Each figure is measured twice, in turns: as installed,
with the driver's disk cache on, empty where pipelines are compiled and filled where they are stored; and bare, with
the driver's disk cache off.

figures.py puts the figures into docs/internals/performance.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import xxhash
from bench.figures import Figure, Row, as_dicts, created_ns, show, start_ns
from pipeline_binaries import APPLICATION
from world import BUILD, Run, World

#: What is stored, and how the program ended that stored it.
FORMS = {"cells": ("--no-destroy",), "chunks": ()}
FROM_BLOB = "the same from one blob, reading and loading it"
#: Calls of one process to the scripted driver (tests/driver), which take next to no time.
PRESENTS, CREATED = 200_000, 10_000
#: Pipelines in the program's own cache; 13,000 are about 50 MB.
OWN_CACHES = (25, 2600)
#: Pipelines that are linked twice, and their libraries.
LINKS = 1000
#: Drivers differ, and a figure that is not of what it says must not pass for one.
REMARKS: dict[str, None] = {}


def expect(figure: Figure, what: str, got: int, wanted: int) -> None:
    if got != wanted:
        REMARKS[f"{figure.name}: {got} {what}, not {wanted}"] = None


def copy(source: Path, target: Path) -> None:
    """A store of its own that shares the files' content: nobody changes a file, they are renamed and deleted."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)


def driver_cache_in(directory: Path | None) -> dict[str, str]:
    """Returns the variables for the driver's own cache in a directory, or none: as Mesa and NVIDIA's driver read
    them."""
    off = {"MESA_SHADER_CACHE_DISABLE": "1", "__GL_SHADER_DISK_CACHE": "0"}
    if directory is None:
        return off
    return {
        "MESA_SHADER_CACHE_DISABLE": "0",
        "MESA_SHADER_CACHE_DIR": str(directory),
        "__GL_SHADER_DISK_CACHE": "1",
        "__GL_SHADER_DISK_CACHE_PATH": str(directory),
        "__GL_SHADER_DISK_CACHE_SKIP_CLEANUP": "1",
    }


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
        self.world = World(directory, "here" if options.here else "radv")
        self.layers = self.world.environment["VK_INSTANCE_LAYERS"]
        self.installed = installed
        self.disk = directory / "driver-cache"
        self.world.environment |= driver_cache_in(self.disk if installed else None)
        self.world.environment["PYLAYER_LOG"] = "error"
        self.directory = directory
        self.count = options.count
        self.figures: dict[str, Figure] = {}
        self.blob = directory / "application.cache"

    def figure(self, name: str, baseline: str, limit: float | None, unit: str = "us") -> Figure:
        return self.figures.setdefault(name, Figure(name, baseline, limit, unit))

    def more(self, name: str, baseline: str, limit: float | None, unit: str = "ms") -> Figure:
        """A figure of the milliseconds that the layer adds."""
        return self.figures.setdefault(name, Figure(name, baseline, limit, unit, difference=True))

    def fresh_store(self) -> None:
        shutil.rmtree(self.world.store, ignore_errors=True)

    def fresh_disk(self) -> None:
        """The driver's disk cache is empty, as before a program's first run."""
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

    def application(self, *arguments: str | Path, layers: str | None, count: int = 0, **environment: str) -> Run:
        """A run of the program that uses VK_KHR_pipeline_binary, and with ``--source plain`` knows nothing of it."""
        command = [*APPLICATION, "--count", str(count or self.count), *map(str, arguments)]
        run = Run.of(self.world.run(command, VK_INSTANCE_LAYERS=layers, **environment))
        assert run["created"] == (count or self.count)
        return run

    def plain(self, layers: str | None, **environment: str) -> float:
        """Returns the nanoseconds for each pipeline of that program, which only creates them."""
        return self.application("--source", "plain", layers=layers, **environment)["create_ns_total"] / self.count

    def frame_calls(self, world: World, layers: str | None, what: str, *arguments: str) -> float:
        """Returns how many nanoseconds one call took, as the program measured it."""
        done = world.run([str(BUILD / "tests" / "frames"), *arguments], VK_INSTANCE_LAYERS=layers)
        return next(float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith(what))

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
            sources = [("--source", source) for source in ("plain", "unused")]
            for source in sources:
                self.application(*source, layers=self.layers, count=count)
            for _ in range(rounds):
                runs = [self.application(*source, layers=self.layers, count=count) for source in sources]
                figure.add(*(run["create_ns_total"] for run in runs))
                counters = self.world.last()
                assert counters["compiled"] == 0 and counters["hits"] == count, counters
                yield

    def binaries(self, rounds: int) -> Iterator[None]:
        """The mode binaries against what a program does that keeps binaries itself: key, look-up in a table of its own,
        vkCreatePipelineBinariesKHR from data, vkCreate*Pipelines."""
        figure = self.figure("binaries, hit per pipeline", "raw floor: key, look-up, create from binaries", 1.10)
        archive, policy = self.directory / "archive", self.world.policy("settings: {mode: binaries}")
        self.application("--archive", archive, layers=None, **driver_cache_in(None))
        self.fresh_store()
        self.plain(self.layers, **policy, **driver_cache_in(None))
        self.keep_store("binaries")
        self.fresh_disk()
        self.plain(None)
        for _ in range(rounds):
            floor = self.application("--archive", archive, layers=None)
            expect(figure, "pipelines from the archive", floor["from_archive"], self.count)
            self.use_store("binaries")
            under = self.plain(self.layers, **policy)
            expect(figure, "hits", self.world.last()["binary_hits"], self.count)
            figure.add(floor["create_ns_total"] / self.count, under)
            yield

    def binaries_cold(self, rounds: int) -> Iterator[None]:
        limit = None if self.installed else 1.03
        figure = self.figure("binaries, miss per pipeline", "the driver alone, its cache empty", limit)
        policy = self.world.policy("settings: {mode: binaries}")
        for _ in range(rounds):
            totals = []
            for layers in (None, self.layers):
                self.fresh_disk()
                self.fresh_store()
                totals.append(self.plain(layers, **policy))
            expect(figure, "compiled", self.world.last()["compiled"], self.count)
            figure.add(*totals)
            yield

    def warm_driver_cache(self, rounds: int) -> Iterator[None]:
        """What the store lacks is created in a cell, as the program would create it in an empty cache of its own."""
        if not self.installed:
            return
        baseline = "an empty cache of the program's own, over the same"
        figure = self.figure("cells, first run over a warm driver cache", baseline, 1.25)
        self.fresh_disk()
        self.world.demo("--count", self.count, layers=None)
        for _ in range(rounds):
            self.fresh_store()
            alone = self.world.demo("--count", self.count, "--cache", "object", layers=None)
            under = self.world.demo("--count", self.count)
            figure.add(*(run["create_ns_total"] / self.count for run in (alone, under)))
            yield

    def frames(self, rounds: int) -> Iterator[None]:
        """What it costs that the layer sees frames, on the scripted driver: RADV without hardware has no surface."""
        if self.installed:
            return
        present = self.more("vkQueuePresentKHR", "without the layer, scripted driver", 100, "ns")
        pipeline = self.more("a stored pipeline, after a frame", "the same before the first one", None, "ns")
        (self.directory / "frames").mkdir()
        world = World(self.directory / "frames", "test")
        loop, create = ("2", "every=0", f"loop={PRESENTS}"), ("every=0", f"create={CREATED}")
        for number in range(2 + rounds):
            times = [self.frame_calls(world, self.layers, "pipeline", frames, *create) for frames in ("0", "2")]
            if number >= 2:
                pipeline.add(*times)
                present.add(*(self.frame_calls(world, layers, "present", *loop) for layers in (None, self.layers)))
                yield

    def driver_cache(self, rounds: int) -> Iterator[None]:
        """The driver's own disk cache kept or replaced: compiled over an empty one, found over a filled one, and found
        in a filled store over an empty one."""
        if not self.installed:
            return
        empty, filled = (f"the driver alone, its cache {state}" for state in ("empty", "warm"))
        states = {"compiled": empty, "both warm": filled, "store warm": filled}
        policies = {way: self.directory / f"{way}.yaml" for way in ("keep", "replace")}
        for way, path in policies.items():
            path.write_text(f"settings: {{mode: cells, driver_cache: {way}}}")
            self.fresh_store()
            self.plain(self.layers, PYLAYER_CONFIG=str(path))
            self.keep_store(way)
        for _ in range(rounds):
            self.fresh_disk()
            alone = [self.plain(None) for _ in range(2)]
            for way, path in policies.items():
                self.fresh_disk()
                self.fresh_store()
                under = [self.plain(self.layers, PYLAYER_CONFIG=str(path)) for _ in range(2)]
                self.fresh_disk()
                self.use_store(way)
                under.append(self.plain(self.layers, PYLAYER_CONFIG=str(path)))
                for (state, baseline), base, layer in zip(states.items(), (*alone, alone[1]), under, strict=True):
                    self.figure(f"cells, {way}: {state}", baseline, None).add(base, layer)
            yield

    def links(self, rounds: int) -> Iterator[None]:
        """Pipelines linked from four libraries each, fast and optimized. Their libraries are included."""
        arguments = ("--gpl", "--count", LINKS)
        baseline = "the program's own blob, reading and loading it"
        figure = self.figure(f"{LINKS} links, fast and optimized", baseline, 1.15, "ms")
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
        for pipelines in OWN_CACHES:
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
    "binaries": (Bench.binaries, "rounds"),
    "binaries-cold": (Bench.binaries_cold, "cold_rounds"),
    "warm-driver-cache": (Bench.warm_driver_cache, "cold_rounds"),
    "frames": (Bench.frames, "rounds"),
    "driver-cache": (Bench.driver_cache, "cold_rounds"),
}
#: A table of its own.
APART = "driver-cache"


def measure(benches: list[Bench], options: argparse.Namespace, steps: list[str]) -> list[Row]:
    """Both columns, one round of each in turns. A step may have figures in one of them alone."""
    for bench in benches:
        bench.figures = {}
    for step, rounds in (STEPS[name] for name in steps):
        for _ in zip_longest(*(step(bench, getattr(options, rounds)) for bench in benches)):
            pass
    names = dict.fromkeys(name for bench in benches for name in bench.figures)
    columns = [("as installed" if bench.installed else "bare", bench.figures) for bench in benches]
    return [{column: of[name] for column, of in columns if name in of} for name in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=560, help="pipelines a run (560)")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of the warm figures (11)")
    parser.add_argument("--cold-rounds", type=int, default=3, help="rounds of the cold figures (3)")
    parser.add_argument("--here", action="store_true", help="the environment's own driver, not RADV null hardware")
    parser.add_argument("--only", help=f"some of the steps, not for the pages, by commas: {', '.join(STEPS)}")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else list(STEPS)
    if unknown := set(wanted) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    steps = [name for name in STEPS if name in wanted and name != APART]
    with tempfile.TemporaryDirectory(prefix="pylayer-bench-") as name:
        benches = [Bench(options, Path(name, column), column == "installed") for column in ("installed", "bare")]
        rows = measure(benches, options, steps)
        apart = measure(benches, options, [APART] if APART in wanted else [])
    show("pylayer benchmark: medians over interleaved rounds; alone and layer are as installed", rows)
    if apart:
        show("The driver's own disk cache, kept or replaced: medians per pipeline", apart)
    print(*REMARKS, sep="\n", end="\n" if REMARKS else "")
    if not options.only:
        path = Path("build/bench.json")
        path.write_text(json.dumps({"count": options.count, "rows": as_dicts(rows)}, indent=2) + "\n")
        print(f"Figures as JSON: {path}. Into the pages: .venv/bin/python tests/bench/figures.py {path}")


if __name__ == "__main__":
    main()
