"""``pylayer ls`` and ``ls --verify``, what all commands of the store have in common, and the system's store."""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli import stores
from cli.stores import GAME, IDENTITY, OLD_DRIVER, OTHER, TOOL, Store, cell
from cli.user import User
from others import open_to_all
from unit.things import binaries, flip, program_id, record

from pylayer.store import block_list, folder, format
from pylayer.store.checking import Checked
from pylayer.store.compaction import Claim


def tree(user: User) -> dict[str, bytes]:
    """Returns every file of the store with its content."""
    return {str(path): path.read_bytes() for path in user.store.rglob("*") if path.is_file()}


# ---- ls --------------------------------------------------------------------------------------------


def added_up(found: dict[str, Any]) -> int:
    """Returns the sum of all rows of ``ls --json`` and of the bytes that belong to no program."""
    rows = [row["bytes"] for partition in found["identities"] for row in partition["programs"]]
    rest = sum(partition["other_bytes"] for partition in found["identities"])
    return sum(rows) + rest


def test_ls_counts_every_byte(user: User, store: Store) -> None:
    """A row has the program's pipelines and files. Rows and other files add up to the size of all files below the
    drivers' folders, to the byte."""
    (partition,) = user.json("ls")["identities"]
    rows = {row["program"]: row for row in partition["programs"]}
    game = rows["game (The Game)"]
    assert game["pipelines"] == 40 + 5 and rows["tool"]["pipelines"] == 30 and game["files"] == 3
    assert stores.NOW <= game["last_used_s"] <= time.time() and partition["fields"] == IDENTITY.fields
    old = Store(user.store, OLD_DRIVER)
    old.journal(OTHER, *(cell(number, identity=OLD_DRIVER) for number in range(5)))
    store.journal(TOOL, cell(200), alive=True)
    (store.path / "left.pack.1.tmp").write_bytes(b"x" * 17)
    found = user.json("ls")
    assert added_up(found) == store.sizes() == found["store_bytes"]
    for partition in found["identities"]:
        folder = user.store / "store" / partition["identity"]
        assert partition["bytes"] == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_ls_counts_damaged_packs(user: User, store: Store) -> None:
    """A pack whose header is damaged counts in full and is listed as unusable. So does a driver's folder without an
    identity file."""
    pack = store.files("*.pack")[0]
    flip(pack, 100)
    found = user.json("ls")
    assert added_up(found) == store.sizes()
    assert found["identities"][0]["unusable_files"] == {pack.name: "damaged-header"}
    (store.path / "identity").unlink()
    assert added_up(user.json("ls")) == store.sizes()
    said = user.says("ls")
    assert "cannot be used" in said and "identity file is missing" in said


def test_ls_reads_no_pipeline(user: User, store: Store) -> None:
    """What ls says is from headers and tables, so it takes no longer for a large store. --verify reads all."""
    pack = next(path for path in store.files("*.pack") if path.name.startswith(f"{program_id(*GAME):016x}"))
    before = user.json("ls")["identities"]
    flip(pack, pack.read_bytes().index(stores.cell_data(7)) + 500)
    assert user.json("ls")["identities"] == before
    problems = user.json("ls", "--verify", status=1)["problems"]
    assert "damaged-data" in {problem["outcome"] for problem in problems}


def test_ls_app(user: User, store: Store) -> None:
    """A name selects the programs that are shown by it, whole or up to the parentheses, or by their number. Only with *
    or ? it is a pattern, in any case."""
    number = f"{stores.program_id(*TOOL):016x}"
    for name in ("tool", "TO*", number):
        (partition,) = user.json("ls", name)["identities"]
        assert [row["program"] for row in partition["programs"]] == ["tool"]
    for name in ("game", "game (The Game)", "*the game*", "g?me"):
        assert user.json("ls", name)["identities"][0]["programs"][0]["program"] == "game (The Game)"


def test_ls_identity(user: User, store: Store) -> None:
    """--identity selects the drivers with this prefix."""
    Store(user.store, OLD_DRIVER).journal(OTHER, cell(1, identity=OLD_DRIVER))
    found = user.json("ls", "--identity", OLD_DRIVER.name[:8].upper())
    assert [partition["identity"] for partition in found["identities"]] == [OLD_DRIVER.name]


def test_ls_names_the_device(user: User, store: Store) -> None:
    """The device has the name that a run recorded. If no run did, such as after an import, it is their numbers."""
    assert "vendor 0x1002 device 0x73bf\n" in user.pylayer("ls").stdout
    stores.write_run(user.store, IDENTITY, device="A fine device")
    assert "A fine device\nradv, Mesa 25.0.7; identity" in user.pylayer("ls").stdout


def test_ls_limits(user: User, store: Store) -> None:
    """ls shows the policy file's limits. If the file cannot be used, ls says so."""
    config = user.policy_file
    config.write_text("max_store_mib: 12\n")
    found = user.json("ls")
    assert found["max_store_bytes"] == 12 << 20
    assert "of at most 12.0 MiB" in user.pylayer("ls").stdout
    config.write_text("max_store_mib: many\n")
    assert "policy.yaml, line 1" in user.pylayer("ls").stdout


# ---- all commands ----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["ls", "ls game*", f"ls {IDENTITY.name}", "ls --verify", "rm game* --dry-run"])
def test_what_only_reads(user: User, store: Store, words: str) -> None:
    """Commands that only read, and every --dry-run, leave each file of the store unchanged, byte for byte."""
    before = tree(user)
    assert user.says(*words.split()) and tree(user) == before


def test_names_of_nobody(user: User, store: Store) -> None:
    """Files with names that pylayer never uses are counted, and no command fails because of them."""
    for name in ("x.journal", "zzzzzzzzzzzzzzzz-1.closed", "1234567890abcdef-.attest", "-.pack"):
        (store.path / name).write_bytes(b"what is this")
    assert added_up(user.json("ls")) == store.sizes()
    for command in ("ls game*", "ls --verify", "export x --app game*", "rm game* --yes", "trim"):
        assert user.pylayer(*command.split()).returncode in (0, 1), command
    assert user.pylayer("rm", "--all", "--yes").returncode == 0 and not store.path.exists()


def test_store_that_cannot_be_read(user: User, store: Store) -> None:
    """A FIFO or a link loop in the place of a file is reported as unreadable and stops no command."""
    os.mkfifo(store.path / f"{7:016x}-pipe.journal")
    (store.path / f"{7:016x}-loop.pack").symlink_to(f"{7:016x}-loop.pack")
    assert user.pylayer("ls").returncode == 0
    done = user.json("ls", "--verify", status=1)
    assert sorted(problem["outcome"] for problem in done["problems"]) == ["unreadable"] * 2


# ---- The system's store --------------------------------------------------------------------------


@pytest.fixture
def system(user: User, tmp_path: Path) -> Path:
    """Fills the system's store with pipelines of another machine, as docs/containers.md says. Returns its root."""
    directory = tmp_path / "builder"
    directory.mkdir()
    builder = User(directory, "test")
    builder.demo(5)
    assert builder.pylayer("export", "app.pylayer", "--app", "pipelines").returncode == 0
    root = Path(user.environment["PYLAYER_SYSTEM_STORE"])
    done = user.pylayer("import", builder.directory / "app.pylayer", PYLAYER_STORE=str(root))
    assert done.returncode == 0, done.stderr
    return root


def doctor(user: User) -> dict[str, str] | None:
    checks = {check["name"]: check for check in user.json("doctor")["checks"]}
    return checks.get("system store")


def test_a_user_compiles_nothing(user: User, system: Path) -> None:
    """A user's first run compiles nothing, and stats says so. ls names the system's store, which ls and verify read as
    any store."""
    user.demo(5)
    (total,) = user.json("stats")["programs"]
    assert (total["hits"], total["compiled"]) == (5, 0)
    assert f"PYLAYER_STORE={system} pylayer ls\n" in user.pylayer("ls").stdout
    listed = user.json("ls", PYLAYER_STORE=str(system))["identities"]
    assert [program["pipelines"] for partition in listed for program in partition["programs"]] == [5]
    assert user.pylayer("ls", "--verify", PYLAYER_STORE=str(system)).returncode == 0


def test_doctor(user: User, system: Path) -> None:
    """doctor counts the packs that this user can use, and names one that it cannot, with what to do. Its trial programs
    do not use them."""
    found = doctor(user)
    assert found and (found["status"], found["found"]) == ("ok", f"{system}: 1 pack can be used")
    (pack,) = system.glob("store/*/*.pack")
    open_to_all(pack)
    found = doctor(user)
    assert found and found["status"] == "warning" and str(pack) in found["found"]
    assert found["found"].startswith(f"{system}: 0 packs can be used, not ") and "chmod" in found["advice"]
    system.rename(system.parent / "gone")
    assert doctor(user) is None


# ---- ls --verify ---------------------------------------------------------------------------------


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
    ("impossible", edit("*.closed", lambda data: data + record(binaries(b"x")[:-16], format.BINARIES))),
]


def test_identity_file(user: User, store: Store) -> None:
    """An identity file that is missing or does not match its folder is a problem. A program writes it anew."""
    path = store.path / "identity"
    text = path.read_text()
    path.write_text(text.replace("25.0.7", "25.0.8"))
    (problem,) = problems(user)
    assert problem["file"] == str(path) and problem["outcome"] == "damaged-data"
    store.mend()
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
    store.mend()
    assert found["fine"] and [what["file"] for what in found["other_versions"]] == [str(new)]
    assert "1 file of another version" in user.pylayer("ls", "--verify").stdout
    assert new.exists()


# ---- repair ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["a run", "--repair", "trim"])
@pytest.mark.parametrize(("outcome", "change"), CHANGES)
def test_damage(user: User, store: Store, outcome: str, change: Change, by: str) -> None:
    """Each kind of damage is one problem with the file's name, and the exit status is 1. A run, ``--repair`` and
    ``trim`` keep the records in packs and journals that verify, and delete damaged files. Afterwards the store is
    fine, unless the file cannot be read."""
    before = {program: set(store.loaded(program)) for program in (GAME, TOOL)}
    path = change(store)
    # A compaction ignores files with the suffix of another kind.
    left = {program: set(store.loaded(program)) for program in (GAME, TOOL) if change is not change_kind}
    (problem,) = problems(user)
    assert (problem["outcome"], problem["file"]) == (outcome, str(path))
    said = user.pylayer("ls", "--verify").stdout
    assert outcome in said and path.name in said
    if by == "a run":
        store.mend()
    else:
        user.pylayer(*(["trim"] if by == "trim" else ["ls", "--verify", "--repair"]))
    unreadable = change is change_unreadable
    assert user.json("ls", "--verify", status=int(unreadable))["fine"] is not unreadable
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
