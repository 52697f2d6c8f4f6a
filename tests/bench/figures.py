"""What a benchmark compares, and tables of it.

.venv/bin/python tests/bench/figures.py [FILE]    puts what run.py wrote (build/bench.json) into
                                                  docs/internals/performance.md
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PAGE = Path("docs/internals/performance.md")
BEGIN, END = "<!-- make bench: begin -->\n", "<!-- make bench: end -->\n"
#: Nanoseconds, or bytes, of a unit.
SCALE = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "MiB": 2.0**20}
#: The driver's disk cache is on, or off.
COLUMNS = ("as installed", "bare")


def start_ns(run: Mapping[str, Any]) -> float:
    """Returns how long the demo took for vkCreateInstance and vkCreateDevice."""
    return float(run["create_instance_ns"] + run["create_device_ns"])


def created_ns(run: Mapping[str, Any]) -> float:
    """Returns how long it took for its pipelines, with the reading and loading of its own cache."""
    return float(run["create_ns_total"] + run["create_cache_ns"] + run["read_cache_ns"])


class Figure:
    """One comparison: samples of baseline and layer, in nanoseconds or bytes, and what the project promises."""

    def __init__(
        self, name: str, baseline: str, limit: float | None = None, unit: str = "us", difference: bool = False
    ) -> None:
        self.name = name
        self.baseline = baseline
        self.limit = limit  # a ratio, or in the unit where difference; None: nothing is promised
        self.unit = unit
        self.difference = difference
        self.samples: list[tuple[float, float]] = []

    def add(self, baseline: float, layer: float) -> None:
        self.samples.append((baseline, layer))

    def as_dict(self) -> dict[str, Any]:
        """Returns the medians, of the rounds' differences or ratios too."""
        scale = SCALE[self.unit]
        values = [(layer - base) / scale if self.difference else layer / base for base, layer in self.samples]
        result = statistics.median(values)
        return {
            "name": self.name,
            "baseline": self.baseline,
            "unit": self.unit,
            "rounds": len(self.samples),
            "baseline_ns": statistics.median(base for base, _ in self.samples),
            "layer_ns": statistics.median(layer for _, layer in self.samples),
            "difference" if self.difference else "ratio": result,
            "spread": [min(values), max(values)],
            "limit": self.limit,
            "met": self.limit is None or result <= self.limit,
        }


#: Figures of one comparison by column.
Row = dict[str, Figure]


def as_dicts(rows: list[Row]) -> list[dict[str, Any]]:
    return [{column: figure.as_dict() for column, figure in row.items()} for row in rows]


def result_text(figure: dict[str, Any]) -> str:
    text = f"{figure['difference']:+.1f} {figure['unit']}" if "difference" in figure else f"{figure['ratio']:.2f} x"
    return text + ("" if figure["met"] else " (over)")


def limit_text(figure: dict[str, Any]) -> str:
    if figure["limit"] is None:
        return ""
    return f"+{figure['limit']:.0f} {figure['unit']}" if "difference" in figure else f"{figure['limit']:.2f} x"


def texts(row: dict[str, Any], columns: Sequence[str] = COLUMNS) -> list[str]:
    """Returns the cells of a row: what, baseline, both values of its first column, the results, the limit."""
    first, *_ = (row[column] for column in columns if column in row)
    values = [f"{first[key] / SCALE[first['unit']]:.2f} {first['unit']}" for key in ("baseline_ns", "layer_ns")]
    limit, last = limit_text(first), limit_text(row.get(columns[-1], first))
    if last != limit:
        limit = ", ".join(filter(None, [limit, f"{columns[-1]} {last}"]))
    results = [result_text(row[column]) if column in row else "" for column in columns]
    return [first["name"], first["baseline"], *values, *results, limit]


def headings(columns: Sequence[str]) -> list[str]:
    return ["what", "baseline", "alone", "layer", *columns, "limit"]


def show(title: str, rows: list[Row], columns: Sequence[str] = COLUMNS) -> None:
    """Prints a table. In a file, too, nothing is cut."""
    table = Table(title=title)
    for number, heading in enumerate(headings(columns)):
        table.add_column(heading, justify="left" if number < 2 else "right")
    for row in as_dicts(rows):
        table.add_row(*texts(row, columns))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def markdown(document: dict[str, Any]) -> str:
    """Returns the rows without the time under the layer, which the comparisons say."""
    rounds = sorted({figure["rounds"] for row in document["rows"] for figure in row.values()})
    shown: Callable[[list[str]], str] = lambda cells: f"| {' | '.join([*cells[:3], *cells[4:]])} |"  # noqa: E731
    lines = [
        f"{document['count']} pipelines, {rounds[0]} to {rounds[-1]} rounds. What is compiled has the fewest.\n",
        shown(headings(COLUMNS)),
        "|---" * 6 + "|",
        *(shown(texts(row)).replace(" us ", " \u00b5s ") for row in document["rows"]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    assert after, f"{PAGE} lacks the comments between which the table is"
    read = json.loads(Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench.json").read_text())
    PAGE.write_text(before + BEGIN + markdown(read) + END + after)
