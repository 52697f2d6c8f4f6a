"""What runs did, added up by program and driver identity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .counters import NUMBERS
from .recorded import SHOWN, Run

#: The numbers that are no sums: of several runs, the highest counts.
HIGHEST = ("longest_frame_ns", "last_late_s", "first_frame_ns")


def _add(total: dict[str, int], counts: dict[str, int]) -> None:
    for outcome, count in counts.items():
        total[outcome] = total.get(outcome, 0) + count


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
        self.verdicts: list[str] = []
        self.outcomes: dict[str, int] = {}
        self.damage: dict[str, int] = {}
        self.kinds: dict[str, dict[str, int]] = {}
        for run in group:
            _add(self.refused, run.refused)
            self.verdicts += [line for line in run.verdicts if line not in self.verdicts]
            _add(self.outcomes, run.outcomes)
            _add(self.damage, run.damage)
            for kind, counts in run.kinds.items():
                _add(self.kinds.setdefault(kind, {}), counts)
        self.policy = self._policy(group)
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
            "failures": sum(run.policy_failures for run in having),
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
            "program": newest.title,
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
