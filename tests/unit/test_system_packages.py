""".ci/system-packages as a user calls it, with other answers of dpkg-query and apt-cache."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def named(directory: Path, installed: str, candidate: str) -> set[str]:
    """Returns the packages that it names."""
    answers = {
        "id": "echo 1000",
        "dpkg-query": f"printf '{installed}'",
        "apt-cache": f"echo '  Candidate: {candidate}'",
    }
    for name, command in answers.items():
        (directory / name).write_text(f"#!/bin/sh\n{command}\n")
        (directory / name).chmod(0o755)
    asked = subprocess.run(
        [ROOT / ".ci" / "system-packages", "demo"],
        env=os.environ | {"PATH": f"{directory}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert asked.returncode == 1
    assert asked.stderr.startswith("pylayer: packages are missing: sudo apt-get install ")
    return set(asked.stderr.split("apt-get install ")[1].split())


@pytest.mark.parametrize(
    ("installed", "candidate", "mesa"),
    [
        pytest.param(
            "", "26.0.3-1", {"mesa-vulkan-drivers", "mesa-drm-shim"}, id="one that needs its shim: both at once"
        ),
        pytest.param("", "25.0.7-2", {"mesa-vulkan-drivers"}, id="one that needs no shim"),
        pytest.param(
            "mesa-vulkan-drivers installed 26.0.3\\n", "26.0.3", {"mesa-drm-shim"}, id="only the shim is missing"
        ),
        pytest.param("mesa-vulkan-drivers installed 22.3.6\\n", "26.0.3", {"mesa-vulkan-drivers"}, id="too old"),
    ],
)
def test_mesa(tmp_path: Path, installed: str, candidate: str, mesa: set[str]) -> None:
    """A user installs what one line names, and calls make again."""
    assert {name for name in named(tmp_path, installed, candidate) if name.startswith("mesa")} == mesa
