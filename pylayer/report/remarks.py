"""Remarks: what is worth a line beside the numbers of a run, or of several."""

from __future__ import annotations

from ..common import outcomes
from ..values import GOOD_OUTCOMES
from .counters import NUMBERS
from .words import human_time, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .totals import Total

#: Numbers that are worth a line only when they are not zero.
REMARKS = {name: row.meaning for name, row in NUMBERS.items() if row.remark}


def _policy_remark(total: Total) -> list[str]:
    """Returns a line on the user's policy class, if it failed or was switched off."""
    policy = total.policy
    if not policy:
        return []
    failures = f"failures: {policy['failures']}"
    text = f"policy class {policy['class']}"
    if policy["runs_switched_off"]:
        runs = "" if total.runs == 1 else f" in {policy['runs_switched_off']} of {total.runs} runs"
        return [f"{text} was switched off{runs}: {policy['switched_off']} ({failures})"]
    return [f"{text}: {failures}"] if policy["failures"] else []


def lost(saved_ns: int | None, waited_ns: int, hits: int) -> str:
    """Returns why less time than none was saved; empty if that is not so."""
    if saved_ns is None or saved_ns >= 0:
        return ""
    gain = f"hits saved {human_time(saved_ns + waited_ns)}" if hits else "no hits counted, as in a first run"
    return f"waited {human_time(waited_ns)} for the layer; {gain}"


def unknown(total: Total) -> list[str]:
    """Returns a line if it is not known which pipelines the driver compiled."""
    count, passed = total.numbers["unknown_pipelines"], total.numbers["passed"]
    if not count:
        return []
    whys = ["the layer did not touch the calls"] if passed else []
    whys += ["the program's device has no creation feedback"] if count > passed else []
    least = f"; it compiled at least {total.least_compiled}" if total.least_compiled else ""
    what = f"unknown of {plural(count, 'pipeline')} whether the driver compiled {'it' if count == 1 else 'them'}"
    return [f"{what}, because {', or '.join(whys)}{least}"]


def remarks(total: Total) -> list[str]:
    """Returns what is worth a line beside the numbers."""
    observed = total.newest.texts["carrier"] == "observe"
    texts = [
        f"{text}: {total.numbers[key]}"
        for key, text in REMARKS.items()
        if total.numbers[key] and not (observed and key == "plain")
    ]
    texts += unknown(total)
    for outcome, count in total.damage.items():
        if outcome != "truncated":  # ends of journals whose programs were killed
            meaning = outcomes.STORE.get(outcome, "unknown")
            texts.append(f"parts of the store left out as {outcome} ({meaning}): {count}")
    for outcome, count in total.refused.items():
        meaning = f" ({outcomes.CACHE_DATA[outcome]})" if outcome in outcomes.CACHE_DATA else ""
        texts.append(f"cache data refused as {outcome}{meaning}: {count}")
    for outcome, count in total.outcomes.items():
        if outcome not in GOOD_OUTCOMES:
            meaning = f" ({outcomes.CACHE_DATA[outcome]})" if outcome in outcomes.CACHE_DATA else ""
            texts.append(f"cache data that the driver was given although {outcome}{meaning}: {count}")
    texts += _policy_remark(total)
    texts += [f"{line} (pylayer ls)" for line in total.verdicts]
    if total.newest.texts["carrier"] == "off":
        texts.append(f"nothing is stored: {total.newest.texts['reason']}")
    if observed:
        texts.append("observed only: nothing is stored")
    return texts
