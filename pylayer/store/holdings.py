"""Counts what the store holds, to the byte, by identity and program. Only the command line uses this.

No pipeline is read: a pack's table has the fingerprints, and of other files the headers of records say enough. So a
listing takes no longer for a large store. `pylayer ls --verify` reads what the headers promise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..common import file_kinds
from ..common.file_kinds import FileName
from ..common.identity import Identity
from ..common.paths import open_in_store
from . import format
from .contents import fingerprints_of
from .folder import StoreFile, files_of, read_identity
from .reader import Reader, Record

Learn = Callable[[int, str], None]


class Holding:
    """What a program has stored under one identity."""

    def __init__(self, program: int) -> None:
        self.program = program
        self.bytes = 0
        #: Fingerprints of the pipelines, and numbers of those without one (``Record.cells``). What two processes both
        #: stored counts once.
        self.fingerprints: set[int] = set()
        #: When runs on this machine created pipelines, as far as records do not say it, by fingerprint.
        self.created: dict[int, int] = {}
        self.files = 0
        #: When a pipeline was last used or stored here, in seconds since 1970; 0: nothing is recorded of it.
        self.last_use = 0


class Partition:
    """One identity's folder. ``other_bytes`` counts the files that belong to no program."""

    def __init__(self, root: str, name: str) -> None:
        self.name = name
        self.path = os.path.join(root, "store", name)
        self.identity: Identity | None = read_identity(root, name)
        #: Holdings by program.
        self.holdings: dict[int, Holding] = {}
        self.bytes = 0
        self.other_bytes = 0
        #: Names of files that cannot be used as they are, and why, as far as headers tell it.
        self.unusable: dict[str, str] = {}


def tree_bytes(path: str) -> tuple[int, int]:
    """Returns the size of all files below a directory in bytes, and their number."""
    size = count = 0
    for directory, _, files in os.walk(path):
        for file in files:
            try:
                size += os.lstat(os.path.join(directory, file)).st_size
                count += 1
            except OSError:
                continue  # replaced or compacted meanwhile
    return size, count


def survey(root: str, identity: str, learn: Learn) -> Partition:
    """Counts the files of an identity. ``learn`` gets the number and name of each program that a file names."""
    partition = Partition(root, identity)
    partition.bytes = tree_bytes(partition.path)[0]
    for file in files_of(root, identity):
        if not file.kind.removed:
            continue
        holding = partition.holdings.setdefault(file.program, Holding(file.program))
        holding.bytes += file.size
        holding.files += 1
        try:
            outcome = _survey_file(file, bytes.fromhex(identity), holding, learn)
        except OSError as error:
            outcome = f"unreadable: {error.strerror or error}"
        if outcome != "ok":
            partition.unusable[os.path.basename(file.path)] = outcome
    # The rest is the identity file, temporary files, and whatever else somebody put here.
    partition.other_bytes = partition.bytes - sum(holding.bytes for holding in partition.holdings.values())
    return partition


class _OpenReader(Reader):
    """Keeps the file open, as only a command may do: it reads many small pieces."""

    def __enter__(self) -> _OpenReader:
        self._fd = open_in_store(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _read(self, buffer: bytearray, offset: int) -> int:
        return self._fill(self._fd, buffer, offset)

    def heads(self, offsets: Iterable[int] | None) -> Iterator[tuple[int, Record]]:
        """Yields offset and header of the records at these offsets that verify. Without offsets, yields one record
        after another up to the first that does not."""
        for offset in offsets or ():
            if (head := self.header_at(offset)) is not None:
                yield offset, self._record(offset, head)
        at = format.FILE_HEADER.size
        while offsets is None and (head := self.header_at(at)) is not None:
            yield at, self._record(at, head)
            at += format.record_size(head[3])

    def _record(self, offset: int, head: tuple[Any, ...]) -> Record:
        """Returns a record of which nothing but the header is read, and what a chunk begins with."""
        most = format.CHUNK_HEAD.size + format.CHUNK_CELLS * format.CHUNK_CELL.size + 1
        is_chunk = head[0] == format.CHUNK
        return Record(head, 0, self.bytes_at(offset + format.RECORD_HEADER.size, most) if is_chunk else b"")


def _survey_file(file: StoreFile, identity: bytes, holding: Holding, learn: Learn) -> str:
    """Counts what is in a file; returns ``ok``, or the outcome that says why nothing in it can be used."""
    with _OpenReader(file.path) as reader:
        header, outcome = reader.header(identity)
        if header is None:
            return outcome
        learn(header.program, header.application)
        last_run = _count(reader, header, holding) if file.kind in file_kinds.COMPACTED else 0
    name = FileName.parse(file.path)
    # A compaction writes when the last run was. What was pulled may never have been used.
    written = 0 if name is not None and name.is_published else file.date
    holding.last_use = max(holding.last_use, last_run if last_run and file.kind == file_kinds.PACK else written)
    return outcome


def _count(reader: _OpenReader, header: format.FileHeader, holding: Holding) -> int:
    """Counts the records of a file of pipelines; returns when the last run was that it has uses of, or 0."""
    found = reader.record_at(header.table) if header.table else None
    offsets: list[int] | None = None
    if found is not None and found[0].magic == format.TABLE:
        table = fingerprints_of(found[1])  # each is followed by the record's offset
        unnamed = 2 * table[::2].count(0)  # those without one come first
        offsets = sorted(set(table[1:unnamed:2]))
        holding.fingerprints.update(table[unnamed::2])
    last_run = 0
    for offset, record in reader.heads(offsets):
        if record.is_pipeline:
            holding.fingerprints.update(fingerprint or number for fingerprint, number in record.cells)
        elif record.magic == format.USED and (used := reader.record_at(offset)) is not None:
            last_run = max(last_run, record.last_used)
            for fingerprint in fingerprints_of(used[1]):
                holding.created[fingerprint] = max(record.last_used, holding.created.get(fingerprint, 0))
    return last_run
