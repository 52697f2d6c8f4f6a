"""The same program without the layer and with it: `make differential PROGRAMS=2000`.

hypothesis makes programs of up to 50 Vulkan calls. Each runs on RADV null hardware on the driver alone, and under the
layer with each mode on a store that has none of its pipelines, then on the one that this left. All that a program
can see has to be the same, but for what the table in differences.py lists. A program that differs is made as short as
it still differs, and printed; `run.py --script FILE` runs a program from a file and shows all outputs.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from differential.differences import ALLOWED, SLOT, compare
from differential.generator import programs
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from world import BUILD, World

MODES = ("cells", "binaries")
BY_HAND = "To look at it, with the program in FILE: .venv/bin/python tests/differential/run.py --script FILE"
#: After so many programs the stores are emptied.
PROGRAMS_A_STORE = 60

Outputs = dict[str, list[str]]


def recipe(salt: int, lines: list[str]) -> str:
    """Returns a program for build/tests/recipes. Another salt makes all of its shaders other ones."""
    return "\n".join([f"begin {salt & 0xFFFF}", *lines, "end", ""])


class Bench:
    """The driver alone and the layer with each mode, for any number of programs, and counters of what these did."""

    def __init__(self, directory: Path, modes: list[str]) -> None:
        self.worlds = {name: self.world(directory / name) for name in ("driver", *modes)}
        self.programs = 0
        self.calls: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()

    def world(self, directory: Path) -> World:
        directory.mkdir()
        world = World(directory)
        world.environment |= {"PYLAYER_LOG": "info"} | world.policy(f"settings: {{mode: '{directory.name}'}}\n")
        if directory.name == "driver":
            del world.environment["VK_INSTANCE_LAYERS"]
        return world

    def outputs(self, lines: list[str]) -> Outputs:
        """Returns the lines that a program printed by itself, and in two runs of one process under each mode."""
        if self.programs % PROGRAMS_A_STORE == 0:
            for world in self.worlds.values():
                shutil.rmtree(world.store, ignore_errors=True)
        self.programs += 1
        twice = 2 * recipe(16 + self.programs, lines)

        def run(world: World) -> list[str]:
            return world.run([str(BUILD / "tests" / "recipes")], input=twice).stdout.split("end\n")

        with ThreadPoolExecutor() as pool:
            printed = dict(zip(self.worlds, pool.map(run, self.worlds.values()), strict=True))
        outputs = {"driver": printed.pop("driver")[0].splitlines()}
        for mode, runs in printed.items():
            outputs |= {
                f"{mode} {store}": text.splitlines() for store, text in zip(("cold", "warm"), runs, strict=False)
            }
        return outputs

    def check(self, lines: list[str]) -> list[str]:
        """Returns what no row of the table explains."""
        outputs = self.outputs(lines)
        driver = outputs.pop("driver")
        for line, output in zip(lines, driver, strict=False):
            name = line.split()[0]
            if output.startswith("skip"):
                self.skipped[f"{name}: {SLOT.sub('slot', output[5:])}"] += 1
            else:
                self.calls[name] += 1
        return [one for name, layer in outputs.items() for one in compare(lines, driver, layer, name, self.rows)]

    def report(self, seconds: float) -> None:
        calls, skipped = self.calls.total(), self.skipped.total()
        print(f"{self.programs} programs, {calls} calls made and {skipped} skipped, in {seconds:.0f} s")
        print("calls: " + ", ".join(f"{name} {number}" for name, number in self.calls.most_common()))
        print("skipped: " + ", ".join(f"{name} {number}" for name, number in self.skipped.most_common(12)))
        for rule in ALLOWED:
            print(f"  {self.rows[rule.__name__]:7} {(rule.__doc__ or '').splitlines()[0]}")


def generate(act: Callable[[list[str]], None], count: int, number: int) -> None:
    """Does something with so many programs. If it raises, raises the same about the shortest program for which it
    does."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def test(lines: list[str]) -> None:
        act(lines)

    test()


def show(bench: Bench, lines: list[str]) -> int:
    """Prints all outputs of one program, line by line where they are not the same."""
    outputs = bench.outputs(lines)
    for index, line in enumerate([*lines, "(allocator)"]):
        print(line)
        seen = {name: output[index] for name, output in outputs.items() if index < len(output)}
        if len(set(seen.values())) == 1:
            seen = {"": seen["driver"]}
        for name, output in seen.items():
            print(f"    {name:14} {output}")
    found = bench.check(lines)
    print("\n".join(found) or "no difference that the table does not list")
    return bool(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--script", type=Path, help="a program of one's own instead")
    parser.add_argument("--write", action="store_true", help="the programs to standard output, and run none")
    options = parser.parse_args()
    if options.write:
        salts = itertools.count(16)
        generate(lambda lines: print(recipe(next(salts), lines), end=""), options.programs, options.seed)
        return 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="differential-") as directory:
        bench = Bench(Path(directory), options.modes.split(","))
        if options.script:
            return show(bench, options.script.read_text().splitlines())

        def check(lines: list[str]) -> None:
            try:
                found = bench.check(lines)
            except AssertionError as crash:
                found = [str(crash)]
            assert not found, "\n".join(["A program that differs:", "", *lines, "", *found])

        try:
            generate(check, options.programs, options.seed)
        except AssertionError as difference:
            print(difference, "", BY_HAND, sep="\n")
            return 1
        bench.report(time.monotonic() - start)
    return 0


if __name__ == "__main__":
    sys.exit(main())
