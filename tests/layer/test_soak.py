"""A short soak test. `make soak` runs it for ten minutes."""

from __future__ import annotations

import subprocess
import sys

from world import ROOT, clean_environment


def test_soak() -> None:
    """Eight processes with faulty drivers, failing disks and kills share one store. None crashes, and the store
    verifies."""
    # In such a short time the processes have not yet reached their final memory size.
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "soak" / "run.py"), "--minutes", "0.05", "--seed", "1", "--growth", "64"],
        capture_output=True,
        text=True,
        timeout=240,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
