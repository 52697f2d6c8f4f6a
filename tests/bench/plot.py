"""Draws docs/internals/performance.svg from the figures of `make bench`: plot.py [build/scale.json [FILE]].

Needs matplotlib: pip install '.[bench]'. One picture for light and dark pages: its own white ground, like paper.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

#: Told apart by marker and dash too, not by colour alone (Okabe and Ito's colours).
STYLES = {
    "journals": ("#0072B2", "o", "-", "journals"),
    "packs": ("#009E73", "s", "--", "packs"),
    "read": ("#666666", "x", ":", "baseline: read() alone"),
    "hash": ("#666666", "+", ":", "baseline: read() and XXH3-128"),
}


def curve(axes: Axes, figures: dict[str, Any], what: str, key: str, scale: float) -> None:
    sizes = sorted(int(name.split()[0]) for name in figures if name.endswith(" " + what))
    values = [figures[f"{size} {what}"][key] for size in sizes]
    middle = [value["median"] / scale for value in values]
    below = [value["median"] / scale - value["spread"][0] / scale for value in values]
    above = [value["spread"][1] / scale - value["median"] / scale for value in values]
    colour, marker, dash, label = STYLES[what]
    axes.errorbar(
        sizes,
        middle,
        [below, above],
        color=colour,
        marker=marker,
        linestyle=dash,
        label=label,
        capsize=3,
        linewidth=1.6,
    )


def finish(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("records in the store")
    axes.set_ylabel(unit)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(True, color="#dddddd", linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def plain(axes: Axes) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def draw(figures: dict[str, Any], target: Path) -> None:
    plt.rcParams.update(
        {"svg.hashsalt": "pylayer", "svg.fonttype": "none", "font.size": 10, "figure.facecolor": "white"}
    )
    picture, ((first, everything), (rate, memory)) = plt.subplots(2, 2, figsize=(10, 7.6), layout="constrained")
    load = figures["load"]
    for what in ("journals", "packs"):
        curve(first, load, what, "first_ns", 1e6)
        curve(everything, load, what, "all_ns", 1e6)
        curve(rate, load, what, "gb_per_s", 1)
        curve(memory, load, what, "rss_peak_delta", 1 << 20)
    for what in ("read", "hash"):
        curve(everything, load, what, "all_ns", 1e6)
    finish(first, "Until the first record is there", "milliseconds")
    finish(everything, "Until all records are handed over", "milliseconds")
    finish(rate, "Verified load", "GB/s of one core's time")
    finish(memory, "Resident memory, most while loading", "MiB")
    for axes in (first, rate):
        axes.set_ylim(bottom=0)
    rate.axhline(1, color="black", linewidth=0.8)
    rate.annotate("aim", (load_sizes(load)[-1], 1), xytext=(0, -12), textcoords="offset points", fontsize=9, ha="right")
    for axes in (everything, memory):
        axes.set_yscale("log")
        plain(axes)
    everything.legend(fontsize=9, frameon=False, loc="upper left")
    picture.savefig(target, metadata={"Date": None})


def load_sizes(load: dict[str, Any]) -> list[int]:
    return sorted({int(name.split()[0]) for name in load})


def main() -> None:
    source = Path(sys.argv[1] if len(sys.argv) > 1 else "build/scale.json")
    target = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/internals/performance.svg")
    draw(json.loads(source.read_text()), target)


if __name__ == "__main__":
    main()
