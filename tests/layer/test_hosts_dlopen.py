"""Programs that use Vulkan while they load or unload a library. glibc then holds a lock that policy needs to open its
own libraries, so nobody may wait for policy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from host_steps import END, HOST, run_host, waits
from world import BUILD, World

from pylayer.common import file_kinds

LIBRARY = str(BUILD / "tests" / "libconstructor.so")
USE = ("instance", "device", "pipelines", "4")
WAYS: dict[str, tuple[str, ...]] = {
    "constructor": ("dlopen", LIBRARY, *USE, *END, "opened"),
    "exit with the device": ("dlopen", LIBRARY, *USE, "opened"),
    "pipelines afterwards": ("dlopen", LIBRARY, "instance", "device", "opened", "pipelines", "4", *END),
    "fork": ("dlopen", LIBRARY, *USE, "fork", "join", *END, "opened"),
    # vkCreateDevice of the Vulkan loader itself waits for another thread's dlopen.
    "another thread's": ("instance", "device", "dlopen-beside", LIBRARY, "pipelines", "4", END[0], "opened", END[1]),
    "destructor": ("dlopen", LIBRARY, "opened", "dlclose", *USE, *END, "closed"),
}

#: Nothing here depends on the driver.
QUICK = True


@pytest.mark.parametrize("way", WAYS)
def test_inside_of_dlopen(world: World, way: str) -> None:
    """The third run at the latest finds all pipelines, and no run waits for policy's answers. After the first there is
    a folder, so the second opens the store by itself."""
    run_host(world, *WAYS[way])
    assert list(world.store.glob("store/*"))
    run_host(world, *WAYS[way])
    run_host(world, *WAYS[way])
    assert (world.last()["hits"], world.last()["compiled"]) == (4, 0)


@pytest.mark.parametrize("way", WAYS)
def test_no_long_wait(world: World, way: str) -> None:
    """Neither first runs nor later ones wait for a plan."""
    assert not waits(world, WAYS[way], lambda: shutil.rmtree(world.store, ignore_errors=True))
    assert not waits(world, WAYS[way])


def test_records_that_only_policy_reads(world: World) -> None:
    """Pipeline creation inside of dlopen does not wait for a load that cannot begin."""
    config = world.policy("settings: {mode: binaries}\n")
    for _ in range(2):
        world.run([str(HOST), *WAYS["constructor"]], **config)
    assert not waits(world, WAYS["constructor"], **config)


def test_unknown_cache_data(world: World, tmp_path: Path) -> None:
    """vkCreatePipelineCache inside of dlopen does not wait for policy's verdict on unknown data: it passes."""
    file = str(tmp_path / "cache")
    world.run([str(HOST), "instance", "device", "load-cache", file, "pipelines", "4", "save-cache", file, *END])
    inside = ("dlopen", LIBRARY, "instance", "device", "load-cache", file, "pipelines", "4", *END, "opened")
    for _ in range(2):
        world.run([str(HOST), *inside])

    def forget() -> None:
        for history in world.stored_files(file_kinds.ATTEST):
            history.unlink()

    assert not waits(world, inside, forget)
