"""Runs that nobody played: threads that compile, and frames that come late of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import recorded_runs
from recorded_runs import MONOTONIC, MS, Event, hits, pipeline

from pylayer.report import page, recorded, rows
from pylayer.store.timeline import Present

#: The threads: one that renders and presents, workers that compile beside it, and a loader.
THREADS = {101: "render", 102: "worker-0", 103: "worker-1", 104: "worker-2", 105: "loader"}
SHADERS = ("water", "terrain", "sky", "skin", "grass", "shadow", "bloom", "particles", "decal", "ui", "hair", "glass")


def events(pipelines: int, seconds: float, seed: int = 1) -> list[Event]:
    """Compiles on all threads, most of them while the program starts; names; and hits each second."""
    chance = random.Random(seed)
    made: list[Event] = []
    free = dict.fromkeys(THREADS, 0.0)
    # Most compiles come in bursts: a loading screen, then new places. Some come one by one.
    bursts = [0.0, *(chance.uniform(2, seconds * 0.99) for _ in range(max(8, int(seconds / 8))))]
    starts = [
        chance.uniform(0, seconds * 0.99) if chance.random() < 0.3 else chance.choice(bursts) + chance.expovariate(2)
        for _ in range(pipelines)
    ]
    for number, start in enumerate(sorted(min(start, seconds * 0.99) for start in starts)):
        fingerprint = chance.getrandbits(64)
        thread = 105 if start < 2 else chance.choices([101, 102, 103, 104], [1, 4, 4, 4])[0]
        at = max(free[thread], start * 1000)
        took = min(200.0, chance.lognormvariate(0.2 if pipelines > 1000 else 1.5, 1.1))
        free[thread] = at + took + 0.05
        name = f"{chance.choice(SHADERS)}_{number % 97}"
        outcome = chance.choices(["compiled", "slow"], [14, 1])[0]
        kind, stages = (0, 0x20) if chance.random() < 0.2 else (1, 0x11)
        made.append(pipeline(at, took, thread, fingerprint, outcome=outcome, kind=kind, stages=stages))
        for stage, ending in ((0x20, "comp"),) if kind == 0 else ((0x01, "vert"), (0x10, "frag")):
            code = random.Random(f"{name} {stage}").getrandbits(64)
            more: dict[str, Any] = {"fingerprint": fingerprint, "stages": stage, "value": code}
            made.append(Event("shader", made[-1].start_ns, text=f"{name}.{ending}", **more))
    return made + [hits(second * 1000, chance.randrange(5, 400)) for second in range(int(seconds))]


def presents(count: int, line: list[Event]) -> list[Present]:
    """Presents each 10 ms, later by what the presenting thread compiled, and a few that are late by themselves."""
    own = [event for event in line if event.thread == 101 and event.type == "pipeline"]
    chance = random.Random(2)
    made = [Present(MONOTONIC, 1, 101, 1)]
    event = 0
    while len(made) <= count:
        at = made[-1].time_ns
        until = at + round(chance.gauss(10, 0.7) * MS) + (25 * MS if chance.random() < 0.0004 else 0)
        while event < len(own) and own[event].start_ns < until:
            until += own[event].duration_ns
            event += 1
        made.append(Present(until, len(made) + 1, 101, 1))
    return made


def write(root: Path, pipelines: int, seconds: float, count: int = 0) -> None:
    """Writes a run that has ``count`` frames, or none, with the names of its threads."""
    made = events(pipelines, seconds)
    compiled = [event for event in made if event.is_compile]
    kinds = {
        name: {
            "hits": 40 * (number + 1),
            "compiled": sum(event.kind == number for event in compiled),
            "compile_ns": sum(event.duration_ns for event in compiled if event.kind == number),
        }
        for number, name in enumerate(("compute", "graphics"))
    }
    counters = {
        "pipelines": 120 + len(compiled), "hits": 120, "compiled": len(compiled), "hit_ns": 9 * MS,
        "compile_ns": sum(event.duration_ns for event in compiled),
    }  # fmt: skip
    recorded_runs.write(
        root, made, threads=THREADS, presents=presents(count, made) if count else None,
        started=1_790_000_000.0, ended=1_790_000_000.0 + seconds, program="the-game",
        executable="the-game", counters=counters, kinds=kinds, loaded_records=120, stored_records=len(compiled),
        stored_bytes=9000 * len(compiled), mean_compile_ns=3.0 * MS,
        device="AMD Radeon RX 7600 (RADV NAVI33)", driver="radv",
    )  # fmt: skip


def write_page(file: Path, pipelines: int, seconds: float, count: int = 0) -> None:
    """Writes the page of a run that has ``count`` frames, or none."""
    store = file.parent / f"{file.stem}-store"
    write(store, pipelines, seconds, count)
    (run,) = found = recorded.read(str(store))
    own = rows.of_run(found, run)
    file.write_text(page.render([(run, own)], rows.FRAME_NS))
