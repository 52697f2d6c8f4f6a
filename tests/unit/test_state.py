"""State: what is written is read back, a fold keeps what is needed within its limit, and no length is believed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import recorded_state as recorded
import xxhash

from pylayer.common import file_kinds, owner
from pylayer.store import quarantine, state
from pylayer.store.state import Created, State, Unusable

PROGRAM = 7


def put(root: Path, numbers: Iterator[int] | range, size: int = 64, when: int = 100) -> str:
    """Writes a file with the state of pipelines that share a layout and have a module each."""
    journal = state.writer(str(root), PROGRAM, "a program")
    roots = [recorded.object_of(bytes(96), kind) for kind in (1, 2, 6)]
    instance, device, layout = (xxhash.xxh3_128_digest(data) for data in roots)
    for number in numbers:
        module = recorded.object_of(random.Random(number).randbytes(size), 9)
        digest = xxhash.xxh3_128_digest(module)
        pipeline = recorded.object_of(bytes(96), 11, handles=[(8, 15, digest), (16, 17, layout)])
        fields = xxhash.xxh3_128_digest(pipeline), device, instance, number + 1, number * 1000, when + number // 10
        for data in (*roots, module, pipeline):
            journal.append(state.object_parts(data))
        journal.append(state.created_parts(Created(state.CREATED.pack(*fields))))
    assert journal.path is not None
    return journal.path


@pytest.fixture(autouse=True)
def every_writer_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "has_ended", lambda process, idle: True)


def fold(root: Path, limit: int = 1 << 30) -> None:
    for _ in state.fold(str(root), PROGRAM, limit, everything=True):
        pass


def fingerprints(found: State) -> list[int]:
    return sorted(created.fingerprint for created in found.created.values())


def test_written_and_read(tmp_path: Path) -> None:
    """Objects come after what they are made of, once. What failed is known by pipeline and identity."""
    path = put(tmp_path, range(3))
    found = state.read(str(tmp_path), PROGRAM)
    assert (fingerprints(found), found.application, found.damage) == ([1, 2, 3], "a program", [])
    have: set[bytes] = set()
    for created in found.created.values():
        data, inputs = found.with_inputs(created.pipeline, have)
        have.update(inputs)
        assert have.issuperset(state.made_of(data))
    assert len(have) == 4
    found.fail(b"p" * 16, b"i" * 16, "why")
    assert state.read(str(tmp_path), PROGRAM).failed == {b"p" * 16: {b"i" * 16: "why"}}
    assert os.stat(path).st_mode & 0o777 == 0o600 and os.stat(tmp_path / "state").st_mode & 0o777 == 0o700


def test_fold(tmp_path: Path) -> None:
    """A fold leaves one file with everything that is needed, and nothing twice."""
    for first in range(0, 30, 10):
        put(tmp_path, range(first, first + 10))
    mark = Path(state.unrecorded_path(str(tmp_path), PROGRAM))
    before = state.read(str(tmp_path), PROGRAM)
    before.fail(next(iter(before.created))[0], b"i" * 16, "why")
    before.fail(b"nobody's" * 2, b"i" * 16, "why")
    fold(tmp_path)
    after = state.read(str(tmp_path), PROGRAM)
    assert [Path(path).suffix for path in after.paths] == [file_kinds.OBJECT_PACK]
    assert after.created.keys() == before.created.keys() and after.objects == before.objects
    assert list(after.failed.values()) == [{b"i" * 16: "why"}] and after.bytes < before.bytes
    assert not mark.exists()
    fold(tmp_path)
    assert state.read(str(tmp_path), PROGRAM).paths == after.paths


def test_limit(tmp_path: Path) -> None:
    """Beyond the limit goes what was used longest ago, and of that what was waited for least."""
    put(tmp_path, range(30), size=4096)
    fold(tmp_path, 30 * 4096 // 2)
    left = fingerprints(state.read(str(tmp_path), PROGRAM))
    assert left == list(range(31 - len(left), 31)) and 10 < len(left) < 15
    assert sum(path.stat().st_size for path in (tmp_path / "state").iterdir()) <= 30 * 4096 // 2


def test_a_writer_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a process that may append stays, and what it needs of others stays with it."""
    alive = put(tmp_path, range(3))
    put(tmp_path, range(3, 6))
    put(tmp_path, range(6, 9))
    monkeypatch.setattr(state.ended, "may_have_writer", lambda path: path == alive)
    fold(tmp_path)
    found = state.read(str(tmp_path), PROGRAM)
    assert alive in found.paths and len(found.paths) == 2 and fingerprints(found) == list(range(1, 10))


def test_damage(tmp_path: Path) -> None:
    """What does not verify is lost alone, and its file goes to quarantine at the fold. Pipelines without their objects
    go, too: the program's next run records them again."""
    path = Path(put(tmp_path, range(10)))
    put(tmp_path, range(10, 12))
    found = state.read(str(tmp_path), PROGRAM)
    _, inputs = found.with_inputs(next(iter(found.created))[0], ())
    data = bytearray(path.read_bytes())
    data[data.index(next(iter(inputs.values()))) + 50] ^= 1
    path.write_bytes(data)
    mark = Path(state.unrecorded_path(str(tmp_path), PROGRAM))
    fold(tmp_path)
    assert mark.exists()
    after = state.read(str(tmp_path), PROGRAM)
    assert fingerprints(after) == list(range(2, 13)) and after.damage == []
    assert len(quarantine.items(str(tmp_path))) == 1


def test_newer_version(tmp_path: Path) -> None:
    """A newer pylayer's files stay, and cause no fold."""
    for first in range(state.WORTH_FILES):
        path = Path(put(tmp_path, range(first, first + 1)))
        data = bytearray(path.read_bytes())
        data[8] += 1
        path.write_bytes(data)
    before = state.files(str(tmp_path), PROGRAM)
    assert list(state.fold(str(tmp_path), PROGRAM, 1)) == []
    put(tmp_path, range(20, 21))
    put(tmp_path, range(30, 31))
    fold(tmp_path)
    after = state.read(str(tmp_path), PROGRAM)
    assert len(after.paths) == len(before) + 1 and set(before) < set(after.paths) and fingerprints(after) == [21, 31]


def test_hostile_lengths() -> None:
    """No length is believed."""
    rng = random.Random(1)
    whole = bytearray(recorded.object_of(bytes(96), 11, [(8, 16)], [(24, 17, bytes(16))]))
    for _ in range(3000):
        data = bytearray(whole[: rng.choice((len(whole), rng.randrange(len(whole))))])
        for _ in range(rng.randrange(4)):
            if data:
                data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            assert len(state.made_of(bytes(data))) < 8
        except Unusable:
            continue
