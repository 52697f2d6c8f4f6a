"""Remarks: what is worth a line beside the numbers of a run, or of several."""

from __future__ import annotations

from typing import Any

from ..common import outcomes
from ..values import GOOD_OUTCOMES
from .counters import NUMBERS
from .words import human_time, plural


def _policy(row: dict[str, Any]) -> list[str]:
    """Returns a line on the user's policy class, if it failed or was switched off."""
    policy = row["policy"]
    text, failures = f"policy class {policy.get('class')}", f"failures: {policy.get('failures')}"
    if policy.get("runs_switched_off"):
        runs = "" if row["runs"] == 1 else f" in {policy['runs_switched_off']} of {row['runs']} runs"
        return [f"{text} was switched off{runs}: {policy['switched_off']} ({failures})"]
    return [f"{text}: {failures}"] if policy.get("failures") else []


def lost(row: dict[str, Any]) -> str:
    """Returns why less time than none was saved; empty if that is not so."""
    saved, waited = row["saved_estimate_ns"], row["waited_ns"]
    if saved is None or saved >= 0:
        return ""
    gain = f"hits saved {human_time(saved + waited)}" if row["hits"] else "no hits counted, as in a first run"
    return f"waited {human_time(waited)} for the layer; {gain}"


def unknown(row: dict[str, Any]) -> list[str]:
    """Returns a line if it is not known which pipelines the driver compiled."""
    count, passed = row["unknown_pipelines"], row["passed"]
    if not count:
        return []
    whys = ["the layer did not touch the calls"] if passed else []
    whys += ["the program's device has no creation feedback"] if count > passed else []
    compiled = sum(kind["compiled"] for kind in row["kinds"])
    least = f"; it compiled at least {compiled}" if compiled else ""
    what = f"unknown of {plural(count, 'pipeline')} whether the driver compiled {'it' if count == 1 else 'them'}"
    return [f"{what}, because {', or '.join(whys)}{least}"]


def _counts(counts: dict[str, int], text: str, meanings: dict[str, str], without: tuple[str, ...]) -> list[str]:
    """Returns a line for each outcome that is worth one."""
    found = {name: f" ({meanings[name]})" if name in meanings else "" for name in counts if name not in without}
    return [f"{text} {name}{meaning}: {counts[name]}" for name, meaning in found.items()]


def remarks(row: dict[str, Any]) -> list[str]:
    """Returns what is worth a line beside the numbers."""
    carrier = row["carrier"]
    shown = {key: number.meaning for key, number in NUMBERS.items() if number.remark and row[key]}
    if carrier == "observe":
        shown.pop("plain", None)
    texts = [f"{meaning}: {row[key]}" for key, meaning in shown.items()]
    texts += unknown(row)
    # Journals end inside a record where programs were killed.
    texts += _counts(row["damage"], "parts of the store left out as", outcomes.STORE, ("truncated",))
    texts += _counts(row["refused"], "cache data refused as", outcomes.CACHE_DATA, ())
    given = "cache data that the driver was given although"
    texts += _counts(row["cache_outcomes"], given, outcomes.CACHE_DATA, tuple(GOOD_OUTCOMES))
    texts += _policy(row)
    if carrier == "off":
        texts.append(f"nothing is stored: {row['reason']}")
    if carrier == "observe":
        texts.append("observed only: nothing is stored")
    return texts
