"""Many processes at once on one store: `make stress` and `make soak`, or with options for less.

Copies of the demo program create pipelines, overlapping and their own ones. Many are killed, some of them before a
certain file operation (tests/storage). Others compact everything meanwhile, and are killed as well. Then:

- a record that was there once is there for its program for ever, and nothing is damaged but the torn ends of journals;
- in the end four compacts at once, which take each other's claims, lose nothing and leave no journal;
- each program with each seed compiles nothing that was stored.

With ``--faults`` the driver (tests/driver) and the disk fail, files of the store are damaged, and the policy file is
rewritten. Then these are asked instead:

- no process crashes or hangs, and none fails where its driver does not fail;
- memory, descriptors and threads of processes that run from the start to the end do not grow;
- in the end, without the files that were damaged on purpose, every record in the store verifies.

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
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from disk import (
    LIBRARY,
    Content,
    StoreReader,
    compact_everything,
    is_torn_tail,
    leftovers,
    loses_nothing,
    not_compacted,
)
from recovery.damage import KINDS, changed
from world import BUILD, SLOW_COMPILES, World

from pylayer.store import maintenance
from pylayer.store.store import Store

SEEDS = range(1, 10)
WAYS = (
    (), ("--compute",), ("--batch", "8"), ("--threads", "3"), ("--cache", "object"), ("--no-destroy",),
    ("--no-destroy", "--exit", "exit"), ("--gpl",), ("--ray-tracing", "--deferred", "2"),
    ("--repeat-instances", "3"),
)  # fmt: skip
#: Where a process is killed: in the middle of a write, or before another file operation.
KILLS = (
    "write:SHORT={size}:path=.journal:nth={number},write:KILL:path=.journal:nth={number}", "rename:KILL:nth={number}",
    "unlink:KILL:nth={number}", "fsync:KILL:nth={number}", "write:KILL:path=.pack:nth={number}",
    "rename:KILL:path=.pack:nth={number}",
)  # fmt: skip
DRIVER_FAULTS = (
    "cache-control=no", "create-device=error:feature-not-present?cache-control",
    "create-cache=error:out-of-host-memory@4+", "create-cache=error:initialization-failed?data", "get-data=grow@1",
    "get-data=incomplete", "get-data=error:out-of-host-memory?data@7", "pipeline=error:unknown?chosen?!may-not-compile",
    "pipeline=error:out-of-device-memory?compile@5", "merge=error:out-of-device-memory@3", "feedback=no-hits",
    "create-cache=slow:2;get-data=slow:2;merge=slow:2", "deferral=to-join", "deferral=never", "binaries=no",
    "maintenance5=no", "create-device=error:feature-not-present?binaries", "get-key=error:unknown?global",
    "create-binaries=error:out-of-device-memory?from-data", "create-binaries=incomplete", "binary-data=grow",
    "pipeline=error:invalid-shader?from-binaries", "pipeline=error:out-of-device-memory?capture",
)  # fmt: skip
DISK_FAULTS = (
    "write:ENOSPC:after=20000", "write:EIO:nth=3", "write:SHORT=100:nth=2", "change:EROFS", "read:EIO:nth=4",
    "read:SHORT=7", "fsync:EIO", "rename:ENOSPC:nth=2", "open:EMFILE:from=20", "open:EACCES:nth=5", "mkdir:EACCES",
    "unlink:EIO", "truncate:EIO", "stat:ESTALE:nth=5", "dup:EMFILE",
)  # fmt: skip
POLICIES = (
    '{"settings": {"mode": "cells"}}', '{"settings": {"mode": "binaries"}}', '{"max_store_mib": 8}',
    '{"settings": {"application_caches": "strict"}}', '{"settings": {"mode": "nonsense"}}', "settings: {mode: [",
)  # fmt: skip
#: Programs that create and destroy pipelines, or instances and devices, until they are ended.
LONG = ((str(BUILD / "bench" / "threads"), "2", "hits", "none", "2000", "100000"),
        ("./long", "--count", "1", "--repeat-instances", "100000"))  # fmt: skip


@dataclass
class Child:
    """A process, when it is to be killed, and what may become of it."""

    process: subprocess.Popen[bytes]
    what: str
    kill_at: float
    hangs_at: float
    may_fail: bool = False
    may_die: bool = False
    #: KiB of resident memory, descriptors and threads, seen once a second.
    seen: list[tuple[int, int, int]] = field(default_factory=list)

    def look(self) -> None:
        place = Path(f"/proc/{self.process.pid}")
        pages = int((place / "statm").read_text().split()[1])
        self.seen.append((pages * 4, len(os.listdir(place / "fd")), len(os.listdir(place / "task"))))


class Soak:
    """One run."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self.options = options
        self.chance = random.Random(options.seed)
        self.world = World(directory, "test")
        self.policy = directory / "policy.yaml"
        self.witness, self.log = directory / "witness", directory / "log"
        self.programs = [directory / name for name in ("first", "second", "third")]
        # Of deaths in the driver, with which kills end, others of the same name would learn.
        for program in (*self.programs, directory / "long"):
            shutil.copy(BUILD / "demo" / "pipelines", program)
        self.reader = StoreReader(self.world.store)
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
        self, command: list[str], lives: float = 3600, script: str = SLOW_COMPILES, disk: str = "", **more: str
    ) -> Child:
        environment = self.world.environment | {
            "PYLAYER_LOG": "error",
            "PYLAYER_CONFIG": str(self.policy),
            "PYLAYER_TEST_DRIVER": script,
            "PYLAYER_TEST_DRIVER_WITNESS": str(self.witness),
        }
        if disk:
            environment |= {"LD_PRELOAD": str(LIBRARY), "PYLAYER_TEST_STORAGE": disk}
            environment |= {"PYLAYER_TEST_STORAGE_ROOT": str(self.world.store)}
        environment |= more
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=log, cwd=self.world.directory
            )
        now = time.monotonic()
        what = f"{' '.join(command)} with {script!r}, {disk!r}"
        return Child(process, what, now + lives, now + 120, may_fail=script != SLOW_COMPILES, may_die=":KILL" in disk)

    def demo(self, program: Path, seed: int, *way: str) -> list[str]:
        return [str(program), "--count", "20", "--seed", str(seed), *way]

    def start_program(self) -> None:
        pick = self.chance
        script = disk = ""
        if pick.random() < 0.3:
            disk = pick.choice(KILLS).format(size=pick.randint(1, 6000), number=pick.randint(1, 4))
        elif self.options.faults and pick.random() < 0.5:
            disk = pick.choice(DISK_FAULTS)
        if self.options.faults and pick.random() < 0.5:
            script = f";{pick.choice(DRIVER_FAULTS)}"
        command = self.demo(pick.choice(self.programs), pick.choice(SEEDS), *pick.choice(WAYS))
        lives = pick.uniform(0, 0.4) if pick.random() < 0.5 else 3600
        self.children.append(self.start(command, lives, SLOW_COMPILES + script, disk))

    def start_compaction(self) -> None:
        process = compact_everything(self.world.store, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        now = time.monotonic()
        lives = self.chance.uniform(0, 0.5) if self.chance.random() < 0.5 else 3600
        self.children.append(Child(process, "a compaction", now + lives, now + 120))

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
            if status == -signal.SIGKILL:
                self.require(killed or child.may_die, f"{child.what} was killed")
                self.counts["killed"] += 1
                if not self.options.faults:
                    self.check_store()
            else:
                good = status == 0 or (status > 0 and child.may_fail)
                self.require(good, f"{child.what} ended with {status}")
                self.counts["ended"] += 1

    # ---- what happens meanwhile --------------------------------------------------------------------

    def disturb(self) -> None:
        """Compacts, damages a file of the store or rewrites the policy file."""
        if not self.options.faults or self.chance.random() < 0.3:
            self.start_compaction()
        elif self.chance.random() < 0.3:
            self.policy.write_text(self.chance.choice(POLICIES))
        else:
            try:
                # Not what a living process has mapped: cutting that cuts its memory.
                files = [
                    path for path in self.world.store.glob("store/*/*") if path.suffix not in (".tmp", ".live", "")
                ]
                path = self.chance.choice(files)
                path.write_bytes(changed(self.chance, self.chance.choice(list(KINDS)), path.read_bytes()))
                self.counts["files damaged"] += 1
            except (OSError, IndexError, ValueError):
                pass  # compacted just now, or too short

    def run(self) -> None:
        end = time.monotonic() + self.options.minutes * 60
        for command in LONG if self.options.faults else ():
            # The witness keeps a descriptor each time that the driver is loaded.
            self.long.append(self.start(list(command), PYLAYER_TEST_DRIVER_WITNESS=""))
        disturbed = looked = time.monotonic()
        while time.monotonic() < end and self.counts["killed"] < self.options.kills:
            while len(self.children) < self.options.processes:
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
        """It lives, and between its second and its last quarter it has not grown."""
        self.require(child.process.poll() is None, f"{child.what} ended with {child.process.returncode}")
        child.process.kill()
        child.process.wait()
        first, second = (child.seen[len(child.seen) * at // 4 : len(child.seen) * (at + 1) // 4] for at in (1, 3))
        for name, index, more in (("KiB", 0, self.options.growth), ("descriptors", 1, 0), ("threads", 2, 0)):
            most, least = (function(one[index] for one in part) for function, part in ((max, first), (min, second)))
            print(f"{child.what.split(' with ')[0]}: {most} {name}, later {least}")
            # What leaks is never given back: then the least is more than the most was.
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
        lines = [line for path in (self.witness, self.log) for line in path.read_text(errors="replace").splitlines()]
        for line in dict.fromkeys(line for line in lines if re.match("VIOLATION|Traceback|Fatal Python", line)):
            self.require(False, line)

    def finish_kills(self) -> None:
        root = self.world.store
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", action="store_true", help="the driver and the disk fail, files are damaged")
    parser.add_argument("--minutes", type=float, default=60, help="no longer than this (%(default)s)")
    parser.add_argument("--kills", type=int, default=1 << 30, help="so many processes are killed (as many as can be)")
    parser.add_argument("--processes", type=int, default=4, help="so many run at a time (%(default)s)")
    parser.add_argument("--growth", type=int, default=16384, help="KiB that a long process may grow (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all random choices (the time)")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="pylayer-soak-", ignore_cleanup_errors=True) as directory:
        soak = Soak(Path(directory), options)
        try:
            soak.run()
            soak.finish()
        finally:
            for child in [*soak.long, *soak.children]:
                child.process.kill()
    print(", ".join(f"{what}: {count:,}" for what, count in soak.counts.items()))
    print(f"violations: {len(soak.violations)}")
    return 1 if soak.violations else 0


if __name__ == "__main__":
    sys.exit(main())
