"""The rules of ``pylayer.fleet.trust``: what is believed, and what is not. Commands of a fleet may be killed at any
moment."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli.stores import IDENTITY, OLD_DRIVER
from cli.user import User
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from disk import FailingDisk, StoreReader, is_torn_tail
from fleet.fleets import Builder, Machine, write_policy
from hypothesis import given
from hypothesis import strategies as st

from pylayer.fleet import signatures
from pylayer.fleet.index import MAX_INDEX_BYTES, Index, Pack
from pylayer.fleet.signatures import public_of, signed_index
from pylayer.fleet.trust import Arriving, Trust, Untrusted
from pylayer.store.format import FINGERPRINTS

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEYS = {public_of(KEY): "builder"}
NOW = 1_800_000_000
DATA = b"a pack"
PACK = Pack(hashlib.sha256(DATA).hexdigest(), len(DATA), "00000000000000aa")
INDEX = Index(IDENTITY, 5, NOW, NOW + 3600, (PACK,))


def signed(index: Index = INDEX, key: Ed25519PrivateKey = KEY, **changes: Any) -> bytes:
    return signed_index(dataclasses.replace(index, **changes).payload(), key)


def refused(data: bytes, trust: Trust | None = None) -> str:
    with pytest.raises(Untrusted) as raised:
        (trust or Trust(KEYS, IDENTITY.name)).index(data, NOW)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_good_index() -> None:
    """An index by a listed key, for the identity, newer than the last one and not expired, is believed."""
    good = signed()
    for last in (None, signed(number=4), good, b"damaged on the disk"):
        assert Trust(KEYS, IDENTITY.name, last).index(good, NOW + 3599).payload() == INDEX.payload()


def altered(**values: Any) -> bytes:
    """Returns a signed index with other values."""
    return signed_index(json.dumps(json.loads(INDEX.payload()) | values).encode(), KEY)


def for_an_export() -> bytes:
    """Returns an index with a signature that was made for an export."""
    payload = INDEX.payload()
    head = signatures.SIGNED_PART.pack(signatures.MAGIC, len(payload), 0, 0, KEY.public_key().public_bytes_raw())
    message = signatures.DOMAIN + head + hashlib.sha512(payload).digest()
    return payload + head + KEY.sign(message)


OTHER = Ed25519PrivateKey.generate()
IMPOSSIBLE = ({"bytes": True}, {"sha256": "../../../../etc/passwd"}, {"bytes": 1e9}, {"more": 1})
#: What is no index for the identity, and why. No text in it can become a path. Of other fingerprints, programs would
#: find no pipeline. One with too many bytes is refused before its signature is looked at.
REFUSED = [
    (signed(key=OTHER), public_of(OTHER)),
    (INDEX.payload(), "not signed"),
    (b"", "not signed"),
    (bytes(MAX_INDEX_BYTES + 1), str(MAX_INDEX_BYTES)),
    (for_an_export(), "invalid"),
    (signed(identity=OLD_DRIVER), OLD_DRIVER.name),
    (signed(issued=NOW - 60, expires=NOW), "expired 0 hours ago"),
    *((altered(packs=[json.loads(INDEX.payload())["packs"][0] | changes]), "refused") for changes in IMPOSSIBLE),
    *((altered(fingerprints=one), "same release") for one in (1, FINGERPRINTS + 1, str(FINGERPRINTS), None, True)),
]


@pytest.mark.parametrize(("data", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(data: bytes, says: str) -> None:
    """An index that breaks a rule is refused as a whole, with the reason in one line."""
    assert says in refused(data)


def test_rollback() -> None:
    """An index with a lower number than the last is refused, and so is another one with the same number."""
    trust = Trust(KEYS, IDENTITY.name, signed(number=6))
    assert "it is an old one" in refused(signed(), trust)
    assert trust.index(signed(number=7), NOW).number == 7
    for number in (5, 6):
        assert "restored from a backup" in refused(signed(number=number, issued=NOW + 1), trust)


def test_rollback_after_a_key_was_replaced() -> None:
    """The last number counts, whichever listed key signed the last index. A thief's number is forgotten with his
    key."""
    last = signed(key=OTHER, number=6)
    assert "it is an old one" in refused(signed(), Trust({**KEYS, public_of(OTHER): "old"}, IDENTITY.name, last))
    assert "fleet.keys" in refused(signed(), Trust({}, IDENTITY.name))
    assert Trust(KEYS, IDENTITY.name, last).index(signed(), NOW).number == 5


@given(st.lists(st.binary(max_size=4), max_size=5))
def test_pack_bytes(pieces: list[bytes]) -> None:
    """A pack is accepted if its bytes are those of the index, and refused at the first byte too many."""
    arriving = Arriving(PACK)
    try:
        for piece in pieces:
            arriving.take(piece)
        arriving.require_whole()
        assert b"".join(pieces) == DATA
    except Untrusted:
        assert b"".join(pieces) != DATA
    assert arriving.size <= len(DATA) + 4


# ---- Killed --------------------------------------------------------------------------------------


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
        write_policy(self.user, self.builder.url, *self.builder.keys)
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
            command = ["fleet", "publish", *self.builder.exports.iterdir(), "--key", self.directory / "key"]
        started = self.user.process(command, **environment)
        done = subprocess.run(**started, capture_output=True, timeout=120, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done, disk.struck

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
        left = (place.directory / "tmp").iterdir(), (place.builder.store.root / "fleet").glob("*/*.tmp")
        assert [*left[0], *left[1]] == []
        assert machine.pull(place.builder.url).problem == ""
        assert machine.numbers() == [1, 2] and machine.numbers(("tool", "")) == [3]


@pytest.mark.parametrize(
    "rules",
    ["write:ENOSPC", "write:EIO:path=.index", "mkdir:ENOSPC", "rename:EIO", "fsync:EIO", "open:EMFILE:path=.tmp"],
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
