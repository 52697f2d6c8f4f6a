"""``pylayer fleet push`` and ``pylayer fleet publish``, with a directory as storage."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from cli.stores import DAY, GAME, IDENTITY, OLD_DRIVER, TOOL, cell, cell_data, note, used
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fleet.faulty import failing, serving
from fleet.fleets import Builder, Machine

from pylayer.common.identity import program_id
from pylayer.fleet import choice, incoming, publishing
from pylayer.fleet.directory import Directory
from pylayer.fleet.publishing import Terms
from pylayer.fleet.pushing import Push
from pylayer.fleet.signatures import public_of
from pylayer.fleet.trust import Untrusted
from pylayer.store import format
from pylayer.store.store import Store as Face


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


def test_there_and_back(builder: Builder, machine: Machine) -> None:
    """What several programs compiled reaches a machine: the same pipelines for the same programs."""
    builder.store.journal(GAME, note(), used([1, 2]))
    builder.push(1, 2, 3)
    builder.push(3, 4, program=TOOL)
    result = builder.publish()
    assert (result.records, result.packs, result.number, result.known) == (5, 2, 1, 0)
    machine.pull(builder.url)
    assert machine.numbers() == [1, 2, 3] and machine.numbers(TOOL) == [3, 4]
    assert {program.name for program in builder.index.programs.values()} == {"game (The Game)", "tool"}


def test_nothing_is_pushed_twice(builder: Builder) -> None:
    """A push takes what was compiled since the last one."""
    builder.push(1, 2)
    (first,) = names(builder.www / "incoming")
    builder.push()
    assert names(builder.www / "incoming") == [first]
    builder.push(3)
    assert len(names(builder.www / "incoming")) == 2
    result = builder.publish()
    assert (result.records, result.known) == (3, 0) and names(builder.www / "incoming") == []


def test_what_was_pulled_is_not_pushed(tmp_path: Path, builder: Builder) -> None:
    """A builder that also pulls pushes only what it compiled."""
    builder.publish(1, 2)
    other = Builder(tmp_path / "other", builder.www)
    Machine(other.store.root, builder.keys).pull(builder.url)
    other.push()
    assert names(builder.www / "incoming") == []
    other.push(3)
    result = builder.publish(push_keys={**builder.keys, **other.keys})
    assert (result.records, result.known) == (1, 0)


def test_duplicates(tmp_path: Path, builder: Builder) -> None:
    """What two builders compiled is published once."""
    other = Builder(tmp_path / "other", builder.www)
    other.push(1, 2, 3)
    result = builder.publish(2, 3, 4, push_keys={**builder.keys, **other.keys})
    assert (result.records, result.known) == (4, 2)
    result = builder.publish(1, 5)
    assert (result.records, result.known) == (1, 1)


def test_suspects(builder: Builder, machine: Machine) -> None:
    """What a process of a builder died over is not pushed. What one of the publisher died over is not published, and
    leaves the packs that are folded."""
    builder.store.journal(GAME, cell(1))

    def suspect(number: int) -> None:
        builder.store.suspects(GAME, xxhash.xxh3_128_digest(cell_data(number)))

    suspect(1)
    builder.push(2)
    builder.publish()
    assert machine.pull(builder.url).records == 1 and machine.numbers() == [2]
    suspect(2)
    result = builder.publish(3)
    assert result.records == 1 and result.folded == 2
    empty = Machine(machine.root.parent / "empty", builder.keys)
    empty.pull(builder.url)
    assert empty.numbers() == [3]


# ---- what is not published ---------------------------------------------------------------------------


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def move_to_other_identity(path: Path) -> None:
    target = path.parent.parent / OLD_DRIVER.name / path.name
    target.parent.mkdir()
    path.rename(target)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (flip, "signature"),
        (lambda path: os.truncate(path, path.stat().st_size - 1), "not signed"),
        (lambda path: path.write_bytes(b""), "not signed"),
        (lambda path: path.write_bytes(os.urandom(5000)), "not signed"),
    ],
)
def test_pushed_packs_that_are_refused(builder: Builder, damage: Callable[[Path], object], expected: str) -> None:
    """A pushed pack that is damaged is told with the reason, and the others are published. It is told until it is
    old, and is deleted then."""
    builder.push(1)
    (path,) = (builder.www / "incoming").rglob("*.pack")
    damage(path)
    result = builder.publish(2)
    assert len(result.refused) == 1 and expected in result.refused[0] and path.name in result.refused[0]
    assert result.records == 1 and len(builder.publish().refused) == 1
    age(path, 31)
    assert len(builder.publish().refused) == 1 and not path.exists()
    assert builder.publish().refused == []


def test_strange_files_beside_pushed_packs(builder: Builder) -> None:
    """What is no pushed pack and stands where builders push keeps nobody from publishing: links in a circle, pipes,
    names with control characters, and what an upload left that was killed."""
    builder.push(1)
    (path,) = (builder.www / "incoming").rglob("*.pack")
    (path.parent / "circle").symlink_to("circle")
    (path.parent / "up").symlink_to(path.parent)
    os.mkfifo(path.parent / "pipe.pack")
    (path.parent / "line\nend.pack").write_bytes(b"")
    left = path.parent / f"{path.name}.nobody.tmp"
    left.write_bytes(b"")
    age(left, 2)
    result = builder.publish()
    assert (result.records, result.refused) == (1, []) and not left.exists()


def test_unreadable_pushed_pack(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pushed pack that only another user may read is refused. It keeps nobody else's from being published."""
    builder.push(1)
    (path,) = (builder.www / "incoming").rglob("*.pack")
    theirs, opened = path.rename(path.with_name("0" * 64 + ".pack")), os.open

    def refusing(path: str, *arguments: Any, **named: Any) -> int:
        if path == str(theirs):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refusing)
    result = builder.publish(2)
    assert result.records == 1 and "Permission denied" in result.refused[0] and theirs.exists()


def test_stranger_pushes(tmp_path: Path, builder: Builder) -> None:
    """Whoever can write to the storage and has no listed key publishes nothing."""
    stranger = Builder(tmp_path / "stranger", builder.www)
    stranger.push(1)
    result = builder.publish(2)
    assert public_of(stranger.key) in result.refused[0] and "trusted_keys" in result.refused[0]
    assert result.records == 1


def test_pack_of_another_identity(builder: Builder) -> None:
    """A pushed pack that lies at the place of another identity is refused."""
    builder.push(1)
    move_to_other_identity(next((builder.www / "incoming").rglob("*.pack")))
    work = publishing.Publication(builder.backend, builder.face, OLD_DRIVER.name, builder.key, builder.terms)
    list(work.steps())
    assert f"it is for identity {IDENTITY.name}" in work.result.refused[0] and not work.result.is_new


def test_pack_of_another_release(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pushed pack of a release that computes fingerprints otherwise is refused."""
    monkeypatch.setattr("pylayer.store.format.FINGERPRINTS", format.FINGERPRINTS + 1)
    builder.push(1)
    monkeypatch.undo()
    assert "same release" in builder.publish().refused[0]


def test_two_names(builder: Builder, machine: Machine) -> None:
    """Equal content that the layer finds by two fingerprints reaches machines with both, also when the second is
    compiled after the first was pushed, and through a fold."""
    builder.push(1)
    builder.publish()
    builder.store.journal(GAME, cell(1, fingerprint=77))
    builder.push()
    result = builder.publish()
    assert (result.records, result.folded) == (1, 2)
    machine.pull(builder.url)
    stored = Face(str(machine.root)).stored
    assert len(stored(1)) == len(stored(77)) == 1


def test_huge_pushed_pack(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pushed pack that is too large is refused unread."""
    monkeypatch.setattr(incoming, "MAX_INCOMING_BYTES", 1000)
    assert "more than a pushed pack can have" in builder.publish(1).refused[0]


def test_index_of_a_stranger(builder: Builder) -> None:
    """A publisher does not build on an index that a listed key did not sign: nothing is published, and nothing lost."""
    builder.publish(1)
    builder.replace_index(key=Ed25519PrivateKey.generate())
    with pytest.raises(Untrusted, match=r"fleet\.keys"):
        builder.publish(2)
    assert len(names(builder.www / "incoming")) == 1


def test_damaged_published_pack(builder: Builder, machine: Machine) -> None:
    """A publisher does not build on a published pack that was changed. Without a copy of it the pack leaves the
    index, and what was pushed since is published."""
    builder.publish(1)
    for path in (builder.store.root / "fleet").rglob("*.pack"):
        path.unlink()
    flip(builder.place / builder.index.packs[0].name)
    result = builder.publish(2)
    assert (result.lost, result.records) == (1, 1)
    machine.pull(builder.url)
    assert machine.numbers() == [2]


@pytest.mark.parametrize("status", [403, 503])
def test_storage_errors(builder: Builder, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """If object storage refuses an upload, the push fails with its status, and a later one pushes the same records."""
    with serving(builder.www) as server:
        server.fault = failing(status)
        for name, value in {"ENDPOINT_URL": server.url, "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        good, builder.url = builder.url, "s3://bucket/pipelines"
        with pytest.raises(publishing.Unavailable, match=str(status)):
            builder.push(1)
        assert {word for path, word in server.requests if "incoming" in path} == {"PUT"}
    builder.url = good
    assert builder.publish(2).records == 2


# ---- folding and cleaning up -------------------------------------------------------------------------


def test_copies_are_a_cache(builder: Builder, machine: Machine) -> None:
    """A publisher without its copies of published packs, as on a new machine, publishes the same."""
    import shutil

    builder.publish(1, 2)
    shutil.rmtree(builder.store.root / "fleet")
    result = builder.publish(2, 3)
    assert (result.records, result.known) == (1, 2)  # it has forgotten what it pushed, too
    machine.pull(builder.url)
    assert machine.numbers() == [1, 2, 3]


def test_large_packs_are_split(builder: Builder, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Much at once becomes several packs of a limited size, each a generation of its own."""
    monkeypatch.setattr(publishing, "MAX_FOLDED_BYTES", 20_000)
    monkeypatch.setattr(choice, "MAX_FOLDED_BYTES", 20_000)
    builder.publish(*range(50))
    assert [(pack.first, pack.last) for pack in builder.index.packs] == [(1, 1), (2, 2), (3, 3)]
    assert max(pack.bytes for pack in builder.index.packs) < 22_000
    assert machine.pull(builder.url).records == 50 and machine.numbers() == list(range(50))


def test_nothing_new(builder: Builder) -> None:
    """A publication without anything new leaves the index alone, until half of its time has passed."""
    builder.publish(1)
    before = (builder.place / "index").read_bytes()
    result = builder.publish()
    assert not result.is_new and (builder.place / "index").read_bytes() == before
    result = builder.publish(valid_days=100)
    assert result.is_new and result.number == 2 and builder.index.expires > time.time() + 99 * DAY


def test_replaced_key(builder: Builder, machine: Machine) -> None:
    """A publisher with another key signs the index anew, although nothing else is new. Its policy file has to list the
    key that signed the last one."""
    builder.publish(1)
    old, builder.key = builder.keys, Ed25519PrivateKey.generate()
    new = {public_of(builder.key): "new"}
    with pytest.raises(Untrusted):
        builder.publish(index_keys=new)
    assert builder.publish(index_keys={**old, **new}).is_new
    machine.keys = new
    assert machine.pull(builder.url).records == 1
    assert not builder.publish(index_keys=new).is_new


def test_discard(builder: Builder, machine: Machine) -> None:
    """After somebody published what should not be there, an index without it follows the last one, and machines take
    what is pushed again."""
    builder.publish(1, 2)
    machine.pull(builder.url)
    assert builder.publish(discard=True).number == 2 and builder.index.packs == ()
    for _ in Push(builder.backend, builder.face, IDENTITY, {program_id(*GAME): "game"}, "A device", again=True).steps(
        builder.key
    ):
        pass
    assert builder.publish().records == 2
    result = machine.pull(builder.url)
    assert (result.records, result.problem) == (2, "") and machine.numbers() == [1, 2]


def age(path: Path, days: float) -> None:
    when = path.stat().st_mtime - days * DAY
    os.utime(path, (when, when))


def test_old_packs_leave(builder: Builder) -> None:
    """A pack is deleted when no index of the last days names it. An index counts until the one after it is that old."""
    terms = {"keep_days": 10}
    builder.publish(1, 2)
    builder.publish(3, 4)
    assert {(pack.first, pack.last) for pack in builder.index.packs} == {(1, 1), (1, 2), (2, 2)}
    packs = tuple(dataclasses.replace(pack, published=1) for pack in builder.index.packs)
    number = builder.index.number
    builder.replace_index(packs=packs)
    (builder.place / f"{number}.index").write_bytes((builder.place / "index").read_bytes())
    for path in builder.place.iterdir():
        age(path, 20)
    builder.publish(5, **terms)
    single = {pack.name for pack in packs if pack.first == pack.last}
    # The index before the present one was in force until now, so its packs stay.
    assert single <= set(names(builder.place)) and f"{number}.index" in names(builder.place)
    age(builder.place / f"{number + 1}.index", 20)
    builder.publish(6, **terms)
    assert not single & set(names(builder.place)) and f"{number}.index" not in names(builder.place)
    empty = Machine(builder.www.parent / "empty", builder.keys)
    assert empty.pull(builder.url).problem == "" and empty.numbers() == [1, 2, 3, 4, 5, 6]


# ---- what machines would refuse, and what the storage lost -------------------------------------------


def test_index_that_would_be_too_large(builder: Builder, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher does not publish an index that no machine would read. What is published stays, what was pushed stays,
    and the message says what to do."""
    builder.publish(1)
    before = (builder.place / "index").read_bytes()
    monkeypatch.setattr("pylayer.fleet.trust.MAX_INDEX_BYTES", len(before) + 50)
    with pytest.raises(Untrusted, match=r"no machine would believe it.*more than \d+ bytes.*--discard"):
        builder.publish(2, program=TOOL)
    assert (builder.place / "index").read_bytes() == before and len(names(builder.www / "incoming")) == 1
    assert not (builder.place / "2.index").exists() and machine.pull(builder.url).problem == ""


def test_index_that_is_nearly_full(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before an index is full, a publisher lists fewer of the packs that others contain, and then says so."""
    for number in range(10):
        builder.publish(number)
    singles = sum(pack.first == pack.last for pack in builder.index.packs)
    monkeypatch.setattr("pylayer.fleet.index.MAX_PACKS", len(builder.index.packs) + 1)
    result = builder.publish(10)
    assert sum(pack.first == pack.last for pack in builder.index.packs) < singles and result.fullness < 0.75
    fullness = [builder.publish(20 + number, program=(str(number), "")).fullness for number in range(10)]
    assert 0.75 <= max(fullness) <= 1


def test_withdrawn_programs_leave(builder: Builder, machine: Machine) -> None:
    """A program whose packs were withdrawn is in no further index. If it comes back, machines get what it has then."""
    builder.publish(1, 2)
    builder.publish(3)
    machine.pull(builder.url)
    builder.publish(4, program=TOOL, discard=True)
    assert {program.name for program in builder.index.programs.values()} == {"tool"}
    builder.publish(5)
    assert machine.pull(builder.url).problem == "" and machine.numbers() == [1, 2, 3, 5]


def test_stolen_key(builder: Builder, machine: Machine) -> None:
    """A thief's number ends nothing: machines and a publisher that removed his key forget it, and go on from the
    publisher's own."""
    builder.publish(1)
    machine.pull(builder.url)
    stolen, builder.key = builder.key, Ed25519PrivateKey.generate()
    thief = dataclasses.replace(builder.index, number=10**11, packs=())
    builder.replace_index(thief, key=stolen)
    (builder.place / f"{10**11}.index").write_bytes((builder.place / "index").read_bytes())
    assert machine.pull(builder.url).problem == ""
    keys = {public_of(builder.key): "new"}
    machine.keys, builder.terms = keys, Terms(keys, keys)
    with pytest.raises(Untrusted):
        builder.publish()
    builder.store.journal(GAME, cell(2))
    builder.publish(discard=True)
    builder.push_again()
    assert builder.publish(discard=True).records == 2
    result = machine.pull(builder.url)
    assert (result.problem, result.packs, machine.numbers()) == ("", 1, [1, 2])
    assert builder.publish(3).number < 10**11 and machine.pull(builder.url).problem == ""


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b""), lambda path: os.truncate(path, 300)])
def test_pack_that_the_storage_lost(builder: Builder, machine: Machine, harm: Callable[[Path], object]) -> None:
    """What the storage lost of published packs, the next publication uploads again, and machines go on."""
    builder.publish(1, 2)
    harm(builder.place / builder.index.packs[0].name)
    assert machine.pull(builder.url).problem
    result = builder.publish()
    assert (result.repaired, result.is_new) == (1, False)
    assert machine.pull(builder.url).problem == "" and machine.numbers() == [1, 2]


def test_pack_that_the_storage_damaged(builder: Builder, machine: Machine) -> None:
    """Damage that changes no size shows in no listing. The publisher uploads all packs again when it is told to."""
    builder.publish(1, 2)
    flip(builder.place / builder.index.packs[0].name)
    assert "other bytes" in machine.pull(builder.url).problem
    builder.publish(again=True)
    assert machine.pull(builder.url).problem == "" and machine.numbers() == [1, 2]


def test_pack_that_nobody_has(builder: Builder, machine: Machine) -> None:
    """A pack that the storage lost and of which the publisher has no copy leaves the index, so machines do not ask for
    it. What is pushed again is published again."""
    builder.publish(1, 2)
    builder.publish(3, program=TOOL)
    lost = next(pack for pack in builder.index.packs if pack.records == 2)
    (builder.place / lost.name).unlink()
    for path in (builder.store.root / "fleet").rglob("*.pack"):
        path.unlink()
    result = builder.publish()
    assert (result.lost, result.is_new) == (1, True)
    assert machine.pull(builder.url).problem == "" and machine.numbers(TOOL) == [3]
    builder.push_again()
    assert builder.publish().records == 2
    assert machine.pull(builder.url).problem == "" and machine.numbers() == [1, 2]


@pytest.mark.parametrize("publisher_forgot", [False, True])
def test_storage_from_a_backup(
    builder: Builder, machine: Machine, publisher_forgot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the storage was restored from a backup, machines get all records. The publisher goes on behind its own last
    index. One that has none uses numbers and generations again: machines say so until the numbers are higher, and take
    all packs of the new line then."""
    builder.publish(1)
    shutil.copytree(builder.www, builder.www.parent / "backup")
    builder.publish(2)
    builder.publish(3)
    machine.pull(builder.url)
    shutil.rmtree(builder.www)
    shutil.copytree(builder.www.parent / "backup", builder.www)
    later = time.time() + 100
    monkeypatch.setattr("pylayer.fleet.publishing.time.time", lambda: later)
    if publisher_forgot:
        for path in (builder.store.root / "fleet").rglob("*.index"):
            path.unlink()
        builder.publish(10, 11)
        assert "restored from a backup" in machine.pull(builder.url).problem
        builder.publish(12)
        builder.publish(13)
        expected = [1, 2, 3, 10, 11, 12, 13]
    else:
        assert (builder.publish().number, builder.index.number) == (0, 3)
        builder.publish(4)
        expected = [1, 2, 3, 4]
    assert machine.pull(builder.url).problem == "" and sorted(set(machine.numbers())) == expected
    empty = Machine(machine.root.parent / "empty", builder.keys)
    assert empty.pull(builder.url).problem == "" and set(empty.numbers()) >= set(expected) - {2, 3}


@pytest.mark.parametrize("left", ["backup", "nothing"])
def test_push_to_storage_from_a_backup(builder: Builder, left: str) -> None:
    """A builder that finds an older index than before, or none, pushes again what the storage had and lost."""
    builder.publish(1)
    shutil.copytree(builder.www, builder.www.parent / "backup")
    builder.publish(2)
    builder.push(3)
    shutil.rmtree(builder.www)
    if left == "backup":
        shutil.copytree(builder.www.parent / "backup", builder.www)
    builder.push()
    for path in (builder.store.root / "fleet").rglob("*.index"):
        path.unlink()  # the publisher is another machine
    result = builder.publish()
    assert result.records == (2 if left == "backup" else 3)


def test_retired_identity(builder: Builder) -> None:
    """Nothing is left of an identity that was retired, and it is not published again, unless somebody pushes."""
    builder.publish(1)
    builder.push(2)
    assert publishing.retire(builder.backend, builder.face, IDENTITY.name) == 4
    assert names(builder.www) == ["fleet"] and publishing.identities(builder.backend) == []
    assert not builder.publish().is_new
    builder.push_again()
    assert builder.publish().records == 2


def test_pack_that_no_index_names(builder: Builder) -> None:
    """What a publisher that died uploaded, and no index names, is deleted when it is old."""
    builder.publish(1)
    lost = builder.place / f"{'a' * 64}.pack"
    lost.write_bytes(b"lost")
    builder.publish(2)
    assert lost.exists()
    age(lost, 31)
    assert builder.publish(3).removed == 1 and not lost.exists()


# ---- two at once -------------------------------------------------------------------------------------


def test_two_publishers(tmp_path: Path, builder: Builder, machine: Machine) -> None:
    """Of two publishers that begin with the same index, one has the number, and the other adds to its index."""
    builder.publish(1)
    other = Builder(tmp_path / "other", builder.www)
    other.key, other.keys, other.terms = builder.key, builder.keys, builder.terms
    work = builder.publication()
    builder.push(2)
    real = work._next

    def late(*arguments: object) -> object:
        index = yield from real(*arguments)  # type: ignore[arg-type, misc]
        if index is not None and index.number == 2:
            other.publish(3)
        return index

    work._next = late  # type: ignore[assignment, method-assign]
    list(work.steps())
    assert builder.index.number >= 2
    builder.publish()
    machine.pull(builder.url)
    assert machine.numbers() == [1, 2, 3] and names(builder.www / "incoming") == []


def test_publisher_that_waits_before_its_last_step(tmp_path: Path, builder: Builder) -> None:
    """A publisher that stopped before it replaced ``index`` does not put an old one there when it goes on."""
    builder.publish(1)
    other = Builder(tmp_path / "other", builder.www)
    other.key, other.keys, other.terms = builder.key, builder.keys, builder.terms

    class Waiting(Directory):
        def write(self, path: str, source: bytes | Path) -> None:
            if path.endswith("/index") and not done:
                done.append(path)
                other.publish(3)
            super().write(path, source)

    done: list[str] = []
    builder.push(2)
    waiting = Waiting(builder.url, writes=True)
    work = publishing.Publication(waiting, builder.face, IDENTITY.name, builder.key, builder.terms)
    list(work.steps())
    assert done and builder.index.number == 3 and sum(pack.records for pack in choice.largest(builder.index.packs)) == 3


def test_publisher_that_died_before_its_last_step(builder: Builder, machine: Machine) -> None:
    """If a publisher died before it replaced ``index``, the next one puts the newest there, and builds on it."""
    builder.publish(1)
    old = (builder.place / "index").read_bytes()
    builder.publish(2)
    for left in (old, None):
        if left is None:
            (builder.place / "index").unlink()
        else:
            (builder.place / "index").write_bytes(left)
        builder.publish()
        assert builder.index.number == 2
    assert builder.publish(3).number == 3
    machine.pull(builder.url)
    assert machine.numbers() == [1, 2, 3]


def test_too_many_publishers(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher that is too late each time gives up with one line, and what was pushed stays."""
    builder.publish(1)
    monkeypatch.setattr(Directory, "create", lambda self, path, data: False)
    with pytest.raises(publishing.Unavailable, match="nothing is lost"):
        builder.publish(2)
    assert len(names(builder.www / "incoming")) == 1


def test_terms(builder: Builder) -> None:
    """A key may push without being trusted by machines, and the other way round."""
    pusher = Ed25519PrivateKey.generate()
    terms = Terms(builder.keys, {public_of(pusher): "pusher"})
    builder.push(1)
    work = publishing.Publication(builder.backend, builder.face, IDENTITY.name, builder.key, terms)
    list(work.steps())
    assert work.result.refused and not work.result.is_new
