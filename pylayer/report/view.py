"""What the page says of a run: cards, sentences and tables, as texts. The template has the markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .figures import OUTCOMES, moment
from .remarks import lost
from .words import human_bytes, human_time, plural, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..store.store import Timeline

#: Columns and rows.
Table = tuple[list[Any], list[Any]]
#: For a cell that shows code.
_CODE = {"code": True}


def _cell(text: str, by: float | None = None, **more: Any) -> dict[str, Any]:
    """Returns a cell. ``by``: the value to sort the column by, if it is not the text. ``show``: start and duration in
    seconds, if the timeline shows the event. ``frame``: it is a frame."""
    return {"text": text, "by": by, "show": None, "frame": False, "code": False, **more}


def _table(found: Iterable[Any], *columns: tuple[str, Callable[[Any], dict[str, Any]]] | bool) -> Table:
    """Returns columns and rows. Each column has a name, with # before it for numbers, and a function that returns its
    cell of a row; False is none."""
    used = [column for column in columns if not isinstance(column, bool)]
    names = [{"name": name.lstrip("#"), "number": name.startswith("#")} for name, _ in used]
    return names, [{"cells": [cell(own) for _, cell in used]} for own in found]


def _count(number: int | None) -> dict[str, Any]:
    return _cell("?", -1) if number is None else _cell(f"{number:,}", number)


def _time(nanoseconds: int | None) -> dict[str, Any]:
    return _cell("?", -1) if nanoseconds is None else _cell(human_time(nanoseconds), nanoseconds)


def _size(size: int | None) -> dict[str, Any]:
    return _cell("?", -1) if size is None else _cell(human_bytes(size), size)


def _at(own: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Returns when something happened, as a cell that leads to it on the timeline."""
    text = f"{own['at_ns'] / 1e9:.3f} s"
    return _cell(text, own["at_ns"], show=f"{own['at_ns'] / 1e9:.7f} {own['duration_ns'] / 1e9:.7f}", **more)


def thread_names(line: Timeline | None) -> dict[int, str]:
    """Returns the threads that have a name."""
    known = line.threads.items() if line is not None else ()
    return {thread: f"{printable(name)} ({thread})" for thread, name in known if name}


def _clock(run: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Returns the time of day when something happened."""
    return _cell(moment(run["started_s"] + own["at_ns"] / 1e9)[-8:], own["at_ns"])


def _thread(thread: int, names: dict[int, str]) -> str:
    return names.get(thread, f"thread {thread}") if thread else "unknown"


def _card(name: str, value: str, detail: str, warn: bool = False) -> dict[str, Any]:
    return {"name": name, "value": value, "detail": detail, "warn": warn}


def _saved(run: dict[str, Any]) -> tuple[str, str]:
    saved = run["saved_estimate_ns"]
    if saved is None:
        return "unknown", "no compile time is known"
    return human_time(saved), lost(saved, run["waited_ns"], run["hits"]) or "an estimate"


def _worst(run: dict[str, Any], frame_ns: int) -> dict[str, Any]:
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


def cards(run: dict[str, Any], frame_ns: int) -> list[dict[str, Any]]:
    """Returns the numbers at the top of the page."""
    looked = run["hits"] + (run["compiled"] or 0)
    if run["compiled"] is None:
        found = f"{run['unknown_pipelines']:,} unknown"
    elif run["carrier"] in ("off", "observe") and not run["hits"]:
        found = "none was probed"
    else:
        found = f"{100 * run['hits'] / looked:.0f} % of those probed" if looked else ""
    took = f"unknown of {plural(run['unknown_pipelines'], 'pipeline')}"
    if run["compile_ns"] is not None:
        took = f"{human_time(run['compile_ns'])} in all"
    return [
        _card("Pipelines created", f"{run['pipelines']:,}", f"in {human_time(run['duration_ns'])}"),
        _card("Hits", f"{run['hits']:,}", found),
        _card("Compiled", _count(run["compiled"])["text"], took),
        _card("Time saved", *_saved(run)),
        _worst(run, frame_ns),
        _card("Stored by this run", human_bytes(run["stored_bytes"]), plural(run["stored_records"], "record")),
    ]  # fmt: skip


def _held(own: dict[str, Any]) -> dict[str, Any]:
    """Returns the pipelines that held up a frame."""
    held = [f"{one['name'] or one['fingerprint']} {human_time(one['duration_ns'])}" for one in own["pipelines"]]
    return _cell(", ".join(held[:3]) + (f" and {len(held) - 3} more" if len(held) > 3 else ""))


def _late(run: dict[str, Any], names: dict[int, str]) -> Table:
    return _table(
        run["late"],
        ("#Frame", lambda own: _cell(f"{own['frame']:,}", own["frame"])),
        ("#Clock", lambda own: _clock(run, own)),
        ("#At", lambda own: _at(own, frame=True)),
        ("#Took", lambda own: _time(own["duration_ns"])),
        ("#Of it pipelines", lambda own: _time(own["pipelines_ns"])),
        ("Threads", lambda own: _cell(", ".join(_thread(thread, names) for thread in own["threads"]))),
        ("Pipelines", _held),
    )


def tables(run: dict[str, Any], names: dict[int, str]) -> dict[str, Table]:
    """Returns columns and rows of the run's tables, by their names in the template."""
    return {
        "late": _late(run, names),
        "slow": pipelines(run["slowest"], names, run["frames"] is not None),
        "kind": kinds(run),
        "verdict": verdicts(run["verdicts"]),
    }


def pipelines(found: list[dict[str, Any]], names: dict[int, str], presented: bool = False) -> Table:
    """Returns a table without optional columns that would say the same or nothing in every row.

    presented: the run has frames, of which each pipeline may have held up one.
    """
    threads = len({own["thread"] for own in found}) > 1
    return _table(
        found,
        ("Fingerprint", lambda own: _cell(own["fingerprint"] or "unknown", **_CODE)),
        any(own["name"] for own in found) and ("Name", lambda own: _cell(own["name"])),
        ("#Took", lambda own: _time(own["duration_ns"])),
        ("#At", _at),
        presented and ("Held up", lambda own: _cell("no frame" if own["frame"] is None else f"frame {own['frame']:,}")),
        ("Kind", lambda own: _cell(own["kind"])),
        ("Stages", lambda own: _cell(", ".join(own["stages"]) or "unknown")),
        any(own["entry_point"] for own in found)
        and ("Entry point", lambda own: _cell(own["entry_point"] or "main", **_CODE)),
        any(own["pipelines"] > 1 for own in found) and ("#Pipelines in the call", lambda own: _count(own["pipelines"])),
        threads and ("Thread", lambda own: _cell(_thread(own["thread"], names))),
        any(own["outcome"] != "compiled" for own in found)
        and ("Outcome", lambda own: _cell(OUTCOMES.get(own["outcome"], own["outcome"]))),
    )


def kinds(run: dict[str, Any]) -> Table:
    """Returns the table of kinds of pipelines."""
    return _table(
        run["kinds"],
        ("Kind", lambda own: _cell(own["kind"])),
        ("#Hits", lambda own: _count(own["hits"])),
        ("#Compiled", lambda own: _count(own["compiled"])),
        ("#Compiling took", lambda own: _time(own["compile_ns"])),
    )


def verdicts(found: list[dict[str, Any]]) -> Table:
    """Returns the table of verdicts on cache data."""
    return _table(
        found,
        ("Reason", lambda own: _cell(own["reason"])),
        ("#Times", lambda own: _count(own["count"])),
        ("Verdict", lambda own: _cell(own["verdict"])),
        ("Which means", lambda own: _cell(own["meaning"])),
    )


def timeline_note(run: dict[str, Any]) -> str:
    """Returns what is missing on the timeline, and why; empty if nothing is."""
    line = run["timeline"]
    if line["outcome"] == "missing":
        return (
            "No timeline was recorded for this run, or it was deleted. A run of less than two seconds that compiles "
            "nothing has none. Of the others, the newest 50 are kept."
        )
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


#: What was stored, by the name of the carrier.
CARRIERS = {
    "cells": "each pipeline by itself (cells)",
    "binaries": "each pipeline's binaries (binaries)",
    "off": "nothing (off)",
    "observe": "nothing (observe)",
}

_STATES = {
    "ended": "ended after {duration}",
    "running": "still running, for {duration} so far",
    "died": "died, or was killed, after {duration} or more",
    "unknown": "lasted {duration} or more",
}


def state(run: dict[str, Any]) -> str:
    """Returns whether and when the run ended."""
    return _STATES[run["state"]].format(duration=human_time(run["duration_ns"]))
