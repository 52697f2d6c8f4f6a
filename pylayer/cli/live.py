"""What programs are doing now, for ``pylayer stats --watch``. It reads only the files that they write anyway."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ..report import late_frames
from ..report.recorded import Run, number_in
from ..report.remarks import unknown
from ..report.totals import Total
from ..report.words import FRAME_NS, printable
from ..store import runs
from ..store.store import Store
from ..store.timeline import Follower
from ..values import KIND_NAMES

if TYPE_CHECKING:
    from ..store.store import Event

#: A program that ended is shown for this long after its last write. One that died is shown longer.
ENDED_SECONDS, DIED_SECONDS = 5.0, 60.0
#: Number of compilations that are remembered for each program.
REMEMBERED = 200
#: Number of events and frames in which the last late frame is searched for.
SEARCHED = 2000
#: Seconds over which rates are measured. Programs write frames every 5 s if nothing else happens.
RATED = 6.0


class LiveRun:
    """A run on one device, as its files were at the last look."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._seen = (0, 0)
        self._values: dict[str, Any] = {}
        self.run = Run({})
        self.changed = 0.0
        self.state = "ended"
        self.follower = Follower(store.root, name)
        self.compiles: deque[dict[str, Any]] = deque(maxlen=REMEMBERED)
        #: What the last late frame was, for people; empty if there was none, or the run has no timeline.
        self.last_late = ""
        self._events: deque[Event] = deque(maxlen=SEARCHED)
        #: When the run had how many frames and compiles.
        self._counts: deque[tuple[float, int, int]] = deque()

    def look(self, status: os.stat_result, now: float) -> None:
        """Reads the run's file if it changed, or may change in mapped memory. ``status`` is the file's; ``now`` is in
        seconds since 1970."""
        seen, before = (status.st_mtime_ns, status.st_ino), self._seen
        if seen != self._seen or self.run.alive:
            if seen != self._seen:
                self._seen, self.changed = seen, status.st_mtime
            try:
                self._values = runs.read(self._store.root, self._name)
            except (OSError, ValueError):
                self._values = {}
            self.run = Run(self._values)
            if self.run.alive:
                self.changed = now
        self.state = self.run.state_after(now - self.changed)
        self._count(now if seen == before else status.st_mtime)

    def _count(self, when: float) -> None:
        """Notes how many frames and compiles there were. Policy counts only as often as it writes the file, so the same
        numbers mean nothing until it would have written others."""
        counts = (self.run.numbers["frames"], self.run.compiled)
        last = self._counts[-1] if self._counts else (0.0, -1, -1)
        if when > last[0] + (RATED if counts == last[1:] else 0):
            self._counts.append((when, *counts))
        while len(self._counts) > 2 and self._counts[1][0] <= when - RATED:
            self._counts.popleft()

    def rates(self) -> tuple[float | None, float | None]:
        """Returns frames and compiles a second. None is unknown, as until the run was seen twice."""
        if self.state != "running" or len(self._counts) < 2:
            return None, None
        first, last = self._counts[0], self._counts[-1]
        seconds = last[0] - first[0]
        compiles = None if self.run.unknown_pipelines else (last[2] - first[2]) / seconds
        return (last[1] - first[1]) / seconds, compiles

    def is_shown(self, now: float) -> bool:
        """Returns whether the run is still running or ended only recently. A file without a run is not shown: a
        sentinel counts none as long as the program's first plan is not there."""
        if not self._values:
            return False
        if self.state == "running":
            return True
        return now - self.changed < (DIED_SECONDS if self.state == "died" else ENDED_SECONDS)

    def follow(self) -> None:
        """Reads what was compiled since the last call."""
        line = self.follower.line
        seen = sum(len(times) for times, *_ in line.presents.values())
        for event in self.follower.new():
            if event.type in late_frames.HOLDS_UP:
                self._events.append(event)
            if event.may_be_compile:
                self.compiles.append(self._compile(event))
        if sum(len(times) for times, *_ in line.presents.values()) == seen:
            return
        line.events = list(self._events)
        late = late_frames.late(line, FRAME_NS)
        if late:
            self.last_late = late_frames.sentence(late[-1], line)
        for columns in line.presents.values():
            for column in columns:
                del column[:-SEARCHED]

    def _compile(self, event: Event) -> dict[str, Any]:
        """Describes one compilation, with the time when it ended."""
        after_start_ns = event.start_ns + event.duration_ns - number_in(self._values, "started_ns")
        return {
            "program": self.run.title,
            "time_s": self.run.started + after_start_ns / 1e9,
            "duration_ns": event.duration_ns,
            "kind": KIND_NAMES[event.kind] if event.kind < len(KIND_NAMES) else "?",
            "outcome": event.outcome,
            "fingerprint": f"{event.fingerprint:016x}",
            "pipelines": event.number,
            "thread": event.thread,
            "thread_name": printable(self.follower.line.threads.get(event.thread, "")),
            "entry_point": printable(event.text),
            "name": printable(self.follower.line.name_of(event.fingerprint)),
        }

    def as_json(self) -> dict[str, Any]:
        """Returns what the table shows, with units in key names."""
        run, numbers = self.run, self.run.numbers
        return {
            "program": run.title,
            "pid": run.pid,
            "state": self.state,
            "started_s": run.started,
            "device": run.texts["device"],
            "carrier": run.texts["carrier"],
            **run.shown(),
            "why_unknown": "".join(unknown(Total([run]))),
            **dict(zip(("frames_per_second", "compiles_per_second"), self.rates(), strict=True)),
            "frames": numbers["frames"] or None,
            "late_frames": numbers["late_frames"] if numbers["frames"] else None,
            "last_late_s": numbers["last_late_s"] or None,
            "last_late": self.last_late,
            "queued": int(number_in(self._values, "queued")),
            "queued_bytes": int(number_in(self._values, "queued_bytes")),
            "stored_records": numbers["stored_records"],
            "stored_bytes": numbers["stored_bytes"],
        }


class Watch:
    """The runs of a store, read again at each look."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[str, LiveRun] = {}

    def look(self) -> list[LiveRun]:
        """Returns the runs to show."""
        now = time.time()
        there = {}
        for name, status in runs.files(self._store.root).items():
            there[name] = self._runs.get(name) or LiveRun(self._store, name)
            there[name].look(status, now)
        self._runs = there
        shown = [run for run in there.values() if run.is_shown(now)]
        for run in shown:
            run.follow()
        return shown
