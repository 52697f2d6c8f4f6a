"""What is compiled from recorded state is what the program compiles: the same bytes, which the program finds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from layer.test_state import DEMO, WAYS, recording
from world import BUILD, LAYER_NAME, ROOT, World

from pylayer.store import format
from pylayer.store.folder import read_identity
from pylayer.store.reader import parts_of

NEW_CARD = {"RADV_FORCE_FAMILY": "navi31"}
PYLAYER = [sys.executable, "-m", "pylayer"]
#: How many pipelines compile, or add to a cache, of those that cannot be recorded.
COMMANDS = {
    "ways": ([*WAYS], 3),
    "demo": ([DEMO, "--count", "40"], 0),
    "libraries": ([DEMO, "--count", "8", "--gpl"], 0),
    "ray tracing": ([DEMO, "--count", "6", "--ray-tracing"], 0),
    "rays": ([BUILD / "tests" / "rays"], 0),
    "deferred": ([BUILD / "tests" / "deferred"], 0),
}


def run(world: World, command: list[Path | str], **environment: str) -> None:
    world.run([str(part) for part in command], VK_INSTANCE_LAYERS=LAYER_NAME, **environment)


def rebuild(world: World, **environment: str) -> dict[str, Any]:
    (one,) = json.loads(world.run([*PYLAYER, "rebuild", "--json"], **environment).stdout)["rebuilds"]
    return one


def cells(world: World) -> dict[int, set[bytes]]:
    """Digests of the stored data of each fingerprint."""
    found: dict[int, set[bytes]] = {}
    for path in world.stored_files(".pack", ".closed", ".journal"):
        identity = read_identity(str(world.store), path.parent.name)
        assert identity is not None
        for part in parts_of(str(path), identity.digest, []):
            for record in part.records:
                if record.magic == format.CELL:
                    found.setdefault(record.fingerprint, set()).add(record.digest)
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_another_card(real: World, name: str) -> None:
    """Recorded on one card, compiled for another without the program: its first run there finds everything, but for
    what cannot be recorded."""
    command, left = COMMANDS[name]
    env = recording(real)
    run(real, command, **env)
    rebuild(real, **env, **NEW_CARD)
    run(real, command, **env, **NEW_CARD)
    counters = real.last()
    assert counters["compiled"] + counters["plain_compiled"] == left
    assert counters["hits"] > 0


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "deferred"])
def test_same_bytes(real: World, name: str) -> None:
    """On the card that it was recorded on, what is compiled from state is the data that the program's pipelines had
    left, byte for byte. (Pipelines of one deferred operation share a cell, and are apart when they are rebuilt.)"""
    command, left = COMMANDS[name]
    env = recording(real)
    run(real, command, **env)
    before = cells(real)
    for path in real.stored_files(".pack", ".closed", ".journal"):
        path.unlink()
    rebuild(real, **env)
    after = cells(real)
    assert {fingerprint: before[fingerprint] for fingerprint in after} == after
    assert len(before) - len(after) <= left


def test_other_shader_identifiers(real: World) -> None:
    """A driver that computes shader identifiers in another way gives pipelines other fingerprints. What is rebuilt is
    stored under those, and the program finds it. It is done again only if it is not there any more."""
    command, env = [WAYS[0], ROOT / "tests" / "recipes" / "ways" / "subgroups.recipe"], recording(real)
    run(real, command, **env, PYLAYER_SHADER_IDENTIFIERS="ignore")
    first = rebuild(real, **env, **NEW_CARD)
    assert (first["wanted"], first["rebuilt"], first["not_rebuilt"]) == (5, 5, {})
    again = rebuild(real, **env, **NEW_CARD)
    assert (again["wanted"], again["not_tried"]) == (0, {})
    run(real, command, **env, **NEW_CARD)
    assert (real.last()["hits"], real.last()["compiled"]) == (5, 0)
    for path in real.stored_files(".pack", ".closed", ".journal"):
        path.unlink()
    assert rebuild(real, **env, **NEW_CARD)["wanted"] >= 5
