"""What a benchmark compares, and the table of it."""

from __future__ import annotations

import statistics

from rich.console import Console
from rich.table import Table


class Figure:
    """One comparison: samples of baseline and layer, in nanoseconds, and what the project promises."""

    def __init__(
        self, name: str, baseline: str, limit: float | None, unit: str = "us", difference: bool = False
    ) -> None:
        self.name = name
        self.baseline = baseline
        self.limit = limit  # a ratio, or milliseconds where difference; None: nothing is promised
        self.unit = unit
        self.difference = difference
        self.samples: list[tuple[float, float]] = []

    def add(self, baseline_ns: float, layer_ns: float) -> None:
        self.samples.append((baseline_ns, layer_ns))

    @property
    def result(self) -> float:
        if self.difference:
            return statistics.median(layer - base for base, layer in self.samples) / 1e6
        return statistics.median(layer / base for base, layer in self.samples)

    def as_dict(self) -> dict[str, object]:
        values = [layer - base if self.difference else layer / base for base, layer in self.samples]
        return {
            "name": self.name,
            "baseline": self.baseline,
            "rounds": len(self.samples),
            "baseline_ns": statistics.median(base for base, _ in self.samples),
            "layer_ns": statistics.median(layer for _, layer in self.samples),
            "difference_ms" if self.difference else "ratio": self.result,
            "spread": [min(values), max(values)],
            "limit": self.limit,
            "met": self.limit is None or self.result <= self.limit,
        }


def show(console: Console, figures: list[Figure]) -> None:
    table = Table(title="pylayer benchmark: medians over interleaved rounds")
    for heading, justify in (("what", "left"), ("baseline", "left"), ("alone", "right"), ("layer", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    table.add_column("result", justify="right")
    table.add_column("limit", justify="right")
    for figure in figures:
        values = figure.as_dict()
        scale = {"us": 1e3, "ms": 1e6}[figure.unit]
        base, layer = (f"{values[key] / scale:.2f} {figure.unit}" for key in ("baseline_ns", "layer_ns"))  # type: ignore[operator]
        shown = f"{figure.result:+.1f} ms" if figure.difference else f"{figure.result:.2f} x"
        limit = ""
        if figure.limit is not None:
            limit = f"+{figure.limit:.0f} ms" if figure.difference else f"{figure.limit:.2f} x"
        mark = "" if values["met"] else " (over)"
        table.add_row(figure.name, figure.baseline, base, layer, shown + mark, limit)
    console.print(table)
