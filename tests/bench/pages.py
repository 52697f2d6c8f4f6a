"""Puts the figures of the last `make bench` into docs/internals/performance.md, and prints those for README.md.

pages.py [FILE]   FILE is what run.py wrote: build/bench.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from figures import HEADINGS, texts

PAGE = Path("docs/internals/performance.md")
BEGIN, END = "<!-- make bench: begin -->\n", "<!-- make bench: end -->\n"


def table(document: dict[str, Any]) -> str:
    """Returns the rows in Markdown, with how many rounds were measured."""
    rounds = sorted({figure["rounds"] for row in document["rows"] for figure in row.values()})
    lines = [
        f"{document['count']} pipelines, {rounds[0]} to {rounds[-1]} rounds. What is compiled has the fewest.\n",
        f"| {' | '.join(HEADINGS)} |",
        "|---" * len(HEADINGS) + "|",
        *(f"| {' | '.join(texts(row))} |".replace(" us ", " \u00b5s ") for row in document["rows"]),
    ]
    return "\n".join(lines) + "\n"


def for_readme(document: dict[str, Any]) -> str:
    """Returns the figures of README.md, all with the driver's disk cache on."""
    installed = [row["as installed"] for row in document["rows"] if "as installed" in row]
    rows = {figure["name"]: figure for figure in installed}
    added = "\n".join(
        f"  {name}: {rows[name]['difference']:.1f} ms"
        for what in ("no pipeline", "one stored pipeline")
        for name in (f"a process with {what}", f"processor time, {what}")
    )
    ways = {row["way"]: row for row in document["driver_cache"]}
    alone, cells = ways["the driver alone"], ways["cells, keep"]
    cold = alone["cold_ns"]
    return (
        "README.md, RADV without hardware:\n"
        f"  no pylayer, the driver's own disk cache filled: {alone['both_warm_ns'] / cold:.2g}\n"
        f"  pylayer's first run, the driver's cache empty: {cells['cold_ratio']:.2f}\n"
        f"  pylayer's store filled, the driver's cache filled: {cells['both_warm_ns'] / cold:.2g}\n"
        f"  pylayer's store filled, the driver's cache empty: {cells['store_warm_ns'] / cold:.2g}\n"
        f"Time that the layer adds:\n{added}"
    )


def main() -> None:
    document = json.loads(Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench.json").read_text())
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    assert after, f"{PAGE} lacks the comments between which the table is"
    PAGE.write_text(before + BEGIN + table(document) + END + after)
    print(for_readme(document))


if __name__ == "__main__":
    main()
