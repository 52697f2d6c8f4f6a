"""``make fleet-demo``, which runs by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_new_driver_overnight() -> None:
    """A machine that pulls compiles nothing. Nor does it with a new driver, for which the builder compiled what it had
    recorded, without the program. Nor does one on which the program runs without the layer."""
    program = Path(__file__).with_name("demo.py")
    done = subprocess.run([sys.executable, "-P", program, "--count", "20"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("0 compiled, 20 hits") == 2 and "20 of 20 pipelines" in done.stdout
    assert "0 to compile, 20 found" in done.stdout
