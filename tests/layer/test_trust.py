"""Stores and policy files that other users could have written. The program runs, none of them is used, and one line
says why."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from world import World

STRANGER = 12345
#: Suffixes of the files with a run's statistics, which have a directory of their own in the store.
RUNS = {".run", ".events"}


#: Nothing here depends on the driver.
QUICK = True


def warnings(world: World, **environment: str) -> list[str]:
    result = world.demo("--count", 4, **{"PYLAYER_LOG": "warn", **environment})
    assert result["created"] == 4
    return [line for line in result.stderr.splitlines() if line.startswith("pylayer: ")]


def own(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, STRANGER, -1)
    else:  # only root can give a file away; write permission for others is checked at the same place
        path.chmod(0o777 if path.is_dir() else 0o666)


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
    "root of a stranger": (root, own, "it is not used"),
    "root for a group": (root, lambda path: path.chmod(0o770), "chmod go-w"),
    "root for all": (root, lambda path: path.chmod(0o1777), "chmod go-w"),
    "folder of a stranger": (folder, own, "it is not used"),
    "folder for a group": (folder, lambda path: path.chmod(0o770), "chmod go-w"),
    "folder is a link": (folder, as_link, "Not a directory, or a link to one"),
    "store is a link": (lambda world: world.store / "store", as_link, "Not a directory, or a link to one"),
}
FILES: dict[str, Fault] = {
    "file of a stranger": (journal, own, "it is not used"),
    "file for a group": (journal, lambda path: path.chmod(0o620), "chmod go-w"),
    "file is a link": (journal, as_link, "Too many levels of symbolic links"),
    "file is a pipe": (journal, as_pipe, "Not a regular file"),
}


@pytest.mark.parametrize("fault", DIRECTORIES)
def test_directory_of_the_store(world: World, fault: str) -> None:
    """The layer neither reads nor writes an untrusted directory of the store. One line names it and says what to do."""
    world.demo("--count", 4)
    place, change, words = DIRECTORIES[fault]
    change(place(world))
    before = {path: path.stat().st_mtime_ns for path in world.store.rglob("*.*") if path.suffix not in RUNS}
    (line,) = warnings(world)
    assert words in line
    after = {path: path.stat().st_mtime_ns for path in world.store.rglob("*.*") if path.suffix not in RUNS}
    assert after == before


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
def test_kept_plan(world: World, what: str) -> None:
    """A kept plan that others could have written is not used: policy is asked again."""
    config = world.directory / "policy.yaml"
    config.write_text("settings: {carrier: 'off'}\n")
    world.demo("--count", 4, PYLAYER_CONFIG=str(config))
    (plan,) = world.store.glob("plans/*.plan")
    data = plan.read_bytes()
    world.demo("--count", 4, PYLAYER_CONFIG=str(config))
    assert plan.read_bytes() == data
    kept = plan.stat().st_ino
    own(plan if what == "file" else plan.parent)
    world.demo("--count", 4, PYLAYER_CONFIG=str(config))
    # A plan that is used keeps its inode. A new plan is another file, if the directory may be written to.
    assert (plan.stat().st_ino == kept) is (what == "directory")
    assert [run["carrier"] for run in world.runs()] == ["off"] * 3


POLICY = (
    "from pylayer.policy import Policy\nclass Mine(Policy):\n    def plan_device(self, *a):\n        raise SystemExit\n"
)


@pytest.mark.parametrize("what", ["directory", "module", "policy file", "policy file's directory"])
def test_policy(world: World, what: str) -> None:
    """A policy class or policy file that others could have written is not used, and the built-in policy decides."""
    place = world.directory / "policy"
    place.mkdir()
    (place / "mine.py").write_text(POLICY)
    config = world.directory / "config" / "policy.yaml"
    config.parent.mkdir()
    config.write_text(f"policy: mine:Mine\npolicy_path: {place}\n")
    paths = {"directory": place, "module": place / "mine.py", "policy file": config}
    paths.get(what, config.parent).chmod(0o775 if what.endswith("directory") else 0o664)
    (line,) = warnings(world, PYLAYER_CONFIG=str(config))
    assert "chmod go-w" in line and line.endswith("in force")
    assert world.last()["compiled"] == 4


def test_home_of_another_user(world: World) -> None:
    """If root runs with another user's HOME, nothing is created in it, and the line says why nothing is stored."""
    home = world.directory / "home"
    home.mkdir()
    own(home)
    told = warnings(world, PYLAYER_STORE=str(home / ".cache" / "pylayer"))
    if os.geteuid() == 0:
        assert told and "is not created in it" in told[0]
        assert list(home.iterdir()) == []


def test_modes_of_a_store(world: World) -> None:
    """Whatever the program's umask is, directories have mode 0700 and files 0600."""
    before = os.umask(0)
    try:
        world.demo("--count", 4, PYLAYER_CONFIG=None)
        world.demo("--count", 4, "--cache", "object")
    finally:
        os.umask(before)
    made = [world.store, *world.store.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}


def test_store_behind_a_link(world: World) -> None:
    """A cache directory that is a link to another disk is used as usual."""
    disk = world.directory / "disk"
    disk.mkdir()
    world.store.symlink_to(disk)
    for _ in range(2):
        assert warnings(world) == []
    assert world.last()["hits"] == 4
    shutil.rmtree(disk)
