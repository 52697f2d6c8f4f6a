"""The contents of a report on recorded runs: which run is selected, numbers, comparisons, the trace and the page."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import recorded_runs
from recorded_runs import MONOTONIC, MS, Event, cache, hits, pipeline
from report import made_up
from unit.things import program_id

from pylayer.report import page, recorded, rows, trace
from pylayer.store.timeline import Present


def only(root: Path, **changes: Any) -> dict[str, Any]:
    """Returns the figures of the only run."""
    found = recorded.read(str(root))
    assert len(found) == 1
    return rows.of_run(found, found[0], **changes)


# ---- Which run is meant ----------------------------------------------------------------------------


@pytest.fixture
def several(tmp_path: Path) -> list[recorded.Run]:
    """Four processes, the oldest first. The newest created no pipeline."""
    for number, name in enumerate(("game", "tool", "game", "launcher")):
        counters = {"pipelines": 0 if name == "launcher" else 5, "compiled": number}
        recorded_runs.write(
            tmp_path, program=name, executable=name, pid=100 + number, start_ticks=number + 1,
            started=1000.0 + number, counters=counters,
        )  # fmt: skip
    return recorded.read(str(tmp_path))


@pytest.mark.parametrize(
    ("word", "pid"),
    [
        ("last", 102), ("last~0", 102), ("last~1", 101), ("last~2", 100), ("game", 102), ("game~1", 100), ("GAM?", 102),
        ("101", 101), ("launcher", 103), ("103", 103), (f"{program_id('tool', ''):016x}", 101),
    ],
)  # fmt: skip
def test_run_is_chosen(several: list[recorded.Run], word: str, pid: int) -> None:
    """A word selects a run by its age, process or program, and so does its name in the store, which --json prints. A
    run that created no pipeline is never the 'last' run."""
    (run,) = recorded.choose(several, word, "/store")
    assert run.pid == pid and recorded.choose(several, run.name, "/store") == [run]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("last~3", "too far back"), ("nothing", "no run of nothing"), ("999", "no run of 999"), ("~1", "no run of ~1"),
        ("game~2", "only 2 runs"),
    ],
)  # fmt: skip
def test_no_such_run(several: list[recorded.Run], word: str, says: str) -> None:
    """If a word selects no run, the error says what to do."""
    with pytest.raises(LookupError, match=says):
        recorded.choose(several, word, "/store")


# ---- Numbers ---------------------------------------------------------------------------------------


def test_figures(tmp_path: Path) -> None:
    """Times count from the run's beginning, and every table has what was recorded."""
    recorded_runs.write(
        tmp_path,
        [
            pipeline(5, 30, fingerprint=1, text="draw", stages=0x11),
            pipeline(100, 2, fingerprint=2, kind=0, stages=0x20, number=3),
            pipeline(200, 3, fingerprint=3, outcome="failed"),
            hits(0, 40),
            hits(1000, 2),
        ],
        counters={"pipelines": 46, "hits": 42, "compiled": 4, "compile_ns": 32 * MS, "hit_ns": MS},
        kinds={
            "graphics": {"hits": 42, "compiled": 1, "compile_ns": 30 * MS},
            "compute": {"hits": 0, "compiled": 3, "compile_ns": 2 * MS},
        },
        loaded_records=42,
        mean_compile_ns=2.0 * MS,
        stored_bytes=16000,
        refused={"wrong-uuid": 1},
    )
    run = only(tmp_path)
    assert [own["fingerprint"] for own in run["slowest"]] == [f"{1:016x}", f"{2:016x}"]
    assert run["slowest"][0] | {"thread_name": ""} == {
        "fingerprint": f"{1:016x}", "kind": "graphics", "stages": ["vertex", "fragment"], "entry_point": "draw",
        "outcome": "compiled", "at_ns": 5 * MS, "duration_ns": 30 * MS, "pipelines": 1, "kept_bytes": 4000,
        "thread": 101, "thread_name": "", "name": "", "shaders": [], "frame": None,
    }  # fmt: skip
    (own,) = run["cache_data"]
    assert (own["outcome"], own["meaning"]) == ("refused", "written by another driver build")
    assert [(own["kind"], own["hits"], own["compiled"]) for own in run["kinds"]] == [
        ("graphics", 42, 1), ("compute", 0, 3),
    ]  # fmt: skip
    assert run["saved_estimate_ns"] == 42 * 2 * MS - MS
    assert (run["duration_ns"], run["state"]) == (10_000 * MS, "ended")


def test_kinds_add_up_to_the_counters(tmp_path: Path) -> None:
    """Where no timeline is recorded, the kinds of some compilations are unknown. They are listed as other."""
    counters = {"pipelines": 9, "hits": 3, "compiled": 4, "plain_compiled": 2, "compile_ns": 8}
    recorded_runs.write(tmp_path, counters=counters, kinds={"compute": {"hits": 3, "compiled": 4, "compile_ns": 8}})
    run = only(tmp_path)
    assert [(kind["kind"], kind["hits"], kind["compiled"]) for kind in run["kinds"]] == [
        ("compute", 3, 4), ("other", 0, 2),
    ]  # fmt: skip
    assert (run["hits"], run["compiled"], run["compile_ns"]) == (3, 6, 8)


def test_a_run_that_died_lasted_until_its_last_frame(tmp_path: Path) -> None:
    """A run that presented for a minute after its last pipeline, and died, lasted a minute, and its page shows it."""
    shown = [Present(MONOTONIC + at * 10 * MS, number, 101, 1) for number, at in enumerate(range(6001), 1)]
    recorded_runs.write(tmp_path, [pipeline(0, 5)], presents=shown, ended=0.0)
    run = only(tmp_path)
    assert (run["state"], run["duration_ns"]) == ("died", 60_000 * MS)


def test_run_without_timeline(tmp_path: Path) -> None:
    """If a run's timeline is gone, its totals remain, with what became of cache data."""
    counters = {"pipelines": 1, "compiled": 1, "compile_ns": 30 * MS}
    recorded_runs.write(tmp_path, cache_outcomes={"attested": 2}, refused={"altered": 1}, counters=counters)
    run = only(tmp_path)
    assert run["timeline"]["outcome"] == "missing" and run["slowest"] == []
    assert [(own["reason"], own["outcome"], own["count"]) for own in run["cache_data"]] == [
        ("attested", "passed", 2), ("altered", "refused", 1),
    ]  # fmt: skip


HOSTILE = [
    math.nan,
    math.inf,
    -math.inf,
    -1,
    1 << 63,
    10**400,
    -(10**400),
    "text",
    "",
    True,
    None,
    {},
    [],
    {"a": {"b": 1}},
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: str(value)[:12])
def test_hostile_run(tmp_path: Path, value: Any) -> None:
    """Any value of any key in a run's file is handled without an exception."""
    keys = ("started", "started_ns", "ended", "died", "alive", "crash_marker", "counters", "kinds",
            "cache_outcomes", "refused", "stored_bytes", "store_bytes", "timeline_dropped",
            "program", "executable", "device", "mode", "policy", "damage", "load_ns")  # fmt: skip
    for number, key in enumerate(keys):
        root = tmp_path / str(number)
        recorded_runs.write(root, [pipeline(0, 20)], **{key: value})
        found = recorded.read(str(root))
        rows.of_run(found, found[0])
    root = tmp_path / "all"
    recorded_runs.write(root, [pipeline(0, 20)], **dict.fromkeys(keys, value))
    found = recorded.read(str(root))
    own = rows.of_run(found, found[0])
    assert page.render([(found[0], own)], rows.FRAME_NS).endswith("</html>")
    inner = {"graphics": {"hits": value, "compiled": value, "compile_ns": value}, "other": value}
    root = tmp_path / "inner"
    recorded_runs.write(root, [], kinds=inner, counters=dict.fromkeys(("pipelines", "hits", "compile_ns"), value))
    only(root)


def test_hostile_events(tmp_path: Path) -> None:
    """Events at any time, of any length, kind and outcome are handled without an exception."""
    high = (1 << 64) - 1
    events = [
        Event("pipeline", start, duration, "compiled", 255, high >> 32, high, high >> 32, high, high >> 32, "x" * 99)
        for start in (0, 1, high) for duration in (0, high)
    ]  # fmt: skip
    recorded_runs.write(tmp_path, events)
    (run,) = found = recorded.read(str(tmp_path))
    own = rows.of_run(found, run)
    assert len(own["slowest"]) == len(events)
    assert page.render([(run, own)], rows.FRAME_NS).endswith("</html>")


# ---- The trace -----------------------------------------------------------------------------------


def written(root: Path) -> dict[str, Any]:
    """Returns the trace of all runs."""
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


# ---- The page ------------------------------------------------------------------------------------


MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m{{ 7 * 7 }}\u202e"


def render(root: Path) -> str:
    runs = recorded.read(str(root))
    return page.render([(run, rows.of_run(runs, run)) for run in runs], rows.FRAME_NS)


def test_only_the_pages_own_scripts_run(tmp_path: Path) -> None:
    """The content security policy names the hashes of the page's scripts and styles and allows nothing to be loaded."""
    recorded_runs.write(tmp_path, [pipeline(0, 20)])
    text = render(tmp_path)
    scripts, styles = (re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("script", "style"))
    own = [*scripts, *styles]
    hashes = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in own}
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and len(scripts) == 2 and len(styles) == 1 and " style=" not in text
    assert set(re.findall(r"'sha256-([^']*)'", policy[1])) == hashes
    directives = dict(part.strip().split(" ", 1) for part in policy[1].split(";"))
    assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == "'none'"
    assert "unsafe" not in policy[1]
    assert set(directives) == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    assert not re.search(
        r"<(?:link|img|iframe|object|embed|base)\b", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    )


def test_texts_of_programs_are_texts(tmp_path: Path) -> None:
    """No name, reason, thread or entry point becomes markup, script, template or a terminal control sequence."""
    recorded_runs.write(
        tmp_path, [pipeline(0, 20, text=MARKUP), cache(30, "emptied", MARKUP)],
        program=MARKUP, executable=MARKUP, device=MARKUP, driver=MARKUP, reason=MARKUP, mode=MARKUP,
        kinds={MARKUP: {"hits": 1, "compiled": 2}}, refused={MARKUP: 1},
        policy={"class": MARKUP, "failures": 1, "switched_off": MARKUP},
    )  # fmt: skip
    text = render(tmp_path)
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    # The timeline's data; the scripts are gone.
    assert own.count("<script") == own.count("</script>") == 1 and text.count("<script>") == 2
    assert "<img" not in own and "onerror=alert(2)&gt;" in own
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "\x1b" not in outside and "\u202e" not in outside and "{{ 7 * 7 }}" in outside


def data_of(root: Path) -> dict[str, Any]:
    """What the page's script gets of the only run of a store."""
    (run,) = recorded.read(str(root))
    line = run.timeline
    assert line is not None
    found = page.timeline(line, rows.origin(run), 10**10, rows.FRAME_NS)
    unpacked = json.loads(gzip.decompress(base64.b64decode(page.packed(found))))
    assert isinstance(unpacked, dict)
    return unpacked


def test_every_event_is_on_the_page(tmp_path: Path) -> None:
    """Each event has what --json tells of a pipeline, with its outcome in words. Hits are those of each second."""
    named = Event("shader", MONOTONIC, fingerprint=0xABC, stages=0x10, value=0x77, text="water.frag")
    recorded_runs.write(
        tmp_path, [pipeline(0, 20), named, cache(30, "emptied", "stale"), pipeline(31, 2), hits(0, 3), hits(0, 4)]
    )
    data = data_of(tmp_path)
    first, judged, last = data["events"]
    shader = {"stage": "fragment", "hash": f"{0x77:016x}", "name": "water.frag"}
    assert (first["at_ns"], first["duration_ns"], last["at_ns"]) == (0, 20 * MS, 31 * MS)
    assert (first["fingerprint"], first["name"], first["shaders"]) == (f"{0xABC:016x}", "water.frag", [shader])
    assert (first["kind"], first["sort"], first["outcome"]) == ("graphics", "compiled", "compiled, and kept")
    assert judged["sort"] == "wait" and judged["outcome"].startswith("emptied: read back by this program from another")
    assert data["frames"] is None and data["hits"] == [[0, 1_000_000, 7]]


def test_many_threads_share_rows(tmp_path: Path) -> None:
    """The busiest threads have rows of their own, the one that presents before all. The others share one row."""
    count = page.MOST_THREADS + 10
    shown = [Present(MONOTONIC, 1, 100, 1), Present(MONOTONIC + MS, 2, 100, 1)]
    events = [pipeline(number, 5 + number, thread=100 + number) for number in range(count)]
    recorded_runs.write(tmp_path, events, presents=shown)
    data = data_of(tmp_path)
    assert [own["id"] for own in data["threads"][:3]] == [100, 100 + count - 1, 100 + count - 2]
    assert data["threads"][0]["presents"] and not data["threads"][1]["presents"]
    assert data["threads"][-1]["name"] == "10 other threads" and len(data["threads"]) == page.MOST_THREADS + 1
    assert sum(own["row"] == page.MOST_THREADS for own in data["events"]) == 10


def test_frames(tmp_path: Path) -> None:
    """Starts and numbers count from those of the frame before. Of a late frame the page tells how much of it was
    pipelines."""
    times = [(1, 0), (2, 10), (3, 20), (7, 50), (8, 90), (9, 100)]
    shown = [Present(MONOTONIC + at * MS, number, 101, 3) for number, at in times]
    recorded_runs.write(tmp_path, [pipeline(55, 30)], presents=shown)
    data = data_of(tmp_path)
    assert data["events"][0]["frame"] == 2
    data = data["frames"]
    assert data["start_us"] == [0, 10_000, 40_000, 40_000]
    assert data["duration_us"] == [10_000, 10_000, 40_000, 10_000]
    assert data["number"] == [2, 1, 5, 1] and data["swapchain"] == [3] * 4 and data["late"] == [[2, 30_000, 1]]


def test_page_is_small(tmp_path: Path) -> None:
    """With 125 pipelines and 5,000 frames, of which some are late, the page has less than 0.25 MB."""
    made_up.write_page(tmp_path / "short.html", 125, 60, 5000)
    assert (tmp_path / "short.html").stat().st_size < 250_000
