"""``pylayer stats`` and ``pylayer report``: the numbers, how they are shown, and what is told of single runs."""

from __future__ import annotations

import importlib
import json
import os
import re
import time
from typing import Any

import pytest
import recorded_runs
from cli.user import User
from prometheus_client.parser import text_string_to_metric_families
from recorded_runs import MONOTONIC, MS, cache, hits, pipeline
from unit.things import flip

from pylayer.cli import stats
from pylayer.common import owner
from pylayer.store.timeline import Present

IDENTITY = "0123456789abcdef0123456789abcdef"


def write_run(user: User, **values: Any) -> None:
    """Writes a run as the layer does. ``counters`` has those that are not zero."""
    recorded_runs.write(user.store, **{"started": 1.0, "identity": IDENTITY, "counters": {}, **values})


# ---- numbers ---------------------------------------------------------------------------------------


def test_two_runs(user: User) -> None:
    """A program runs twice: the first run compiles every pipeline once, at its own time, the second hits every one, and
    time is saved. The page and the trace are written completely, and reported in one line. The trace has every compiled
    pipeline."""
    user.demo(20)
    user.demo(20)
    (program,) = user.json("stats")["programs"]
    assert program["program"] == "pipelines" and program["mode"] == "cells"
    assert (program["runs"], program["pipelines"], program["hits"], program["compiled"]) == (2, 40, 20, 20)
    assert program["refused_caches"] == 0 and program["refused"] == {}
    waited = sum(program[key] for key in ("fetch_ns", "cache_wait_ns"))
    assert program["waited_ns"] == waited > 0
    assert program["spent_ns"] == program["hit_ns"] + program["compile_ns"] + waited
    saved = program["compile_ns"] - program["hit_ns"] - waited
    assert program["saved_estimate_ns"] == pytest.approx(saved, abs=program["compile_ns"] * 0.05)
    assert program["stored_bytes"] > 0
    (first,) = user.json("report", "last~1")["runs"]
    (second,) = user.json("report")["runs"]
    assert (first["compiled"], first["hits"], second["compiled"], second["hits"]) == (20, 0, 0, 20)
    assert len({own["fingerprint"] for own in first["slowest"]}) == len(first["slowest"]) == 20
    for own in first["slowest"]:
        assert 0 < own["at_ns"] < first["duration_ns"] and 0 < own["duration_ns"] <= first["compile_ns"] * 1.5
        assert own["outcome"] == "compiled" and own["kept_bytes"] > 0 and own["stages"]
    assert second["fetched"] == 20 and second["fetch_ns"] > 0
    for option, name in (("--html", "a.html"), ("--trace", "t.json")):
        assert user.says("report", "last~1", option, name).startswith(f"{name}: ")
    assert (user.directory / "a.html").read_text().rstrip().endswith("</html>")
    events = json.loads((user.directory / "t.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" and event["cat"] == "pylayer,pipeline" for event in events) == 20
    assert sorted(path.name for path in user.directory.iterdir()) == ["a.html", "t.json"]


HITS = {"hits": 10, "hit_ns": 1_000_000}
COMPILES = {"compiled": 2, "compile_ns": 6_000_000}
#: Runs, and how much time the last of them saved.
SAVED: dict[str, tuple[list[dict[str, Any]], int | None]] = {
    "by the run's own mean": (
        [{"counters": COMPILES}, {"counters": HITS, "loaded_records": 10, "mean_compile_ns": 2_000_000.0}],
        10 * 2_000_000 - 1_000_000,
    ),
    "by the mean of other runs": (
        [{"counters": COMPILES}, {"counters": HITS, "loaded_records": 10}],
        10 * 3_000_000 - 1_000_000,
    ),
    "by nothing stored, as by links of libraries": ([{"counters": HITS | COMPILES}], 0),
    "by four stored pipelines": ([{"counters": HITS | COMPILES, "loaded_records": 4}], 4 * (3_000_000 - 100_000)),
    "less than was waited": ([{"counters": COMPILES, "cache_wait_ns": 3_000_000}], -3_000_000),
    "by compiles of unknown time": ([{"counters": HITS, "loaded_records": 10}], None),
}


@pytest.mark.parametrize(("runs", "saved"), SAVED.values(), ids=SAVED)
def test_saved(user: User, runs: list[dict[str, Any]], saved: int | None) -> None:
    """The estimate is that of the report. It prefers a run's own mean to that of the program's other runs. Hits beyond
    the stored pipelines count for nothing."""
    for number, run in enumerate(runs):
        write_run(user, started=number + 1.0, start_ticks=number + 1, **run)
    assert user.json("stats", "--last")["programs"][0]["saved_estimate_ns"] == saved
    assert user.json("report", "last")["runs"][0]["saved_estimate_ns"] == saved


def test_saved_is_less_what_was_waited(user: User) -> None:
    """What the program waited because of the layer is subtracted. If that is more than hits saved, the estimate is
    negative, and a line says so."""
    for number, waited in enumerate((5_000_000, 25_000_000)):
        counters = {"hits": 10, "hit_ns": 1_000_000, "fetch_ns": waited}
        write_run(user, started=number + 1.0, counters=counters, loaded_records=10, mean_compile_ns=2_000_000.0)
        (program,) = user.json("stats", "--last")["programs"]
        assert (program["waited_ns"], program["saved_estimate_ns"]) == (waited, 19_000_000 - waited)
        said = user.pylayer("stats", "--last", COLUMNS="200").stdout
        line = "no time was saved: the program waited 25.0 ms for the layer; hits saved 19.0 ms"
        assert (line in said) == ("-6.0 ms" in said) == (number == 1)


def test_programs_and_identities_are_apart(user: User) -> None:
    """Runs are added up for each program under each driver identity."""
    write_run(user, counters={"pipelines": 1})
    write_run(user, counters={"pipelines": 2}, identity="f" * 32)
    write_run(user, counters={"pipelines": 4}, executable="tool", program="tool")
    write_run(user, counters={"pipelines": 8})
    found = user.json("stats")
    numbers = {(item["program"], item["identity"][0]): item["pipelines"] for item in found["programs"]}
    assert numbers == {("game", "0"): 9, ("game", "f"): 2, ("tool", "0"): 4}
    assert found["total"]["pipelines"] == 15 and found["total"]["runs"] == 4


# ---- how it looks ----------------------------------------------------------------------------------


def test_names_of_programs(user: User) -> None:
    """stats takes the names that it shows, and the beginning of an identity, as ls does."""
    write_run(user, program="game (A)", application="A")
    write_run(user, program="game (B)", application="B", identity="f" * 32)
    for name, found in (("game", "AB"), ("game (A)", "A"), ("*b)", "B"), ("ffff", "B"), (IDENTITY[:5], "A")):
        assert sorted(one["application"] for one in user.json("stats", name)["programs"]) == list(found), name
    assert "no run of A is recorded" in user.fails("stats", "A")


def test_remarks(user: User) -> None:
    """Problems are reported below the table, with the program's name, only if there were any."""
    write_run(user, counters={"plain": 7, "events_dropped": 2, "answers_late": 1}, refused={"wrong-uuid": 3})
    text = " ".join(user.pylayer("stats").stdout.split())
    assert "pipelines created without probing the cache; their hits are unknown: 7" in text
    assert "cache data refused as wrong-uuid (written by another driver build): 3" in text
    assert "compiled pipelines not stored, because more came than the queue holds: 2" in text
    assert "times that the program went on before policy answered: 1" in text
    assert "left out" not in text


def test_programs_of_one_name(user: User) -> None:
    """Programs of one name that name themselves differently to Vulkan can be told apart, and named."""
    for application in ("", "Game"):
        write_run(user, application=application, counters={"pipelines": 1})
    write_run(user, executable="other", program="other")
    lines = user.pylayer("stats").stdout.splitlines()
    numbers = [line.split()[1] for line in lines if line.startswith("game ")]
    assert len(set(numbers)) == 2 and all(re.fullmatch(r"[0-9a-f]{16}", number) for number in numbers)
    assert any(re.match(r"other +1 ", line) for line in lines)
    assert len(user.json("stats", numbers[0])["programs"]) == 1


# ---- the runs ----------------------------------------------------------------------------------------


def test_states(user: User) -> None:
    """--runs lists the newest run first, each with the word for it that report takes. A process whose pid now belongs
    to another one has died."""
    process = owner.this_process()
    one = {"counters": {"pipelines": 1}}
    for number, (name, born, ended) in enumerate((("runs", process[3], 0.0), ("ended", 1, 9.0), ("died", 2, 0.0))):
        own = {"program": name, "executable": name, "process": (*process[:3], born), "ended": ended}
        write_run(user, **one, **own, started=time.time() + number - 10)
    listed = user.json("stats", "--runs")["processes"]
    states = [("died", "died", "last"), ("ended", "ended", "last~1"), ("runs", "running", "last~2")]
    assert [(one["program"], one["state"], one["word"]) for one in listed] == states
    assert [user.json("report", word)["runs"][0]["program"] for *_, word in states] == ["died", "ended", "runs"]
    assert [one["program"] for one in user.json("stats", "--runs", "?un*")["processes"]] == ["runs"]


def test_names_give_a_terminal_no_orders(user: User) -> None:
    """Names and texts with terminal control characters, and files that are no runs, change at most a row. It has one
    line, and a terminal's width."""
    texts = {"class": "mine:Class\x1b[31m", "switched_off": "it failed:\n  \x1b]0;title\x07", "failures": 3}
    wrong = {"kinds": {"graphics": "x", "compute": {"compiled": "many"}}, "started_ns": "x"}
    write_run(user, program="\x1b[31mred\n\u202e" + " long" * 40, stored_bytes=float("nan"), policy=texts, **wrong)
    runs = user.store / "runs"
    (runs / "1.run").write_bytes(os.urandom(300))
    (runs / "2.run").mkdir()
    (runs / "3.run").symlink_to("/dev/zero")
    (runs / "4.run").write_text("counters=i:3\nrefused=s:x\nstarted=s:never\nidentity=s:../../etc\n")
    (runs / "5.run").write_text("")
    for words in ("stats", "stats --runs"):
        done = user.pylayer(*words.split())
        assert done.returncode == 0 and "red" in done.stdout
        assert not {"\x1b", "\x07", "\u202e"} & {*done.stdout}
    assert "it failed:" in user.pylayer("stats").stdout
    assert max(map(len, user.terminal("stats", "--runs", TERM="dumb")[1].splitlines())) <= 80


# ---- --prometheus --------------------------------------------------------------------------------


COMMON = ("store", "program", "device", "identity", "since")

Found = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parsed(text: str, beside: tuple[str, ...] = COMMON) -> Found:
    """Returns samples by name and by labels other than ``beside``. No two samples have the same labels."""
    found: Found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "counter")
        for sample in family.samples:
            assert sample.name.startswith("pylayer_") and sample.name.endswith("_total") == (family.type == "counter")
            key = tuple(sorted((name, text) for name, text in sample.labels.items() if name not in beside))
            assert key not in found.setdefault(sample.name, {})
            found[sample.name][key] = sample.value
    return found


def test_real_program(user: User) -> None:
    """The file is complete and readable by everybody."""
    user.demo(12)
    user.demo(12)
    file = user.directory / "pylayer.prom"
    assert user.pylayer("stats", "--prometheus", file).stdout == ""
    assert file.stat().st_mode & 0o777 == 0o644 and [path.name for path in user.directory.iterdir()] == [file.name]
    assert file.read_text() == user.pylayer("stats", "--prometheus").stdout
    found = parsed(file.read_text())
    assert found["pylayer_runs_total"] == {(): 2} and found["pylayer_pipelines_total"] == {(): 24}
    assert found["pylayer_stored_records_total"] == found["pylayer_loaded_records_total"] == {(): 12}
    ((info, one),) = found["pylayer_program_info"].items()
    assert one == 1 and dict(info)["executable"] == "pipelines" and dict(info)["mode"] == "cells"
    (size,) = found["pylayer_store_bytes"].values()
    assert size == user.json("ls")["store_bytes"]
    assert found["pylayer_store_limit_bytes"] == {(): 4096 << 20}


def test_values(user: User) -> None:
    """Counters are added up over runs by kind, outcome and reason. Units are seconds and bytes."""
    kinds: dict[str, Any] = {"graphics, fast-linked": {"hits": 10, "compiled": 20, "compile_ns": 1_500_000_000}}
    for _ in range(2):
        write_run(
            user,
            counters={"pipelines": 30, "hits": 10, "hit_ns": 2_500_000_000, "events_dropped": 3},
            kinds=kinds,
            refused={"altered": 2},
            cache_outcomes={"attested": 5},
            damage={"truncated": 1},
        )
    found = parsed(user.pylayer("stats", "--prometheus").stdout)
    kind = (("kind", "graphics, fast-linked"),)
    assert found["pylayer_pipelines_total"] == {(): 60}
    assert found["pylayer_pipeline_hit_seconds_total"] == {(): 5}
    assert found["pylayer_pipeline_hits_total"] == {kind: 20}
    assert found["pylayer_pipeline_compiles_total"] == {kind: 40}
    assert found["pylayer_pipeline_compile_seconds_total"] == {kind: 3}
    assert found["pylayer_queue_dropped_total"] == {(): 6}
    assert found["pylayer_cache_data_total"] == {
        (("outcome", "passed"), ("reason", "attested")): 10,
        (("outcome", "refused"), ("reason", "altered")): 4,
    }
    assert found["pylayer_damaged_parts_total"] == {(("outcome", "truncated"),): 2}
    assert found["pylayer_last_run_start_time_seconds"] == {(): 1}


def test_evicted_runs(user: User) -> None:
    """When the oldest run is evicted, a new series begins, so no counter of a series decreases."""
    write_run(user, started=1000.0, counters={"pipelines": 100})
    write_run(user, started=2000.0, counters={"pipelines": 10})
    (before,) = parsed(user.pylayer("stats", "--prometheus").stdout, ())["pylayer_pipelines_total"].items()
    min(user.store.glob("runs/*.run")).unlink()
    (after,) = parsed(user.pylayer("stats", "--prometheus").stdout, ())["pylayer_pipelines_total"].items()
    assert (before[1], after[1]) == (110, 10)
    assert dict(before[0])["since"] == "1970-01-01T00:16:40Z" and dict(after[0])["since"] == "1970-01-01T00:33:20Z"
    assert set(before[0]) ^ set(after[0]) == {("since", dict(of[0])["since"]) for of in (before, after)}


@pytest.mark.parametrize("name", ['a "game"\\', "two\nlines", "x} 5\npylayer_evil 1", "\x00\x1b\u202e", "'", "ünï {}"])
def test_hostile_names(user: User, name: str) -> None:
    """A program's name is always a label, whatever it contains. Names that are displayed alike count as one program."""
    write_run(user, program=name, executable=name, cache_outcomes={name: 1}, counters={"pipelines": 1})
    write_run(user, program=name, executable="other", started=float("nan"), counters={"pipelines": 1})
    text = user.pylayer("stats", "--prometheus").stdout
    found = parsed(text)
    assert set(found) <= {metric for metric, _, _ in stats.METRICS}
    assert found["pylayer_pipelines_total"] == {(): 2} and "\x1b" not in text


def test_empty_store(user: User) -> None:
    """Without a store, the file lists the metrics and reports that nothing is stored."""
    assert parsed(user.pylayer("stats", "--prometheus").stdout)["pylayer_store_bytes"] == {(): 0}


# ---- report --------------------------------------------------------------------------------------


#: The module: the package has the command under this name.
report = importlib.import_module("pylayer.cli.report")


# ---- Recorded runs ---------------------------------------------------------------------------------


def test_frames_of_another_length(user: User) -> None:
    """--frame-ms says which frames are late, also in a trace."""
    times = [number * 5 for number in range(100)]
    shown = [Present(MONOTONIC + at * MS, number, 101, 1) for number, at in enumerate([*times, times[-1] + 12], 1)]
    recorded_runs.write(user.store, [], presents=shown, counters={"pipelines": 1, "frames": 101})
    for frame_ms, late in (("16.7", 0), ("8.3", 1)):
        path = user.directory / f"{frame_ms}.json"
        user.pylayer("report", "--frame-ms", frame_ms, "--trace", path)
        events = json.loads(path.read_text())["traceEvents"]
        assert sum(event["name"] == "late frame" for event in events) == late
        assert user.json("report", "--frame-ms", frame_ms)["runs"][0]["late_frames"] == late


def test_text(user: User) -> None:
    """Without an option, report prints what mattered: which run, the totals, the slowest pipelines, what was found and
    compiled by kind, and what was refused. Nothing in a pipe is cut or wrapped."""
    events = [pipeline(5000, 50, fingerprint=0xABC), pipeline(9000, 3, fingerprint=0xDEF, text="x" * 60)]
    events += [cache(1, "emptied", "altered"), cache(2, "passed", "attested"), hits(0, 4)]
    name = recorded_runs.write(
        user.store, events, program="game (A Game)", counters={"pipelines": 6, "hits": 4, "compiled": 2}, refused={
            "altered": 1}, cache_outcomes={"attested": 1},
        kinds={"graphics": {"hits": 4, "compiled": 2, "compile_ns": 53 * MS}},
    )  # fmt: skip
    said = user.says("report", COLUMNS="10000", TZ="UTC")
    lines = [line.split() for line in said.splitlines()]
    assert lines[0] == ["game", "(A", "Game),", "1970-01-01", "00:16:40"]
    assert ["run", f"{name},", "process", "4000"] in lines
    (slowest,) = [line for line in lines if line[:1] == [f"{0xABC:016x}"]]
    assert slowest[1:5] == ["50.0", "ms", "5.000", "s"]
    assert ["graphics", "4", "2", "53.0", "ms"] in lines
    (refused,) = [line for line in lines if line[:1] == ["altered"]]
    assert "refused" in refused and "attested" not in said
    assert any("x" * 60 in line for line in lines)


def test_file_is_replaced_whole(user: User) -> None:
    """An existing file is replaced atomically, and a link is not followed. - is standard output, where nothing else is
    printed."""
    recorded_runs.write(user.store, [pipeline(0, 1)])
    assert len(json.loads(user.says("report", "--trace", "-"))["traceEvents"]) > 1
    assert user.says("report", "--html", "-").startswith("<!doctype html>")
    page, other = user.directory / "page.html", user.directory / "other"
    other.write_text("precious")
    page.symlink_to(other)
    assert user.pylayer("report", "--html", page).returncode == 0
    assert not page.is_symlink() and other.read_text() == "precious"
    assert sorted(path.name for path in user.directory.iterdir()) == ["other", "page.html"]


def test_damaged_timeline(user: User) -> None:
    """Unreadable parts of a timeline are left out, and report says so."""
    name = recorded_runs.write(user.store, [pipeline(0, 1), pipeline(5, 2)])
    path = user.store / "runs" / f"{name}.run"
    flip(path, path.read_bytes().index(b"EVTS") + 80)
    (run,) = user.json("report")["runs"]
    assert run["timeline"]["outcome"] != "ok" and run["timeline"]["events"] == 0
    done = user.pylayer("report", "--html", "page.html")
    assert done.returncode == 0
    assert "could not be read" in (user.directory / "page.html").read_text()


def test_nothing_recorded(user: User) -> None:
    """Without any run, one line says how to record one."""
    for arguments in (("--html", "page.html"), ("--json",), ("game", "--trace", "t.json")):
        assert "pylayer run -- APP" in user.fails("report", *arguments)
    assert not list(user.directory.iterdir())


def test_no_more_runs_than_a_page_bears(user: User) -> None:
    """More runs than a page can hold are refused at once."""
    recorded_runs.write_several(user.store, 21)
    assert "at most 20" in user.fails("report", *(f"last~{number}" for number in range(21)), "--json", status=2)


def test_page_without_its_packages(user: User) -> None:
    """Where the packages of the page are not installed one line says how to install them, and the rest works."""
    recorded_runs.write(user.store, [pipeline(0, 1)])
    (user.directory / "jinja2.py").write_text("raise ModuleNotFoundError('No module named jinja2', name='jinja2')\n")
    hidden = {"PYTHONPATH": str(user.directory)}
    assert "pip install jinja2" in user.fails("report", "--html", "page.html", **hidden)
    assert not (user.directory / "page.html").exists()
    assert user.pylayer("report", "--trace", "trace.json", **hidden).returncode == 0
