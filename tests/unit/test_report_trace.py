"""``pylayer report --trace``: Chrome's JSON format, as Perfetto and chrome://tracing read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import recorded_runs
from recorded_runs import MONOTONIC, cache, hits, pipeline

from pylayer.report import recorded, trace


def written(root: Path, *words: str) -> dict[str, Any]:
    """Returns the trace of these runs, or of all."""
    found: dict[str, Any] = json.loads("".join(trace.pieces(recorded.read(str(root)))))
    return found


def check(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Checks what the format requires of every event, and what Perfetto also requires: durations on a thread nest.
    Returns the events other than names."""
    stacks: dict[tuple[int, int], list[float]] = {}
    counters: dict[tuple[int, str], float] = {}
    events = [event for event in found["traceEvents"] if event["ph"] != "M"]
    for event in found["traceEvents"]:
        assert event["ph"] in "XCM" and isinstance(event["pid"], int) and isinstance(event["name"], str)
        assert isinstance(event["args"], dict)
    for event in sorted(events, key=lambda event: (event["ts"], -event.get("dur", 0))):
        assert event["ts"] >= 0
        if event["ph"] == "C":
            key = event["pid"], event["name"]
            assert all(isinstance(value, int) for value in event["args"].values())
            assert event["args"]["count"] >= counters.get(key, 0)
            counters[key] = event["args"]["count"]
            continue
        assert event["dur"] >= 0 and event["cat"].startswith("pylayer,")
        stack = stacks.setdefault((event["pid"], event["tid"]), [])
        while stack and stack[-1] <= event["ts"]:
            stack.pop()
        assert not stack or event["ts"] + event["dur"] <= stack[-1]
        stack.append(event["ts"] + event["dur"])
    return events


def test_trace(tmp_path: Path) -> None:
    """Pipelines are slices on their threads in microseconds of CLOCK_MONOTONIC, hits are counters, and everything has a
    name."""
    recorded_runs.write(
        tmp_path,
        [
            pipeline(2, 1.5, fingerprint=0x12, stages=0x20, kind=0, text="main_cs"),
            pipeline(3, 4, thread=102, number=3),
            cache(0.5, "emptied", "altered"),
            hits(0, 40),
            hits(1000, 2),
        ],
        program="game <b>\x1b[31m",
    )
    found = written(tmp_path)
    events = check(found)
    (compute,) = [event for event in events if event["name"] == "compute"]
    assert (compute["ts"], compute["dur"], compute["pid"], compute["tid"]) == (MONOTONIC / 1000 + 2000, 1500, 4000, 101)
    assert (
        compute["args"] | {"fingerprint": f"{0x12:016x}", "kind": "compute", "entry_point": "main_cs"}
        == compute["args"]
    )
    assert compute["args"]["outcome"] == "compiled" and compute["args"]["stages"] == ["compute"]
    counters = [(event["name"], event["args"]["count"]) for event in events if event["ph"] == "C"]
    assert counters == [("hits, graphics", count) for count in (0, 40, 40, 42)]
    names = {
        event["name"]: event["args"] for event in found["traceEvents"] if event["ph"] == "M" and "tid" not in event
    }
    assert names["process_name"] == {"name": "game <b>\ufffd[31m"}
    assert [event["args"]["reason"] for event in events if event["name"] == "vkCreatePipelineCache"] == ["altered"]
    assert found["otherData"]["runs"][0]["started_monotonic_us"] == MONOTONIC / 1000


def test_two_devices_of_a_process_share_its_pid(tmp_path: Path) -> None:
    """Threads of one process are listed together, whatever the device. A process is named once."""
    recorded_runs.write(tmp_path, [pipeline(0, 1)], device="first")
    recorded_runs.write(tmp_path, [pipeline(1, 1)], device="second")
    recorded_runs.write(tmp_path, [pipeline(0, 1)], pid=0, start_ticks=0)
    found = written(tmp_path)
    slices = [event for event in check(found) if event["ph"] == "X"]
    assert [event["args"]["device"] for event in slices] == ["first", "second", "A device"]
    assert len({event["pid"] for event in slices}) == 2
    assert sum(event["name"] == "process_name" for event in found["traceEvents"]) == 2


def test_a_long_run_is_written_in_pieces(tmp_path: Path) -> None:
    """No piece of a trace has more than a part of the events, so that a trace takes little memory."""
    recorded_runs.write(tmp_path, [pipeline(number, 0.5) for number in range(3000)])
    taken = list(trace.pieces(recorded.read(str(tmp_path))))
    assert len(taken) > 4 and max(map(len, taken)) < sum(map(len, taken)) / 2
    assert len(json.loads("".join(taken))["traceEvents"]) > 3000
