"""Pipeline binaries that the layer stores: they are stored, folded and loaded like cells, and never mistaken for
them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import loads
import pytest
from unit.folders import IDENTITY, loaded, put, run, run_all
from unit.things import (
    add_record,
    binaries,
)

from pylayer.store import bounds, checking, fold, format, journal, pack
from pylayer.store.binaries import problem
from pylayer.store.folder import Folder
from pylayer.store.reader import Reader

# ---- their structure ---------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [(), (b"one",), (b"", b"x" * 16, b"y" * 17)])
def test_structure(data: tuple[bytes, ...]) -> None:
    """A pipeline may have any number of binaries of any size, including none."""
    assert problem(binaries(*data)) == ""


def changed(at: int, new: bytes, data: bytes = binaries(b"one", b"two")) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "header"),
        (binaries()[:-1], "header"),
        (changed(0, b"\3"), "than fit"),  # count
        (changed(0, b"\xff\xff\xff\xff"), "than fit"),
        (changed(0, b"\1"), "between"),  # the second's entry is the first's data then
        (changed(4, b"\0"), "without a key"),
        (changed(4, b"\x21"), "without a key"),
        (changed(4, b"\3"), "without a key"),  # the rest of the key is not zero
        (changed(48, b"\xff" * 8), "larger"),
        (changed(48 + 8, b"\0"), "binary without a key"),
        (changed(48 + 8, b"\x21"), "binary without a key"),
        (changed(48 + 12, b"\1"), "binary without a key"),
        (changed(48 + 16 + 31, b"\1"), "binary without a key"),
        (changed(48, b"\2"), "between"),
        (binaries(b"one") + bytes(16), "after"),
        (binaries(b"one")[:-1], "larger"),
    ],
)
def test_impossible_structure(data: bytes, what: str) -> None:
    """An impossible structure is recognised and named, whatever its fields claim."""
    assert what in problem(data)


# ---- packs -------------------------------------------------------------------------------------------


def put_binaries(folder: Folder, owner: int, *data: bytes, **fields: int) -> str:
    """Writes a closed journal with a pipeline's binaries for each data."""
    writer = journal.Journal(folder, owner, f"program {owner}")
    for number, one in enumerate(data):
        writer.append(format.record_parts(format.BINARIES, binaries(one), fingerprint=number + 1, **fields))
    writer.close()
    assert writer.path is not None
    return writer.path


def binaries_in(folder: Folder, owner: int) -> list[bytes]:
    """Returns what a load of this program gets for the index."""
    return list(loads.load(folder, owner).binaries.values())


SOFT = [bytes([number]) * 3000 for number in range(60)]
HARD = [random.Random(number).randbytes(60_000) for number in range(60)]


def test_fold_keeps_them(folder: Folder) -> None:
    """After one fold and after two, each program has its binaries and cells."""
    put_binaries(folder, 1, *SOFT)
    put(folder, 1, range(20))
    put_binaries(folder, 2, *SOFT[:20])
    for _ in range(2):
        results = run_all(folder, everything=True, drop=lambda planned: False)
        assert [result.damage for result in results] == [[], []]
        assert sorted(binaries_in(folder, 1)) == sorted(map(binaries, SOFT))
        assert sorted(binaries_in(folder, 2)) == sorted(map(binaries, SOFT[:20]))
        assert len(loaded(folder, 1)[0]) == 20


def test_impossible_binaries_do_not_survive_a_fold(folder: Folder) -> None:
    """Binaries with a valid hash and an impossible structure are reported and left out of the fold. The others are
    kept."""
    path = Path(put_binaries(folder, 1, *SOFT[:3]))
    bad = changed(4, b"\xff")
    reader = Reader(str(path))
    sealed = format.seal(format.record_parts(format.BINARIES, bad), reader.salt)
    path.write_bytes(path.read_bytes() + b"".join(sealed))
    checked = checking.Checked()
    list(checking.check_file(str(path), format.JOURNAL, IDENTITY.digest, checked))
    assert [(what.outcome, what.size) for what in checked.damage] == [("impossible", format.record_size(len(bad)))]
    result = run(fold.Fold(folder, 1))
    assert [what.outcome for what in result.damage] == ["impossible"]
    assert sorted(binaries_in(folder, 1)) == sorted(map(binaries, SOFT[:3]))
    assert not path.exists()


def test_impossible_binaries_in_a_pack(folder: Folder) -> None:
    """An impossible record in a pack is left out, and the file is replaced."""
    writer = pack.PackWriter(os.path.join(folder.path, f"{1:016x}-a.pack"), IDENTITY, 1)
    for whole in (*map(binaries, SOFT[:10]), changed(4, b"\xff"), binaries(b"behind it")):
        add_record(writer, whole, format.BINARIES)
    writer.finish()
    result = run(fold.Fold(folder, 1, everything=True, must=frozenset([writer.path])))
    assert [what.outcome for what in result.damage] == ["impossible"]
    assert len(binaries_in(folder, 1)) == 11
    assert not os.path.exists(writer.path)


def test_least_recently_used_leave(folder: Folder) -> None:
    """Beyond the limit, binaries are evicted by their last use, like cells."""
    put_binaries(folder, 1, *HARD[:10], last_used=1000)
    put_binaries(folder, 1, *HARD[10:20], last_used=2000)
    run(fold.Fold(folder, 1, everything=True))
    trimmed = bounds.Eviction(folder.root, 700_000)
    list(trimmed.steps())
    left = binaries_in(folder, 1)
    assert trimmed.records == 20 - len(left) and 8 <= len(left) <= 10
    assert {binaries(one) for one in HARD[10:20]} >= set(left)
