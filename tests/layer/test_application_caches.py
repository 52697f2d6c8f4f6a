"""Initial data of vkCreatePipelineCache: data that is not from this driver becomes an empty cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipes.small import ZERO_LENGTH
from world import World

#: Nothing here depends on the driver.
QUICK = True


@pytest.fixture
def saved(world: World, tmp_path: Path) -> Path:
    """Returns a cache file that this driver wrote for 20 pipelines, without the layer."""
    path = tmp_path / "application.cache"
    world.demo("--count", 20, "--cache", "object", "--cache-save", path, layers=None)
    return path


def test_header_only(world: World, saved: Path) -> None:
    """A header without entries passes, because it is what an empty cache returns."""
    saved.write_bytes(saved.read_bytes()[:32])
    result = world.demo("--count", 4, "--cache", saved)
    assert result["created"] == 4 and world.last()["caches_emptied"] == 0


def test_refused_cache_is_filled_again(world: World, saved: Path, tmp_path: Path) -> None:
    """After its data was refused, the application's cache holds all pipelines when it is saved."""
    saved.write_bytes(saved.read_bytes()[:16] + bytes(16) + saved.read_bytes()[32:])  # another UUID
    repaired = tmp_path / "repaired.cache"
    world.demo("--count", 20, "--cache", saved, "--cache-save", repaired)
    alone = world.demo("--count", 20, "--cache", repaired, "--feedback", layers=None)
    assert alone["feedback"]["application_cache_hit"] == 20


def test_zero_length_with_a_pointer(world: World) -> None:
    """A pointer with a length of zero becomes an empty cache."""
    process = world.recipe(ZERO_LENGTH)
    assert "created result=0" in process.stdout and "zero-length; the program gets an empty cache" in process.stderr
