"""``pylayer ls --verify`` names every kind of damage. A run, `--repair` and ``pylayer trim`` repair it."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli import stores
from cli.stores import GAME, OLD_DRIVER, OTHER, TOOL, Store, cell
from cli.user import User
from unit.things import program_id

from pylayer.common.settings import Limits
from pylayer.store import block_list, folder, format
from pylayer.store.checking import Checked
from pylayer.store.compaction import Claim
from pylayer.store.maintenance import maintain

#: The game's pack.
PACK = f"{program_id(*GAME):016x}-*.pack"


def one(store: Store, pattern: str) -> Path:
    (path,) = store.files(pattern)
    return path


def problems(user: User, *arguments: str) -> list[dict[str, Any]]:
    """Returns the problems that verify found."""
    found = user.json("ls", "--verify", *arguments, status=1)
    assert found["fine"] is False
    return found["problems"]  # type: ignore[no-any-return]


def mend(store: Store) -> None:
    """Repairs what is damaged, as a run does while it is idle."""
    report = Checked(str(store.root))
    assert [*report.steps(lambda name: name == store.path.name, None)]
    assert [*maintain(store.folder, report.problems, Limits(1 << 40), lambda text: None)]


# ---- verify ----------------------------------------------------------------------------------------


def test_fine(user: User, store: Store) -> None:
    """A sound store verifies: every record and byte is counted, and no file is changed."""
    found = user.json("ls", "--verify")
    assert found["fine"] and found["problems"] == []
    assert found["file_bytes"] == store.sizes()
    assert found["records"] == 70 + 2 + 5 + 1  # pipelines, uses, the journal's, and the attestation
    assert found["files"] == 5
    assert "Everything is fine" in user.pylayer("ls", "--verify").stdout


Change = Callable[[Store], Path]


def edit(pattern: str, change: Callable[[bytes], bytes]) -> Change:
    """Changes the content of the only file of this name."""

    def edited(store: Store) -> Path:
        path = one(store, pattern)
        path.write_bytes(change(path.read_bytes()))
        return path

    return edited


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def change_foreign(store: Store) -> Path:
    other = Store(store.root, OLD_DRIVER).journal(OTHER, cell(1, identity=OLD_DRIVER))
    return other.rename(store.path / other.name)


def change_kind(store: Store) -> Path:
    path = one(store, "*.closed")
    return path.rename(path.with_suffix(".attest"))


def change_unreadable(store: Store) -> Path:
    path = one(store, "*.attest")
    path.unlink()
    path.symlink_to(path.name)
    return path


def change_program(store: Store) -> Path:
    path = one(store, "*.closed")
    return path.rename(path.with_name(f"{1:016x}{path.name[16:]}"))


change_record_header = edit("*.closed", flipped(format.FILE_HEADER.size + 20))
change_data = edit("*.attest", flipped(format.FILE_HEADER.size + 100))
change_pack = edit(PACK, lambda data: flipped(data.index(stores.cell_data(7)) + 500)(data))
change_empty = edit("*.attest", lambda data: b"")
#: The end of the journal's first record.
FIRST_END = format.FILE_HEADER.size + format.record_size(len(stores.cell_data(0)))

CHANGES: list[tuple[str, Change]] = [
    ("truncated", edit(PACK, lambda data: data[:-100])),
    ("extended", edit(PACK, lambda data: data + b"\1" * 32)),
    ("damaged-header", edit("*.closed", flipped(100))),
    ("damaged-header", change_record_header),
    ("damaged-data", change_data),
    ("damaged-data", change_pack),
    ("zero-filled", edit("*.closed", lambda data: data[:FIRST_END] + bytes(len(data) - FIRST_END))),
    ("empty", change_empty),
    ("foreign-identity", change_foreign),
    ("impossible", change_kind),
    ("not-a-store-file", edit("*.attest", lambda data: b"MZ" + bytes(range(254)) * 2)),
    ("unreadable", change_unreadable),
    ("impossible", change_program),
]


@pytest.mark.parametrize(("outcome", "change"), CHANGES)
def test_outcomes(user: User, store: Store, outcome: str, change: Change) -> None:
    """Each kind of damage is one problem with the file's name, and the exit status is 1."""
    path = change(store)
    (problem,) = problems(user)
    assert (problem["outcome"], problem["file"]) == (outcome, str(path))
    done = user.pylayer("ls", "--verify")
    assert done.returncode == 1 and f"{outcome}" in done.stdout and path.name in done.stdout


def test_identity_file(user: User, store: Store) -> None:
    """An identity file that is missing or does not match its folder is a problem. A program writes it anew."""
    path = store.path / "identity"
    text = path.read_text()
    path.write_text(text.replace("25.0.7", "25.0.8"))
    (problem,) = problems(user)
    assert problem["file"] == str(path) and problem["outcome"] == "damaged-data"
    mend(store)
    assert user.json("ls", "--verify")["fine"] and path.read_text() == text
    path.unlink()
    (problem,) = problems(user)
    assert problem["outcome"] == "unreadable"


def test_identity_file_that_cannot_be_read(user: User, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the disk while verify reads an identity file is said as such."""
    path = store.path / "identity"

    def fail(name: str, limit: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error", name)

    found = Checked(str(user.store))
    monkeypatch.setattr(folder, "read_small", fail)
    assert [*found.steps(lambda name: name == store.path.name, None)]
    assert [(what.path, what.outcome) for what in found.damage] == [(str(path), "unreadable")]


def test_tail_that_is_being_written(user: User, store: Store) -> None:
    """The torn end of a journal is no problem: its writer still runs, or was killed."""
    paths = [store.journal(TOOL, cell(300), cell(301), alive=alive) for alive in (True, False)]
    for path in paths:
        os.truncate(path, path.stat().st_size - 50)
    found = user.json("ls", "--verify")
    assert found["fine"] and {what["file"] for what in found["torn_ends"]} == {str(path) for path in paths}
    assert "the file ends inside a record" in user.pylayer("ls", "--verify").stdout.replace("\n", " ")


def test_newer_version(user: User, store: Store) -> None:
    """A file of a newer version is listed. It is no problem, and a run does not touch it."""
    new = store.path / f"{program_id(*TOOL):016x}-2.closed"
    new.write_bytes(format.MAGIC + struct.pack("<I", format.VERSION + 1) + os.urandom(500))
    found = user.json("ls", "--verify")
    mend(store)
    assert found["fine"] and [what["file"] for what in found["other_versions"]] == [str(new)]
    assert "1 file of another version" in user.pylayer("ls", "--verify").stdout
    assert new.exists()


# ---- repair ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["a run", "--repair", "trim"])
@pytest.mark.parametrize("change", [change for _, change in CHANGES if change is not change_unreadable])
def test_repair(user: User, store: Store, change: Change, by: str) -> None:
    """A run, ``--repair`` and ``trim`` keep the records in packs and journals that verify, and delete damaged files.
    Afterwards the store is fine."""
    before = {program: set(store.loaded(program)) for program in (GAME, TOOL)}
    change(store)
    # A compaction ignores files with the suffix of another kind.
    left = {program: set(store.loaded(program)) for program in (GAME, TOOL) if change is not change_kind}
    if by == "a run":
        mend(store)
    elif by == "trim":
        assert user.pylayer("trim").returncode == 0
    else:
        assert user.json("ls", "--verify", "--repair")["fine"]
    assert user.json("ls", "--verify")["fine"]
    for program in (GAME, TOOL):
        assert left.get(program, set()) <= set(store.loaded(program)) <= before[program]


def test_repair_while_another_compaction(user: User, store: Store) -> None:
    """What cannot be repaired now stays, and is not said to be repaired."""
    path = change_pack(store)
    claim = Claim(store.folder)
    assert claim.acquire()
    done = user.pylayer("ls", "--verify", "--repair")
    claim.release()
    assert done.returncode == 1 and "Repaired: 0 of 1 problem." in done.stdout and path.exists()
    assert "Repaired: 1 of 1 problem." in user.pylayer("ls", "--verify", "--repair").stdout


# ---- blocks ----------------------------------------------------------------------------------------


def test_verdicts_are_listed_and_forgotten(user: User, store: Store) -> None:
    """What is blocked or switched off is listed with the program's name, its reason and its end. The file verifies,
    and `rm --blocks` ends it."""
    records = [stores.verdict(subject=number, found_ns=5) for number in (1, 2)]
    store.file(".verdict", ("game \x1b[2J", ""), *records, stores.verdict(block_list.STUB, flags=0))
    listed = user.pylayer("ls").stdout
    assert "stored records are blocked (2), because the program died" in listed and "; until 2" in listed
    assert "this is not decided yet" in listed and "\x1b" not in listed
    found = user.json("ls")["blocks"]
    assert [(one["type"], one["state"]) for one in found] == [("record", "in force"), ("stub", "evidence")]
    assert user.pylayer("ls", "--verify").returncode == 0
    store.file(".verdict", TOOL, stores.verdict())
    assert "Would remove 2 blocks:\n" in user.pylayer("rm", "game*", "--blocks", "--dry-run").stdout
    assert "Remove 2 blocks:\n" in user.pylayer("rm", "game*", "--blocks", "--yes").stdout
    assert [one["program"] for one in user.json("ls")["blocks"]] == ["tool"]
    assert "Remove 1 block:\n" in user.pylayer("rm", "--all", "--blocks", "--yes").stdout
    assert user.json("ls")["blocks"] == []
