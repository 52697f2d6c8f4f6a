"""What is compiled from recorded state is what the program compiles: the same bytes, which the program finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import recorded_state
from layer.test_state import DEMO, WAYS, recording
from recipes.identifiers import recipe
from world import BUILD, LAYER_NAME, ROOT, World

NEW_CARD = {"RADV_FORCE_FAMILY": "navi31"}


def way(name: str) -> list[Path]:
    return [WAYS[0], ROOT / "tests" / "recipes" / "ways" / f"{name}.recipe"]


#: What creates pipelines.
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


def run(world: World, command: list[Path | str], **environment: str) -> None:
    world.run([str(part) for part in command], VK_INSTANCE_LAYERS=LAYER_NAME, **environment)


def rebuild(world: World, **environment: str) -> dict[str, Any]:
    (one,) = recorded_state.rebuilds(world.pylayer("rebuild", **environment).stdout)
    return one


@pytest.mark.parametrize("name", COMMANDS)
def test_another_card(real: World, name: str) -> None:
    """Recorded on one card, compiled for another without the program: its first run there finds everything, but for
    what cannot be recorded."""
    env = recording(real)
    run(real, COMMANDS[name], **env)
    why = rebuild(real, **env, **NEW_CARD)["not_recorded"]
    run(real, COMMANDS[name], **env, **NEW_CARD)
    after = real.last()
    compiled = after["compiled"] + after["plain_compiled"]
    assert (after["hits"] > 0 or after["uncacheable"] > 0) and compiled <= sum(why.values())


@pytest.mark.parametrize("wish", ["", "ignore"])
def test_identifiers(real: World, wish: str) -> None:
    """A device enables VK_EXT_shader_module_identifier. The rebuild knows shaders as the recording does: by their
    identifiers, or by their code, such as in the recordings that fossilize-replay leaves."""
    file = real.directory / "record.recipe"
    file.write_text(recipe("record", real.directory / "identifiers"))
    env = {**recording(real), "PYLAYER_SHADER_IDENTIFIERS": wish}
    run(real, [WAYS[0], file], **env)
    rebuild(real, **{**env, **NEW_CARD, "PYLAYER_SHADER_IDENTIFIERS": ""})
    run(real, [WAYS[0], file], **env, **NEW_CARD)
    after = real.last()
    assert (after["hits"] > 0, after["compiled"]) == (True, 0)
