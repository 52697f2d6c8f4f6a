"""Compacting: a program's journals become packs, its small packs become larger ones, and cells become chunks.

Compacting is safe while other processes use the store. A journal is compacted when it is closed or its writer has
ended. Its name changes first, so a writer that was taken for dead begins another journal. Everything is read, verified
and written to a new pack, which is on the disk under its name before the first source is deleted. If the process dies
in between, the sources remain, and content that exists twice is loaded once. If two processes compact at once, neither
waits: one leaves the folder to the other (``Claim``). If both compact all the same, their packs hold the same records.

A source with damage is deleted, too, once what verified in it is in the new pack.
"""

from __future__ import annotations

import os

from ..common import file_kinds
from ..common.files import create_temporary, names_in, remove, remove_left_temporaries, size_of
from . import contents, format, pack
from .contents import RECENT_SECONDS, UNSTORED_SECONDS, Uses, fingerprints_of, used_parts
from .folder import Folder, record_again
from .format import Damage
from .journal import CLOSED, close_ended_journals
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .reader import Record

    #: Has the driver merge these cells, and returns the data of a chunk; None if they stay cells.
    Join = Callable[[list[tuple[Record, bytes]]], bytes | None]

#: In a program's process: the most bytes that one compaction reads, and the most records it holds. `pylayer trim` has
#: no limit. A planned record takes 0.5 KiB.
PROCESS_BYTES = 64 << 20
PROCESS_RECORDS = 20000
#: A compaction is worthwhile from this many journals, or this many bytes in them.
WORTH_JOURNALS = 4
WORTH_BYTES = 1 << 20
#: Records of the plan that one step handles: a millisecond or less.
STEP_ENTRIES = 500
#: A compaction includes a pack that is at most this many times as large as what the compaction has already. So sizes
#: grow by a factor, and a record is rewritten a few times in its life instead of at every compaction.
PACK_FACTOR = 2
#: `pylayer trim` joins packs up to this size in any case, so that few files are left.
SMALL_PACK_BYTES = 8 << 20
#: A pack that reaches one of these is finished and another begun: rewriting a pack holds its records' plan in memory.
MAX_PACK_RECORDS = 32768
MAX_PACK_BYTES = 128 << 20


class Compaction:
    """One compaction of a program's files in a folder. ``steps`` does the work in pieces of about a millisecond.

    ``everything``: compacts all journals without limits, and the packs that are not much larger. ``drop``: returns True
    for a record to leave out; by default none is. ``must``: paths of packs to rewrite whatever their size. ``only``:
    compacts this pack or journal and nothing else. ``most_bytes``: the most bytes to read, unless ``everything`` is
    set. ``join``: has the driver merge neighbouring cells into chunks.
    """

    def __init__(
        self,
        folder: Folder,
        program: int,
        everything: bool = False,
        drop: Callable[[Record], bool] | None = None,
        must: frozenset[str] = frozenset(),
        only: str | None = None,
        most_bytes: int = PROCESS_BYTES,
        join: Join | None = None,
    ) -> None:
        self.folder = folder
        self.program = program
        #: Whether no other process was compacting. Otherwise nothing is done.
        self.claimed = True
        #: Paths of the packs that were written.
        self.written: list[str] = []
        #: What could not be used of the sources.
        self.damage: list[Damage] = []
        #: Number of records that were left out, and of damaged files that were deleted. What verified in these is in
        #: the new pack.
        self.dropped = self.repaired = 0
        self._everything = everything
        self._drop = drop
        self._must = must
        self._only = only
        self._writer: pack.PackWriter | None = None
        self._most_bytes = most_bytes
        self._join = join
        self._application = ""
        self._sources: list[Reader] = []
        #: A source disappeared: another process compacted it into a pack, which may itself be a source here. So no
        #: source may be deleted.
        self._others_compact = False
        self._plan: dict[tuple[bytes, int], Record] = {}
        self._uses = Uses()

    def steps(self) -> Iterator[None]:
        """Does the compaction, one piece for each item yielded. Raises OSError; every source is then still there."""
        claim = Claim(self.folder)
        self.folder.check()
        if not claim.acquire():
            self.claimed = False
            return
        try:
            close_ended_journals(self.folder, self.program)
            remove_left_temporaries(self.folder.path)  # such as half a pack of a process that died in a compaction
            for path in self._choose():
                yield from self._read(path)
            yield from self._leave_out()
            if self._plan or self._uses.last_run:
                yield from self._write()
            yield from self._remove_sources()
            if self.folder.has_state and self.repaired:
                record_again(self.folder.root, self.program)
        finally:
            if self._writer is not None:
                self._writer.abandon()
            claim.release()

    # ---- reading ---------------------------------------------------------------------------------

    def _choose(self) -> list[str]:
        """Returns journals, oldest first, then packs, smallest first. Packs that are much larger than what is compacted
        with them are left alone: one new journal must not rewrite all that a program has."""
        if self._only is not None:
            return [self._only]
        chosen: list[str] = []
        size = 0
        limit = 1 << 62 if self._everything else self._most_bytes
        for path in self.folder.files(self.program, (CLOSED,)):
            bytes_there = size_of(path)
            if size + bytes_there > limit and (chosen or limit < PROCESS_BYTES):
                continue  # when time is short, a large journal must not keep the others from being compacted
            chosen.append(path)
            size += bytes_there
        journals, smaller = len(chosen), size
        for bytes_there, path in sorted((size_of(path), path) for path in self._packs()):
            if self._everything:
                joins = bytes_there <= min(max(PACK_FACTOR * smaller, SMALL_PACK_BYTES), MAX_PACK_BYTES // 2)
            else:
                joins = journals > 0 and bytes_there <= min(PACK_FACTOR * size, limit - size)
            smaller += bytes_there
            if path in self._must or (not _is_published(path) and (joins or self._drop is not None)):
                chosen.append(path)
                size += bytes_there
        return chosen if len(chosen) > 1 or journals or self._must or self._drop is not None else []

    def _packs(self) -> list[str]:
        return self.folder.files(self.program, (file_kinds.PACK,))

    def _read(self, path: str) -> Iterator[None]:
        if not self._everything and len(self._plan) > PROCESS_RECORDS:
            return
        try:
            source = Reader(path)
            self._sources.append(source)
            header, outcome = source.header(self.folder.identity.digest)
            if header is None:
                if outcome != "foreign-version":  # that stays for who knows it
                    source.damage.append(Damage(path, outcome))
                    source.is_read = True
                return
            self._application = header.application or self._application
            yield from self._scan(source, header)
        except OSError:
            return  # another process compacted it, or it cannot be read now

    def _scan(self, source: Reader, header: format.FileHeader) -> Iterator[None]:
        for part in source.content(header, source.damage):
            for record in part.records:
                if record.magic == format.USED:
                    self._uses.note(fingerprints_of(part.data_of(record)), record.last_used)
                elif record.magic in self.folder.content:
                    place, wrong = part.place(record), problem(record, part.data_of(record))
                    if wrong:
                        whole = format.record_size(record.size)
                        source.damage.append(Damage(source.path, "impossible", place, whole, wrong))
                    else:
                        record.source, record.offset = source, place
                        known = self._plan.setdefault(record.name, record)
                        known.last_used = record.last_used = max(known.last_used, record.last_used)
                        if record.create_ns > known.create_ns:
                            self._plan[record.name] = record
            yield
        source.is_read = True

    def _leave_out(self) -> Iterator[None]:
        """Sets each record's time of last use, and removes the records that ``drop`` selects from the plan."""
        for number, (key, planned) in enumerate(list(self._plan.items())):
            if number % STEP_ENTRIES == STEP_ENTRIES - 1:
                yield
            planned.last_used = self._uses.last_use(planned.fingerprints, planned.last_used)
            if self._drop is not None and self._drop(planned):
                self.dropped += 1
                del self._plan[key]

    # ---- writing ---------------------------------------------------------------------------------

    def _new_writer(self) -> pack.PackWriter:
        path = self.folder.new_path(self.program, file_kinds.PACK)
        self._writer = pack.PackWriter(path, self.folder.identity, self.program, self._application)
        return self._writer

    def _finish(self, writer: pack.PackWriter) -> Iterator[None]:
        if not writer.count:
            return
        yield from writer.finishing()
        self.written.append(writer.path)
        self._writer = None

    def _write(self) -> Iterator[None]:
        writer = self._new_writer()
        self._write_uses(writer)
        for group in self._groups():
            if writer.count >= MAX_PACK_RECORDS or writer.size >= MAX_PACK_BYTES:
                yield from self._finish(writer)
                writer = self._new_writer()
            read = [(planned, found) for planned in group if (found := self._read_again(planned))]
            if len(read) < contents.FEWEST_CELLS or not self._add_joined(writer, read):
                for planned, found in read:
                    writer.add(*found, planned.last_used)
            if len(group) > 1 or writer.count % 16 == 0:
                yield
        yield from self._finish(writer)

    def _groups(self) -> Iterator[list[Record]]:
        """Yields the planned records in the order of the pack. Cells to join are in one group."""
        chunks = [planned for planned in self._plan.values() if planned.magic == format.CHUNK]
        joined = {cell: planned.source.created_ns for planned in chunks for cell in planned.cells}
        in_chunks = {number for _, number in joined}
        for wanted in self.folder.content:
            group: list[Record] = []
            size = 0
            kind: tuple[int, bool] | None = None
            for planned in self._plan.values():
                if planned.magic != wanted:
                    continue
                before, kind = kind, None  # that of a cell that can be joined
                large = planned.size > contents.LARGE_BYTES
                if wanted == format.CELL:
                    fingerprint, number = cell = planned.cells[0]
                    if planned.source.created_ns < joined.get(cell, 0) and planned.source.path.endswith(CLOSED):
                        continue  # the process that joined it ended before it removed the journal
                    if self._join and fingerprint and number not in in_chunks:
                        kind = planned.flags, large  # what is in a chunk, too, was not found there
                joins = kind is not None and kind == before
                most = contents.MAX_LARGE_BYTES if large else contents.CHUNK_BYTES
                if group and (not joins or len(group) == format.CHUNK_CELLS or size + planned.size > most):
                    yield group
                    group, size = [], 0
                group.append(planned)
                size += planned.size
            if group:
                yield group

    def _add_joined(self, writer: pack.PackWriter, read: list[tuple[Record, tuple[Record, bytes]]]) -> bool:
        """Adds cells as a chunk. Returns False if they cannot be joined."""
        assert self._join is not None
        cells = [found for _, found in read]
        data = self._join(cells)
        if data is not None:
            writer.add_chunk([record for record, _ in cells], data, max(planned.last_used for planned, _ in read))
        return data is not None

    def _read_again(self, planned: Record) -> tuple[Record, bytes] | None:
        """Returns a record and its data; None if it is gone, or damaged since it was planned."""
        source = planned.source
        try:
            found = source.record_at(planned.offset)
        except FileNotFoundError:
            self._others_compact = True
            return None
        except OSError as error:
            source.is_read = False
            source.damage.append(Damage.unreadable(source.path, error, planned.offset))
            return None
        if found is None or found[0].digest != planned.digest:  # it verified when it was planned
            size = format.record_size(planned.size)
            source.damage.append(Damage(source.path, "damaged-data", planned.offset, size))
            return None
        return found

    def _write_uses(self, writer: pack.PackWriter) -> None:
        """Writes uses whose records are in other packs or not stored yet, dated by the day, and in any case the time of
        the last run."""
        last_run = self._uses.last_run
        if not last_run:
            return
        by_time: dict[int, list[int]] = {last_run: []}
        all_packs = {reader.path for reader in self._sources} >= set(self._packs())
        oldest = last_run - UNSTORED_SECONDS if all_packs else 0
        represented = {fingerprint for planned in self._plan.values() for fingerprint in planned.fingerprints}
        for fingerprint, when in self._uses.by_fingerprint.items():
            if fingerprint not in represented and when >= oldest:
                day = last_run if last_run - when < RECENT_SECONDS else when // RECENT_SECONDS * RECENT_SECONDS
                by_time.setdefault(day, []).append(fingerprint)
        for when, fingerprints in sorted(by_time.items()):
            writer.add_parts(used_parts(fingerprints, when))

    # ---- afterwards ------------------------------------------------------------------------------

    def _remove_sources(self) -> Iterator[None]:
        for source in self._sources:
            yield  # deleting a large file takes the system milliseconds
            self.damage += source.damage
            if not source.is_read or self._others_compact or size_of(source.path) != source.size:
                continue  # if somebody appended after all, the next compaction takes it
            is_damaged = source.size > 0 and not all(what.is_torn_end for what in source.damage)
            self.repaired += remove(source.path) and is_damaged


def problem(record: Record, data: memoryview) -> str:
    """Returns why nothing writes a pipeline with this data, whose hash is valid; empty text if it may be written."""
    if record.magic == format.BINARIES:
        return contents.binaries_problem(data)
    return "no chunk of cells" if record.is_pipeline and not record.cells else ""


def _is_published(path: str) -> bool:
    """Returns whether a pack is one that was pulled. Compacted, it would be pulled again."""
    name = file_kinds.FileName.parse(path)
    return name is not None and name.is_published


# ---- who compacts a folder -----------------------------------------------------------------------------------

NAME = "compacting"
#: A claim of a process elsewhere, such as in a container that was killed, is abandoned after this many seconds. A
#: compaction of the largest store takes less.
FOREIGN_SECONDS = 900.0


class Claim:
    """Tells other processes that this one is compacting a folder, by an empty file ``compacting.<maker>.tmp`` in it. A
    process that finds another claim beside its own gives up, so at most one process compacts the folder; if two begin
    at the same moment, neither does. A claim only saves double work. Anybody deletes that of a process that has
    ended."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder.path
        self._path = ""

    def acquire(self) -> bool:
        """Returns False if a process that may still be running has a claim. Raises OSError if the folder cannot be
        written."""
        remove_left_temporaries(self._folder, f"{NAME}.", FOREIGN_SECONDS)
        fd, self._path = create_temporary(os.path.join(self._folder, NAME))
        os.close(fd)
        if [name for name in names_in(self._folder) if name.startswith(f"{NAME}.")] == [os.path.basename(self._path)]:
            return True
        self.release()
        return False

    def release(self) -> None:
        """Lets others compact."""
        remove(self._path)
