"""``pylayer stats``: the numbers, and how they are shown."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import recorded_runs
from cli.user import User
from prometheus_client.parser import text_string_to_metric_families

from pylayer.cli import metrics
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
    (runs / "4.run").write_text("counters=i:3\nrefused=s:x\nstarted=s:never\nidentity=s:../../etc\n")
    (runs / "5.run").write_text("")
    for words in ("stats", "stats --runs"):
        done = user.pylayer(*words.split())
        assert done.returncode == 0 and "red" in done.stdout
        assert "\x1b" not in done.stdout and "\u202e" not in done.stdout


# ---- --prometheus --------------------------------------------------------------------------------


COMMON = ("store", "program", "device", "identity", "since")

Found = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parsed(text: str, beside: tuple[str, ...] = COMMON) -> Found:
    """Returns samples by name and by labels other than ``beside``. No two samples have the same labels."""
    found: Found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "counter")
        for sample in family.samples:
            key = tuple(sorted((name, text) for name, text in sample.labels.items() if name not in beside))
            assert key not in found.setdefault(sample.name, {})
            found[sample.name][key] = sample.value
    return found


def test_real_program(user: User) -> None:
    """Two runs: the first compiled every pipeline, the second found every one. The file is complete and readable by
    everybody."""
    user.demo(12)
    user.demo(12)
    file = user.directory / "pylayer.prom"
    assert user.pylayer("stats", "--prometheus", file).stdout == ""
    assert file.stat().st_mode & 0o777 == 0o644 and [path.name for path in user.directory.iterdir()] == [file.name]
    assert file.read_text() == user.pylayer("stats", "--prometheus").stdout
    found = parsed(file.read_text())
    assert found["pylayer_runs_total"] == {(): 2} and found["pylayer_pipelines_total"] == {(): 24}
    assert sum(found["pylayer_pipeline_hits_total"].values()) == 12
    assert sum(found["pylayer_pipeline_compiles_total"].values()) == 12
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
    assert set(found) <= {metric for metric, _, _ in metrics.METRICS}
    assert found["pylayer_pipelines_total"] == {(): 2} and "\x1b" not in text


def test_names() -> None:
    """Names follow Prometheus' conventions: counters end in _total, gauges do not, and all have the same prefix."""
    for name, kind, _ in metrics.METRICS:
        assert name.startswith("pylayer_") and name.endswith("_total") == (kind == "counter")


def test_empty_store(user: User) -> None:
    """Without a store, the file lists the metrics and reports that nothing is stored."""
    assert parsed(user.pylayer("stats", "--prometheus").stdout)["pylayer_store_bytes"] == {(): 0}


def test_unwritable(user: User, tmp_path: Path) -> None:
    """A directory that cannot be written to is reported in one line. The old file stays."""
    done = user.pylayer("stats", "--prometheus", tmp_path / "nowhere" / "pylayer.prom")
    assert done.returncode == 1 and done.stderr.endswith("was not written: No such file or directory\n")
    assert not os.path.lexists(tmp_path / "nowhere")
