"""``pylayer stats``: the numbers, and how they are shown."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import pytest
import recorded_runs
from cli.user import User

from pylayer.common import owner

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")
IDENTITY = "0123456789abcdef0123456789abcdef"


def write_run(user: User, **values: Any) -> None:
    """Writes a run as the layer does. ``counters`` has those that are not zero."""
    recorded_runs.write(user.store, **{"started": 1.0, "identity": IDENTITY, "counters": {}, **values})


# ---- numbers ---------------------------------------------------------------------------------------


def test_two_runs(user: User) -> None:
    """A program runs twice: the first run compiles every pipeline, the second hits every one, and time is saved."""
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


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e300"])
def test_numbers_that_are_none(user: User, number: str) -> None:
    """A number that cannot be used in calculations counts as 0."""
    counters = dict.fromkeys(("pipelines", "hits", "compiled", "hit_ns"), float(number))
    write_run(
        user, counters=counters, started=float(number), mean_compile_ns=float(number), loaded_records=float(number)
    )
    (program,) = user.json("stats")["programs"]
    assert program["pipelines"] == program["hits"] == program["last_started_s"] == 0
    assert user.pylayer("stats").returncode == 0


def test_policy_texts_give_a_terminal_no_orders(user: User) -> None:
    """A policy class's name, and why it was switched off, are printed in one line without escape sequences."""
    texts = {"class": "mine:Class\x1b[31m", "switched_off": "it failed:\n  \x1b]0;title\x07", "failures": 3}
    write_run(user, counters={"pipelines": 1}, policy=texts)
    done = user.pylayer("stats")
    assert done.returncode == 0 and "\x1b" not in done.stdout and "\x07" not in done.stdout
    assert "it failed:" in done.stdout


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
    hits = {"hits": 10, "hit_ns": 1_000_000, "fetch_ns": 5_000_000}
    write_run(user, counters=hits, loaded_records=10, mean_compile_ns=2_000_000.0)
    (program,) = user.json("stats")["programs"]
    assert (program["waited_ns"], program["saved_estimate_ns"]) == (5_000_000, 14_000_000)
    assert "no time was saved" not in user.pylayer("stats", COLUMNS="200").stdout
    write_run(
        user, started=2.0, counters=hits | {"fetch_ns": 25_000_000}, loaded_records=10, mean_compile_ns=2_000_000.0
    )
    said = user.pylayer("stats", "--last", COLUMNS="200").stdout
    assert "-6.0 ms" in said
    assert "no time was saved: the program waited 25.0 ms for the layer; hits saved 19.0 ms" in said


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


def test_empty_store(user: User) -> None:
    """For an empty store, one line says how to start. The JSON is an empty list."""
    done = user.pylayer("stats")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1 and "pylayer run -- APP" in done.stdout
    assert user.json("stats")["programs"] == []


def test_damaged_run_files(user: User) -> None:
    """Run files that are damaged or not ours are skipped. The others count."""
    write_run(user, counters={"pipelines": 3})
    runs = user.store / "runs"
    (runs / "1.run").write_bytes(os.urandom(200))
    (runs / "2.run").write_text("counters=i:3\nrefused=s:x\nstarted=s:never\nidentity=s:../../etc\n")
    (runs / "3.run").write_text("")
    programs = user.json("stats")["programs"]
    assert 3 in [item["pipelines"] for item in programs]
    assert user.pylayer("stats").returncode == 0


# ---- how it looks ----------------------------------------------------------------------------------


def test_names_of_programs(user: User) -> None:
    """stats takes the names that it shows, and the beginning of an identity, as ls does."""
    write_run(user, program="game (A)", application="A")
    write_run(user, program="game (B)", application="B", identity="f" * 32)
    for name, found in (("game", "AB"), ("game (A)", "A"), ("*b)", "B"), ("ffff", "B"), (IDENTITY[:5], "A")):
        assert sorted(one["application"] for one in user.json("stats", name)["programs"]) == list(found), name
    done = user.pylayer("stats", "A")
    assert done.returncode == 1 and "no run of A is recorded" in done.stderr


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
    """--runs lists the newest run first. A process whose pid now belongs to another one has died."""
    process = owner.this_process()
    one = {"counters": {"pipelines": 1}}
    for number, (name, born, ended) in enumerate((("runs", process[3], 0.0), ("ended", 1, 9.0), ("died", 2, 0.0))):
        own = {"program": name, "executable": name, "process": (*process[:3], born), "ended": ended}
        write_run(user, **one, **own, started=time.time() + number - 10)
    listed = user.json("stats", "--runs")["processes"]
    states = [("died", "died", "last"), ("ended", "ended", "last~1"), ("runs", "running", "last~2")]
    assert [(one["program"], one["state"], one["word"]) for one in listed] == states
    assert [one["program"] for one in user.json("stats", "--runs", "?un*")["processes"]] == ["runs"]


def test_names_give_a_terminal_no_orders(user: User) -> None:
    """Names with terminal control characters, and files that are no runs, change at most a row."""
    wrong = {"kinds": {"graphics": "x", "compute": {"compiled": "many"}}, "started_ns": "x"}
    write_run(user, program="\x1b[31mred\n\u202e", stored_bytes=float("nan"), **wrong)
    runs = user.store / "runs"
    (runs / "1.run").write_bytes(os.urandom(300))
    (runs / "2.run").mkdir()
    (runs / "3.run").symlink_to("/dev/zero")
    for words in ("stats", "stats --runs"):
        done = user.pylayer(*words.split())
        assert done.returncode == 0 and "red" in done.stdout
        assert "\x1b" not in done.stdout and "\u202e" not in done.stdout
