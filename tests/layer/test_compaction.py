"""Compacting in the program's own process. Nothing is lost if a process dies during a compaction or two processes
compact at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from disk import (
    FailingDisk,
    compact_everything,
    content_of,
    leftovers,
    loses_nothing,
    split_journals,
)
from scripted_driver import ScriptedDriver
from world import AWAKE, World

from pylayer.store import runs
from pylayer.store.maintenance import EXIT_JOURNALS


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a store with 40 pipelines in more closed journals than a program leaves uncompacted at exit."""
    world = World(tmp_path_factory.mktemp("filled"))
    world.demo("--count", 40, "--no-destroy")  # so that its cells stay in a journal
    split_journals(world, EXIT_JOURNALS + 1)
    return world.store


@pytest.fixture
def journals(world: World, filled: Path) -> Iterator[World]:
    shutil.copytree(filled, world.store)
    yield world


def run_until_compacted(world: World) -> None:
    """Runs the demo until a pack exists. At exit a program compacts only for a short time, so a slow machine takes
    several runs."""
    for _ in range(50):
        world.demo("--count", 40)
        if world.stored_files(".pack"):
            return
    raise AssertionError("nothing was compacted")


def assert_whole(world: World, before: dict[tuple[str, int], set[bytes]]) -> None:
    """Asserts that nothing is lost or damaged, that runs compile nothing, and that a compaction leaves only packs."""
    assert loses_nothing(before, content_of(world))
    world.demo("--count", 40)
    assert world.last()["compiled"] == 0
    assert compact_everything(world.store).wait(60) == 0
    assert [path.suffix for path in world.stored_files()] == [".pack"]
    assert loses_nothing(before, content_of(world))
    assert leftovers(world.store) == []
    world.demo("--count", 40)
    assert world.last()["compiled"] == world.last()["failed"] == 0


def test_short_runs_are_compacted(journals: World) -> None:
    """Short runs compact their journals at exit, so journals do not accumulate."""
    before = content_of(journals)
    run_until_compacted(journals)
    assert len(journals.stored_files(".closed", ".journal")) < EXIT_JOURNALS
    assert leftovers(journals.store) == []
    assert_whole(journals, before)


@pytest.mark.parametrize("ending", [[], ["--no-destroy"]])
def test_the_first_run_leaves_a_pack(scripted: ScriptedDriver, ending: list[str]) -> None:
    """A run that stores a mebibyte compacts it when it ends, because the runs after it have no policy that could."""
    scripted.demo("--count", 40, *ending, script="payload=40000")
    assert [path.suffix for path in scripted.world.stored_files()] == [".pack"]
    scripted.demo("--count", 40, script="payload=40000")
    assert scripted.world.last()["compiled"] == 0


@pytest.mark.parametrize("ending", [[], ["--no-destroy"]])
def test_statistics_of_short_runs_are_pruned(world: World, ending: list[str]) -> None:
    """Short runs in which policy starts delete old statistics, so their files do not accumulate."""
    world.demo("--count", 1)
    (one,) = world.store.glob("runs/*.run")
    for number in range(runs.MAX_RUNS):
        (one.parent / f"{7:016x}-{number:016x}-{number:016x}.run").symlink_to(one)
    world.demo("--count", 1, *ending, **AWAKE)
    assert len(list(one.parent.iterdir())) < runs.MAX_RUNS
    assert one.exists()


@pytest.mark.parametrize(
    "moment",
    [
        "open:KILL:path=compacting",
        "open:KILL:path=.pack",
        "write:KILL:path=.pack",
        "write:KILL:path=.pack:nth=3",
        "write:SHORT=20:path=.pack:nth=2,write:KILL:path=.pack",
        "fsync:KILL:path=.pack",
        "rename:KILL:path=.pack",
        "unlink:KILL:path=.closed",
        "unlink:KILL:path=.closed:nth=9",
        "unlink:KILL:path=compacting",
    ],
)
def test_killed_while_compacting(journals: World, moment: str) -> None:
    """If a process is killed during a compaction, no content is lost, and later processes finish the compaction."""
    before = content_of(journals)
    for _ in range(50):
        if journals.demo("--count", 40, check=False, **FailingDisk(journals, moment).environment).returncode:
            break
    else:
        raise AssertionError("the process was never killed")
    assert_whole(journals, before)
