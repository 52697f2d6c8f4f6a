"""Compares a run with an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .figures import NEW_PIPELINES, compiles, origin, pipeline
from .totals import Total

if TYPE_CHECKING:
    from .recorded import Run


def _fingerprints(root: str, run: Run) -> set[int]:
    line = run.timeline(root)
    return {event.fingerprint for event in compiles(line.events) if event.fingerprint} if line is not None else set()


def against(root: str, run: Run, earlier: Run) -> dict[str, Any]:
    """Returns this run's numbers beside the other's, and which pipelines were compiled in one of them or in both.

    Pipelines are identified by their fingerprints, which are the same in every run. If one of the runs compiled
    something and has no timeline, or it is not known what it compiled, ``only_now``, ``again`` and ``only_then`` are
    None.
    """
    line, other = run.timeline(root), earlier.timeline(root)
    ours, theirs = _fingerprints(root, run), _fingerprints(root, earlier)
    start = origin(run, line)
    new: list[dict[str, Any]] = []
    again: list[dict[str, Any]] = []
    seen: set[int] = set()
    for event in sorted(compiles(line.events), key=lambda event: -event.duration_ns) if line is not None else ():
        if event.fingerprint and event.fingerprint not in seen and line is not None:
            seen.add(event.fingerprint)
            (again if event.fingerprint in theirs else new).append(pipeline(event, start, line))
    # A run that compiled nothing has no timeline where policy rested to its end.
    known = all(
        one.shown()["compiled"] is not None and (found is not None or one.compiled == 0)
        for one, found in ((run, line), (earlier, other))
    )
    return {
        "run": earlier.name,
        "pid": earlier.pid,
        "same_identity": earlier.identity == run.identity,
        "this": Total([run]).as_json(),
        "earlier": Total([earlier]).as_json(),
        "only_now": len(ours - theirs) if known else None,
        "again": len(ours & theirs) if known else None,
        "only_then": len(theirs - ours) if known else None,
        "new_pipelines": new[:NEW_PIPELINES] if known else [],
        "compiled_again": again[:NEW_PIPELINES] if known else [],
    }
