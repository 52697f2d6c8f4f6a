"""Limits for CI: ``pylayer report --fail-on 'late-frames>0'``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .recorded import OF_COMPILES
from .words import human_time, plural

if TYPE_CHECKING:
    from .rows import Row

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


def parsed(text: str) -> tuple[str, float]:
    """Returns the key of a number of a report, and how great it may be. Raises ValueError for a text that is none."""
    match = _LIMIT.fullmatch(text)
    key = NAMES.get(match[1], "") if match is not None else ""
    if match is None or not key or key.endswith("_ns") != bool(match[3]):
        how = f"write one of {', '.join(NAMES)}, then > and a number: late-frames>0, or with a unit: longest-frame>50ms"
        raise ValueError(f"{text} is no limit; {how}")
    return key, float(match[2]) * _UNITS[match[3] or "ns"]


def failure(text: str, row: Row) -> str:
    """Returns what exceeds the limit in a run, or why that is unknown; empty if nothing does."""
    (key, most), value = parsed(text), row[parsed(text)[0]]
    where = f"{text.strip()} in run {row['run']} of {row['program']}"
    if value is None:
        why = "it presented no frames" if row["frames"] is None else "its timeline lacks some frames"
        if key in OF_COMPILES:
            pipelines = plural(row["unknown_pipelines"], "pipeline")
            why = f"of {pipelines} it is not known whether the driver compiled them"
        return f"{where}: unknown, because {why}"
    shown = human_time(value) if key.endswith("_ns") else f"{value:,}"
    return f"{where}: {shown}" if value > most else ""
