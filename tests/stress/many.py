"""Many processes that store at once, and many that fold: `make stress`, or with options for more.

First through the store's own functions: 16 processes, each with 1,000 records of its own and some that all have, for
four programs; then four of them fold everything at the same time. Then the same through the real layer with fewer.
Exactly what was stored is there afterwards, for the program that stored it, and nothing is damaged.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import xxhash
from disk import Content, StoreReader, fold_everything, leftovers, not_folded
from rich.console import Console
from rich.table import Table
from unit.things import facts
from world import BUILD, World

from pylayer.common.identity import Identity
from pylayer.store import format
from pylayer.store.folder import Folder
from pylayer.store.journal import Journal

PROGRAMS = 4
#: Of the records of each process so many are everybody's.
SHARED = 0.1


def data_of(number: int) -> bytes:
    """A record of 1 to 4 KiB."""
    generator = random.Random(number)
    piece = generator.randbytes(generator.randint(256, 1024))
    return piece * 4


def numbers_of(process: int, records: int) -> list[int]:
    """Which records a process stores: its own, and those that all have."""
    shared = int(records * SHARED)
    return [*range(shared), *range((process + 1) * 10**6, (process + 1) * 10**6 + records - shared)]


def store_records(root: str, process: int, records: int) -> None:
    """What one process does: appends in bunches as policy does, in several journals."""
    identity = Identity.of(facts())
    folder = Folder(root, identity)
    folder.prepare()
    generator = random.Random(process)
    numbers = numbers_of(process, records)
    generator.shuffle(numbers)
    journal = Journal(folder.path, identity, process % PROGRAMS, f"program {process % PROGRAMS}")
    while numbers:
        parts = []
        for number in numbers[: generator.randint(1, 40)]:
            parts += format.record_parts(format.CELL, data_of(number), fingerprint=number + 1)
        del numbers[: len(parts) // 3]
        journal.append(parts)
        if generator.random() < 0.05:
            journal.close()
    journal.close()


def wanted_content(processes: int, records: int) -> Content:
    name = Identity.of(facts()).name
    content: Content = {}
    for process in range(processes):
        digests = content.setdefault((name, process % PROGRAMS), set())
        digests |= {xxhash.xxh3_128_digest(data_of(number)) for number in numbers_of(process, records)}
    return content


class Check:
    """Results and what is wrong with them."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []
        self.violations: list[str] = []

    def row(self, what: str, value: object) -> None:
        self.rows.append((what, str(value)))

    def that(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.violations.append(otherwise)
            print(f"VIOLATION: {otherwise}", flush=True)

    def store_is(self, root: Path, wanted: Content, when: str) -> None:
        found, damage = StoreReader(root).read()
        self.that(not damage, f"{when}: {[str(what) for what in damage][:3]}")
        for key, digests in wanted.items():
            there = found.get(key, set())
            self.that(digests <= there, f"{when}: {len(digests - there)} of {len(digests)} records are gone")
            self.that(there <= digests, f"{when}: {len(there - digests)} records that nobody stored")
        self.that(found.keys() == wanted.keys(), f"{when}: other programs than those that stored")


def wait_for(processes: list[subprocess.Popen[bytes]], check: Check, what: str) -> None:
    results = [process.wait(600) for process in processes]
    check.that(not any(results), f"{what} ended with {results}")


def fold_at_once(root: Path, folders: int, check: Check, claims: bool) -> None:
    """``claims`` False: each has lost its claim as soon as it has taken it, so that all of them fold."""
    processes = [fold_everything(root) for _ in range(folders)]
    while not claims and any(process.poll() is None for process in processes):
        for claim in root.glob("store/*/folding"):
            shutil.rmtree(claim, ignore_errors=True)
        time.sleep(0.001)
    wait_for(processes, check, "folders")


def through_functions(directory: Path, options: argparse.Namespace, check: Check) -> None:
    root = directory / "store"
    start = time.monotonic()
    wait_for(
        [
            subprocess.Popen([sys.executable, __file__, "--one", str(root), str(number), str(options.records)])
            for number in range(options.processes)
        ],
        check,
        "writers",
    )
    check.row("records stored", f"{options.processes * options.records:,} in {time.monotonic() - start:.1f} s")
    wanted = wanted_content(options.processes, options.records)
    check.store_is(root, wanted, "after writing")
    for claims in (False, True):
        copy = directory / f"copy-{claims}"
        shutil.copytree(root, copy)
        start = time.monotonic()
        fold_at_once(copy, options.folders, check, claims)
        check.store_is(copy, wanted, f"after {options.folders} folded at once, {claims=}")
        check.row(f"{options.folders} folders{'' if claims else ', claims lost'}", f"{time.monotonic() - start:.1f} s")
        wait_for([fold_everything(copy)], check, "the last folder")
        check.that(not not_folded(copy), f"after the last fold there are {not_folded(copy)}")
        check.that(not leftovers(copy), f"left: {leftovers(copy)}")
        check.store_is(copy, wanted, "after the last fold")
        check.row("distinct records", f"{sum(map(len, wanted.values())):,}")
        check.row("bytes", f"{sum(path.stat().st_size for path in copy.glob('store/*/*.pack')):,}")


def through_the_layer(directory: Path, options: argparse.Namespace, check: Check) -> None:
    directory.mkdir()
    world = World(directory)
    programs = []
    for number in range(PROGRAMS):
        programs.append(directory / f"program{number}")
        shutil.copy(BUILD / "demo" / "pipelines", programs[-1])

    def commands() -> list[list[str]]:
        count = str(options.pipelines)
        return [
            [str(programs[number % PROGRAMS]), "--count", count, "--seed", str(number // PROGRAMS + number % 2)]
            for number in range(options.processes)
        ]

    def run_all() -> None:
        wait_for(
            [
                subprocess.Popen(command, env=world.environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                for command in commands()
            ],
            check,
            "programs",
        )

    start = time.monotonic()
    run_all()
    stored = sum(run["stored_records"] for run in world.runs())
    lost = sum(run["lost_records"] + run["write_errors"] + run["damaged_records"] for run in world.runs())
    check.that(len(world.runs()) == options.processes and not lost, f"{lost} records were lost")
    check.row("pipelines stored through the layer", f"{stored:,} in {time.monotonic() - start:.1f} s")
    content, _ = StoreReader(world.store).read()
    fold_at_once(world.store, options.folders, check, claims=True)
    check.store_is(world.store, content, "after folding what the layer stored")
    shutil.rmtree(world.store / "runs")
    run_all()
    compiled = sum(run["counters"]["compiled"] for run in world.runs())
    hits = sum(run["counters"]["hits"] for run in world.runs())
    check.that(not compiled, f"{compiled} pipelines were compiled again")
    check.that(hits == options.processes * options.pipelines, f"there were {hits} hits")
    check.row("hits in the second runs", f"{hits:,}")
    check.that(not leftovers(world.store), f"left: {leftovers(world.store)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=16, help="that store at once (%(default)s)")
    parser.add_argument("--records", type=int, default=1000, help="of each (%(default)s)")
    parser.add_argument("--folders", type=int, default=4, help="processes that fold at once (%(default)s)")
    parser.add_argument("--pipelines", type=int, default=20, help="of each through the layer (%(default)s)")
    parser.add_argument("--one", nargs=3, metavar=("STORE", "NUMBER", "RECORDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        store_records(options.one[0], int(options.one[1]), int(options.one[2]))
        return 0
    os.umask(0o077)
    check = Check()
    with tempfile.TemporaryDirectory(prefix="pylayer-many-") as directory:
        through_functions(Path(directory), options, check)
        through_the_layer(Path(directory) / "layer", options, check)
    table = Table(title=f"{options.processes} processes at once")
    table.add_column("what")
    table.add_column("result", justify="right")
    for row in check.rows:
        table.add_row(*row)
    table.add_row("violations", str(len(check.violations)), style="red" if check.violations else "green")
    Console().print(table)
    return 1 if check.violations else 0


if __name__ == "__main__":
    sys.exit(main())
