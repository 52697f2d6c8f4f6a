"""What the layer costs and saves on drivers without hardware, with their disk caches off: the time in which the demo
creates its pipelines, as a ratio to what the program does without the layer. Medians of interleaved rounds:

    .venv/bin/python -P tests/drivers/times.py [--only NVK,tgl]    in a chroot of `make drivers`, or on this machine

warm: all found by the layer, against a VkPipelineCache of the program's own that has all of them, loading included.
cold: all compiled and stored, against an empty VkPipelineCache of the program's own.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.figures import created_ns
from drivers.facts import TARGETS, Target, mesa_version
from world import World

COUNT = 280


def warm(world: World, own: str, rounds: int) -> float:
    for _ in range(2):
        world.demo("--count", COUNT)
    world.demo("--count", COUNT, "--cache", own, "--cache-save", own, layers=None)
    ratios = []
    for _ in range(rounds):
        layer = created_ns(world.demo("--count", COUNT))
        ratios.append(layer / created_ns(world.demo("--count", COUNT, "--cache", own, layers=None)))
    return statistics.median(ratios)


def cold(world: World, rounds: int) -> float:
    ratios = []
    for _ in range(rounds):
        shutil.rmtree(world.store)
        layer = created_ns(world.demo("--count", COUNT))
        ratios.append(layer / created_ns(world.demo("--count", COUNT, "--cache", "object", layers=None)))
    return statistics.median(ratios)


def measure(target: Target, directory: Path, rounds: int) -> str:
    world = target.world(directory / str(target))
    world.environment["MESA_SHADER_CACHE_DISABLE"] = "1"
    own = str(directory / f"{target}.cache")
    ratios = warm(world, own, rounds), cold(world, max(rounds // 3, 1))
    return f"{target.driver} | {target.chip} | {mesa_version(world)} | {ratios[0]:.2f} | {ratios[1]:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only drivers and chips with one of these texts in their names")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of warm; cold has a third (9)")
    options = parser.parse_args()
    print("driver | chip | Mesa | warm | cold", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        for target in TARGETS:
            if not target.missing() and any(text in str(target) for text in options.only.split(",")):
                print(measure(target, Path(directory), options.rounds), flush=True)


if __name__ == "__main__":
    main()
