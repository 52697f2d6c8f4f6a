"""Pipeline binaries in the store: the commands list, export and import them."""

from __future__ import annotations

from pathlib import Path

import loads
import pytest
from cli import stores
from cli.stores import GAME, IDENTITY, TOOL, Store, cell
from cli.user import User
from unit.things import binaries, program_id, record

from pylayer.store import format, portable


def of_pipeline(number: int, **fields: int) -> bytes:
    """Returns a record of one pipeline's binaries."""
    values = {"kind": 1, "create_ns": 2_000_000, "fingerprint": number, "last_used": stores.NOW, **fields}
    return record(binaries(b"%d" % number * 200, b"second"), format.BINARIES, **values)


@pytest.fixture
def store(user: User) -> Store:
    """A program with cells and binaries in a pack and a journal, and with what it read of its own."""
    store = Store(user.store, IDENTITY)
    store.journal(GAME, *(cell(n) for n in range(10)), *(of_pipeline(n) for n in range(100, 120)))
    store.pack()
    store.journal(GAME, of_pipeline(200), of_pipeline(201))
    store.journal(TOOL, of_pipeline(300))
    store.file(".attest", GAME, record(format.KNOWN.pack(bytes(16), 9, stores.NOW, 0, 0), format.ATTEST))
    return store


def indexed(store: Store, program: tuple[str, str]) -> int:
    """Returns how many pipelines' binaries a run of the program would load."""
    return len(loads.load(store.folder, program_id(*program)).binaries)


def test_ls(user: User, store: Store) -> None:
    """Cells and binaries both count as pipelines, and every byte belongs to a row."""
    found = user.json("ls")
    (partition,) = found["identities"]
    rows = {row["program"]: row for row in partition["programs"]}
    assert (rows["game (The Game)"]["pipelines"], rows["tool"]["pipelines"]) == (32, 1)
    assert sum(row["bytes"] for row in partition["programs"]) + partition["other_bytes"] == store.sizes()


# ---- export and import -------------------------------------------------------------------------------


def test_round_trip(user: User, store: Store, tmp_path: Path) -> None:
    """An export carries binaries with cells. What the program read itself, and what is damaged, is not exported."""
    path = user.directory / "x.pylayer"
    store.journal(GAME, record(binaries(b"x")[:-16], format.BINARIES))
    done = user.pylayer("export", path, "--app", "game*")
    assert "Exported: 32 pipelines of" in done.stdout and "without 1 damaged part " in done.stdout
    root = tmp_path / "other"
    root.mkdir(mode=0o700)
    work = portable.Import(str(path))
    assert work.identity.name == IDENTITY.name
    list(work.steps(str(root)))
    elsewhere = Store(root, IDENTITY)
    assert work.result.pipelines == 32 and indexed(elsewhere, GAME) == 22
    assert elsewhere.files("*.attest") == []
    again = portable.Import(str(path))
    list(again.steps(str(root)))
    assert (again.result.pipelines, again.result.known) == (0, 32)
