"""The contents of a report on recorded runs: which run is selected, numbers, comparisons."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import recorded_runs
from recorded_runs import MONOTONIC, MS, Event, hits, pipeline
from unit.things import program_id

from pylayer.report import recorded, rows
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
    """A word selects a run by its age, process or program. A run that created no pipeline is never the 'last' run."""
    assert [run.pid for run in recorded.choose(several, word, "/store")] == [pid]


def test_run_is_chosen_by_its_own_name(several: list[recorded.Run]) -> None:
    """A run can be selected by its name in the store, which --json prints."""
    assert recorded.choose(several, several[1].name, "/store") == [several[1]]


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


def test_state(tmp_path: Path) -> None:
    """A run died if it has no end and its process is gone. If the process cannot be checked, nothing is known."""
    from pylayer.common import owner

    machine, pid, namespace, ticks = owner.this_process()
    for values in (
        {"ended": 1001.0},
        {"process": (machine, pid, namespace, ticks), "started": 2000.0},
        {"process": (machine, 0x7FFFFFFE, namespace, 5), "started": 3000.0},
    ):
        recorded_runs.write(tmp_path, **{"ended": 0.0, **values})
    assert [run.state for run in recorded.read(str(tmp_path))] == ["ended", "running", "died"]


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
    from pylayer.report import page

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
    from pylayer.report import page

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
