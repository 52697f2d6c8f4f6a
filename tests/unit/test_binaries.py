"""Pipeline binaries that the layer stores: they are stored, compacted and loaded like cells, and never mistaken for
them."""

from __future__ import annotations

from pathlib import Path

import loads
import pytest
from unit.folders import IDENTITY, run
from unit.things import (
    binaries,
)

from pylayer.store import checking, compaction, format, journal
from pylayer.store.contents import binaries_problem as problem
from pylayer.store.folder import Folder
from pylayer.store.reader import Reader

# ---- their structure ---------------------------------------------------------------------------------


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


def test_impossible_binaries_do_not_survive_a_compaction(folder: Folder) -> None:
    """Binaries with a valid hash and an impossible structure are reported and left out of the compaction. The others
    are kept."""
    path = Path(put_binaries(folder, 1, *SOFT[:3]))
    bad = changed(4, b"\xff")
    reader = Reader(str(path))
    sealed = format.seal(format.record_parts(format.BINARIES, bad), reader.salt)
    path.write_bytes(path.read_bytes() + b"".join(sealed))
    checked = checking.Checked()
    list(checking.check_file(str(path), format.JOURNAL, IDENTITY.digest, checked))
    assert [(what.outcome, what.size) for what in checked.damage] == [("impossible", format.record_size(len(bad)))]
    result = run(compaction.Compaction(folder, 1))
    assert [what.outcome for what in result.damage] == ["impossible"]
    assert sorted(binaries_in(folder, 1)) == sorted(map(binaries, SOFT[:3]))
    assert not path.exists()
