"""What is compiled from recorded state is what the program compiles: the same bytes, which the program finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import recorded_state
from layer.test_state import DEMO, WAYS, recording
from world import BUILD, LAYER_NAME, ROOT, World

from pylayer.store import format
from pylayer.store.folder import read_identity
from pylayer.store.reader import parts_of

NEW_CARD = {"RADV_FORCE_FAMILY": "navi31"}


def way(name: str) -> list[Path]:
    return [WAYS[0], ROOT / "tests" / "recipes" / "ways" / f"{name}.recipe"]


#: What creates pipelines, as the table of docs/rebuild.md names it.
COMMANDS: dict[str, list[Path | str]] = {
    "compute and graphics, with specialization": [DEMO, "--count", "40"],
    "every other kind of specialization": [*way("constants")],
    "VkPipelineCaches of the program": [*way("caches")],
    "derivatives": [*way("derivatives")],
    "device groups, private data": [*way("device_group"), *way("private_data")[1:]],
    "creation feedback": [*way("feedback")],
    "flags in a structure, early returns": [*way("flags")],
    "shader code in the stage": [*way("inline_modules")],
    "graphics libraries and links": [DEMO, "--count", "8", "--gpl"],
    "libraries of libraries, links with own parts": [*way("libraries")],
    "subpasses, dynamic rendering, multiview, dynamic topology": [*way("rendering")],
    "tessellation, geometry, task and mesh shaders": [*way("stages")],
    "robustness": [*way("robustness")],
    "subgroup sizes": [*way("subgroups")],
    "Y'CbCr, immutable samplers, descriptor buffers, push and mutable descriptors": [BUILD / "tests" / "layouts"],
    "ray tracing": [DEMO, "--count", "6", "--ray-tracing"],
    "ray tracing libraries, captured handles": [BUILD / "tests" / "rays"],
    "deferred operations": [BUILD / "tests" / "deferred"],
    "captured statistics and representations": [*way("executables")],
    "shader objects beside pipelines": [*way("shader_objects")],
}
#: The Mesa of the table's numbers.
DOCUMENTED = "Mesa 25.0.7"
#: Pipelines that share a cell, and are apart when they are rebuilt.
TOGETHER = ("deferred operations",)


def run(world: World, command: list[Path | str], **environment: str) -> None:
    world.run([str(part) for part in command], VK_INSTANCE_LAYERS=LAYER_NAME, **environment)


def rebuild(world: World, **environment: str) -> dict[str, Any]:
    (one,) = recorded_state.rebuilds(world.pylayer("rebuild", **environment).stdout)
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
    what cannot be recorded. The table of docs/rebuild.md has these numbers."""
    env = recording(real)
    run(real, COMMANDS[name], **env)
    before = real.last()
    why = rebuild(real, **env, **NEW_CARD)["not_recorded"]
    run(real, COMMANDS[name], **env, **NEW_CARD)
    after = real.last()
    compiled = [one["compiled"] + one["plain_compiled"] for one in (before, after)]
    assert (after["hits"] > 0 or after["uncacheable"] > 0) and compiled[1] <= sum(why.values())
    reasons = [f"{count} not recorded: {reason}" for reason, count in why.items()] if compiled[1] else []
    reasons += [f"the driver keeps nothing of {after['uncacheable']}"] if after["uncacheable"] else []
    columns = f"{name} | {after['pipelines']} | {compiled[0]} | {compiled[1]} | {'; '.join(reasons)}".rstrip()
    if DOCUMENTED in real.runs()[-1]["driver_info"]:
        assert f"| {columns} |" in (ROOT / "docs" / "rebuild.md").read_text().splitlines()


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in TOGETHER])
def test_same_bytes(real: World, name: str) -> None:
    """On the card that it was recorded on, what is compiled from state is the data that the program's pipelines had
    left, byte for byte."""
    env = recording(real)
    run(real, COMMANDS[name], **env)
    before = cells(real)
    for path in real.stored_files(".pack", ".closed", ".journal"):
        path.unlink()
    why = rebuild(real, **env)["not_recorded"]
    after = cells(real)
    assert {fingerprint: before[fingerprint] for fingerprint in after} == after
    assert len(before) - len(after) <= sum(why.values())


def test_other_shader_identifiers(real: World) -> None:
    """A driver that computes shader identifiers in another way gives pipelines other fingerprints. What is rebuilt is
    stored under those, and the program finds it. It is done again only if it is not there any more."""
    command, env = COMMANDS["subgroup sizes"], recording(real)
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
