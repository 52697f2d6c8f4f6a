"""Corrupted data of every kind, a few pieces of each. `make corruption` runs 10,000."""

from __future__ import annotations

import subprocess
import sys

import radv
from world import ROOT, World, clean_environment


def test_no_corrupted_data_reaches_the_driver() -> None:
    """A program's own files and the store's files are corrupted in every way, and no altered data reaches the
    driver."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "corruption" / "run.py"), "--inputs", "3"],
        capture_output=True,
        text=True,
        timeout=240,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_records_of_another_driver_in_a_file(world: World) -> None:
    """If a file system puts another driver's records into a file, the layer does not load them."""
    world.demo("--count", 8, **radv.gpu("navi31"))
    (foreign,) = world.stored_files(".closed")
    records = foreign.read_bytes()[256:]
    world.demo("--count", 8)
    (own,) = (path for path in world.stored_files(".closed") if path != foreign)
    own.write_bytes(own.read_bytes()[:256] + records)
    world.demo("--count", 8)
    run = world.runs()[-1]
    assert (run["loaded_records"], run["counters"]["compiled"]) == (0, 8)
    assert run["damage"] == {"damaged-header": 1}
