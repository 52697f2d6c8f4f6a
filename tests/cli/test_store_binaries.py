"""Pipeline binaries in the store: the commands list, verify, export, import and remove them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loads
import pytest
from cli import stores
from cli.stores import GAME, IDENTITY, TOOL, Store, cell
from cli.test_store_transfer import Forger, refused
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
    (shelf,) = found["identities"]
    rows = {row["program"]: row for row in shelf["programs"]}
    assert (rows["game (The Game)"]["pipelines"], rows["tool"]["pipelines"]) == (32, 1)
    assert sum(row["bytes"] for row in shelf["programs"]) + shelf["other_bytes"] == store.sizes()


def problems(user: User) -> list[dict[str, Any]]:
    return user.json("ls", "--verify", status=1)["problems"]  # type: ignore[no-any-return]


def test_verify(user: User, store: Store) -> None:
    """Every binary is verified. An impossible structure is a problem with the file's name."""
    assert user.json("ls", "--verify")["fine"]
    bad = record(binaries(b"x") + bytes(16), format.BINARIES)
    store.journal(GAME, of_pipeline(400), bad, of_pipeline(401))
    (problem,) = problems(user)
    assert (problem["outcome"], problem["size_bytes"]) == ("impossible", len(bad))
    assert "after the binaries" in user.pylayer("ls", "--verify").stdout


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


@pytest.mark.parametrize(
    ("magic", "data", "fields", "reason"),
    [
        (format.BINARIES, binaries(b"x", global_key=0), {}, "without a global key"),
        (format.BINARIES, binaries(b"x"), {"flags": 4}, "of an unknown kind"),
        (format.BINARIES, binaries(b"x"), {"kind": 99}, "of an unknown kind"),
        (format.CELL, stores.cell_data(1), {"flags": 8}, "of an unknown kind"),
        (format.BINARIES, binaries(b"x")[:-16], {}, "larger than its record"),
    ],
)
def test_forged_binaries(tmp_path: Path, magic: bytes, data: bytes, fields: dict[str, int], reason: str) -> None:
    """An import with binaries of an unknown driver, of an unknown kind or of an impossible structure is refused as a
    whole."""
    forger = Forger(tmp_path / "x", IDENTITY)
    forger.program(program_id(*GAME), "game")
    forger.add(magic, data, **fields)
    forger.writer.finish()
    refused(tmp_path / "x", tmp_path, reason)
