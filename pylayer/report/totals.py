"""What the runs in a store did: each by itself, and added up by program and driver identity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..common import owner
from ..common.files import date_of
from ..common.identity import program_id
from ..common.settings import glob_matches
from ..store.store import Store
from .counters import COUNTERS, NUMBERS, RUN_VALUES
from .words import one_line, printable

#: The values of a run's policy class that are added up, if the user has one.
POLICY_SUMS = ("failures", "late", "broken_off", "events", "over_budget", "event_ns", "event_cpu_ns")
#: The values for each kind of pipeline that are added up.
KIND_SUMS = ("hits", "compiled", "compile_ns")
#: The kind of compilations that a run counted without their kinds, because it recorded no timeline.
OTHER = "other"
#: The times that a program waits only because the layer is there.
WAITED = ("load_wait_ns", "fetch_ns", "cache_wait_ns")
#: The numbers that are no sums: of several runs, the highest counts.
HIGHEST = ("longest_frame_ns", "last_late_s", "first_frame_ns")
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


def _counts(values: dict[str, Any], key: str) -> dict[str, int]:
    """Returns how often each outcome occurred."""
    counts = values.get(key)
    return {printable(str(name)): int(number_in(counts, name)) for name in counts} if isinstance(counts, dict) else {}


def _add(total: dict[str, int], counts: dict[str, int]) -> None:
    for outcome, count in counts.items():
        total[outcome] = total.get(outcome, 0) + count


#: A name with one of these characters is a pattern.
_WILD = frozenset("*?")


def is_pattern(name: str) -> bool:
    """Returns whether a name that a user gave is a pattern, which may stand for several programs."""
    return not _WILD.isdisjoint(name)


def is_named(name: str, shown: str, number: int) -> bool:
    """Returns whether a user means a program by a name: the name that tables show, its part before the parentheses
    (the executable), or the program's number in the store, letter by letter. With ``*`` or ``?``, a name is a pattern
    for the first two, in any case."""
    names = {shown, shown.partition(" (")[0]}
    if is_pattern(name):
        return any(glob_matches(name, text) for text in names)
    return name in names or name == f"{number:016x}"


def _process(values: dict[str, Any]) -> owner.Process | None:
    """Returns the process that the file of a run names; None if it names none."""
    try:
        machine = bytes.fromhex(str(values.get("machine", "")))
    except ValueError:
        return None
    pid, namespace, start_ticks = (int(number_in(values, key)) for key in ("pid", "pid_namespace", "start_ticks"))
    return (machine, pid, namespace, start_ticks) if len(machine) == 16 and start_ticks else None


class Run:
    """One run of a program on a device, as the layer's policy wrote it.

    Every command shows the numbers ``SHOWN`` as they are here, so that stats, top, report and metrics agree.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self.executable = str(values.get("executable", "unknown"))
        self.application = str(values.get("application", ""))
        #: The ``pylayer run --summary`` under which it ran.
        self.session = str(values.get("session", ""))
        self.identity = printable(str(values.get("identity", "unknown")))
        #: Texts that a table shows.
        shown = ("program", "device", "driver", "driver_info", "engine", "carrier", "reason")
        self.texts = {key: printable(str(values.get(key, ""))) for key in shown}
        self.started, self.ended = number_in(values, "started"), number_in(values, "ended")
        #: What runs are ordered by.
        self.date = date_of(self.started)
        #: The process's number in its own pid namespace.
        self.pid = int(number_in(values, "pid"))
        #: The process, as ``owner.this_process`` returns it; None if it is not known.
        self.process = _process(values)
        #: Whether its process is alive; None if only ``process`` can tell.
        self.alive = False if values.get("died") else values.get("alive")
        self.numbers = {key: int(number_in(values.get("counters"), key)) for key in COUNTERS}
        self.numbers |= {key: int(number_in(values, key)) for key in RUN_VALUES}
        self.mean_compile_ns = number_in(values, "mean_compile_ns")
        self.refused = _counts(values, "refused")
        self.outcomes = _counts(values, "cache_outcomes")
        self.damage = _counts(values, "damage")
        #: What took effect or ended in this run, of what makes later runs worse.
        self.told = [printable(one_line(line)) for line in str(values.get("verdicts", "")).split("; ") if line]
        #: Hits, compilations and their time by kind of pipeline.
        self.kinds = self._kinds(values.get("kinds"))
        self.hits, self.compiled, self.compile_ns = (
            sum(counts[key] for counts in self.kinds.values()) for key in KIND_SUMS
        )
        #: Pipelines created in any way, also in calls that the layer did not touch.
        self.pipelines = self.numbers["pipelines"] + self.numbers["passed"]
        #: Those of which it is not known whether the driver compiled them: calls that the layer did not touch and, on
        #: a device without creation feedback, pipelines for which no cache was probed.
        self.unknown_pipelines = self.numbers["passed"] + (0 if values.get("feedback", True) else self.numbers["plain"])
        self.refused_caches = sum(self.refused.values())
        #: How long the program's threads waited because of the layer.
        self.waited_ns = sum(self.numbers[key] for key in WAITED)
        own_ns = max(self.compile_ns, self.numbers["compile_ns"] + self.numbers["plain_ns"]) + self.numbers["passed_ns"]
        #: How long creating pipelines took, summed over threads, with these waits.
        self.spent_ns = self.numbers["hit_ns"] + own_ns + self.waited_ns
        policy = values.get("policy")
        self.policy = {key: int(number_in(policy, key)) for key in POLICY_SUMS}
        #: The user's policy class, if there is one, and why it was switched off.
        self.policy_class, self.policy_off = "", ""
        if isinstance(policy, dict):
            self.policy_class = printable(one_line(policy.get("class", "")))
            self.policy_off = printable(one_line(policy.get("switched_off", "")))
        self.policy_off_at = number_in(policy, "switched_off_at")

    def shown(self) -> dict[str, int | None]:
        """Returns the numbers ``SHOWN``. None is unknown."""
        unknown = OF_COMPILES if self.unknown_pipelines else ()
        return {key: None if key in unknown else getattr(self, key) for key in SHOWN}

    @property
    def program_id(self) -> int:
        """The number by which the store identifies the program."""
        return program_id(self.executable, self.application)

    @property
    def title(self) -> str:
        """The program's name for people."""
        return self.texts["program"] or printable(self.executable)

    def _kinds(self, kinds: Any) -> dict[str, dict[str, int]]:
        """Returns the counts of each kind. What only the counters have is of the kind ``OTHER``. They are ahead of the
        kinds while the run goes on. A run that died has no more to say."""
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

    def state(self, idle: float) -> str:
        """Returns ``ended``, ``running``, ``died`` (without destroying its device), or ``unknown``. ``idle``: seconds
        since the process was last known to be alive."""
        if self.ended > 0:
            return "ended"
        if isinstance(self.alive, bool):
            return "running" if self.alive else "died"
        if self.process is None:
            return "unknown"
        return "died" if owner.has_ended(self.process, idle) else "running"

    def matches(self, name: str) -> bool:
        """Returns whether a user means this run's program by ``name``."""
        return is_named(name, self.title, self.program_id)


def mean_compile_ns(group: list[Run]) -> float:
    """Returns the mean time of a compilation over runs; 0 if they compiled nothing."""
    count = sum(run.numbers["compiled"] for run in group)
    return sum(run.numbers["compile_ns"] for run in group) / count if count else 0.0


def saved_estimate(group: list[Run], own_mean: float) -> int | None:
    """Returns an estimate in nanoseconds: the time that compiling the hits again would have taken, less the time that
    they took, and less what the program waited because of the layer. It is negative if that was longer.

    A stored record saves one compilation a run. Hits beyond the number of records are pipelines created twice, or
    linked from libraries, which the driver does fast by itself. A compilation is assumed to take the mean of those
    stored when the run began, or if none were stored, ``own_mean``: the mean over all runs of the program. Returns None
    if nothing is known. Hits in the program's own cache count too, because it is unknown whether the program or the
    layer put the pipeline there.
    """
    saved = 0.0
    for run in group:
        replaced, mean = min(run.hits, run.numbers["loaded_records"]), run.mean_compile_ns or own_mean
        if replaced and not mean:
            return None
        saved += replaced * (mean - run.numbers["hit_ns"] / run.hits) if replaced else 0
        saved -= run.waited_ns
    return round(saved)


def lost_estimate(group: list[Run]) -> int:
    """Returns an estimate in nanoseconds of the compiles that the driver's own cache would not have saved: how long a
    run's stored pipelines took to compile, times the part that the driver lacked in the run's sample. Only runs with a
    sample count, and records that were read beside others for pipelines that the run did not create do not."""
    lost = 0.0
    for run in group:
        asked, fetched = run.numbers["driver_asked"], run.numbers["fetched"]
        if asked and fetched:
            used = min(1.0, run.hits / fetched)
            lost += run.numbers["fetched_compile_ns"] * used * run.numbers["driver_lacked"] / asked
    return round(lost)


def sum_known(numbers: Sequence[int | None]) -> int | None:
    """Returns the sum of numbers; None if one of them is unknown."""
    return None if None in numbers else sum(filter(None, numbers))


def shown_sums(found: Sequence[dict[str, int | None]]) -> dict[str, int | None]:
    """Returns sums of what ``Run.shown`` returned. The sum of unknown numbers is None."""
    return {key: sum_known([numbers[key] for numbers in found]) for key in SHOWN}


class Total:
    """The runs of one program under one identity. ``own_mean``: how long a compilation of the program takes on average,
    if other runs than these tell it."""

    def __init__(self, group: list[Run], own_mean: float | None = None) -> None:
        self.newest = max(group, key=lambda run: run.date)
        self.runs = len(group)
        self.first_started = min(run.started for run in group)
        self.numbers: dict[str, Any] = {key: sum(run.numbers[key] for run in group) for key in NUMBERS}
        self.numbers |= {key: max(run.numbers[key] for run in group) for key in HIGHEST}
        self.numbers |= shown_sums([run.shown() for run in group])
        self.least_compiled = sum(run.compiled for run in group)
        self.refused: dict[str, int] = {}
        self.told: list[str] = []
        self.outcomes: dict[str, int] = {}
        self.damage: dict[str, int] = {}
        self.kinds: dict[str, dict[str, int]] = {}
        for run in group:
            _add(self.refused, run.refused)
            self.told += [line for line in run.told if line not in self.told]
            _add(self.outcomes, run.outcomes)
            _add(self.damage, run.damage)
            for kind, counts in run.kinds.items():
                _add(self.kinds.setdefault(kind, {}), counts)
        self.policy = self._policy(group)
        self.lost_ns = lost_estimate(group)
        self.saved_ns = saved_estimate(group, mean_compile_ns(group) if own_mean is None else own_mean)

    @staticmethod
    def _policy(group: list[Run]) -> dict[str, Any]:
        """Returns totals of the user's policy class; empty if no run had one. With several runs, the text is that of
        the newest run in which a class was switched off."""
        having = [run for run in group if run.policy_class]
        if not having:
            return {}
        off = [run for run in having if run.policy_off]
        shown = max(off or having, key=lambda run: run.date)
        return {
            "class": shown.policy_class,
            **{key: sum(run.policy[key] for run in having) for key in POLICY_SUMS},
            "runs_switched_off": len(off),
            "switched_off": shown.policy_off,
            "switched_off_at": shown.policy_off_at,
        }

    @property
    def name(self) -> str:
        """The program's name for people."""
        return self.newest.title

    def as_json(self) -> dict[str, Any]:
        """Returns everything, with units in key names. Times of day are seconds since 1970."""
        newest = self.newest
        return {
            **newest.texts,
            "executable": newest.executable,
            "application": newest.application,
            "identity": newest.identity,
            "runs": self.runs,
            "first_started_s": self.first_started,
            "last_started_s": newest.started,
            **self.numbers,
            "refused": self.refused,
            "cache_outcomes": self.outcomes,
            "damage": self.damage,
            "policy": self.policy,
            "saved_estimate_ns": self.saved_ns,
        }


def read_runs(root: str) -> list[Run]:
    """Returns every run in the store that can be read."""
    return [Run(values) for values in Store(root).runs()]


def add_up(found: Iterable[Run], newest_only: bool = False) -> list[Total]:
    """Returns totals by identity and program, the program that ran last first."""
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in found:
        groups.setdefault((run.identity, run.executable, run.application), []).append(run)
    totals = [
        Total([max(group, key=lambda run: run.date)] if newest_only else group, mean_compile_ns(group))
        for group in groups.values()
    ]
    return sorted(totals, key=lambda total: total.newest.date, reverse=True)
