"""A short soak; `make soak` runs it for ten minutes."""

from __future__ import annotations

import subprocess
import sys

from world import ROOT, clean_environment


def test_soak() -> None:
    """Eight processes with faulty drivers, failing disks and kills on one store: none crashes, the store verifies."""
    # In so short a time processes still grow into what they need.
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "soak" / "run.py"), "--minutes", "0.15", "--seed", "1", "--growth", "64"],
        capture_output=True,
        text=True,
        timeout=240,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
