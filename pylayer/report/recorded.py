"""Recorded runs: what each of them did, and those that a person names."""

from __future__ import annotations

import re
import time
from functools import cached_property
from typing import Any

from ..common import owner
from ..common.files import date_of
from ..common.settings import glob_matches
from ..store import runs, timeline
from ..store.timeline import Timeline
from .counters import COUNTERS, RUN_VALUES
from .words import one_line, printable

#: NAME~N: the Nth run before the newest.
_BEFORE = re.compile(r"(?P<name>.*?)(?:~(?P<before>\d{1,4}))?", re.DOTALL | re.ASCII)
#: The values for each kind of pipeline that are added up.
KIND_SUMS = ("hits", "compiled", "compile_ns")
#: The kind of compilations that a run counted without their kinds, because it recorded no timeline.
OTHER = "other"
#: The most other devices of a process whose pipelines may explain late frames.
DEVICES_BESIDE = 16
#: The times that a program waits only because the layer is there.
WAITED = ("fetch_ns", "cache_wait_ns")
#: The numbers of a run that commands show, and that are added up over runs.
SHOWN = ("pipelines", "hits", "compiled", "unknown_pipelines", "refused_caches", "compile_ns", "waited_ns", "spent_ns")
#: Of these, numbers that nobody knows if some pipelines are unknown.
OF_COMPILES = ("compiled", "compile_ns")


def number_in(values: Any, key: str) -> float:
    """Returns a number from a file whose content is untrusted; 0 if the value is not a number or too large to calculate
    with."""
    value = values.get(key) if isinstance(values, dict) else None
    # NaN fails this comparison too.
    return value if isinstance(value, (int, float)) and abs(value) < 1 << 63 else 0


# ---- names of programs, as people write them -------------------------------------------------------------

#: A Windows program, with the loader of Wine before it and the application behind it.
_WINDOWS = re.compile(
    r"(?-i:wine(?:loader\S*|[-0-9.]\S*)? )?(?:.*[\\/])?(?P<name>[^\\/]+?\.exe)(?P<application> \(.*)?",
    re.DOTALL | re.IGNORECASE,
)


def without_loader(executable: str) -> str:
    """Returns how rules name an executable that a user or an older version named: a Windows program is named by its
    .exe alone."""
    match = _WINDOWS.fullmatch(executable)
    return match["name"] if match and not match["application"] else executable


def executable_in(title: str) -> str:
    """Returns the part of a program's name for people that is the executable."""
    match = _WINDOWS.fullmatch(title)
    return match["name"] if match else title.partition(" (")[0]


def comparable(name: str) -> str:
    """Returns a name such that equal names mean one program: a Windows program may be written in any case, with its
    path, and with the loader of Wine before it."""
    match = _WINDOWS.fullmatch(name)
    return match["name"].lower() + (match["application"] or "") if match else name


#: A name with one of these characters is a pattern.
_WILD = frozenset("*?")


def is_pattern(name: str) -> bool:
    """Returns whether a name that a user gave is a pattern, which may stand for several programs."""
    return not _WILD.isdisjoint(name)


def is_named(name: str, shown: str, number: int) -> bool:
    """Returns whether a user means a program by a name: the name that tables show, its part before the parentheses
    (the executable), or the program's number in the store, letter by letter. With ``*`` or ``?``, a name is a pattern
    for the first two, in any case. ``comparable`` tells how else Windows programs may be named."""
    names = {comparable(shown), comparable(executable_in(shown))}
    if is_pattern(name):
        return any(glob_matches(name, text) for text in {shown, *names})
    return comparable(name) in names or name == f"{number:016x}"


class Run:
    """One run of a program on a device, as the layer's policy wrote it. ``name``: that of its file. Numbers are read
    when they are asked for: most commands need the names alone."""

    def __init__(self, values: dict[str, Any], name: str = "", root: str = "") -> None:
        self.root = root
        self.name = printable(name)
        #: The runs of the process's devices, this one among them.
        self.of_process: list[Run] = [self]
        self.values = values
        self.executable = str(values.get("executable", "unknown"))
        self.application = str(values.get("application", ""))
        #: The ``pylayer run --summary`` under which it ran.
        self.session = str(values.get("session", ""))
        self.identity = printable(str(values.get("identity", "unknown")))
        #: Texts that a table shows.
        shown = ("program", "device", "driver", "driver_info", "engine", "mode", "reason")
        self.texts = {key: printable(str(values.get(key, ""))) for key in shown}
        #: The program's name for people, and the number by which the store identifies it, of the file's header.
        self.title = self.texts["program"] or printable(self.executable)
        self.program_id = int(values.get("program_id", 0))
        #: The driver and its version for people.
        self.driver = ", ".join(text for text in (self.texts["driver"], self.texts["driver_info"]) if text)
        self.started, self.ended = number_in(values, "started"), number_in(values, "ended")
        #: The beginning, on the clock of timelines.
        self.started_ns = int(number_in(values, "started_ns"))
        #: What runs are ordered by.
        self.date = date_of(self.started)
        #: The process's number in its own pid namespace.
        self.pid = int(number_in(values, "pid"))
        #: The process, as ``owner.this_process`` returns it; None if it is not known.
        self.process: owner.Process | None = values.get("process")
        #: Equal for the runs of one process, which has one run for each device.
        self.process_key: tuple[Any, ...] = self.process or (self.name,)
        #: Whether its process is alive; None if only ``process`` can tell.
        self.alive = False if values.get("died") else values.get("alive")

    def counts(self, key: str) -> dict[str, int]:
        """Returns how often each outcome of a kind occurred: ``refused``, ``cache_outcomes`` or ``damage``; or, with
        ``unrecorded``, how many pipelines' states could not be recorded, by reason."""
        counts = self.values.get(key)
        found: dict[str, int] = {}
        if isinstance(counts, dict):
            found = {printable(str(name)): int(number_in(counts, name)) for name in counts}
        known = int(number_in(self.values.get("counters"), "caches_known")) if key == "cache_outcomes" else 0
        if known:  # to the layer itself
            found["attested"] = found.get("attested", 0) + known
        return found

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The numbers as they were recorded (``counters.NUMBERS``)."""
        counters = self.values.get("counters")
        numbers = {key: int(number_in(counters, key)) for key in COUNTERS}
        numbers |= {key: int(number_in(self.values, key)) for key in RUN_VALUES}
        return numbers

    @property
    def mean_compile_ns(self) -> float:
        """Mean time that it had taken to compile one of the pipelines that were read; 0 if none was."""
        fetched = self.numbers["fetched"]
        return self.numbers["fetched_compile_ns"] / fetched if fetched else 0.0

    @property
    def pipelines(self) -> int:
        """Pipelines created in any way, also in calls that the layer did not touch."""
        return self.numbers["pipelines"] + self.numbers["passed"]

    @cached_property
    def kinds(self) -> dict[str, dict[str, int]]:
        """Hits, compilations and their time by kind of pipeline. What only the counters have is of the kind ``OTHER``.
        They are ahead of the kinds while the run goes on. A run that died has no more to say."""
        kinds = self.values.get("kinds")
        found = {
            printable(str(kind)): {key: int(number_in(counts, key)) for key in KIND_SUMS}
            for kind, counts in (kinds.items() if isinstance(kinds, dict) else ())
        }
        if found and not self.ended and self.alive is not False:
            return found
        numbers = self.numbers
        counted = {
            "hits": numbers["hits"],
            "compiled": numbers["compiled"] + numbers["uncacheable"] + numbers["plain_compiled"],
            "compile_ns": numbers["compile_ns"],
        }
        for counts in found.values():
            for key in KIND_SUMS:
                counted[key] -= counts[key]
        if max(counted.values()) > 0:
            found[OTHER] = {key: max(0, count) for key, count in counted.items()}
        return found

    @cached_property
    def sums(self) -> dict[str, int]:
        """The numbers ``SHOWN``, which every command shows as they are here. Of compilations, those that are known."""
        numbers = self.numbers
        found = {key: sum(counts[key] for counts in self.kinds.values()) for key in KIND_SUMS}
        found["pipelines"] = self.pipelines
        # In calls that the layer did not touch and, without creation feedback, where no cache was probed.
        found["unknown_pipelines"] = numbers["passed"] + (0 if self.values.get("feedback", True) else numbers["plain"])
        found["refused_caches"] = sum(self.counts("refused").values())
        found["waited_ns"] = sum(numbers[key] for key in WAITED)
        own_ns = max(found["compile_ns"], numbers["compile_ns"] + numbers["plain_ns"]) + numbers["passed_ns"]
        found["spent_ns"] = numbers["hit_ns"] + own_ns + found["waited_ns"]
        return found

    def shown(self) -> dict[str, int | None]:
        """Returns the numbers ``SHOWN``. None is unknown."""
        unknown = OF_COMPILES if self.sums["unknown_pipelines"] else ()
        return {key: None if key in unknown else self.sums[key] for key in SHOWN}

    @property
    def policy(self) -> str:
        """What the user's policy class failed in, in words. Empty if it did not, or there is none."""
        found = self.values.get("policy")
        failures = int(number_in(found, "failures"))
        if not isinstance(found, dict) or not (failures or found.get("switched_off")):
            return ""
        off = f" was switched off: {found['switched_off']}" if found.get("switched_off") else ""
        return printable(one_line(f"policy class {found.get('class')}{off} (failures: {failures})"))

    @property
    def is_busy(self) -> bool:
        """Whether pipelines were created or frames presented."""
        return bool(self.pipelines or self.numbers["frames"])

    @property
    def blocks(self) -> list[str]:
        """What took effect or ended in this run, of what makes later runs worse."""
        return [printable(one_line(line)) for line in str(self.values.get("blocks", "")).split("; ") if line]

    @property
    def state(self) -> str:
        """``ended``, ``running``, ``died`` (without destroying its device), or ``unknown``."""
        if self.ended > 0:
            return "ended"
        if isinstance(self.alive, bool):
            return "running" if self.alive else "died"
        if self.process is None:
            return "unknown"
        return "died" if owner.has_ended(self.process, max(0.0, time.time() - self.started)) else "running"

    def matches(self, name: str) -> bool:
        """Returns whether a user means this run's program by ``name``."""
        return is_named(name, self.title, self.program_id)

    @cached_property
    def timeline(self) -> Timeline | None:
        """The run's timeline; None if none was recorded or it was deleted since."""
        line = timeline.read(self.root, self.name)
        if line is not None and line.presents:
            others = [run for run in self.of_process if run.pipelines and run is not self]
            for run in sorted(others, key=lambda run: -run.pipelines)[:DEVICES_BESIDE]:
                other = timeline.read(run.root, run.name)
                if other is not None:
                    line.see(other)
        return line


def read(root: str) -> list[Run]:
    """Returns every run in the store that can be read, oldest first."""
    found = [Run(values, name, root) for name, values in runs.read_named(root)]
    found.sort(key=lambda run: run.date)
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in found:
        run.of_process = groups.setdefault(run.process_key, [])
        run.of_process.append(run)
    return found


def named(root: str | None, name: str | None) -> list[Run]:
    """Returns the runs of what a user means by a name, oldest first; none without a store or a name."""
    return [run for run in read(root) if run.matches(name)] if root and name else []


def _processes(found: list[Run]) -> list[list[Run]]:
    """Returns runs by process, the newest process first. Of each process it keeps the devices for which pipelines were
    created or frames presented, or else the newest: programs that only query their devices leave such."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in found:
        groups.setdefault(run.process_key, []).append(run)
    chosen = [[run for run in group if run.is_busy] or group[-1:] for group in groups.values()]
    return sorted(chosen, key=lambda group: group[-1].date, reverse=True)


def processes(found: list[Run]) -> list[list[Run]]:
    """Returns the processes that ``last``, ``last~1`` … count: those that created pipelines, or all if none did."""
    listed = _processes(found)
    return [group for group in listed if any(run.pipelines for run in group)] or listed


def choose(found: list[Run], word: str, root: str) -> list[Run]:
    """Returns the runs, one for each device, of the process that ``word`` names (``pylayer report --help``). Raises
    LookupError, whose text says how to find the names."""
    match = _BEFORE.fullmatch(word)
    name, before = (match["name"], int(match["before"] or 0)) if match else (word, 0)
    listed = processes(found)
    if name != "last":
        every = _processes(found)
        by_name = [group for group in every if any(run.name == name for run in group)]
        by_pid = [group for group in every if name.isdecimal() and group[0].pid == int(name[:20])]
        of_program = [group for group in listed if any(run.matches(name) for run in group)]
        listed = by_name or by_pid or of_program or [group for group in every if group[0].matches(name)]
    if not listed:
        what = "is recorded" if name == "last" else f"of {name or word} is recorded"
        raise LookupError(
            f"no run {what} in {root}; pylayer stats --runs shows what is, pylayer run -- APP records one"
        )
    if before >= len(listed):
        count = "only one run" if len(listed) == 1 else f"only {len(listed)} runs"
        raise LookupError(f"{word} goes too far back: {count} recorded; pylayer stats --runs shows them")
    return listed[before]
