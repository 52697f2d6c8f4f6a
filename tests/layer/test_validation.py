"""What the layer hands down is valid Vulkan: the Khronos validation layer below it has nothing to say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from world import BUILD, LAYER_NAME, NULL_HARDWARE, ROOT, World

#: Modes of the demo program, cold and warm. The program alone is clean in all of them.
MODES: dict[str, list[str | int]] = {
    "mixed": ["--count", 24],
    "ray tracing": ["--count", 2, "--ray-tracing", "--feedback"],
    "deferred ray tracing": ["--count", 4, "--batch", 2, "--ray-tracing", "--deferred", 2, "--feedback"],
    "libraries": ["--count", 4, "--gpl", "--feedback"],
    "batches with feedback": ["--count", 24, "--batch", 8, "--feedback"],
    "derivatives": ["--count", 16, "--batch", 8, "--derivatives"],
    "early return": ["--count", 16, "--batch", 8, "--early-return"],
    "may not compile": ["--count", 8, "--batch", 4, "--fail-on-compile-required", "--early-return"],
    "own cache": ["--count", 16, "--cache", "object", "--threads", 2],
    "threads": ["--count", 24, "--threads", 3],
    "Vulkan 1.0": ["--count", 8, "--api", "1.0", "--feedback"],
    "Vulkan 1.2": ["--count", 8, "--api", "1.2", "--feedback"],
    "Vulkan 1.3": ["--count", 8, "--api", "1.3", "--feedback"],
    "Vulkan 1.3, features chained": ["--count", 8, "--api", "1.3", "--features13"],
    "features chained and asked for": ["--count", 8, "--api", "1.3", "--features13", "--cache-control"],
    "second instance": ["--count", 4, "--repeat-instances", 2],
}


def messages(world: World, arguments: list[str | int], tmp_path: Path, **environment: str) -> str:
    """The demo with validation below the layer; what validation said."""
    log = tmp_path / "validation.txt"
    command = [str(ROOT / "tests" / "validation" / "run.sh"), "--log", str(log), "--"]
    world.run([*command, str(BUILD / "demo" / "pipelines"), *map(str, arguments)], **environment)
    return log.read_text()


@pytest.mark.parametrize("mode", MODES)
def test_validation_has_nothing_to_say(world: World, tmp_path: Path, mode: str) -> None:
    """Cold and warm, with the cells carrier, validation reports nothing."""
    assert messages(world, MODES[mode], tmp_path) == ""
    assert messages(world, MODES[mode], tmp_path) == ""
    assert world.runs()[-1]["carrier"] == "cells"


@pytest.mark.parametrize("mode", ["mixed", "own cache", "threads"])
def test_validation_of_the_snapshot_carrier(world: World, tmp_path: Path, mode: str) -> None:
    """Cold and warm, with the snapshot carrier, validation reports nothing."""
    config = tmp_path / "policy.yaml"
    config.write_text("settings: {carrier: snapshot}\n")
    for _ in range(2):
        assert messages(world, MODES[mode], tmp_path, PYLAYER_CONFIG=str(config)) == ""
    assert world.runs()[-1]["carrier"] == "snapshot"


def test_validation_of_driver_disk_cache(world: World, tmp_path: Path) -> None:
    """Adopting what the driver's disk cache answers is valid too."""
    disk = {"MESA_SHADER_CACHE_DISABLE": "0", "MESA_SHADER_CACHE_DIR": str(tmp_path / "mesa")}
    world.demo("--count", 12, "--feedback", layers=None, **disk)
    assert messages(world, ["--count", 12, "--feedback", "--batch", 3], tmp_path, **disk) == ""
    assert world.last()["adopted"] > 0


@pytest.mark.parametrize("script", ["wgpu_compute.py", "wgpu_render.py"])
def test_validation_of_a_program(world: World, tmp_path: Path, script: str) -> None:
    """Under wgpu's programs, cold and warm, validation says nothing that it does not say without the layer."""
    log = tmp_path / "validation.txt"
    command = [str(ROOT / "tests" / "validation" / "run.sh"), "--log", str(log), "--below", NULL_HARDWARE, "--"]
    command += [sys.executable, str(ROOT / "tests" / "programs" / script)]
    said = []
    for layers in (None, LAYER_NAME, LAYER_NAME):
        world.run(command, VK_INSTANCE_LAYERS=layers)
        said.append(sorted({line for line in log.read_text().splitlines() if "VUID" in line}))
    assert said[0] == said[1] == said[2]
    first, second = (run["counters"] for run in world.runs())
    assert first["compiled"] > 0 and second["compiled"] == 0


def test_validation_is_really_there(world: World, tmp_path: Path) -> None:
    """A program that breaks a rule is reported: silence means something."""
    log = tmp_path / "validation.txt"
    command = [str(ROOT / "tests" / "validation" / "run.sh"), "--log", str(log), "--"]
    world.run([*command, str(BUILD / "tests" / "invalid")], VK_INSTANCE_LAYERS=LAYER_NAME, check=False)
    assert "VUID-" in log.read_text()
