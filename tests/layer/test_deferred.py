"""Ray tracing pipelines in deferred operations. The drivers are RADV and scripted drivers that have done all work when
they return VK_OPERATION_DEFERRED_KHR, that leave it to the threads that join, or that never defer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from disk import age, uses_in
from recipes.seen import parse
from scripted_driver import ScriptedDriver
from world import ROOT, Run, seen

from pylayer.store.contents import RECENT_SECONDS
from pylayer.store.format import CELL
from pylayer.store.reader import Reader

SUCCESS = "0"
COMPILE_REQUIRED = "1000297000"
DEFERRED = "1000268002"
NOT_DEFERRED = "1000268003"

DEFERRALS = ["at-once", "to-join", "never"]


class Deferring:
    """Programs on a scripted driver that defers in one of these ways, or on RADV."""

    def __init__(self, directory: Path, deferral: str) -> None:
        self.deferral = deferral
        self.scripted = ScriptedDriver(directory, "radv" if deferral == "radv" else "test")
        self.world = self.scripted.world
        #: Like RADV without its disk cache, with pipelines of about the same size.
        self.script = f"payload=2000;internal-cache=no;binaries=no;deferral={deferral}"

    def program(self, recipe: str = "deferred", script: str = "", **options: Any) -> Calls:
        """Runs tests/recipes/RECIPE.recipe. Returns what it printed, by name of the call."""
        path = ROOT / "tests" / "recipes" / f"{recipe}.recipe"
        script = f"{self.script};binaries=yes;{script}"
        return calls_of(self.scripted.program("recipes", path, script=script, **options).stdout)

    def demo(self, *arguments: str | int, script: str = "", **options: Any) -> Run:
        return self.scripted.demo("--ray-tracing", *arguments, script=f"{self.script};{script}", **options)


Calls = dict[str, dict[str, str]]


def calls_of(output: str) -> Calls:
    """Returns what the recipes program printed of each call, with the handles of the pipelines' groups. What it says of
    its allocation callbacks has no name."""
    calls: Calls = {}
    for line in parse(output):
        name, of_groups, _ = line.name.partition(".")[2].partition("-groups")
        if name.isdigit() or name.startswith("join-"):
            continue  # pipelines are destroyed, or `finish` says what came of it
        if of_groups:
            calls[name]["handles"] = calls[name].get("handles", "") + line.seen
            continue
        values = dict(word.split("=") for word in line.seen.split() if "=" in word)
        pipelines = [values.pop(key) == "set" for key in list(values) if key[0] == "P"]
        calls[name] = values | {"pipelines": "".join(str(int(there)) for there in pipelines)}
        if line.feedback:
            told = [flags for slot in line.feedback.values() for flags in slot]
            calls[name]["told"] = f"valid={sum('V' in slot[0] for slot in line.feedback.values())}"
            calls[name]["told"] += f" hits={sum('H' in flags for flags in told)}"
    return calls


@pytest.fixture(params=["radv", *DEFERRALS])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Deferring:
    """RADV and each of the scripted drivers."""
    return Deferring(tmp_path, request.param)


@pytest.fixture(params=DEFERRALS)
def scriptable(request: pytest.FixtureRequest, tmp_path: Path) -> Deferring:
    """Each of the scripted drivers, which can have faults."""
    return Deferring(tmp_path, request.param)


@pytest.fixture
def deferring(tmp_path: Path) -> Deferring:
    """The driver that leaves the work to the threads that join."""
    return Deferring(tmp_path, "to-join")


def results(calls: Calls) -> Calls:
    """Returns the calls without the value that each returned at once, because both DEFERRED and NOT_DEFERRED are
    allowed."""
    return {name: {key: value for key, value in call.items() if key != "begin"} for name, call in calls.items()}


# ---- Results -----------------------------------------------------------------------------------------


def test_two_runs(driver: Deferring) -> None:
    """In a first run, operations give the same results, pipelines and group handles as without the layer, except one
    that need not compile any more, and a call of which not all is found returns what the driver returns, deferred or
    not. In a second run every operation is answered from the store, but for those with CAPTURE_DATA or replayable
    handles, which go to the driver unchanged. A call that finds all its pipelines returns VK_OPERATION_DEFERRED_KHR,
    because some programs cannot deal with another answer."""
    alone, cold = driver.program(layered=False), driver.program()
    compiled = driver.world.last()
    warm = driver.program()
    found = driver.world.last()
    for name in ("one", "batch", "threads", "feedback", "captured", "replayable", "then-may", "partly"):
        assert cold[name]["begin"] == alone[name]["begin"]
    own = NOT_DEFERRED if driver.deferral == "never" else DEFERRED
    passed = ("captured", "replayable", "replayable-cache")
    assert {warm[name]["begin"] for name in passed} == {own}
    assert {call["begin"] for name, call in warm.items() if "begin" in call and name not in passed} == {DEFERRED}
    assert (warm["complete"]["join"], warm["complete"]["result"]) == (SUCCESS, SUCCESS)
    alone, cold, warm = results(alone), results(cold), results(warm)
    assert cold["feedback"]["told"] == "valid=2 hits=0"
    assert (cold[""]["live"], cold[""]["foreign"]) == ("0", "0")
    assert cold | {"then-found": alone["then-found"]} == alone
    assert (alone["then-found"]["result"], cold["then-found"]["result"]) == (COMPILE_REQUIRED, SUCCESS)
    # Those that may not be compiled are found as well.
    may_not_compile = warm.pop("may-not-compile")
    assert (may_not_compile["result"], may_not_compile["pipelines"]) == (SUCCESS, "11")
    assert (cold.pop("may-not-compile")["pipelines"], cold.pop("not-found")["pipelines"]) == ("10", "0")
    assert warm.pop("not-found")["pipelines"] == "1"
    assert warm == cold
    assert [compiled[name] for name in ("compiled", "compile_required", "passed", "plain")] == [19, 2, 4, 0]
    assert found["compiled"] == found["compile_required"] == found["failed"] == 0
    assert [found[name] for name in ("pipelines", "hits", "passed", "plain")] == [30, 30, 4, 0]
    # Every pipeline but one, which is created without a deferred operation and is in the program's own cache.
    assert (compiled["deferred"], found["deferred"]) == (compiled["pipelines"] - 1, found["pipelines"] - 1)
    # The program creates one pipeline twice with its own cache.
    assert compiled["application_hits"] == found["application_hits"] == 1


def test_beside_what_may_not_be_compiled(driver: Deferring) -> None:
    """Of pipelines that may not be compiled, those that the program's cache has are created, whatever else the call
    asks for, in the first run and in later ones."""
    alone = results(driver.program("deferred_beside", layered=False))
    assert [alone[name]["pipelines"] for name in ("neither", "one")] == ["10", "11"]
    for _ in range(2):
        assert results(driver.program("deferred_beside")) == alone


@pytest.mark.parametrize("deferral", ["at-once", "never"])
def test_cache_after_an_operation_that_passed(tmp_path: Path, deferral: str) -> None:
    """What is created later with the cache of an operation that passed is in that cache, if the operation was complete
    at once. If not, the layer does not know its end, and merges nothing into the cache."""
    driver = Deferring(tmp_path, deferral)
    alone = driver.program("deferred_passed", layered=False)
    for _ in range(2):
        assert driver.program("deferred_passed")["saved"] == alone["saved"]


def test_found_after_a_failure_is_not_deferred(deferring: Deferring) -> None:
    """An operation whose last use failed would keep returning that failure, so a call whose pipelines were found
    returns VK_OPERATION_NOT_DEFERRED_KHR for it."""
    cold = deferring.program()
    assert cold["may-not-compile"]["begin"] == cold["not-found"]["begin"] == DEFERRED
    assert cold["not-found"]["result"] == COMPILE_REQUIRED
    assert cold["after-failure"]["begin"] == NOT_DEFERRED
    assert cold["again"]["begin"] == DEFERRED


def test_who_asks_first_finds_all_pipelines(deferring: Deferring) -> None:
    """A thread that asks for the result finds all pipelines, even while the thread that completed the operation is
    still in its join."""
    calls = deferring.program("deferred_asked", script="join=late")
    assert calls["found"]["pipelines"] == calls["asked"]["pipelines"] == "11"
    assert deferring.world.last()["compiled"] == 2


# ---- The ends of operations --------------------------------------------------------------------------


def test_operation_destroyed_without_asking_for_its_result(driver: Deferring) -> None:
    """The pipelines of an operation that was joined and never asked for its result are stored and returned to the
    program."""
    alone = results(driver.program("deferred_unasked", layered=False))
    cold = results(driver.program("deferred_unasked"))
    assert cold["unasked"]["pipelines"] == "11"
    assert cold == alone
    assert driver.world.last()["compiled"] == 2
    driver.program("deferred_unasked")
    assert driver.world.last()["hits"] == 3


def test_operation_that_is_never_joined(deferring: Deferring) -> None:
    """A program that destroys its device with a pending operation ends as it does without the layer."""
    for layered in (False, True):
        deferring.program("deferred_unjoined", layered=layered, allow=True)
        assert "objects alive: VkDeferredOperationKHR" in deferring.scripted.violations[-1]
        deferring.scripted.witness.unlink()
    assert deferring.world.last()["compiled"] == 0


# ---- Threads, caches and faults ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [(), ("--batch", 5), ("--cache", "object", "--feedback"), ("--derivatives", "--batch", 4)]
)
def test_threads_share_the_work(scriptable: Deferring, how: tuple[str | int, ...]) -> None:
    """Threads that each defer and join with two more see what they see without the layer, and get only hits in a second
    run."""
    arguments = ["--count", 10, "--threads", 2, "--deferred", 3, *how]
    alone = seen(scriptable.demo(*arguments, layered=False))
    assert seen(scriptable.demo(*arguments)) == alone
    assert scriptable.world.last()["compiled"] == 10
    assert seen(scriptable.demo(*arguments)) == alone
    counters = scriptable.world.last()
    assert (counters["hits"], counters["deferred"], counters["compiled"]) == (10, 10, 0)


FAILING = "pipeline=error:unknown?chosen?!may-not-compile"


@pytest.mark.parametrize(
    "script",
    [
        "cache-control=no",
        "pipeline=error:compile-required?may-not-compile",
        "create-cache=error:out-of-host-memory@3+",
        "create-cache=error:out-of-host-memory@4+;cache-control=no",
        "get-data=error:out-of-host-memory?data",
        "merge=error:out-of-device-memory",
        FAILING,
    ],
)
def test_faults_go_unnoticed(scriptable: Deferring, script: str) -> None:
    """A program that defers, with a cache of its own, sees what it sees without the layer, whichever fault the driver
    has."""
    arguments = ["--count", 6, "--batch", 3, "--deferred", 2, "--cache", "object"]
    alone = seen(scriptable.demo(*arguments, script=script, layered=False, check=False))
    for _ in range(2):
        assert seen(scriptable.demo(*arguments, script=script, check=False)) == alone


def test_each_pipeline_of_an_operation_is_used_by_itself(deferring: Deferring) -> None:
    """Of an operation's three pipelines, two that an earlier operation stored are hits and one is compiled. Each is
    stored under its own fingerprint, and a later run notes each as used."""
    for count, hits, compiled in ((2, 0, 2), (3, 2, 1), (3, 3, 0)):
        deferring.demo("--count", count, "--batch", count, "--deferred", 2)
        counters = deferring.world.last()
        assert (counters["hits"], counters["compiled"], counters["deferred"]) == (hits, compiled, count)
    for path in deferring.world.stored_files(".closed"):
        age(path, 2 * RECENT_SECONDS)
    before = set(deferring.world.stored_files())
    deferring.demo("--count", 3, "--batch", 3, "--deferred", 2)
    (new,) = set(deferring.world.stored_files()) - before
    ((used, _),) = uses_in(new)[1]
    stored = {
        record.fingerprint
        for path in before
        for part in Reader(str(path)).parts([])
        for record in part.records
        if record.magic == CELL
    }
    assert set(used) == stored and len(stored) == 3 and 0 not in stored
