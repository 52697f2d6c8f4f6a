"""How much memory a process needs that has created 10,000 pipelines, under the layer and without it.

Baseline: the program's own VkPipelineCache, loaded from its file. Every round runs each way once, in a process of its
own; ratios are medians of the rounds' ratios. *Peak* is the most resident memory up to the last creation, *steady* is
what is resident a second after it. Pages of files (libraries, mostly the driver's) are shared with other processes. On
RADV without hardware and without Mesa's disk cache, or with --here on the driver that the environment gives.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from figures import show_table
from world import LAYER_NAME, Run, World

LIMIT = 1.10


class Way(NamedTuple):
    """With what a process creates its pipelines."""

    name: str
    cache: str
    mode: str = ""  # "": without the layer
    stored: bool = False  # the layer's store has them

    @property
    def compiles(self) -> bool:
        return not self.stored and self.cache != "FILE"


OWN = Way("the driver alone, own cache from its file", "FILE")
OWN_EMPTY = Way("the driver alone, own cache, empty: compiled", "empty")
WAYS = (
    OWN,
    OWN_EMPTY,
    Way("the driver alone, no cache: compiled", "none"),
    Way("layer, no cache, stored", "none", "auto", stored=True),
    Way("layer, own cache from its file, stored", "FILE", "auto", stored=True),
    Way("layer, own cache, empty, stored", "empty", "auto", stored=True),
    Way("layer, no cache, compiled", "none", "auto"),
)


class Bench:
    def __init__(self, directory: Path, count: int, here: bool) -> None:
        self.directory = directory
        self.count = count
        self.here = here
        self.worlds: dict[str, World] = {}

    def world(self, way: Way) -> World:
        """Returns the home of such programs. Each way has one, because the layer learns whether a program has a cache
        file, and what the policy file says."""
        name = f"{way.mode or 'alone'}-{way.cache}"
        if name not in self.worlds:
            (self.directory / name).mkdir()
            world = World(self.directory / name, "here" if self.here else "radv")
            world.environment |= {"PYLAYER_LOG": "error", "__GL_SHADER_DISK_CACHE": "0"}
            world.configure(mode=way.mode or "off")
            self.worlds[name] = world
        return self.worlds[name]

    def run(self, way: Way, save: bool = False) -> Run:
        """A program with a cache file writes it again, as programs do, when its memory was measured."""
        world = self.world(way)
        file = str(world.directory / "own.cache")
        arguments = [
            "--memory",
            "--count",
            self.count,
            "--cache",
            {"FILE": file, "empty": "object"}.get(way.cache, way.cache),
        ]
        arguments += ["--cache-save", file] if save or way.cache == "FILE" else []
        return world.demo(*arguments, layers=LAYER_NAME if way.mode else None, timeout=3600)

    def compiled(self) -> dict[Way, dict[str, Any]]:
        """Runs once what compiles, side by side. Afterwards files and stores have all pipelines, and what a first run
        learns is known."""
        ways = [way for way in WAYS if way.compiles]
        for way in ways:
            self.world(way)
        with ThreadPoolExecutor() as pool:
            found = dict(zip(ways, pool.map(lambda way: self.run(way, save=way is OWN_EMPTY), ways), strict=True))
        full = self.world(Way("", "none", "auto")).store
        for way in WAYS:
            world = self.world(way)
            if way.cache == "FILE":
                shutil.copy(self.world(OWN_EMPTY).directory / "own.cache", world.directory)
            if way.stored and not world.store.exists():
                shutil.copytree(full, world.store)
            for _ in range(2 if way.stored else 0):
                self.run(way)
        return found

    def sample(self, way: Way) -> dict[str, Any]:
        result = self.run(way)
        if way.stored:
            last = self.world(way).last()
            assert last["compiled"] == 0, last
        return result


MEASURES: dict[str, Callable[[dict[str, Any]], float]] = {
    "peak": lambda sample: sample["peak"],
    "steady": lambda sample: sample["resident"],
    "steady, not of files": lambda sample: sample["anonymous"],
}


def figures(samples: dict[Way, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    rows = []
    for way, mine in samples.items():
        row: dict[str, Any] = {"way": way.name, "limit": LIMIT if way.stored else None}
        for name, measure in MEASURES.items():
            row[name] = statistics.median(map(measure, mine))
            row[f"{name}_ratio"] = statistics.median(
                measure(one) / measure(base) for one, base in zip(mine, samples[OWN], strict=True)
            )
        rows.append(row)
    return rows


def show(rows: list[dict[str, Any]], count: int) -> None:
    cells = []
    for row in rows:
        over = any(row["limit"] and row[f"{name}_ratio"] > row["limit"] for name in ("peak", "steady"))
        texts = (f"{row[name] / 2**20:.1f} MiB, {row[f'{name}_ratio']:.2f} x" for name in MEASURES)
        cells.append([row["way"] + (" (over)" if over else ""), *texts])
    title = f"Memory of a process with {count:,} pipelines; times the driver alone with its own cache"
    show_table(title, ("way", *MEASURES), cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="the environment's own driver, not RADV null hardware")
    parser.add_argument("--count", type=int, default=10000, help="pipelines (10000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (3); what compiles runs once")
    options = parser.parse_args()
    samples: dict[Way, list[dict[str, Any]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="pylayer-bench-") as directory:
        bench = Bench(Path(directory), options.count, options.here)
        compiled = bench.compiled()
        for _ in range(options.rounds):
            for way in WAYS:
                samples[way].append(compiled[way] if way.compiles else bench.sample(way))
    show(figures(samples), options.count)


if __name__ == "__main__":
    main()
