"""Puts the figures of the last `make bench` into docs/internals/performance.md.

pages.py [FILE]   FILE is what run.py wrote: build/bench.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import HEADINGS, texts

PAGE = Path("docs/internals/performance.md")
BEGIN, END = "<!-- make bench: begin -->\n", "<!-- make bench: end -->\n"


def shown(cells: Sequence[str]) -> list[str]:
    """Returns a row's cells without the time under the layer, which the comparisons say."""
    return [*cells[:3], *cells[4:]]


def table(document: dict[str, Any]) -> str:
    """Returns the rows in Markdown, with how many rounds were measured."""
    rounds = sorted({figure["rounds"] for row in document["rows"] for figure in row.values()})
    lines = [
        f"{document['count']} pipelines, {rounds[0]} to {rounds[-1]} rounds. What is compiled has the fewest.\n",
        f"| {' | '.join(shown(HEADINGS))} |",
        "|---" * len(shown(HEADINGS)) + "|",
        *(f"| {' | '.join(shown(texts(row)))} |".replace(" us ", " \u00b5s ") for row in document["rows"]),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    document = json.loads(Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench.json").read_text())
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    assert after, f"{PAGE} lacks the comments between which the table is"
    PAGE.write_text(before + BEGIN + table(document) + END + after)


if __name__ == "__main__":
    main()
