"""RADV's VK_KHR_pipeline_binary without the layer: what the driver does, and what the witness reports.

The tests with the layer rely on this.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pipeline_binaries import Archive, flipped
from recipes.small import BINARY_CALLS
from scripted_driver import ScriptedDriver
from world import WITNESS, Run, World

pytestmark = pytest.mark.usefixtures("needs_binaries")


def alone(driver: ScriptedDriver, *arguments: str | int | Path, allow: bool = False) -> Run:
    return driver.application(*arguments, layered=False, allow=allow)


# ---- The driver and the witness ----------------------------------------------------------------------------


def test_program_compiles_once(driver: ScriptedDriver, tmp_path: Path) -> None:
    """The program captures every pipeline in its first run, and creates all of them from its archive in the second."""
    first = alone(driver, "--archive", tmp_path / "archive")
    assert (first["captured"], first["archive"]) == (12, "absent")
    assert driver.counts["release-captured"] == driver.counts["captured"] == 12
    second = alone(driver, "--archive", tmp_path / "archive")
    assert (second["from_archive"], second["captured"], second["archive"]) == (12, 0, "loaded")
    assert driver.counts["from-binaries"] == 12
    assert second["archive_digest"] == first["archive_digest"]


@pytest.mark.parametrize("source", ["internal", "create"])
def test_all_sources_give_the_same_binaries(driver: ScriptedDriver, source: str) -> None:
    """The internal cache returns byte for byte the same binaries as CAPTURE_DATA."""
    assert alone(driver, "--source", source)["archive_digest"] == alone(driver, "--source", "capture")["archive_digest"]


def test_witness_changes_nothing(driver: ScriptedDriver, world: World) -> None:
    """Every way of calling every command gives the same answer with the witness layer as without it."""
    without = world.recipe(BINARY_CALLS, VK_INSTANCE_LAYERS=None).stdout
    assert without.count("skip") == 1  # what there is none of
    assert world.recipe(BINARY_CALLS, VK_INSTANCE_LAYERS=WITNESS).stdout == without


def test_witness_tells(driver: ScriptedDriver) -> None:
    """The witness writes down RADV's known mistakes, and data that RADV never returned."""
    driver.program("invalid_binaries", layered=False, allow=True)
    assert "HAZARD a count query that begins with 41" in driver.hazards
    assert any("did not give out under their key" in line for line in driver.violations)


def test_witness_knows_what_the_driver_gave_out(driver: ScriptedDriver, tmp_path: Path) -> None:
    """The witness reports one changed bit of one binary, and does not report data that the driver returned in another
    process."""
    path = tmp_path / "archive"
    alone(driver, "--archive", path)
    alone(driver, "--archive", path)
    archive = Archive.read(path)
    archive.binaries[7].data = flipped(archive.binaries[7].data)
    archive.write(path)
    result = alone(driver, "--archive", path, allow=True)
    assert len(driver.violations) == 1 and "did not give out" in driver.violations[0]
    assert result["from_archive"] == 12  # and the driver accepted the altered data


def test_driver_gives_ray_tracing_binaries_one_key(driver: ScriptedDriver, tmp_path: Path) -> None:
    """RADV 25.0.7 makes a ray tracing binary's key from one byte, so several contents have the same key."""
    alone(driver, "--ray-tracing", "--archive", tmp_path / "archive")
    contents = Archive.read(tmp_path / "archive").contents_of_keys()
    assert any(len(of_key) > 1 for of_key in contents.values())


def test_driver_loses_optimized_links(driver: ScriptedDriver, tmp_path: Path) -> None:
    """RADV 25.0.7 links differently if libraries that retain link-time information were created from binaries."""
    arguments = ["--gpl", "--count", 3, "--executables", "--archive", tmp_path / "archive"]
    first, second = alone(driver, *arguments), alone(driver, *arguments)
    assert first["executables_digest"] != second["executables_digest"]
    assert driver.hazards


def test_driver_leaves_feedback_unwritten(driver: ScriptedDriver, tmp_path: Path) -> None:
    """RADV 25.0.7 writes no creation feedback for a pipeline created from binaries."""
    alone(driver, "--feedback", "--archive", tmp_path / "archive")
    assert alone(driver, "--feedback", "--archive", tmp_path / "archive")["feedback_untouched"] == 12


def test_binaries_need_no_modules(driver: ScriptedDriver, tmp_path: Path) -> None:
    """A pipeline can be created from binaries without its shader modules."""
    alone(driver, "--archive", tmp_path / "archive")
    result = alone(driver, "--archive", tmp_path / "archive", "--no-modules")
    assert (result["from_archive"], result["created"]) == (12, 12)
