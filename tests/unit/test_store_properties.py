"""What holds for any records, any damage and any order of events in the store."""

from __future__ import annotations

import contextlib
import os
import random
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import xxhash
from disk import Loaded, load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.things import add_record, packs, run_all

from pylayer.common import flat, outcomes
from pylayer.common.identity import Identity
from pylayer.store import compaction, format, pack, reader
from pylayer.store.compaction import Claim
from pylayer.store.folder import Folder
from pylayer.store.journal import Journal

IDENTITY = Identity({"vendor_id": 1})
PROGRAMS = (7, 8, 9)

few = settings(max_examples=20, suppress_health_check=list(HealthCheck))
many = settings(few, max_examples=40)


def content(size: int, seed: int, dense: bool) -> bytes:
    """Returns bytes that repeat or do not. Distinct seeds give distinct bytes if the size allows."""
    if dense:
        return random.Random(seed).randbytes(size)
    return (struct.pack("<Q", seed) * (size // 8 + 1))[:size]


SMALL = st.sampled_from((0, 1, 15, 16, 17, 100, 1000))
ANY_SIZE = st.one_of(SMALL, st.sampled_from((5000, 70_000, reader.PART_BYTES - 64, reader.PART_BYTES, 300_000)))
SMALL_DATA = st.builds(content, SMALL, st.integers(0, 30), st.booleans())
ANY_DATA = st.builds(content, ANY_SIZE, st.integers(0, 30), st.booleans())
U64 = st.one_of(st.integers(0, 5), st.integers(0, (1 << 64) - 1))
FIELDS = st.fixed_dictionaries(
    {
        "magic": st.sampled_from((format.CELL, format.CELL, format.NOTE, format.USED, format.ATTEST)),
        "kind": st.integers(0, 0xFFFF),
        "flags": st.integers(0, 0xFFFF),
        "create_ns": U64,
        "fingerprint": U64,
        "last_used": U64,
    }
)


@contextlib.contextmanager
def a_folder() -> Iterator[Folder]:
    with tempfile.TemporaryDirectory() as root:
        result = Folder(os.path.join(root, "root"), IDENTITY)
        result.prepare()
        yield result


def write_journal(folder: Folder, records: list[tuple[dict[str, Any], bytes]], program: int = 7) -> str:
    """Writes a closed journal with these records. Returns its path."""
    journal = Journal(folder, program, f"program {program}")
    for fields, data in records:
        journal.append(format.record_parts(fields["magic"], data, **{k: v for k, v in fields.items() if k != "magic"}))
    journal.close()
    return journal.path or ""


def write_pack(path: str, datas: list[bytes], program: int = 7) -> str:
    writer = pack.PackWriter(path, IDENTITY, program, "name")
    for data in datas:
        add_record(writer, data, kind=1, create_ns=1000, fingerprint=5, last_used=1000)
    return writer.finish()


def read(path: str, part_bytes: int = reader.PART_BYTES) -> tuple[list[tuple[dict[str, Any], bytes]], list[str]]:
    """Returns records in the form that ``write_journal`` takes, and the outcomes of damage."""
    damage: list[format.Damage] = []
    found = []
    one = reader.Reader(path)
    with mock.patch.object(reader, "PART_BYTES", part_bytes):
        for part in one.parts(damage):
            for record in part.records:
                names = ("magic", "kind", "flags", "create_ns", "fingerprint", "last_used")
                found.append(({name: getattr(record, name) for name in names}, bytes(part.data_of(record))))
    return found, [what.outcome for what in damage]


def stretches(path: str) -> list[tuple[int, int, bytes]]:
    """Returns start, end and digest of each record of a pack."""
    one = reader.Reader(path)
    header, _ = one.header()
    assert header is not None
    found = []
    for part in one.content(header, []):
        for record in part.records:
            if record.magic == format.TABLE:
                continue
            at = part.place(record)
            size = format.RECORD_HEADER.unpack(one.bytes_at(at, 64))[3]
            found.append((at, at + format.record_size(size), record.digest))
    return found


def loads(folder: Folder) -> dict[int | None, set[bytes]]:
    """Returns everything that a load hands over, for each program and for all."""
    return {program: set(load(folder, program).cells.values()) for program in (*PROGRAMS, None)}


def program_of(path: str) -> int:
    return int(os.path.basename(path).partition("-")[0], 16)


#: A change of a file: kind, place (as a fraction of its size), amount.
CHANGES = st.tuples(
    st.sampled_from(("flip", "zero", "cut", "append")), st.floats(0, 1, exclude_max=True), st.integers(1, 3000)
)


def change(path: str, how: tuple[str, float, int], start: int = format.FILE_HEADER.size) -> tuple[int, int]:
    """Changes a file after ``start``. Returns where the change begins and ends."""
    kind, place, amount = how
    data = bytearray(Path(path).read_bytes())
    size = len(data)
    at = start + int(place * (size - start))
    if kind == "append":
        data += random.Random(amount).choice((bytes(amount), random.Random(amount).randbytes(amount)))
        touched = (size, size + amount)
    elif kind == "cut":
        del data[at:]
        touched = (at, size)
    elif kind == "zero":
        end = min(at + amount, size)
        data[at:end] = bytes(end - at)
        touched = (at, end)
    else:
        if at < size:
            data[at] ^= 1 << amount % 8
        touched = (at, at + 1)
    Path(path).write_bytes(data)
    return touched


# ---- journals ----------------------------------------------------------------------------------------


@many
@given(st.lists(st.tuples(FIELDS, ANY_DATA), max_size=8), st.sampled_from((64, 208, 4096, 128 << 10)))
def test_journal_round_trip(records: list[tuple[dict[str, Any], bytes]], part_bytes: int) -> None:
    """Any records are read back in order with all their fields, whatever the size of the parts that are read."""
    with a_folder() as folder:
        path = write_journal(folder, records)
        assert not records or read(path, part_bytes) == (records, [])


@many
@given(st.lists(st.tuples(FIELDS, SMALL_DATA), min_size=1, max_size=10), CHANGES, st.sampled_from((64, 128 << 10)))
def test_damaged_journal(records: list[tuple[dict[str, Any], bytes]], how: tuple[str, float, int], part: int) -> None:
    """A flip, zeros, a cut or an addition loses only the records that it touches, and adds no record that was not
    written."""
    with a_folder() as folder:
        path = write_journal(folder, records)
        begin, end = change(path, how)
        found, known = read(path, part)
        at, expected = format.FILE_HEADER.size, []
        for fields, data in records:
            # The padding after the data, up to the next multiple of 16, is not part of the record.
            if at + 64 + len(data) <= begin or at >= end:
                expected.append((fields, data))
            at += format.record_size(len(data))
        rest = list(records)
        for one in found:  # in order, and each once
            rest = rest[rest.index(one) + 1 :]
        assert all(one in found for one in expected)
        assert len(found) >= len(expected)
        assert set(known) <= set(outcomes.STORE)


# ---- packs -------------------------------------------------------------------------------------------


@many
@given(st.lists(ANY_DATA, max_size=12), CHANGES)
def test_damaged_pack(datas: list[bytes], how: tuple[str, float, int]) -> None:
    """Damage loses only the records of a pack that it touches."""
    with a_folder() as folder:
        path = write_pack(os.path.join(folder.path, f"{7:016x}-1.pack"), datas)
        places = stretches(path)
        begin, end = change(path, how)
        kept = {digest for at, to, digest in places if to <= begin or at >= end}
        read_back = Loaded()
        read_back.read(path, IDENTITY.digest)
        found = set(read_back.cells.values())
        assert found <= set(datas)
        assert kept <= {xxhash.xxh3_128_digest(data) for data in found}


# ---- compaction -----------------------------------------------------------------------------------------

#: A journal's program and data. Many journals share a few data.
JOURNALS = st.lists(st.tuples(st.sampled_from(PROGRAMS), st.lists(ANY_DATA, min_size=1, max_size=5)), max_size=6)
SMALL_JOURNALS = st.lists(
    st.tuples(st.sampled_from(PROGRAMS), st.lists(SMALL_DATA, min_size=1, max_size=5)), min_size=1, max_size=6
)


def fill(folder: Folder, journals: list[tuple[int, list[bytes]]]) -> None:
    for number, (program, datas) in enumerate(journals):
        records: list[tuple[dict[str, Any], bytes]] = [({"magic": format.CELL, "kind": 1}, data) for data in datas]
        note = flat.dumps({"plain_kind": number % 8, "stub": number == 3}).encode()
        write_journal(folder, [*records, ({"magic": format.NOTE}, note)], program)


@few
@given(JOURNALS, JOURNALS)
def test_compaction_changes_no_load(
    first: list[tuple[int, list[bytes]]], second: list[tuple[int, list[bytes]]]
) -> None:
    """Every program loads the same before and after compactions. Equal data is stored once for each program, and
    another compaction of the same changes nothing."""
    with a_folder() as folder:
        fill(folder, first)
        run_all(folder)
        fill(folder, second)
        before = loads(folder)
        run_all(folder)
        assert loads(folder) == before
        results = run_all(folder, everything=True)
        assert loads(folder) == before
        assert [what for result in results for what in result.damage] == []
        assert folder.files(None, (".closed", ".journal")) == []
        digests = [(program_of(path), digest) for path in packs(folder) for *_, digest in stretches(path)]
        assert len(digests) == len(set(digests))
        names = sorted(os.listdir(folder.path))
        run_all(folder, everything=True)
        assert sorted(os.listdir(folder.path)) == names
        run_all(folder, everything=True, must=frozenset(packs(folder)))
        assert loads(folder) == before
        again = [(program_of(path), digest) for path in packs(folder) for *_, digest in stretches(path)]
        assert sorted(digests) == sorted(again)


@many
@given(SMALL_JOURNALS, st.lists(CHANGES, min_size=1, max_size=3), st.integers(0, 5), st.booleans())
def test_compaction_of_damaged_files(
    journals: list[tuple[int, list[bytes]]], changes: list[tuple[str, float, int]], which: int, packed: bool
) -> None:
    """What a load finds in damaged files is still there after a compaction of them, for every program."""
    with a_folder() as folder:
        fill(folder, journals)
        if packed:
            run_all(folder, everything=True)
            fill(folder, journals[:1])
        paths = folder.files(None)
        for number, how in enumerate(changes):
            change(paths[(which + number) % len(paths)], how, 0 if number == 2 else format.FILE_HEADER.size)
        before = loads(folder)
        run_all(folder, everything=True, must=frozenset(packs(folder)))
        after = loads(folder)
        assert after == before


@few
@given(
    st.lists(SMALL_JOURNALS, min_size=1, max_size=3),
    SMALL_JOURNALS,
    st.tuples(st.booleans(), st.booleans()),
    st.lists(st.integers(0, 2), max_size=60),
)
def test_two_compaction_and_a_reader(
    packed: list[list[tuple[int, list[bytes]]]],
    journals: list[tuple[int, list[bytes]]],
    everything: tuple[bool, bool],
    order: list[int],
) -> None:
    """Two processes that compact at once, each taking itself for the only one, and a third that loads, lose
    nothing."""
    with a_folder() as folder, mock.patch.object(Claim, "acquire", return_value=True):
        for some in packed:
            fill(folder, some)
            with mock.patch.object(compaction, "PACK_FACTOR", 0):  # packs that share records
                run_all(folder)
        fill(folder, journals)
        before = loads(folder)
        seen: set[bytes] = set()

        def reading() -> Iterator[None]:
            again = True
            known: set[str] = set()
            while again:  # as the layer: what vanishes was compacted
                paths = [path for path in folder.files(None) if path not in known]
                again = bool(paths)
                for path in paths:
                    known.add(path)
                    found = Loaded()
                    found.read(path, folder.identity.digest)
                    seen.update(found.cells.values())
                    yield

        running = [compaction.Compaction(folder, PROGRAMS[0], everything=whole).steps() for whole in everything]
        running.append(reading())
        for turn in order:
            next(running[turn], None)
        for one in running:
            list(one)
        assert loads(folder) == before
        assert seen == before[None]
