"""How commands show verdicts: what makes later runs of a program worse, since when, until when and why."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..store.store import VerdictText


def when(seconds: float) -> str:
    """Returns a time for people; a question mark if there is no such time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds > 0 else "?"
    except (OverflowError, ValueError, OSError):
        return "?"


def line(verdict: VerdictText) -> str:
    """Returns a line about a verdict."""
    after = {
        "in force": f"; until {when(verdict.until_s)}",
        "on trial": f"; this ended {when(verdict.until_s)} and is tried again",
        "evidence": "; this is not decided yet",
    }
    return f"{when(verdict.since_s)}  {verdict.program}: {verdict.text}{after.get(verdict.state, '')}"


def as_json(verdict: VerdictText) -> dict[str, Any]:
    """Returns a verdict as JSON."""
    return {name: getattr(verdict, name) for name in verdict.__slots__}
