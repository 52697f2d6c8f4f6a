"""Recorded runs: finds those that a person names, and what is known of each."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from ..store.store import Store
from .totals import Run, number_in
from .words import printable

if TYPE_CHECKING:
    from ..store.store import Timeline

#: NAME~N: the Nth run before the newest.
_BEFORE = re.compile(r"(?P<name>.*?)(?:~(?P<before>\d{1,4}))?", re.DOTALL | re.ASCII)


class NoSuchRun(LookupError):
    """There is no run of this name. The text says how to find the names."""


class Recorded:
    """One run of a program on one device."""

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name = printable(name)
        self.values = values
        self.run = Run(values)
        self.pid, self.started, self.ended = self.run.pid, self.run.started, self.run.ended
        self.started_ns = int(number_in(values, "started_ns"))
        self._timeline: Timeline | None = None
        self._timeline_read = False

    @property
    def process(self) -> tuple[Any, ...]:
        """A key that is equal for the runs of one process, which has one run for each device."""
        return self.run.process or (self.name,)

    @property
    def program(self) -> tuple[str, str]:
        """The key by which the store distinguishes programs."""
        return self.run.executable, self.run.application

    @property
    def title(self) -> str:
        """The program's name for people."""
        return self.run.title

    @property
    def state(self) -> str:
        """The state, as ``Run.state`` returns it."""
        return self.run.state(max(0.0, time.time() - self.started))

    def timeline(self, root: str) -> Timeline | None:
        """Returns the run's timeline; None if none was recorded or it was deleted since."""
        if not self._timeline_read:
            self._timeline = Store(root).timeline(self.name)
            self._timeline_read = True
        return self._timeline


def read(root: str) -> list[Recorded]:
    """Returns every run in the store that can be read, oldest first."""
    found = [Recorded(name, values) for name, values in Store(root).named_runs()]
    return sorted(found, key=lambda run: run.run.date)


def _processes(found: list[Recorded]) -> list[list[Recorded]]:
    """Returns runs by process, the newest process first. Of each process it keeps the devices for which pipelines were
    created, or else the newest: a program that only queries its devices leaves runs without pipelines."""
    groups: dict[tuple[Any, ...], list[Recorded]] = {}
    for run in found:
        groups.setdefault(run.process, []).append(run)
    chosen = [[run for run in group if run.run.pipelines] or group[-1:] for group in groups.values()]
    return sorted(chosen, key=lambda group: group[-1].run.date, reverse=True)


def processes(found: list[Recorded]) -> list[list[Recorded]]:
    """Returns the processes that ``last``, ``last~1`` … count: those that created pipelines, or all if none did."""
    listed = _processes(found)
    return [group for group in listed if any(run.run.pipelines for run in group)] or listed


def choose(found: list[Recorded], word: str, root: str) -> list[Recorded]:
    """Returns the runs, one for each device, of the process that ``word`` names (``pylayer report --help``). Raises
    ValueError for an invalid word, and NoSuchRun."""
    match = _BEFORE.fullmatch(word)
    name, before = (match["name"], int(match["before"] or 0)) if match else (word, 0)
    if not name:
        raise ValueError(f"{word} names no run; write last~{before}, or a program's name before it")
    listed = processes(found)
    if name != "last":
        every = _processes(found)
        by_name = [group for group in every if any(run.name == name for run in group)]
        by_pid = [group for group in every if name.isdecimal() and group[0].pid == int(name[:20])]
        of_program = [group for group in listed if any(run.run.matches(name) for run in group)]
        listed = by_name or by_pid or of_program or [group for group in every if group[0].run.matches(name)]
    if not listed:
        what = "is recorded" if name == "last" else f"of {name} is recorded"
        raise NoSuchRun(f"no run {what} in {root}; pylayer report --list shows what is, pylayer run -- APP records one")
    if before >= len(listed):
        count = "only one run" if len(listed) == 1 else f"only {len(listed)} runs"
        raise NoSuchRun(f"{word} goes too far back: {count} recorded; pylayer report --list shows them")
    return listed[before]


def earlier(found: list[Recorded], run: Recorded) -> Recorded | None:
    """Returns the previous run of the same program, on the same device if there is one; None if there is none."""
    before = [
        other
        for other in found
        if other.program == run.program and other.run.date < run.run.date and other.process != run.process
    ]
    used = [other for other in before if other.run.pipelines] or before
    same = [other for other in used if other.run.texts["device"] == run.run.texts["device"]]
    listed = same or used
    return listed[-1] if listed else None


def counterpart(group: list[Recorded], run: Recorded) -> Recorded:
    """Returns the run of a process that compares with ``run``: one with the same driver, else the same device, else the
    last."""
    for other in group:
        if other.run.identity == run.run.identity:
            return other
    return next((other for other in group if other.run.texts["device"] == run.run.texts["device"]), group[-1])
