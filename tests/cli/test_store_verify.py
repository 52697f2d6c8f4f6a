"""``pylayer verify`` and ``pylayer quarantine``: every kind of damage is found by name, repaired, and kept aside."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from cli import stores
from cli.stores import GAME, IDENTITY, OLD_DRIVER, OTHER, TOOL, Store, cell, flip
from cli.user import User
from unit.things import binary_read

from pylayer.identity import program_id
from pylayer.store import application_binaries, format, quarantine
from pylayer.store.folder import Folder
from pylayer.store.reader import Reader


@pytest.fixture
def store(user: User) -> Store:
    return stores.filled(user.store)


def one(store: Store, pattern: str) -> Path:
    (path,) = store.files(pattern)
    return path


def problems(user: User, *arguments: str) -> list[dict[str, Any]]:
    """What verify found wrong."""
    found = user.json("verify", *arguments, status=1)
    assert found["fine"] is False
    return found["problems"]  # type: ignore[no-any-return]


def rehash(head: bytes, salt: int = 0) -> bytes:
    """A record's header with the hash that its bytes have now, in a file with this salt."""
    body = head[: format.HASHED_RECORD_HEADER]
    return body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body, salt))


# ---- verify ----------------------------------------------------------------------------------------


def test_fine(user: User, store: Store) -> None:
    """A sound store is fine: every record and byte counted, and nothing of it changed."""
    found = user.json("verify")
    assert found["fine"] and found["problems"] == []
    assert found["file_bytes"] == store.sizes()
    assert found["records"] == 60 + 1 + 2 + 5 + 3  # pipelines, note, uses, the journal's, and single files
    assert found["bytes_per_s"] > 0 and found["files"] == 6
    assert "Everything is fine" in user.pylayer("verify").stdout


def change_truncated(store: Store) -> Path:
    path = one(store, "*.closed")
    os.truncate(path, path.stat().st_size - 100)
    return path


def change_extended(store: Store) -> Path:
    path = one(store, "*.pack")
    path.write_bytes(path.read_bytes() + b"\1" * 32)
    return path


def change_header(store: Store) -> Path:
    path = one(store, "*.closed")
    flip(path, 100)
    return path


def change_record_header(store: Store) -> Path:
    path = one(store, "*.closed")
    flip(path, format.FILE_HEADER.size + 20)
    return path


def change_data(store: Store) -> Path:
    path = one(store, "*.snapshot")
    flip(path, 2000)
    return path


def change_zeros(store: Store) -> Path:
    path = one(store, "*.closed")
    data = path.read_bytes()
    end = format.FILE_HEADER.size + format.record_size(len(stores.cell_data(0)))
    path.write_bytes(data[:end] + bytes(len(data) - end))
    return path


def change_empty(store: Store) -> Path:
    path = one(store, "*.blob")
    path.write_bytes(b"")
    return path


def change_foreign(store: Store) -> Path:
    other = Store(store.root, OLD_DRIVER).journal(OTHER, cell(1, identity=OLD_DRIVER))
    return other.rename(store.path / other.name)


def change_kind(store: Store) -> Path:
    path = one(store, "*.closed")
    return path.rename(path.with_suffix(".snapshot"))


def change_not_ours(store: Store) -> Path:
    path = one(store, "*.attest")
    path.write_bytes(b"MZ" + bytes(range(254)) * 2)
    return path


def change_unreadable(store: Store) -> Path:
    path = one(store, "*.blob")
    path.unlink()
    path.symlink_to(path.name)
    return path


def change_program(store: Store) -> Path:
    path = one(store, "*.closed")
    return path.rename(path.with_name(f"{1:016x}{path.name[16:]}"))


CHANGES: list[tuple[str, Callable[[Store], Path]]] = [
    ("truncated", change_truncated),
    ("extended", change_extended),
    ("damaged-header", change_header),
    ("damaged-header", change_record_header),
    ("damaged-data", change_data),
    ("zero-filled", change_zeros),
    ("empty", change_empty),
    ("foreign-identity", change_foreign),
    ("impossible", change_kind),
    ("not-a-store-file", change_not_ours),
    ("unreadable", change_unreadable),
    ("impossible", change_program),
]


@pytest.mark.parametrize(("outcome", "change"), CHANGES, ids=lambda value: getattr(value, "__name__", value))
def test_outcomes(user: User, store: Store, outcome: str, change: Callable[[Store], Path]) -> None:
    """Each kind of damage is one problem, with the file's name, and the exit status is 1."""
    path = change(store)
    (problem,) = problems(user)
    assert (problem["outcome"], problem["file"]) == (outcome, str(path))
    done = user.pylayer("verify")
    assert done.returncode == 1 and f"{outcome}" in done.stdout and path.name in done.stdout


def test_place(user: User, store: Store) -> None:
    """Damage to a record is told with its place in the file."""
    path = one(store, "*.closed")
    size = format.record_size(len(stores.cell_data(0)))
    flip(path, format.FILE_HEADER.size + 2 * size + 100)
    (problem,) = problems(user)
    assert (problem["offset"], problem["size_bytes"]) == (format.FILE_HEADER.size + 2 * size, size)
    assert f"at byte {format.FILE_HEADER.size + 2 * size}" in user.pylayer("verify").stdout


def test_every_part_of_a_pack(user: User, store: Store) -> None:
    """A flipped bit in a GRUP, a block, a note, INDX or GRPS of a pack is found, wherever it is."""
    path = one(store, "*.pack")
    whole = path.read_bytes()
    reader = Reader(str(path))
    at, magics = format.FILE_HEADER.size, set()
    while at < reader.size:
        head = format.RECORD_HEADER.unpack(reader.bytes_at(at, 64))
        magics.add(head[0])
        for offset in (at, at + 5, at + 63, *([at + 64 + head[3] // 2] if head[3] else [])):
            flip(path, offset)
            assert problems(user)
            path.write_bytes(whole)
        at += format.record_size(head[3])
    reader.close()
    assert magics == {format.GROUP, format.COMPRESSED, format.NOTE, format.USED, format.INDEX, format.GROUPS}


def test_index_that_lies(user: User, store: Store) -> None:
    """An index that verifies and says something else than the records is a problem."""
    path = one(store, "*.pack")
    data = bytearray(path.read_bytes())
    at = data.rfind(format.INDEX)
    size = format.RECORD_HEADER.unpack_from(data, at)[3]
    data[at + 64 + size - 4] ^= 1  # the last record's time of compiling
    head = bytearray(data[at : at + 64])
    head[24:40] = xxhash.xxh3_128_digest(bytes(data[at + 64 : at + 64 + size]))
    data[at : at + 64] = rehash(bytes(head), int.from_bytes(data[240:248], "little"))
    path.write_bytes(data)
    (problem,) = problems(user)
    assert problem["outcome"] == "impossible" and "INDX" in problem["detail"]


def test_identity_file(user: User, store: Store) -> None:
    """A description that is missing or is not the folder's is a problem; a wrong one goes to quarantine."""
    path = store.path / "identity"
    text = path.read_text()
    path.write_text(text.replace("25.0.7", "25.0.8"))
    (problem,) = problems(user)
    assert problem["file"] == str(path) and problem["outcome"] == "damaged-data"
    done = user.pylayer("verify", "--repair")
    assert done.returncode == 1 and "identity file" in done.stdout
    assert not path.exists() and len(quarantine.items(str(user.store))) == 1
    (problem,) = problems(user)
    assert problem["outcome"] == "unreadable"


def test_tail_that_is_being_written(user: User, store: Store) -> None:
    """The torn end of a journal whose writer lives is no problem, and of one that has ended it is."""
    path = store.journal(TOOL, cell(300), cell(301), alive=True)
    os.truncate(path, path.stat().st_size - 50)
    found = user.json("verify")
    assert found["fine"] and [what["file"] for what in found["being_written"]] == [str(path)]
    assert "its end is being written" in user.pylayer("verify").stdout.replace("\n", " ")
    dead = store.file(".journal", TOOL, cell(302), cell(303))
    os.truncate(dead, dead.stat().st_size - 50)
    assert [problem["outcome"] for problem in problems(user)] == ["truncated"]


def test_other_versions(user: User, store: Store) -> None:
    """Files of older and newer versions are listed, are no problem, and are not touched by a repair."""
    old = store.path / f"{program_id(*TOOL):016x}-1.journal"
    old.write_bytes(b"PYLAYERJ" + struct.pack("<I", 1) + bytes(500))
    new = store.path / f"{program_id(*TOOL):016x}-2.closed"
    new.write_bytes(format.MAGIC + struct.pack("<I", format.VERSION + 1) + os.urandom(500))
    found = user.json("verify", "--repair")
    assert found["fine"] and {what["file"] for what in found["other_versions"]} == {str(old), str(new)}
    assert "2 files of another version" in user.pylayer("verify").stdout
    assert old.exists() and new.exists()


def test_selection(user: User, store: Store) -> None:
    """--app and --identity verify what they name, and no other program's damage is told."""
    change_data(store)  # the tool's snapshot
    assert user.json("verify", "--app", "game*")["records"] > 40
    assert user.json("verify", "--identity", OLD_DRIVER.name[:6])["files"] == 0
    assert problems(user, "--app", "tool")


# ---- repair ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [change for _, change in CHANGES if change is not change_unreadable])
def test_repair(user: User, store: Store, change: Callable[[Store], Path]) -> None:
    """--repair keeps damage aside and everything else; afterwards the store is fine and the exit status 0."""
    before = {program: set(store.loaded(program)) for program in (GAME, TOOL)}
    change(store)
    # Under another kind's name a file is not folded; under another program's it is, for the one in its header.
    left = {program: set(store.loaded(program)) for program in (GAME, TOOL) if change is not change_kind}
    done = user.json("verify", "--repair")
    assert done["repair"]["quarantined"] == (change is not change_program)
    assert done["repair"]["problems_left"] == [] and user.json("verify")["fine"]
    for program in (GAME, TOOL):
        assert left.get(program, set()) <= set(store.loaded(program)) <= before[program]


def test_repair_of_a_pack_without_its_directory(user: User, store: Store) -> None:
    """A pack whose directory is damaged loses no record, and each program keeps exactly what was its own."""
    expected = {program: store.loaded(program) for program in (GAME, TOOL)}
    path = one(store, "*.pack")
    flip(path, path.stat().st_size - 20)
    assert {program: store.loaded(program) for program in (GAME, TOOL)} == expected
    assert user.json("verify", "--repair")["repair"]["problems_left"] == []
    assert {program: store.loaded(program) for program in (GAME, TOOL)} == expected


@pytest.mark.parametrize("place", [0, 20, 100])
def test_repair_keeps_a_whole_block(user: User, store: Store, place: int) -> None:
    """Of a compressed block that does not verify all bytes are kept aside, a damaged header's too."""
    path = one(store, "*.pack")
    data = path.read_bytes()
    at = data.index(format.COMPRESSED)
    size = format.record_size(format.RECORD_HEADER.unpack_from(data, at)[3])
    flip(path, at + place)
    user.pylayer("verify", "--repair")
    (item,) = quarantine.items(str(user.store))
    changed = bytearray(data[at : at + size])
    changed[place] ^= 1
    assert Path(item.path).read_bytes() == changed and item.offset == at


def test_repair_while_another_folds(user: User, store: Store) -> None:
    """A folder that a living process folds is left to it, and that is said with status 1."""
    from pylayer.store.claim import Claim

    change_record_header(store)
    claim = Claim(store.folder)
    assert claim.take()
    done = user.pylayer("verify", "--repair")
    assert done.returncode == 1 and "folded by another process" in done.stdout.replace("\n", " ")
    claim.drop()


# ---- quarantine ------------------------------------------------------------------------------------


def put_aside(store: Store, path: Path) -> quarantine.Item:
    """A file in quarantine, as a process that found it damaged leaves it."""
    quarantine.move_file(str(store.root), format.Damage(str(path), "damaged-data"))
    return quarantine.items(str(store.root))[-1]


def test_quarantine_ls(user: User, store: Store) -> None:
    """What is in quarantine is listed with the reason, where it was, and its size."""
    path = change_data(store)
    size = path.stat().st_size
    user.pylayer("verify", "--repair")
    (item,) = user.json("quarantine", "ls")["items"]
    assert item["source"] == str(path.relative_to(user.store)) and item["whole_file"] is True
    assert (item["outcome"], item["bytes"]) == ("damaged-data", size)
    text = user.pylayer("quarantine", "ls").stdout
    assert path.name in text and "data that does not match its hash" in text


def test_restore(user: User, store: Store) -> None:
    """A file that verifies now goes back to where it was, and is loaded again."""
    path = one(store, "*.closed")
    data, expected = path.read_bytes(), store.loaded(GAME)
    item = put_aside(store, path)
    assert store.loaded(GAME) != expected
    done = user.json("quarantine", "restore", item.name)
    assert done["restored"] is True and done["file"] == str(path)
    assert path.read_bytes() == data and store.loaded(GAME) == expected
    assert user.json("quarantine", "ls")["items"] == []


def test_restore_of_a_pack(user: User, store: Store) -> None:
    """A pack goes back by the second half of its name, too."""
    path = one(store, "*.pack")
    item = put_aside(store, path)
    assert user.pylayer("quarantine", "restore", item.name.partition("-")[2][:8]).returncode == 0
    assert path.exists()


def test_restore_of_damage(user: User, store: Store) -> None:
    """A file that is still damaged is not put back; the reason is told, and --to writes it out as it is."""
    path = change_data(store)
    data = path.read_bytes()
    item = put_aside(store, path)
    done = user.pylayer("quarantine", "restore", item.name)
    assert done.returncode == 1 and "damaged-data" in done.stderr and done.stderr.count("\n") == 1
    assert not path.exists()
    target = user.directory / "out.bin"
    assert user.json("quarantine", "restore", item.name, "--to", target)["restored"] is False
    assert target.read_bytes() == data and len(quarantine.items(str(user.store))) == 1
    again = user.pylayer("quarantine", "restore", item.name, "--to", target)
    assert again.returncode == 1 and "there already" in again.stderr


def test_restore_where_a_file_is(user: User, store: Store) -> None:
    """A file that is there again is not overwritten."""
    path = one(store, "*.closed")
    item = put_aside(store, path)
    path.write_bytes(b"another")
    done = user.pylayer("quarantine", "restore", item.name)
    assert done.returncode == 1 and path.read_bytes() == b"another"


def test_restore_of_a_part(user: User, store: Store) -> None:
    """A part of a file cannot go back; --to writes it out."""
    change_record_header(store)
    user.pylayer("verify", "--repair")
    (item,) = quarantine.items(str(user.store))
    done = user.pylayer("quarantine", "restore", item.name)
    assert done.returncode == 1 and "--to FILE" in done.stderr


@pytest.mark.parametrize(
    "source", ["../../etc/passwd", "store/../x/y.pack", "store/" + "a" * 32 + "/..", "runs/x.run", ""]
)
def test_restore_to_elsewhere(user: User, store: Store, source: str) -> None:
    """A reason that names a place outside the folders of pipelines puts nothing there."""
    item = put_aside(store, one(store, "*.closed"))
    reason = Path(item.path).with_suffix(".reason")
    reason.write_text("outcome=s:empty\nwhole_file=b:1\n" + f"source=s:{source}\n")
    done = user.pylayer("quarantine", "restore", item.name)
    assert done.returncode == 1 and "--to FILE" in done.stderr
    assert Path(item.path).exists()


def test_ambiguous_name(user: User, store: Store) -> None:
    """A beginning of several names is wrong use and lists them; of none, a failure."""
    for pattern in ("*.blob", "*.attest"):
        put_aside(store, one(store, pattern))
    done = user.pylayer("quarantine", "restore", "1")
    assert done.returncode == 2 and "2 names" in done.stderr
    assert user.pylayer("quarantine", "restore", "nothing").returncode == 1


def test_empty(user: User, store: Store) -> None:
    """empty deletes everything in quarantine, after --yes where there is no terminal; --dry-run only says so."""
    for pattern in ("*.blob", "*.attest"):
        put_aside(store, one(store, pattern))
    assert user.json("quarantine", "empty", "--dry-run")["items"] == 2
    done = user.pylayer("quarantine", "empty")
    assert done.returncode == 2 and "--yes" in done.stderr
    assert len(quarantine.items(str(user.store))) == 2
    assert user.json("quarantine", "empty", "--yes")["removed"] == 2
    assert list((user.store / "quarantine").iterdir()) == []


def test_identities_are_apart(user: User, store: Store) -> None:
    """A repair folds the folder that has damage, and no other one."""
    other = Store(user.store, OLD_DRIVER)
    journal = other.journal(OTHER, cell(1, identity=OLD_DRIVER))
    change_record_header(store)
    assert user.json("verify", "--repair")["repair"]["problems_left"] == []
    assert journal.exists() and Folder(str(user.store), IDENTITY).files(None, (".closed",)) == []


@pytest.mark.parametrize("suffix", [".attest", ".binaries"])
def test_torn_end_is_cut(user: User, store: Store, suffix: str) -> None:
    """What a writer that died left half written is kept aside by --repair, and the file has the rest."""
    whole = stores.record(format.ATTEST, bytes(format.ATTESTATION.size))
    if suffix == ".binaries":
        whole = b"".join(application_binaries.record_parts(binary_read(b"one"), memoryview(b"one")))
    path = store.file(suffix, GAME, whole, whole[:-20])
    size = path.stat().st_size - len(whole) + 20
    assert user.pylayer("verify").returncode == 1
    done = user.json("verify", "--repair")
    assert done["repair"]["quarantined"] == 1 and done["repair"]["problems_left"] == []
    assert path.stat().st_size == size and user.pylayer("verify").returncode == 0
    (item,) = quarantine.items(str(user.store))
    assert Path(item.path).read_bytes() == whole[:-20]


@pytest.mark.parametrize("suffix", [".attest", ".binaries", ".suspects"])
def test_file_cut_in_its_header(user: User, store: Store, suffix: str) -> None:
    """Of a file that is appended to and has lost its header nothing is left: it goes to quarantine."""
    path = store.file(suffix, GAME)
    path.write_bytes(path.read_bytes()[:100])
    assert user.pylayer("verify").returncode == 1
    done = user.json("verify", "--repair")
    assert done["repair"]["quarantined"] == 1 and done["repair"]["problems_left"] == [] and not path.exists()


def test_damaged_note_of_a_death(user: User, store: Store) -> None:
    """A note of what a program died over that is damaged goes to quarantine like any file that is not folded."""
    path = store.file(".suspects", GAME, stores.note(death="1-2-3", time=1.0))
    flip(path, 300)
    assert user.pylayer("verify").returncode == 1
    done = user.json("verify", "--repair")
    assert done["repair"]["quarantined"] == 1 and done["repair"]["problems_left"] == [] and not path.exists()


# ---- what programs died over -----------------------------------------------------------------------


def test_deaths_are_listed_and_forgotten(user: User, store: Store) -> None:
    """What is set aside after a crash is listed with the program's name, verifies, and is forgotten on demand."""
    values = {"death": "1-2-3", "program": "game \x1b[2J", "time": time.time(), "pipelines": ["b"], "records": []}
    store.file(".suspects", GAME, stores.note(**values))
    listed = user.pylayer("quarantine", "ls").stdout
    assert "died while the driver created pipelines: what is stored of 1 pipeline set aside" in listed
    assert "\x1b" not in listed
    (shelf,) = user.json("quarantine", "ls")["suspects"]
    assert [death["pipelines"] for death in shelf["deaths"]] == [1] and not shelf["left_alone"]
    assert user.pylayer("verify").returncode == 0
    assert user.json("quarantine", "forget", "--dry-run")["deaths"] == 1
    assert user.json("quarantine", "forget", "--yes")["left"] == 0
    assert user.json("quarantine", "ls")["suspects"] == []
