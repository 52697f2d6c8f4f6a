"""Many processes at once on one store, with bad moments in many of them: `make stress` and `make soak`.

Copies of the demo program create pipelines, overlapping and their own ones. Many are killed, at any time, at a system
call or in the driver. Others compact everything meanwhile, and are killed as well. Then:

- a record that was stored once stays there for its program, and nothing is damaged but the torn ends of journals;
- four compactions that run at once at the end, and whose claims are deleted, lose no record and leave no journal;
- afterwards no program compiles what is stored, whatever its seed.

With --faults, the driver (tests/driver), system calls and the disk fail, files of the store are damaged, and the policy
file is rewritten. Then the checks are:

- no process crashes or hangs, and a program for which only the disk fails ends with status 0;
- two processes that run all the time do not grow in memory, descriptors or threads;
- without the files that were damaged on purpose, every record verifies at the end.

The driver is never given a byte that it did not return.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from disk import Content, StoreReader, compact_everything, is_torn_tail, leftovers, loses_nothing, not_compacted
from programs.ways import ways
from recovery.damage import KINDS, changed
from recovery.moment import tracer
from recovery.moments import SCENARIOS, Moment, all_of
from recovery.trial import CRASHES, Bench
from world import BUILD, SLOW_COMPILES

from pylayer.store import maintenance
from pylayer.store.store import Store

SEEDS = range(1, 10)
#: The demo's ways, without those that need what one of DRIVERS lacks.
WAYS = [*ways("early return", "may not compile", "cache control asked for", "features chained and asked for").values()]
#: Kinds of moments that are drawn, and those that are drawn with faults only.
DEATHS = ("driver death", "death")
FAULTS = ("driver result", "driver answer", "hang of a second", "system call", "short transfer")
#: Scripts of drivers, and rules of disks, that hold for a whole process.
DRIVERS = (
    "", "cache-control=no", "feedback=no-hits", "deferral=to-join", "deferral=never", "binaries=no", "maintenance5=no",
    "create-cache=slow:2;get-data=slow:2;merge=slow:2", "create-device=error:feature-not-present?binaries",
)  # fmt: skip
DISKS = ("write:ENOSPC:after=20000", "change:EROFS", "open:EMFILE:from=20", "read:SHORT=7", "fsync:EIO", "mkdir:EACCES")
POLICIES = (
    '{"settings": {"mode": "cells"}}', '{"settings": {"mode": "binaries"}}', '{"max_store_mib": 8}',
    '{"settings": {"application_caches": "strict"}}', '{"settings": {"mode": "nonsense"}}', "settings: {mode: [",
)  # fmt: skip
#: Programs that create and destroy pipelines, or instances and devices, until they are ended. The second loads its
#: driver again and again, and the witness would keep a descriptor each time, so that driver has no witness. The witness
#: of others would not know its cells, which they would join, so it has a store of its own.
LONG = (([str(BUILD / "bench" / "threads"), "2", "hits", "none", "2000", "100000"], {}),
        (["./long", "--count", "1", "--repeat-instances", "100000"],
         {"PYLAYER_TEST_DRIVER_WITNESS": "", "PYLAYER_STORE": "{place}/of-long"}))  # fmt: skip
NONE = Moment("none", "", "no moment")
#: A long process may grow by so many KiB.
GROWTH = 16384


@dataclass
class Child:
    """A process, when it is to be killed, and what may become of it."""

    process: subprocess.Popen[bytes]
    what: str
    kill_at: float
    moment: Moment = NONE
    #: KiB of resident memory, descriptors and threads, seen once a second.
    seen: list[tuple[int, int, int]] = field(default_factory=list)
    hangs_at: float = field(default_factory=lambda: time.monotonic() + 120)

    def look(self) -> None:
        place = Path(f"/proc/{self.process.pid}")
        pages = int((place / "statm").read_text().split()[1])
        self.seen.append((pages * 4, len(os.listdir(place / "fd")), len(os.listdir(place / "task"))))


class Together:
    """One run. ``options``: kills and minutes, after which it ends, faults, jobs and seed."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self.options = options
        self.chance = random.Random(options.seed)
        self.bench = Bench(directory / "bench", SCENARIOS["more"])
        self.bench.renew()
        every = all_of("more", "test", self.bench.commands, self.bench.calls)
        self.moments = {kind: [one for one in every if one.kind in kind] for kind in (DEATHS, FAULTS)}
        self.place, self.world = self.bench.place, self.bench.world
        self.root = self.world.store = self.place / "store"
        self.policy, self.log = directory / "policy.yaml", directory / "log"
        self.world.environment["PYLAYER_STORE"] = str(self.root)
        self.programs = [self.place / name for name in ("first", "second", "third")]
        # Names of their own: a death in the driver leads to blocks for programs of the same name.
        for program in (*self.programs, self.place / "long"):
            shutil.copy(BUILD / "demo" / "pipelines", program)
        self.reader = StoreReader(self.root)
        self.stored: Content = {}
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.children: list[Child] = []
        self.long: list[Child] = []

    def require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.violations.append(otherwise)
            print(f"VIOLATION: {otherwise}", flush=True)

    # ---- processes -------------------------------------------------------------------------------

    def start(
        self, command: list[str], lives: float = 3600, moment: Moment = NONE, driver: str = "", **more: str
    ) -> Child:
        script = ";".join(filter(None, (SLOW_COMPILES, driver, moment.script)))
        more |= {"PYLAYER_CONFIG": str(self.policy), "PYLAYER_LOG": "error", "PYLAYER_TEST_DRIVER_COUNTS": ""}
        environment = self.world.environment_with(self.bench.environment(script, True, **more))
        prefix = [*tracer(), "/dev/null", str(self.place / "apart"), *moment.at, "--"] if moment.call else []
        # If its system calls fail, the interpreter may print errors. That log is not checked.
        with (self.log.with_suffix(".calls") if moment.call else self.log).open("ab") as log:
            process = subprocess.Popen(
                [*prefix, *command], env=environment, stdout=subprocess.DEVNULL, stderr=log, cwd=self.place
            )
        what = f"{' '.join(command)}, {moment.name}, with {driver!r}, {more.get('PYLAYER_TEST_STORAGE')}"
        return Child(process, what, time.monotonic() + lives, moment)

    def demo(self, program: Path, seed: int, *way: str | int) -> list[str]:
        return [str(program), *map(str, way), "--count", "20", "--seed", str(seed)]

    def start_program(self) -> None:
        pick, moment, more = self.chance, NONE, {}
        faults = self.options.faults
        if pick.random() < 0.3:
            moment = pick.choice(self.moments[DEATHS])
        elif faults and pick.random() < 0.5:
            moment = pick.choice(self.moments[FAULTS])
        elif faults and pick.random() < 0.5:
            more = {"PYLAYER_TEST_STORAGE": pick.choice(DISKS), "PYLAYER_TEST_STORAGE_ROOT": str(self.root)}
        driver = pick.choice(DRIVERS) if faults else ""
        command = self.demo(pick.choice(self.programs), pick.choice(SEEDS), *pick.choice(WAYS))
        lives = pick.uniform(0, 0.4) if pick.random() < 0.5 else 3600
        self.children.append(self.start(command, lives, moment, driver, **more))

    def start_compaction(self) -> None:
        process = compact_everything(self.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lives = self.chance.uniform(0, 0.5) if self.chance.random() < 0.5 else 3600
        self.children.append(Child(process, "a compaction", time.monotonic() + lives))

    def reap(self) -> None:
        """Kills what is due, and judges what has ended."""
        now = time.monotonic()
        for child in list(self.children):
            killed = now >= child.kill_at
            if child.process.poll() is None and not killed:
                self.require(now < child.hangs_at, f"{child.what} hangs")
                continue
            child.process.kill()
            status = child.process.wait()
            self.children.remove(child)
            if status in (-signal.SIGKILL, 128 + signal.SIGKILL):
                self.require(killed or child.moment.dies, f"{child.what} was killed")
                self.counts["killed"] += 1
                if not self.options.faults:
                    self.check_store()
            else:
                self.require(self.may_end(child.moment, status), f"{child.what} ended with {status}")
                self.counts["not met" if child.moment.call and status == 125 else "ended"] += 1

    def may_end(self, moment: Moment, status: int) -> bool:
        if status in CRASHES:
            return moment.may_crash
        return status == 0 or (status > 0 and moment is not NONE)

    # ---- what happens meanwhile --------------------------------------------------------------------

    def disturb(self) -> None:
        """Compacts, damages a file of the store or rewrites the policy file."""
        if not self.options.faults or self.chance.random() < 0.3:
            self.start_compaction()
        elif self.chance.random() < 0.3:
            self.policy.write_text(self.chance.choice(POLICIES))
        else:
            try:
                # Not files that a running process has mapped: truncating one takes memory from the process.
                files = [path for path in self.root.glob("store/*/*") if path.suffix not in (".tmp", ".live", "")]
                path = self.chance.choice(files)
                path.write_bytes(changed(self.chance, self.chance.choice(list(KINDS)), path.read_bytes()))
                self.counts["files damaged"] += 1
            except (OSError, IndexError, ValueError):
                pass  # compacted just now, or too short

    def run(self) -> None:
        end = time.monotonic() + self.options.minutes * 60
        for command, more in LONG if self.options.faults else ():
            own = {name: value.format(place=self.place) for name, value in more.items()}
            self.long.append(self.start(command, **own))
        disturbed = looked = time.monotonic()
        while time.monotonic() < end and self.counts["killed"] < self.options.kills:
            while len(self.children) < self.options.jobs:
                self.start_program()
            self.reap()
            if time.monotonic() > disturbed:
                self.disturb()
                disturbed = time.monotonic() + self.chance.uniform(0.2, 1.5)
            if time.monotonic() > looked:
                for child in self.long:
                    child.look()
                looked = time.monotonic() + 1
            time.sleep(0.02)
        for child in self.long:
            self.judge_long(child)
        while self.children:
            self.reap()
            time.sleep(0.02)

    # ---- what must hold --------------------------------------------------------------------------

    def judge_long(self, child: Child) -> None:
        """Requires that the process still runs, and did not grow between the second and the last quarter of the run."""
        self.require(child.process.poll() is None, f"{child.what} ended with {child.process.returncode}")
        child.process.kill()
        child.process.wait()
        first, second = (child.seen[len(child.seen) * at // 4 : len(child.seen) * (at + 1) // 4] for at in (1, 3))
        for name, index, more in (("KiB", 0, GROWTH), ("descriptors", 1, 0), ("threads", 2, 0)):
            most, least = (function(one[index] for one in part) for function, part in ((max, first), (min, second)))
            print(f"{child.what.split(',')[0]}: {most} {name}, later {least}")
            # A leak is never given back, so with one the later minimum is above the earlier maximum.
            self.require(least <= most + more, f"{child.what} has grown from {most} {name} to {least}")

    def check_store(self) -> None:
        """What was stored is there, and whole."""
        content, damage = self.reader.read()
        wrong = [str(what) for what in damage if not is_torn_tail(what)]
        for _ in range(5):
            if loses_nothing(self.stored, content):
                break
            # readdir may miss both a file that is being deleted and the one that takes its place.
            content, _ = self.reader.read()
        self.require(loses_nothing(self.stored, content), "records are gone")
        self.require(not wrong, f"damage: {wrong}")
        for key, digests in content.items():
            self.stored.setdefault(key, set()).update(digests)

    def finish(self) -> None:
        """The checks at the end."""
        self.policy.unlink(missing_ok=True)
        (self.finish_faults if self.options.faults else self.finish_kills)()
        said = [path.read_text(errors="replace") for path in (self.place / "apart" / "witness", self.log)]
        for line in dict.fromkeys("\n".join(said).splitlines()):
            self.require(not re.match("VIOLATION|Traceback|Fatal Python", line), line)

    def finish_kills(self) -> None:
        root = self.root
        compactions = [compact_everything(root) for _ in range(4)]
        while any(compaction.poll() is None for compaction in compactions):
            for claim in root.glob("store/*/compacting.*"):
                claim.unlink(missing_ok=True)
            time.sleep(0.001)
        self.require(not any(compaction.returncode for compaction in compactions), "a compaction failed")
        self.check_store()
        self.require(
            compact_everything(root).wait(300) == 0 and not not_compacted(root),
            f"left by a compaction: {not_compacted(root)}",
        )
        for path in root.rglob("*.tmp"):
            os.utime(path, (0, 0))
        maintenance.prune(str(root))
        self.require(not leftovers(root), f"left: {leftovers(root)}")
        self.check_store()
        for again in (False, True):
            store = Store(str(root))
            store.forget(store.block_list())  # of deaths in the driver
            shutil.rmtree(root / "runs", ignore_errors=True)
            for program in self.programs:
                for seed in SEEDS:
                    child = self.start(self.demo(program, seed))
                    self.require(child.process.wait(120) == 0, f"{child.what} ended with {child.process.returncode}")
            compiled = sum(run["counters"]["compiled"] for run in self.world.runs())
            self.require(not (again and compiled), f"{compiled} compiled")
        self.counts["records"] = sum(map(len, self.stored.values()))

    def finish_faults(self) -> None:
        """Without the files that were damaged on purpose everything verifies, and programs find it."""
        said = json.loads(self.world.pylayer("ls", "--verify", "--json", check=False).stdout)
        for problem in said["problems"]:
            Path(problem["file"]).unlink(missing_ok=True)
        self.world.pylayer("trim")
        said = json.loads(self.world.pylayer("ls", "--verify", "--json", check=False).stdout)
        self.require(said["fine"], f"without the damaged files there is {said['problems']}")
        self.counts["records"] = said["records"]
        self.world.demo("--count", 40)
        newest = self.world.runs()[-1]
        self.require(not newest["damaged_records"], f"the last run found damage: {newest['damage']}")


def together(directory: Path, options: argparse.Namespace) -> int:
    """Runs it, prints what came of it, and returns the exit status."""
    run = Together(directory, options)
    try:
        run.run()
        run.finish()
    finally:
        for child in [*run.long, *run.children]:
            child.process.kill()
    print(", ".join(f"{what}: {count:,}" for what, count in run.counts.items()))
    print(f"violations: {len(run.violations)}; again: the same command with --seed {options.seed}")
    return 1 if run.violations else 0
