"""State: what is written is read back, a compaction keeps what is needed within its limit, and no length is
believed."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import recorded_state as recorded
import xxhash

from pylayer.common import file_kinds, owner
from pylayer.common.identity import Identity
from pylayer.common.settings import Limits
from pylayer.inhost.recording import Recording
from pylayer.store import checking, format, maintenance, state
from pylayer.store.checking import Checked
from pylayer.store.compaction import Compaction
from pylayer.store.folder import Folder, unrecorded_path
from pylayer.store.journal import Journal
from pylayer.store.reader import Reader
from pylayer.store.state import Created, State
from pylayer.values import Recorded

PROGRAM = 7


def put(root: Path, numbers: Iterator[int] | range, size: int = 64, when: int = 100, wait_ns: int = 1000) -> str:
    """Writes the state of pipelines that share a layout and have a module each. ``wait_ns``: how much longer
    each held the program up than the one before."""
    journal = state.writer(str(root), PROGRAM, "a program")
    roots = [recorded.object_of(bytes(96), kind) for kind in (1, 2, 6)]
    instance, device, layout = (xxhash.xxh3_128_digest(data) for data in roots)
    for number in numbers:
        module = recorded.object_of(random.Random(number).randbytes(size), 9)
        digest = xxhash.xxh3_128_digest(module)
        pipeline = recorded.object_of(bytes(96), 11, handles=[(8, 15, digest), (16, 17, layout)])
        key = xxhash.xxh3_128_digest(pipeline), device, instance, number + 1
        for data in (*roots, module, pipeline):
            journal.append(state.object_parts(data))
        created = Created(state.CREATED.pack(*key), number * wait_ns, when + number // 10)
        journal.append(state.created_parts(created))
    assert journal.path is not None
    return journal.path


@pytest.fixture(autouse=True)
def every_writer_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "has_ended", lambda *_: True)


def compaction(root: Path, limit: int = 1 << 30) -> None:
    """As `pylayer trim` does."""
    list(checking.Trim(str(root), Limits(1 << 30, limit)).steps())


def fingerprints(found: State) -> list[int]:
    return sorted(created.fingerprint for created in found.created.values())


def test_compaction(tmp_path: Path) -> None:
    """A compaction leaves one file with everything, and nothing twice. Of what several runs recorded of a pipeline it
    keeps the longest wait and the last use."""
    for first, when, wait_ns in ((0, 100, 5), (0, 300, 9), (0, 200, 7), (10, 400, 5), (20, 400, 5)):
        put(tmp_path, range(first, first + 10), when=when, wait_ns=wait_ns)
    mark = Path(unrecorded_path(str(tmp_path), PROGRAM))
    before = state.read(str(tmp_path), PROGRAM)
    before.fail(next(iter(before.created))[0], b"i" * 16, "why")
    compaction(tmp_path)
    after = state.read(str(tmp_path), PROGRAM)
    assert [Path(path).suffix for path in after.paths] == [file_kinds.PACK]
    told, kept = ({key: (one.stall_ns, one.last_use) for key, one in of.created.items()} for of in (before, after))
    assert told == kept and {(9, 300), (18, 300)} < {*kept.values()} and after.objects == before.objects
    assert list(after.failed.values()) == [{b"i" * 16: "why"}] and after.bytes < before.bytes
    assert not mark.exists()
    compaction(tmp_path)
    assert state.read(str(tmp_path), PROGRAM).paths == after.paths


def test_limit(tmp_path: Path) -> None:
    """Beyond the limit goes what was used longest ago, and of that what was waited for least, with its objects and
    reasons. What another process records meanwhile stays."""
    put(tmp_path, range(30), size=4096)
    found = state.read(str(tmp_path), PROGRAM)
    for created in found.created.values():
        found.fail(created.pipeline, b"i" * 16, "why")
    compaction(tmp_path, 30 * 4096 // 2)
    after = state.read(str(tmp_path), PROGRAM)
    left = fingerprints(after)
    assert left == list(range(31 - len(left), 31)) and 10 < len(left) < 15
    assert after.failed.keys() == {created.pipeline for created in after.created.values()}
    assert sum(path.stat().st_size for path in (tmp_path / "state").glob("*")) <= 30 * 4096 // 2
    steps = after.evicting(0)
    put(tmp_path, range(30, 31))
    with pytest.raises(StopIteration) as end:
        while True:
            next(steps)
    folder = state.folder(str(tmp_path))
    list(Compaction(folder, PROGRAM, everything=True, drop=end.value.value).steps())
    assert fingerprints(state.read(str(tmp_path), PROGRAM)) == [31]


def test_a_writer_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a process that may append stays, and what it needs of others stays with it."""
    alive = put(tmp_path, range(3))
    monkeypatch.setattr("pylayer.store.journal.has_writer", lambda path: path == alive)
    put(tmp_path, range(3, 6))
    put(tmp_path, range(6, 9))
    compaction(tmp_path)
    found = state.read(str(tmp_path), PROGRAM)
    assert alive in found.paths and len(found.paths) == 2 and fingerprints(found) == list(range(1, 10))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("what", ["module", "created", "device"])
def test_damage(tmp_path: Path, what: str, packed: bool) -> None:
    """What does not verify is lost alone, also of a single file. A compaction replaces the file, and the program's next
    run records what is missing."""
    put(tmp_path, range(10))
    if packed:
        compaction(tmp_path)
    found = state.read(str(tmp_path), PROGRAM)
    (path,) = map(Path, found.paths)
    first = next(iter(found.created.values()))
    _, inputs = found.with_inputs(first.pipeline, ())
    wrong = {
        "module": found.data(next(iter(inputs))),
        "created": state.CREATED.pack(*first.key),
        "device": found.data(first.device),
    }[what]
    data = bytearray(path.read_bytes())
    data[data.index(wrong) + 10] ^= 1
    path.write_bytes(data)
    damaged = state.read(str(tmp_path), PROGRAM)
    assert [one.outcome for one in damaged.damage] == ["damaged-data"]
    folder = state.folder(str(tmp_path))
    list(maintenance.maintain(folder, damaged.damage, Limits(1 << 30, 1 << 30), print))
    assert Path(unrecorded_path(str(tmp_path), PROGRAM)).exists()
    after = state.read(str(tmp_path), PROGRAM)
    assert after.damage == [] and not path.exists()
    is_lost = what == "module" or (what == "device" and packed)  # otherwise there is another one
    assert (len(after.created), len(after.objects)) == (10 - (what == "created"), 23 - is_lost)


@pytest.mark.parametrize("suffix", [".objects", ".objectpack"])
def test_earlier_build(tmp_path: Path, suffix: str) -> None:
    """What an earlier build recorded is read, verified and compacted."""
    path = Path(put(tmp_path, range(3)))
    salt = Reader(str(path)).salt
    state.folder(str(tmp_path))  # closes the journal
    data = bytearray(path.with_suffix(".closed").read_bytes())
    data[16:20] = format.EARLIER_STATE_FILE
    data[248:256] = xxhash.xxh3_64_intdigest(bytes(data[:248])).to_bytes(8, "little")
    key = next(iter(state.read(str(tmp_path), PROGRAM).created))
    created = state.CREATED.pack(*key[:3], 99) + struct.pack("<QQ", 7, 8)
    parts = format.record_parts(format.CREATED, created, fingerprint=99, create_ns=7, last_used=8)
    path.with_suffix(".closed").unlink()
    path.with_suffix(suffix).write_bytes(data + b"".join(format.seal(parts, salt)))
    verified = Checked(str(tmp_path))
    list(verified.steps(lambda name: True, None))
    assert (verified.files, verified.damage) == (1, [])
    for _ in range(2):
        found = state.read(str(tmp_path), PROGRAM)
        assert fingerprints(found) == [1, 2, 3, 99] and not found.damage
        (old,) = (one for one in found.created.values() if one.fingerprint == 99)
        assert (old.stall_ns, old.last_use) == (7, 8)
        compaction(tmp_path)
    assert [Path(path).suffix for path in found.paths] == [file_kinds.PACK]


def devices(root: Path) -> Callable[[int], Recording]:
    """Returns a function that has a new device of the program record some pipelines."""
    program = SimpleNamespace(name="a program", executable="a")
    folder = Folder(str(root), Identity({"abi": "64"}))
    device = SimpleNamespace(folder=folder, read_only=False, program_id=PROGRAM, program=program, log=print, state=None)

    def record(count: int) -> Recording:
        made = Recording(device, 1 << 30, lambda damage: None)  # type: ignore[arg-type]
        for number, kind in ((0, 1), (0, 2), *((number, 11) for number in range(count))):
            data = memoryview(recorded.object_of(bytes([number]) * 96, kind))
            made.write(made.new(Recorded(data, (kind == 11) * (number + 1), kind, 0, 0, 5)))
        made.close()
        return made

    return record


@pytest.mark.parametrize("between", ["nothing", "rm", "a failed write"])
def test_devices_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: str) -> None:
    """What is recorded is read once for all devices of a process, and again if it is gone or was not written."""
    read, reads = state.read, []
    monkeypatch.setattr(state, "read", lambda *names: reads.append(names) or read(*names))
    record = devices(tmp_path)
    record(3)
    if between == "rm":
        for path in (tmp_path / "state").iterdir():
            path.unlink()
    elif between == "a failed write":
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", lambda *_: os.stat("/nowhere"))
            record(5)
        assert Path(unrecorded_path(str(tmp_path), PROGRAM)).exists()
    record(5)
    assert len(reads) == 1 + (between != "nothing")
    found = read(str(tmp_path), PROGRAM)
    assert (fingerprints(found), len(found.objects)) == ([1, 2, 3, 4, 5], 7)
    assert not Path(unrecorded_path(str(tmp_path), PROGRAM)).exists()
