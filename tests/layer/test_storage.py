"""Disks that are full, broken, read-only or gone. The program notices nothing, and pipelines stored earlier remain.

An LD_PRELOAD library (tests/storage) makes file operations below the store fail in the program's process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from disk import FailingDisk, compact_everything, content_of, fill, leftovers, loses_nothing
from world import BUILD, LAYER_NAME, Run, World, repeated, said, seen

from pylayer.common import owner
from pylayer.store.maintenance import EXIT_JOURNALS

#: How the warnings begin and end.
NOT_STORED_LINE = ("pipelines cannot be stored in", "the program goes on, and storing is tried again")
NOT_READ_LINE = ("not used:", "; what it holds is compiled again")
#: Faults under which this run stores no pipelines, or not all, and the text of the only warning.
NOT_STORED = {
    "write:ENOSPC": "No space left on device",
    "write:ENOSPC:after=5000": "No space left on device",
    "write:ENOSPC:after=5000,truncate:EIO": "No space left on device",
    "write:EIO:path=.journal:nth=3": "Input/output error",
    "write:EDQUOT": "Disk quota exceeded",
    "change:EROFS": "Read-only file system",
    "change:EACCES": "Permission denied",
    "open:EMFILE:path=.journal": "Too many open files",
    "rename:EIO": "Input/output error",
    "rename:EIO:path=.journal": "Input/output error",
    "stat:EIO:path=.journal": "Input/output error",
}
#: Faults under which every pipeline is still stored, and the warning, or None if there is none.
STORED = {
    "write:SHORT=100": None,
    "read:SHORT=1000": None,
    "rename:EIO:path=.run": "statistics cannot be written: Input/output error",
    "write:ENOSPC:path=.run": "statistics cannot be written: No space left on device",
    "change:EROFS:path=plans": None,
    "read:EIO:path=plans": None,
    "unlink:EIO": None,
    # A clock that jumps back while the program runs.
    "clock:BACK=864000:from=20": None,
    "clock:BACK=864000:from=60": None,
    "clock:BACK=3:from=30": None,
}
#: Faults that keep the store from being read, so that everything in it is compiled again, and the warning.
NOT_READ = {
    "read:EIO:path=.closed": "unreadable: the file could not be read (Input/output error)",
    "read:EIO:path=.pack": "unreadable: the file could not be read (Input/output error)",
    # Once the layer has seen which records there are.
    "read:EIO:path=.pack:from=6": "unreadable: the file could not be read (Input/output error)",
    "read:ESTALE:path=.closed": "unreadable: the file could not be read (Stale file handle)",
    "open:EMFILE:path=.closed": "unreadable: the file could not be read (Too many open files)",
    "stat:EIO": "unreadable: the file could not be read (Input/output error: ",
    "open:EMFILE": "unreadable: the file could not be read (Too many open files: ",
}


Check = Callable[..., Run]


#: What the disk does to the store does not depend on the driver.
QUICK = True


@pytest.fixture(scope="module")
def alone() -> dict[tuple[str, ...], Run]:
    """Caches the results of runs without the layer, which do not depend on the disk."""
    return {}


@pytest.fixture
def unnoticed(world: World, alone: dict[tuple[str, ...], Run]) -> Check:
    """Returns a function that runs the demo on a failing disk and asserts that the program sees what it sees without
    the layer."""

    def run(rules: str, *arguments: str | int, **environment: Any) -> Run:
        disk = FailingDisk(world, rules)
        result = world.demo(*arguments, **{"PYLAYER_LOG": "warn"} | disk.environment | environment)
        options = tuple(str(argument) for argument in arguments if not str(argument).startswith("/"))
        if options not in alone:
            alone[options] = world.demo(*arguments, layers=None)
        assert seen(result) == seen(alone[options])
        result["struck"] = disk.struck
        return result

    return run


STORED_BEFORE = ("--count", 20, "--seed", 9)


def assert_works(world: World, before: Any) -> None:
    """Asserts that after the fault nothing of earlier runs is lost, no useless files remain, and runs work normally."""
    assert loses_nothing(before, content_of(world))
    assert leftovers(world.store) == []
    result = world.demo("--count", 20, "--seed", 9, PYLAYER_LOG="warn")
    assert world.last()["compiled"] == 0
    assert said(result.stderr) == []
    world.demo("--count", 20)
    result = world.demo("--count", 20, PYLAYER_LOG="warn")
    assert world.last()["compiled"] == 0 and world.last()["hits"] == 20
    assert said(result.stderr) == []
    assert compact_everything(world.store).wait(60) == 0
    assert loses_nothing(before, content_of(world)) and leftovers(world.store) == []


@pytest.mark.parametrize("rules", [*NOT_STORED, *NOT_READ])
def test_store_cannot_be_used(world: World, unnoticed: Check, rules: str) -> None:
    """If the disk accepts no more data, only new pipelines are lost. An unreadable store is not used, nothing is
    deleted, and the next run reads it. One warning says so, however many files there are."""
    reads = rules in NOT_READ
    fill(world, *STORED_BEFORE, journals=6 if reads else 1, packed=".pack" in rules)
    before = content_of(world)
    result = unnoticed(rules, *(STORED_BEFORE if reads else ("--count", 20)))
    assert result["struck"]
    (line,) = said(result.stderr)
    begin, end = NOT_READ_LINE if reads else NOT_STORED_LINE
    assert line.startswith(f"pylayer: warn: {begin} {world.store}") and line.endswith(end)
    assert {**NOT_STORED, **NOT_READ}[rules] in line
    assert_works(world, before)


@pytest.mark.parametrize("rules", ["rename:EIO:path=.run", "write:ENOSPC:path=.run"])
def test_statistics_cannot_be_written(world: World, rules: str) -> None:
    """If statistics cannot be written, one warning says so while the program goes on."""
    steps = ("instance", "device", "pipelines", "20", "sleep", "30000", "end", "kill")
    faults = FailingDisk(world, rules).environment
    environment = world.environment | {"PYLAYER_LOG": "warn", "VK_INSTANCE_LAYERS": LAYER_NAME} | faults
    command = [str(BUILD / "tests" / "host"), *steps]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        line = next((line for line in program.stderr if line.startswith("pylayer: ")), "")
        assert STORED[rules] and program.poll() is None and STORED[rules] in line
        program.kill()
        assert [line for line in program.stderr if line.startswith("pylayer: ")] == []


@pytest.mark.parametrize("rules", ["write:ENOSPC", "change:EROFS", "open:EMFILE", "mkdir:ENOSPC", "rename:EIO"])
def test_store_cannot_be_begun(world: World, unnoticed: Check, rules: str) -> None:
    """If a new store cannot be created, one warning says so, and the attempt leaves no files."""
    result = unnoticed(rules, "--count", 20)
    assert result["struck"]
    (line,) = said(result.stderr)
    assert line.startswith(f"pylayer: warn: {NOT_STORED_LINE[0]} {world.store}")
    assert not world.store.exists() or not [path for path in world.store.rglob("*") if path.is_file()]
    fill(world, *STORED_BEFORE)
    assert_works(world, content_of(world))


@pytest.mark.parametrize("rules", STORED)
def test_disk_with_flaws(world: World, unnoticed: Check, rules: str) -> None:
    """A fault that affects no pipeline file keeps no pipeline from being stored. A warning names lost statistics."""
    fill(world, *STORED_BEFORE)
    before = content_of(world)
    result = unnoticed(rules, "--count", 20)
    wanted = STORED[rules]
    assert said(result.stderr) == ([f"pylayer: warn: {wanted}"] if wanted else [])
    world.demo("--count", 20)
    assert world.last()["compiled"] == 0
    assert_works(world, before)


def test_everything_stored_on_a_read_only_disk(world: World, unnoticed: Check) -> None:
    """A store on a read-only disk still gives hits. One warning says that statistics cannot be written."""
    fill(world, *STORED_BEFORE)
    world.demo("--count", 20, "--seed", 9)  # writes down which pipelines are in use
    before = content_of(world)
    result = unnoticed("change:EROFS", "--count", 20, "--seed", 9, PYLAYER_LOG="info")
    assert "20 stored records" in result.stderr
    lines = [line for line in said(result.stderr) if "warn" in line]
    assert lines == ["pylayer: warn: statistics cannot be written: Read-only file system"]
    assert_works(world, before)


@pytest.mark.parametrize(
    "rules",
    [
        "open:ENOSPC:path=compacting",
        "write:ENOSPC:path=.pack",
        "write:ENOSPC:path=.pack:nth=3",
        "fsync:EIO:path=.pack",
        "rename:EIO:path=.pack",
        "unlink:EIO:path=.closed",
        "read:EIO:path=.closed:nth=60",
        "open:EMFILE:path=.closed:from=30",
        "mkdir:ENOSPC",
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
def test_compaction_fails(world: World, unnoticed: Check, rules: str) -> None:
    """If a compaction fails, or its process is killed, the files it was to compact remain, and the next compaction
    works."""
    fill(world, *STORED_BEFORE, journals=20)
    before = content_of(world)
    if "KILL" in rules:
        kills = FailingDisk(world, rules).environment
        repeated(lambda: world.demo(*STORED_BEFORE, check=False, **kills).returncode)
        assert loses_nothing(before, content_of(world))
        assert compact_everything(world.store).wait(60) == 0
    else:
        unnoticed(rules, *STORED_BEFORE)
    assert_works(world, before)
    assert [path.suffix for path in world.stored_files()] == [".pack"]


def test_short_runs_are_compacted(world: World) -> None:
    """Short runs compact their journals at exit, so journals do not accumulate."""
    fill(world, *STORED_BEFORE, journals=EXIT_JOURNALS + 1)
    before = content_of(world)
    repeated(lambda: world.demo(*STORED_BEFORE) and world.stored_files(".pack"))
    assert len(world.stored_files(".closed", ".journal")) < EXIT_JOURNALS
    assert_works(world, before)


# ---- The directory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["write:STOP:path=.journal:nth=2", "write:STOP:path=.journal:nth=4"])
def test_store_is_deleted_while_in_use(world: World, moment: str) -> None:
    """If somebody deletes the store, what is compiled after that is stored again, and no line is logged."""
    # Batches, so that there is more than one write however slow the machine is.
    command = [str(BUILD / "demo" / "pipelines"), "--count", "40"]
    environment = world.environment | FailingDisk(world, moment).environment
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        shutil.rmtree(world.store)
        process.send_signal(signal.SIGCONT)
        assert said(process.communicate()[1]) == [] and process.returncode == 0
    assert sum(map(len, content_of(world).values())) > 0
    world.demo("--count", 40)
    assert world.last()["compiled"] < 40
    world.demo("--count", 40)
    assert world.last()["compiled"] == 0
    assert leftovers(world.store) == []


@pytest.mark.parametrize("below", ["", "store", "runs", "plans"])
def test_file_in_the_place_of_a_directory(world: World, unnoticed: Check, below: str) -> None:
    """The layer does not touch a file where a directory should be. One warning says what is lost, if anything is."""
    path = world.store / below if below else world.store
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text("mine")
    result = unnoticed("dup:EMFILE", "--count", 20)
    lines = said(result.stderr)
    assert len(lines) == (below != "plans"), lines
    assert all(str(path) in line or "statistics" in line for line in lines)
    assert path.read_text() == "mine"


# ---- Application caches ------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", ["write:ENOSPC", "read:EIO", "change:EROFS", "open:EMFILE", "write:SHORT=100"])
def test_own_cache_on_a_failing_disk(world: World, unnoticed: Check, tmp_path: Path, rules: str) -> None:
    """A program with a cache file of its own gets its whole cache despite the fault, and nothing is compiled after
    it."""
    saved = tmp_path / "own.cache"
    world.demo("--count", 20, "--cache", saved, "--cache-save", saved)
    size = saved.stat().st_size
    result = unnoticed(rules, "--count", 20, "--cache", saved)
    assert result["cache_loaded_bytes"] == size
    assert len(said(result.stderr)) == (rules != "write:SHORT=100")
    world.demo("--count", 20, "--cache", saved)
    assert world.last()["compiled"] == 0
    assert leftovers(world.store) == []


@pytest.mark.parametrize("kind", [".closed", ".attest"])
def test_killed_at_the_first_byte(world: World, tmp_path: Path, kind: str) -> None:
    """If a program that starts no interpreter is killed before the first byte of a new file, no file has that name: an
    empty one would be damage."""
    saved = ["--cache", "object", "--cache-save", tmp_path / "own.cache"] if kind == ".attest" else []
    before = FailingDisk(world, "clock:BACK=200000")  # uses are noted again after a day
    world.demo("--count", 10, *saved, **before.environment)
    disk = FailingDisk(world, f"write:KILL:path={kind}")
    world.demo("--count", 5, *saved, check=False, **disk.environment)
    assert len(disk.struck) == 1
    assert [path for path in world.stored_files(kind) if path.stat().st_size == 0] == []
    (left,) = world.store.glob("store/*/*.tmp")
    assert owner.maker_has_ended(left.stem.rpartition(".")[2], owner.FOREIGN_SECONDS + 1)  # maintenance deletes it
    assert said(world.demo("--count", 5).stderr) == []
