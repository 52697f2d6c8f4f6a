"""``pylayer fleet pull`` from nginx, configured as docs/fleets.md shows it, and from a directory."""

from __future__ import annotations

import dataclasses
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import others
import pytest
from cli.stores import GAME, IDENTITY, OLD_DRIVER, TOOL, Store, cell, flip
from fleet import certificates
from fleet.fleets import Builder, Machine, nginx

from pylayer.common.settings import Limits
from pylayer.store import bounds, format
from pylayer.store.checking import Checked, Trim
from pylayer.store.folder import Folder
from pylayer.store.maintenance import maintain
from pylayer.store.reader import Reader


def requests(directory: Path) -> list[str]:
    """Returns the requests that nginx answered: method, path and status."""
    lines = (directory / "access.log").read_text().splitlines()
    return [f"{line.split()[5][1:]} {line.split()[6]} {line.split()[8]}" for line in lines if '"GET / ' not in line]


@pytest.mark.foreign
def test_empty_machine(tmp_path: Path, builder: Builder, machine: Machine) -> None:
    """An empty machine has everything that is published after one pull. A second one downloads the index alone."""
    builder.publish(*range(20))
    builder.publish(*range(20, 30), program=TOOL)
    with nginx(tmp_path / "nginx", builder.www) as url:
        result = machine.pull(url)
        assert (result.packs, result.records, result.problem) == (2, 30, "")
        assert machine.numbers() == list(range(20)) and machine.numbers(TOOL) == list(range(20, 30))
        before = machine.files()
        again = machine.pull(url)
        assert (again.packs, again.bytes, again.left, again.problem) == (0, 0, 0, "")
    assert machine.files() == before
    index = f"GET /v1/{IDENTITY.name}/index 200"
    assert [line for line in requests(tmp_path / "nginx") if ".pack" not in line] == [index, index]


@pytest.mark.foreign
def test_https(tmp_path: Path, builder: Builder, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTPS nothing is read from a server whose certificate is not trusted, and the line says so."""
    builder.publish(1)
    authority, server = certificates.make(tmp_path)
    with nginx(tmp_path / "nginx", builder.www, server) as url:
        assert "certificate is not trusted" in machine.pull(url).problem and machine.numbers() == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert machine.pull(url).problem == "" and machine.numbers() == [1]


@pytest.mark.foreign
def test_what_the_server_shows(tmp_path: Path, builder: Builder) -> None:
    """The documented server gives packs for ever and the index until asked again, shows nothing else, and writes
    nothing."""
    builder.publish(1)
    (builder.www / "lock").touch()
    with nginx(tmp_path / "nginx", builder.www) as url:
        pack = f"{url}/v1/{IDENTITY.name}/{builder.index.packs[0].name}"
        with urllib.request.urlopen(pack) as answer:
            assert "immutable" in answer.headers["Cache-Control"]
        with urllib.request.urlopen(f"{url}/v1/{IDENTITY.name}/index") as answer:
            assert answer.headers["Cache-Control"] == "no-cache" and answer.headers["ETag"]
        for hidden in ("lock", "", f"v1/{IDENTITY.name}/"):
            with pytest.raises(urllib.error.HTTPError) as raised:
                urllib.request.urlopen(f"{url}/{hidden}")
            assert raised.value.code == 404
        for method in ("PUT", "DELETE", "POST"):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(urllib.request.Request(pack, b"x", method=method))


def test_only_what_is_new(builder: Builder, machine: Machine) -> None:
    """A machine downloads the packs that it lacks, whatever was published for other programs."""
    for day in range(6):
        builder.export(*range(day * 10, day * 10 + 10))
        builder.publish(*range(day * 5, day * 5 + 5), program=TOOL)
        if day % 2:
            assert machine.pull(builder.url).records == 30 and machine.numbers() == list(range(10 * (day + 1)))


def test_nothing_published(builder: Builder, machine: Machine) -> None:
    """If nothing is published for a machine's driver, that is no problem, and nothing is made in the store."""
    builder.publish(1)
    other = Machine(machine.root, machine.keys, OLD_DRIVER)
    result = other.pull(builder.url)
    assert (result.published, result.problem) == (False, "") and not (machine.root / "store").exists()


def test_store_that_was_deleted(builder: Builder, machine: Machine) -> None:
    """After the store was deleted, everything is missing again."""
    builder.publish(1, 2)
    machine.pull(builder.url)
    shutil.rmtree(machine.root / "store")
    assert machine.pull(builder.url).records == 2 and machine.numbers() == [1, 2]


# ---- what is there decides ---------------------------------------------------------------------------


def delete_packs(machine: Machine) -> None:
    for path in machine.root.glob("store/*/*.pack"):
        path.unlink()


def damage_packs(machine: Machine) -> None:
    """A bit of a record flips, and a run takes the record out."""
    for path in machine.root.glob("store/*/*.pack"):
        flip(path, 1000)
    report = Checked(machine.root)
    list(report.steps(lambda name: True, None))
    folder = Folder(str(machine.root), machine.identity)
    list(maintain(folder, report.damage, Limits(1 << 40), lambda text: None))


def evict(machine: Machine) -> None:
    """Of a pack, a part is evicted, and the rest is in another file."""
    list(bounds.Eviction(str(machine.root), 5000).steps())


@pytest.mark.parametrize("lose", [delete_packs, damage_packs, evict])
def test_what_is_gone_is_pulled_again(builder: Builder, machine: Machine, lose: Callable[[Machine], None]) -> None:
    """Packs that were pulled and are not whole in the store any more are missing, whatever became of them. What is
    there is not pulled again."""
    builder.publish(1, 2, 3)
    builder.publish(4, 5, 6)
    machine.pull(builder.url)
    assert machine.pull(builder.url).packs == 0
    lose(machine)
    assert machine.numbers() != [1, 2, 3, 4, 5, 6]
    assert machine.pull(builder.url).packs > 0
    assert sorted(set(machine.numbers())) == [1, 2, 3, 4, 5, 6] and machine.pull(builder.url).packs == 0


@pytest.mark.parametrize("data", [b"{" * 60000, b"", b"\xff"])
def test_damaged_memory(builder: Builder, machine: Machine, data: bytes) -> None:
    """What a machine remembers may be anything: the next pull does what is to be done."""
    builder.publish(1, 2)
    machine.pull(builder.url)
    (path,) = (machine.root / "fleet").rglob("*.index")
    path.write_bytes(data)
    assert machine.pull(builder.url).problem == "" and machine.numbers() == [1, 2]


def test_compaction_leave_pulled_packs(builder: Builder, machine: Machine) -> None:
    """A compaction does not take in what was pulled, or it would be pulled again. Once another pack has it, a
    compaction does, and equal content is stored once."""
    builder.publish(1, 2)
    machine.pull(builder.url)
    store = Store(machine.root)
    before = machine.files()
    store.journal(GAME, cell(3))
    list(Trim(machine.root, Limits(1 << 40)).steps())
    assert before.items() <= machine.files().items() and machine.pull(builder.url).packs == 0
    data = dataclasses.replace(builder.index, packs=(), number=builder.index.number + 1)
    builder.replace_index(data)
    machine.pull(builder.url)
    list(Trim(machine.root, Limits(1 << 40)).steps())
    assert len(list(machine.root.glob("store/*/*.pack"))) == 1 and machine.numbers() == [1, 2, 3]


# ---- limits of the store -----------------------------------------------------------------------------


def test_store_limit(builder: Builder, machine: Machine) -> None:
    """A pull adds no more than the store may have, and says what has no room. It does not pull that each time to evict
    it again."""
    limits = Limits(30_000)
    for first in range(0, 60, 10):
        builder.publish(*range(first, first + 10))
    result = machine.pull(builder.url, limits=limits)
    assert "max_store_mib" in result.problem and result.left > 0
    assert 0 < Store(machine.root).sizes() <= 30_000
    before = machine.files()
    assert machine.pull(builder.url, limits=limits).packs == 0 and machine.files() == before


def test_pulled_records(builder: Builder, machine: Machine) -> None:
    """A pulled pipeline is marked, was never used here, and keeps the time that compiling it took."""
    builder.publish(7)
    machine.pull(builder.url)
    (path,) = Store(machine.root).folder.files(None, (".pack",))
    (record,) = (
        one for part in Reader(path).verified(IDENTITY.digest, []) for one in part.records if one.magic == b"CELL"
    )
    assert (record.flags, record.create_ns, record.last_used) == (format.PULLED, 2_000_000, format.NEVER_USED)


@pytest.mark.parametrize("last_used", [0, 1 << 40])
def test_pulled_goes_before_unknown(builder: Builder, machine: Machine, last_used: int) -> None:
    """What this machine compiled while its clock was wrong is evicted after what was pulled and not used."""
    builder.publish(*range(20))
    machine.pull(builder.url)
    store = Store(machine.root)
    store.journal(GAME, *(cell(number, last_used=last_used) for number in range(100, 110)))
    store.pack()
    list(bounds.Eviction(str(machine.root), 20_000).steps())
    assert set(range(100, 110)) <= set(machine.numbers())
    assert len(machine.numbers()) < 30


@pytest.mark.parametrize("mask", [0o000, 0o777])
def test_private_files(builder: Builder, machine: Machine, mask: int) -> None:
    """What a pull writes is for its user alone, and for the user's next pull, whatever the umask."""
    builder.publish(1)
    with others.umask(mask):
        machine.pull(builder.url)
    assert {path.stat().st_mode & 0o777 for path in machine.root.rglob("*")} == {0o600, 0o700}
