"""Some inputs for each fuzz target, the same ones in each run. `make fuzz` tries more, and large ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.targets import TARGETS

#: Of a target whose inputs cost 1.
INPUTS = 4000


@pytest.mark.parametrize("target", TARGETS)
def test_target(target: str) -> None:
    """No input of this reader takes too long, too much memory, or raises what is not documented; and what the target
    says of its results holds."""
    inputs = max(100, round(INPUTS / TARGETS[target].cost))
    command = [sys.executable, Path(__file__).with_name("run.py"), "--target", target, "--small", "--inputs"]
    done = subprocess.run([*command, str(inputs)], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0 and "0 kinds of failure" in done.stdout, done.stdout + done.stderr
