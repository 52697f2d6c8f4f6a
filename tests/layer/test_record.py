"""Records of create infos (shim/layer/vulkan/record.c): what is created from one is what the program creates."""

from __future__ import annotations

from collections import Counter

import pytest
from world import BUILD, World

PATHS, DEMO = BUILD / "tests" / "paths", BUILD / "demo" / "pipelines"


@pytest.mark.parametrize(
    ("command", "least"),
    [
        ([PATHS, "all"], 120),
        ([DEMO, "--count", "40"], 40),
        ([DEMO, "--count", "8", "--gpl"], 48),
        ([DEMO, "--count", "6", "--ray-tracing"], 6),
        ([BUILD / "tests" / "chains"], 6),
        ([BUILD / "tests" / "rays"], 16),
        ([BUILD / "tests" / "deferred"], 20),
        ([BUILD / "tests" / "fingerprints", "garbage"], 2),
        ([BUILD / "tests" / "identifiers", "record", "{}/identifiers"], 14),
    ],
    ids=["paths", "demo", "libraries", "ray tracing", "chains", "rays", "deferred", "garbage", "identifiers"],
)
def test_replayed_records_are_the_programs(real: World, command: list[str], least: int) -> None:
    """A pipeline created from a record adds the same data to an empty cache as one created from the program's create
    info: no member is missing, and no ignored pointer was followed."""
    log = real.directory / "records"
    log.touch()
    real.run(
        [str(part).format(real.directory) for part in command],
        VK_INSTANCE_LAYERS="VK_LAYER_PYLAYER_TEST_record",
        RECORD_LOG=str(log),
        MESA_SHADER_CACHE_DISABLE="true",
    )
    said = Counter(line.split()[0] for line in log.read_text().splitlines())
    assert said.keys() <= {"same", "refused", "skipped"}
    assert said["same"] >= least
