"""``pylayer report --pipeline``: what is recorded and stored of a pipeline, found by its fingerprint."""

from __future__ import annotations

import pytest
import recorded_runs
from cli import stores
from cli.stores import GAME, IDENTITY, filled
from cli.user import User
from recorded_runs import MONOTONIC, Event, pipeline
from world import BUILD

PROGRAM = BUILD / "tests" / "debug_names"


def test_pipeline_of_a_real_program(user: User) -> None:
    """From the report of a run, a fingerprint leads to its shaders, to the names that the program gave, to what is
    stored, and to the runs that compiled it."""
    done = user.pylayer("run", "--", PROGRAM, "VK_EXT_debug_utils")
    assert done.returncode == 0, done.stderr
    (run,) = user.json("report")["runs"]
    slowest = next(own for own in run["slowest"] if own["name"] == "the hero's other cape")
    assert "the hero's other cape" in user.pylayer("report", COLUMNS="10000").stdout
    found = user.json("report", "--pipeline", slowest["fingerprint"])
    assert (found["name"], found["kind"], found["stages"]) == (slowest["name"], "compute", ["compute"])
    assert found["shaders"] == slowest["shaders"]
    (shader,) = found["shaders"]
    assert (shader["stage"], shader["name"], len(shader["hash"])) == ("compute", "hero.comp", 16)
    (stored,) = found["stored"]
    assert stored["program"] == "debug_names" and stored["device"] == run["device"]
    assert stored["compile_ns"] == slowest["duration_ns"]
    (seen,) = found["runs"]
    assert (seen["run"], seen["at_ns"], seen["outcome"]) == (run["run"], slowest["at_ns"], "compiled")
    text = user.pylayer("report", "--pipeline", slowest["fingerprint"], COLUMNS="10000").stdout
    for word in (
        slowest["fingerprint"],
        "the hero's other cape",
        shader["hash"],
        "hero.comp",
        run["run"],
        "compiled in",
    ):
        assert word in text


def test_runs_that_compiled_it(user: User) -> None:
    """Every run that compiled a pipeline is listed, the newest first. A name that only one of them gave is found."""
    named = Event("name", MONOTONIC, fingerprint=0xABCD1, text="a name \x1b[31m")
    recorded_runs.write(user.store, [pipeline(5, 40, fingerprint=0xABCD1), named], started=1000.0)
    slow = pipeline(9, 7, fingerprint=0xABCD1, outcome="slow")
    recorded_runs.write(user.store, [slow], started=2000.0, start_ticks=2)
    found = user.json("report", "--pipeline", "00000000000abcd1")
    assert [(own["time_s"], own["duration_ns"], own["outcome"]) for own in found["runs"]] == [
        (2000.009, 7_000_000, "slow"), (1000.005, 40_000_000, "compiled"),
    ]  # fmt: skip
    assert found["name"] == "a name \ufffd[31m" and found["stored"] == []
    text = user.pylayer("report", "--pipeline", "0x00000000000ABCD1", COLUMNS="10000").stdout
    assert "\x1b" not in text and "a hit that took long" in text
    assert ["stored", "no"] in [line.split() for line in text.splitlines()]


def test_stored_and_not_recorded(user: User) -> None:
    """A pipeline whose runs have no timeline any more is found in the store, in packs and in journals."""
    filled(user.store)
    stores.write_run(user.store, IDENTITY, GAME)
    for number in (7, 102):
        found = user.json("report", "--pipeline", f"{number:016x}")
        assert [(own["program"], own["compile_ns"]) for own in found["stored"]] == [("game (The Game)", 2_000_000)]
        assert found["runs"] == []
        assert user.pylayer("report", "--pipeline", f"{number:016x}").returncode == 0
    assert len(user.json("report", "--pipeline", f"{35:016x}")["stored"]) == 2


@pytest.mark.parametrize(
    ("word", "status", "says"),
    [
        ("abcd", 2, "2 fingerprints begin with abcd"), ("abcd1", 0, ""), ("ABCD2", 0, ""), ("abc", 2, "no fingerprint"),
        ("pipeline", 2, "no fingerprint"), ("1234", 1, "1234; pylayer report has them"),
        ("0" * 15 + "1", 1, "nothing in"),
    ],
)  # fmt: skip
def test_beginning_of_a_fingerprint(user: User, word: str, status: int, says: str) -> None:
    """The beginning of a recorded fingerprint is enough if it is the only one."""
    events = [pipeline(5, 40, fingerprint=0xABCD1 << 44), pipeline(60, 40, fingerprint=0xABCD2 << 44)]
    recorded_runs.write(user.store, events)
    done = user.pylayer("report", "--pipeline", word)
    assert done.returncode == status and says in done.stderr and done.stderr.count("\n") == bool(status)
