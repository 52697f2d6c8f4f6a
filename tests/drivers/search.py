"""The layer on every driver of Mesa that compiles without hardware: `make drivers`.

For each driver and chip, and for each way to use pipelines, programs run without the layer and with it, over an empty
cache of the driver's own and over the one that the program left without the layer. The program must see what it sees
without the layer. The second run starts with an empty cache of the driver's, and must find everything in the store.
What a killed run compiled must not be lost, and what is recorded on one driver must be rebuilt for another. Without
the layer, the program must find everything in a cache of the driver's that `pylayer warm` filled.

Prints what is wrong, and a table. Status 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import recorded_state
from drivers import facts
from drivers.facts import LAVAPIPE, TARGETS, Target
from pipeline_binaries import APPLICATION
from programs.ways import WAYS
from recipes.seen import differences, parse
from world import BUILD, LAYER_NAME, ROOT, SEEN, World

from pylayer.store import runs, timeline

DEMO = [str(BUILD / "demo" / "pipelines"), "--json"]
RECIPES = [str(path) for path in sorted((ROOT / "tests" / "recipes" / "ways").glob("*.recipe"))]
#: What a program sees of pipeline binaries.
OF_BINARIES = ("pipelines", "created", "failed", "from_archive", "import_failed", "from_binaries_failed", "read_failed")
OWN_CACHE = ["--cache", "own", "--cache-save", "own"]
#: Bytes in the store's journals.
KILLED_AT = 20_000
#: What a program says that needs an extension which the driver lacks.
ABSENT = re.compile(r"has no VK_\w+$")
RECORDING = {"record_state": True}
#: Pipelines that are given to a driver's own cache.
OF_WARM = 100


Facts = dict[str, Any]
#: By way, how many pipelines the second run compiles that only the third finds; and on which drivers.
LATE: list[tuple[dict[str, int], Callable[[Facts], bool]]] = [
    # It compiles fast links and libraries of libraries only if the libraries were found in a cache.
    (
        {"libraries, feedback": 4, "recipes": 1, "recipes, own cache": 1},
        lambda row: row["driver"] == "ANV" and row["version"] == "25.0.7",
    ),
]
#: Patterns of differences that some drivers show from run to run without the layer, too; and which drivers.
UNSTEADY: list[tuple[str, Callable[[Facts], bool]]] = [
    # Its cache keeps fewer internal representations than a compile returns.
    (r"executables\.\S*-has ", lambda row: row["driver"] == "ANV"),
    # The program's cache holds nothing, and whether the driver's own has the pipeline yet depends on the run.
    (r"caches\.(merged-and-)?found-in-the-data ", lambda row: not row["small_caches_found"]),
    # It takes a new global key in each process, so a program cannot use what it saved.
    ("from_archive: ", lambda row: row["global_key"] == "differs by process"),
    # It returns valid feedback on a pipeline that was not created.
    (
        r"flags\.one-may-not-compile-early-return\b",
        lambda row: row["driver"] == "RADV" and row["version"] == "22.3.6",
    ),
]


# ---- what runs -------------------------------------------------------------------------------------------------------


def same_values(keys: tuple[str, ...]) -> Callable[[str, str], list[str]]:
    """Returns what compares the last line of JSON in two outputs."""

    def compare(printed: str, alone: str) -> list[str]:
        one, other = (
            json.loads([line for line in text.splitlines() if line.startswith("{")][-1]) for text in (printed, alone)
        )
        return [f"{key}: {one.get(key)}; alone: {other.get(key)}" for key in keys if one.get(key) != other.get(key)]

    return compare


def same_lines(own_cache: bool) -> Callable[[str, str], list[str]]:
    """Returns what compares two outputs of recipes."""
    return lambda printed, alone: differences(parse(printed), parse(alone), own_cache, True)


@dataclass(frozen=True)
class Way:
    """A program, and how to compare two of its outputs."""

    name: str
    command: list[str]
    compare: Callable[[str, str], list[str]]
    #: The program loads in a run what it saved in the run before.
    saves: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    needs_binaries: bool = False


def demo(name: str, *arguments: str | int, **more: Any) -> Way:
    return Way(name, [*DEMO, *map(str, arguments)], same_values(SEEN), **more)


def binaries(name: str, *arguments: str, **more: Any) -> Way:
    return Way(name, [*APPLICATION, "--count", "8", *arguments], same_values(OF_BINARIES), needs_binaries=True, **more)


def recipes(name: str, *arguments: str, own_cache: bool = False) -> Way:
    return Way(name, [str(BUILD / "tests" / "recipes"), *arguments, *RECIPES], same_lines(own_cache))


#: The main job in the demo's ways.
OF_MAIN_JOB = (
    "mixed", "ray tracing", "libraries, feedback", "batches", "threads and batches", "derivatives",
    "own cache, feedback", "Vulkan 1.0", "features chained and asked for",
)  # fmt: skip
WAYS = [
    *(demo(name, *WAYS[name]) for name in OF_MAIN_JOB),
    recipes("recipes", "--feedback"),
    recipes("recipes, own cache", "--feedback", "--cache", own_cache=True),
    demo("own cache, saved", "--count", 12, *OWN_CACHE, saves=True),
    binaries("binaries enabled", "--source", "unused"),
    binaries("own binaries", "--source", "internal", "--archive", "own", saves=True),
    demo("mode: binaries", "--count", 12, settings={"mode": "binaries"}, needs_binaries=True),
]


def compiled_in(world: World) -> list[int]:
    """Returns the fingerprints of what the newest run compiled."""
    *_, (name, _) = runs.read_named(str(world.store))
    line = timeline.read(str(world.store), name)
    return [event.fingerprint for event in line.events if event.is_compile] if line else []


# ---- one driver ------------------------------------------------------------------------------------------------------


@dataclass
class Result:
    """What came of one way over one state of the driver's cache. ``found``: pipelines of the last run."""

    name: str
    wrong: list[str]
    found: int = 0
    of: int = 0
    note: str = ""


class Bench:
    """One driver, with a directory for the worlds and for the driver's caches."""

    def __init__(self, target: Target, directory: Path, known: dict[str, Any]) -> None:
        self.target, self.directory, self.facts = target, directory, known
        self.unsteady = [begin for begin, of in UNSTEADY if of(known)]
        self.caches = 0

    def fresh(self) -> Path:
        """Returns a directory for a new cache of the driver's own."""
        self.caches += 1
        path = self.directory / f"cache-{self.caches}"
        path.mkdir()
        return path

    def world(self, name: str, settings: dict[str, Any]) -> World:
        world = self.target.world(self.directory / re.sub(r"\W+", "-", name))
        world.configure(**settings)
        return world

    def run(self, world: World, command: list[str], cache: Path, layered: bool = True, **more: str) -> tuple[str, str]:
        """Returns what a process printed, and why it is wrong that it ended so, or an empty string."""
        environment = {
            "MESA_SHADER_CACHE_DIR": str(cache),
            "VK_INSTANCE_LAYERS": LAYER_NAME if layered else None,
            **more,
        }
        try:
            done = world.run(command, check=False, timeout=300, **environment)
        except subprocess.TimeoutExpired:
            return "", "did not end within 300 s"
        if done.returncode:
            said = done.stderr.strip() or done.stdout
            return done.stdout, f"ended with {done.returncode}: {' '.join(said.split())[-300:]}"
        return done.stdout, ""

    # ---- the main job

    def way(self, way: Way) -> list[Result]:
        """Returns the results over an empty cache of the driver's own and over a warm one."""
        world, warm = self.world(f"{way.name} alone", {}), self.fresh()
        alone = []
        for _ in range(2):
            printed, wrong = self.run(world, way.command, warm, layered=False)
            if ABSENT.search(wrong):
                return []
            if wrong:
                return [Result(f"{way.name}, without the layer", [wrong])]
            alone.append(printed)
        return [self.tried(way, state, warm, alone) for state in ("empty", "warm")]

    def tried(self, way: Way, state: str, warm: Path, alone: list[str]) -> Result:
        """Tries again what is wrong, because ANV finds nothing in 1 of 250 processes, without the layer too."""
        for _ in range(2):
            result = self.twice(way, state, warm if state == "warm" else self.fresh(), alone)
            if not result.wrong:
                break
        return result

    def twice(self, way: Way, state: str, cache: Path, alone: list[str]) -> Result:
        """Runs a program over this cache of the driver's own and then over none."""
        world = self.world(f"{way.name} {state} {self.caches}", way.settings)
        result, compiled = Result(f"{way.name}, {state}", []), ()
        for number, driver_cache in enumerate((cache, self.fresh())):
            printed, wrong = self.run(world, way.command, driver_cache)
            # Drivers may answer otherwise over a warm cache of their own. What a program saved depends on the run.
            wanted = alone[number : number + 1] if way.saves else alone
            found = [wrong] if wrong else min((self.different(way, printed, one) for one in wanted), key=len)
            result.wrong += [f"run {number + 1}: {one}" for one in found]
            recorded = wrong or any(runs.read_named(str(world.store)))
            result.wrong += [] if recorded else [f"run {number + 1}: the layer recorded no run"]
            if wrong or not recorded:
                return result
            compiled = compiled or compiled_in(world)
        return self.count(world, result, compiled if state == "warm" else ())

    def different(self, way: Way, printed: str, alone: str) -> list[str]:
        """Returns how two outputs differ, without what this driver does not always print alike."""
        return [one for one in way.compare(printed, alone) if not any(re.match(row, one) for row in self.unsteady)]

    def count(self, world: World, result: Result, before: Collection[int] = ()) -> Result:
        """Adds what the newest run found and compiled. For a driver that finds nothing in its caches, nothing may be
        stored. Of pipelines with one fingerprint, only the first is stored if the driver's own cache has the others, so
        those with a fingerprint in ``before`` may be compiled again."""
        run = world.runs()[-1]
        counters = run["counters"]
        result.found, result.of = counters["hits"] + counters["binary_hits"], counters["pipelines"]
        if not self.facts["small_caches_found"]:
            result.wrong += [f"{run['stored_records']} records are stored"] if run["stored_records"] else []
            return result
        compiled = {name: counters[name] for name in ("compiled", "plain_compiled", "failed", "events_dropped")}
        again = sum(fingerprint in before for fingerprint in compiled_in(world))
        compiled["compiled"] = max(compiled["compiled"] - again - self.late(result.name.rpartition(",")[0]), 0)
        if any(compiled.values()) or (result.of and not result.found):
            kinds = ", ".join(f"{name} {number}" for name, number in compiled.items() if number)
            result.wrong.append(f"second run: {kinds}; {result.found} of {result.of} found")
        result.wrong += [line for line in world.raw_stderr.splitlines() if line.startswith("pylayer: ")]
        return result

    def late(self, way: str) -> int:
        """Returns how many pipelines the second run may compile."""
        return sum(ways.get(way, 0) for ways, of in LATE if of(self.facts))

    # ---- kills

    def kills(self) -> list[Result]:
        """Kills a program once something is stored. Then one run may compile what is missing, and the next nothing."""
        command = [*DEMO, "--count", "40"]
        world = self.world("killed", {})
        alone, _ = self.run(world, command, self.fresh(), layered=False)
        environment = world.environment_with({"MESA_SHADER_CACHE_DIR": str(self.fresh())})
        with open(os.devnull, "w") as nothing:
            process = subprocess.Popen(command, env=environment, cwd=world.directory, stdout=nothing, stderr=nothing)
        while (
            process.poll() is None and sum(path.stat().st_size for path in world.stored_files(".journal")) < KILLED_AT
        ):
            time.sleep(0.005)
        process.kill()
        process.wait()
        result = Result("killed", [])
        for number in range(2):
            printed, wrong = self.run(world, command, self.fresh())
            result.wrong += [wrong] if wrong else same_values(SEEN)(printed, alone)
            if self.facts["small_caches_found"] and not wrong and not world.last()["hits"]:
                result.wrong.append(f"run {number + 1} after the kill found nothing")
        return [self.count(world, result)]

    # ---- rebuild

    def rebuild(self, other: Target, back: bool) -> Result:
        """Records a program on one driver, rebuilds for the other, and runs there: from ``other``, or back to it."""
        name = f"rebuilt for {other}" if back else f"rebuilt from {other}"
        world, command = self.world(name, RECORDING), [*DEMO, "--count", "24"]
        here, there = (self.target, other) if back else (other, self.target)
        result = Result(name, [])
        here.select(world)
        _, wrong = self.run(world, command, self.fresh())
        there.select(world)
        printed, failed = self.run(world, [sys.executable, "-m", "pylayer", "rebuild"], self.fresh(), layered=False)
        _, ended = self.run(world, command, self.fresh())
        result.wrong += [one for one in (wrong, failed, ended) if one]
        if result.wrong:
            return result
        why = [one["not_recorded"] for one in recorded_state.rebuilds(printed)]
        counters = world.last()
        compiled = counters["compiled"] + counters["plain_compiled"]
        result.found, result.of = counters["hits"], counters["pipelines"]
        if compiled > sum(sum(reasons.values()) for reasons in why) or not counters["hits"]:
            result.wrong.append(f"compiled {compiled}; {' '.join(printed.split())[:300]}")
        return result

    # ---- the driver's own cache, filled by pylayer warm

    def warmed(self) -> Result:
        """Stores a program's pipelines, fills an empty cache of the driver's with them, and runs the program there
        without the layer: it must find all of them."""
        result, world = Result("warmed", [], of=OF_WARM), self.world("warmed", RECORDING)
        command, filled, times = [*DEMO, "--count", str(OF_WARM)], self.fresh(), []
        steps = (
            (command, self.fresh(), True),
            (command, self.fresh(), False),
            ([sys.executable, "-m", "pylayer", "warm"], filled, False),
            ([*command, "--fail-on-compile-required"], filled, False),
            (command, filled, False),
            (command, self.fresh(), True),
        )
        for arguments, cache, layered in steps:
            printed, wrong = self.run(world, arguments, cache, layered, MESA_SHADER_CACHE_DISABLE="false")
            if wrong:
                result.wrong.append(f"{' '.join(arguments[-2:])} {wrong}: {' '.join(printed.split())[-300:]}")
                return result
            said = json.loads(printed.splitlines()[-1]) if printed.startswith("{") else {}
            times.append(said.get("create_ns_total", 0) / 1e6)
            if arguments[-1].startswith("--fail"):
                result.found = said["created"]
        result.note = f"{times[1]:.0f}, {times[4]:.1f}, {times[5]:.1f} ms"
        if result.found != result.of:
            result.wrong.append(f"{result.found} of {result.of} are found after pylayer warm")
        return result

    def all(self) -> list[Result]:
        can = self.facts["pipeline_binary"]
        results = [one for way in WAYS if can or not way.needs_binaries for one in self.way(way)]
        results += self.kills()
        other = next(one for one in TARGETS if one.driver == "RADV" and one.chip != self.target.chip)
        # Where nothing can be stored, nothing can be rebuilt.
        if not self.facts["small_caches_found"]:
            return results
        # RADV before Mesa 23.3 does not write into its own cache what it found in another: `pylayer warm` says so.
        if self.facts["merge"] != "moves":
            results.append(self.warmed())
        if not isinstance(facts.ask(other), str):
            results += [self.rebuild(other, back) for back in (False, True)]
        return results


# ---- all drivers -----------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """What came of one driver."""

    facts: dict[str, Any]
    results: list[Result] = field(default_factory=list)
    seconds: float = 0

    @property
    def wrong(self) -> list[Result]:
        return [result for result in self.results if result.wrong]

    def row(self) -> str:
        """Returns a row of the table: of how many ways all is as it should be, and pipelines found, by group."""
        groups = {"empty": ", empty", "warm": ", warm"}
        cells = [facts.about(self.facts)]
        for ending in groups.values():
            some = [result for result in self.results if result.name.endswith(ending)]
            right = sum(not result.wrong for result in some)
            cells.append(
                f"{right} of {len(some)}, {sum(one.found for one in some)} of {sum(one.of for one in some)} found"
            )
        for begin in ("killed", "rebuilt from", "rebuilt for", "warmed"):
            some = [result for result in self.results if result.name.startswith(begin)]
            said = ["wrong" if one.wrong else " ".join([f"{one.found} of {one.of}", one.note]).strip() for one in some]
            cells.append(", ".join(said) or "-")
        return " | ".join(cells)


def ask(target: Target) -> Report | str:
    """Returns the facts about a driver, or why it cannot be had."""
    asked = facts.ask(target)
    return asked if isinstance(asked, str) else Report(asked)


def search(target: Target) -> Report | str:
    """Returns what came of a driver, or why it cannot be had. Lavapipe's caches keep nothing."""
    started = time.monotonic()
    report = ask(target)
    if isinstance(report, str) or target == LAVAPIPE:
        return report
    with tempfile.TemporaryDirectory(prefix="drivers-") as directory:
        try:
            report.results = Bench(target, Path(directory), report.facts).all()
        except Exception:  # the other drivers' rows and facts are not lost
            report.results = [Result("search.py", traceback.format_exc().splitlines()[-6:])]
    report.seconds = time.monotonic() - started
    return report


def say(report: Report) -> None:
    wrong = f": {len(report.wrong)} of {len(report.results)} wrong ({report.seconds:.0f} s)" if report.results else ""
    print(f"{facts.about(report.facts)}{wrong}", flush=True)
    for result in report.wrong:
        print(f"    {result.name}", *(f"        {line}" for line in result.wrong[:6]), sep="\n", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", default="", help="only drivers and chips with one of these texts in their names: NVK,tgl"
    )
    parser.add_argument("--facts", action="store_true", help="ask the drivers for their facts, and run nothing else")
    parser.add_argument("--write", type=Path, help="put the facts into this file")
    parser.add_argument("--jobs", type=int, default=2, help="drivers at a time (2)")
    options = parser.parse_args()
    wanted = [target for target in [*TARGETS, LAVAPIPE] if any(text in str(target) for text in options.only.split(","))]
    reports, absent = [], set()
    with ProcessPoolExecutor(options.jobs) as pool:
        for target, report in zip(wanted, pool.map(ask if options.facts else search, wanted), strict=True):
            if isinstance(report, Report):
                say(report)
                reports.append(report)
            elif (target.driver, report) not in absent:
                print(f"{target.driver}: not run; {report}", flush=True)
                absent.add((target.driver, report))
    if not options.facts:
        print(
            "driver and chip | empty driver cache | warm driver cache | killed | rebuilt from RADV | back | "
            "found after warm, and ms of creating all without it, after it, under the layer"
        )
        print(*(report.row() for report in reports if report.results), sep="\n")
    if options.write:
        facts.write(options.write, [report.facts for report in reports])
    return 1 if any(report.wrong for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
