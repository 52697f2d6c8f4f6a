"""Eight processes on one store for a while, and all that can go wrong meanwhile: `make soak`, or with options for less.

Three of them run from the start to the end, beside a fourth without the layer: their memory, files and threads must not
grow. The other four are short ones of several sorts, with faults of the scripted driver (tests/driver) and failing
disks (tests/storage), and some are killed. Meanwhile files of the store are damaged, the policy file is rewritten, and
the store is folded by others. tests/stress is about losing nothing; here things are damaged on purpose, and this is
asked:

- no process crashes or hangs that does not do so without the layer;
- none fails where its driver does not fail;
- the driver is never given a byte that it did not give out;
- the long ones' resident memory, descriptors and threads stay as they are;
- in the end every record of the store verifies, but those that were damaged on purpose.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from disk import LIBRARY, fold_everything
from rich.console import Console
from rich.table import Table
from world import BUILD, LAYER_NAME, World

SOAK = str(BUILD / "tests" / "soak")
DEMO = str(BUILD / "demo" / "pipelines")
LONG, SHORT = 4, 4
#: What the demo does for a short time.
WAYS = [
    ["--count", "20"],
    ["--count", "20", "--batch", "4", "--threads", "2"],
    ["--count", "20", "--cache", "object"],
    ["--count", "12", "--no-destroy"],
    ["--count", "6", "--gpl"],
    ["--count", "4", "--ray-tracing", "--deferred", "2"],
    ["--count", "8", "--repeat-instances", "3"],
    ["--count", "8", "--fork=create"],
]
MISSING = "create-binaries=missing?from-create-info"
#: Not among them: what makes the layer note in the store that the driver's cache is of no use, for all who come later
#: (get-data=stub, probes that never hit).
DRIVER_FAULTS = [
    "cache-control=no",
    "create-device=error:feature-not-present?cache-control",
    "create-cache=error:out-of-host-memory@4+",
    "create-cache=error:initialization-failed?data",
    "get-data=grow@1",
    "get-data=incomplete",
    "get-data=error:out-of-host-memory?data",
    "get-data=error:out-of-host-memory?data@7",
    "pipeline=error:out-of-device-memory?compile@5",
    "pipeline=error:unknown?chosen?!may-not-compile",
    "merge=error:out-of-device-memory",
    "merge=error:out-of-device-memory@3",
    "feedback=no",
    "feedback=no-hits",
    "create-cache=slow:2;get-data=slow:2;merge=slow:2",
    "deferral=to-join",
    "deferral=never",
    "binaries=no",
    "maintenance5=no",
    "create-device=error:feature-not-present?binaries",
    "internal-cache=no",
    "get-key=error:out-of-host-memory?!global",
    "get-key=error:unknown?global",
    MISSING,
    f"{MISSING}?fetch",
    "create-binaries=error:unknown?from-create-info",
    "create-binaries=error:out-of-host-memory?from-pipeline",
    "create-binaries=error:out-of-device-memory?from-data",
    "create-binaries=partial:1?fetch@3",
    "create-binaries=incomplete",
    "binary-data=error:unknown?data",
    "binary-data=grow",
    "pipeline=error:invalid-shader?from-binaries",
    "pipeline=error:out-of-device-memory?capture",
]
DISK_FAULTS = [
    "write:ENOSPC:after=20000",
    "write:ENOSPC",
    "write:EIO:nth=3",
    "write:SHORT=100:nth=2",
    "change:EROFS",
    "read:EIO:nth=4",
    "read:SHORT=7",
    "fsync:EIO",
    "rename:ENOSPC:nth=2",
    "open:EMFILE:from=20",
    "open:EACCES:nth=5",
    "mkdir:EACCES",
    "unlink:EIO",
    "truncate:EIO",
    "stat:ESTALE:nth=5",
    "dup:EMFILE",
]
DISK_KILLS = ["write:KILL:path=.journal:nth=3", "rename:KILL:nth=2", "unlink:KILL:nth=1", "write:KILL:path=.pack:nth=1"]
POLICIES: list[object] = [
    {"settings": {"carrier": "auto"}},
    {"settings": {"carrier": "cells"}},
    {"settings": {"carrier": "binaries"}},
    {"settings": {"application_caches": "strict"}},
    {"share": "all", "max_store_mib": 8},
    {"rules": [{"match": {"executable": "soak"}, "set": {"carrier": "off"}}]},
    "settings: {carrier: [",
    {"settings": {"carrier": "nonsense"}},
    "",
    None,
]


@dataclasses.dataclass
class Sample:
    """A process at one time: seconds since its start, KiB of resident memory, descriptors, threads."""

    at: float
    rss: int
    files: int
    threads: int


def sample(pid: int, at: float) -> Sample | None:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        files, threads = len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))
    except (OSError, IndexError):
        return None
    return Sample(at, pages * os.sysconf("SC_PAGE_SIZE") // 1024, files, threads)


@dataclasses.dataclass
class Child:
    """A process, and what may become of it."""

    process: subprocess.Popen[str]
    environment: dict[str, str]
    name: str
    number: int
    started: float
    deadline: float  # it hangs if it is there then
    kill_at: float | None = None
    may_fail: bool = False
    may_die: bool = False
    samples: list[Sample] = dataclasses.field(default_factory=list)

    @property
    def command(self) -> list[str]:
        return list(self.process.args)  # type: ignore[arg-type]


class Soak:
    """One soak."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self.options = options
        self.seconds = options.minutes * 60
        self.random = random.Random(options.seed)
        self.world = World(directory, "test")
        self.policy = directory / "policy.yaml"
        self.witness = directory / "witness"
        self.counts: Counter[str] = Counter()
        self.work: Counter[str] = Counter()
        self.violations: list[str] = []
        self.long: list[Child] = []
        self.store_bytes: list[int] = []
        self.short: dict[int, Child] = {}
        self.folders: list[subprocess.Popen[bytes]] = []
        self.number = 0

    def violation(self, text: str) -> None:
        self.violations.append(text)
        print(f"VIOLATION: {text}", flush=True)

    # ---- processes -------------------------------------------------------------------------------

    def start(self, command: list[str], name: str, seconds: float, faults: str = "", **more: str) -> Child:
        self.number += 1
        environment = {
            **self.world.environment,
            "VK_INSTANCE_LAYERS": LAYER_NAME,
            "PYLAYER_LOG": "error",
            "PYLAYER_CONFIG": str(self.policy),
            "PYLAYER_TEST_DRIVER": faults,
            "PYLAYER_TEST_DRIVER_WITNESS": str(self.witness),
            **more,
        }
        output = (self.world.directory / f"output-{self.number}").open("w+")
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True, cwd=self.world.directory
        )
        output.close()
        now = time.monotonic()
        return Child(process, environment, name, self.number, now, now + seconds + 120)

    def soak_command(self, seconds: float, slot: str, groups: int, threads: int) -> list[str]:
        files = self.world.directory / slot
        files.mkdir(exist_ok=True)
        return [SOAK, f"{seconds:.1f}", str(self.random.getrandbits(40)), str(files), str(groups), str(threads)]

    def start_long(self) -> None:
        for slot in range(LONG):
            command = self.soak_command(self.seconds, f"long-{slot}", 2, 2)
            alone = slot == LONG - 1
            # glibc keeps what each of its arenas needed at most, and which threads load the store changes from device
            # to device: arenas grow one after another, to 217 MiB in 200 s where one arena has 128. That is no leak.
            more = {"MALLOC_ARENA_MAX": "1"}
            if alone:
                more["VK_INSTANCE_LAYERS"] = ""
            # A driver without the layer must be given what it gave out too; but not by the layer's witness.
            name = "without the layer" if alone else f"long {slot + 1}"
            self.long.append(self.start(command, name, self.seconds, **more))

    def start_short(self, slot: int, left: float) -> None:
        pick = self.random
        seconds = min(pick.uniform(0.5, 6), left)
        command = self.soak_command(seconds, f"short-{slot}", 1, 3)
        if pick.random() < 0.4:
            command = [DEMO, *pick.choice(WAYS), "--seed", str(pick.randint(1, 9))]
        faults = pick.choice(DRIVER_FAULTS) if pick.random() < 0.6 else ""
        more, dies = {}, False
        if pick.random() < 0.4:
            dies = pick.random() < 0.3
            rule = pick.choice(DISK_KILLS if dies else DISK_FAULTS)
            more = {
                "LD_PRELOAD": str(LIBRARY),
                "PYLAYER_TEST_STORAGE": rule,
                "PYLAYER_TEST_STORAGE_ROOT": str(self.world.store),
            }
            self.counts["with a failing disk"] += 1
        child = self.start(command, f"short {slot + 1}", seconds, faults, **more)
        child.may_fail, child.may_die = bool(faults), dies
        self.counts["with a faulty driver"] += bool(faults)
        if pick.random() < 0.25:
            child.kill_at = child.started + pick.uniform(0, 3)
        self.short[slot] = child

    def crashes_alone(self, child: Child) -> bool:
        """Whether the driver, faults and all, does the same without the layer, in as long."""
        environment = child.environment | {"VK_INSTANCE_LAYERS": ""}
        lived = max(time.monotonic() - child.started, 10)
        for _ in range(5 if lived < 60 else 1):
            try:
                done = subprocess.run(child.command, env=environment, capture_output=True, timeout=lived + 60)
            except subprocess.TimeoutExpired:
                continue
            if done.returncode < 0:
                return True
        return False

    def output_of(self, child: Child) -> str:
        return (self.world.directory / f"output-{child.number}").read_text(errors="replace")

    def ended(self, child: Child) -> None:
        code = child.process.returncode
        output = self.output_of(child)
        what = f"{child.name}: {' '.join(child.command)} with {child.environment['PYLAYER_TEST_DRIVER']!r}"
        what += f", {child.environment.get('PYLAYER_TEST_STORAGE', 'a good disk')!r}"
        if code == -signal.SIGKILL and (child.kill_at is not None or child.may_die):
            self.counts["killed"] += 1
        elif code < 0:
            print(f"signal {-code}: {what}\n{output[-1000:]}", flush=True)
            if self.crashes_alone(child):
                self.counts["crashed, also without the layer"] += 1
            else:
                self.violation(f"{what} ended with signal {-code}\n{output[-1000:]}")
        elif code and not child.may_fail:
            self.violation(f"{what} ended with {code}\n{output[-1000:]}")
        else:
            self.counts["ended"] += 1
        if "Traceback" in output or "Fatal Python" in output:
            self.violation(f"{what}: {output[-2000:]}")
        if "pylayer: error" in output:
            self.counts["errors in the log"] += output.count("pylayer: error")
        for line in output.splitlines():
            if line.startswith('{"instances"'):
                self.work.update({name: count for name, count in json.loads(line).items() if name != "seed"})
        (self.world.directory / f"output-{child.number}").unlink()

    def judge_witness(self) -> None:
        """All processes write to one file: what the driver gave out to one of them is good for the others."""
        wrong = Counter(line for line in self.witness.read_text().splitlines() if line.startswith("VIOLATION"))
        for line, count in wrong.items():
            self.violation(f"{count} times {line}")

    def reap(self, slot: int) -> None:
        child = self.short[slot]
        now = time.monotonic()
        if child.kill_at is not None and now >= child.kill_at:
            child.process.kill()
            child.process.wait()
        if child.process.poll() is None and now > child.deadline:
            self.violation(f"{child.name} hangs: {child.command}")
            child.process.kill()
            child.kill_at = now
            child.process.wait()
        if child.process.poll() is not None:
            self.ended(child)
            del self.short[slot]

    # ---- what happens to the store ---------------------------------------------------------------

    def damage_a_file(self) -> None:
        # Not what a living process has mapped: who cuts that, cuts its memory.
        files = [path for path in self.world.store.glob("store/*/*") if path.suffix not in (".tmp", ".live", "")]
        if not files:
            return
        path = self.random.choice(files)
        try:
            with path.open("r+b") as file:
                size = file.seek(0, os.SEEK_END)
                place = self.random.randrange(max(size, 1))
                file.seek(place)
                how = self.random.choice(["bit", "random", "zeros", "cut"])
                if how == "bit":
                    byte = file.read(1) or b"\0"
                    file.seek(place)
                    file.write(bytes([byte[0] ^ 1 << self.random.randrange(8)]))
                elif how == "cut":
                    file.truncate(place)
                else:
                    length = min(self.random.randint(1, 5000), size - place)
                    file.write(self.random.randbytes(length) if how == "random" else bytes(length))
            self.counts["files damaged"] += 1
        except OSError:
            pass  # folded just now

    def rewrite_policy(self) -> None:
        policy = self.random.choice(POLICIES)
        if policy is None:
            self.policy.unlink(missing_ok=True)
        else:
            self.policy.write_text(policy if isinstance(policy, str) else json.dumps(policy))
        self.counts["policy files"] += 1

    def fold(self) -> None:
        self.folders.append(fold_everything(self.world.store, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self.counts["folds by others"] += 1
        for folder in self.folders:
            if folder.poll() is None and self.random.random() < 0.2:
                folder.kill()
        self.folders = [folder for folder in self.folders if folder.poll() is None]

    def disturb(self) -> None:
        happens = self.random.random()
        if happens < 0.5:
            self.damage_a_file()
        elif happens < 0.8:
            self.rewrite_policy()
        else:
            self.fold()

    # ---- the whole -------------------------------------------------------------------------------

    def run(self) -> None:
        start = time.monotonic()
        self.start_long()
        next_disturbance = next_sample = start + 1
        while (now := time.monotonic()) < start + self.seconds:
            for slot in range(SHORT):
                if slot in self.short:
                    self.reap(slot)
                else:
                    self.start_short(slot, start + self.seconds - now)
            if now >= next_disturbance:
                self.disturb()
                next_disturbance = now + self.random.uniform(0.2, 1.5)
            if now >= start + len(self.store_bytes) * self.seconds / 8:
                self.store_bytes.append(self.bytes_of_store())
            if now >= next_sample:
                for child in self.long:
                    if (taken := sample(child.process.pid, now - child.started)) is not None:
                        child.samples.append(taken)
                next_sample = now + min(1.0, self.seconds / 100)
            time.sleep(0.02)
        for child in [*self.long, *self.short.values()]:
            self.wait_for(child)
        for folder in self.folders:
            folder.wait(300)
        self.check_store()
        self.judge_witness()
        for child in self.long:
            self.judge_growth(child)

    def wait_for(self, child: Child) -> None:
        try:
            child.process.wait(max(child.deadline - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            self.violation(f"{child.name} hangs: {child.command}")
            child.kill_at = 0.0
            child.process.kill()
            child.process.wait()
        self.ended(child)

    def pylayer(self, *arguments: str) -> str:
        command = [str(Path(sys.executable).parent / "pylayer"), *arguments]
        done = subprocess.run(command, env=self.world.environment, capture_output=True, text=True, timeout=600)
        if done.returncode > 1 or "Traceback" in done.stderr:
            self.violation(f"{command} ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr}")
        return done.stdout

    def bytes_of_store(self) -> int:
        total = 0
        # os.walk, because Path.rglob raises over a folder that a fold removes meanwhile.
        for folder, _, names in os.walk(self.world.store):
            for name in names:
                with contextlib.suppress(OSError):  # folded just now
                    total += os.stat(os.path.join(folder, name)).st_size
        return total

    def check_store(self) -> None:
        """What was damaged on purpose is deleted; then everything verifies, and programs find it."""
        self.policy.unlink(missing_ok=True)
        for problem in json.loads(self.pylayer("ls", "--verify", "--json")).get("problems", ()):
            Path(problem["file"]).unlink(missing_ok=True)
        self.pylayer("trim")
        found = set(re.findall(r"^  ([a-z-]+)(?: at byte|:)", self.pylayer("ls", "--verify"), re.MULTILINE))
        if found:
            self.violation(f"without the damaged files there is {found}")
        said = json.loads(self.pylayer("ls", "--verify", "--json"))
        self.counts["records that verify in the end"] = int(said.get("records", 0))
        self.counts["bytes of the store in the end"] = self.bytes_of_store()
        sizes = ", ".join(f"{size >> 20}" for size in self.store_bytes)
        self.counts[f"store meanwhile: {sizes} MiB"] = len(self.store_bytes)
        last = self.start([DEMO, "--count", "40"], "last", 60)
        last.process.wait(120)
        self.ended(last)
        newest = self.world.runs()[-1]
        if newest["damaged_records"] or newest["counters"]["load_failed"]:
            self.violation(f"the last run found damage: {newest['damage']}")

    def during(self, child: Child, eighth: int) -> list[Sample]:
        """What was seen in this eighth of the time, or the nearest that was."""
        middle = (eighth + 0.5) * self.seconds / 8
        seen = [one for one in child.samples if abs(one.at - middle) <= self.seconds / 16]
        return seen or [min(child.samples, key=lambda one: abs(one.at - middle))]

    def judge_growth(self, child: Child) -> None:
        """In the second half of its life, when nearly all pipelines are in the store."""
        later = [one for one in child.samples if one.at > self.seconds / 2]
        if len(later) < 8:
            self.violation(f"{child.name} was seen {len(later)} times")
            return
        half = len(later) // 2
        slope = statistics.linear_regression([one.at for one in later], [one.rss for one in later]).slope
        grown = slope * (later[-1].at - later[0].at) / 1024
        eighths = [statistics.mean(one.rss for one in self.during(child, eighth)) for eighth in range(8)]
        line = f"{', '.join(f'{rss / 1024:.0f}' for rss in eighths)} MiB, then {slope * 60:+.0f} KiB a minute"
        files = max(one.files for one in later[:half]), min(one.files for one in later[half:])
        threads = max(one.threads for one in later[:half]), min(one.threads for one in later[half:])
        self.counts[f"{child.name}: {line}; {files[0]} files, {threads[0]} threads at most"] = len(later)
        if not child.environment["VK_INSTANCE_LAYERS"]:
            return
        if grown > self.options.growth:
            self.violation(f"{child.name} has grown by {grown:.1f} MiB: {line}")
        # What leaks is never given back: then the least is more than the most was.
        if files[1] > files[0] or threads[1] > threads[0]:
            self.violation(f"{child.name}: {files} descriptors, {threads} threads")

    def report(self, console: Console, seconds: float) -> int:
        table = Table(title=f"{LONG + SHORT} processes for {seconds:.0f} s, seed {self.options.seed}")
        table.add_column("what")
        table.add_column("count", justify="right")
        for name, count in [*sorted(self.work.items()), *sorted(self.counts.items())]:
            table.add_row(name, f"{count:,}")
        table.add_row("violations", str(len(self.violations)), style="red" if self.violations else "green")
        console.print(table)
        return 1 if self.violations else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="so long (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all random choices (the time)")
    parser.add_argument("--growth", type=float, default=16, help="MiB that a long process may grow (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the store where something is wrong")
    options = parser.parse_args()
    os.umask(0o077)
    directory = Path(tempfile.mkdtemp(prefix="pylayer-soak-"))
    start = time.monotonic()
    soak = Soak(directory, options)
    try:
        soak.run()
        return soak.report(Console(width=120), time.monotonic() - start)
    finally:
        for child in [*soak.long, *soak.short.values()]:
            child.process.kill()
        if options.keep and soak.violations:
            print(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
