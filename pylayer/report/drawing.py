"""The page's charts, as figures for Plotly: https://plotly.com/javascript/reference

Times are seconds from the beginning of the run. A colour is the name of a CSS variable of page.css; page.js replaces it
with its value. Plotly interprets tags and entities in texts, so every text from a program goes through ``_text``.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common import outcomes
from ..values import KIND_NAMES
from . import figures, stalls
from .words import human_bytes, human_time, plural, printable, shorten

if TYPE_CHECKING:
    from ..store.store import Event, Timeline
    from .recorded import Recorded

Figure = dict[str, Any]

#: Only the longest events are drawn if there are more. A browser draws 5,000 bars in half a second, and 20,000 in two.
MOST_EVENTS = 5_000
#: Most rows of the timeline. The threads that spent the least time share one more.
MOST_THREADS = 60
#: Most intervals for which compile time is added up, and the length of the shortest.
MOST_INTERVALS, SHORTEST_INTERVAL_NS = 240, 5_000_000
#: Names of threads and kinds are cut to this many characters beside a chart.
WIDEST = 24
#: CSS pixels.
ROW, BELOW = 42, 250

#: In the order of their colours.
KINDS = (*KIND_NAMES, figures.HELD_UP["wait"], figures.HELD_UP["cache"])


class Drawn(NamedTuple):
    """The timeline, and what the page says beside it."""

    figure: Figure
    #: Name and colour class of each of the figure's first traces.
    kinds: list[tuple[str, str]]
    events: int
    threads: int
    left_out: int


def _text(*lines: str) -> str:
    return "<br>".join(html.escape(printable(line), quote=False) for line in lines if line)


def _s(nanoseconds: float) -> float:
    return round(nanoseconds / 1e9, 7)


def _axis(**more: Any) -> dict[str, Any]:
    return {"gridcolor": "--line", "linecolor": "--dim", "zeroline": False, "automargin": True, **more}


def _second_axis(over: str, title: str) -> dict[str, Any]:
    """Returns a right-hand axis laid over another one, whose grid lines serve both."""
    more: dict[str, Any] = {"title": {"text": title}, "rangemode": "tozero", "tickmode": "auto", "nticks": 4}
    return _axis(overlaying=over, side="right", showgrid=False, fixedrange=True, **more)


def _layout(height: int, **more: Any) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 10, "r": 10, "t": 30, "b": 10},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": "--text"},
        "hoverlabel": {"bgcolor": "--box", "bordercolor": "--dim", "font": {"color": "--text"}, "align": "left"},
        "legend": {
            "orientation": "h", "y": 1, "yanchor": "bottom", "traceorder": "normal",
            "itemclick": False, "itemdoubleclick": False,
        },
        **more,
    }  # fmt: skip


def _bars(name: str, color: str, **more: Any) -> Figure:
    """Returns bars with an outline of their own colour, so that even the shortest is visible."""
    line = {"color": color, "width": 0.5}
    return {"type": "bar", "name": name, "marker": {"color": color, "line": line}, "hoverinfo": "text", **more}


# ---- Timeline ------------------------------------------------------------------------------------


def _threads(events: list[Event], line: Timeline) -> tuple[list[str], dict[int, int]]:
    """Returns the names of the rows, and the row of each thread. Rows are in the order in which threads appear."""
    spent: dict[int, int] = {}
    for event in events:
        spent[event.thread] = spent.get(event.thread, 0) + event.duration_ns
    own = set(sorted(spent, key=lambda thread: spent[thread], reverse=True)[:MOST_THREADS])
    names: list[str] = []
    rows: dict[int, int] = {}
    for thread in spent:
        if thread in own:
            rows[thread] = len(names)
            name = shorten(line.threads.get(thread, ""), WIDEST)
            number = f"thread {thread}" if thread else "unknown thread"
            names.append(_text(name, f"({thread})") if name and thread else _text(name or number))
    for thread in spent:
        rows.setdefault(thread, len(names))
    if len(spent) > len(own):
        names.append(f"{len(spent) - len(own)} other threads")
    return names, rows


def _kind(event: Event) -> str:
    return figures.HELD_UP.get(event.type) or figures.kind_name(event.kind)


def _outcome(event: Event) -> str:
    if event.type == "wait":
        return "pipelines waited for the store to be read"
    if event.type == "cache":
        return f"{event.outcome}: {outcomes.CACHE_DATA.get(event.text, event.text)}"
    return figures.OUTCOMES.get(event.outcome, event.outcome)


def _said(event: Event, start: int) -> str:
    """Returns what is known of an event, as its hover text."""
    lines = [f"{_kind(event)}: {human_time(event.duration_ns)}", f"at {human_time(event.start_ns - start)}"]
    lines += [_outcome(event)]
    if event.type == "pipeline":
        lines += [f"{event.number:,} pipelines in one call" if event.number > 1 else ""]
        lines += [f"fingerprint {event.fingerprint:016x}" if event.fingerprint else ""]
        lines += [", ".join(figures.stages_of(event.stages)), f"entry point {event.text}" if event.text else ""]
    return _text(*lines)


def _of_kind(kind: str, color: str, events: list[Event], rows: dict[int, int], start: int) -> Figure:
    own = [event for event in events if _kind(event) == kind]
    return _bars(
        kind,
        f"--{color}",
        orientation="h",
        width=0.55,
        base=[_s(event.start_ns - start) for event in own],
        x=[_s(event.duration_ns) for event in own],
        y=[rows[event.thread] for event in own],
        hovertext=[_said(event, start) for event in own],
    )


def _stalls(found: list[stalls.Stall], rows: dict[int, int], start: int) -> list[Figure]:
    """Returns a line as long as each stall, and a mark that is visible however short the stall is."""
    texts = []
    for stall in found:
        count = f"{plural(stall.pipelines, 'pipeline')}, longest {_kind(stall.longest)}" if stall.pipelines else ""
        at = f"at {human_time(stall.start_ns - start)}"
        texts.append(_text(f"Stall: {human_time(stall.duration_ns)}", at, count))
    begins = [_s(stall.start_ns - start) for stall in found]
    lengths = [_s(stall.duration_ns) for stall in found]
    line = _bars("stalls", "--stall", orientation="h", width=0.07, base=begins, x=lengths, hovertext=texts)
    mark = {
        "type": "scatter",
        "name": "marks",
        "mode": "markers",
        "marker": {"symbol": "triangle-down", "size": 10, "color": "--stall"},
        "x": [begin + length / 2 for begin, length in zip(begins, lengths, strict=True)],
        "hoverinfo": "text",
        "hovertext": texts,
    }
    heights = [rows[stall.thread] for stall in found]
    return [{**line, "y": [row - 0.34 for row in heights]}, {**mark, "y": [row - 0.46 for row in heights]}]


def _compiling(events: list[Event], start: int, length: int) -> Figure:
    """Returns how long pipelines were compiled in each interval, over all threads."""
    width = max(SHORTEST_INTERVAL_NS, -(-length // MOST_INTERVALS))
    spent: dict[int, int] = {}
    for event in figures.compiles(events):
        at = event.start_ns - start
        end = min(length, at + event.duration_ns)
        while at < end:
            interval = at // width
            until = min(end, (interval + 1) * width)
            spent[interval] = spent.get(interval, 0) + until - at
            at = until
    there = sorted(spent)
    return _bars(
        "compiling",
        "--bar",
        yaxis="y2",
        x=[_s((interval + 0.5) * width) for interval in there],
        width=[_s(width)] * len(there),
        y=[spent[interval] / 1e6 for interval in there],
        hovertext=[_text(f"{human_time(spent[at])} compiled", f"at {human_time(at * width)}") for at in there],
    )


def _hits(events: list[Event], start: int, length: int) -> Figure:
    """Returns a bar for each interval in which hits were counted, all kinds together. Short ones are combined."""
    counted: dict[int, tuple[int, int]] = {}
    for event in events:
        if event.type == "hits":
            until, count = counted.get(event.start_ns, (0, 0))
            counted[event.start_ns] = max(until, event.start_ns + event.duration_ns), count + event.value
    bars: list[tuple[int, int, int]] = []
    for begin, (until, count) in sorted(counted.items()):
        until = max(min(length + start, until), begin + 1)
        if bars and until - bars[-1][0] < length // MOST_INTERVALS:
            bars[-1] = (bars[-1][0], until, bars[-1][2] + count)
        else:
            bars.append((begin, until, count))
    return _bars(
        "hits",
        "--found",
        yaxis="y3",
        x=[_s((begin + until) / 2 - start) for begin, until, _ in bars],
        width=[_s(until - begin) for begin, until, _ in bars],
        y=[count for *_, count in bars],
        hovertext=[_text(plural(count, "hit"), f"from {human_time(begin - start)}") for begin, _, count in bars],
    )


def _timeline_layout(names: list[str], length: int) -> dict[str, Any]:
    """Returns the layout: rows of threads, below them compile time, and below that hits."""
    height = BELOW + ROW * len(names)
    below = BELOW / height
    rows = {"tickvals": list(range(len(names))), "ticktext": names, "range": [len(names) - 0.4, -0.7]}
    return _layout(
        height,
        barmode="overlay",
        showlegend=False,
        hovermode="closest",
        hoverdistance=8,
        xaxis=_axis(range=[0, _s(length)], anchor="y3", tickformat="~s", ticksuffix="s", nticks=8),
        yaxis=_axis(domain=[below, 1], fixedrange=True, **rows),
        yaxis2=_axis(domain=[below * 0.48, below * 0.86], fixedrange=True, title={"text": "ms compiled"}, nticks=4),
        yaxis3=_axis(domain=[0, below * 0.34], fixedrange=True, title={"text": "hits"}, nticks=4, rangemode="tozero"),
    )


def timeline(recorded: Recorded, line: Timeline, length: int, frame_ns: int) -> Drawn | None:
    """Returns a chart with a row for each thread and a bar for each pipeline; below, compile time and hits over time.
    Returns None if there is nothing to draw."""
    found = [event for event in line.events if event.type in stalls.HOLDS_UP]
    if not found or length <= 0:
        return None
    start = figures.origin(recorded, line)
    longest = sorted(found, key=lambda event: event.duration_ns, reverse=True)[:MOST_EVENTS]
    longest.sort(key=lambda event: event.start_ns)
    names, rows = _threads(longest, line)
    present = {_kind(event) for event in longest}
    kinds = [(kind, f"k{number % 10}") for number, kind in enumerate(KINDS) if kind in present]
    kinds += [(kind, "k9") for kind in sorted(present - set(KINDS))]
    data = [_of_kind(kind, color, longest, rows, start) for kind, color in kinds]
    data += _stalls([stall for stall in stalls.find(found, frame_ns) if stall.thread in rows], rows, start)
    data += [_compiling(line.events, start, length), _hits(line.events, start, length)]
    figure = {"data": data, "layout": _timeline_layout(names, length)}
    return Drawn(figure, kinds, len(longest), len(names), len(found) - len(longest))


# ---- Kinds and history ---------------------------------------------------------------------------


def kinds(rows: list[dict[str, Any]]) -> Figure:
    """Returns hits and compiled pipelines, a bar for each kind. ``rows`` is the result of ``figures.kinds``."""
    at = list(range(len(rows)))

    def bars(key: str, color: str) -> Figure:
        texts = [_text(row["kind"], f"{row[key]:,} {key}") for row in rows]
        return _bars(key, color, orientation="h", width=0.6, y=at, x=[row[key] for row in rows], hovertext=texts)

    names = [_text(shorten(row["kind"], WIDEST)) for row in rows]
    layout = _layout(
        80 + 40 * len(rows),
        barmode="stack",
        xaxis=_axis(rangemode="tozero", fixedrange=True, nticks=6),
        yaxis=_axis(tickvals=at, ticktext=names, range=[len(rows) - 0.5, -0.5], fixedrange=True),
    )
    return {"data": [bars("hits", "--found"), bars("compiled", "--k0")], "layout": layout}


def history(rows: list[dict[str, Any]]) -> Figure:
    """Returns hits and compiled pipelines, a bar for each run, and a line for what was stored so far. ``rows`` is the
    result of ``figures.history``."""
    at = list(range(len(rows)))
    highest = max(row["stored_bytes_so_far"] for row in rows)
    unit, name = 1, "B"
    for larger in ("KiB", "MiB", "GiB"):
        if highest >= unit * 1024:
            unit, name = unit * 1024, larger
    texts = [
        _text(
            figures.moment(row["started_s"]) + (", this run" if row["this"] else ""),
            f"{row['hits']:,} hits, {row['compiled']:,} compiled",
            f"{human_bytes(row['stored_bytes'])} stored by it, {human_bytes(row['stored_bytes_so_far'])} by all so far",
        )
        for row in rows
    ]

    def bars(key: str, color: str) -> Figure:
        return _bars(key, color, width=0.7 * min(1, len(rows) / 8), x=at, y=[row[key] for row in rows], hovertext=texts)

    stored = {
        "type": "scatter", "mode": "lines+markers", "name": "stored so far", "yaxis": "y2", "hoverinfo": "text",
        "x": at, "y": [row["stored_bytes_so_far"] / unit for row in rows], "hovertext": texts,
        "line": {"color": "--k1"}, "marker": {"color": "--k1", "size": 7},
    }  # fmt: skip
    shown = at[:: max(1, -(-len(rows) // 6))]
    layout = _layout(
        300,
        barmode="stack",
        xaxis=_axis(
            tickvals=shown, fixedrange=True, ticktext=[figures.moment(rows[n]["started_s"], short=True) for n in shown]
        ),
        yaxis=_axis(title={"text": "pipelines"}, rangemode="tozero", fixedrange=True, nticks=5),
        yaxis2=_second_axis("y", name),
    )
    return {"data": [bars("hits", "--found"), bars("compiled", "--k0"), stored], "layout": layout}
