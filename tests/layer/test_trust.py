"""Stores and policy files that other users could have written. The program runs, none of them is used, and one line
says why. A store that is only read gets nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import others
import pytest
from disk import CRASH, FailingDisk, fill
from others import give_away, open_to_group
from world import World, said

#: Suffixes of the files with a run's statistics, which have a directory of their own in the store.
RUNS = {".run", ".events"}


#: Nothing here depends on the driver.
QUICK = True


def warnings(world: World, **environment: str) -> list[str]:
    result = world.demo("--count", 4, **{"PYLAYER_LOG": "warn", **environment})
    assert result["created"] == 4
    return said(result.stderr)


def as_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def root(world: World) -> Path:
    return world.store


def folder(world: World) -> Path:
    return world.stored_files()[0].parent


def journal(world: World) -> Path:
    return world.stored_files()[0]


Fault = tuple[Callable[[World], Path], Callable[[Path], None], str]
#: What is changed, how, and what the line says. Nothing is stored if the directory is bad.
DIRECTORIES: dict[str, Fault] = {
    "root of a stranger": (root, give_away, "it is not used"),
    "root for a group": (root, open_to_group, "chmod go-w"),
    "root for all": (root, lambda path: path.chmod(0o1777), "chmod go-w"),
    "folder of a stranger": (folder, give_away, "it is not used"),
    "folder for a group": (folder, open_to_group, "chmod go-w"),
    "folder is a link": (folder, as_link, "Not a directory, or a link to one"),
    "store is a link": (lambda world: world.store / "store", as_link, "Not a directory, or a link to one"),
}
FILES: dict[str, Fault] = {
    "file of a stranger": (journal, give_away, "it is not used"),
    "file for a group": (journal, open_to_group, "chmod go-w"),
    "file is a link": (journal, as_link, "Too many levels of symbolic links"),
    "file is a pipe": (journal, as_pipe, "Not a regular file"),
}


@pytest.mark.parametrize("fault", DIRECTORIES)
def test_directory_of_the_store(world: World, fault: str) -> None:
    """The layer neither reads nor writes an untrusted directory of the store. One line names it and says what to do."""
    world.demo("--count", 4)
    place, change, words = DIRECTORIES[fault]
    stored = journal(world).name
    change(place(world))
    before = {path: path.stat().st_mtime_ns for path in world.store.rglob("*.*") if path.suffix not in RUNS}
    (line,) = warnings(world)
    assert words in line
    after = {path: path.stat().st_mtime_ns for path in world.store.rglob("*.*") if path.suffix not in RUNS}
    assert after == before
    disk = FailingDisk(world, f"open:EIO:path={stored}")
    world.demo("--count", 4, **disk.environment)
    assert not disk.struck


@pytest.mark.parametrize("fault", FILES)
def test_file_of_the_store(world: World, fault: str) -> None:
    """An untrusted file is neither used nor changed, and one line names it. Its pipelines are compiled and stored again
    in another file."""
    world.demo("--count", 4)
    place, change, words = FILES[fault]
    change(place(world))
    (line,) = warnings(world)
    assert words in line
    assert world.last()["hits"] == 0 and world.last()["compiled"] == 4
    warnings(world)
    assert world.last()["hits"] == 4


@pytest.mark.parametrize("what", ["directory", "file"])
def test_decision(world: World, what: str) -> None:
    """A decision that others could have written is not used: policy is asked again."""
    config = world.policy("settings: {mode: 'off'}\n")
    world.demo("--count", 4, **config)
    (plan,) = world.store.glob("plans/*.plan")
    data = plan.read_bytes()
    world.demo("--count", 4, **config)
    assert plan.read_bytes() == data
    kept = plan.stat().st_ino
    give_away(plan if what == "file" else plan.parent)
    world.demo("--count", 4, **config)
    # A plan that is used keeps its inode. A new plan is another file, if the directory may be written to.
    assert (plan.stat().st_ino == kept) is (what == "directory")
    assert [run["mode"] for run in world.runs()] == ["off"] * 3


@pytest.mark.parametrize("mask", [0o000, 0o777])
def test_modes_of_a_store(world: World, mask: int) -> None:
    """Whatever the program's umask is, directories have mode 0700 and files 0600."""
    world.configure(application_caches="report")
    with others.umask(mask):
        world.demo("--count", 4)
        world.demo("--count", 4, "--cache", "object", "--cache-save", "/dev/null")
    made = [world.store, *world.store.rglob("*")]
    assert {path.suffix for path in made} >= {".closed", ".flat", ".plan", ".run", ".attest"}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}


# ---- store: read-only ----------------------------------------------------------------------------


def read_only(world: World, **settings: Any) -> None:
    world.environment |= world.policy(json.dumps({"settings": {"store": "read-only", **settings}}))


def contents(world: World) -> dict[Path, tuple[bytes, int]]:
    """Returns the content and the modification time of every file and directory that a read-only run must not change,
    by path."""
    paths = (world.store / "store").rglob("*")
    return {path: (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns) for path in paths}


@pytest.mark.parametrize("mode", ["cells", "binaries"])
def test_store_stays_as_it_is(world: World, mode: str) -> None:
    """Stored pipelines are hits, the others are compiled in every run, and not a byte of the store changes."""
    arguments = ["--api", "1.3", "--cache", "object"]
    config = world.directory / "filling.yaml"
    config.write_text(json.dumps({"settings": {"mode": mode}}))
    world.demo("--count", 12, *arguments, PYLAYER_CONFIG=str(config))
    before = contents(world)
    assert before
    read_only(world, mode=mode)
    for _ in range(2):
        result = world.demo("--count", 24, *arguments)
        assert result["created"] == 24 and said(result.stderr, "warn", "error") == []
        counters = world.last()
        assert counters["hits"] >= 12 and counters["compiled"] == 24 - counters["hits"]
        run = world.runs()[-1]
        assert run["stored_records"] == run["lost_records"] == run["write_errors"] == 0
        assert contents(world) == before


def test_many_short_runs_compaction_nothing(world: World) -> None:
    """Journals that would otherwise be compacted, and a store beyond its limits, stay unchanged."""
    for seed in range(5):
        world.demo("--count", 8, "--seed", seed)
    config = world.policy(json.dumps({"max_store_mib": 1, "settings": {"store": "read-only"}}))
    (world.store / "store" / "ballast").write_bytes(bytes(2 << 20))
    before = contents(world)
    for _ in range(2):
        world.demo("--count", 8, **config)
        assert world.last()["hits"] == 8
    assert contents(world) == before


def test_attestations_are_used_and_not_added_to(world: World) -> None:
    """A program's cache data is compared with the existing history, and nothing is added to the history."""
    cache = world.directory / "program.cache"
    world.demo("--count", 8, "--cache", cache, "--cache-save", cache)
    good = cache.read_bytes()
    before = contents(world)
    read_only(world)
    world.demo("--count", 16, "--cache", cache, "--cache-save", cache)
    assert world.runs()[-1]["cache_outcomes"] == {"attested": 1}
    assert contents(world) == before
    world.demo("--count", 8, "--cache", cache)
    assert world.runs()[-1]["cache_outcomes"] == {"unknown": 1}, "it was read in a run that remembered nothing"
    cache.write_bytes(good)
    world.demo("--count", 8, "--cache", cache)
    assert world.runs()[-1]["cache_outcomes"] == {"attested": 1}


def test_crash_is_seen_without_a_word_in_the_store(world: World, tmp_path: Path) -> None:
    """A stored pipeline crashes the driver once. Each later run compiles that pipeline, until the runtime directory is
    emptied. The store does not change."""
    fill(world, "--count", 12)
    world.environment |= CRASH
    before = contents(world)
    read_only(world)
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    environment = {"XDG_RUNTIME_DIR": str(runtime)}
    assert world.demo("--count", 12, check=False, **environment).returncode == -signal.SIGSEGV
    for _ in range(2):
        assert world.demo("--count", 12, **environment)["created"] == 12
        assert (world.last()["compiled"], world.last()["hits"]) == (1, 11)
    assert contents(world) == before
