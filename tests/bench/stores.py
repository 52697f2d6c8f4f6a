"""Stores to measure: real ones, made by the layer, and larger ones made of their cells.

A larger store repeats the cells of a real one, each time with other random bytes where RADV's data has the hash of the
first entry (bytes 48 to 67): as long and as random as the real ones, and no two alike. Such cells never reach a driver.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import xxhash

from pylayer.store import format
from pylayer.store.compaction import Compaction
from pylayer.store.folder import Folder, identity_names, read_identity
from pylayer.store.format import Damage
from pylayer.store.journal import CLOSED, Journal
from pylayer.store.reader import Reader

FIRST_HASH = slice(48, 68)


def folder_of(root: Path) -> Folder:
    """The one identity's folder of a store."""
    (name,) = identity_names(str(root))
    identity = read_identity(str(root), name)
    assert identity is not None
    return Folder(str(root), identity)


def copy(source: Path, target: Path) -> None:
    """A store of its own that shares the files' content: nobody changes a file, they are renamed and deleted."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)


class Cell:
    """A record as the layer wrote it."""

    def __init__(self, data: bytes, kind: int, create_ns: int, fingerprint: int, last_used: int) -> None:
        self.data = data
        self.kind = kind
        self.create_ns = create_ns
        self.fingerprint = fingerprint
        self.last_used = last_used

    def another(self, source: random.Random) -> Cell:
        data = bytearray(self.data)
        data[FIRST_HASH] = source.randbytes(FIRST_HASH.stop - FIRST_HASH.start)
        return Cell(bytes(data), self.kind, self.create_ns, source.getrandbits(64) | 1, self.last_used)


def cells_of(folder: Folder) -> list[Cell]:
    """Every cell in the journals of a store."""
    cells = []
    for path in folder.files(None, (CLOSED,)):
        reader = Reader(path)
        damage: list[Damage] = []
        for part in reader.parts(damage):
            for one in part.records:
                if one.magic == format.CELL:
                    data = bytes(part.data_of(one))
                    cells.append(Cell(data, one.kind, one.create_ns, one.fingerprint, one.last_used))
        assert not damage
    return cells


def _distinct(cells: list[Cell], count: int) -> Iterator[Cell]:
    source = random.Random(1)
    for number in range(count):
        cell = cells[number % len(cells)]
        yield cell if number < len(cells) else cell.another(source)


def write(root: Path, real: Folder, cells: list[Cell], count: int) -> None:
    """A store of journals with ``count`` cells of one program."""
    folder = Folder(str(root), real.identity)
    folder.prepare()
    journal = Journal(folder, 1, "program")
    for cell in _distinct(cells, count):
        fields = (cell.kind, 0, cell.create_ns, cell.fingerprint, cell.last_used)
        digest = xxhash.xxh3_128_digest(cell.data)
        journal.append(format.record_parts(format.CELL, cell.data, digest, *fields))
    journal.close()


def compaction(folder: Folder) -> None:
    """Everything into packs, as `pylayer trim` does."""
    for program in folder.programs():
        work = Compaction(folder, program, everything=True)
        for _ in work.steps():
            pass
        assert work.claimed and not work.damage
