"""Third-party programs, each run twice under the layer: the second run compiles nothing."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import radv
from world import ROOT, World, icd_file

pytestmark = pytest.mark.foreign

PROGRAMS = ROOT / "tests" / "programs"


def twice(
    world: World, command: list[str], least: int, others: int = 0, **environment: str | None
) -> list[dict[str, int]]:
    """Runs the program twice and returns the counters of both runs. Asserts that the first compiles at least ``least``
    pipelines and the second none. Nor does one on another card, for which `pylayer rebuild` has compiled what the first
    recorded, but for the ``others`` that the program creates only there."""
    first_card, new_card = ({**environment, **radv.gpu_with_queues(family)} for family in ("navi21", "navi31"))
    for _ in range(2):
        world.run(command, **first_card)
    world.pylayer("rebuild", **new_card)
    world.run(command, **new_card)
    first, second, elsewhere = (run["counters"] for run in world.runs())
    assert (elsewhere["compiled"], elsewhere["plain_compiled"]) == (others, 0) and elsewhere["hits"] > others
    assert first["compiled"] >= least and first["pipelines"] == second["pipelines"]
    assert second["compiled"] == second["uncacheable"] == second["failed"] == 0
    assert second["hits"] == second["pipelines"]
    assert first["answers_late"] == second["answers_late"] == first["events_dropped"] == 0
    return [first, second]


WGPU = [sys.executable, str(PROGRAMS / "wgpu_render.py")]


def test_wgpu(world: World) -> None:
    """wgpu, which uses no VkPipelineCache, compiles nothing in its second run."""
    _, second = twice(world, WGPU, 8)
    assert second["application_hits"] == 0


@pytest.mark.usefixtures("needs_binaries")
def test_wgpu_from_binaries(world: World) -> None:
    """With the binaries mode, wgpu's second run creates all pipelines from binaries."""
    policy = world.policy("settings: {mode: binaries}")
    first, second = twice(world, WGPU, 8, **policy)
    assert first["binaries_kept"] == first["compiled"]
    assert second["binary_hits"] == second["pipelines"]


def test_ncnn(world: World, tmp_path: Path) -> None:
    """ncnn, which uses an empty VkPipelineCache and always holds the GIL, compiles nothing in its second run."""
    drivers = tmp_path / "data" / "vulkan" / "icd.d"
    drivers.mkdir(parents=True)
    shutil.copy(icd_file("radeon"), drivers)
    twice(
        world,
        [sys.executable, str(PROGRAMS / "ncnn_inference.py")],
        30,
        12,  # it multiplies matrices otherwise where the card has cooperative matrices
        # ncnn opens the driver itself, without any layer, if one of these is set.
        VK_DRIVER_FILES=None,
        VK_ICD_FILENAMES=None,
        XDG_DATA_DIRS=str(tmp_path / "data"),
    )


def test_qt_quick(world: World, tmp_path: Path) -> None:
    """Qt Quick, which saves and loads a cache file of its own, compiles nothing in its second run, nor after its file
    is lost."""
    cache = tmp_path / "qt.cache"
    command = ["xvfb-run", "-a", sys.executable, str(PROGRAMS / "qt_quick.py"), str(cache)]
    home = {"XDG_CACHE_HOME": str(tmp_path / "qt")}
    twice(world, command, 5, **home)
    cache.unlink()
    shutil.rmtree(tmp_path / "qt")
    world.run(command, **home, **radv.gpu_with_queues("navi21"))
    assert world.last()["compiled"] == 0
    alone = cache.read_bytes()
    assert len(alone) > 10_000


def test_images(lavapipe: World) -> None:
    """Pipelines draw the same images without the layer and with a mode, cold and warm. ``make gpu`` does it with
    pipelines of every sort and all modes, on a real GPU."""
    which = ["--variants", "1", "--only", "dynamic.two-views.whole", "--ways", "no cache", "--modes", "auto"]
    command = [sys.executable, str(ROOT / "tests" / "gpu" / "gpu.py"), *which]
    done = lavapipe.run(command, VK_INSTANCE_LAYERS=None, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 absent, 0 blank" in done.stdout and done.stdout.count("as alone") == 3
