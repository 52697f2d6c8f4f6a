"""Programs with a cache file of their own. The driver gets only data that passed the check against the history; refused
data becomes an empty cache with the last good data merged in. RADV accepts altered data without an error and crashes on
some of it when a pipeline is created."""

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
    """Deletes the stored pipelines, but not the history and the copy of the program's cache."""
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
    assert len(world.stored_files(".blob")) <= 2  # a process may end before the old one is deleted


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
    """Data that is a damaged copy of what the program read becomes an empty cache with the last good data merged in."""
    forget_pipelines(world)
    file.write_bytes(change(file.read_bytes()))
    result = with_file(world, file)
    assert world.outcomes() == {"altered": 1}
    assert (result["created"], world.last()["compiled"]) == (COUNT, 0)
    assert world.runs()[-1]["restored_caches"] == 1
    assert "the program gets an empty cache, and the last good data is merged into it" in result.stderr
    with_file(world, file)
    assert world.outcomes() == {"attested": 1}


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER.keys())
def test_not_known_to_be_damaged(world: World, file: Path, change: Change) -> None:
    """Data that the program never read, and that is no damaged copy of such data, passes unchanged."""
    file.write_bytes(change(file.read_bytes()))
    with_file(world, file)
    assert world.outcomes() == {"unknown": 1}
    assert world.last()["caches_emptied"] == 0


def test_gone(world: World, file: Path) -> None:
    """A program that lost its cache file gets its pipelines back, and the file that it saves then is complete."""
    with_file(world, file)
    forget_pipelines(world)
    size = file.stat().st_size
    file.unlink()
    with_file(world, file)
    assert (world.last()["compiled"], world.runs()[-1]["restored_caches"]) == (0, 1)
    assert file.stat().st_size > size * 0.9
    forget_pipelines(world)
    with_file(world, file)
    assert (world.outcomes(), world.last()["application_hits"]) == ({"attested": 1}, COUNT)


def test_gone_and_all_is_stored(world: World, file: Path) -> None:
    """A program that lost its cache file gets stored pipelines without policy. Its last good data is restored only when
    it creates a pipeline that is not stored."""
    with_file(world, file)
    file.unlink()
    result = with_file(world, file)
    assert (world.last()["compiled"], world.runs()[-1]["restored_caches"]) == (0, 0)
    assert result["created"] == COUNT
    file.unlink()
    world.demo("--count", 2 * COUNT, "--cache", file, "--cache-save", file)
    assert (world.last()["compiled"], world.runs()[-1]["restored_caches"]) == (COUNT, 1)


def test_never_loaded(world: World, file: Path) -> None:
    """A program that saves its cache and never loads it does not count as one that lost its cache."""
    for _ in range(2):
        world.demo("--count", COUNT, "--cache", "object", "--cache-save", file)
        assert (world.runs()[-1]["restored_caches"], world.outcomes()) == (0, {})


def test_damaged_copy_is_not_restored(world: World, file: Path) -> None:
    """If the program's file and the stored copy are both damaged, the program compiles, and the log names the
    damage."""
    forget_pipelines(world)
    (blob,) = world.stored_files(".blob")
    for path in (file, blob):
        data = bytearray(path.read_bytes())
        data[2000] ^= 1
        path.write_bytes(data)
    result = with_file(world, file)
    assert (result["created"], world.last()["compiled"]) == (COUNT, COUNT)
    assert "damaged-data" in result.stderr
