"""Short runs of tests/stress. `make stress` runs it for longer."""

from __future__ import annotations

import subprocess
import sys

import pytest
from world import ROOT, clean_environment

STRESS = ROOT / "tests" / "stress"


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("kill.py", ["--kills", "5", "--seed", "1", "--runs", "1"]),
        ("many.py", ["--records", "40", "--processes", "4", "--pipelines", "6"]),
    ],
)
def test_stress(script: str, options: list[str]) -> None:
    """Killed processes, and many processes at once, lose nothing that was stored."""
    done = subprocess.run(
        [sys.executable, str(STRESS / script), *options],
        capture_output=True,
        text=True,
        timeout=240,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
