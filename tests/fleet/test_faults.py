"""What a server, a network or somebody in it can do to a pull: the store stays as it was, and one line says why."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from cli.stores import GAME, IDENTITY, OLD_DRIVER, cell_data
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fleet.faulty import Fault, Faulty, announcing, cut, dripping, failing, flipped, only, serving
from fleet.fleets import Builder, Machine
from unit.things import program_id

from pylayer.common.file_kinds import TEMPORARY
from pylayer.fleet.signatures import public_of
from pylayer.store import format
from pylayer.store.pack import PackWriter

#: A number that no index has had.
NEXT = int(time.time()) + 100_000


def problem(machine: Machine, url: str) -> str:
    """Pulls; returns what went wrong. The store is as it was."""
    before = machine.files()
    result = machine.pull(url)
    assert result.problem and "\n" not in result.problem, result
    assert machine.files() == before and result.packs == 0
    return result.problem


@pytest.fixture
def server(builder: Builder) -> Iterator[Faulty]:
    """Serves what the builder publishes."""
    with serving(builder.www) as served:
        yield served


@pytest.fixture
def known(builder: Builder, machine: Machine, server: Faulty) -> Machine:
    """A machine that pulled once from the server, before more was published."""
    builder.publish(1, 2)
    machine.pull(server.url)
    builder.publish(3, 4)
    return machine


def parts(machine: Machine) -> list[Path]:
    """Returns what is left of packs that were not finished."""
    return list((machine.root / "fleet").rglob(f"*{TEMPORARY}"))


# ---- the server --------------------------------------------------------------------------------------


#: What the server does to which files, and how it is told.
FAULTS = [
    *((suffix, failing(status), str(status)) for suffix in ("index", ".pack") for status in (403, 500, 503)),
    *((".pack", cut(at), "") for at in (0, 1, 255, 256, 1000)),
    *((".pack", flipped(at), "other bytes than the index says") for at in (0, 100, 300, 5000, -1)),
]


@pytest.mark.parametrize(("suffix", "fault", "told"), FAULTS)
def test_fault_of_the_server(server: Faulty, known: Machine, suffix: str, fault: Fault, told: str) -> None:
    """What a server does wrong is told, nothing of the pack is kept, and the next pull does what is left."""
    server.fault = only(suffix, fault)
    assert told in problem(known, server.url)
    assert parts(known) == []
    server.fault = Faulty.fault
    assert known.pull(server.url).problem == "" and known.numbers() == [1, 2, 3, 4]


def test_pack_that_is_gone(builder: Builder, server: Faulty, known: Machine) -> None:
    """A pack that the index lists and the server lacks is named."""
    for path in builder.place.glob("*.pack"):
        path.unlink()
    assert f"has no v1/{IDENTITY.name}/" in problem(known, server.url)


@pytest.mark.parametrize("fault", [failing(404), failing(403), flipped(300), announcing(7)])
def test_one_pack_that_fails(builder: Builder, server: Faulty, machine: Machine, fault: Fault) -> None:
    """One pack that the server does not give out, or gives out with other bytes, does not keep the others from being
    pulled. It is told, and the next pull asks for it again."""
    for number, program in enumerate([("a", ""), ("b", ""), ("c", "")]):
        builder.publish(number, program=program)
    first = machine_order(builder)[0]
    server.fault = only(first, fault)
    result = machine.pull(server.url)
    assert result.problem and (result.packs, result.left) == (2, 1)
    server.fault = Faulty.fault
    assert machine.pull(server.url).packs == 1


def machine_order(builder: Builder) -> list[str]:
    """Returns the names of the packs in the order in which a machine asks for them."""
    return [pack.name for pack in sorted(builder.index.packs, key=lambda pack: pack.bytes)]


@pytest.mark.parametrize("suffix", ["index", ".pack"])
def test_server_that_stops(server: Faulty, known: Machine, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not go on is left after a while, and nothing is kept of the pack."""
    monkeypatch.setattr("pylayer.fleet.storage._STALL_SECONDS", 1)
    end, sent = Event(), []

    def pause() -> None:
        sent.append(1)
        if len(sent) > 30:
            end.wait(120)

    server.fault = only(suffix, dripping(pause))
    assert "too slow" in problem(known, server.url)
    end.set()
    assert parts(known) == []


# ---- who signs what ----------------------------------------------------------------------------------


def test_mirror_that_lags_behind(builder: Builder, server: Faulty, known: Machine) -> None:
    """An old index is not believed, and is no problem: the machine goes on with the last one, until that expires."""
    known.pull(server.url)
    for path in known.root.glob("store/*/*.pack"):
        path.unlink()
    builder.replace_index(number=1, issued=1)
    result = known.pull(server.url)
    assert (result.problem, result.records) == ("", 4) and known.numbers() == [1, 2, 3, 4]


def test_key_that_was_removed(server: Faulty, known: Machine) -> None:
    """After a key was taken out of the policy file, its index is not believed, even if it did not change."""
    known.pull(server.url)
    known.keys = {public_of(Ed25519PrivateKey.generate()): "new"}
    assert "fleet.keys" in problem(known, server.url)


def test_kept_index_that_expired(
    builder: Builder, server: Faulty, known: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that did not change is refused when it expires."""
    assert known.pull(server.url).problem == ""
    later = builder.index.expires + 1
    monkeypatch.setattr("pylayer.fleet.pulling.time.time", lambda: later)
    assert "expired" in problem(known, server.url)


# ---- packs that are signed and yet wrong -------------------------------------------------------------


def list_pack(builder: Builder, data: bytes) -> None:
    """Puts these bytes behind a signed index."""
    digest = hashlib.sha256(data).hexdigest()
    (builder.place / f"{digest}.pack").write_bytes(data)
    pack = dataclasses.replace(builder.index.packs[0], sha256=digest, bytes=len(data))
    builder.replace_index(packs=(*builder.index.packs, pack), number=NEXT)


def pack_of(directory: Path, data: bytes, fields: dict[str, Any]) -> bytes:
    """Returns a pack with one record that no publisher writes."""
    header = {"identity": IDENTITY, "program": program_id(*GAME), **fields}
    directory.chmod(0o700)
    writer = PackWriter(str(directory / "x.pack"), header.pop("identity"), header.pop("program"), "game")
    writer.add_parts(format.record_parts(header.pop("magic", format.CELL), data, **header))
    return Path(writer.finish()).read_bytes()


@pytest.mark.parametrize(
    ("data", "fields", "expected"),
    [
        (b"too short", {"flags": 2}, "shorter than a pipeline cache header"),
        (bytes(100), {"flags": 2}, "without a pipeline cache header"),
        (cell_data(1, OLD_DRIVER), {"flags": 2}, "another driver build"),
        (cell_data(1), {"flags": 2, "kind": 99}, "unknown kind"),
        (cell_data(1), {"flags": 0}, "was not published"),
        (cell_data(1), {"flags": 2, "magic": format.ATTEST}, "wrong file"),
        (bytes(8), {"magic": format.USED}, "was not published"),
        (b"x=s:y\n", {"magic": format.NOTE}, "unknown content"),
        (cell_data(1), {"flags": 2, "identity": OLD_DRIVER}, "foreign-identity"),
        (cell_data(1), {"flags": 2, "program": 7}, "program 0000000000000007"),
    ],
)
def test_signed_pack_that_is_wrong(
    tmp_path: Path, builder: Builder, machine: Machine, data: bytes, fields: dict[str, Any], expected: str
) -> None:
    """A pack that a trusted key published is still verified record by record, and refused as a whole."""
    builder.publish(1)
    machine.pull(builder.url)
    list_pack(builder, pack_of(tmp_path, data, fields))
    assert expected in problem(machine, builder.url)
    assert machine.numbers() == [1]


def test_damaged_pack_that_is_signed(builder: Builder, machine: Machine) -> None:
    """A pack whose bytes are those of the index, but whose records do not verify, is refused."""
    builder.publish(*range(5))
    machine.pull(builder.url)
    data = bytearray((builder.place / builder.index.packs[0].name).read_bytes())
    data[600] ^= 1
    list_pack(builder, bytes(data))
    assert "damaged" in problem(machine, builder.url)


# ---- this machine ------------------------------------------------------------------------------------


def test_store_of_somebody_else(builder: Builder, machine: Machine) -> None:
    """A pull writes nothing into a store that others may write to."""
    builder.publish(1)
    (machine.root / "store").mkdir(0o777)
    (machine.root / "store").chmod(0o777)
    with pytest.raises(OSError, match="can be written by others"):
        machine.pull(builder.url)
    assert machine.files() == {}
