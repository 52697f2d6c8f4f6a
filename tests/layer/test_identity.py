"""A driver gets stored pipelines only under the identity under which they were compiled."""

from __future__ import annotations

import shutil

import pytest
from world import World


def identity(world: World) -> str:
    return str(world.runs()[-1]["identity"])


def compiled_and_hits(world: World) -> tuple[int, int]:
    return world.last()["compiled"], world.last()["hits"]


def test_moved_home(world: World) -> None:
    """Pipelines are found after the home directory was moved, as after a copy to another machine with the same
    driver."""
    home = world.directory / "home"
    old = {"PYLAYER_STORE": None, "HOME": str(home), "XDG_CACHE_HOME": None}
    world.demo("--count", 12, **old)
    moved = world.directory / "moved"
    shutil.move(home, moved)
    world.store = moved / ".cache" / "pylayer"
    world.demo("--count", 12, **{**old, "HOME": str(moved)})
    assert compiled_and_hits(world) == (0, 12)


@pytest.mark.parametrize("damage", [b"", bytes(400), b"format=i:1\n"], ids=["empty", "zeros", "another's"])
def test_damaged_identity_file(world: World, damage: bytes) -> None:
    """An identity file that is empty after a power cut costs nothing: everything is found, nothing is renamed, and the
    first run that starts policy writes the file anew."""
    world.demo("--count", 12)
    path = world.store / "store" / identity(world) / "identity"
    good = path.read_bytes()
    path.write_bytes(damage)
    world.demo("--count", 12)
    assert compiled_and_hits(world) == (0, 12)
    world.demo("--count", 12, PYLAYER_LOG="info")  # policy does not rest
    assert compiled_and_hits(world) == (0, 12)
    assert path.read_bytes() == good and len(list((world.store / "store").iterdir())) == 1
