"""What a store holds, for its limits: the size and the time of last use of each record."""

from __future__ import annotations

import os

from ..common.file_kinds import FileName, Kind
from ..common.files import date_of, entries_in
from . import format
from .ended import may_have_writer
from .fold import STEP_ENTRIES
from .folder import identity_names
from .reader import parts_of
from .recency import Uses, fingerprints_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    #: What a survey keeps of a record until all uses are known: fingerprints, last use, bytes on disk.
    Surveyed = tuple[tuple[int, ...], int, int]

#: Time of last use of what is never evicted.
NEVER = 1 << 62
#: Time of last use of what has none, or one in the future: after what came from a fleet and was never used.
UNKNOWN = 1 << 20
#: Eviction goes down to this fraction of a limit, so that the next record does not exceed it again.
DOWN_TO = 0.9


class StoreFile:
    """A file of the store and its size on the disk. ``program`` and ``kind`` are None if the name is not that of a
    program's file."""

    __slots__ = ("date", "kind", "path", "program", "size")

    def __init__(self, path: str, size: int, mtime: float) -> None:
        name = FileName.parse(path)
        self.path = path
        self.program: int | None = name.program if name is not None else None
        self.kind: Kind | None = name.kind if name is not None else None
        self.size = size
        #: When it was written, in seconds since 1970.
        self.date = int(date_of(mtime)) or UNKNOWN


def files_of(root: str, identity_name: str) -> list[StoreFile]:
    """Returns every file in an identity's folder, whatever it is."""
    found = entries_in(os.path.join(root, "store", identity_name))
    return [StoreFile(entry.path, status.st_size, status.st_mtime) for entry, status in found]


def all_files(root: str) -> list[StoreFile]:
    """Returns every file in every identity's folder."""
    return [file for name in identity_names(root) for file in files_of(root, name)]


class Ages:
    """Bytes by time of last use. There are few distinct times, however many records there are."""

    def __init__(self) -> None:
        self.by_time: dict[int, int] = {}
        self.total = 0

    def add(self, when: int, size: int) -> None:
        """Counts a record."""
        self.by_time[when] = self.by_time.get(when, 0) + size
        self.total += size

    def cut(self, limit: int) -> tuple[int, int]:
        """Returns (time, bytes): evict everything last used before the time, and this many bytes of what was last used
        at it. Returns (0, 0) if nothing is to be evicted."""
        if self.total <= limit:
            return 0, 0
        excess = self.total - int(limit * DOWN_TO)
        for when in sorted(self.by_time):
            if self.by_time[when] > excess:
                return when, excess
            excess -= self.by_time[when]
        return max(self.by_time) + 1, 0


class SurveyedFile:
    """A file of records that a fold can read: how many pipelines it holds, their bytes, and when they were last used.
    ``only_pipelines``: it has nothing else that is worth keeping, so it can be deleted when all of them are evicted.
    ``is_readable``: at least one of its records verifies."""

    __slots__ = ("bytes", "is_readable", "newest", "oldest", "only_pipelines", "path", "program", "records")

    def __init__(self, path: str, program: int) -> None:
        self.path = path
        self.program = program
        self.records = self.bytes = 0
        self.oldest, self.newest = NEVER, 0
        self.only_pipelines, self.is_readable = True, False

    def add(self, when: int, size: int, records: int = 1) -> None:
        """Counts a record."""
        self.records += records
        self.bytes += size
        self.oldest, self.newest = min(self.oldest, when), max(self.newest, when)


class Survey:
    """Sizes and ages of a store's records, from which eviction is decided. Files that are not folded count as a whole,
    by their modification time, and so do journals whose writer may live."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.ages = Ages()
        #: The contents of USED records, by identity and program.
        self.uses: dict[tuple[str, int], Uses] = {}
        #: By identity.
        self.sources: dict[str, list[SurveyedFile]] = {}

    def read(self) -> Iterator[None]:
        """Reads every pack and every journal that nobody appends to."""
        for name in identity_names(self.root):
            self.sources[name] = []
            by_program: dict[int, list[StoreFile]] = {}
            for file in files_of(self.root, name):
                if file.program is not None and _may_be_folded(file):
                    by_program.setdefault(file.program, []).append(file)
                else:
                    evicted = file.kind is not None and file.kind.evicted
                    self.ages.add(file.date if evicted else NEVER, file.size)
            for program, files in by_program.items():
                yield from self._read_program(name, program, files)

    def _read_program(self, name: str, program: int, files: list[StoreFile]) -> Iterator[None]:
        """Reads all of a program's files together, because a use may be recorded in another file than its record."""
        uses = self.uses[name, program] = Uses(UNKNOWN)
        found: list[tuple[StoreFile, SurveyedFile, list[Surveyed]]] = []
        for file in files:
            source = SurveyedFile(file.path, program)
            records: list[Surveyed] = []
            yield from _collect(source, bytes.fromhex(name), uses, records)
            found.append((file, source, records))
        for file, source, records in found:
            if source.is_readable and not records:
                self.ages.add(NEVER, file.size)
            elif not records:
                self.ages.add(file.date, file.size)
                source.add(file.date, file.size, 0)
            for number, (fingerprints, own_time, size) in enumerate(records):
                when = uses.last_use(fingerprints, own_time)
                source.add(when, size)
                self.ages.add(when, size)
                if number % STEP_ENTRIES == STEP_ENTRIES - 1:
                    yield
            self.sources[name].append(source)


def _may_be_folded(file: StoreFile) -> bool:
    if file.kind is None or not file.kind.folded:
        return False
    return not (file.kind.appended and may_have_writer(file.path))


def _collect(source: SurveyedFile, identity_digest: bytes, uses: Uses, found: list[Surveyed]) -> Iterator[None]:
    """Appends each record with pipelines in a file to ``found``, and adds its USED records to ``uses``."""
    for part in parts_of(source.path, identity_digest, []):
        source.is_readable = True
        for record in part.records:
            if record.magic == format.USED:
                fingerprints = fingerprints_of(part.data_of(record))
                uses.note(fingerprints, record.last_used)
                source.only_pipelines &= not fingerprints
            elif not record.is_pipeline:
                source.only_pipelines &= record.magic == format.TABLE
            else:
                found.append((record.fingerprints, record.last_used, format.record_size(record.size)))
        yield
