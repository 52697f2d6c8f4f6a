"""Records of create infos (tests/record/record.c): what is created from one is what the program creates."""

from __future__ import annotations

from collections import Counter

import pytest
from world import BUILD, ROOT, World

DEMO = BUILD / "demo" / "pipelines"
#: Every way to create a pipeline.
WAYS = [BUILD / "tests" / "recipes", *sorted((ROOT / "tests" / "recipes" / "ways").glob("*.recipe"))]


@pytest.mark.parametrize(
    ("command", "least"),
    [
        (WAYS, 120),
        ([DEMO, "--count", "40"], 40),
        ([DEMO, "--count", "8", "--gpl"], 48),
        ([DEMO, "--count", "6", "--ray-tracing"], 6),
        ([BUILD / "tests" / "rays"], 16),
        ([BUILD / "tests" / "deferred"], 20),
        ([BUILD / "tests" / "fingerprints", "garbage"], 2),
    ],
    ids=["ways", "demo", "libraries", "ray tracing", "rays", "deferred", "garbage"],
)
def test_replayed_records_are_the_programs(real: World, command: list[str], least: int) -> None:
    """A pipeline created from a record adds the same data to an empty cache as one created from the program's create
    info: no member is missing, and no ignored pointer was followed."""
    log = real.directory / "records"
    log.touch()
    real.run(
        [str(part) for part in command],
        VK_INSTANCE_LAYERS="VK_LAYER_PYLAYER_TEST_record",
        RECORD_LOG=str(log),
        MESA_SHADER_CACHE_DISABLE="true",
    )
    said = Counter(line.split()[0] for line in log.read_text().splitlines())
    assert said.keys() <= {"same", "refused", "skipped"}
    assert said["same"] >= least
