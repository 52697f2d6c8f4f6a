"""Runs that nobody played: threads that compile, and frames that come late of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import recorded_runs
from recorded_runs import MONOTONIC, MS, Event, hits, pipeline

from pylayer.report import figures, page, recorded
from pylayer.report.page_data import Frame

if TYPE_CHECKING:
    from pylayer.store.store import Timeline

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
        outcome = chance.choices(["compiled", "adopted", "slow"], [12, 2, 1])[0]
        kind, stages = (0, 0x20) if chance.random() < 0.2 else (1, 0x11)
        made.append(pipeline(at, took, thread, fingerprint, outcome=outcome, kind=kind, stages=stages))
        for stage, ending in ((0x20, "comp"),) if kind == 0 else ((0x01, "vert"), (0x10, "frag")):
            code = random.Random(f"{name} {stage}").getrandbits(64)
            more: dict[str, Any] = {"fingerprint": fingerprint, "stages": stage, "value": code}
            made.append(Event("shader", made[-1].start_ns, text=f"{name}.{ending}", **more))
    return made + [hits(second * 1000, chance.randrange(5, 400)) for second in range(int(seconds))]


def frames(count: int, line: list[Event]) -> tuple[list[Frame], dict[int, int]]:
    """Frames of 10 ms, longer by what the presenting thread compiled, and a few that are late by themselves; and by the
    identity of an event the index of the frame that it held."""
    own = sorted(
        (event for event in line if event.thread == 101 and event.type == "pipeline"), key=lambda one: one.start_ns
    )
    chance = random.Random(2)
    made: list[Frame] = []
    held: dict[int, int] = {}
    at, event = MONOTONIC, 0
    while len(made) < count:
        took, spent = round(chance.gauss(10, 0.7) * MS), 0
        took += 25 * MS if chance.random() < 0.0004 else 0
        while event < len(own) and own[event].start_ns < at + took + spent:
            spent += own[event].duration_ns
            if spent > 7 * MS:
                held[id(own[event])] = len(made)
            event += 1
        late = took + spent > 16.7 * MS
        made.append(Frame(1 + len(made), 1, at, at + took + spent, 101, spent if late else None))
        at += took + spent
    return made, {key: index for key, index in held.items() if made[index].late_by_ns is not None}


def write(root: Path, pipelines: int, seconds: float) -> list[Event]:
    """Writes a run, with the names of its threads, and returns its events."""
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
        root, made, threads=THREADS, started=1_790_000_000.0, ended=1_790_000_000.0 + seconds, program="the-game",
        executable="the-game", counters=counters, kinds=kinds, loaded_records=120, stored_records=len(compiled),
        stored_bytes=9000 * len(compiled), mean_compile_ns=3.0 * MS,
        device="AMD Radeon RX 7600 (RADV NAVI33)", driver="radv",
    )  # fmt: skip
    return made


def write_page(file: Path, pipelines: int, seconds: float, count: int = 0) -> None:
    """Writes the page of a run that has ``count`` frames, or none."""
    store = file.parent / f"{file.stem}-store"
    write(store, pipelines, seconds)
    (run,) = found = recorded.read(str(store))
    line = run.timeline(str(store))
    assert line is not None
    own = figures.of_run(str(store), found, run)
    shown: tuple[list[Frame] | None, dict[int, int]] = (None, {})
    if count:
        shown = frames(count, line.events)
        own |= _late(*shown, line)
    with mock.patch.object(page, "shown_frames", lambda *more: shown):
        file.write_text(page.render(str(store), [(run, own)], figures.FRAME_NS))


def _late(made: list[Frame], held: dict[int, int], line: Timeline) -> dict[str, Any]:
    """What a run's figures have of its frames."""
    late = [frame for frame in made if frame.late_by_ns is not None]
    events_of: dict[int, list[Event]] = {}
    for event in line.events:
        if id(event) in held:
            events_of.setdefault(held[id(event)], []).append(event)
    because = [
        frame for frame in late if 2 * (frame.late_by_ns or 0) >= frame.end_ns - frame.start_ns - figures.FRAME_NS
    ]
    longest = sorted(because, key=lambda frame: frame.start_ns - frame.end_ns)[:20]
    return {
        "frames": len(made),
        "late_frames": len(late),
        "late_by_pipelines": len(because),
        "late": [
            {
                "frame": frame.number,
                "swapchain": 1,
                "at_ns": frame.start_ns - MONOTONIC,
                "duration_ns": frame.end_ns - frame.start_ns,
                "pipelines_ns": frame.late_by_ns,
                "threads": [frame.thread],
                "pipelines": [
                    {"fingerprint": f"{event.fingerprint:016x}", "name": line.name_of(event.fingerprint),
                     "thread": event.thread, "duration_ns": event.duration_ns}
                    for event in events_of.get(frame.number - 1, ())
                ],
            }
            for frame in longest
        ],
    }  # fmt: skip
