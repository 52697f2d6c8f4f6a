"""Switching the layer on and off: every way that the loader has, in every mixture, and DISABLE_PYLAYER, which overrides
them all."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from host_steps import END, HOST
from world import World

from pylayer import LAYER_NAME
from pylayer.cli.manifests import manifest_text

MANIFEST = "VkLayer_pylayer_pipeline_cache.json"

#: Ways to enable the layer: the environment, and the layers that the program names itself.
WAYS = {
    "VK_INSTANCE_LAYERS": ({"VK_INSTANCE_LAYERS": LAYER_NAME}, []),
    "VK_LOADER_LAYERS_ENABLE": ({"VK_LOADER_LAYERS_ENABLE": LAYER_NAME}, []),
    "a pattern": ({"VK_LOADER_LAYERS_ENABLE": "*_PYLAYER_pipeline*"}, []),
    "the program": ({}, [LAYER_NAME]),
    "all": ({"VK_INSTANCE_LAYERS": LAYER_NAME, "VK_LOADER_LAYERS_ENABLE": LAYER_NAME}, [LAYER_NAME]),
    "twice": ({"VK_INSTANCE_LAYERS": f"{LAYER_NAME}:{LAYER_NAME}"}, []),
}


#: Nothing here depends on the driver.
QUICK = True


@pytest.fixture
def implicit(world: World) -> World:
    """A world with the implicit layer installed beside the explicit one that every world has."""
    directory = Path(world.environment["HOME"]) / ".local" / "share" / "vulkan" / "implicit_layer.d"
    directory.mkdir(parents=True)
    (directory / MANIFEST).write_text(manifest_text("implicit"))
    del world.environment["VK_INSTANCE_LAYERS"]
    return world


def program(layers: Sequence[str] = ()) -> list[str]:
    """Returns a program that names these layers itself, and says whether a library of policy is in it at the end."""
    names = [word for layer in layers for word in ("layer", layer)]
    return [str(HOST), *names, "instance", "device", "pipelines", "1", "threads", "mapped", "_policy.", *END]


def once(world: World) -> None:
    """Asserts that the pipeline went through the layer exactly once."""
    (run,) = world.runs()
    assert run["counters"]["compiled"] == 1


@pytest.mark.parametrize("way", [*WAYS, "nothing else"])
def test_with_implicit(implicit: World, way: str) -> None:
    """With both manifests and several ways to enable it, the layer is in the chain once."""
    environment, names = WAYS.get(way, ({}, []))
    implicit.run(program(names), ENABLE_PYLAYER="1", **environment)
    once(implicit)


def test_implicit_is_off(implicit: World) -> None:
    """An implicit layer that nobody enabled is not loaded."""
    done = implicit.run(program(), PYLAYER_LOG="debug")
    assert "_policy. is not mapped" in done.stderr and "pylayer:" not in done.stderr
    assert not implicit.store.exists()


@pytest.mark.parametrize("value", ["1", "0", ""])
@pytest.mark.parametrize("way", WAYS)
def test_disabled(implicit: World, way: str, value: str) -> None:
    """With DISABLE_PYLAYER set to any value, no way to enable the layer starts an interpreter, a thread or a store. A
    program that names the layer itself does not fail."""
    environment, names = WAYS[way]
    alone = implicit.run(program())
    done = implicit.run(program(names), ENABLE_PYLAYER="1", DISABLE_PYLAYER=value, **environment)
    assert done.stdout == alone.stdout and "_policy. is not mapped" in done.stderr
    assert not implicit.store.exists()


def test_disabled_says_so(world: World) -> None:
    """With PYLAYER_LOG, the log says that DISABLE_PYLAYER is set."""
    assert "DISABLE_PYLAYER is set" in world.run(program(), DISABLE_PYLAYER="1", PYLAYER_LOG="info").stderr
    assert (
        world.run(program(), DISABLE_PYLAYER="1", PYLAYER_LOG=None).stderr
        == world.run(program(), VK_INSTANCE_LAYERS=None).stderr
    )


def test_without_manifest(world: World) -> None:
    """If no manifest leads to the layer, a program that names it gets the loader's error."""
    done = world.run([str(HOST), "layer", LAYER_NAME, "instance"], VK_INSTANCE_LAYERS=None, VK_ADD_LAYER_PATH=None)
    assert done.stdout == "instance -6\n"


def test_manifests() -> None:
    """Both manifests describe the same layer. Steam's containers read file_format_version only up to 1.2.1."""
    explicit, implicit = (json.loads(manifest_text(kind)) for kind in ("explicit", "implicit"))
    assert tuple(map(int, explicit["file_format_version"].split("."))) <= (1, 2, 1)
    assert implicit["layer"].pop("enable_environment") == {"ENABLE_PYLAYER": "1"}
    assert implicit["layer"].pop("disable_environment") == {"DISABLE_PYLAYER": "1"}
    assert implicit == explicit
    assert re.fullmatch(r"VK_LAYER_[A-Z0-9]+_[a-z0-9_]+", explicit["layer"]["name"])
