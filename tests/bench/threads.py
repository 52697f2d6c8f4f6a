"""How threads that create pipelines at the same time get along, under the layer and without: `make bench`.

Every round runs each way of it once, one after the other, for one number of threads; a figure is the median over rounds
of the rounds' ratios to the driver alone with one VkPipelineCache that all threads share; beside it stands the ratio of
processor time, which other work on the machine changes less. On RADV null hardware with
Mesa's disk cache off. With more threads than processors a time says how much work was done, not how long one waits.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from figures import show_table
from world import BUILD, LAYER_NAME, World

THREADS = (1, 2, 4, 8, 16)
LIMIT = 1.10

#: Pipelines in the caches, of `again` and `first`. Of `misses` half as many are compiled with each number of threads.
PIPELINES = 256


class Way(NamedTuple):
    """Who creates pipelines, and with which VkPipelineCache."""

    name: str
    caches: str
    layer: bool = True


BASELINE = Way("the driver alone, one cache", "shared", layer=False)
WAYS = (
    BASELINE,
    Way("the driver alone, a cache each", "own", layer=False),
    Way("layer, no cache", "none"),
    Way("layer, one cache", "shared"),
    Way("layer, a cache each", "own"),
)

#: What is limited; the others are there to be compared.
LIMITED = "layer, no cache"

#: again: all pipelines again and again, 2 us a hit; first: each once, after a start, 9 us; misses: compiled.
WORKS = ("again", "first", "misses")


class Sample(NamedTuple):
    """Nanoseconds for each creation: from the start of the threads to their end, and of the processors."""

    wall: float
    processor: float


class Bench:
    def __init__(self, directory: Path, pipelines: int = PIPELINES, here: bool = False) -> None:
        self.pipelines = pipelines
        self.world = World(directory, "here" if here else "radv")
        self.world.environment["PYLAYER_LOG"] = "error"
        self.directory = directory

    def run(self, way: Way, *arguments: object) -> Sample:
        """Of the fastest round, as the others were interrupted."""
        threads, work, *rest = arguments
        command = [BUILD / "bench" / "threads", threads, work, way.caches, *rest]
        process = self.world.run(
            list(map(str, command)),
            VK_INSTANCE_LAYERS=LAYER_NAME if way.layer else None,
        )
        result = json.loads(process.stdout)
        creations = result["creations"]
        return Sample(min(result["rounds_ns"]) / creations, min(result["rounds_processor_ns"]) / creations)

    def compiled(self) -> int:
        return self.world.last()["compiled"]

    def sample(self, way: Way, work: str, threads: int) -> Sample:
        shutil.rmtree(self.world.store, ignore_errors=True)
        if work == "again":
            return self.run(way, threads, "hits", self.pipelines, max(20, 160 // threads))
        if work == "misses":
            return self.run(way, threads, "misses", self.pipelines // 2 // threads, 1)
        file = self.directory / "application.cache"
        file.unlink(missing_ok=True)
        self.run(way, threads, "misses", self.pipelines // threads, 1, file)
        time = self.run(way, threads, "misses", self.pipelines // threads, 1, file)
        assert not way.layer or self.compiled() == 0, self.world.last()
        return time


def measure(bench: Bench, work: str, rounds: int) -> Iterator[dict[str, Any]]:
    for threads in THREADS:
        samples: dict[Way, list[Sample]] = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way in WAYS:
                samples[way].append(bench.sample(way, work, threads))
        for way in WAYS:
            pairs = list(zip(samples[way], samples[BASELINE], strict=True))
            ratio = statistics.median(one.wall / base.wall for one, base in pairs)
            limited = way.name == LIMITED and work != "misses"
            yield {
                "work": work,
                "threads": threads,
                "way": way.name,
                "ns": statistics.median(sample.wall for sample in samples[way]),
                "processor_ratio": statistics.median(one.processor / base.processor for one, base in pairs),
                "ratio": ratio,
                "met": not limited or ratio <= LIMIT,
            }


def show(figures: list[dict[str, Any]]) -> None:
    for work in WORKS:
        mine = {(figure["way"], figure["threads"]): figure for figure in figures if figure["work"] == work}
        if not mine:
            continue
        rows = []
        for way in WAYS:
            cells = [mine[way.name, threads] for threads in THREADS]
            over = ["" if cell["met"] else " (over)" for cell in cells]
            texts = [
                f"{cell['ns'] / 1e3:.2f} us, {cell['ratio']:.2f} x{late}, cpu {cell['processor_ratio']:.2f} x"
                for cell, late in zip(cells, over, strict=True)
            ]
            rows.append([way.name, *texts])
        title = f"{work}: time of a creation, and its ratio to {BASELINE.name}"
        show_table(title, ["threads", *map(str, THREADS)], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="the environment's own driver, not RADV null hardware")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of each figure (11)")
    parser.add_argument("--pipelines", type=int, default=PIPELINES, help=f"pipelines in the caches ({PIPELINES})")
    parser.add_argument("--work", choices=WORKS, action="append", help="only this; may be given several times")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylayer-bench-") as directory:
        bench = Bench(Path(directory), options.pipelines, options.here)
        figures = [figure for work in options.work or WORKS for figure in measure(bench, work, options.rounds)]
    show(figures)
    print(f"{os.cpu_count()} processors.")


if __name__ == "__main__":
    main()
