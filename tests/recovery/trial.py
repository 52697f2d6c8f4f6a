"""One trial: a copy of a store, one run with a bad moment, clean runs, and how they differ from runs without it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from disk import LIBRARY
from radv import cache_entries
from recovery.beside import publish
from recovery.damage import STORED, damage
from recovery.moment import tracer
from recovery.moments import Moment, Scenario
from scripted_driver import read_counts
from world import LAYER_NAME, Run, World, seen

from pylayer.store import block_files, deaths, runs
from pylayer.store.block_list import ADDED_CALL
from pylayer.store.folder import Folder, identity_names, read_identity

#: A run that takes longer hangs.
RUN_SECONDS = 60
#: Exit statuses of a crash, of the program's own and of the tracer's about it.
CRASHES = [status for signal in (4, 6, 7, 11) for status in (-signal, 128 + signal)]
#: The clean runs after which all must be as if the moment had not been, and how many follow to say what lasts.
CLEAN_RUNS, MORE_RUNS = 2, 2
#: Of the driver's counters and the run's, those that say how pipelines were created.
DRIVER_COUNTERS = ("compiles", "hits", "from-binaries", "captured", "violations")
RUN_COUNTERS = (
    "pipelines", "hits", "application_hits", "compiled", "uncacheable", "plain", "passed", "failed",
    "events_dropped", "answers_late", "load_failed", "binary_hits", "deferred",
)  # fmt: skip
#: Files of which a run leaves one if it has something to say, and none otherwise.
OF_RUNS = {
    "closed": "records", "journal": "records", "pack": "records",
    "run": "runs", "attest": "histories", "state": "state",
}  # fmt: skip
#: Files that may stay until others delete them. docs/internals/reliability.md, "After one bad moment", has the reasons.
MAY_STAY = {
    **dict.fromkeys(("tmp", "unrecorded", "flat"), 1),
    **dict.fromkeys(("useless .attest", "useless state", "useless .unrecorded"), 1),
    "verdict": 2,
}
#: After a run with another value of a driver's variable, too: for the driver that is another device.
OF_ANOTHER_DEVICE = {"identity": 1, "plan": 1}
#: And what others leave that are no bad moment: what was pulled, the other program's own files.
OF_OTHERS = {
    "pull": {"index": 1, "state": 1, "pulled": 1, "records": 3},
    "program": dict.fromkeys(("records", "runs", "histories", "state", "plan"), 1000),
}


@dataclass
class State:
    """What a clean run was like, and what the store is like after it."""

    seen: dict[str, Any]
    driver: dict[str, int]
    run: dict[str, int]
    mode: str
    interpreter: bool
    lines: list[str]
    files: Counter[str]

    def differences(self, other: State, may_stay: dict[str, int]) -> list[str]:
        """How this differs from the state without the moment. ``may_stay``: how many files more there may be."""
        found = []
        for name in ("seen", "driver", "run", "mode", "interpreter", "lines"):
            mine, others = getattr(self, name), getattr(other, name)
            if mine == others:
                continue
            if isinstance(mine, dict):
                keys = [key for key in mine.keys() | others.keys() if mine.get(key) != others.get(key)]
                mine, others = {key: mine.get(key) for key in keys}, {key: others.get(key) for key in keys}
            found.append(f"{name} {mine} instead of {others}")
        more: Counter[str] = Counter()
        for kind in self.files.keys() | other.files.keys():
            more[OF_RUNS.get(kind, kind)] += self.files[kind] - other.files[kind]
        found += [f"{count} more {kind}" for kind, count in sorted(more.items()) if count > may_stay.get(kind, 0)]
        return found


@dataclass
class Outcome:
    """What came of a moment. ``came``: the run got to it."""

    moment: Moment
    came: bool
    wrong: list[str] = field(default_factory=list)
    #: Clean runs until nothing differed; 0 if something still did after the last.
    after: int = 0
    bad: str = ""
    #: Blocks that last by their rule, if they explain what was wrong.
    by_rule: list[str] = field(default_factory=list)


def kind_of(path: Path) -> str:
    """What sort of file of the store or beside it this is."""
    is_state = path.parent.name == "state" and path.suffix in (".journal", ".closed", ".pack")
    of_a_run = path.suffix in (".run", ".tmp")
    if not path.stat().st_size and not of_a_run:
        return f"useless {'state' if is_state else path.suffix or path.name}"
    return "state" if is_state else path.suffix[1:] or path.name


class Bench:
    """One scenario in a directory: the prepared store, and what runs on copies of it."""

    def __init__(self, directory: Path, scenario: Scenario) -> None:
        self.directory, self.scenario = directory, scenario
        directory.mkdir(parents=True)
        self.world = World(directory, scenario.driver)
        self.world.environment["NODEVICE_SELECT"] = "1"
        if scenario.settings:
            self.world.configure(**scenario.settings)
        #: Everything runs in one place, because a kept plan depends on the store's path.
        self.place, self.prepared = directory / "place", directory / "prepared"
        for name in ("", "run", "home", "apart", "apart/image"):
            (self.place / name).mkdir(mode=0o700)
        for arguments in scenario.before:
            self.run(arguments)
        self.place.rename(self.prepared)
        self.renew()  # what the program keeps in a run without the layer, the layer never sees
        self.alone = seen(Run.of(self.run(scenario.arguments, layered=False)[0]))
        #: Names of the driver's commands and how often a run without a moment makes them, and its system calls.
        self.commands, self.calls = self.dry_run()
        #: The states after clean runs that no bad moment preceded.
        self.baseline = self.undisturbed()

    def renew(self) -> None:
        """Makes the place as it was prepared."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.prepared, self.place, symlinks=True)

    # ---- runs ----------------------------------------------------------------------------------------

    def environment(self, script: str, layered: bool, **more: str) -> dict[str, str | None]:
        scripts = ";".join(part for part in (self.scenario.script, script) if part)
        driver = {
            "PYLAYER_TEST_DRIVER": scripts,
            "PYLAYER_TEST_DRIVER_WITNESS": str(self.place / "apart" / "witness"),
            "PYLAYER_TEST_DRIVER_COUNTS": str(self.place / "apart" / "counts"),
        }
        return {
            **(driver if self.scenario.driver == "test" else {}),
            "VK_INSTANCE_LAYERS": LAYER_NAME if layered else None,
            "PYLAYER_STORE": str(self.place / "store"),
            "XDG_RUNTIME_DIR": str(self.place / "run"),
            "HOME": str(self.place / "home"),
            "LD_PRELOAD": str(LIBRARY),
            "PYLAYER_TEST_WATCH": "",
            **more,
        }

    def run(
        self,
        arguments: tuple[str, ...],
        script: str = "",
        layered: bool = True,
        prefix: tuple[str, ...] = (),
        seconds: float = RUN_SECONDS,
        umask: int = -1,
        **more: str,
    ) -> tuple[subprocess.CompletedProcess[str], bool]:
        """Runs the program. Returns the finished process, and whether it had to be killed."""
        (self.place / "apart" / "counts").unlink(missing_ok=True)
        environment = self.world.environment_with(self.environment(script, layered, **more))
        command = [*prefix, *self.scenario.program, *arguments]
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.place,
            umask=umask,
        )
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            return subprocess.CompletedProcess(command, process.returncode, output, errors), True
        return subprocess.CompletedProcess(command, process.returncode, output, errors), False

    def clean(self, boot: Path | None = None, prefix: tuple[str, ...] = ()) -> State:
        """One clean run."""
        watch = self.place / "apart" / "watch"
        watch.unlink(missing_ok=True)
        more = {"PYLAYER_TEST_BOOT": str(boot)} if boot else {}
        before = self.names_of_runs()
        done, hangs = self.run(self.scenario.arguments, prefix=prefix, PYLAYER_TEST_WATCH=str(watch), **more)
        assert not hangs, "a clean run hangs"
        run = self.read_run(self.names_of_runs() - before)
        watched = watch.read_text() if watch.exists() else ""
        counts = read_counts(self.place / "apart" / "counts")
        return State(
            seen(Run.of(done)),
            {name: counts.get(name, 0) for name in DRIVER_COUNTERS},
            {name: run.get("counters", {}).get(name, 0) for name in RUN_COUNTERS},
            run.get("mode", "unknown"),
            "interpreter=1" in watched,
            [line for line in done.stderr.splitlines() if line.startswith(("pylayer: ", "Traceback"))],
            self.files(),
        )

    def names_of_runs(self) -> set[Path]:
        return set((self.place / "store" / "runs").glob("*.run"))

    def read_run(self, paths: set[Path]) -> dict[str, Any]:
        """The statistics of the run that left this file. The newest ones may be another's, by its clock."""
        for path in paths:
            values = runs.read(str(self.place / "store"), path.stem)
            if not values.get("died"):  # written for the run with the moment
                return values
        return {}

    def files(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for folder in ("store", "run"):
            for path in (self.place / folder).rglob("*"):
                with contextlib.suppress(FileNotFoundError):
                    if path.is_file():
                        found[kind_of(path)] += 1
        return found

    def undisturbed(self) -> list[State]:
        self.renew()
        self.run(self.scenario.arguments)
        return [self.clean() for _ in range(CLEAN_RUNS + MORE_RUNS)]

    def dry_run(self) -> tuple[dict[str, int], list[str]]:
        self.renew()
        self.run(self.scenario.arguments)
        commands = read_counts(self.place / "apart" / "counts")
        shutil.copytree(self.place / "store", self.directory / "published")
        # What is pulled later was given out, too.
        shutil.copy2(self.place / "apart" / "witness", self.prepared / "apart") if commands else None
        self.renew()
        log = self.place / "apart" / "calls"
        self.run(self.scenario.arguments, prefix=(*tracer(), str(log), str(self.place / "apart"), "--"))
        text = log.read_text(errors="replace").replace(str(self.place), "")
        return commands, [line for line in text.splitlines() if line[0].isdigit()]

    @contextlib.contextmanager
    def others(self, moment: Moment) -> Iterator[None]:
        """What others do with the store meanwhile."""
        if not moment.beside:
            yield
            return
        if moment.beside == "pull" and not (self.directory / "www").exists():
            publish(self.directory / "published", self.directory / "www")
        environment = self.world.environment_with(self.environment("", layered=True))
        command = [sys.executable, "-P", str(Path(__file__).parent / "beside.py"), moment.beside, str(self.place)]
        with (self.directory / "others").open("a") as errors:
            others = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
            assert others.stdin and others.stdout and others.stdout.readline() == b"begun\n"
            yield
            others.stdin.close()
            assert others.wait(RUN_SECONDS) == 0, f"{moment.beside} fails: see {errors.name}"

    # ---- a trial -------------------------------------------------------------------------------------

    def bad_run(self, moment: Moment) -> tuple[subprocess.CompletedProcess[str], bool]:
        """The run with the moment, and whether it came to it."""
        log = self.place / "apart" / "calls"
        prefix = tuple(moment.prefix)
        if moment.call or moment.reboot:
            prefix = (*tracer(), str(log), str(self.place / "apart"), *moment.at, "--")
        more = dict(moment.variables)
        if moment.ahead:
            root = str(self.place)
            more |= {"PYLAYER_TEST_STORAGE": f"clock:BACK={-moment.ahead}", "PYLAYER_TEST_STORAGE_ROOT": root}
        with self.others(moment):
            done, killed = self.run(
                (*self.scenario.arguments, *moment.arguments), moment.script, prefix=prefix,
                seconds=moment.seconds or RUN_SECONDS, umask=moment.umask, **more,
            )  # fmt: skip
        came = not (moment.call and done.returncode == 125)
        if moment.script:
            came = read_counts(self.place / "apart" / "counts").get("acts", 0) > 0 and came
        if killed and not moment.seconds:
            came = True
            done.stderr += "\nmoment: the run with the bad moment hangs"
        return done, came

    def trial(self, moment: Moment) -> Outcome:
        """Tries one moment."""
        self.renew()
        if moment.damage:
            return self.damaged(moment)
        before = {path: path.stat() for path in self.place.rglob("*")}
        done, came = self.bad_run(moment)
        outcome = Outcome(moment, came, bad=f"exit {done.returncode}: {done.stderr.strip()[-600:]}")
        if came:
            self.after_bad_run(moment, before)
            if "the run with the bad moment hangs" in done.stderr:
                outcome.wrong.append("the run with the bad moment hangs")
            if done.returncode in CRASHES and not moment.may_crash:
                outcome.wrong.append(f"the run with the bad moment crashes: {done.returncode}")
            self.follow(moment, outcome)
        return outcome

    def damaged(self, moment: Moment) -> Outcome:
        """Tries a moment that damages files. Nothing of it may reach the driver or its cache, and what it cost is
        stored again."""
        outcome = Outcome(moment, came=damage(self.place, *moment.damage) > 0)
        if moment.damage and moment.damage[0] in STORED:
            outcome.wrong += self.warmed()
        for number in range(1 + CLEAN_RUNS):
            state = self.clean()
            if state.seen != self.alone:
                outcome.wrong.append(f"run {number + 1}: the program sees {state.seen}, alone {self.alone}")
            if state.driver["violations"] or any(line.startswith("Traceback") for line in state.lines):
                outcome.wrong.append(f"run {number + 1}: {state.driver}, {state.lines}")
        if state.run["compiled"] > self.baseline[CLEAN_RUNS - 1].run["compiled"]:
            outcome.wrong.append(f"compiled {state.run['compiled']} in the last run")
        outcome.after = 0 if outcome.wrong else CLEAN_RUNS
        return outcome

    def warmed(self) -> list[str]:
        """Fills an empty cache of the driver's from the store (`pylayer warm`). Returns what is wrong with that, or
        with the program that then runs without the layer. Pipelines that it finds are those that it would compile."""
        witness = self.place / "apart" / "witness"
        before = witness.read_text().count("VIOLATION") if witness.exists() else 0
        cache = {"MESA_SHADER_CACHE_DIR": str(self.place / "apart" / "mesa"), "MESA_SHADER_CACHE_DISABLE": "false"}
        environment = self.world.environment_with(self.environment("", layered=False, **cache))
        command = [sys.executable, "-P", "-m", "pylayer", "warm"]
        done = subprocess.run(
            command, env=environment, cwd=self.place, capture_output=True, text=True, timeout=RUN_SECONDS
        )
        wrong = []
        if done.returncode not in (0, 1) or done.stderr or "crashed" in done.stdout:
            wrong.append(f"warm ended with {done.returncode}: {done.stdout}{done.stderr}")
        if witness.exists() and witness.read_text().count("VIOLATION") > before:
            wrong.append("warm gave the driver what the driver had not returned")
        if self.scenario.driver == "test":
            return wrong
        outputs = []
        for more in (cache, {}):
            own = self.place / "apart" / "own"
            arguments = (*self.scenario.arguments, "--cache", "object", "--cache-save", str(own))
            found, _ = self.run(arguments, layered=False, **more)
            outputs.append((seen(Run.of(found)), own.read_bytes() if own.exists() else b""))
        (warmed, data), (alone, compiled) = outputs
        if warmed != alone or cache_entries(data) != cache_entries(compiled):
            wrong.append(f"after warm the program sees {warmed}, and has {len(data)} bytes of its own")
        return wrong

    def after_bad_run(self, moment: Moment, before: dict[Path, os.stat_result]) -> None:
        """What a reboot or a wrong clock leaves beside the bad run's files."""
        changed = [
            path
            for path in self.place.rglob("*")
            if path not in before or before[path].st_mtime_ns != path.stat().st_mtime_ns
        ]
        for path in changed if moment.ahead else ():
            when = time.time() + moment.ahead
            os.utime(path, (when, when))
        if moment.reboot:
            (self.place / "boot").write_text("b0b0b0b0-0000-4000-8000-000000000001\n")
            self.lose_power(changed, before)
            for path in (self.place / "run").rglob("*"):  # a tmpfs
                path.unlink() if path.is_file() else None

    def lose_power(self, changed: list[Path], before: dict[Path, os.stat_result]) -> None:
        """Takes away what was written and not synced, as file systems do that write names before data."""
        log = self.place / "apart" / "calls"
        synced = {tuple(map(int, line.split()[1:])) for line in log.read_text().splitlines() if line[0] == "s"}
        for path in changed:
            if path.is_file() and path.is_relative_to(self.place / "store"):
                found = path.stat()
                if (found.st_dev, found.st_ino) not in synced:
                    os.truncate(path, min(found.st_size, before[path].st_size if path in before else 0))

    def follow(self, moment: Moment, outcome: Outcome) -> None:
        boot = self.place / "boot" if moment.reboot else None
        stored = 1  # how many runs more than without the moment had something to say
        differences: list[str] = []
        for number in range(CLEAN_RUNS + MORE_RUNS):
            records = any((self.place / "store" / "state").glob("*.unrecorded"))
            state = self.clean(boot, moment.later)
            if records:  # what a run before it compiled, for which it needs policy
                state.interpreter = self.baseline[number].interpreter
            stored += records or state.run["compiled"] > self.baseline[number].run["compiled"]
            if state.seen != self.alone:
                outcome.wrong.append(f"clean run {number + 1}: the program sees {state.seen}, alone {self.alone}")
            if number + 1 < CLEAN_RUNS:
                continue
            may_stay = MAY_STAY | dict.fromkeys(OF_RUNS.values(), stored)
            if moment.variables:
                may_stay |= OF_ANOTHER_DEVICE
            may_stay |= OF_OTHERS.get(moment.beside, {})
            now = state.differences(self.baseline[number], may_stay)
            if not now:
                outcome.after = number + 1
                break
            differences = differences or now
        if outcome.after != CLEAN_RUNS:
            outcome.wrong += differences
        if outcome.wrong and moment.dies:
            outcome.by_rule = self.verdicts_by_rule()

    def verdicts_by_rule(self) -> list[str]:
        """Blocks in force to which one death leads, and which no later run ends: about calls that the layer adds."""
        root = str(self.place / "store")
        found = []
        for name in identity_names(root):
            identity = read_identity(root, name)
            if identity is None:
                continue
            folder = Folder(root, identity)
            entries = list(deaths.of_everyone(folder).entries.values())
            for known in block_files.read_all(folder).values():
                entries += known.entries.values()
            found += [one.rule.name for one in entries if one.type == ADDED_CALL and one.holds(time.time())]
        return found
