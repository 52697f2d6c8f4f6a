"""What the page's charts are drawn from: the events of a run as columns of numbers, short enough to be in the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..values import KIND_NAMES
from ..words import printable
from . import figures, stalls

if TYPE_CHECKING:
    from ..store.timeline import Event, Timeline
    from .recorded import Recorded

#: The longest are drawn where there are more; a page of 20,000 has 1.5 MB of them.
MOST_EVENTS = 20_000
#: Rows of the timeline; the threads that created least share the last one.
MOST_THREADS = 60

#: Of what is drawn, in the order of their colours.
KINDS = (*KIND_NAMES, figures.HELD_UP["wait"], figures.HELD_UP["cache"])
WAIT, CACHE = len(KIND_NAMES), len(KIND_NAMES) + 1


class Words:
    """Texts by number, each once."""

    def __init__(self, *first: str) -> None:
        self.texts = list(first)
        self._numbers = {text: number for number, text in enumerate(first)}

    def number(self, text: str) -> int:
        """Of a text that may be new."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


class Shared:
    """What the runs of a page have in common."""

    def __init__(self) -> None:
        self.kinds = Words(*KINDS)
        self.outcomes = Words()
        self.stages = Words("")

    def as_json(self) -> dict[str, Any]:
        """For the page's script."""
        from ..store import timeline

        return {
            "kinds": self.kinds.texts,
            "outcomes": [figures.OUTCOMES.get(word, word) for word in self.outcomes.texts],
            "compiles": [word in timeline.COMPILES for word in self.outcomes.texts],
            "stages": self.stages.texts,
        }


def _threads(events: list[Event], line: Timeline) -> tuple[list[str], dict[int, int]]:
    """Names of the rows, and the row of each thread, in the order in which they appear."""
    spent: dict[int, int] = {}
    for event in events:
        spent[event.thread] = spent.get(event.thread, 0) + event.duration_ns
    own = set(sorted(spent, key=lambda thread: spent[thread], reverse=True)[:MOST_THREADS])
    names: list[str] = []
    rows: dict[int, int] = {}
    for thread in spent:
        if thread in own:
            rows[thread] = len(names)
            name = printable(line.threads.get(thread, ""))
            number = f"thread {thread}" if thread else "unknown thread"
            names.append(f"{name} ({thread})" if name and thread else name or number)
    for thread in spent:
        rows.setdefault(thread, len(names))
    if len(spent) > len(own):
        names.append(f"{len(spent) - len(own)} other threads")
    return names, rows


def _kind(event: Event, shared: Shared) -> int:
    if event.type == "wait":
        return WAIT
    if event.type == "cache":
        return CACHE
    return event.kind if event.kind < len(KIND_NAMES) else shared.kinds.number(figures.kind_name(event.kind))


def _outcome(event: Event) -> str:
    if event.type == "wait":
        return "pipelines waited for the store to be read"
    if event.type == "cache":
        reason = printable(event.text)
        return f"{event.outcome}: {figures.REASONS.get(reason, reason)}"
    return event.outcome


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 4)


def of_run(
    recorded: Recorded, line: Timeline | None, own: dict[str, Any], shared: Shared, frame_ns: int
) -> dict[str, Any]:
    """One run, for the page's script; ``own`` is what ``figures.of_run`` gave. Times in milliseconds."""
    found = [event for event in line.events if event.type in stalls.HOLDS_UP] if line is not None else []
    drawn = sorted(found, key=lambda event: event.duration_ns, reverse=True)[:MOST_EVENTS]
    drawn.sort(key=lambda event: event.start_ns)
    start = figures.origin(recorded, line)
    names, rows = _threads(drawn, line) if line is not None else ([], {})
    drawn.sort(key=lambda event: (rows[event.thread], event.start_ns))
    long = [stall for stall in stalls.find(found, frame_ns) if stall.thread in rows]
    texts = Words("")
    return {
        "length_ms": _ms(own["duration_ns"]),
        "threads": names,
        "left_out": len(found) - len(drawn),
        "texts": texts.texts,
        "events": {
            "at": [_ms(event.start_ns - start) for event in drawn],
            "ms": [_ms(event.duration_ns) for event in drawn],
            "kind": [_kind(event, shared) for event in drawn],
            "outcome": [shared.outcomes.number(_outcome(event)) for event in drawn],
            "thread": [rows[event.thread] for event in drawn],
            "count": [max(1, event.number) if event.type == "pipeline" else 1 for event in drawn],
            "fingerprint": [f"{event.fingerprint:016x}" if event.fingerprint else "" for event in drawn],
            "stages": [shared.stages.number(", ".join(figures.stages_of(event.stages))) for event in drawn],
            "text": [texts.number(printable(event.text)) if event.type == "pipeline" else 0 for event in drawn],
        },
        "stalls": [
            {
                "at": _ms(stall.start_ns - start),
                "ms": _ms(stall.duration_ns),
                "thread": rows[stall.thread],
                "pipelines": stall.pipelines,
                "longest": shared.kinds.texts[_kind(stall.longest, shared)],
            }
            for stall in long
        ],
        "hits": [
            [_ms(event.start_ns - start), _ms(event.duration_ns), event.value]
            for event in (line.events if line is not None else ())
            if event.type == "hits"
        ],
        "kinds": [{key: row[key] for key in ("kind", "hits", "compiled")} for row in own["kinds"]],
        "history": [
            {
                "when": figures.moment(row["started_s"]),
                "label": figures.moment(row["started_s"], short=True),
                "this": row["this"],
                "hits": row["hits"],
                "compiled": row["compiled"],
                "added": row["stored_bytes"],
                "stored": row["stored_bytes_so_far"],
            }
            for row in own["history"]
        ],
    }
