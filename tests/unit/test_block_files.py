"""The crash marker of a process that died: the fewest records that explain the death are blocked, for its program
alone, and are later used again. The files of blocks, and what is compiled from them for the layer."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import xxhash
from unit.things import program_id

from pylayer.common import file_kinds, owner
from pylayer.common.files import unique_name
from pylayer.store import block_files, block_list, crash_marker, deaths, decisions, format
from pylayer.store.block_list import (
    ADDED_CALL,
    APPLICATION,
    DAY,
    DECIDED,
    LAYER_OFF,
    PIPELINE,
    RECORD,
    STUB,
    Block,
    BlockList,
)
from pylayer.store.folder import Folder
from pylayer.values import MODE_BINARIES, MODE_CELLS, MODE_OBSERVE

#: The program of the sessions here.
PROGRAM = program_id("stutter", "Stutter")
NOW = int(time.time())


def death(folder: Folder, machine: bytes | None = None) -> Path:
    """Writes what a process leaves that died over the pipeline 11. Its pid belongs to no process."""
    head = format.file_header(file_kinds.LIVE.magic, folder.identity, PROGRAM, "a game", salt=0)
    fields = list(format.FILE_HEADER.unpack(head))
    fields[17:19] = [machine or owner.this_process()[0], (1 << 22) + 7]
    head = format.FILE_HEADER.pack(*fields)[: format.HASHED_FILE_HEADER]
    mark = crash_marker.MARK.pack(crash_marker.PIPELINES, 0, 1, 0, 11, *[0] * 13)
    data = head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head)) + mark
    path = Path(folder.path, f"{PROGRAM:016x}-{unique_name()}{file_kinds.LIVE}")
    path.write_bytes(data + bytes(crash_marker.BYTES - len(data)))
    return path


def fingerprints(known: BlockList) -> list[int]:
    """Returns the pipelines that are created without stored data."""
    return sorted(one.subject for one in known.in_force(PIPELINE))


def reviewed(folder: Folder) -> BlockList:
    """Returns what is decided for the program after a start that looked for deaths."""
    found = deaths.review(folder, False)
    return found.get(PROGRAM) or block_files.read(folder, PROGRAM)


# ---- marks ---------------------------------------------------------------------------------------


def test_layout_is_the_layers() -> None:
    """The numbers here match shim/boundary.h."""
    text = Path(__file__).parents[2].joinpath("shim", "boundary.h").read_text()
    for name, value in {
        "PYLAYER_MARK_COUNT": (crash_marker.RUN_OFFSET - crash_marker.OFFSET) // crash_marker.MARK.size,
        "PYLAYER_BLOCKED": block_list.MAX_ENTRIES,
    }.items():
        assert f"#define {name} {value}" in text


def test_file_system_without_leases(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel does not say whether a crash marker is mapped, that of a process elsewhere is left alone for a
    day."""
    monkeypatch.setattr(crash_marker, "_state_of_mapping", lambda fd: owner.ELSEWHERE)
    other = death(folder, b"another machine!")
    assert not reviewed(folder).entries and other.exists()
    os.utime(other, (time.time() - 25 * 3600,) * 2)
    assert fingerprints(reviewed(folder)) == [11] and not other.exists()


# ---- what is blocked, and comes back --------------------------------------------------------------


def at(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Moves the clock of blocks ahead of the real one by this many seconds."""
    ahead = SimpleNamespace(time=lambda: time.time() + seconds, time_ns=lambda: time.time_ns() + int(seconds * 1e9))
    monkeypatch.setattr(block_list, "time", ahead)


def test_suspicion_ends(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 14 days, blocked records are used again. Twice as long later they are forgotten."""
    death(folder)
    assert fingerprints(reviewed(folder)) == [11]
    at(monkeypatch, 14 * DAY + 60)
    assert fingerprints(block_files.read(folder, PROGRAM)) == []
    at(monkeypatch, 29 * DAY)
    block_files.write(folder, PROGRAM, "a game", [])
    assert folder.files(None, (file_kinds.VERDICT,)) == []


def test_two_starts_find_the_same_death(folder: Folder) -> None:
    """If two processes record the same death, it counts once."""
    path = death(folder)
    data = path.read_bytes()
    reviewed(folder)
    path.write_bytes(data)
    assert reviewed(folder).entries[PIPELINE, 0, 11].runs == 1


# ---- files ---------------------------------------------------------------------------------------


def verdict(subject: int = 11, type: int = PIPELINE, **changes: int) -> Block:
    """Returns a block that was just decided."""
    now = time.time_ns()
    values = {"kind": 0, "runs": 1, "flags": DECIDED, "decided_ns": now, "until_s": now // 10**9 + DAY, "found_ns": now}
    return Block(type=type, subject=subject, **{**values, **changes})


def test_files_become_one(folder: Folder) -> None:
    """A writer combines all files of the program. The newest decision counts, whoever wrote it."""
    for subject in (11, 12):
        block_files.write(folder, PROGRAM, "a game", [verdict(subject)])
    block_files.write(folder, 77, "another", [verdict(13)])
    assert len(folder.files(None, (file_kinds.VERDICT,))) == 2
    assert fingerprints(block_files.read(folder, PROGRAM)) == [11, 12]
    old = verdict(11, decided_ns=5)
    block_files.write(folder, PROGRAM, "a game", [verdict(11, until_s=0), old])
    assert fingerprints(block_files.read(folder, PROGRAM)) == [12]


@pytest.mark.parametrize("how", ["read", "write"])
def test_files_that_become_one_meanwhile(folder: Folder, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """If another process puts all files into a new one between the listing and the reading, everything is still
    found."""
    block_files.write(folder, PROGRAM, "a game", [verdict(11)])
    listing, meanwhile = folder.files, [verdict(12)]

    def files(*arguments: Any) -> list[str]:
        listed = listing(*arguments)
        if meanwhile:
            block_files.write(folder, PROGRAM, "a game", [meanwhile.pop()])
        return listed

    monkeypatch.setattr(folder, "files", files)
    subjects = [11, 12]
    if how == "write":
        block_files.write(folder, PROGRAM, "a game", [verdict(13)])
        subjects.append(13)
    found = block_files.read(folder, PROGRAM)
    assert sorted(one.subject for one in found.entries.values()) == subjects
    assert not meanwhile and len(listing(PROGRAM, (file_kinds.VERDICT,))) == 1


@pytest.mark.parametrize("what", ["version", "type"])
def test_newer_version(folder: Folder, what: str) -> None:
    """A newer version's file stays, and so does one with types that this version does not know. What this version knows
    of it counts."""
    block_files.write(folder, PROGRAM, "a game", [verdict(11)])
    (path,) = map(Path, folder.files(None, (file_kinds.VERDICT,)))
    if what == "version":
        data = bytearray(path.read_bytes())
        data[8:12] = (format.VERSION + 1).to_bytes(4, "little")
        path.write_bytes(data)
    else:
        monster = verdict(12)
        monster.type = 200
        salt = format.new_salt()
        head = format.file_header(format.VERDICT_FILE, folder.identity, PROGRAM, "a game", salt=salt)
        entries = verdict(11).pack() + monster.pack()
        path.write_bytes(b"".join([head, *format.seal(format.record_parts(format.VERDICTS, entries), salt)]))
    block_files.write(folder, PROGRAM, "a game", [verdict(13)])
    assert path.exists()
    assert fingerprints(block_files.read(folder, PROGRAM)) == ([13] if what == "version" else [11, 13])


def test_entries_are_bounded(folder: Folder) -> None:
    """Beyond the limit, the oldest entries are dropped."""
    now = time.time_ns()
    many = [verdict(number, decided_ns=now + number) for number in range(block_list.MAX_ENTRIES + 5)]
    block_files.write(folder, PROGRAM, "a game", many)
    assert fingerprints(block_files.read(folder, PROGRAM)) == list(range(5, block_list.MAX_ENTRIES + 5))
    (path,) = map(Path, folder.files(None, (file_kinds.VERDICT,)))
    assert path.stat().st_size < block_files.MAX_BYTES


# ---- decisions -----------------------------------------------------------------------------------

HOUR = 3600


@pytest.mark.parametrize(
    ("entry", "mode", "expected"),
    [
        (None, MODE_CELLS, {"valid_from_s": 0, "valid_s": decisions.FOREVER_SECONDS, "block_files": 0}),
        ({"subject": 11}, MODE_CELLS, {"blocked": [11], "valid_s": DAY + HOUR, "undecided": False}),
        ({"type": RECORD, "subject": 11, "flags": 0}, MODE_CELLS, {"blocked": [], "valid_s": DAY + HOUR}),
        ({"type": APPLICATION, "subject": 11}, MODE_OBSERVE, {"blocked": [11]}),
        ({"type": STUB, "subject": 0}, MODE_CELLS, {"off_by": STUB, "undecided": False}),
        ({"type": STUB, "subject": 0}, MODE_BINARIES, {"off_by": 0}),
        ({"type": STUB, "subject": 0, "flags": 0}, MODE_CELLS, {"off_by": 0, "undecided": True}),
        ({"type": LAYER_OFF, "subject": 0}, MODE_BINARIES, {"off_by": LAYER_OFF}),
        ({"type": LAYER_OFF, "subject": 0}, MODE_OBSERVE, {"off_by": 0}),
        ({"type": ADDED_CALL, "subject": 9, "kind": 3}, MODE_CELLS, {"calls_off": b"\x08" + bytes(11)}),
        ({"type": ADDED_CALL, "subject": 9, "kind": 255}, MODE_CELLS, {"calls_off": b"\xff" + bytes(11)}),
        ({"type": ADDED_CALL, "subject": 11, "kind": 200}, MODE_CELLS, {"calls_off": bytes(12)}),
        ({"subject": 11, "decided_ns": (NOW + DAY) * 10**9}, MODE_CELLS, {"blocked": [], "valid_s": 0}),
    ],
)
def test_what_is_compiled(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    entry: dict[str, int] | None,
    mode: int,
    expected: dict[str, Any],
) -> None:
    """What is in force, until the first of it ends. What a wrong clock decided is not compiled, and may be right later,
    so the decision is not valid."""
    if entry is not None:
        packed = format.record_parts(format.VERDICTS, verdict(**{"until_s": NOW + DAY, **entry}).pack())
        folder.write_file(file_kinds.VERDICT, PROGRAM, "a game", packed)
    for module in (block_list, decisions):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: float(NOW)))
    found = decisions.compiled(block_files.read(folder, PROGRAM), BlockList(), mode)
    assert {key: found[key] for key in expected} == expected
    names = [Path(path).name for path in folder.files(None, (file_kinds.VERDICT,))]
    assert found["block_files"] == sum(xxhash.xxh3_64_intdigest(name.encode()) for name in names)


def test_decision_of_files_that_cannot_be_read(folder: Folder) -> None:
    """A decision that was made without a file, because it could not be read, is not valid as long as the file is there.
    One that was made without a newer version's file is."""
    block_files.write(folder, PROGRAM, "a game", [verdict(11)])
    (path,) = map(Path, folder.files(None, (file_kinds.VERDICT,)))
    whole = path.read_bytes()
    path.unlink()
    path.mkdir()
    assert block_files.read(folder, PROGRAM).sources == {}
    path.rmdir()
    path.write_bytes(whole[:8] + b"\xff" + whole[9:])
    assert block_files.read(folder, PROGRAM).sources == {str(path): False}
