"""Pipelines that nothing is known of are compiled without a probe where the driver's feedback says what it compiled.
With Mesa's disk cache on, a probe that misses costs a tenth of a compile (``Plan.compiles_unknown``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_driver import ScriptedDriver
from world import seen

#: The VkDriverId of RADV. Its feedback on stages that it found has no duration.
RADV = "driver-id=3"


@pytest.fixture
def disk(tmp_path: Path) -> dict[str, str | None]:
    """Variables that switch Mesa's disk cache on, in a directory of the test's."""
    return {"MESA_SHADER_CACHE_DISABLE": None, "MESA_SHADER_CACHE_DIR": str(tmp_path / "mesa")}


@pytest.mark.parametrize("cache", [(), ("--cache", "object")], ids=["no cache", "its own cache"])
@pytest.mark.parametrize("feedback", [(), ("--feedback",)], ids=["", "feedback"])
def test_cold_run_creates_each_pipeline_once(
    driver: ScriptedDriver, disk: dict[str, str | None], cache: tuple[str, ...], feedback: tuple[str, ...]
) -> None:
    """With Mesa's disk cache on and empty, a first run makes one call to the driver for each pipeline, as the program
    does, and the program sees no difference. The second run compiles nothing."""
    arguments = ("--count", 12, "--threads", 2, *cache, *feedback)
    alone = driver.demo(*arguments, layered=False)
    under = driver.demo(*arguments, **disk)
    assert (driver.counts["probes"], driver.world.last()["compiled"]) == (0, 12)
    assert seen(under) == seen(alone) and under.get("feedback") == alone.get("feedback")
    driver.demo(*arguments)
    assert (driver.world.last()["hits"], driver.world.last()["compiled"]) == (12, 0)


@pytest.mark.parametrize("cache", [(), ("--cache", "object")], ids=["no cache", "its own cache"])
def test_warm_driver_cache_is_adopted_in_one_run(
    driver: ScriptedDriver, disk: dict[str, str | None], cache: tuple[str, ...]
) -> None:
    """What Mesa's disk cache has goes into the store in the first run, with one call to the driver for each pipeline.
    None is said to be compiled."""
    driver.demo("--count", 12, layered=False, **disk)
    driver.demo("--count", 12, *cache, **disk)
    counters = driver.world.last()
    assert (counters["adopted"], counters["compiled"], driver.counts["probes"]) == (12, 0, 0)
    driver.demo("--count", 12)
    assert (driver.world.last()["hits"], driver.world.last()["compiled"]) == (12, 0)


def test_driver_cache_is_not_adopted(driver: ScriptedDriver, disk: dict[str, str | None]) -> None:
    """With adopt_driver_cache: false what the driver's cache has is a hit, and is not stored."""
    driver.settings(adopt_driver_cache=False)
    driver.demo("--count", 12, layered=False, **disk)
    driver.demo("--count", 12, **disk)
    counters = driver.world.last()
    assert (counters["hits"], counters["adopted"], counters["compiled"]) == (12, 0, 0)
    assert driver.world.runs()[-1]["stored_records"] == 0


@pytest.mark.parametrize(("script", "probes"), [("", 12), ("driver-id=4", 23)], ids=["any", "NVIDIA"])
def test_other_drivers_are_probed(scripted: ScriptedDriver, script: str, probes: int) -> None:
    """Other drivers are asked first: with the layer's cache, and NVIDIA's without one before that, once the layer's
    cache holds anything."""
    scripted.demo("--count", 12, script=script)
    assert (scripted.counts["probes"], scripted.world.last()["compiled"]) == (probes, 12)


def test_silent_driver_compiled(scripted: ScriptedDriver) -> None:
    """Without feedback nothing says that a pipeline was found, so it counts as compiled, and is stored."""
    scripted.demo("--count", 12, script=f"{RADV};feedback=no")
    assert scripted.world.last()["compiled"] == 12
    scripted.demo("--count", 12, script=f"{RADV};feedback=no")
    assert scripted.world.last()["compiled"] == scripted.counts["compiles"] == 0


@pytest.mark.parametrize("pipelines", [("--graphics",), ("--compute",), ("--gpl",)], ids=lambda given: given[0])
def test_second_run_finds_all(scripted: ScriptedDriver, pipelines: tuple[str, ...]) -> None:
    """Whatever was compiled without a probe is found in the second run."""
    alone = seen(scripted.demo("--count", 12, *pipelines, layered=False, script=RADV))
    for compiles in (True, False):
        assert seen(scripted.demo("--count", 12, *pipelines, script=RADV)) == alone
        assert (scripted.counts["compiles"] > 0) == compiles


def test_program_that_must_not_compile(driver: ScriptedDriver, disk: dict[str, str | None]) -> None:
    """A pipeline with FAIL_ON_PIPELINE_COMPILE_REQUIRED is never compiled."""
    driver.demo("--count", 12, "--fail-on-compile-required", **disk)
    assert (driver.world.last()["compiled"], driver.world.last()["compile_required"]) == (0, 12)


def test_own_cache_gets_what_is_not_adopted(
    driver: ScriptedDriver, disk: dict[str, str | None], tmp_path: Path
) -> None:
    """With adopt_driver_cache: false the program's own cache gets what the driver's cache has, as without the layer."""
    driver.settings(adopt_driver_cache=False)
    saved = tmp_path / "saved"
    driver.demo("--count", 12, layered=False, **disk)
    driver.demo("--count", 12, "--cache", "object", "--cache-save", saved, **disk)
    again = driver.demo("--count", 12, "--cache", saved, "--feedback", layered=False)
    assert again["feedback"]["application_cache_hit"] == 12


def test_what_is_not_adopted_is_destroyed(scripted: ScriptedDriver) -> None:
    """With adopt_driver_cache: false no cell is left of what the driver's cache has. The witness asserts that."""
    scripted.settings(adopt_driver_cache=False)
    scripted.demo("--count", 12, script=f"{RADV};filled-internal-cache=yes")
    assert (scripted.world.last()["hits"], scripted.counts["internal-hits"], scripted.counts["compiles"]) == (12, 12, 0)
    assert scripted.counts["create-cache"] == scripted.counts["destroy-cache"] > 12


ONLY_CACHES = "internal-cache=no;binaries=no"


def test_own_cache_of_a_warm_run(scripted: ScriptedDriver) -> None:
    """What the store has is looked up in the layer's cache before the program's own, which is empty: one call to the
    driver for each pipeline, and none in vain."""
    for probes in (16, 0):
        scripted.demo("--count", 8, "--cache", "object", script=ONLY_CACHES)
        assert scripted.counts["probes"] == probes
    assert (scripted.world.last()["hits"], scripted.counts["create-pipelines"]) == (8, 8)
