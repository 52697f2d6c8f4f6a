"""Corrupted data of every kind: few pieces of each; `make corruption` gives 10,000."""

from __future__ import annotations

import subprocess
import sys

from world import ROOT, clean_environment


def test_no_corrupted_data_reaches_the_driver() -> None:
    """Of a program's own files and of the store's, corrupted in every way, nothing altered reaches the driver."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "corruption" / "run.py"), "--inputs", "25"],
        capture_output=True,
        text=True,
        timeout=600,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
