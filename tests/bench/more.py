"""What `make bench` does not measure: stores of any size, threads, memory (`make bench-more`), what a player gains
(`make gain`), and drivers without hardware.

    .venv/bin/python -P tests/bench/more.py WHAT [OPTION]...

Every round runs baseline and layer one after the other, each in a process of its own. Figures are medians of the
rounds' differences or ratios. On RADV without hardware and without its disk cache, or with --here on the environment's
driver.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import xxhash
from bench.figures import Figure, Row, created_ns, show, start_ns
from bench.run import copy, driver_cache_in
from disk import compact_everything
from drivers.facts import TARGETS, mesa_version
from world import BUILD, LAYER_NAME, Run, World

from pylayer.store import format
from pylayer.store.folder import Folder
from pylayer.store.journal import CLOSED, Journal
from pylayer.store.reader import Reader

Options = argparse.Namespace


def world_in(directory: Path, options: Options) -> World:
    directory.mkdir()
    world = World(directory, "here" if options.here else "radv")
    world.environment |= {"PYLAYER_LOG": "error", **driver_cache_in(None)}
    return world


# ---- stores of any size ----------------------------------------------------------------------------------------------

#: Records in the stores.
SIZES = (1000, 10_000, 100_000)
#: Where RADV's data has the hash of the first entry.
FIRST_HASH = slice(48, 68)


class Cell(NamedTuple):
    """A record as the layer wrote it."""

    data: bytes
    kind: int
    create_ns: int
    fingerprint: int
    last_used: int

    def another(self, source: random.Random) -> Cell:
        """Returns one as long and as random, and like no other. Such cells never reach a driver."""
        data = bytearray(self.data)
        data[FIRST_HASH] = source.randbytes(FIRST_HASH.stop - FIRST_HASH.start)
        return self._replace(data=bytes(data), fingerprint=source.getrandbits(64) | 1)


def cells_of(folder: Folder) -> list[Cell]:
    """Returns every cell in the journals of a store."""
    parts = [part for path in folder.files(None, (CLOSED,)) for part in Reader(path).parts([])]
    return [
        Cell(bytes(part.data_of(one)), one.kind, one.create_ns, one.fingerprint, one.last_used)
        for part in parts
        for one in part.records
        if one.magic == format.CELL
    ]


def write(root: Path, real: Folder, cells: list[Cell], count: int) -> None:
    """Makes a store of journals with ``count`` cells of one program, in which the cells of a real one are repeated."""
    folder = Folder(str(root), real.identity)
    folder.prepare()
    journal, source = Journal(folder, 1, "program"), random.Random(1)
    for number in range(count):
        cell = cells[number % len(cells)]
        cell = cell if number < len(cells) else cell.another(source)
        fields = (cell.kind, 0, cell.create_ns, cell.fingerprint, cell.last_used)
        journal.append(format.record_parts(format.CELL, cell.data, xxhash.xxh3_128_digest(cell.data), *fields))
    journal.close()


def scale(directory: Path, options: Options) -> None:
    """What the first stored pipeline and the start take, over the driver alone with one pipeline in a cache file. The
    store's files are in the page cache."""
    world, blob, rows = world_in(directory / "world", options), directory / "one.cache", []
    world.demo("--count", 1, "--cache", "object", "--cache-save", blob, layers=None)
    world.demo("--count", options.count, "--threads", 2)
    real = world.folder()
    cells = cells_of(real)
    for size in options.sizes:
        journals, packs = (directory / f"{size} records, {form}" for form in ("journals", "packs"))
        write(journals, real, cells, size)
        copy(journals, packs)
        assert compact_everything(packs).wait() == 0
        for store in (journals, packs):
            names = (f"{store.name}: {what}" for what in ("first pipeline", "start"))
            figures = [Figure(name, "the driver alone", None, "ms", difference=True) for name in names]
            copy(store, world.store)
            for number in range(options.rounds + 1):
                runs = world.demo("--count", 1, "--cache", blob, layers=None), world.demo("--count", 1)
                if number == 0:  # policy makes the plan, and reads the store
                    continue
                assert (world.last()["hits"], world.last()["compiled"]) == (1, 0), world.last()
                figures[0].add(*(run["create_ns_total"] for run in runs))
                figures[1].add(*map(start_ns, runs))
            rows += [{"": figure} for figure in figures]
    show("The first stored pipeline, and vkCreateInstance with vkCreateDevice", rows, [""])


# ---- threads ---------------------------------------------------------------------------------------------------------

THREADS = (1, 2, 4, 8, 16)
#: again: all pipelines again and again, 2 us a hit; first: each once, 9 us; misses: half as many are compiled.
WORKS = ("again", "first", "misses")
AGAIN = 40
#: Whether the threads use one VkPipelineCache, and whether under the layer. The first is the baseline.
SHARING = {
    "the driver alone, one cache": (True, None),
    "layer, no cache": (False, LAYER_NAME),
    "layer, one cache": (True, LAYER_NAME),
}
#: What is limited; the others are there to be compared.
LIMITED = "layer, no cache"


def sample(world: World, way: str, work: str, threads: int, pipelines: int) -> float:
    """Returns nanoseconds for each creation, from the start of the threads to their end."""
    cached, layers = SHARING[way]
    file = world.directory / "application.cache"

    def run(count: int, *more: str | int) -> float:
        own = ("--cache", file, "--cache-save", file) if cached else ()
        done = world.demo("--threads", threads, "--count", count, *more, *own, layers=layers)
        return done["elapsed_ns"] / count

    shutil.rmtree(world.store, ignore_errors=True)
    file.unlink(missing_ok=True)
    if work == "misses":
        return run(pipelines // 2)
    run(pipelines)
    time = run(AGAIN * pipelines, "--distinct", pipelines) if work == "again" else run(pipelines)
    assert layers is None or world.last()["compiled"] == 0, world.last()
    return time


def threads(directory: Path, options: Options) -> None:
    """How threads that create pipelines at the same time get along. With more threads than processors a time says how
    much work was done, not how long one waits."""
    world, (baseline, *others) = world_in(directory / "world", options), SHARING
    for work in WORKS:
        rows: list[Row] = []
        for count in THREADS:
            samples: dict[str, list[float]] = {way: [] for way in SHARING}
            for _ in range(options.rounds):
                for way, mine in samples.items():
                    mine.append(sample(world, way, work, count, options.count))
            for way in others:
                limit = 1.10 if way == LIMITED and work != "misses" else None
                figure = Figure(f"{count}: {way}", baseline, limit)
                for base, mine in zip(samples[baseline], samples[way], strict=True):
                    figure.add(base, mine)
                rows.append({"": figure})
        show(f"{work}: time of a creation by threads", rows, [""])


# ---- memory ----------------------------------------------------------------------------------------------------------


class Way(NamedTuple):
    """With what a process creates its pipelines."""

    name: str
    cache: str
    layers: str | None = None
    stored: bool = False  # the layer's store has them

    @property
    def compiles(self) -> bool:
        return not self.stored and self.cache != "FILE"


OWN = Way("the driver alone, own cache from its file", "FILE")
OWN_EMPTY = Way("the driver alone, own cache, empty: compiled", "object")
IN_STORE = Way("layer, no cache, stored", "none", LAYER_NAME, stored=True)
MEMORY = (
    OWN,
    OWN_EMPTY,
    Way("the driver alone, no cache: compiled", "none"),
    IN_STORE,
    Way("layer, own cache from its file, stored", "FILE", LAYER_NAME, stored=True),
    Way("layer, own cache, empty, stored", "object", LAYER_NAME, stored=True),
    Way("layer, no cache, compiled", "none", LAYER_NAME),
)
#: The most resident memory up to the last creation; what is resident a second after it; that without pages of files
#: (libraries, mostly the driver's), which are shared with other processes.
MEASURES = {"peak": "peak", "steady": "resident", "steady, not of files": "anonymous"}


def memory(directory: Path, options: Options) -> None:
    """How much memory a process needs that has created many pipelines, over one with its own cache from a file."""
    # The layer learns whether a program has a cache file.
    worlds = {way: world_in(directory / f"{number}", options) for number, way in enumerate(MEMORY)}

    def run(way: Way, save: bool = False) -> Run:
        """A program with a cache file writes it again, as programs do, when its memory was measured."""
        file = worlds[way].directory / "own.cache"
        arguments = ["--memory", "--count", options.count, "--cache", file if way.cache == "FILE" else way.cache]
        arguments += ["--cache-save", file] if save or way.cache == "FILE" else []
        return worlds[way].demo(*arguments, layers=way.layers, timeout=3600)

    compile_ways = [way for way in MEMORY if way.compiles]
    with ThreadPoolExecutor() as pool:
        compiled = dict(zip(compile_ways, pool.map(lambda way: run(way, way is OWN_EMPTY), compile_ways), strict=True))
    for way, world in worlds.items():
        if way.cache == "FILE":
            shutil.copy(worlds[OWN_EMPTY].directory / "own.cache", world.directory)
        if way.stored:
            copy(worlds[MEMORY[-1]].store, world.store)
            for _ in range(2):  # what a first run learns is known
                run(way)
    rows = {
        way: {name: Figure(way.name, OWN.name, 1.10 if way.stored else None, "MiB") for name in MEASURES}
        for way in MEMORY
    }
    for _ in range(options.rounds):
        samples = {way: compiled.get(way) or run(way) for way in MEMORY}
        assert all(worlds[way].last()["compiled"] == 0 for way in MEMORY if way.stored)
        for way, row in rows.items():
            for figure, key in zip(row.values(), MEASURES.values(), strict=True):
                figure.add(samples[OWN][key], samples[way][key])
    show(f"Memory of a process with {options.count:,} pipelines", list(rows.values()), list(MEASURES))


# ---- what a player gains ---------------------------------------------------------------------------------------------

PROGRAMS = 3


def turn(world: World, layers: str | None, options: Options) -> int:
    """Every program runs once. Returns the nanoseconds in which they created their pipelines."""
    total = 0
    for number in range(1, PROGRAMS + 1):
        program = world.directory / f"game-{number}"
        if not program.exists():
            shutil.copy(BUILD / "demo" / "pipelines", program)
        command = [str(program), "--json", "--count", str(options.count), "--seed", str(number)]
        run = Run.of(world.run(command, VK_INSTANCE_LAYERS=layers))
        assert run["created"] == options.count
        total += run["create_ns_total"]
    return total


def gain(directory: Path, options: Options) -> None:
    """Programs take turns on a driver whose own disk cache is too small for all. In the first turn all is compiled."""
    worlds = {layers: world_in(directory / (layers or "alone"), options) for layers in (None, LAYER_NAME)}
    for world in worlds.values():
        disk = world.directory / "driver-cache"
        disk.mkdir()
        sizes = {"MESA_SHADER_CACHE_MAX_SIZE": f"{options.kib}K", "__GL_SHADER_DISK_CACHE_SIZE": f"{options.kib}000"}
        world.environment |= driver_cache_in(disk) | sizes
        world.environment.pop("__GL_SHADER_DISK_CACHE_SKIP_CLEANUP")
    first, later = (Figure(name, "without pylayer", None, "s") for name in ("first turn", "a later turn"))
    for number in range(options.rounds + 1):
        (later if number else first).add(*(turn(world, layers, options) for layers, world in worlds.items()))
    title = f"{PROGRAMS} programs, {options.count} pipelines each, a driver cache of {options.kib} KiB"
    show(title, [{"": first}, {"": later}], [""])


# ---- drivers without hardware ----------------------------------------------------------------------------------------


def drivers(directory: Path, options: Options) -> None:
    """The time in which the demo creates its pipelines. warm: all found by the layer, against a VkPipelineCache of the
    program's own that has all, loading included. cold: all compiled and stored, against an empty one."""
    rows = []
    for target in TARGETS:
        if target.missing() or not any(text in str(target) for text in options.only.split(",")):
            continue
        world, own = target.world(directory / str(target)), directory / f"{target}.cache"
        world.environment["MESA_SHADER_CACHE_DISABLE"] = "1"
        for _ in range(2):
            world.demo("--count", options.count)
        world.demo("--count", options.count, "--cache", own, "--cache-save", own, layers=None)
        name = f"{target}, {mesa_version(world)}"
        row = {column: Figure(name, "own cache", None, "ms") for column in ("warm", "cold")}
        for column, cache, rounds in (("warm", own, options.rounds), ("cold", "object", options.rounds // 3 or 1)):
            for _ in range(rounds):
                if column == "cold":
                    shutil.rmtree(world.store)
                layer = created_ns(world.demo("--count", options.count))
                row[column].add(created_ns(world.demo("--count", options.count, "--cache", cache, layers=None)), layer)
        rows.append(row)
    show(f"{options.count} pipelines on drivers without hardware", rows, ("warm", "cold"))


#: What is measured, with how many rounds and pipelines.
WHAT = {
    scale: (7, 1000),
    threads: (11, 256),
    memory: (3, 10_000),
    gain: (3, 1000),
    drivers: (9, 280),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="WHAT")
    for what, (rounds, count) in WHAT.items():
        command = commands.add_parser(what.__name__, help=what.__doc__, description=what.__doc__)
        command.set_defaults(what=what)
        command.add_argument("--here", action="store_true", help="the environment's own driver")
        command.add_argument("--rounds", type=int, default=rounds, help=f"rounds; of gain, turns ({rounds})")
        command.add_argument("--count", type=int, default=count, help=f"pipelines ({count})")
        command.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of scale: records in the stores")
        command.add_argument("--kib", type=int, default=1024, help="of gain: size of the driver's cache (1024)")
        command.add_argument("--only", default="", help="of drivers: those with one of these texts in their names")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylayer-bench-") as directory:
        options.what(Path(directory), options)


if __name__ == "__main__":
    main()
