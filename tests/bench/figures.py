"""What a benchmark compares, and the table of it."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

#: Nanoseconds of a unit.
SCALE = {"ns": 1.0, "us": 1e3, "ms": 1e6}


def start_ns(run: Mapping[str, Any]) -> float:
    """Returns how long the demo took for vkCreateInstance and vkCreateDevice."""
    return float(run["create_instance_ns"] + run["create_device_ns"])


def created_ns(run: Mapping[str, Any]) -> float:
    """Returns how long it took for its pipelines, with the reading and loading of its own cache."""
    return float(run["create_ns_total"] + run["create_cache_ns"] + run["read_cache_ns"])


class Figure:
    """One comparison: samples of baseline and layer, in nanoseconds, and what the project promises."""

    def __init__(
        self, name: str, baseline: str, limit: float | None, unit: str = "us", difference: bool = False
    ) -> None:
        self.name = name
        self.baseline = baseline
        self.limit = limit  # a ratio, or in the unit where difference; None: nothing is promised
        self.unit = unit
        self.difference = difference
        self.samples: list[tuple[float, float]] = []

    def add(self, baseline_ns: float, layer_ns: float) -> None:
        self.samples.append((baseline_ns, layer_ns))

    @property
    def result(self) -> float:
        if self.difference:
            return statistics.median(layer - base for base, layer in self.samples) / SCALE[self.unit]
        return statistics.median(layer / base for base, layer in self.samples)

    def as_dict(self) -> dict[str, object]:
        values = [layer - base if self.difference else layer / base for base, layer in self.samples]
        return {
            "name": self.name,
            "baseline": self.baseline,
            "unit": self.unit,
            "rounds": len(self.samples),
            "baseline_ns": statistics.median(base for base, _ in self.samples),
            "layer_ns": statistics.median(layer for _, layer in self.samples),
            "difference" if self.difference else "ratio": self.result,
            "spread": [min(values), max(values)],
            "limit": self.limit,
            "met": self.limit is None or self.result <= self.limit,
        }


class Row:
    """One comparison in both columns: as installed, with the driver's disk cache on, and bare, without."""

    def __init__(self, installed: Figure | None, bare: Figure | None = None) -> None:
        self.installed = installed
        self.bare = bare

    def as_dict(self) -> dict[str, object]:
        named = {"as installed": self.installed, "bare": self.bare}
        return {name: figure.as_dict() for name, figure in named.items() if figure}


def texts(row: dict[str, Any]) -> list[str]:
    """Returns the cells of a row: what, baseline, alone and layer as installed, both results, the limit."""
    first = row.get("as installed") or row["bare"]
    unit = first["unit"]
    times = [f"{first[key] / SCALE[unit]:.2f} {unit}" for key in ("baseline_ns", "layer_ns")]
    results = []
    for column in ("as installed", "bare"):
        figure = row.get(column)
        if figure is None:
            results.append("")
        elif "difference" in figure:
            results.append(f"{figure['difference']:+.1f} {unit}{'' if figure['met'] else ' (over)'}")
        else:
            results.append(f"{figure['ratio']:.2f} x{'' if figure['met'] else ' (over)'}")
    limit, bare = limit_text(first), limit_text(row.get("bare", first))
    if bare != limit:
        limit = ", ".join(filter(None, [limit, f"bare {bare}"]))
    return [first["name"], first["baseline"], *times, *results, limit]


def limit_text(figure: dict[str, Any]) -> str:
    if figure["limit"] is None:
        return ""
    return f"+{figure['limit']:.0f} {figure['unit']}" if "difference" in figure else f"{figure['limit']:.2f} x"


HEADINGS = ("what", "baseline", "alone", "layer", "as installed", "bare", "limit")


def show_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Console:
    """Prints a table, of which so many columns are words. In a file, too, nothing is cut."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    table = Table(title=title)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < left else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    return console


def show(rows: list[Row]) -> Console:
    title = "pylayer benchmark: medians over interleaved rounds; alone and layer are as installed"
    return show_table(title, HEADINGS, (texts(row.as_dict()) for row in rows), left=2)
