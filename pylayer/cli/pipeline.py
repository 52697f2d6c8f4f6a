"""``pylayer report --pipeline``: all that is recorded and stored of one pipeline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..report import recorded
from ..report.figures import OUTCOMES, moment, origin, pipeline
from .output import (
    Failure,
    WrongUse,
    console,
    human_time,
    plural,
    print_facts,
    print_json,
)
from .selection import Names

if TYPE_CHECKING:
    from ..report.recorded import Run
    from ..store.store import Store

#: A fingerprint, or its beginning.
_DIGITS = re.compile(r"[0-9a-f]{4,16}")


def _seen(root: str, runs: list[Run], beginning: str) -> dict[int, list[tuple[Run, dict[str, Any]]]]:
    """Returns what the timelines have of pipelines whose fingerprints begin so, the newest run first."""
    found: dict[int, list[tuple[Run, dict[str, Any]]]] = {}
    for run in reversed(runs):
        line = run.timeline(root)
        for event in line.events if line is not None else ():
            if event.type == "pipeline" and f"{event.fingerprint:016x}".startswith(beginning) and line is not None:
                own = pipeline(event, origin(run, line), line)
                found.setdefault(event.fingerprint, []).append((run, own))
    return found


def _one(found: dict[int, Any], beginning: str, root: str) -> int:
    """Returns the only fingerprint that begins so. Raises Failure and WrongUse."""
    if len(found) > 1:
        listed = ", ".join(f"{number:016x}" for number in sorted(found)[:5])
        raise WrongUse(f"{len(found)} fingerprints begin with {beginning} ({listed}); give more characters")
    if found:
        return int(next(iter(found)))
    if len(beginning) == 16:
        return int(beginning, 16)
    raise Failure(f"no pipeline in {root} has a fingerprint that begins with {beginning}; pylayer report has them")


def _json(store: Store, fingerprint: int, seen: list[tuple[Run, dict[str, Any]]]) -> dict[str, Any]:
    names = Names(store.root)
    newest = seen[0][1] if seen else {}
    named = next((own["name"] for _, own in seen if own["name"]), "")
    shelves = store.shelves(lambda name: True, names.learn)
    stored = [
        (shelf.name, holding.program, holding.fingerprints[fingerprint])
        for shelf in shelves
        for holding in shelf.holdings.values()
        if fingerprint in holding.fingerprints
    ]
    return {
        "store": store.root,
        "fingerprint": f"{fingerprint:016x}",
        "name": named,
        "kind": newest.get("kind", ""),
        "stages": newest.get("stages", []),
        "entry_point": newest.get("entry_point", ""),
        "shaders": next((own["shaders"] for _, own in seen if own["shaders"]), []),
        "stored": [
            {
                "program": names.of(program),
                "identity": identity,
                **dict(zip(("device", "driver"), names.recorded(identity), strict=True)),
                "compile_ns": compile_ns,
            }
            for identity, program, compile_ns in stored
        ],
        "runs": [
            {
                "run": run.name,
                "program": run.title,
                "pid": run.pid,
                "time_s": run.started + own["at_ns"] / 1e9,
                **{key: own[key] for key in ("at_ns", "duration_ns", "outcome", "pipelines", "thread", "thread_name")},
            }
            for run, own in seen
        ],
    }


def _print(found: dict[str, Any]) -> None:
    from rich.table import Table

    out = console()
    out.print(" ".join(text for text in (found["fingerprint"], found["name"]) if text), style="bold")
    facts = [("kind", found["kind"] or "unknown"), ("stages", ", ".join(found["stages"]) or "unknown")]
    facts += [("entry point", found["entry_point"] or "main")] if found["stages"] else []
    facts += [
        (f"{one['stage']} shader", " ".join(text for text in (one["hash"] or "unknown code", one["name"]) if text))
        for one in found["shaders"]
    ]
    for one in found["stored"]:
        took = f", compiled in {human_time(one['compile_ns'])}" if one["compile_ns"] else ""
        device = f"{one['device'] or 'unknown device'}, {one['driver'] or one['identity']}"
        facts.append(("stored", f"for {one['program']} on {device}{took}"))
    print_facts(out, facts if found["stored"] else [*facts, ("stored", "no")])
    if not found["runs"]:
        return
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=True)
    for name in ("when", "took", "what", "program", "run"):
        table.add_column(name, justify="right" if name == "took" else "left", overflow="fold")
    for own in found["runs"]:
        what = OUTCOMES.get(own["outcome"], own["outcome"])
        if own["pipelines"] > 1:
            what += f" ({plural(own['pipelines'], 'pipeline')} in the call)"
        table.add_row(moment(own["time_s"]), human_time(own["duration_ns"]), what, own["program"], own["run"])
    out.print()
    out.print("When it was compiled, in the runs that have a timeline", style="bold")
    out.print(table)


def show(store: Store, fingerprint: str, as_json: bool) -> None:
    """Prints all that is recorded and stored of one pipeline. Raises Failure and WrongUse."""
    beginning = fingerprint.lower().removeprefix("0x")
    if not _DIGITS.fullmatch(beginning):
        raise WrongUse(f"{fingerprint} is no fingerprint: 4 to 16 digits and letters a to f; pylayer report has them")
    found = _seen(store.root, recorded.read(store.root), beginning)
    number = _one(found, beginning, store.root)
    values = _json(store, number, found.get(number, []))
    if not values["stored"] and not values["runs"]:
        raise Failure(f"nothing in {store.root} has the fingerprint {beginning}; pylayer report lists those of a run")
    if as_json:
        print_json(values)
    else:
        _print(values)
