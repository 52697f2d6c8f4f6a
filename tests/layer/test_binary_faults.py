"""VK_KHR_pipeline_binary without the layer: what the driver does, what the faults do to it, and what the witness sees.

The tests with the layer compare with this.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pipeline_binaries import Archive, Driver, flipped
from world import BUILD, FAULTS, Run, World

HOST_MEMORY, DEVICE_MEMORY, INITIALIZATION, UNKNOWN = -1, -2, -3, -13


def alone(driver: Driver, *arguments: str | int, faults: str = "", check: bool = True, allow: str | None = None) -> Run:
    return driver.application(*arguments, layered=False, faults=faults, check=check, allow=allow)


# ---- The driver and the witness ----------------------------------------------------------------------------


def test_program_compiles_once(driver: Driver, tmp_path: Path) -> None:
    """The program captures every pipeline in its first run, and creates all of them from its archive in the second."""
    first = alone(driver, "--archive", tmp_path / "archive")
    assert (first["captured"], first["archive"]) == (24, "absent")
    assert first["witness"].counts["released"] == first["witness"].counts["captured"] == 24
    second = alone(driver, "--archive", tmp_path / "archive")
    assert (second["from_archive"], second["captured"], second["archive"]) == (24, 0, "loaded")
    assert second["witness"].counts["created_from_binaries"] == 24
    assert second["archive_digest"] == first["archive_digest"]


@pytest.mark.parametrize("source", ["internal", "create"])
def test_all_sources_give_the_same_binaries(driver: Driver, source: str) -> None:
    """What the internal cache gives beside a pipeline is byte for byte what CAPTURE_DATA gives."""
    assert alone(driver, "--source", source)["archive_digest"] == alone(driver, "--source", "capture")["archive_digest"]


def test_witness_changes_nothing(driver: Driver, world: World) -> None:
    """Every command answers every way of calling it as it does without the test layer."""
    calls = [str(BUILD / "tests" / "binary_calls")]
    without = world.run(calls, VK_INSTANCE_LAYERS=None).stdout
    assert without.count("\n") == 29
    assert world.run(calls, VK_INSTANCE_LAYERS=FAULTS).stdout == without


def test_witness_tells(world: World, tmp_path: Path) -> None:
    """Each rule of VK_KHR_pipeline_binary that a program breaks is written down."""
    log = tmp_path / "faults.log"
    world.run(
        [str(BUILD / "tests" / "invalid_binaries")],
        VK_INSTANCE_LAYERS=FAULTS,
        PYLAYER_TEST_FAULTS_LOG=str(log),
        PYLAYER_TEST_FAULTS_BINARIES=str(tmp_path / "given-out"),
    )
    told = log.read_text()
    for words in (
        "with pipeline binaries and a VkPipelineCache",
        "with pipeline binaries and FAIL_ON_PIPELINE_COMPILE_REQUIRED",
        "vkCreatePipelineBinariesKHR of a pipeline without CAPTURE_DATA",
        "asks the internal cache of a device that has disabled it",
        "that the driver did not give out under this key",
        "of a pipeline whose captured data was released",
        "vkReleaseCapturedPipelineDataKHR a second time",
        "vkReleaseCapturedPipelineDataKHR of a pipeline without CAPTURE_DATA",
        "1 objects alive: VkPipelineBinaryKHR",
    ):
        assert any("VIOLATION" in line and words in line for line in told.splitlines()), words
    assert "HAZARD vkCreatePipelineBinariesKHR, a count query that begins with 41" in told


def test_witness_knows_what_the_driver_gave_out(driver: Driver, tmp_path: Path) -> None:
    """One bit of one binary of a file is enough for the witness; what the driver gave out in another process is not."""
    path = tmp_path / "archive"
    alone(driver, "--archive", path)
    alone(driver, "--archive", path)
    archive = Archive.read(path)
    archive.binaries[7].data = flipped(archive.binaries[7].data)
    archive.write(path)
    result = alone(driver, "--archive", path, allow="did not give out")
    assert len(result["witness"].violations) == 1
    assert result["from_archive"] == 24  # and the driver did not mind


def test_driver_gives_ray_tracing_binaries_one_key(driver: Driver, tmp_path: Path) -> None:
    """RADV 25.0.7 makes the key of a ray tracing binary of one byte: several contents have the same key."""
    alone(driver, "--ray-tracing", "--archive", tmp_path / "archive")
    contents = Archive.read(tmp_path / "archive").contents_of_keys()
    assert any(len(of_key) > 1 for of_key in contents.values())


def test_driver_loses_optimized_links(driver: Driver, tmp_path: Path) -> None:
    """RADV 25.0.7 links otherwise when libraries that retain what links need were created from binaries."""
    arguments = ["--gpl", "--count", 3, "--executables", "--archive", tmp_path / "archive"]
    first, second = alone(driver, *arguments), alone(driver, *arguments)
    assert first["executables_digest"] != second["executables_digest"]
    assert second["witness"].hazards


def test_driver_leaves_feedback_unwritten(driver: Driver, tmp_path: Path) -> None:
    """RADV 25.0.7 writes no creation feedback where a pipeline is created from binaries."""
    alone(driver, "--feedback", "--archive", tmp_path / "archive")
    assert alone(driver, "--feedback", "--archive", tmp_path / "archive")["feedback_untouched"] == 24


def test_binaries_need_no_modules(driver: Driver, tmp_path: Path) -> None:
    """A pipeline is created from binaries without its shader modules."""
    alone(driver, "--archive", tmp_path / "archive")
    result = alone(driver, "--archive", tmp_path / "archive", "--no-modules")
    assert (result["from_archive"], result["created"]) == (24, 24)


# ---- The faults ------------------------------------------------------------------------------------------------


def test_internal_cache_has_nothing(driver: Driver) -> None:
    """With binary-missing the internal cache has nothing, beside the pipeline itself too."""
    result = alone(driver, "--source", "create", faults="binary-missing")
    assert (result["missing"], result["archive_entries"]) == (24, 0)


def test_internal_cache_forgets(driver: Driver) -> None:
    """With binary-missing-at-fetch the internal cache counts binaries and then has none."""
    result = alone(driver, "--source", "create", faults="binary-missing-at-fetch")
    assert (result["missing"], result["archive_entries"]) == (24, 0)


@pytest.mark.parametrize("faults", ["read-binaries-fails=out-of-host-memory", "binaries-incomplete"])
def test_binaries_of_a_pipeline_cannot_be_read(driver: Driver, faults: str) -> None:
    """The program keeps nothing of a pipeline whose binaries it does not get, or not all."""
    result = alone(driver, "--source", "capture", faults=faults)
    assert (result["created"], result["read_failed"], result["archive_entries"]) == (24, 24, 0)


def test_one_binary_fails(driver: Driver) -> None:
    """A binary that fails among others is VK_NULL_HANDLE, and the call fails: one pipeline is not kept."""
    result = alone(driver, "--source", "capture", faults="binary-fails=5")
    assert (result["read_failed"], result["archive_entries"]) == (1, 23)


def test_data_of_binaries_cannot_be_read(driver: Driver) -> None:
    """The program keeps no pipeline of which it cannot read the data."""
    assert alone(driver, faults="binary-data-fails=out-of-host-memory")["archive_entries"] == 0


def test_data_grows_between_the_calls(driver: Driver) -> None:
    """VK_ERROR_NOT_ENOUGH_SPACE_KHR makes the program ask again, and it gets all."""
    assert alone(driver, faults="binary-data-grows")["archive_digest"] == alone(driver)["archive_digest"]


def test_import_fails(driver: Driver, tmp_path: Path) -> None:
    """Where the driver takes no data the program compiles again."""
    alone(driver, "--archive", tmp_path / "archive")
    result = alone(driver, "--archive", tmp_path / "archive", faults="import-fails=initialization-failed")
    assert (result["import_failed"], result["import_result"], result["captured"]) == (24, INITIALIZATION, 24)


@pytest.mark.parametrize(("name", "value"), [("out-of-device-memory", DEVICE_MEMORY), ("unknown", UNKNOWN)])
def test_creation_from_binaries_fails(driver: Driver, tmp_path: Path, name: str, value: int) -> None:
    """Where the driver creates nothing from binaries the program compiles again."""
    alone(driver, "--archive", tmp_path / "archive")
    result = alone(driver, "--archive", tmp_path / "archive", faults=f"from-binaries-fails={name}")
    assert (result["from_binaries_failed"], result["from_binaries_result"], result["created"]) == (24, value, 24)


def test_capture_fails(driver: Driver) -> None:
    """Where the driver cannot capture a program that captures has no pipelines."""
    result = alone(driver, "--source", "capture", faults="capture-fails=out-of-host-memory", check=False)
    assert (result["failed"], result["create_result"]) == (24, HOST_MEMORY)


@pytest.mark.parametrize("faults", ["key-fails=out-of-host-memory", "global-key-fails=out-of-host-memory"])
def test_keys_fail(driver: Driver, faults: str) -> None:
    """A key that cannot be had ends the program."""
    assert "vkGetPipelineKeyKHR: VkResult -1" in alone(driver, faults=faults, check=False).stderr


@pytest.mark.parametrize("faults", ["no-binaries", "device-refuses-binaries"])
def test_device_without_binaries(driver: Driver, faults: str) -> None:
    """A driver without the extension, or one that only says that it has it, gives the program no device."""
    result = alone(driver, faults=faults, check=False, allow="vkCreateDevice with ")
    assert "vkCreateDevice: VkResult" in result.stderr


@pytest.mark.parametrize(
    "name",
    ["internal_cache", "internal_cache_control", "prefers_internal_cache", "precompiled_internal_cache", "compressed"],
)
def test_properties_are_what_is_wanted(driver: Driver, name: str) -> None:
    """Each property can be said to be so and not so."""
    fault = "compressed-binaries" if name == "compressed" else name.replace("_", "-")
    assert [alone(driver, "--count", 1, faults=f"{fault}={value}")[name] for value in (0, 1)] == [0, 1]


def test_internal_cache_disabled_where_that_is_not_offered(driver: Driver) -> None:
    """A device that disables an internal cache which cannot be disabled is a violation."""
    result = alone(
        driver,
        "--count",
        1,
        "--disable-internal-cache",
        faults="internal-cache-control=0",
        allow="disableInternalCache",
    )
    assert len(result["witness"].violations) == 1
