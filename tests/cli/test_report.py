"""``pylayer report``: which runs it selects, what it writes, and what it reports if it cannot."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import recorded_runs
from cli.user import User
from recorded_runs import MONOTONIC, MS, cache, hits, pipeline
from unit.things import flip

from pylayer.store.timeline import Present

#: The module: the package has the command under this name.
report = importlib.import_module("pylayer.cli.report")


def slices(path: Path) -> list[dict[str, Any]]:
    """Returns the pipelines of a trace."""
    found = json.loads(path.read_text())["traceEvents"]
    return [event for event in found if event["ph"] == "X" and event["cat"] == "pylayer,pipeline"]


# ---- Real runs -------------------------------------------------------------------------------------


def test_two_runs_of_a_program(user: User) -> None:
    """The first run compiled each pipeline once, at its own time. The second compiled none."""
    user.demo(20)
    user.demo(20)
    (first,) = user.json("report", "last~1")["runs"]
    (second,) = user.json("report")["runs"]
    assert (first["compiled"], first["hits"], second["compiled"], second["hits"]) == (20, 0, 0, 20)
    assert first["state"] == second["state"] == "ended"
    assert sum(kind["compiled"] for kind in first["kinds"]) == 20
    assert sum(kind["hits"] for kind in second["kinds"]) == 20
    assert len(first["slowest"]) == 20 and len({own["fingerprint"] for own in first["slowest"]}) == 20
    for own in first["slowest"]:
        assert 0 < own["at_ns"] < first["duration_ns"] and 0 < own["duration_ns"] <= first["compile_ns"] * 1.5
        assert own["outcome"] == "compiled" and own["kept_bytes"] > 0 and own["stages"]
    assert second["saved_estimate_ns"] > 0
    assert second["fetched"] == 20 and second["fetch_ns"] > 0


def test_page_and_trace(user: User) -> None:
    """Each file is written completely, and reported in one line. The trace has every compiled pipeline."""
    user.demo(20)
    for option, name in (("--html", "a.html"), ("--trace", "t.json")):
        done = user.pylayer("report", option, name)
        assert done.returncode == 0 and [line.partition(":")[0] for line in done.stdout.splitlines()] == [name]
    assert (user.directory / "a.html").read_text().rstrip().endswith("</html>")
    assert len(slices(user.directory / "t.json")) == 20
    assert sorted(path.name for path in user.directory.iterdir()) == ["a.html", "t.json"]


# ---- Recorded runs ---------------------------------------------------------------------------------


def test_list(user: User) -> None:
    """stats --runs names each run in the form that RUN accepts, and fits a terminal of 80 columns."""
    for number, name in enumerate(("game", "a tool with a long name and \x1b[31m colours " * 3)):
        recorded_runs.write(user.store, [pipeline(0, 1)], program=name, executable=name, pid=100 + number,
                            start_ticks=number + 1, started=1000.0 + number)  # fmt: skip
    status, text = user.terminal("stats", "--runs", TERM="dumb")
    assert status == 0 and "\x1b" not in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80 and " last " in lines[1] and "game" in lines[2] and "last~1" in lines[2]
    listed = user.json("stats", "--runs")["processes"]
    assert [(own["word"], own["pid"]) for own in listed] == [("last", 101), ("last~1", 100)]
    for own in listed:
        assert user.json("report", own["word"])["runs"][0]["pid"] == own["pid"]


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
    done = user.pylayer("report", COLUMNS="10000", TZ="UTC")
    assert done.returncode == 0 and done.stderr == ""
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["game", "(A", "Game),", "1970-01-01", "00:16:40"]
    assert ["run", f"{name},", "process", "4000"] in lines
    (slowest,) = [line for line in lines if line[:1] == [f"{0xABC:016x}"]]
    assert slowest[1:5] == ["50.0", "ms", "5.000", "s"]
    assert ["graphics", "4", "2", "53.0", "ms"] in lines
    (refused,) = [line for line in lines if line[:1] == ["altered"]]
    assert "refused" in refused and "attested" not in done.stdout
    assert any("x" * 60 in line for line in lines)


def test_standard_output(user: User) -> None:
    """- is standard output. Nothing else is printed there."""
    recorded_runs.write(user.store, [pipeline(0, 10)])
    assert len(json.loads(user.pylayer("report", "--trace", "-").stdout)["traceEvents"]) > 1
    assert user.pylayer("report", "--html", "-").stdout.startswith("<!doctype html>")


def test_file_is_replaced_whole(user: User) -> None:
    """An existing file is replaced atomically, a link is not followed, and a page that cannot be written leaves no
    file."""
    recorded_runs.write(user.store, [pipeline(0, 1)])
    page, other = user.directory / "page.html", user.directory / "other"
    other.write_text("precious")
    page.symlink_to(other)
    assert user.pylayer("report", "--html", page).returncode == 0
    assert not page.is_symlink() and other.read_text() == "precious"
    done = user.pylayer("report", "--html", user.directory / "missing" / "page.html")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No such file or directory" in done.stderr
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
        done = user.pylayer("report", *arguments)
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.count("\n") == 1 and "pylayer run -- APP" in done.stderr
    assert not list(user.directory.iterdir())


def test_trace_without_timeline(user: User) -> None:
    """For runs without a timeline no trace is written, and one line says why."""
    recorded_runs.write(user.store)
    done = user.pylayer("report", "--trace", "t.json")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "no timeline" in done.stderr
    assert not list(user.directory.iterdir())


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--html", "-", "--json"), 2, "give one of"),
        (("--html", "a", "--trace", "b"), 2, "give one of"), (("nothing", "--json"), 1, "no run of nothing"),
        (("last~7", "--json"), 1, "too far back"), (("--frame-ms", "0", "--json"), 2, "--frame-ms"),
    ],
)  # fmt: skip
def test_wrong_use(user: User, arguments: tuple[str, ...], status: int, says: str) -> None:
    """Wrong use ends with status 2, and what is not there with 1."""
    recorded_runs.write(user.store, [pipeline(0, 1)])
    done = user.pylayer("report", *arguments)
    assert done.returncode == status and says in done.stderr and done.stdout == ""


def test_no_more_runs_than_a_page_bears(user: User) -> None:
    """More runs than a page can hold are refused at once."""
    recorded_runs.write_several(user.store, 21)
    done = user.pylayer("report", *(f"last~{number}" for number in range(21)), "--json")
    assert done.returncode == 2 and "at most 20" in done.stderr


def test_page_without_its_packages(user: User) -> None:
    """Where the packages of the page are not installed one line says how to install them, and the rest works."""
    recorded_runs.write(user.store, [pipeline(0, 1)])
    (user.directory / "jinja2.py").write_text("raise ModuleNotFoundError('No module named jinja2', name='jinja2')\n")
    hidden = {"PYTHONPATH": str(user.directory)}
    done = user.pylayer("report", "--html", "page.html", **hidden)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "pip install jinja2" in done.stderr
    assert not (user.directory / "page.html").exists()
    assert user.pylayer("report", "--trace", "trace.json", **hidden).returncode == 0


def test_text_of_a_real_program(user: User) -> None:
    """The text names the run, and has every number of the JSON."""
    user.demo(12)
    user.demo(16)
    (run,) = user.json("report")["runs"]
    said = user.pylayer("report", COLUMNS="10000").stdout
    slowest = run["slowest"][0]["fingerprint"]
    for text in (run["run"], f"process {run['pid']}", run["device"], slowest):
        assert text in said
    facts = {line[2:22].strip(): line[22:].partition(";")[0] for line in said.splitlines()[:12]}
    assert [facts[key] for key in ("pipelines created", "hits", "compiled")] == ["16", "12", "4"]
