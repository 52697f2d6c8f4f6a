"""Whether the store becomes whole where the driver's own disk cache is warm, and how long the runs take.

The program runs three times over a driver cache that it filled without the layer, each time beside a run without the
layer. Then it runs once without the driver's cache, and must compile nothing. On RADV without hardware, or with --here
on the driver that the environment gives. Exit status 1 if something was compiled. What follows -- are options of the
demo program.

The first pipeline of a first run waits for policy, which starts then and reads the store. This wait does not depend on
how many pipelines there are, so it is also shown by itself.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from world import LAYER_NAME, Run, World

RUNS = 3


class Trial:
    """One store and one driver cache."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        directory.mkdir()
        self.world = World(directory, "here" if options.here else "radv")
        self.arguments = ["--count", options.count, *options.arguments]
        self.disk = directory / "driver-cache"
        self.disk.mkdir()

    def run(self, layers: str | None, driver_cache: bool = True) -> Run:
        caches = {"MESA_SHADER_CACHE_DISABLE": "0", "__GL_SHADER_DISK_CACHE": "1"}
        none = {"MESA_SHADER_CACHE_DISABLE": "1", "__GL_SHADER_DISK_CACHE": "0"}
        where = {"MESA_SHADER_CACHE_DIR": str(self.disk), "__GL_SHADER_DISK_CACHE_PATH": str(self.disk)}
        changes = where | (caches if driver_cache else none)
        return self.world.demo(*self.arguments, layers=layers, **changes)

    def ratios(self) -> list[tuple[float, float]]:
        """Returns how many times longer each run takes under the layer: as it is, and without the wait for policy."""
        self.run(None)
        found = []
        for number in range(1, RUNS + 1):
            alone, layered = self.run(None), self.run(LAYER_NAME)
            last = self.world.last()
            took, waited = layered["create_ns_total"], last["load_wait_ns"]
            found.append((took / alone["create_ns_total"], (took - waited) / alone["create_ns_total"]))
            ways = ", ".join(f"{last[name]} {name}" for name in ("hits", "compiled"))
            print(f"run {number}: {told(*found[-1])}; waited {waited / 1e6:.1f} ms; {ways}", flush=True)
        return found


def told(ratio: float, unwaited: float) -> str:
    return f"{ratio:.2f} times the driver alone, {unwaited:.2f} without the wait"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="on the driver that the environment gives")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    ratios, compiled = [], 0
    with tempfile.TemporaryDirectory() as directory:
        for number in range(options.rounds):
            trial = Trial(Path(directory) / str(number), options)
            ratios.append(trial.ratios())
            trial.run(LAYER_NAME, driver_cache=False)
            compiled += trial.world.last()["compiled"]
    for number in range(RUNS):
        medians = [statistics.median(row[number][which] for row in ratios) for which in (0, 1)]
        print(f"run {number + 1}, median: {told(*medians)}")
    print(f"without the driver's cache: {compiled} compiled")
    sys.exit(compiled > 0)


if __name__ == "__main__":
    main()
