"""Limits for CI: ``pylayer report --fail-on 'late-frames>0'``."""

from __future__ import annotations

import re
from typing import Any

from .recorded import OF_COMPILES
from .words import human_time, plural

#: What a limit can name: a key of a report's JSON.
NAMES = {
    "late-frames": "late_frames",
    "late-by-pipelines": "late_by_pipelines",
    "longest-frame": "longest_frame_ns",
    "compiled": "compiled",
    "compile-time": "compile_ns",
    "refused": "refused_caches",
}
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_LIMIT = re.compile(r"\s*([a-z-]+)\s*>\s*(\d{1,9}(?:\.\d{1,9})?)\s*(ns|us|ms|s)?\s*", re.ASCII)


class Limit:
    """A number of a report that must not be greater. Raises ValueError for a text that is none."""

    def __init__(self, text: str) -> None:
        match = _LIMIT.fullmatch(text)
        if match is None or match[1] not in NAMES:
            raise ValueError(
                f"{text} is no limit; write one of {', '.join(NAMES)}, then > and a number, as late-frames>0"
            )
        self.text = text.strip()
        self.key = NAMES[match[1]]
        if self.key.endswith("_ns") != (match[3] is not None):
            wants = "a unit, as 50ms" if self.key.endswith("_ns") else "no unit"
            raise ValueError(f"{text}: {match[1]} needs {wants}")
        self.most = float(match[2]) * _UNITS.get(match[3] or "ns", 1)

    def failure(self, run: dict[str, Any]) -> str:
        """Returns what exceeds the limit in a run, or why that is unknown; empty if nothing does."""
        value = run[self.key]
        where = f"{self.text} in run {run['run']} of {run['program']}"
        if value is None:
            return f"{where}: unknown, because {self._why_unknown(run)}"
        shown = human_time(value) if self.key.endswith("_ns") else f"{value:,}"
        return f"{where}: {shown}" if value > self.most else ""

    def _why_unknown(self, run: dict[str, Any]) -> str:
        if self.key in OF_COMPILES:
            return f"of {plural(run['unknown_pipelines'], 'pipeline')} it is not known whether the driver compiled them"
        if "frame" in self.key and run["frames"] is None:
            return "it presented no frames"
        return "its timeline lacks some frames"
