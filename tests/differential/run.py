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
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from differential.differences import ALLOWED, SLOT, Comparison
from differential.generator import programs
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from world import BUILD, World

MODES = ("cells", "binaries")
BY_HAND = "To look at it, with the program in FILE: .venv/bin/python tests/differential/run.py --script FILE"


# ---- processes of build/tests/recipes, without the layer and with it, that run one program after the other --

PROGRAM = BUILD / "tests" / "recipes"
#: After so many programs an interpreter is started anew, with an empty store: each device loads all of it.
PROGRAMS_A_STORE = 60


class Crash(Exception):
    """The interpreter ended in the middle of a program."""

    def __init__(self, who: str, output: list[str], status: int, messages: str) -> None:
        super().__init__(f"{who} ended with status {status} behind line {len(output)}\n{messages}")
        self.output = output


class Interpreter:
    """One environment, and a process in it while there is work."""

    def __init__(self, environment: dict[str, str], directory: Path) -> None:
        self.environment = environment
        self.directory = directory
        self.messages = directory / "messages"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> subprocess.Popen[str]:
        if self.process is None:
            with self.messages.open("w") as messages:
                self.process = subprocess.Popen(
                    [str(PROGRAM)],
                    env=self.environment,
                    cwd=self.directory,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=messages,
                    text=True,
                )
        return self.process

    def send(self, salt: int, lines: list[str]) -> None:
        """Begins a program; ``receive`` waits for what it printed."""
        process = self.start()
        assert process.stdin
        try:
            process.stdin.write("\n".join([f"begin {salt}", *lines, "end", ""]))
            process.stdin.flush()
        except BrokenPipeError:
            pass  # receive finds out

    def receive(self) -> list[str]:
        process = self.start()
        assert process.stdout
        output = []
        for line in process.stdout:
            if line == "end\n":
                return output
            output.append(line.rstrip("\n"))
        status = process.wait()
        self.stop()
        raise Crash(self.directory.name, output, status, self.messages.read_text()[-2000:])

    def stop(self) -> None:
        if self.process is None:
            return
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.stdout.close()
        self.process.wait()
        self.process = None


class Outputs:
    """What one program printed: without the layer, and with it on an empty and on a filled store."""

    def __init__(self, driver: list[str], layer: dict[tuple[str, str], list[str]]) -> None:
        self.driver = driver
        self.layer = layer  # by (mode, "cold" or "warm")


class Bench:
    """The driver alone and the layer with each mode, for any number of programs."""

    def __init__(self, modes: tuple[str, ...]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="differential-"))
        self.worlds: dict[str, World] = {}
        self.interpreters: dict[str, Interpreter] = {}
        self.salts = itertools.count(16)
        self.programs = 0
        for name in ("driver", *modes):
            self.add(name)

    def add(self, name: str) -> None:
        directory = self.directory / name
        directory.mkdir()
        world = World(directory)
        environment = world.environment | {"PYLAYER_LOG": "info"} | world.policy(f"settings: {{mode: '{name}'}}\n")
        if name == "driver":
            del environment["VK_INSTANCE_LAYERS"]
        self.worlds[name] = world
        self.interpreters[name] = Interpreter(environment, directory)

    def run(self, lines: list[str]) -> Outputs:
        """Every run of a program has shaders of its own, so its store is as good as empty the first time."""
        if self.programs % PROGRAMS_A_STORE == 0:
            self.renew()
        self.programs += 1
        try:
            return self._run(next(self.salts) & 0xFFFF, lines)
        except Crash:
            self.renew()
            raise

    def _run(self, salt: int, lines: list[str]) -> Outputs:
        layers = {name: one for name, one in self.interpreters.items() if name != "driver"}
        for interpreter in self.interpreters.values():
            interpreter.send(salt, lines)
        driver = self.interpreters["driver"].receive()
        outputs = {}
        for name, interpreter in layers.items():
            outputs[name, "cold"] = interpreter.receive()
            interpreter.send(salt, lines)
        for name, interpreter in layers.items():
            outputs[name, "warm"] = interpreter.receive()
        return Outputs(driver, outputs)

    def renew(self) -> None:
        self.stop()
        self.programs = 0
        for world in self.worlds.values():
            shutil.rmtree(world.store, ignore_errors=True)

    def stop(self) -> None:
        for interpreter in self.interpreters.values():
            interpreter.stop()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory)


# ---- programs ------------------------------------------------------------------------------------------


class Run:
    """Compares programs, and counts what they did."""

    def __init__(self, modes: tuple[str, ...]) -> None:
        self.bench = Bench(modes)
        self.comparison = Comparison()
        self.programs = 0
        self.calls: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()

    def outputs(self, lines: list[str]) -> Outputs:
        outputs = self.bench.run(lines)
        self.programs += 1
        for line, output in zip(lines, outputs.driver, strict=False):
            name = line.split()[0]
            if output.startswith("skip"):
                self.skipped[f"{name}: {SLOT.sub('slot', output[5:])}"] += 1
            else:
                self.calls[name] += 1
        return outputs

    def check(self, lines: list[str]) -> list[str]:
        outputs = self.outputs(lines)
        return [
            difference
            for (mode, run), layer in outputs.layer.items()
            for difference in self.comparison.compare(lines, outputs.driver, layer, mode, run)
        ]

    def report(self, seconds: float) -> None:
        calls, skipped = sum(self.calls.values()), sum(self.skipped.values())
        print(f"{self.programs} programs, {calls} calls made and {skipped} skipped, in {seconds:.0f} s")
        print("calls: " + ", ".join(f"{name} {number}" for name, number in self.calls.most_common()))
        print("skipped: " + ", ".join(f"{name} {number}" for name, number in self.skipped.most_common(12)))
        for row in ALLOWED:
            print(f"  {self.comparison.rows[row.name]:7} {row.name}: {row.what}")


def generate(run: Run, count: int, number: int) -> None:
    """Raises what hypothesis makes of the first difference, with the shortest program in it."""

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
        try:
            found = run.check(lines)
        except Crash as crash:
            found = [str(crash)]
        assert not found, "\n".join(["A program that differs:", "", *lines, "", *found])

    test()


def write(count: int, number: int) -> None:
    """The programs themselves, for another run of the interpreter."""
    salts = itertools.count(16)

    @seed(number)
    @settings(max_examples=count, deadline=None, database=None, phases=(Phase.generate,))
    @given(programs())
    def test(lines: list[str]) -> None:
        print("\n".join([f"begin {next(salts)}", *lines, "end"]))

    test()


def show(run: Run, path: Path) -> int:
    """All outputs of one program, line by line where they are not the same."""
    lines = path.read_text().splitlines()
    outputs = run.outputs(lines)
    runs = {"driver": outputs.driver, **{" ".join(name): layer for name, layer in outputs.layer.items()}}
    for index, line in enumerate([*lines, "(allocator)"]):
        print(line)
        seen = {name: output[index] for name, output in runs.items() if index < len(output)}
        if len(set(seen.values())) == 1:
            print(f"    {seen['driver']}")
        else:
            for name, output in seen.items():
                print(f"    {name:14} {output}")
    found = run.check(lines)
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
        write(options.programs, options.seed)
        return 0
    run = Run(tuple(options.modes.split(",")))
    start = time.monotonic()
    try:
        if options.script:
            return show(run, options.script)
        generate(run, options.programs, options.seed)
    except AssertionError as difference:
        print(difference, "", BY_HAND, sep="\n")
        return 1
    finally:
        run.bench.close()
    run.report(time.monotonic() - start)
    return 0


if __name__ == "__main__":
    sys.exit(main())
