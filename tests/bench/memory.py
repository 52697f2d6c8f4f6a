"""How much memory a process needs that has created 10,000 pipelines, under the layer and without it.

Baseline: the program's own VkPipelineCache, loaded from its file. Every round runs each way once, in a process of its
own; ratios are medians of the rounds' ratios. *Peak* is the most resident memory up to the last creation, *steady* the
proportional set a second after it. On RADV without hardware and without Mesa's disk cache, or with --here on the driver
that the environment gives.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from rich.console import Console
from rich.table import Table
from world import BUILD, LAYER_NAME, World

LIMIT = 1.10


class Way(NamedTuple):
    """With what a process creates its pipelines. `store` names the run that filled the store: none, if it is cold."""

    name: str
    cache: str
    layer: bool = True
    store: str = ""
    limited: bool = False


OWN = Way("the driver alone, own cache from its file", "FILE", layer=False)
WARM = (
    OWN,
    Way("the driver alone, no cache: compiled", "none", layer=False),
    Way("layer, no cache, stored", "none", store="cells", limited=True),
    Way("layer, own cache from its file, stored", "FILE", store="cells", limited=True),
    Way("layer, own cache empty, stored", "empty", store="cells", limited=True),
    Way("layer, snapshot, no cache, stored", "none", store="snapshot", limited=True),
    Way("layer, no cache, compiled", "none"),
    Way("layer, snapshot, no cache, compiled", "none", store=""),
)


class Bench:
    def __init__(self, directory: Path, count: int, here: bool) -> None:
        self.world = World(directory, "here" if here else "radv")
        self.world.environment |= {"PYLAYER_LOG": "error", "__GL_SHADER_DISK_CACHE": "0"}
        self.directory = directory
        self.count = count

    def run(self, way: Way, save: str = "") -> dict[str, Any]:
        cache = str(self.directory / "own.cache") if way.cache == "FILE" else way.cache
        command = [str(BUILD / "bench" / "memory"), str(self.count), cache, *([save] if save else [])]
        process = self.world.run(command, timeout=3600, VK_INSTANCE_LAYERS=LAYER_NAME if way.layer else None)
        result: dict[str, Any] = json.loads(process.stdout)
        return result

    def prepare(self) -> None:
        """Fills the program's own cache file, and a store for each carrier."""
        self.run(Way("", "empty", layer=False), str(self.directory / "own.cache"))
        for carrier in ("cells", "snapshot"):
            shutil.rmtree(self.world.store, ignore_errors=True)
            self.world.configure(carrier=carrier)
            for _ in range(2):  # the second run folds what the first wrote, and keeps a plan
                self.run(Way("", "none"))
            shutil.copytree(self.world.store, self.directory / carrier)

    def sample(self, way: Way) -> dict[str, Any]:
        shutil.rmtree(self.world.store, ignore_errors=True)
        if way.layer:
            self.world.configure(carrier="snapshot" if "snapshot" in way.name else "cells")
            if way.store:
                shutil.copytree(self.directory / way.store, self.world.store)
        result = self.run(way)
        if way.store:
            assert self.world.last()["compiled"] == 0, self.world.last()
        return result


def peak(sample: dict[str, Any]) -> float:
    return float(sample["at_once"]["peak"])


def steady(sample: dict[str, Any]) -> float:
    return float(sample["settled"]["proportional"])


def grown(sample: dict[str, Any]) -> float:
    """What the pipelines took."""
    return float(sample["settled"]["proportional"] - sample["before"]["proportional"])


MEASURES = {"peak": peak, "steady": steady, "grown": grown}


def figures(samples: dict[Way, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    rows = []
    for way, mine in samples.items():
        row: dict[str, Any] = {"way": way.name, "limit": LIMIT if way.limited else None}
        for name, measure in MEASURES.items():
            row[name] = statistics.median(map(measure, mine))
            row[f"{name}_ratio"] = statistics.median(
                measure(one) / measure(base) for one, base in zip(mine, samples[OWN], strict=True)
            )
        rows.append(row)
    return rows


def show(console: Console, rows: list[dict[str, Any]], count: int) -> None:
    table = Table(title=f"Memory of a process with {count:,} pipelines; times the driver alone with its own cache")
    for column in ("way", *MEASURES):
        table.add_column(column, justify="left" if column == "way" else "right")
    for row in rows:
        over = any(row["limit"] and row[f"{name}_ratio"] > row["limit"] for name in ("peak", "steady"))
        texts = [f"{row[name] / 2**20:.1f} MiB, {row[f'{name}_ratio']:.2f} x" for name in MEASURES]
        table.add_row(row["way"] + (" (over)" if over else ""), *texts)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="the environment's own driver, not RADV null hardware")
    parser.add_argument("--count", type=int, default=10000, help="pipelines (10000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of what is stored (3); what is compiled, one")
    parser.add_argument("--json", type=Path, default=Path("build/memory.json"), help="where the figures go")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    samples: dict[Way, list[dict[str, Any]]] = {way: [] for way in WARM}
    with tempfile.TemporaryDirectory(prefix="pylayer-bench-") as directory:
        bench = Bench(Path(directory), options.count, options.here)
        bench.prepare()
        for number in range(options.rounds):
            for way in WARM:
                compiles = way is not OWN and not way.store
                samples[way].append(samples[way][0] if compiles and number else bench.sample(way))
    rows = figures(samples)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"count": options.count, "figures": rows}, indent=2) + "\n")
    show(console, rows, options.count)


if __name__ == "__main__":
    main()
