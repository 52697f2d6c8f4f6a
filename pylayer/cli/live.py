"""What programs are doing now, from the files that they write anyway: for ``pylayer top``."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Any

from .. import flat
from ..store import owner
from ..store.files import read_small
from ..store.timeline import COMPILES, Event, Follower
from ..values import KIND_NAMES
from .output import printable
from .totals import Run, number_in

#: A program that ended is shown for so long after its last word; one that died, longer.
ENDED_SECONDS, DIED_SECONDS = 5.0, 60.0
#: Compilations that are remembered of each program.
REMEMBERED = 32

RUNNING, ENDED, DIED = "running", "ended", "died"


class Compile:
    """One compilation: when it ended, in seconds since 1970, and what it was."""

    def __init__(self, run: LiveRun, event: Event) -> None:
        self.event = event
        self.program = run.name
        self.at = run.started + (event.start_ns + event.duration_ns - run.started_ns) / 1e9
        self.kind = KIND_NAMES[event.kind] if event.kind < len(KIND_NAMES) else "?"
        self.thread = printable(run.follower.line.threads.get(event.thread, ""))
        self.entry_point = printable(event.text)

    def as_json(self) -> dict[str, Any]:
        """Everything, with units in key names."""
        return {
            "program": self.program,
            "time_s": self.at,
            "duration_ns": self.event.duration_ns,
            "kind": self.kind,
            "outcome": self.event.outcome,
            "fingerprint": f"{self.event.fingerprint:016x}",
            "pipelines": self.event.number,
            "thread": self.event.thread,
            "thread_name": self.thread,
            "entry_point": self.entry_point,
        }


class LiveRun:
    """A run on one device, as its files were when they were last looked at."""

    def __init__(self, root: str, name: str) -> None:
        self._path = os.path.join(root, "runs", name + ".run")
        self._seen = (0, 0)
        self._values: dict[str, Any] = {}
        self.changed = 0.0
        self.state = ENDED
        self.follower = Follower(root, name)
        self.compiles: deque[Compile] = deque(maxlen=REMEMBERED)

    def look(self, status: os.stat_result, now: float) -> None:
        """Reads what changed. ``status``: the file's; ``now``: seconds since 1970."""
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            self._seen, self.changed = seen, status.st_mtime
            try:
                self._values = flat.loads(read_small(self._path, 1 << 20).decode())
            except (OSError, ValueError):
                self._values = {}
        self.state = self._judge(now)

    def _judge(self, now: float) -> str:
        if number_in(self._values, "ended") or not number_in(self._values, "started_ns"):
            return ENDED
        try:
            machine = bytes.fromhex(str(self._values.get("machine", "")))
        except ValueError:
            return ENDED
        pid, ticks = int(number_in(self._values, "pid")), int(number_in(self._values, "start_ticks"))
        return DIED if owner.has_ended(machine, pid, ticks, now - self.changed) else RUNNING

    def is_shown(self, now: float) -> bool:
        """Whether it runs, or has ended only just now."""
        if self.state == RUNNING:
            return True
        return now - self.changed < (DIED_SECONDS if self.state == DIED else ENDED_SECONDS)

    def follow(self) -> None:
        """Takes what was compiled since the last call."""
        for event in self.follower.new():
            if event.type == "pipeline" and event.outcome in COMPILES:
                self.compiles.append(Compile(self, event))

    @property
    def run(self) -> Run:
        """The totals."""
        return Run(self._values)

    @property
    def name(self) -> str:
        """The program's name for people."""
        run = self.run
        return run.texts["program"] or printable(run.executable)

    @property
    def pid(self) -> int:
        """The process, in its own pid namespace."""
        return int(number_in(self._values, "pid"))

    @property
    def started(self) -> float:
        """Seconds since 1970."""
        return number_in(self._values, "started")

    @property
    def started_ns(self) -> float:
        """The same moment by CLOCK_MONOTONIC."""
        return number_in(self._values, "started_ns")

    def as_json(self) -> dict[str, Any]:
        """What the table shows, with units in key names."""
        run, numbers = self.run, self.run.numbers
        kinds = self._values.get("kinds")
        by_kind = kinds.values() if isinstance(kinds, dict) else ()
        return {
            "program": self.name,
            "pid": self.pid,
            "state": self.state,
            "started_s": self.started,
            "device": run.texts["device"],
            "carrier": run.texts["carrier"],
            "pipelines": numbers["pipelines"] + numbers["passed"],
            "hits": numbers["hits"],
            "compiled": int(sum(number_in(kind, "compiled") for kind in by_kind)),
            "compile_ns": int(sum(number_in(kind, "compile_ns") for kind in by_kind)),
            "queued": int(number_in(self._values, "queued")),
            "queued_bytes": int(number_in(self._values, "queued_bytes")),
            "stored_records": numbers["stored_records"],
            "stored_bytes": numbers["stored_bytes"],
            "refused_caches": sum(run.refused.values()),
        }


class Watch:
    """The runs of a store, looked at again and again."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._runs: dict[str, LiveRun] = {}

    def look(self) -> list[LiveRun]:
        """Runs that are to be shown: those that run first, the newest first."""
        now = time.time()
        there = set()
        try:
            with os.scandir(os.path.join(self.root, "runs")) as entries:
                for entry in entries:
                    name, dot, suffix = entry.name.rpartition(".")
                    if suffix != "run" or not dot:
                        continue
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    there.add(name)
                    if name not in self._runs:
                        self._runs[name] = LiveRun(self.root, name)
                    self._runs[name].look(status, now)
        except OSError:
            pass  # nothing was recorded yet
        self._runs = {name: run for name, run in self._runs.items() if name in there}
        shown = [run for run in self._runs.values() if run.is_shown(now)]
        for run in shown:
            run.follow()
        return sorted(shown, key=lambda run: (run.state != RUNNING, -run.started))
