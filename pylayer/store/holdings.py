"""Counts what the store holds, to the byte, by identity and program. Only the command line uses this."""

from __future__ import annotations

import os

from ..common import file_kinds
from ..common.file_kinds import Kind
from ..common.identity import Identity
from . import format
from .folder import read_identity
from .reader import Reader
from .recency import fingerprints_of
from .survey import files_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .reader import Record

    Learn = Callable[[int, str], None]


class Holding:
    """What a program has stored under one identity."""

    def __init__(self, program: int) -> None:
        self.program = program
        self.bytes = 0
        #: Numbers of the pipelines (``Record.cells``). A pipeline that two processes both stored counts once.
        self.cells: set[int] = set()
        #: Number of pipelines that are stored as pipeline binaries. The others are cells.
        self.binaries = 0
        #: Time that compiling them took, as far as it is known.
        self.compile_ns = 0
        #: Numbers of the pipelines that came from a fleet and were not compiled here too.
        self.pulled: set[int] = set()
        #: Numbers of the pipelines that ``pylayer rebuild`` compiled.
        self.rebuilt: set[int] = set()
        #: Fingerprints of the pipelines that runs on this machine created, and when, as far as records do not say it.
        self.created: dict[int, int] = {}
        #: Fingerprints of the pipelines. 0: one without a fingerprint.
        self.fingerprints: set[int] = set()
        #: Number of files by kind.
        self.files: dict[Kind, int] = {}
        #: When a pipeline was last used or stored here, in seconds since 1970; 0: nothing is recorded of it.
        self.last_use = 0

    def add(self, kind: Kind, size: int) -> None:
        """Counts a file."""
        self.bytes += size
        self.files[kind] = self.files.get(kind, 0) + 1

    @property
    def pipelines(self) -> int:
        """Returns the number of pipelines."""
        return len(self.cells)

    def add_pipeline(self, record: Record) -> None:
        """Counts the pipelines of a record."""
        cells = {number for _, number in record.cells}
        new = cells - self.cells
        self.fingerprints.update(record.fingerprints)
        if record.flags & format.REBUILT:
            self.rebuilt |= cells
        if record.is_pulled:
            self.pulled |= new
        else:
            self.pulled -= cells
        self.cells |= cells
        self.binaries += bool(new) and record.magic == format.BINARIES
        self.compile_ns += record.create_ns * len(new) // (len(cells) or 1)

    def counts(self) -> dict[str, int]:
        """Returns the number of files, by what they are."""
        counts = {kind.counted: 0 for kind in file_kinds.REMOVED}
        for kind, count in self.files.items():
            counts[kind.counted] += count
        return counts


class Shelf:
    """One identity's folder. ``other_bytes`` counts the files that belong to no program."""

    def __init__(self, root: str, name: str) -> None:
        self.name = name
        self.path = os.path.join(root, "store", name)
        self.identity: Identity | None = read_identity(root, name)
        #: Holdings by program.
        self.holdings: dict[int, Holding] = {}
        self.bytes = 0
        self.other_bytes = 0
        #: Names of files that cannot be used as they are, and why, as far as this is known without reading all of a
        #: file.
        self.unusable: dict[str, str] = {}

    @property
    def programs(self) -> list[int]:
        """Returns all programs that have something stored."""
        return sorted(self.holdings)


def tree_bytes(path: str) -> tuple[int, int]:
    """Returns the size of all files below a directory in bytes, and their number."""
    size = count = 0
    for directory, _, files in os.walk(path):
        for file in files:
            try:
                size += os.lstat(os.path.join(directory, file)).st_size
                count += 1
            except OSError:
                continue  # replaced or folded meanwhile
    return size, count


def survey(root: str, identity: str, learn: Learn) -> Shelf:
    """Counts the files of an identity. ``learn`` gets the number and name of each program that a file names."""
    shelf = Shelf(root, identity)
    shelf.bytes = tree_bytes(shelf.path)[0]
    for file in files_of(root, identity):
        if file.program is None or file.kind is None or not file.kind.removed:
            continue
        holding = shelf.holdings.setdefault(file.program, Holding(file.program))
        holding.add(file.kind, file.size)
        if file.kind != file_kinds.PACK:
            holding.last_use = max(holding.last_use, file.date)
        try:
            _survey_file(shelf, holding, file.path, file.kind, learn)
        except OSError as error:
            shelf.unusable[os.path.basename(file.path)] = f"unreadable: {error.strerror or error}"
    # The rest is the identity file, temporary files, and whatever else somebody put here.
    shelf.other_bytes = shelf.bytes - sum(holding.bytes for holding in shelf.holdings.values())
    return shelf


def _survey_file(shelf: Shelf, holding: Holding, path: str, kind: Kind, learn: Learn) -> None:
    reader = Reader(path)
    header, outcome = reader.header(bytes.fromhex(shelf.name))
    if header is None:
        shelf.unusable[os.path.basename(path)] = outcome
        return
    learn(header.program, header.application)
    if kind.folded:
        for part in reader.content(header, []):
            for record in part.records:
                if record.is_pipeline:
                    holding.add_pipeline(record)
                elif record.magic == format.USED:
                    for fingerprint in fingerprints_of(part.data_of(record)):
                        holding.created[fingerprint] = max(record.last_used, holding.created.get(fingerprint, 0))
                if record.last_used > format.NEVER_USED:
                    holding.last_use = max(holding.last_use, record.last_used)
