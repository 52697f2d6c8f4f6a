"""The first of many stored pipelines is searched for in the driver's own cache. `pylayer stats` says what that lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from world import World

#: With fewer than 512 none is searched for.
COUNT = 1100
SENTENCE = "the driver's own cache lacked"


def with_disk_cache(directory: Path) -> World:
    """A world with a disk cache of Mesa's in the directory."""
    found = World(directory)
    del found.environment["MESA_SHADER_CACHE_DISABLE"]
    found.environment["MESA_SHADER_CACHE_DIR"] = str(directory / "mesa")
    return found


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world in which a run has stored the pipelines, and Mesa's disk cache has them, too. Tests use copies of it."""
    directory = tmp_path_factory.mktemp("filled")
    (directory / "mesa").mkdir()
    found = with_disk_cache(directory)
    found.demo("--count", COUNT)
    return found


@pytest.fixture
def world(tmp_path: Path, filled: World) -> World:
    found = with_disk_cache(tmp_path)
    shutil.copytree(filled.store, found.store)
    shutil.copytree(filled.directory / "mesa", tmp_path / "mesa")
    found.demo("--count", 1)  # keeps a plan for this place, so that the layer reads the store itself
    return found


def sample(world: World, *arguments: str | Path) -> tuple[int, int]:
    """Runs the program, which compiles nothing. Returns for how many pipelines the driver's cache was searched, and how
    many it lacked."""
    world.demo("--count", COUNT, *arguments)
    last = world.last()
    assert last["compiled"] == 0 and last["hits"] == COUNT == last["pipelines"]
    return last["driver_asked"], last["driver_lacked"]


def lose_driver_cache(world: World) -> None:
    shutil.rmtree(world.directory / "mesa")
    (world.directory / "mesa").mkdir()


def stats(world: World) -> str:
    return world.pylayer("stats", COLUMNS="400").stdout


def test_driver_has_all(world: World) -> None:
    """A run asks once. As long as the driver's cache has what the store has, nothing is said."""
    assert sample(world) == (1, 0)
    assert sample(world, "--threads", "4") == (1, 0)
    assert SENTENCE not in stats(world)


def test_driver_lost_all(world: World) -> None:
    """When the driver's cache was deleted, `pylayer stats` says so, and how long compiling would have taken."""
    lose_driver_cache(world)
    assert sample(world) == (1, 1)
    assert f"{SENTENCE} 1 of 1 stored pipelines" in stats(world)


def test_it_waits_for_no_thread_of_the_driver(world: World) -> None:
    """The driver is asked before it gets anything from the store: it may put that into its own cache."""
    world.demo("--count", 1)
    assert (world.last()["hits"], world.last()["driver_asked"]) == (1, 1)


def test_own_cache_is_not_compared(world: World) -> None:
    """A program with a cache of its own has its pipelines there, so the driver's is not searched."""
    lose_driver_cache(world)
    assert sample(world, "--cache", "object") == (0, 0)


def test_replaced_driver_cache_is_not_compared(world: World) -> None:
    """With driver_cache: replace the driver's cache is off, so it lost nothing."""
    world.configure(driver_cache="replace")
    lose_driver_cache(world)
    sample(world, "--api", "1.3")
    assert sample(world, "--api", "1.3") == (0, 0)


def test_cache_that_is_off_lost_nothing(world: World) -> None:
    """If a variable switches the driver's cache off, that is not searched."""
    world.environment["MESA_SHADER_CACHE_DISABLE"] = "1"
    assert sample(world) == (0, 0)


def test_program_sees_the_same(world: World) -> None:
    """A program that reads creation feedback does not see that the driver's cache was searched."""
    alone = world.demo("--count", COUNT, "--feedback", layers=None)
    under = world.demo("--count", COUNT, "--feedback")
    assert world.last()["driver_asked"] > 0 == world.last()["driver_lacked"]
    assert under["feedback"] == alone["feedback"]
