"""What the page says of a run: cards, sentences and tables, as texts. The template has the markup."""

from __future__ import annotations

from typing import Any

from .rows import OUTCOMES, Row, lost
from .words import human_bytes, human_time, moment, plural

#: The columns' names, with # before those of numbers, and rows of cells.
Table = tuple[list[str], list[list[dict[str, Any]]]]

#: The tables' columns, and the keys of what is in them.
LATE = {
    "#Frame": "frame",
    "#Clock": "clock",
    "#At": "at_ns",
    "#Took": "duration_ns",
    "#Of it pipelines": "pipelines_ns",
    "What": "what",
}
SLOWEST = {
    "Fingerprint": "fingerprint",
    "Name": "name",
    "#Took": "duration_ns",
    "#At": "at_ns",
    "Held up": "frame",
    "Kind": "kind",
    "Stages": "stages",
    "Entry point": "entry_point",
    "#Pipelines in the call": "pipelines",
    "Thread": "thread",
    "Outcome": "outcome",
}
KINDS = {"Kind": "kind", "#Hits": "hits", "#Compiled": "compiled", "#Compiling took": "compile_ns"}
CACHE_DATA = {"Reason": "reason", "#Times": "count", "Outcome": "outcome", "Which means": "meaning"}
#: The columns that show code.
CODE = ("fingerprint", "entry_point")


def _cell(row: Row, key: str) -> dict[str, Any]:
    """Returns a cell. ``by``: the value to sort the column by, if it is not the text. ``show``: start and duration in
    seconds of what the timeline shows, too."""
    value, show = row[key], None
    text = f"{value:,}" if isinstance(value, int) else str(value)
    if key == "at_ns":
        text, show = f"{value / 1e9:.3f} s", f"{value / 1e9:.7f} {row['duration_ns'] / 1e9:.7f}"
    elif key.endswith("_ns"):
        text = human_time(value)
    by = row["at_ns"] if key == "clock" else value if isinstance(value, int) else None
    return {"text": text, "by": by, "show": show, "frame": "what" in row, "code": key in CODE}


def table(found: list[Row], columns: dict[str, str], without: dict[str, str] | None = None) -> Table:
    """Returns a table, without those columns that have nothing but this in each row."""
    cells = {name: [_cell(row, key) for row in found] for name, key in columns.items()}
    texts = {name: {cell["text"] for cell in column} for name, column in cells.items()}
    kept = [name for name in columns if texts[name] != {(without or {}).get(columns[name])}]
    return kept, [list(row) for row in zip(*(cells[name] for name in kept), strict=True)]


def _late(run: Row, own: Row) -> Row:
    clock = moment(run["started_s"] + own["at_ns"] / 1e9)[-8:]
    return {**own, "clock": clock, "what": own["text"].partition(", ")[2]}


def _slow(run: Row, own: Row) -> Row:
    name = f"{own['thread_name']} ({own['thread']})" if own["thread_name"] else f"thread {own['thread']}"
    frame = "" if run["frames"] is None else "no frame" if own["frame"] is None else f"frame {own['frame']:,}"
    return {
        **own,
        "fingerprint": own["fingerprint"] or "unknown",
        "frame": frame,
        "stages": ", ".join(own["stages"]) or "unknown",
        "entry_point": own["entry_point"] or "main",
        "thread": name if own["thread"] else "unknown",
        "outcome": OUTCOMES.get(own["outcome"], own["outcome"]),
    }


def tables(run: Row) -> dict[str, Table]:
    """Returns the run's tables, by their names in the template."""
    slow = [_slow(run, own) for own in run["slowest"]]
    one_thread = slow[0]["thread"] if slow else ""
    usual = {"name": "", "frame": "", "entry_point": "main", "pipelines": "1", "outcome": OUTCOMES["compiled"]}
    return {
        "late": table([_late(run, own) for own in run["late"]], LATE),
        "slow": table(slow, SLOWEST, {**usual, "thread": one_thread}),
        "kind": table(run["kinds"], KINDS),
        "cache_data": table(run["cache_data"], CACHE_DATA),
    }


def _card(name: str, value: str, detail: str, warn: bool = False) -> dict[str, Any]:
    return {"name": name, "value": value, "detail": detail, "warn": warn}


def _saved(run: Row) -> tuple[str, str]:
    saved = run["saved_estimate_ns"]
    if saved is None:
        return "unknown", "no compile time is known"
    return human_time(saved), lost(run) or "an estimate"


def _worst(run: Row, frame_ns: int) -> dict[str, Any]:
    """Returns the card of late frames or, of a run without frames, of the longest pipeline."""
    if run["frames"]:
        late, own = run["late_frames"], run["late_by_pipelines"]
        if late is None:
            return _card("Late frames", "?", f"of {run['frames']:,}; the timeline lacks some of them")
        detail = f"of {run['frames']:,}" + (f"; {own:,} because of pipelines" if late else "")
        longest = f"; the longest frame took {human_time(run['longest_frame_ns'])}" if run["longest_frame_ns"] else ""
        return _card("Late frames", f"{late:,}", detail + longest, warn=bool(own))
    if not run["slowest"]:
        return _card("Longest pipeline", "?", "no timeline has one")
    longest = run["slowest"][0]["duration_ns"]
    return _card("Longest pipeline", human_time(longest), "no frames were seen", warn=longest > frame_ns)


def cards(run: Row, frame_ns: int) -> list[dict[str, Any]]:
    """Returns the numbers at the top of the page."""
    looked = run["hits"] + (run["compiled"] or 0)
    if run["compiled"] is None:
        found = f"{run['unknown_pipelines']:,} unknown"
    elif run["mode"] in ("off", "observe") and not run["hits"]:
        found = "none was probed"
    else:
        found = f"{100 * run['hits'] / looked:.0f} % of those probed" if looked else ""
    took = f"unknown of {plural(run['unknown_pipelines'], 'pipeline')}"
    if run["compile_ns"] is not None:
        took = f"{human_time(run['compile_ns'])} in all"
    return [
        _card("Pipelines created", f"{run['pipelines']:,}", f"in {human_time(run['duration_ns'])}"),
        _card("Hits", f"{run['hits']:,}", found),
        _card("Compiled", "?" if run["compiled"] is None else f"{run['compiled']:,}", took),
        _card("Time saved", *_saved(run)),
        _worst(run, frame_ns),
        _card("Stored by this run", human_bytes(run["stored_bytes"]), plural(run["stored_records"], "record")),
    ]  # fmt: skip


def timeline_note(run: Row) -> str:
    """Returns what is missing on the timeline, and why; empty if nothing is."""
    line = run["timeline"]
    if line["outcome"] == "missing":
        return "No timeline was recorded for this run. One of less than two seconds that compiles nothing has none."
    notes = []
    if line["outcome"] == "truncated":
        notes.append("The end of the timeline is missing: the program ended before it was written.")
    elif line["outcome"] != "ok":
        notes.append(f"A part of the timeline could not be read ({line['outcome']}).")
    elif run["state"] == "died":
        notes.append("What happened in the last second before the program died may be missing.")
    if line["dropped"]:
        notes.append(f"{plural(line['dropped'], 'event')} did not fit.")
    return " ".join(notes)


_STATES = {
    "ended": "ended after {duration}",
    "running": "still running, for {duration} so far",
    "died": "died, or was killed, after {duration} or more",
    "unknown": "lasted {duration} or more",
}


def state(run: Row) -> str:
    """Returns whether and when the run ended."""
    return _STATES[run["state"]].format(duration=human_time(run["duration_ns"]))
