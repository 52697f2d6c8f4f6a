"""Exports to a fleet and ``pylayer fleet publish``, with a directory or S3 as storage."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.stores import DAY, GAME, IDENTITY, OLD_DRIVER, TOOL, cell
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fleet.faulty import failing, serving
from fleet.fleets import Builder, Machine
from unit.things import flip, program_id

from pylayer.fleet import publishing
from pylayer.fleet.signatures import public_of
from pylayer.fleet.storage import Denied, Objects, Unavailable
from pylayer.fleet.trust import Untrusted
from pylayer.store import format
from pylayer.store.store import Store as Face


@pytest.fixture(params=["directory", *os.environ.get("PYLAYER_TEST_S3", "").split()])
def remote(request: pytest.FixtureRequest, builder: Builder) -> Builder:
    """A builder whose storage is a directory, or a folder of its own at each URL of PYLAYER_TEST_S3 (s3://bucket). The
    variables AWS_* lead to the server of that."""
    if request.param != "directory":
        builder.url = f"{request.param}/{uuid.uuid4()}"
    return builder


def test_there_and_back(remote: Builder, machine: Machine) -> None:
    """A builder exports and publishes, a machine pulls, and a second publication adds what is new, of other programs
    too."""
    assert remote.publish(*range(20)).records == 20
    assert machine.pull(remote.url).records == 20
    remote.export(*range(15, 30))
    assert remote.publish(*range(5), program=TOOL).records == 15
    assert machine.pull(remote.url).records == 15 and machine.numbers() == list(range(30))
    assert machine.pull(remote.url).bytes == 0


def test_two_publishers(remote: Builder) -> None:
    """Storage creates an object only if there is none, by which a second publisher knows of the first."""
    busy = pytest.raises(Unavailable, match="another publisher began 0 minutes ago")
    with publishing.only_publisher(remote.storage):
        with busy, publishing.only_publisher(remote.storage):
            pass
        assert remote.storage.items("") != []
    assert remote.storage.items("") == []


def test_duplicates(tmp_path: Path, builder: Builder) -> None:
    """What two builders compiled, or what was published before, is published once."""
    other = Builder(tmp_path / "other", builder.www)
    other.export(1, 2, 3).rename(builder.exports / "other")
    assert builder.publish(2, 3, 4, export_keys={**builder.keys, **other.keys}).records == 4
    assert builder.publish(1, 5).records == 1
    assert builder.publish(1).packs == 0


def test_two_names(builder: Builder, machine: Machine) -> None:
    """Equal content that the layer finds by two fingerprints reaches machines with both."""
    builder.publish(1)
    builder.store.journal(GAME, cell(1, fingerprint=77))
    builder.export()
    assert builder.publish().records == 1
    machine.pull(builder.url)
    (partition,) = Face(str(machine.root)).partitions(lambda name: True, lambda number, name: None)
    assert partition.holdings[program_id(*GAME)].fingerprints == {1, 77}


# ---- what is not published ---------------------------------------------------------------------------


def age(path: Path, days: float) -> None:
    when = path.stat().st_mtime - days * DAY
    os.utime(path, (when, when))


def test_strangers_export(tmp_path: Path, builder: Builder) -> None:
    """Of whoever has no listed key nothing is published. A key may export without being trusted by machines, and the
    other way round."""
    stranger = Builder(tmp_path / "stranger", builder.www)
    stranger.export(1).rename(builder.exports / "1")
    assert builder.publish(2).records == 1
    assert public_of(stranger.key) in builder.refused[0] and "trusted_keys" in builder.refused[0]
    builder.publish(keys={**builder.keys, **stranger.keys})
    assert builder.refused
    assert builder.publish(export_keys={**builder.keys, **stranger.keys}).records == 1


def test_several_identities(tmp_path: Path, builder: Builder) -> None:
    """Exports of several identities are published at once, each in the index of its identity."""
    other = Builder(tmp_path / "other", builder.www, OLD_DRIVER)
    other.export(7).rename(builder.exports / "7")
    builder.export(1)
    results = builder.publish_all(export_keys={**builder.keys, **other.keys})
    assert {one.identity: one.records for one in results} == {IDENTITY.name: 1, OLD_DRIVER.name: 1}
    assert len(builder.index.packs) == len(other.index.packs) == 1


def test_export_of_another_release(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export of a release that computes fingerprints otherwise is refused."""
    monkeypatch.setattr("pylayer.store.format.FINGERPRINTS", format.FINGERPRINTS + 1)
    builder.export(1)
    monkeypatch.undo()
    builder.publish()
    assert "same release" in builder.refused[0]


@pytest.mark.parametrize("status", [403, 503])
def test_storage_errors(builder: Builder, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """If object storage refuses an upload, the publication fails with its status."""
    with serving(builder.www) as server:
        server.fault = failing(status)
        for name, value in {"ENDPOINT_URL": server.url, "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        builder.url = "s3://bucket/pipelines"
        with pytest.raises(Unavailable, match=str(status)), publishing.only_publisher(builder.storage):
            pass


# ---- the index ---------------------------------------------------------------------------------------


def test_nothing_new(builder: Builder, machine: Machine) -> None:
    """A publication without anything new signs the index anew, for another 30 days. Machines pull nothing."""
    builder.publish(1)
    machine.pull(builder.url)
    before = builder.index
    builder.replace_index(number=before.number - 60, issued=before.issued - 60, expires=int(time.time()) + 60)
    assert builder.publish().packs == 0
    assert builder.index.expires > time.time() + 29 * DAY and builder.index.packs == before.packs
    assert machine.pull(builder.url).packs == 0


def test_replaced_key(builder: Builder, machine: Machine) -> None:
    """A publisher with another key signs the index anew, although nothing else is new. Its policy file has to list the
    key that signed the last one."""
    builder.publish(1)
    old, builder.key = builder.keys, Ed25519PrivateKey.generate()
    new = {public_of(builder.key): "new"}
    with pytest.raises(Untrusted, match=r"fleet\.keys.*can be deleted"):
        builder.publish(keys=new)
    assert builder.publish(keys={**old, **new}).number
    machine.keys = new
    assert machine.pull(builder.url).records == 1


def test_begun_anew(builder: Builder, machine: Machine) -> None:
    """After somebody deleted what is published, the next index follows the last one, and machines keep what they have
    and take the rest."""
    builder.publish(1, 2)
    builder.replace_index(number=builder.index.number - 60)
    machine.pull(builder.url)
    for path in builder.place.iterdir():
        path.unlink()
    assert "not there any more" in machine.pull(builder.url).problem
    builder.publish(3)
    assert machine.pull(builder.url).problem == "" and sorted(set(machine.numbers())) == [1, 2, 3]


def test_index_of_an_older_release(builder: Builder, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an older release published is refused, by the publisher and machines alike, with what to do."""
    monkeypatch.setattr("pylayer.fleet.index.FORMAT", 1)
    builder.publish(1)
    monkeypatch.undo()
    told = r"it has format 1, and this pylayer reads format 3: .*delete v1 in the storage"
    with pytest.raises(Untrusted, match=told):
        builder.publish(2)
    assert "delete v1 in the storage" in machine.pull(builder.url).problem


def test_index_that_would_be_too_large(builder: Builder, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher does not publish an index that no machine would read. What is published stays, what was exported
    stays, and the message says what to do."""
    builder.publish(1)
    before = (builder.place / "index").read_bytes()
    monkeypatch.setattr("pylayer.fleet.trust.MAX_INDEX_BYTES", len(before) + 50)
    with pytest.raises(Untrusted, match=r"no machine would believe it.*more than \d+ bytes.*another URL"):
        builder.publish(2, program=TOOL)
    assert (builder.place / "index").read_bytes() == before
    assert machine.pull(builder.url).problem == ""


# ---- packs -------------------------------------------------------------------------------------------


def test_merged(builder: Builder, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program has a limited number of packs: the smallest are merged, and the largest stay. A machine that has them
    pulls the merged one, loads everything once, and compacts what was merged."""
    monkeypatch.setattr(publishing, "MOST_PACKS", 4)
    monkeypatch.setattr(publishing, "MERGED", 3)
    builder.publish(*range(100, 120))
    largest = builder.index.packs
    for number in range(3):
        builder.publish(number)
    machine.pull(builder.url)
    result = builder.publish(3)
    assert result.records == 1 and len(builder.index.packs) == 3
    assert set(largest) <= set(builder.index.packs)
    assert machine.pull(builder.url).packs == result.packs > 0
    assert sorted(set(machine.numbers())) == [0, 1, 2, 3, *range(100, 120)]
    assert machine.pull(builder.url).packs == 0
    empty = Machine(machine.root.parent / "empty", builder.keys)
    assert empty.pull(builder.url).packs == 3 and empty.numbers() == [0, 1, 2, 3, *range(100, 120)]


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: os.truncate(path, 300)])
def test_pack_that_the_storage_lost(builder: Builder, machine: Machine, harm: Callable[[Path], object]) -> None:
    """What the storage lost of published packs leaves the index, so machines do not ask for it. What builders export
    again is published again."""
    builder.publish(1, 2)
    builder.publish(3, program=TOOL)
    harm(builder.place / next(pack for pack in builder.index.packs if int(pack.program, 16) == program_id(*GAME)).name)
    assert machine.pull(builder.url).problem
    assert builder.publish().lost == 1
    assert machine.pull(builder.url).problem == "" and machine.numbers(TOOL) == [3]
    builder.export()
    assert builder.publish().records == 2
    assert machine.pull(builder.url).problem == "" and machine.numbers() == [1, 2]


def test_damaged_published_pack(builder: Builder, machine: Machine) -> None:
    """A publisher does not build on a published pack that was changed: it leaves the index, and what was exported since
    is published."""
    builder.publish(1)
    flip(builder.place / builder.index.packs[0].name, 500)
    result = builder.publish(2)
    assert (result.lost, result.records) == (1, 2)
    machine.pull(builder.url)
    assert machine.numbers() == [1, 2]


def test_pack_that_the_storage_denies(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher that may not read a pack which is there does not take it for lost: nothing is published."""
    builder.publish(1)
    before = (builder.place / "index").read_bytes()

    def denied(storage: Objects, path: str) -> Iterator[bytes]:
        if path.endswith(".pack"):
            raise Denied(f"{path}: status 403")
        yield from stream(storage, path)

    stream = Objects.stream
    monkeypatch.setattr(Objects, "stream", denied)
    with pytest.raises(Untrusted, match="403"):
        builder.publish(2)
    assert (builder.place / "index").read_bytes() == before


def test_old_packs_are_deleted(builder: Builder) -> None:
    """A pack that the index does not list is deleted when it is old. What is listed stays."""
    builder.publish(1)
    lost = builder.place / f"{'a' * 64}.pack"
    lost.write_bytes(b"lost")
    for path in (*builder.place.iterdir(), lost):
        age(path, 31)
    young = builder.place / f"{'b' * 64}.pack"
    young.write_bytes(b"young")
    builder.publish()
    assert {path.name for path in builder.place.iterdir()} == {"index", young.name, builder.index.packs[0].name}
