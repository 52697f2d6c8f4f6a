"""Corrupted data of every kind, with the layer and without: `make corruption`, or with options for less.

Kinds are those of tests/corruption/kinds.c. INPUTS corrupted pieces of each are given

- to RADV without the layer, as a program's own VkPipelineCache data and pipeline binaries: what a damaged file does;
- to the same program under the layer, which knows what the program read in its first run;
- to the layer as files of its own store: records of journals, and whole files of every sort.

The driver must not be given a byte that it never gave out. What it is given is judged by its digest, by the witness
below (tests/witness): drivers accept most corrupted data without a word.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from disk import fold_everything
from rich.console import Console
from rich.table import Table
from world import BUILD, LAYER_NAME, WITNESS, World

PARTS = ("own", "records", "files")
PROGRAM = str(BUILD / "tests" / "corruption")
STATUS = struct.Struct("<8Q")
#: Without the layer a kind ends after so many inputs on which the driver hung; the same in corruption.c.
MOST_HUNG = 100

#: Nothing can be known of these, and what becomes of them is counted by itself: docs/internals/architecture.md.
UNKNOWN = {("binaries", "one bit of the key"): "a key under which the program never read anything"}


#: The store's files: carrier that writes them, their suffix, what the program's records in them hold.
RECORDS = [("cells", "closed", "cache"), ("binaries", "closed", "binaries")]
FILES = [("cells", "closed"), ("cells", "pack"), ("cells", "attest")]
FILES += [("binaries", "closed"), ("binaries", "pack"), ("binaries", "binaries")]
NAMES = {"closed": "journal", "binaries": ".binaries", "attest": ".attest"}


@dataclasses.dataclass
class Status:
    """What became of inputs; the same as in corruption.c."""

    next: int = 0
    inputs: int = 0
    created: int = 0
    missed: int = 0
    failed: int = 0
    crashed: int = 0
    hung: int = 0
    reached: int = 0

    @classmethod
    def read(cls, path: Path) -> Status:
        data = path.read_bytes() if path.exists() else b""
        return cls(*STATUS.unpack(data)) if len(data) == STATUS.size else cls()

    def add(self, other: Status) -> None:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class Prepared:
    """A program after its first run under one carrier: its own files, the store's, and what the driver gave out."""

    def __init__(self, directory: Path, carrier: str, application_caches: str) -> None:
        directory.mkdir()
        self.world = World(directory)
        self.base = directory / "base"
        config = directory / "policy.yaml"
        config.write_text(json.dumps({"settings": {"carrier": carrier, "application_caches": application_caches}}))
        self.environment = self.world.environment | {
            "VK_INSTANCE_LAYERS": f"{LAYER_NAME}:{WITNESS}",
            "PYLAYER_LOG": "warn",
            "PYLAYER_CONFIG": str(config),
            "PYLAYER_TEST_DRIVER_WITNESS": str(directory / "witness"),
        }
        command = [PROGRAM, "prepare", str(directory)]
        first = subprocess.run(command, env=self.environment, check=True, timeout=120, capture_output=True, text=True)
        assert "pylayer" not in first.stderr, first.stderr  # the policy file is in force
        (self.identity,) = (path.name for path in (self.world.store / "store").iterdir())
        folded = directory / "folded"
        shutil.copytree(self.world.store, folded)
        assert fold_everything(folded).wait(120) == 0
        self.base.mkdir()
        for root in (self.world.store, folded):
            for path in (root / "store" / self.identity).iterdir():
                if path.suffix == ".pack" or root != folded:
                    shutil.copy(path, self.base)


@dataclasses.dataclass
class Task:
    """Some inputs of one kind, and what came of them."""

    prepared: Prepared
    mode: str  # of corruption.c
    list: str
    kind: str
    inputs: int
    seed: int
    suffix: str = ""
    layered: bool = True
    status: Status = dataclasses.field(default_factory=Status)
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def what(self) -> str:
        return f"{self.mode} {self.suffix} {self.list}: {self.kind}" + ("" if self.layered else " (no layer)")

    @property
    def gave_up(self) -> bool:
        """The driver hung too often."""
        return not self.layered and self.status.hung >= MOST_HUNG

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="task-", dir=self.prepared.world.directory) as directory:
            self._run(Path(directory))

    def _run(self, directory: Path) -> None:
        store = directory / "store"
        shutil.copytree(self.prepared.world.store, store)
        shutil.copy(self.prepared.world.directory / "witness", directory)  # what the driver gave out
        environment = self.prepared.environment | {
            "PYLAYER_STORE": str(store),
            "PYLAYER_TEST_DRIVER_WITNESS": str(directory / "witness"),
        }
        if not self.layered:
            environment["VK_INSTANCE_LAYERS"] = WITNESS
        end = self.inputs
        while self.status.next < end:
            path = directory / f"status-{self.status.next}"
            command = [PROGRAM, self.mode, str(self.prepared.world.directory), self.kind, str(self.status.next)]
            command += [str(end - self.status.next), str(self.seed), str(path)]
            if self.mode == "stored":
                folder = store / "store" / self.prepared.identity
                command += [str(self.prepared.base), str(folder), self.suffix, self.list]
            elif not self.layered:
                command.append("fork")
            process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200)
            got = Status.read(path)
            if process.returncode > 0 or "Traceback" in process.stderr:
                self.problems.append(f"{self.what}: exit {process.returncode}\n{process.stderr[-2000:]}")
                return
            if process.returncode < 0:  # the driver crashed on the input that was at work
                got.crashed += 1
                got.inputs += 1
                got.next += 1
            got.next, self.status.next = 0, got.next
            self.status.add(got)
            if self.gave_up:
                return


class Corruption:
    """All tasks of a run, and the table."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self.options = options
        self.prepared = {
            carrier: Prepared(directory / carrier, carrier, options.application_caches)
            for carrier in ("cells", "binaries")
        }
        kinds = subprocess.run([PROGRAM, "kinds"], capture_output=True, text=True, check=True).stdout
        self.kinds: dict[str, list[str]] = {}
        for line in kinds.splitlines():
            name, kind = line.split("\t")
            self.kinds.setdefault(name, []).append(kind)
        known = {kind for kinds in self.kinds.values() for kind in kinds}
        unknown = set(options.kind or ()) - known
        if unknown:
            sys.exit(f"no kind is called {', '.join(sorted(unknown))}; there are: {', '.join(sorted(known))}")
        self.tasks: list[Task] = []
        self.problems: list[str] = []
        self.plan(set(options.part))

    def plan(self, parts: set[str]) -> None:
        """All tasks of these parts."""
        for name, mode in (("cache", "caches"), ("binaries", "binaries")):
            for kind in self.kinds[name] if "own" in parts else ():
                for layered in (False, True):
                    self.add("cells" if mode == "caches" else "binaries", mode, name, kind, layered=layered)
        for carrier, suffix, name in RECORDS if "records" in parts else ():
            for kind in self.kinds[name]:
                self.add(carrier, "stored", name, kind, suffix)
        for carrier, suffix in FILES if "files" in parts else ():
            for kind in self.kinds["file"]:
                self.add(carrier, "stored", "file", kind, suffix)

    def add(self, carrier: str, mode: str, name: str, kind: str, suffix: str = "", layered: bool = True) -> None:
        if self.options.kind and kind not in self.options.kind:
            return
        inputs = min(self.options.inputs, 200) if kind == "intact" else self.options.inputs
        self.tasks.append(Task(self.prepared[carrier], mode, name, kind, inputs, self.options.seed, suffix, layered))

    def run(self) -> None:
        done = 0

        def one(task: Task) -> None:
            nonlocal done
            start = time.monotonic()
            task.run()
            done += 1
            if self.options.verbose:
                print(
                    f"{done}/{len(self.tasks)} {time.monotonic() - start:.1f} s {task.what}: {task.status}", flush=True
                )

        with ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(one, self.tasks))
        for task in self.tasks:
            self.judge(task)

    def judge(self, task: Task) -> None:
        status = task.status
        self.problems += task.problems
        if status.inputs < task.inputs and not task.problems and not task.gave_up:
            self.problems.append(f"{task.what}: {status.inputs} inputs")
        if task.kind == "intact":
            # The tools tell nothing if good data does not arrive.
            if status.missed or status.failed or status.crashed or status.reached or not status.created:
                self.problems.append(f"{task.what}: {status}")
        elif task.layered and (status.crashed or (status.reached and (task.list, task.kind) not in UNKNOWN)):
            self.problems.append(f"{task.what}: {status}")

    # ---- tables ----------------------------------------------------------------------------------

    def sum_of(self, wanted: Callable[[Task], bool]) -> Status:
        total = Status()
        for task in self.tasks:
            if wanted(task):
                total.add(task.status)
        return total

    def own(self, name: str, title: str) -> Table:
        table = Table(title=title)
        table.add_column("kind")
        for what in ("created", "not", "hung", "crashed", "reached"):
            table.add_column(f"without\n{what}", justify="right")
        for what in ("created", "not", "crashed", "reached"):
            table.add_column(f"with\n{what}", justify="right")
        for what in ("inputs", "crashed", "reached"):
            table.add_column(f"stored\n{what}", justify="right")

        def row(label: str, kinds: list[str]) -> None:
            cells = []
            for layered in (False, True):
                found = self.sum_of(
                    lambda task, layered=layered: (
                        task.list == name  # type: ignore[misc]
                        and task.kind in kinds
                        and task.layered == layered
                        and task.mode != "stored"
                    )
                )
                cells += [found.created, found.missed + found.failed, *([] if layered else [found.hung])]
                cells += [found.crashed, found.reached]
            stored = self.sum_of(lambda task: task.list == name and task.kind in kinds and task.mode == "stored")
            cells += [stored.inputs, stored.crashed, stored.reached]
            table.add_row(label, *(f"{cell:,}" for cell in cells))

        corrupted = [kind for kind in self.kinds[name] if kind != "intact"]
        for kind in corrupted:
            row(kind, [kind])
        table.add_section()
        row("all", corrupted)
        return table

    def files(self) -> Table:
        table = Table(title="Files of the store, by what was done to them: inputs / crashed / reached the driver")
        table.add_column("kind")
        for carrier, suffix in FILES:
            table.add_column(f"{carrier}\n{NAMES.get(suffix, suffix)}", justify="right")
        for kind in self.kinds["file"]:
            cells = []
            for carrier, suffix in FILES:
                found = self.sum_of(
                    lambda task, carrier=carrier, suffix=suffix, kind=kind: (
                        task.prepared is self.prepared[carrier]  # type: ignore[misc]
                        and task.suffix == suffix
                        and task.list == "file"
                        and task.kind == kind
                    )
                )
                cells.append(f"{found.inputs:,} / {found.crashed} / {found.reached}")
            table.add_row(kind, *cells)
        return table

    def report(self, console: Console, seconds: float) -> int:
        console.print(self.own("cache", "VkPipelineCache data"))
        console.print(self.own("binaries", "VkPipelineBinaryKHR data"))
        console.print(self.files())
        for (name, kind), why in UNKNOWN.items():
            found = self.sum_of(
                lambda task, name=name, kind=kind: (
                    (task.list, task.kind) == (name, kind)  # type: ignore[misc]
                    and task.layered
                    and task.mode != "stored"
                )
            )
            console.print(f"{kind}: {found.reached:,} reached the driver with the layer: {why}")
        corrupted = [task for task in self.tasks if task.kind != "intact"]
        without = sum(task.status.inputs for task in corrupted if not task.layered)
        crashed = sum(task.status.crashed for task in corrupted if not task.layered)
        hung = sum(task.status.hung for task in corrupted if not task.layered)
        layered = sum(task.status.inputs for task in corrupted if task.layered)
        also = sum(task.status.crashed for task in corrupted if task.layered)
        for task in self.tasks:
            if task.gave_up:
                console.print(f"{task.what}: ended after {task.status.inputs:,} inputs, for {MOST_HUNG} of them hung")
        console.print(
            f"without the layer: {without:,} corrupted inputs, {crashed:,} crashes of the driver, {hung:,} hung"
        )
        console.print(f"with the layer: {layered:,} corrupted inputs, {also:,} crashes of the driver")
        console.print(f"{seconds:.0f} s, seed {self.options.seed}; problems: {len(self.problems)}")
        for problem in self.problems[:20]:
            console.print(f"PROBLEM: {problem}", markup=False)
        return 1 if self.problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10000, help="of each kind (%(default)s)")
    parser.add_argument(
        "--part",
        choices=PARTS,
        nargs="+",
        default=PARTS,
        help="a program's own data, the store's records, or its files",
    )
    parser.add_argument("--kind", nargs="+", help="only these, as 'random payloads' (all)")
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (%(default)s)")
    parser.add_argument(
        "--application-caches",
        default="strict",
        help="the setting, of which only strict promises that nothing passes (%(default)s)",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (%(default)s)")
    parser.add_argument("--verbose", action="store_true", help="a line for each task")
    options = parser.parse_args()
    os.umask(0o077)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pylayer-corruption-") as directory:
        corruption = Corruption(Path(directory), options)
        corruption.run()
    return corruption.report(Console(width=160), time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
