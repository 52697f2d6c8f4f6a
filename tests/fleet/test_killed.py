"""Commands of ``pylayer fleet`` that are killed before their file operations, or whose disk fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli.stores import IDENTITY
from cli.user import User
from cryptography.hazmat.primitives import serialization
from disk import FailingDisk, StoreReader, is_torn_tail
from fleet.fleets import Builder, Machine

from pylayer.fleet.signatures import public_of


class Place:
    """A directory with a builder's storage, and a user whose store and policy file are in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.builder = Builder(directory)
        self.user = User(directory)
        pem = self.builder.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (directory / "key").write_bytes(pem)
        (directory / "key").chmod(0o600)
        policy = self.user.home / ".config" / "pylayer" / "policy.yaml"
        policy.parent.mkdir(parents=True)
        key = public_of(self.builder.key)
        policy.write_text(f"fleet: {{url: '{self.builder.url}', keys: [{{name: builder, key: '{key}'}}]}}\n")
        (directory / "tmp").mkdir()

    def run(self, *arguments: Any, rules: str = "") -> tuple[subprocess.CompletedProcess[str], list[str]]:
        """Runs a command on a disk with these rules. Returns what came of it, and what struck."""
        world: Any = SimpleNamespace(directory=self.directory.parent, store=self.directory)
        disk = FailingDisk(world, rules)
        environment = {**disk.environment, "TMPDIR": str(self.directory / "tmp")}
        if arguments[0] == "pull":
            command = ["fleet", "pull", "--identity", IDENTITY.name]
        else:
            environment["PYLAYER_STORE"] = str(self.builder.store.root)
            command = [
                "fleet",
                "publish",
                *map(str, self.builder.exports.iterdir()),
                "--key",
                str(self.directory / "key"),
            ]
        started = self.user.process(command, **environment)
        done = subprocess.run(**started, capture_output=True, timeout=120, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done, disk.struck

    def left(self) -> list[Path]:
        """Returns folders for temporary files that killed commands of the builder left."""
        return [*(self.directory / "tmp").iterdir(), *(self.builder.store.root / "fleet").glob("*/*.tmp")]

    @property
    def machine(self) -> Machine:
        return Machine(self.user.store, self.builder.keys)


#: Each moment is a process. `make stress` has all of them.
MOMENTS = range(1, 300) if os.environ.get("PYLAYER_TEST_MOMENTS") == "all" else (*range(1, 10, 3), *range(10, 300, 15))


def kills(tmp_path: Path, prepare: Any, command: str) -> Iterator[Place]:
    """Yields places in which a command was killed before its first file operation, its fourth, and so on, from the
    tenth on before each fifteenth; the last is one in which it ended by itself."""
    for number in MOMENTS:
        directory = tmp_path / str(number)
        directory.mkdir()
        place = Place(directory)
        prepare(place)
        done, struck = place.run(command, rules=f"change:KILL:nth={number}")
        if not struck:
            assert done.returncode == 0 and number > 5, done.stderr
            yield place
            return
        assert done.returncode != 0
        yield place
        shutil.rmtree(directory)
    raise AssertionError("the command does not end")


def require_whole(root: Path) -> None:
    """Everything in a store verifies."""
    damage = [what for what in StoreReader(root).read()[1] if not is_torn_tail(what)]
    assert damage == []


def test_pull(tmp_path: Path) -> None:
    """Wherever a pull is killed, the store is whole, and the next pull has everything."""

    def prepare(place: Place) -> None:
        place.builder.publish(1, 2)
        place.machine.pull(place.builder.url)
        place.builder.publish(3, 4)
        place.builder.publish(5, 6, program=("tool", ""))

    for place in kills(tmp_path, prepare, "pull"):
        require_whole(place.user.store)
        machine = place.machine
        assert machine.numbers() in ([1, 2], [1, 2, 3, 4])
        assert machine.pull(place.builder.url).problem == ""
        assert machine.numbers() == [1, 2, 3, 4] and machine.numbers(("tool", "")) == [5, 6]
        require_whole(place.user.store)


def test_publish(tmp_path: Path) -> None:
    """Wherever a publication is killed, machines find a good index, and the next one publishes everything. No folder of
    the killed one is left."""

    def prepare(place: Place) -> None:
        place.builder.publish(1)
        place.machine.pull(place.builder.url)
        place.builder.export(2)
        place.builder.export(3, program=("tool", ""))

    for place in kills(tmp_path, prepare, "publish"):
        machine = place.machine
        assert machine.pull(place.builder.url).problem == ""
        assert machine.numbers() in ([1], [1, 2])
        place.builder.publish()
        assert place.builder.refused == []
        assert place.left() == []
        assert machine.pull(place.builder.url).problem == ""
        assert machine.numbers() == [1, 2] and machine.numbers(("tool", "")) == [3]


@pytest.mark.parametrize(
    "rules",
    [
        "write:ENOSPC",
        "write:ENOSPC:after=500",
        "write:ENOSPC:path=.tmp",
        "write:EIO:path=.index",
        "mkdir:ENOSPC",
        "rename:EIO",
        "change:EROFS",
        "fsync:EIO",
        "open:EMFILE:path=.tmp",
    ],
)
def test_disk_that_fails(tmp_path: Path, rules: str) -> None:
    """If the disk is full or fails, a pull says so in one line and leaves the store whole, and a later one succeeds."""
    place = Place(tmp_path)
    place.builder.publish(1, 2)
    done, struck = place.run("pull", rules=rules)
    assert struck and done.returncode == 1, done.stdout
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("pylayer: nothing more was pulled: ")
    assert place.machine.numbers() == []
    assert place.machine.pull(place.builder.url).problem == "" and place.machine.numbers() == [1, 2]


def test_full_disk_of_a_publisher(tmp_path: Path) -> None:
    """If its disk is full, a publisher says so in one line, and nothing that was exported is lost."""
    place = Place(tmp_path)
    place.builder.export(1)
    place.builder.export(2)
    done, struck = place.run("publish", rules="write:ENOSPC:after=600")
    assert struck and done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    place.builder.publish()
    place.machine.pull(place.builder.url)
    assert place.machine.numbers() == [1, 2]
