"""Ray tracing pipelines in deferred operations: on RADV, which has done everything when it says that it deferred, on a
driver that defers to the threads that join, and on one that never defers."""

from __future__ import annotations

from typing import Any

import pytest
from world import BUILD, FAULTS, LAYER_NAME, Run, World

PROGRAM = str(BUILD / "tests" / "deferred")
BOTH = f"{LAYER_NAME}:{FAULTS}"

SUCCESS = "0"
COMPILE_REQUIRED = "1000297000"
DEFERRED = "1000268002"
NOT_DEFERRED = "1000268003"

#: RADV as it is, and the fault layer in front of it.
DRIVERS = ["", "defers", "never-defers"]

#: What the program sees of its pipelines.
SEEN = ("pipelines", "created", "failed", "null_handles", "compile_required", "calls", "results")


class Deferring:
    """Programs on a driver that defers in one of these ways, and a witness to what reaches it."""

    def __init__(self, world: World, driver: str) -> None:
        self.world = world
        self.log = world.directory / "faults.log"
        self.environment = {"PYLAYER_TEST_FAULTS": driver, "PYLAYER_TEST_FAULTS_LOG": str(self.log)}

    def violations(self) -> list[str]:
        lines = self.log.read_text().splitlines()
        self.log.unlink()
        return [line for line in lines if "VIOLATION" in line]

    def program(self, *arguments: str, layers: str = BOTH) -> dict[str, dict[str, str]]:
        """What tests/layer/deferred.c printed, by name of the call."""
        output = self.world.run([PROGRAM, *arguments], VK_INSTANCE_LAYERS=layers, **self.environment).stdout
        assert not self.violations()
        lines = [line.split() for line in output.splitlines()]
        return {name: dict(value.split("=", 1) for value in values) for name, *values in lines}

    def demo(self, *arguments: str | int, layers: str = BOTH, faults: str = "", check: bool = True) -> Run:
        given = ",".join(filter(None, [self.environment["PYLAYER_TEST_FAULTS"], faults]))
        environment = {**self.environment, "PYLAYER_TEST_FAULTS": given}
        result = self.world.demo("--ray-tracing", *arguments, layers=layers, check=check, **environment)
        assert not self.violations()
        return result


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver or "radv")
def driver(request: pytest.FixtureRequest, world: World) -> Deferring:
    """Each of the drivers."""
    return Deferring(world, request.param)


@pytest.fixture
def deferring(world: World) -> Deferring:
    """The driver that really defers."""
    return Deferring(world, "defers")


def results(calls: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Without the returned value of a call, which may be DEFERRED or NOT_DEFERRED wherever either may be."""
    return {name: {key: value for key, value in call.items() if key != "begin"} for name, call in calls.items()}


def seen(result: Run) -> dict[str, Any]:
    return {key: result.get(key) for key in SEEN}


# ---- Results -----------------------------------------------------------------------------------------


def test_results_are_the_drivers(driver: Deferring) -> None:
    """The operations of a first run give the results, pipelines and group handles that they give without the layer,
    but for one that need not compile any more."""
    alone, cold = results(driver.program(layers=FAULTS)), results(driver.program())
    assert alone.pop("then-found")["result"] == COMPILE_REQUIRED
    assert cold.pop("then-found")["result"] == SUCCESS
    assert cold == alone
    assert cold["told"] == {"valid": "1,1", "hits": "0"}
    assert cold["callbacks"] == {"outside_commands": "0"}


def test_results_of_a_second_run(driver: Deferring) -> None:
    """What comes from the store is what came from the compiler, and what may not be compiled comes too."""
    cold = results(driver.program())
    warm = results(driver.program())
    assert cold.pop("may-not-compile")["pipelines"] == "10"
    may_not_compile = warm.pop("may-not-compile")
    assert (may_not_compile["result"], may_not_compile["pipelines"]) == (SUCCESS, "11")
    assert warm == cold


def test_second_run_compiles_nothing(driver: Deferring) -> None:
    """Every deferred operation of a second run is answered from the store. Those with CAPTURE_DATA or with handles that
    can be replayed are the driver's, which gets a copy of the program's cache where there is one."""
    driver.program()
    cold = driver.world.last()
    driver.program()
    warm = driver.world.last()
    assert (cold["compiled"], cold["compile_required"], cold["passed"], cold["plain"]) == (19, 1, 3, 1)
    assert warm["compiled"] == warm["adopted"] == warm["compile_required"] == warm["failed"] == 0
    assert (warm["pipelines"], warm["hits"], warm["passed"], warm["plain"]) == (30, 29, 3, 1)
    # All but the one that is created without a deferred operation, and which the program's own cache has.
    assert (cold["deferred"], warm["deferred"]) == (cold["pipelines"] - 1, warm["pipelines"] - 1)
    # The first of two in one call is found in the layer's cache, which is then merged into the program's.
    assert (cold["application_hits"], warm["application_hits"]) == (1, 2)


def test_what_is_found_counts_as_deferred(driver: Deferring) -> None:
    """A call that finds all its pipelines says that it deferred, for programs that cannot deal with another answer, and
    the driver's own operation is complete with the right result."""
    driver.program()
    warm = driver.program()
    own = NOT_DEFERRED if driver.environment["PYLAYER_TEST_FAULTS"] == "never-defers" else DEFERRED
    for name in ("captured", "replayable", "replayable-cache"):
        assert warm.pop(name)["begin"] == own
    assert {call["begin"] for call in warm.values() if "begin" in call} == {DEFERRED, SUCCESS}
    assert warm["cached"]["begin"] == SUCCESS
    assert warm["complete"] == {"join": SUCCESS, "result": SUCCESS}


def test_found_after_a_failure_is_not_deferred(deferring: Deferring) -> None:
    """An operation whose last use failed would go on saying so: it is not claimed for pipelines that were found."""
    cold = deferring.program()
    assert cold["may-not-compile"]["begin"] == DEFERRED
    assert cold["may-not-compile"]["result"] == COMPILE_REQUIRED
    assert cold["after-failure"]["begin"] == NOT_DEFERRED
    assert cold["again"]["begin"] == DEFERRED


def test_driver_defers_what_must_be_compiled(driver: Deferring) -> None:
    """A call that misses is deferred, or not, as the driver does it without the layer."""
    alone, cold = driver.program(layers=FAULTS), driver.program()
    for name in ("one", "batch", "partly", "threads", "cache", "feedback", "captured", "replayable", "then-may"):
        assert cold[name]["begin"] == alone[name]["begin"]


def test_who_asks_first_finds_all_pipelines(world: World) -> None:
    """A thread that asks for the result, while the one that completed the operation is still in its join, finds all
    its pipelines."""
    calls = Deferring(world, "defers,join-ends-late").program("asked")
    assert calls["found"]["pipelines"] == calls["asked"]["pipelines"] == "11"
    assert world.last()["compiled"] == 2


# ---- The ends of operations --------------------------------------------------------------------------


def test_operation_destroyed_without_asking_for_its_result(driver: Deferring) -> None:
    """What was compiled is kept, and handed out, when the operation was joined and never asked for its result."""
    alone, cold = results(driver.program("unasked", layers=FAULTS)), results(driver.program("unasked"))
    assert cold["unasked"]["pipelines"] == "11"
    # A driver that does everything at once has also handed it out by then.
    assert cold == alone
    assert driver.world.last()["compiled"] == 2
    driver.program("unasked")
    assert driver.world.last()["hits"] == 3


def test_operation_that_is_never_joined(deferring: Deferring) -> None:
    """A program that ends its device with a pending operation ends as it does without the layer."""
    for layers in (FAULTS, BOTH):
        environment = deferring.environment
        deferring.world.run([PROGRAM, "unjoined"], VK_INSTANCE_LAYERS=layers, **environment)
        assert any("pending" in line for line in deferring.violations())
    assert deferring.world.last()["compiled"] == 0


# ---- Threads, caches and faults ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [(), ("--batch", 5), ("--cache", "object", "--feedback"), ("--derivatives", "--batch", 4)]
)
def test_threads_share_the_work(driver: Deferring, how: tuple[str | int, ...]) -> None:
    """Threads that each defer and join with two more see what they see without the layer, and hit in a second run."""
    arguments = ["--count", 10, "--threads", 2, "--deferred", 3, *how]
    alone = seen(driver.demo(*arguments, layers=FAULTS))
    assert seen(driver.demo(*arguments)) == alone
    assert driver.world.last()["compiled"] == 10
    assert seen(driver.demo(*arguments)) == alone
    counters = driver.world.last()
    assert (counters["hits"], counters["deferred"], counters["compiled"]) == (10, 10, 0)


@pytest.mark.parametrize(
    "faults",
    [
        "no-cache-control",
        "probe-misses",
        "cache-refused=2",
        "cache-refused=2,no-cache-control",
        "data-fails",
        "merge-fails",
        "pipelines-refused=3",
    ],
)
@pytest.mark.parametrize("how", [(), ("--cache", "object")], ids=["alone", "cache"])
def test_faults_go_unnoticed(driver: Deferring, faults: str, how: tuple[str, ...]) -> None:
    """With any of the driver's faults a program that defers sees what it sees without the layer."""
    arguments = ["--count", 6, "--batch", 3, "--deferred", 2, *how]
    alone = seen(driver.demo(*arguments, faults=faults, layers=FAULTS, check=False))
    for _ in range(2):
        assert seen(driver.demo(*arguments, faults=faults, check=False)) == alone


@pytest.mark.parametrize("how", [(), ("--cache", "object")], ids=["alone", "cache"])
def test_snapshot_keeps_what_was_deferred(driver: Deferring, how: tuple[str, ...]) -> None:
    """Without cache control a copy of the cache serves the operation, and what it compiled is in the snapshot."""
    arguments = ["--count", 4, "--batch", 2, "--deferred", 2, *how]
    driver.demo(*arguments, faults="no-cache-control")
    assert driver.world.last()["plain_compiled"] == 4
    driver.demo(*arguments, faults="no-cache-control")
    counters = driver.world.last()
    assert (counters["plain"], counters["plain_compiled"], counters["deferred"]) == (4, 0, 4)


def test_pipeline_that_fails_fails_the_operation(driver: Deferring) -> None:
    """A pipeline that the driver refuses is missing, the others of its operation are kept and found again."""
    arguments = ["--count", 9, "--batch", 3, "--deferred", 2]
    first = driver.demo(*arguments, faults="pipelines-refused=3", check=False)
    assert 0 < first["failed"] < 9
    assert driver.world.last()["compiled"] == first["created"]
    driver.demo(*arguments, faults="pipelines-refused=3", check=False)
    counters = driver.world.last()
    assert (counters["hits"], counters["compiled"]) == (first["created"], 0)
