"""The layer's entry points with hostile programs, drivers and policies, under sanitizers: tests/fuzz/shim/fuzz.h."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from world import ROOT

REPLAY = ROOT / "build" / "fuzz" / "shim-replay"
FAILED_ONCE = sorted((ROOT / "tests" / "fuzz" / "shim" / "corpus").iterdir())


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(REPLAY), *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("path", FAILED_ONCE, ids=lambda path: path.name)
def test_what_failed_once(path: Path) -> None:
    """An input on which the layer once failed now passes: the layer reads nothing that a program may leave undefined,
    the driver gets only valid calls, and no memory leaks."""
    done = replay(str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 files\n"


def test_programs_at_random() -> None:
    """Ten thousand programs made of random bytes, the same each time, pass too."""
    done = replay("--random", "10000")
    assert done.returncode == 0, done.stderr
