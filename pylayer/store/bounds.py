"""The limit on the store's size on disk. The least recently used records are evicted first.

The limit is for the folders of all identities together, and their records are compared. So records of a driver that is
no longer installed are evicted before those of today's. A file of which everything is evicted is deleted, unless it
records uses of other files' pipelines. Other packs and journals are rewritten without the evicted records.
"""

from __future__ import annotations

from ..common.files import FULL, remove
from ..values import Value
from . import format
from .compaction import STEP_ENTRIES, Compaction
from .contents import Uses, fingerprints_of
from .folder import UNDATED, Folder, StoreFile, all_files, files_of, folders, identity_names, read_identity
from .journal import close_ended_journals, may_have_writer
from .reader import parts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .reader import Record

    #: What a survey keeps of a record until all uses are known: fingerprints, last use, bytes on disk.
    Surveyed = tuple[tuple[int, ...], int, int]

#: Time of last use of what is never evicted.
NEVER = 1 << 62
#: Eviction goes down to this fraction of a limit, so that the next record does not exceed it again.
DOWN_TO = 0.9


class Ages:
    """Bytes by time of last use. There are few distinct times, however many records there are."""

    def __init__(self) -> None:
        self.by_time: dict[int, int] = {}
        self.total = 0
        #: All last used before ``before`` is evicted, and ``more`` bytes of what was last used at it. 0: nothing is.
        self.before = self.more = 0

    def add(self, when: int, size: int) -> None:
        """Counts a record."""
        self.by_time[when] = self.by_time.get(when, 0) + size
        self.total += size

    def cut(self, limit: int) -> None:
        """Decides what to evict, so that the rest is within DOWN_TO of a limit."""
        if self.total <= limit:
            return
        self.more = self.total - int(limit * DOWN_TO)
        for when in sorted(self.by_time):
            self.before = when
            if self.by_time[when] > self.more:
                return
            self.more -= self.by_time[when]
        self.before, self.more = self.before + 1, 0  # all of it

    def takes(self, when: int, size: int) -> bool:
        """Returns whether to evict a record. Call it once for each record."""
        if when == self.before and self.more > 0:
            self.more -= size
            return True
        return when < self.before


class SurveyedFile(Value):
    """A file of a kind that is compacted: how many records with pipelines it holds, their bytes, and when they were
    last used. ``only_pipelines``: nothing but pipelines in it is worth keeping, so it can be deleted when all of them
    are evicted. ``is_readable``: at least a part of the file verifies."""

    path: str
    program: int
    records: int = 0
    bytes: int = 0
    oldest: int = NEVER
    newest: int = 0
    only_pipelines: bool = True
    is_readable: bool = False

    def add(self, when: int, size: int, records: int = 1) -> None:
        """Counts a record."""
        self.records += records
        self.bytes += size
        self.oldest, self.newest = min(self.oldest, when), max(self.newest, when)


class Survey:
    """Sizes and ages of a store's records, from which eviction is decided. Other files count as a whole, by their
    modification time if their kind is evicted. Journals that may have a writer are not evicted."""

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
                if file.kind.compacted and not (file.kind.appended and may_have_writer(file.path)):
                    by_program.setdefault(file.program, []).append(file)
                else:
                    self.ages.add(file.date if file.kind.evicted else NEVER, file.size)
            for program, files in by_program.items():
                yield from self._read_program(name, program, files)

    def _read_program(self, name: str, program: int, files: list[StoreFile]) -> Iterator[None]:
        """Reads all of a program's files together, because a use may be recorded in another file than its record."""
        uses = self.uses[name, program] = Uses(UNDATED)
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


def total_bytes(root: str) -> int:
    """Returns the number of bytes in all identities' folders."""
    return sum(file.size for file in all_files(root))


class Eviction:
    """Brings a store within its limit, which is in bytes, in steps of milliseconds. Files from which
    everything is evicted are deleted first, because that frees space on a full disk too. Then packs and journals are
    rewritten without the evicted records, one after the other, so that memory does not grow with the store. Raises
    OSError; what was evicted until then stays so, and no file is half written. ``records`` counts evicted records,
    ``files`` evicted files of other kinds.

    ``by_files``: a file that cannot be rewritten because the disk is full is deleted as a whole.
    """

    def __init__(self, root: str, limit: int, by_files: bool = False) -> None:
        self.bytes_before = self.bytes_after = 0
        self.records = self.files = 0
        self._root = root
        self._limit = limit
        self._by_files = by_files
        self._survey = Survey(root)

    def steps(self) -> Iterator[None]:
        """Evicts, if the store is beyond its limit."""
        survey = self._survey = Survey(self._root)
        self.bytes_before = self.bytes_after = total_bytes(self._root)
        if self.bytes_before <= self._limit:
            return
        for folder in folders(self._root):
            close_ended_journals(folder, None)
        yield from survey.read()
        survey.ages.cut(self._limit)
        if not survey.ages.before:
            return
        rest = []
        for name in identity_names(self._root):
            self._evict_files(name)
            rest += [(name, source) for source in survey.sources.get(name, []) if not self._evict_source(source)]
        # Rewrite the smallest first. A failure then loses least, and each frees space for the next.
        for name, source in sorted(rest, key=lambda item: (not self._goes_whole(item[1]), item[1].bytes)):
            if self._has_evicted(source):
                yield from self._rewrite(name, source)
        self.bytes_after = total_bytes(self._root)

    def _goes_whole(self, source: SurveyedFile) -> bool:
        return source.oldest <= source.newest < self._survey.ages.before

    def _has_evicted(self, source: SurveyedFile) -> bool:
        ages = self._survey.ages
        return source.oldest < ages.before or (source.oldest == ages.before and ages.more > 0)

    def _evict_files(self, name: str) -> None:
        """Deletes files that are not compacted, and are evicted as a whole."""
        for file in files_of(self._root, name):
            if file.kind.evicted and not file.kind.compacted and self._survey.ages.takes(file.date, file.size):
                self.files += 1
                remove(file.path)

    def _evict_source(self, source: SurveyedFile) -> bool:
        """Deletes a file of records if it holds only evicted pipelines. Returns False if it stays."""
        if not self._goes_whole(source) or not source.only_pipelines:
            return False
        self.records += source.records
        remove(source.path)
        return True

    def _rewrite(self, name: str, source: SurveyedFile) -> Iterator[None]:
        """Rewrites a file without its evicted records."""
        identity = read_identity(self._root, name)
        if identity is None:
            return  # the next run on that driver writes the identity's file anew, and a later trim rewrites this one
        uses = self._survey.uses[name, source.program]

        def drop(planned: Record) -> bool:
            when, size = uses.last_use(planned.fingerprints, planned.last_used), format.record_size(planned.size)
            return self._survey.ages.takes(when, size)

        compaction = Compaction(Folder(self._root, identity), source.program, drop=drop, only=source.path)
        try:
            yield from compaction.steps()
        except OSError as error:
            if not self._by_files or error.errno not in FULL:
                raise
            self.records += source.records
            remove(source.path)
            return
        self.records += compaction.dropped


#: A program that ends has no time to rewrite packs. Beyond this multiple of the limit it deletes whole files.
HARD_LIMIT = 1.25


def drop_oldest_files(root: str, max_store: int) -> int:
    """If a store is far beyond its limit, deletes the files that were written longest ago until it is within, whatever
    they contain; returns how many. Journals that may have a writer are kept."""
    files = all_files(root)
    total = sum(file.size for file in files)
    if total <= max_store * HARD_LIMIT:
        return 0
    removed = 0
    for file in sorted(files, key=lambda file: file.date):
        if total <= max_store * DOWN_TO:
            break
        if file.kind.evicted and remove(file.path):
            total -= file.size
            removed += 1
    return removed
