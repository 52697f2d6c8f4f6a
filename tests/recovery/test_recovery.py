"""After any one bad moment, two clean runs later everything is as if it had not been. `make recovery` draws more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from recovery.damage import TARGETS
from recovery.moments import SCENARIOS, TRANSFERS, Moment, all_of, of_damage
from recovery.run import draw
from recovery.trial import Bench

#: Moments of each scenario that are drawn here, the same ones each time.
MOMENTS = {"warm": 45, "more": 20, "own cache": 6, "ends badly": 8}
#: They last for seconds, or they are the whole run and `make recovery` has them.
LONG = ("hang", "hang of a second")


def moments_of(bench: Bench, count: int) -> list[Moment]:
    every = all_of(bench.scenario.name, bench.scenario.driver, bench.commands, bench.calls)
    return draw([moment for moment in every if moment.kind not in LONG], count, seed=1)


@pytest.mark.parametrize("scenario", MOMENTS)
def test_two_clean_runs_after_one_bad_moment(tmp_path: Path, scenario: str) -> None:
    """After a run in which one call of the driver or of the system went wrong, the program's results are those without
    the layer. After the second run pipelines are found as before, and there is no file more."""
    bench = Bench(tmp_path / "bench", SCENARIOS[scenario])
    outcomes = [bench.trial(moment) for moment in moments_of(bench, MOMENTS[scenario])]
    failed = [outcome for outcome in outcomes if outcome.wrong and not outcome.by_rule]
    assert [(str(outcome.moment), outcome.wrong) for outcome in failed] == []
    assert sum(outcome.came for outcome in outcomes) > len(outcomes) * 3 / 4


#: Damage that is drawn of each sort.
DAMAGE = 5


@pytest.mark.parametrize("scenario", TARGETS)
def test_no_damaged_data_reaches_the_driver(tmp_path: Path, scenario: str) -> None:
    """After the store's files or the program's own were damaged, no byte reaches the driver that it did not return,
    and the program's results are those without the layer. What was lost is compiled and stored again."""
    bench = Bench(tmp_path / "bench", SCENARIOS[scenario])
    drawn = draw(of_damage(scenario), DAMAGE * len(TARGETS[scenario]), seed=1)
    outcomes = [bench.trial(moment) for moment in drawn]
    assert [(str(outcome.moment), outcome.wrong) for outcome in outcomes if outcome.wrong] == []
    assert sum(outcome.came for outcome in outcomes) > len(outcomes) / 2


def test_damaged_data_that_reaches_the_driver_is_found(tmp_path: Path) -> None:
    """The search fails damage that the driver is given: here by a layer that passes everything."""
    bench = Bench(tmp_path / "bench", replace(SCENARIOS["strict own cache"], settings={"application_caches": "pass"}))
    outcome = bench.trial(Moment("damage", "strict own cache", "", damage=("cache", "one byte", 1)))
    assert outcome.came and any("'violations': 1" in line for line in outcome.wrong)


def test_lasting_harm_is_found(tmp_path: Path) -> None:
    """The search fails a moment after which later runs differ: here a moment that takes the stored pipelines away
    between the clean runs."""
    bench = Bench(tmp_path / "bench", SCENARIOS["warm"])
    clean = bench.clean

    def clean_after_a_loss(*arguments: object) -> object:
        for path in bench.place.glob("store/store/*/*.closed"):
            path.unlink()
        return clean(*arguments)  # type: ignore[arg-type]

    bench.clean = clean_after_a_loss  # type: ignore[method-assign, assignment]
    outcome = bench.trial(Moment("umask", "warm", "077", umask=0o077))
    assert outcome.after == 0 and any("compiled" in line for line in outcome.wrong)


def test_a_moment_comes_at_its_call(tmp_path: Path) -> None:
    """A system call that is to fail fails, and a process that is to die there dies."""
    bench = Bench(tmp_path / "bench", SCENARIOS["warm"])
    of_store = [line.split(" ") for line in bench.calls if "/store/" in line and " openat " in line]
    assert of_store
    place = of_store[0][0]
    bench.renew()
    done, came = bench.bad_run(Moment("death", "warm", "kill", call=place, action="kill", dies=True))
    assert came and done.returncode == 128 + 9
    bench.renew()
    done, came = bench.bad_run(Moment("system call", "warm", "error", call=place, action="error:EIO"))
    assert came and done.returncode == 0
    _, came = bench.bad_run(Moment("system call", "warm", "error", call="0.100000", action="error:EIO"))
    assert not came


def test_a_moment_comes_at_a_call_of_its_name(tmp_path: Path) -> None:
    """Runs of one program differ by some calls. A short read is one of a read: half of what mprotect is told would take
    away the right to write, and the run would crash."""
    bench = Bench(tmp_path / "bench", SCENARIOS["more"])
    calls = [line.split(" ") for line in bench.calls]
    reads = {line[0].split(".")[0] for line in calls if line[1] == "pread64"}
    place = next(line[0] for line in calls if line[1] == "mprotect" and line[0].split(".")[0] in reads)
    bench.renew()
    moment = Moment("short transfer", "more", "short", call=f"{place}.pread64", action="short")
    done, came = bench.bad_run(moment)
    assert came and done.returncode == 0
    every = all_of("more", "test", bench.commands, bench.calls)
    named = {moment.call.split(".")[2] for moment in every if moment.kind == "short transfer"}
    assert named and named <= set(TRANSFERS)


@pytest.mark.parametrize("file", ["exe", "cmdline"])
def test_a_program_keeps_its_name(tmp_path: Path, file: str) -> None:
    """If the program's name cannot be read once, the program is no other one: it finds its decision and its pipelines,
    and nothing is stored for a program of another name."""
    bench = Bench(tmp_path / "bench", SCENARIOS["warm"])
    (line, *_) = (line for line in bench.calls if f"/proc/thread-self/{file}" in line)
    place, call, *_ = line.split(" ")
    moment = Moment("system call", "warm", line, call=f"{place}.{call.removesuffix('+')}", action="error:ENOMEM")
    before = {path.name for path in (bench.prepared / "store").rglob("*.plan")}
    outcome = bench.trial(moment)
    assert outcome.came and outcome.wrong == []
    assert {path.name for path in (bench.place / "store").rglob("*.plan")} == before
