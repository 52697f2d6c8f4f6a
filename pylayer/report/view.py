"""What the page says of a run: cards, sentences and tables, as texts. The template has the markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .figures import HELD_UP, OUTCOMES, moment
from .remarks import lost
from .words import human_bytes, human_time, plural, printable

if TYPE_CHECKING:
    from ..store.store import Timeline

#: For a cell that shows code.
_CODE = {"code": True}


def _cell(text: str, by: float | None = None, **more: Any) -> dict[str, Any]:
    """Returns a cell. ``by``: the value to sort the column by, if it is not the text. ``show``: start and duration in
    seconds, if the timeline shows the event. ``frame``: it is a frame."""
    return {"text": text, "by": by, "show": None, "frame": False, "code": False, **more}


def _columns(*names: str) -> list[dict[str, Any]]:
    """Returns columns by name. A name that begins with # marks a column of numbers."""
    return [{"name": name.lstrip("#"), "number": name.startswith("#")} for name in names]


def _row(*cells: dict[str, Any], this: bool = False) -> dict[str, Any]:
    return {"cells": cells, "this": this}


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
    """Returns the card of late frames, or, of a run without frames, of stalls."""
    if run["frames"]:
        late, own = run["late_frames"], run["late_by_pipelines"]
        if late is None:
            return _card("Late frames", "?", f"of {run['frames']:,}; the timeline lacks some of them")
        detail = f"of {run['frames']:,}" + (f"; {own:,} because of pipelines" if late else "")
        longest = f"; the longest frame took {human_time(run['longest_frame_ns'])}" if run["longest_frame_ns"] else ""
        return _card("Late frames", f"{late:,}", detail + longest, warn=bool(own))
    if run["stalls"] is None:
        return _card("Longest stall", "?", "no timeline says which calls took long")
    if not run["stalls"]:
        return _card("Longest stall", "none", f"nothing over {human_time(frame_ns)}")
    count = f"{plural(run['stalls'], 'stall')} over {human_time(frame_ns)}"
    return _card("Longest stall", human_time(run["longest_stall_ns"]), count, warn=True)


def held_up(run: dict[str, Any], frame_ns: int) -> dict[str, str]:
    """Returns the sentences around the timeline, which speak of frames where there are any."""
    frame = human_time(frame_ns)
    if run["frames"]:
        return {
            "timeline_meaning": (
                "Above, each bar is a frame, as high as it was long. Below, each bar is a pipeline, in its thread's "
                "row. ▼ marks those that held up a frame."
            ),
            "late_name": "late frame",
            "stalls_name": "Longest times in pipelines without a pause",
            "nothing_late": "No frame came late because of pipelines.",
            "stall_meaning": (
                "A time in which one thread was in calls that create pipelines or caches, without a pause. It is a "
                "stutter only if it held up a frame."
            ),
        }
    return {
        "timeline_meaning": (
            "No frames: this run presented none to a swapchain, or they were not recorded. Each bar is a pipeline, "
            f"in the row of the thread that created it. What is longer than {frame} is a stutter if the thread renders."
        ),
        "late_name": "long compile",
        "stalls_name": "The longest stalls",
        "nothing_late": f"No thread was held up for longer than {frame}.",
        "stall_meaning": (
            "A time in which one thread was in calls that create pipelines or caches, without a pause of more than "
            f"1 ms. Those longer than {frame} are listed."
        ),
    }


def cards(run: dict[str, Any], frame_ns: int) -> list[dict[str, Any]]:
    """Returns the numbers at the top of the page."""
    looked = run["hits"] + (run["compiled"] or 0)
    if run["compiled"] is None:
        found = f"{run['unknown_pipelines']:,} unknown"
    elif run["carrier"] in ("off", "observe") and not run["hits"]:
        found = "none was probed"
    else:
        found = f"{100 * run['hits'] / looked:.0f} % of those probed" if looked else ""
    adopted = f"; {run['adopted']:,} from the driver's own cache" if run["adopted"] else ""
    took = f"unknown of {plural(run['unknown_pipelines'], 'pipeline')}"
    if run["compile_ns"] is not None:
        took = f"{human_time(run['compile_ns'])} in all"
    return [
        _card("Pipelines created", f"{run['pipelines']:,}", f"in {human_time(run['duration_ns'])}"),
        _card("Hits", f"{run['hits']:,}", found),
        _card("Compiled", _count(run["compiled"])["text"], f"{took}{adopted}"),
        _card("Time saved", *_saved(run)),
        _worst(run, frame_ns),
        _card("Stored by this run", human_bytes(run["stored_bytes"]), plural(run["stored_records"], "record")),
    ]  # fmt: skip


def _longest(stall: dict[str, Any]) -> dict[str, Any]:
    if stall["longest_type"] in HELD_UP:
        return _cell(HELD_UP[stall["longest_type"]])
    return _cell(" ".join(text for text in (stall["longest"], stall["longest_name"]) if text) or "unknown", **_CODE)


def _late(run: dict[str, Any], names: dict[int, str]) -> tuple[list[Any], list[Any]]:
    rows = []
    for own in run["late"]:
        held = [f"{one['name'] or one['fingerprint']} {human_time(one['duration_ns'])}" for one in own["pipelines"]]
        more = f" and {len(held) - 3} more" if len(held) > 3 else ""
        cells = [_cell(f"{own['frame']:,}", own["frame"]), _clock(run, own), _at(own, frame=True)]
        cells += [_time(own["duration_ns"]), _time(own["pipelines_ns"])]
        cells += [
            _cell(", ".join(_thread(thread, names) for thread in own["threads"])),
            _cell(", ".join(held[:3]) + more),
        ]
        rows.append(_row(*cells))
    return _columns("#Frame", "#Clock", "#At", "#Took", "#Of it pipelines", "Threads", "Pipelines"), rows


def tables(run: dict[str, Any], names: dict[int, str]) -> dict[str, tuple[list[Any], list[Any]]]:
    """Returns columns and rows of the run's tables, by their names in the template."""
    return {
        "late": _late(run, names),
        "stall": stalls(run, names),
        "slow": pipelines(run["slowest"], names, run["frames"] is not None),
        "kind": kinds(run),
        "verdict": verdicts(run),
        "history": history(run),
    }


def stalls(run: dict[str, Any], names: dict[int, str]) -> tuple[list[Any], list[Any]]:
    """Returns columns and rows."""
    rows = [
        _row(
            _clock(run, stall),
            _at(stall),
            _time(stall["duration_ns"]),
            _cell(_thread(stall["thread"], names)),
            _count(stall["pipelines"]),
            _longest(stall),
            _time(stall["longest_ns"]),
        )
        for stall in run["longest_stalls"]
    ]
    return _columns("#Clock", "#At", "#Held up", "Thread", "#Pipelines", "Longest", "#Took"), rows


def pipelines(
    found: list[dict[str, Any]], names: dict[int, str], presented: bool = False
) -> tuple[list[Any], list[Any]]:
    """Returns columns and rows, without optional columns that would say the same or nothing in every row.

    presented: the run has frames, of which each pipeline may have held up one.
    """
    entries = any(own["entry_point"] for own in found)
    several = any(own["pipelines"] > 1 for own in found)
    named = any(own["name"] for own in found)
    threads = len({own["thread"] for own in found}) > 1
    outcomes = any(own["outcome"] != "compiled" for own in found)
    rows = []
    for own in found:
        cells = [_cell(own["fingerprint"] or "unknown", **_CODE)]
        cells += [_cell(own["name"])] if named else []
        cells += [_time(own["duration_ns"]), _at(own)]
        cells += [_cell("no frame" if own["frame"] is None else f"frame {own['frame']:,}")] if presented else []
        cells += [_cell(own["kind"]), _cell(", ".join(own["stages"]) or "unknown")]
        cells += [_cell(own["entry_point"] or "main", **_CODE)] if entries else []
        cells += [_count(own["pipelines"])] if several else []
        cells += [_cell(_thread(own["thread"], names))] if threads else []
        cells += [_cell(OUTCOMES.get(own["outcome"], own["outcome"]))] if outcomes else []
        rows.append(_row(*cells))
    entry, count = (["Entry point"] if entries else []), (["#Pipelines in the call"] if several else [])
    name, thread, outcome = ["Name"] * named, ["Thread"] * threads, ["Outcome"] * outcomes
    times = ["#Took", "#At", *["Held up"] * presented]
    return _columns("Fingerprint", *name, *times, "Kind", "Stages", *entry, *count, *thread, *outcome), rows


def kinds(run: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Returns columns and rows."""
    rows = []
    for own in run["kinds"]:
        mean = own["compile_ns"] // own["compiled"] if own["compiled"] else None
        cells = [_count(own["hits"]), _count(own["compiled"]), _time(own["compile_ns"])]
        cells += [
            _cell("", 0) if mean is None else _time(mean),
            _cell("", 0) if mean is None else _time(own["longest_ns"]),
        ]
        rows.append(_row(_cell(own["kind"]), *cells))
    return _columns("Kind", "#Hits", "#Compiled", "#Compiling took", "#On average", "#Longest"), rows


def verdicts(run: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Returns columns and rows."""
    found = run["verdicts"]
    if found and found[0]["at_ns"] is None:
        counted = [
            _row(_cell(own["reason"]), _count(own["count"]), _cell(own["verdict"] or "unknown"), _cell(own["meaning"]))
            for own in found
        ]
        return _columns("Reason", "#Times", "Verdict", "Which means"), counted
    rows = [
        _row(
            _cell(f"cache {own['cache']}"),
            _cell(f"{own['at_ns'] / 1e9:.3f} s", own["at_ns"]),
            _size(own["bytes"]),
            _cell(own["verdict"]),
            _cell(f"{own['reason']}: {own['meaning']}" if own["meaning"] else own["reason"]),
            _time(own["waited_ns"]),
        )
        for own in found
    ]
    return _columns("Cache", "#At", "#Size", "Verdict", "Reason", "#The program waited"), rows


def history(run: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Returns columns and rows."""
    rows = [
        _row(
            _cell(moment(own["started_s"]) + (", this run" if own["this"] else "")),
            _count(own["pid"]),
            _count(own["hits"]),
            _count(own["compiled"]),
            _time(own["compile_ns"]),
            _size(own["stored_bytes"]),
            _size(own["stored_bytes_so_far"]),
            *([_size(own["store_bytes"])] if any(row["store_bytes"] for row in run["history"]) else []),
            this=own["this"],
        )
        for own in reversed(run["history"])
    ]
    for row in rows:
        row["cells"][1]["text"] = str(row["cells"][1]["by"])
    folder = ["#All programs' pipelines"] if any(row["store_bytes"] for row in run["history"]) else []
    columns = _columns(
        "Began", "#Process", "#Hits", "#Compiled", "#Compiling took", "#Stored by it", "#By all so far", *folder
    )
    return columns, rows


#: The rows of a comparison: the key, its name, and the function that formats it.
COMPARED = (
    ("pipelines", "Pipelines created", _count),
    ("hits", "Hits", _count),
    ("compiled", "Compiled", _count),
    ("compile_ns", "Compiling took", _time),
    ("spent_ns", "Creating pipelines took", _time),
    ("stalls", "Stalls", _count),
    ("stalled_ns", "Held up by stalls for", _time),
    ("longest_stall_ns", "Longest stall", _time),
    ("loaded_records", "Loaded from the store", _count),
    ("load_ns", "Loading took", _time),
    ("stored_records", "Stored", _count),
    ("stored_bytes", "Stored, size", _size),
)


def _difference(write: Any, now: int | None, then: int | None) -> dict[str, Any]:
    if now is None or then is None:
        return _cell("?", 0)
    less = now - then
    sign = "+" if less > 0 else "−" if less < 0 else ""
    return {**write(abs(less)), "text": sign + write(abs(less))["text"], "by": less}


def against(found: dict[str, Any], run: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    """Returns a comparison for the template."""
    this, then = found["this"], found["earlier"]
    rows = [
        _row(_cell(name), write(this[key]), write(then[key]), _difference(write, this[key], then[key]))
        for key, name, write in COMPARED
    ]
    driver = "the same driver and device" if found["same_identity"] else (
        f"another driver or device: {found['driver'] or 'unknown driver'}, {found['device'] or 'unknown device'}"
    )  # fmt: skip
    what = f"Process {found['pid']}, {found['program']}, with {driver}."
    if not found["same_identity"]:
        what += " What was compiled for one of them is of no use for the other."
    sets = ""
    if found["only_now"] is not None:
        sets = (
            f"Of the pipelines that were compiled, by their fingerprints, {found['only_now']:,} were compiled in this "
            f"run only, {found['again']:,} in both, and {found['only_then']:,} in the other only."
        )
    parts = []
    for key, title in (("new_pipelines", "Compiled in this run only"), ("compiled_again", "Compiled in both")):
        if found[key]:
            columns, lines = pipelines(found[key], names)
            parts.append({"title": f"{title}, the slowest first", "columns": columns, "rows": lines})
    columns = _columns("What", "#This run", "#The other", "#Difference")
    return {
        "when": moment(found["started_s"]),
        "what": what,
        "sets": sets,
        "columns": columns,
        "rows": rows,
        "parts": parts,
    }


def timeline_note(run: dict[str, Any]) -> str:
    """Returns what is missing on the timeline, and why; empty if nothing is."""
    line = run["timeline"]
    if line["outcome"] == "missing":
        return (
            "No timeline was recorded for this run, or it was deleted. A run of less than two seconds that compiles "
            "nothing has none. Of the others, the newest 50 are kept, unless timeline_mib in the policy file is 0."
        )
    notes = []
    if line["outcome"] == "truncated":
        notes.append("The end of the timeline is missing: the program ended before it was written.")
    elif line["outcome"] != "ok":
        notes.append(f"A part of the timeline could not be read ({line['outcome']}).")
    elif run["state"] == "died":
        notes.append("What happened in the last second before the program died may be missing.")
    if line["dropped"]:
        notes.append(f"{plural(line['dropped'], 'event')} did not fit (timeline_mib in the policy file).")
    return " ".join(notes)


#: What was stored, by the name of the carrier.
CARRIERS = {
    "cells": "each pipeline by itself (cells)",
    "binaries": "each pipeline's binaries (binaries)",
    "snapshot": "the whole cache (snapshot)",
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


def saved_meaning(run: dict[str, Any]) -> str:
    """Returns how the time saved is estimated, with this run's numbers."""
    text = (
        "An estimate: the hits, one for each stored pipeline, times the average time of a compile when the store was "
        "filled, minus the time of the hits, minus the time that the program waited for the store and for verdicts on "
        "its caches. A pipeline that the program creates twice counts once. Without pylayer the driver's own cache "
        "might have had some of them; then less was saved."
    )
    if run["saved_estimate_ns"] is None:
        return f"{text} For this run there is no estimate, because the time of compiles is unknown."
    hits, loaded = f"{run['hits']:,} hits in {human_time(run['hit_ns'])}", f"{run['loaded_records']:,} stored pipelines"
    return f"{text} Here: {hits}, {loaded} loaded, {human_time(run['waited_ns'])} waited."
