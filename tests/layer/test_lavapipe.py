"""Lavapipe: a driver whose VkPipelineCache keeps nothing, and that renders. Everything passes through.

tests/layer/test_paths.py has it on every path of pipeline creation, tests/layer/test_programs.py in front of a picture.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from world import World

#: The demo program's ways that tests/paths has not.
MODES: dict[str, list[str | int]] = {
    "mixed": ["--count", 12],
    "batches": ["--count", 24, "--batch", 12],
    "ray tracing": ["--count", 2, "--ray-tracing", "--feedback"],
    "deferred ray tracing": ["--count", 4, "--batch", 2, "--ray-tracing", "--deferred", 2, "--feedback"],
    "libraries": ["--count", 2, "--gpl"],
    "threads": ["--count", 12, "--threads", 3],
    "derivatives": ["--count", 8, "--batch", 4, "--derivatives"],
    "may not compile": ["--count", 4, "--fail-on-compile-required", "--early-return"],
    "own cache": ["--count", 8, "--cache", "object"],
    "Vulkan 1.0": ["--count", 4, "--api", "1.0"],
    "second instance": ["--count", 4, "--repeat-instances", 2],
    "fork": ["--count", 4, "--fork=create"],
}
SAME = ("driver", "device", "pipelines", "created", "failed", "null_handles", "compile_required", "calls", "results")


#: Policy knows Lavapipe by its driver id, in every run before the first pipeline. The second run takes the plan that
#: the first one kept.
TWICE = ("mixed", "deferred ray tracing", "own cache")


@pytest.mark.parametrize("mode", MODES)
def test_same_results(lavapipe: World, mode: str) -> None:
    """Results and feedback are those without the layer, in the first run and in the next; nothing is stored."""
    alone = lavapipe.demo(*MODES[mode], layers=None)
    for _ in range(2 if mode in TWICE else 1):
        layered = lavapipe.demo(*MODES[mode])
        assert {key: layered[key] for key in (*SAME, "feedback")} == {key: alone[key] for key in (*SAME, "feedback")}
        assert lavapipe.runs()[-1]["carrier"] == "off"
    assert lavapipe.stored_files() == []


def test_own_cache_file(lavapipe: World, tmp_path: Path) -> None:
    """What the program reads of its caches and loads again is the driver's own data, and is still checked."""
    file = tmp_path / "application.cache"
    arguments = ["--count", 4, "--cache", file, "--cache-save", file]
    lavapipe.demo(*arguments, layers=None)
    alone = file.read_bytes()
    lavapipe.demo(*arguments)
    assert file.read_bytes() == alone and lavapipe.last()["caches_emptied"] == 0
    file.write_bytes(alone[:8] + b"\0" * 4 + alone[12:])  # vendorID
    result = lavapipe.demo(*arguments)
    assert "wrong-vendor; the program gets an empty cache" in result.stderr
    assert file.read_bytes() == alone and lavapipe.last()["caches_emptied"] == 1
