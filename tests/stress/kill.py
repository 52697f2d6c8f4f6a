"""Programs that are killed at any moment, on one store: `make stress`, or with options for longer.

Copies of the demo program create pipelines, overlapping and their own ones, and are killed with SIGKILL within 0.4 s of
their start, a quarter of them in the middle of a write or before a certain file operation (tests/storage); some end
normally, and fold when they do. Beside them processes fold everything, and are killed as well.
After each kill the whole store is read and verified:

- a record that was there once is there for its program for ever;
- nothing is damaged but the torn ends of journals;
- no run says that it lost records.

Killed within the driver with stored data in its hands a process cannot be told from one that crashed there: that data
is set aside, and compiled once more. At the end a fold of everything leaves no journal, and of each program one small
pack at most. Runs of every program with every seed compile nothing that was stored.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from disk import LIBRARY, Content, StoreReader, fold_everything, is_torn_tail, leftovers, not_folded
from rich.console import Console
from rich.table import Table
from world import BUILD, World

from pylayer.store import maintenance, quarantine, runs
from pylayer.store.runs import read_all
from pylayer.store.store import Store

#: Pipelines of one seed; the same seed gives the same ones in the same order, so shorter runs create the first of them.
COUNT = 120
#: The next fold removes what a killed process was writing, and there is one every few seconds.
LEFT_SECONDS = 7200
#: Which pipelines a seed stands for, and ways to create them.
KINDS: list[list[str]] = [[], ["--compute"], ["--graphics"]]
WAYS: list[list[str]] = [
    [],
    ["--batch", "8"],
    ["--threads", "3"],
    ["--threads", "2", "--batch", "4"],
    ["--cache", "object"],
    ["--no-destroy"],
    ["--no-destroy", "--exit", "exit"],
]

#: What the next start says of a process that was killed there.
DIED_IN_THE_DRIVER = re.compile(r": .*, because (the|a) program died .*; pylayer ls shows more")
#: What the program says then that has made the same data anew.
GIVEN_AGAIN = re.compile(r": .* used again; pylayer ls shows more")


class Child:
    """A process and when it is to be killed; ``deadline`` None: never."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float | None, folds: bool) -> None:
        self.process = process
        self.command: list[str] = list(process.args)  # type: ignore[arg-type]
        self.deadline = deadline
        self.folds = folds


class Killing:
    """One stress run."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self.options = options
        self.random = random.Random(options.seed)
        self.world = World(directory)
        self.environment = self.world.environment | {"PYLAYER_LOG": "warn"}
        self.programs = []
        for name in ("first", "second", "third"):
            program = directory / name
            shutil.copy(BUILD / "demo" / "pipelines", program)
            self.programs.append(program)
        self.log = (directory / "log").open("ab")
        self.store = StoreReader(self.world.store)
        self.seen: Content = {}
        self.seeds = 0
        self.children: list[Child] = []
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.next_fold = 0.0

    def violation(self, text: str) -> None:
        if len(self.violations) < 20:
            print(f"VIOLATION: {text}", flush=True)
        self.violations.append(text)

    # ---- processes -------------------------------------------------------------------------------

    def command(self, program: Path, seed: int, count: int, way: list[str]) -> list[str]:
        return [str(program), "--count", str(count), "--seed", str(seed), *KINDS[seed % len(KINDS)], *way]

    def start_program(self) -> None:
        program = self.random.choice(self.programs)
        # New pipelines all the time: as many as the machine compiles, and old ones among them.
        self.seeds = max(self.seeds, 6 + self.counts["killed"] // 25)
        seed = self.random.randint(max(1, self.seeds - 12), self.seeds)
        way = list(self.random.choice(WAYS))
        if self.random.random() < 0.2:
            # Two processes that write one file at once are the demo's problem.
            used = {argument for child in self.children if not child.folds for argument in child.command}
            names = (str(self.world.directory / f"{program.name}-{number}.cache") for number in itertools.count())
            file = next(name for name in names if name not in used)
            way = ["--cache", file, "--cache-save", file]
        command = self.command(program, seed, self.random.choice([4, 20, COUNT]), way)
        environment = self.environment
        if self.random.random() < 0.25:
            environment = environment | self.moment()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=self.log)
        dies = self.random.random() < 0.9
        deadline = time.monotonic() + self.random.uniform(0, self.options.within) if dies else None
        self.children.append(Child(process, deadline, folds=False))

    def moment(self) -> dict[str, str]:
        """The environment of a process that is killed at a certain file operation: a write of which a part went
        through, which leaves a torn record, or any other."""
        number = self.random.randint(1, 4)
        cut = f"write:SHORT={self.random.randint(1, 6000)}:path=.journal:nth={number}"
        rules = [f"{cut},write:KILL:path=.journal:nth={number}"] * 3
        rules += [f"{operation}:KILL:nth={number}" for operation in ("rename", "unlink", "fsync")]
        rules += [f"{operation}:KILL:path=.pack:nth={number}" for operation in ("write", "rename", "fsync")]
        return {
            "LD_PRELOAD": f"{self.environment.get('LD_PRELOAD', '')}:{LIBRARY}",
            "PYLAYER_TEST_STORAGE": self.random.choice(rules),
            "PYLAYER_TEST_STORAGE_ROOT": str(self.world.store),
        }

    def start_fold(self) -> None:
        self.next_fold = time.monotonic() + self.random.uniform(0.5, 3)
        dies = self.random.random() < 0.5
        deadline = time.monotonic() + self.random.uniform(0, 0.5) if dies else None
        process = fold_everything(self.world.store, stdout=subprocess.DEVNULL, stderr=self.log)
        self.children.append(Child(process, deadline, folds=True))

    def reap(self) -> bool:
        """Ends what is due; True where a program was killed."""
        killed = False
        now = time.monotonic()
        for child in list(self.children):
            if child.deadline is not None and now >= child.deadline:
                child.process.send_signal(signal.SIGKILL)
                child.process.wait()
            if child.process.poll() is None:
                continue
            self.children.remove(child)
            what = "folders" if child.folds else "programs"
            if child.process.returncode == -signal.SIGKILL:
                self.counts[f"{what} killed"] += 1
                if not child.folds:
                    self.counts["killed"] += 1
                    killed = True
            elif child.process.returncode == 0:
                self.counts[f"{what} ended"] += 1
            else:
                self.violation(f"{child.process.args!r} ended with {child.process.returncode}")
        return killed

    def run(self) -> None:
        end = time.monotonic() + self.options.minutes * 60
        while self.counts["killed"] < self.options.kills and time.monotonic() < end:
            while sum(not child.folds for child in self.children) < self.options.processes:
                self.start_program()
            if time.monotonic() >= self.next_fold:
                self.start_fold()
            if self.reap():
                self.check()
            due = [child.deadline for child in self.children if child.deadline is not None]
            time.sleep(min(0.02, max(0.0, min(due, default=0.02) - time.monotonic())))
        for child in self.children:
            if child.process.poll() is None and child.deadline is not None:
                child.process.kill()
            child.process.wait(300)
        self.check()

    # ---- invariants ------------------------------------------------------------------------------

    def missing(self, content: Content) -> int:
        return sum(len(digests - content.get(key, set())) for key, digests in self.seen.items())

    def forget_deaths(self) -> None:
        """Does what `pylayer rm --all --blocks` does: what nobody creates again would stay set aside."""
        store = Store(str(self.world.store))
        store.forget(store.verdicts())

    def check(self) -> None:
        self.counts["checks"] += 1
        self.forget_deaths()
        content, damage = self.store.read()
        for what in damage:
            if not is_torn_tail(what):
                self.violation(f"damage: {what}")
        for _ in range(5):
            if not self.missing(content):
                break
            # readdir may miss both a file that is being deleted and the one that takes its place.
            self.counts["listings that missed a file"] += 1
            content, _ = self.store.read()
        else:
            self.violation(f"{self.missing(content)} records are gone")
        for key, digests in content.items():
            self.seen.setdefault(key, set()).update(digests)
        files = list(self.world.store.glob("store/*/*"))
        self.counts["most files"] = max(self.counts["most files"], len(files))
        self.counts["most torn journals"] = max(self.counts["most torn journals"], len(damage))
        for path in files:
            try:
                if path.suffix == ".tmp" and time.time() - path.stat().st_mtime > LEFT_SECONDS:
                    self.violation(f"{path} is still there")
            except FileNotFoundError:
                pass

    def check_runs(self) -> None:
        for run in read_all(str(self.world.store)):
            lost = [run.get(key, 0) for key in ("lost_records", "write_errors", "damaged_records")]  # 0 where it rested
            if any(lost) or run["counters"]["load_failed"]:
                self.violation(f"a run lost something: {run}")
            self.counts["runs with statistics"] += 1
            self.counts["stored by them"] += run["stored_records"]

    def fold_all(self) -> None:
        """Until nobody else's claim is in the way."""
        for _ in range(100):
            if fold_everything(self.world.store).wait(300) != 0:
                self.violation("a fold of everything failed")
            if not not_folded(self.world.store):
                break

    def finish(self) -> None:
        self.forget_deaths()
        self.check_runs()
        self.fold_all()
        self.check()
        if not_folded(self.world.store):
            self.violation(f"after a fold of everything there are {not_folded(self.world.store)}")
        for path in self.world.store.rglob("*.tmp"):
            os.utime(path, (0, 0))
            self.counts["temporary files left by kills"] += 1
        maintenance.prune(str(self.world.store))
        if leftovers(self.world.store):
            self.violation(f"left: {leftovers(self.world.store)}")
        for item in quarantine.items(str(self.world.store)):
            self.violation(f"in quarantine: {item.reason}")
        if len(list(self.world.store.glob("runs/*"))) > runs.MAX_RUNS:
            self.violation("runs have grown without bound")
        self.counts["bytes of the pack"] = sum(path.stat().st_size for path in self.world.stored_files(".pack"))
        self.counts["records"] = sum(len(digests) for digests in self.seen.values())
        whole_runs = self.all_runs()
        for round_number in (1, 2):
            shutil.rmtree(self.world.store / "runs", ignore_errors=True)
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda run: self.run_whole(*run), whole_runs))
            for run in read_all(str(self.world.store)):
                if run.get("duplicates"):
                    self.violation(f"{run['program']} compiled {run['duplicates']} pipelines that were stored")
                if round_number == 2 and run["counters"]["compiled"]:
                    self.violation(f"{run['program']} compiled {run['counters']['compiled']} pipelines again")
                self.counts[f"round {round_number} at the end: hits"] += run["counters"]["hits"]
                self.counts[f"round {round_number} at the end: compiled"] += run["counters"]["compiled"]
        self.check()
        self.check_log()

    def all_runs(self) -> list[tuple[Path, int]]:
        every = [(program, seed) for program in self.programs for seed in range(1, self.seeds + 1)]
        return self.random.sample(every, min(self.options.runs, len(every)))

    def run_whole(self, program: Path, seed: int) -> None:
        command = self.command(program, seed, COUNT, [])
        done = subprocess.run(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=self.log, timeout=300)
        if done.returncode:
            self.violation(f"{command} ended with {done.returncode}")

    def check_log(self) -> None:
        self.log.close()
        lines = (self.world.directory / "log").read_text(errors="replace").splitlines()
        warned = Counter(line for line in lines if "pylayer: " in line or "Traceback" in line)
        for line, count in warned.items():
            # A process that was killed while it wrote it leaves the program's own cache file torn.
            if "application cache" in line:
                self.counts["own cache files refused"] += count
            elif DIED_IN_THE_DRIVER.search(line):
                self.counts["kills within the driver"] += count
            elif not GIVEN_AGAIN.search(line):
                self.violation(f"{count} times in the log: {line}")
        if "Traceback (most recent call last):" in warned:
            print(*lines[lines.index("Traceback (most recent call last):") :][:30], sep="\n")

    def report(self, seconds: float) -> int:
        table = Table(title=f"{self.counts.pop('killed')} kills in {seconds:.0f} s, seed {self.options.seed}")
        table.add_column("what")
        table.add_column("count", justify="right")
        for name, count in self.counts.items():
            table.add_row(name, f"{count:,}")
        table.add_row("violations", str(len(self.violations)), style="red" if self.violations else "green")
        Console().print(table)
        return 1 if self.violations else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000, help="so many programs are killed (%(default)s)")
    parser.add_argument("--processes", type=int, default=4, help="so many run at a time (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all random choices (the time)")
    parser.add_argument("--minutes", type=float, default=60, help="no longer than this (%(default)s)")
    parser.add_argument("--within", type=float, default=0.4, help="seconds of life at most (%(default)s)")
    parser.add_argument("--runs", type=int, default=10000, help="of those at the end, at most (all)")
    parser.add_argument("--keep", action="store_true", help="keep the store where something is wrong")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="pylayer-kill-"))
    start = time.monotonic()
    killing = Killing(directory, options)
    try:
        killing.run()
        killing.finish()
        return killing.report(time.monotonic() - start)
    finally:
        for child in killing.children:
            child.process.kill()
        if options.keep and killing.violations:
            print(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
