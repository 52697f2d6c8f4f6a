"""Programs with a cache file of their own. The driver gets only data that passed the check against the history; refused
data becomes an empty cache. RADV accepts altered data without an error and crashes on some of it when a pipeline is
created."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from world import Run, World

COUNT = 12
Change = Callable[[bytes], bytes]


@pytest.fixture
def file(world: World) -> Path:
    """Returns the program's cache file, saved by a first run."""
    world.configure()
    path = world.directory / "program.cache"
    first = with_file(world, path)
    assert first["created"] == COUNT and path.stat().st_size > 25_000
    assert world.last()["compiled"] == COUNT
    return path


def with_file(world: World, path: Path, **environment: str) -> Run:
    return world.demo("--count", COUNT, "--cache", path, "--cache-save", path, **environment)


def forget_pipelines(world: World) -> None:
    """Deletes the stored pipelines, but not the history."""
    for path in world.stored_files(".journal", ".closed", ".pack"):
        path.unlink()


def test_attested(world: World, file: Path) -> None:
    """Data that the program saved is attested, and its pipelines are hits without the store."""
    forget_pipelines(world)
    result = with_file(world, file)
    assert world.outcomes() == {"attested": 1}
    assert (world.last()["application_hits"], world.last()["compiled"]) == (COUNT, 0)
    assert result["cache_loaded_bytes"] > 25_000


def test_attested_after_many_runs(world: World, file: Path) -> None:
    """Data is attested each time although the driver writes it in another order after each load."""
    for _ in range(4):
        with_file(world, file)
        assert world.outcomes() == {"attested": 1}


DAMAGED = {
    "one bit": lambda data: data[:1000] + bytes([data[1000] ^ 4]) + data[1001:],
    "one byte short": lambda data: data[:-1],
    "half": lambda data: data[: len(data) // 2],
    "zeros": lambda data: data[:200] + bytes(len(data) - 200),
    "erased flash": lambda data: data[:5000] + b"\xff" * (len(data) - 5000),
}
#: Such data could come from a run without the layer. RADV loads fewer pipelines than the data says.
OTHER = {
    "one byte more": lambda data: data + b"\0",
    "shuffled": lambda data: data[:32] + data[32:][::-1],
}


@pytest.mark.parametrize("change", DAMAGED.values(), ids=DAMAGED.keys())
def test_altered(world: World, file: Path, change: Change) -> None:
    """Data that is a damaged copy of what the program read becomes an empty cache. The program gets its pipelines from
    the store, and the file that it saves then has them."""
    size = file.stat().st_size
    file.write_bytes(change(file.read_bytes()))
    result = with_file(world, file)
    assert world.outcomes() == {"altered": 1}
    assert (result["created"], world.last()["compiled"]) == (COUNT, 0)
    assert world.last()["caches_emptied"] == 1
    assert "); the program gets an empty cache" in result.stderr
    assert file.stat().st_size > size * 0.9
    forget_pipelines(world)
    with_file(world, file)
    assert (world.outcomes(), world.last()["application_hits"]) == ({"attested": 1}, COUNT)


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER.keys())
def test_not_known_to_be_damaged(world: World, file: Path, change: Change) -> None:
    """Data that the program never read, and that is no damaged copy of such data, passes unchanged."""
    file.write_bytes(change(file.read_bytes()))
    with_file(world, file)
    assert world.outcomes() == {"unknown": 1}
    assert world.last()["caches_emptied"] == 0


def test_gone(world: World, file: Path) -> None:
    """A program that lost its cache file gets what is stored, without policy, and the file that it saves then is
    complete. What is not stored it compiles."""
    with_file(world, file)
    size = file.stat().st_size
    file.unlink()
    with_file(world, file)
    assert (world.last()["compiled"], world.outcomes()) == (0, {})
    assert file.stat().st_size > size * 0.9
    forget_pipelines(world)
    file.unlink()
    with_file(world, file)
    assert world.last()["compiled"] == COUNT
