"""A policy that gives no verdict on a program's cache data in time."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from pipeline_binaries import BOTH
from world import BUILD, World

#: Never answers.
HANGS = """
import time
from pylayer.policy import Policy

class Hangs(Policy):
    def plan_device(self, program, facts, settings):
        open({asked!r}, "w").close()
        return super().plan_device(program, facts, settings)

    def admit_cache(self, data, facts, settings):
        time.sleep(3600)
"""


PROGRAM = str(BUILD / "tests" / "corruption")
INPUTS = 3


@pytest.mark.parametrize("kind", ["one bit", "random payloads", "intact"])
def test_data_with_a_history_needs_a_verdict(world: World, tmp_path: Path, kind: str) -> None:
    """Where the program's data is known and no verdict comes, it gets an empty cache, and its pipelines from the
    store."""
    witness = {
        "VK_INSTANCE_LAYERS": BOTH,
        "PYLAYER_TEST_FAULTS": "witness-caches",
        "PYLAYER_TEST_FAULTS_BINARIES": str(tmp_path / "given-out"),
        "PYLAYER_TEST_FAULTS_LOG": str(tmp_path / "witness"),
    }
    world.run([PROGRAM, "prepare", str(tmp_path)], **witness)
    policies = tmp_path / "policies"
    policies.mkdir(0o700)
    (policies / "hangs.py").write_text(HANGS.format(asked=str(tmp_path / "asked")))
    (policies / "hangs.py").chmod(0o600)
    config = tmp_path / "hangs.yaml"
    config.write_text(
        f"policy: hangs:Hangs\npolicy_path: {policies}\nsettings: {{answer_wait_ms: 20, load_wait_ms: 60000}}\n"
    )
    world.demo("--count", 1, PYLAYER_CONFIG=str(config))  # the policy file is compiled: the next plan comes soon
    assert (tmp_path / "asked").exists()
    arguments = [str(tmp_path), kind, "0", str(INPUTS), "1", str(tmp_path / "status")]
    world.run([PROGRAM, "caches", *arguments], **witness, PYLAYER_CONFIG=str(config))
    _, inputs, created, _, _, _, _, reached = struct.unpack("<8Q", (tmp_path / "status").read_bytes())
    assert (inputs, created, reached) == (INPUTS, INPUTS, 0)
