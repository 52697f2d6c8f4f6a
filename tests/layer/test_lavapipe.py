"""Lavapipe: a driver that renders and whose VkPipelineCache keeps nothing. The layer passes every call.

tests/layer/test_recipes.py tests it on every path of pipeline creation, tests/layer/test_programs.py with a picture.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from programs.modes import modes
from world import ROOT, World, seen

#: The demo program's modes that tests/recipes lacks.
MODES = modes(
    only=(
        "mixed",
        "batches",
        "ray tracing",
        "deferred ray tracing",
        "libraries",
        "threads",
        "derivatives",
        "may not compile",
        "own cache",
        "Vulkan 1.0",
        "second instance",
        "fork, child creates",
    )
)


#: Modes that run twice. Policy recognizes Lavapipe by its driver id, in every run before the first pipeline. The second
#: run uses the plan that the first one kept.
TWICE = ("mixed", "deferred ray tracing", "own cache")


@pytest.mark.parametrize("mode", MODES)
def test_same_results(lavapipe: World, mode: str) -> None:
    """Results and feedback are the same as without the layer, in the first run and in the next, and nothing is
    stored."""
    alone = lavapipe.demo(*MODES[mode], layers=None)
    for _ in range(2 if mode in TWICE else 1):
        layered = lavapipe.demo(*MODES[mode])
        assert seen(layered) == seen(alone) and layered["feedback"] == alone["feedback"]
        assert lavapipe.runs()[-1]["carrier"] == "off"
    assert lavapipe.stored_files() == []


def test_own_cache_file(lavapipe: World, tmp_path: Path) -> None:
    """The program reads the driver's own cache data, and the layer still checks the data that it loads."""
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


def test_images(lavapipe: World) -> None:
    """Pipelines draw the same images without the layer and with a carrier, cold and warm. ``make gpu`` does it with
    pipelines of every sort and all carriers, on a real GPU."""
    which = ["--variants", "1", "--only", "dynamic.two-views.whole", "--ways", "no cache", "--carriers", "auto"]
    command = [sys.executable, str(ROOT / "tests" / "gpu" / "gpu.py"), *which]
    done = lavapipe.run(command, VK_INSTANCE_LAYERS=None, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 absent, 0 blank" in done.stdout and done.stdout.count("as alone") == 3
