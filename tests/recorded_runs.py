"""Runs as the layer's policy records them, without a program: for what reports make of them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from unit.things import facts, program_id

from pylayer.common.identity import Identity
from pylayer.store import format
from pylayer.store.runs import new_name
from pylayer.store.timeline import MAX_WAITING, Event, Present, RunFile

IDENTITY = Identity.of(facts())
#: What CLOCK_MONOTONIC said when the runs began.
MONOTONIC = 3_000_000_000_000
MS = 1_000_000


def pipeline(at_ms: float, ms: float, thread: int = 101, fingerprint: int = 0xABC, **more: Any) -> Event:
    """A compiled graphics pipeline, ``at_ms`` after the run's beginning."""
    values = {"outcome": "compiled", "kind": 1, "stages": 0x11, "number": 1, "value": 4000, **more}
    return Event(
        "pipeline", MONOTONIC + round(at_ms * MS), round(ms * MS), thread=thread, fingerprint=fingerprint, **values
    )


def cache(at_ms: float, outcome: str, reason: str) -> Event:
    """What became of cache data."""
    start = MONOTONIC + round(at_ms * MS)
    return Event("cache", start, MS // 10, outcome, thread=101, number=1, value=5000, text=reason)


def hits(at_ms: float, count: int) -> Event:
    """Hits of graphics pipelines in a second."""
    return Event("hits", MONOTONIC + round(at_ms * MS), 1000 * MS, kind=1, value=count)


def write(
    root: Path,
    events: list[Event] | None = None,
    threads: dict[int, str] | None = None,
    presents: list[Present] | None = None,
    **values: Any,
) -> str:
    """Writes a run, and its timeline where there are events; returns its name. ``threads``: their names. The header has
    the ``process`` and the ``identity``; ``pid`` and ``start_ticks`` are the process's."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = program_id(str(values.get("executable", "game")), str(values.get("application", "")))
    name = new_name(number)
    process = values.pop("process", (b"\xab" * 16, values.pop("pid", 4000), 0, values.pop("start_ticks", 1000)))
    identity = bytes.fromhex(values.pop("identity", IDENTITY.name))
    base: dict[str, Any] = {
        "version": 1,
        "started": 1000.0,
        "started_ns": MONOTONIC,
        "ended": 1010.0,
        "program": "game",
        "executable": "game",
        "application": "",
        "device": "A device",
        "driver": "a driver",
        "driver_info": "1.0",
        "mode": "cells",
        "reason": "",
        "counters": {"pipelines": 1, "compiled": 1, "compile_ns": 3 * MS},
        "refused": {},
    }
    base |= values
    if "loaded_records" in base:  # with the mean time that compiling them had taken
        fetched = base.pop("loaded_records")
        own = {"fetched": fetched, "fetched_compile_ns": fetched * base.pop("mean_compile_ns", 0)}
        base["counters"] = base["counters"] | own
    file = RunFile(str(root), name, IDENTITY, number, limit=16 << 20)
    file._threads.update(threads or {})
    file._new_threads.update(threads or {})
    file.present(presents or [])
    for count, event in enumerate(events or [], 1):
        file.add(event)
        if count % MAX_WAITING == 0:
            file.flush()
    file.flush()
    file.note(base)
    path = Path(file.path)
    data = path.read_bytes()
    head = data[:24] + identity + data[40:144] + struct.pack("<16sIIQ", *process) + data[176:256]
    path.write_bytes(format.with_kind(head, format.RUN_FILE) + data[256:])
    return name


def write_several(root: Path, count: int, events: list[Event] | None = None, **values: Any) -> None:
    """Writes so many runs, the oldest first. Their processes are 100, 101, and so on."""
    for number in range(count):
        write(root, events, pid=100 + number, start_ticks=number + 1, started=1000.0 + number, **values)
