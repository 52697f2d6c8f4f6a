"""What the first stored pipeline and the start take in stores of any size, over the driver alone: `make bench-more`.

Stores of the demo's pipelines on RADV without hardware, as journals and as packs; `stores.py` says how the larger ones
are made of them. Rounds are interleaved. The files are in the page cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from figures import Figure, Row, show, start_ns
from stores import cells_of, compaction, copy, folder_of, write
from world import World

#: Pipelines of which the stores are made.
REAL = 1000


def measure(world: World, store: Path, name: str, blob: Path, rounds: int) -> list[Row]:
    """Returns rows of the first stored pipeline and of the start. The driver alone has one pipeline in a cache file."""
    copy(store, world.store)
    figures = [Figure(f"{name}: {what}", "the driver alone", None, "ms", True) for what in ("first pipeline", "start")]
    for number in range(rounds + 1):
        alone, under = world.demo("--count", 1, "--cache", blob, layers=None), world.demo("--count", 1)
        if number == 0:  # policy makes the plan, and reads the store
            continue
        assert (world.last()["hits"], world.last()["compiled"]) == (1, 0), world.last()
        figures[0].add(alone["create_ns_total"], under["create_ns_total"])
        figures[1].add(start_ns(alone), start_ns(under))
    return [Row(None, figure) for figure in figures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10000, 100000], help="records")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (7)")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="pylayer-scale-") as name:
        directory = Path(name)
        world = World(directory)
        blob = directory / "one.cache"
        world.demo("--count", 1, "--cache", "object", "--cache-save", blob, layers=None)
        world.demo("--count", REAL, "--threads", 2)
        copy(world.store, directory / "real")
        real = folder_of(directory / "real")
        cells = cells_of(real)
        for size in options.sizes:
            journals, packs = (directory / f"{size}-{form}" for form in ("journals", "packs"))
            write(journals, real, cells, size)
            copy(journals, packs)
            compaction(folder_of(packs))
            for store in (journals, packs):
                rows += measure(world, store, store.name.replace("-", " records, "), blob, options.rounds)
    show(rows)


if __name__ == "__main__":
    main()
