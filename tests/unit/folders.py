"""A folder of the store with journals of numbered pipelines, for tests of packs and of limits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import disk
import xxhash
from unit.things import facts

from pylayer.common import file_kinds
from pylayer.common.identity import Identity
from pylayer.store import compaction, format, journal
from pylayer.store.cache_history import Known
from pylayer.store.folder import Folder

IDENTITY = Identity.of(facts())


def data_of(number: int, size: int = 3000) -> bytes:
    """Returns data of a pipeline, which nothing else has."""
    return (random.Random(number).randbytes(size // 4) * 4)[:size]


def put(folder: Folder, program: int, numbers: Iterator[int] | range | list[int], **fields: int) -> str:
    """Writes a closed journal with cells of these numbers."""
    writer = journal.Journal(folder, program, f"program {program}")
    for number in numbers:
        writer.append(format.record_parts(format.CELL, data_of(number), fingerprint=number + 1, **fields))
    writer.close()
    assert writer.path is not None
    return writer.path


def put_known(folder: Folder, program: int, data: bytes) -> str:
    """Writes a file by which data is known."""
    parts = Known(xxhash.xxh3_128_digest(data), len(data), 1, 0).parts()
    return folder.write_file(file_kinds.ATTEST, program, f"program {program}", parts)


def cells(folder: Folder, program: int | None = 7) -> list[bytes]:
    """Returns the cells that a run may give to the driver."""
    return list(disk.load(folder, program).cells.values())


def loaded(folder: Folder, program: int | None) -> tuple[list[bytes], disk.Loaded]:
    found = disk.load(folder, program)
    return list(found.cells.values()), found


def run(work: compaction.Compaction) -> compaction.Compaction:
    list(work.steps())
    return work


def run_all(folder: Folder, **options: Any) -> list[compaction.Compaction]:
    """Compacts the files of every program."""
    return [run(compaction.Compaction(folder, program, **options)) for program in folder.programs()]


def packs(folder: Folder) -> list[str]:
    return folder.files(None, (".pack",))
