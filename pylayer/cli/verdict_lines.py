"""How commands show verdicts: what makes later runs of a program worse, since when, until when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..report.words import minute

if TYPE_CHECKING:
    from ..store.store import VerdictText


def line(verdict: VerdictText) -> str:
    """Returns a line about a verdict."""
    after = {
        "in force": f"; until {minute(verdict.until_s)}",
        "on trial": f"; this ended {minute(verdict.until_s)} and is tried again",
        "evidence": "; this is not decided yet",
    }
    return f"{minute(verdict.since_s)}  {verdict.program}: {verdict.text}{after.get(verdict.state, '')}"


def as_json(verdict: VerdictText) -> dict[str, Any]:
    """Returns a verdict as JSON."""
    return {name: getattr(verdict, name) for name in verdict.__slots__}
