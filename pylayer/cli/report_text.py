"""What ``pylayer report`` prints: the numbers and tables of the page, without its charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..report import view
from ..report.figures import moment
from .output import print_facts, print_indented

if TYPE_CHECKING:
    from rich.console import Console

#: The most rows of a table.
ROWS = 10


def _table(out: Console, title: str, found: tuple[list[Any], list[Any]], there: int = 0) -> None:
    """Prints a table under its title, which says how many rows it has if not all ``there`` are shown."""
    from rich.table import Table

    columns, rows = found
    there = max(len(rows), there)
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=True)
    for column in columns:
        table.add_column(column["name"].lower(), justify="right" if column["number"] else "left", overflow="fold")
    for row in rows[:ROWS]:
        table.add_row(*(cell["text"] for cell in row["cells"]))
    out.print()
    out.print(f"{title}: {ROWS} of {there:,}" if there > ROWS else title, style="bold")
    out.print(table)


def print_run(out: Console, own: dict[str, Any], threads: dict[int, str], frame_ns: int) -> None:
    """Prints what mattered in one run. ``threads``: names of threads."""
    driver = ", ".join(text for text in (own["driver"], own["driver_info"]) if text)
    out.print(f"{own['program']}, {moment(own['started_s'])}", style="bold")
    facts = [
        ("run", f"{own['run']}, process {own['pid'] or 'unknown'}"),
        ("state", view.state(own)),
        ("device", f"{own['device'] or 'unknown device'}; {driver or 'unknown driver'}"),
        ("kept", view.CARRIERS.get(own["carrier"], own["carrier"] or "unknown")),
    ]
    facts += [(card["name"].lower(), f"{card['value']}; {card['detail']}") for card in view.cards(own, frame_ns)]
    print_facts(out, facts)
    for remark in [*own["remarks"], *([note] if (note := view.timeline_note(own)) else [])]:
        print_indented(out, remark, "yellow")
    if own["late"]:
        there = own["late_frames"] or len(own["late"])
        out.print()
        shown = own["late"][:ROWS]
        most = f": {len(shown)} of {there:,}" if there > len(shown) else ""
        out.print(f"Late frames, the longest first{most}", style="bold")
        for late in shown:
            print_indented(out, f"{late['at_ns'] / 1e9:.3f} s: {late['text']}")
    if own["slowest"]:
        rows = view.pipelines(own["slowest"], threads, own["frames"] is not None)
        _table(out, "Slowest pipelines", rows, own["compiled"] or 0)
    if own["kinds"]:
        _table(out, "Hits and compiled pipelines by kind", view.kinds(own))
    refused = [verdict for verdict in own["verdicts"] if verdict["verdict"] != "passed"]
    if refused:
        _table(out, "Refused cache data of the program", view.verdicts(refused))
