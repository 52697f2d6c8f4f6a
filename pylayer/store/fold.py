"""Folding: journals become packs, small packs become larger ones.

Safe beside anything. A journal is folded when it is closed or its writer has ended; its name changes first, so that
a writer taken for dead begins another. Everything is read, verified and written to a new pack, which is on the disk
under its name before the first source is deleted; a process that dies in between leaves the sources, and content
that is there twice is loaded once. Of two processes that fold at once one waits for nothing: it leaves the folder
to the other (``Claim``), and if both fold all the same, their packs hold the same records.

What does not verify is moved to quarantine before its source goes; where that fails, the source stays.
"""

from __future__ import annotations

import os

from . import binaries, format, pack, quarantine
from .claim import Claim
from .ended import close_ended_journals, has_writer
from .files import remove, remove_left_temporaries, unique_name
from .folder import Folder
from .format import Damage
from .journal import CLOSED, OPEN
from .reader import Reader
from .recency import RECENT_SECONDS, Uses, fingerprints_of, used_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .reader import Record

    #: Digests of notes, cells and binaries, by the programs that they belong to.
    Groups = dict[tuple[int, ...], tuple[list[bytes], list[bytes], list[bytes]]]

#: In a program's process, what one fold may read and how many records it may hold; `pylayer trim` has no limit.
#: A planned record takes 0.5 KiB.
PROCESS_BYTES = 64 << 20
PROCESS_RECORDS = 20000
#: Sources of one fold are open at once, and descriptors are the program's; most systems give a process 1024.
PROCESS_FILES = 64
MOST_FILES = 512
#: A fold is worth its while from so many journals, or so many bytes in them.
WORTH_JOURNALS = 4
WORTH_BYTES = 1 << 20
#: Entries of an index, or records of the plan, that one step looks at: a millisecond or less.
STEP_ENTRIES = 500
#: A pack is taken into a fold when it is not larger than this many times what the fold has already: sizes grow by
#: a factor, so a record is rewritten a few times in its life, not at every fold.
PACK_FACTOR = 2
#: A pack that reaches one of these is ended and another begun: whoever rewrites one holds its records' plan in memory.
MAX_PACK_RECORDS = 32768
MAX_PACK_BYTES = 128 << 20
#: The order of a group's records: notes are few and stand outside the compressed blocks, and a block holds records of
#: one magic, which may shrink where another's do not.
ORDER = {format.NOTE: 0, format.CELL: 1, format.BINARIES: 2}
#: A file that is damaged in more places than these goes to quarantine whole.
MAX_STRETCHES = 64


class Planned:
    """A record on its way into the new pack."""

    __slots__ = ("fingerprint", "inner", "last_used", "magic", "offset", "programs", "size", "source")

    def __init__(
        self,
        source: int,
        offset: int,
        inner: int,
        magic: bytes,
        size: int,
        fingerprint: int,
        last_used: int,
        programs: tuple[int, ...],
    ) -> None:
        self.source = source
        self.offset = offset
        self.inner = inner
        self.magic = magic
        self.size = size
        self.fingerprint = fingerprint
        self.last_used = last_used
        self.programs = programs


class Folded:
    """What a fold did. ``claimed`` False: another process is folding, and nothing was done."""

    def __init__(self) -> None:
        self.claimed = True
        self.journals = 0
        self.packs = 0
        self.records = 0
        self.dropped = 0
        self.bytes_before = 0
        self.bytes_after = 0
        #: Packs that were written; ``pack`` is the last of them.
        self.written: list[str] = []
        self.damage: list[Damage] = []

    @property
    def pack(self) -> str | None:
        """The last pack that was written, None where none was."""
        return self.written[-1] if self.written else None


class Fold:
    """One fold of a folder. ``steps`` does the work in pieces of about a millisecond; ``result`` says what came of it.

    ``everything``: all packs too, and no limits. ``drop``: programs that lose a record, which goes when none is
    left; by default nothing is dropped. ``must``: paths of packs to write anew whatever their size. ``gone``:
    programs of which nothing at all is kept. ``only``: this pack and nothing else.
    ``dry_run``: nothing is written, moved or deleted. ``most_bytes``: so much is read, without ``everything``.
    """

    def __init__(
        self,
        folder: Folder,
        everything: bool = False,
        compress: bool = True,
        drop: Callable[[Planned, Uses], tuple[int, ...]] | None = None,
        dry_run: bool = False,
        must: frozenset[str] = frozenset(),
        gone: frozenset[int] = frozenset(),
        only: str | None = None,
        most_bytes: int = PROCESS_BYTES,
    ) -> None:
        self.folder = folder
        self.result = Folded()
        self._everything = everything
        self._compress = compress
        self._drop = drop
        self._dry_run = dry_run
        self._must = must
        self._gone = gone
        self._only = only
        self._writer: pack.PackWriter | None = None
        self._most_bytes = most_bytes
        self._sources: list[Reader] = []
        self._kept_sources: set[int] = set()
        self._plan: dict[bytes, Planned] = {}
        #: Other places of planned records, for where the first does not verify: source, offset, inner.
        self._copies: dict[bytes, list[tuple[int, int, int]]] = {}
        self._uses = Uses()
        self._names: dict[int, str] = {}
        self._other_programs: set[int] = set()
        self._damaged_places: set[tuple[int, int]] = set()
        self._stretches: dict[int, int] = {}
        self._shattered: dict[int, Damage] = {}

    def steps(self) -> Iterator[None]:
        """Raises OSError; everything that was there is then still there."""
        claim = Claim(self.folder)
        self.folder.check()
        if not self._dry_run and not claim.take():
            self.result.claimed = False
            return
        try:
            if not self._dry_run:
                close_ended_journals(self.folder)
                remove_left_temporaries(self.folder.path)  # half a pack of a process that died in a fold
            for path in self._choose():
                yield from self._read(path)
            yield from self._leave_out_what_other_packs_have()
            self._leave_out_programs()
            groups: Groups = {}
            yield from self._sort(groups)
            if self._dry_run:
                return
            if self._plan or self._uses.last_run:
                yield from self._write(groups)
            yield from self._remove_sources()
        finally:
            if self._writer is not None:
                self._writer.abandon()
            for reader in self._sources:
                reader.close()
            if not self._dry_run:
                claim.drop()

    # ---- reading ---------------------------------------------------------------------------------

    def _choose(self) -> list[str]:
        """Journals, oldest first, then packs, smallest first."""
        if self._only is not None:
            return [self._only]
        chosen: list[str] = []
        size = 0
        limit = 1 << 62 if self._everything else self._most_bytes
        most = MOST_FILES if self._everything else PROCESS_FILES
        for path in self._journals()[:most]:
            bytes_there = _size(path)
            if size + bytes_there > limit and (chosen or limit < PROCESS_BYTES):
                continue  # when time is short a large one must not keep the others from being folded
            chosen.append(path)
            size += bytes_there
        packs = sorted((_size(path), path) for path in self.folder.files(None, (".pack",)))
        if not self._everything and not chosen and not self._must:
            return []
        for bytes_there, path in packs:
            if len(chosen) >= 2 * most and path not in self._must:
                continue
            small = bytes_there <= PACK_FACTOR * size and size + bytes_there <= limit
            if self._everything or small or path in self._must:
                chosen.append(path)
                size += bytes_there
        full = sum(bytes_there >= MAX_PACK_BYTES // 2 for bytes_there, _ in packs)
        alone = self._everything and len(packs) == len(chosen) and len(packs) <= full + 1
        if alone and self._drop is None and not self._must and not self._gone:
            return []  # one pack, or full ones, and nothing to add
        self.result.bytes_before = size
        return chosen

    def _journals(self) -> list[str]:
        """Journals that nobody appends to; a dry run does not give them their name first."""
        journals = self.folder.files(None, (CLOSED,))
        if self._dry_run:
            for path in self.folder.files(None, (OPEN,)):
                try:
                    if not has_writer(path):
                        journals.append(path)
                except OSError:
                    continue  # gone
        return journals

    def _read(self, path: str) -> Iterator[None]:
        if not self._everything and len(self._plan) > PROCESS_RECORDS:
            return
        try:
            reader = Reader(path)
        except FileNotFoundError:
            return  # another process folded it
        except OSError as error:
            self.result.damage.append(Damage(path, "unreadable", detail=str(error.strerror or error)))
            return
        index = len(self._sources)
        self._sources.append(reader)
        damage: list[Damage] = []
        try:
            header, outcome = reader.header(self.folder.identity.digest)
            if header is None:
                self._whole_file(index, outcome)
                return
            if header.kind == format.PACK:
                self.result.packs += 1
                yield from self._read_pack(index, header, damage)
            else:
                self.result.journals += 1
                if header.application:
                    self._names[header.program] = header.application
                yield from self._scan(index, (header.program,), damage, format.FILE_HEADER.size, reader.size)
        except OSError as error:
            self._kept_sources.add(index)
            damage.append(Damage(path, "unreadable", detail=str(error.strerror or error)))
        for what in damage:
            self._quarantine(index, what)

    def _read_pack(self, index: int, header: format.FileHeader, damage: list[Damage]) -> Iterator[None]:
        reader = self._sources[index]
        yield  # an index of 32768 entries takes some milliseconds
        directory = pack.read_directory(reader, header, damage)
        if directory is None:
            yield from self._scan(index, (), damage, format.FILE_HEADER.size, reader.size)
            return
        self._names = {**directory.names, **self._names}
        # Of a pack that is known to be damaged the records are believed, not what its index says of them.
        entries = pack.read_index(reader, directory) if reader.path not in self._must else None
        if entries is None:
            for group in directory.groups:
                yield from self._scan(index, group.programs, damage, group.offset, group.offset + group.size)
            return
        cache: dict[int, bytes] = {}
        for number, entry in enumerate(entries):
            if entry.magic == format.USED:
                found = reader.record_at(entry.offset, entry.inner, cache)
                if found is not None:
                    self._uses.note(entry.programs, fingerprints_of(found[1]), entry.last_used)
            else:
                planned = Planned(
                    index, entry.offset, entry.inner, entry.magic, entry.size,
                    entry.fingerprint, entry.last_used, entry.programs,
                )  # fmt: skip
                self._take(entry.digest, planned)
            if number % STEP_ENTRIES == STEP_ENTRIES - 1:
                yield

    def _scan(
        self, index: int, programs: tuple[int, ...], damage: list[Damage], begin: int, end: int
    ) -> Iterator[None]:
        """``programs`` own what no GRUP record speaks of; none do in a pack without its directory."""
        known = bool(programs)
        for part in self._sources[index].parts(damage, begin, end):
            for record in part.records:
                magic, start, size = record[0], record[3], record[4]
                if magic == format.GROUP:
                    if known:
                        continue
                    programs = pack.group_programs(part.data[start : start + size])
                elif magic == format.USED:
                    self._uses.note(programs, fingerprints_of(bytes(part.data[start : start + size])), record[8])
                elif magic in ORDER:
                    offset, inner = part.place(record)
                    if not programs:  # they stood in a part that is damaged
                        what = Damage(self._sources[index].path, "damaged-header", detail="whose records these are")
                        self._shattered.setdefault(index, what)
                        continue
                    planned = Planned(index, offset, inner, magic, size, record[7], record[8], programs)
                    self._take(record[6], planned)
            yield

    def _take(self, digest: bytes, found: Planned) -> None:
        """Equal content is planned once, for everybody who owns it, with the latest use."""
        known = self._plan.setdefault(digest, found)
        if known is found:
            return
        if known.source != found.source:
            self._copies.setdefault(digest, []).append((found.source, found.offset, found.inner))
        if known.programs != found.programs:
            known.programs = tuple(sorted({*known.programs, *found.programs}))
        if found.last_used > known.last_used:
            known.last_used = found.last_used
            known.fingerprint = found.fingerprint or known.fingerprint

    def _leave_out_what_other_packs_have(self) -> Iterator[None]:
        """Packs that are too large to be rewritten now. What comes from a pack stays all the same: another process may
        fold the other pack just now, and leave the record out because this one has it."""
        sources = {reader.path for reader in self._sources}
        others: set[int] = set()
        for path in self.folder.files(None, (".pack",)):
            if path in sources:
                continue
            yield  # its index takes some milliseconds
            try:
                reader = Reader(path)
            except OSError:
                continue
            try:
                header, _ = reader.header(self.folder.identity.digest)
                directory = pack.read_directory(reader, header, []) if header is not None else None
                if directory is None:
                    continue
                for group in directory.groups:
                    others.update(group.programs)
                cache: dict[int, bytes] = {}
                for number, entry in enumerate(pack.read_index(reader, directory) or ()):
                    planned = self._plan.get(entry.digest)
                    owned_there = planned is not None and set(planned.programs) <= set(entry.programs)
                    if planned is not None and owned_there and not self._is_in_a_pack(planned, entry.digest):
                        found = reader.record_at(entry.offset, entry.inner, cache)
                        if found is not None and found[0][6] == entry.digest:  # else only its index has it
                            del self._plan[entry.digest]
                    if number % STEP_ENTRIES == STEP_ENTRIES - 1:
                        yield
            except OSError:
                continue
            finally:
                reader.close()
        self._other_programs = others

    def _leave_out_programs(self) -> None:
        """Notes and uses too, which ``drop`` never takes."""
        if not self._gone:
            return
        for program in self._gone:
            self._uses.last_run.pop(program, None)
            self._uses.by_program.pop(program, None)
        for digest, planned in list(self._plan.items()):
            if not self._gone.isdisjoint(planned.programs):
                planned.programs = tuple(program for program in planned.programs if program not in self._gone)
                if not planned.programs:
                    del self._plan[digest]
                    self.result.dropped += planned.magic in format.PIPELINES

    def _is_in_a_pack(self, planned: Planned, digest: bytes) -> bool:
        sources = [planned.source, *(source for source, _, _ in self._copies.get(digest, ()))]
        return any(self._sources[source].path.endswith(".pack") for source in sources)

    # ---- writing ---------------------------------------------------------------------------------

    def _sort(self, groups: Groups) -> Iterator[None]:
        """Fills ``groups``: digests of what is written, by the programs it belongs to."""
        groups.update({(program,): ([], [], []) for program in self._uses.last_run})
        for number, (digest, planned) in enumerate(self._plan.items()):
            if number % STEP_ENTRIES == STEP_ENTRIES - 1:
                yield
            planned.last_used = self._uses.last_use(planned.programs, planned.fingerprint, planned.last_used)
            if self._drop is not None and planned.magic in format.PIPELINES:
                losers = self._drop(planned, self._uses)
                if losers:
                    planned.programs = tuple(program for program in planned.programs if program not in losers)
                    if not planned.programs:
                        self.result.dropped += 1
                        continue
            members = groups.setdefault(planned.programs, ([], [], []))
            members[ORDER.get(planned.magic, 0)].append(digest)

    def _new_writer(self) -> pack.PackWriter:
        path = os.path.join(self.folder.path, f"{unique_name()}.pack")
        self._writer = pack.PackWriter(path, self.folder.identity, self._compress)
        return self._writer

    def _finish(self, writer: pack.PackWriter) -> Iterator[None]:
        if not writer.count:
            return
        yield from writer.finishing(self._names)
        self.result.written.append(writer.path)
        self.result.records += writer.count
        self.result.bytes_after += _size(writer.path)
        self._writer = None

    def _write(self, groups: Groups) -> Iterator[None]:
        writer = self._new_writer()
        represented: dict[int, set[int]] = {}
        for number, planned in enumerate(self._plan.values()):
            for program in planned.programs:
                represented.setdefault(program, set()).add(planned.fingerprint)
            if number % STEP_ENTRIES == STEP_ENTRIES - 1:
                yield
        cache: dict[int, bytes] = {}
        cached_source = -1
        for programs in sorted(groups):
            writer.begin_group(programs)
            if len(programs) == 1:
                self._write_uses(writer, programs[0], represented.get(programs[0], set()))
            for digest in (digest for members in groups[programs] for digest in members):
                planned = self._plan[digest]
                if planned.source != cached_source:
                    cache, cached_source = {}, planned.source
                if writer.count >= MAX_PACK_RECORDS or writer.size >= MAX_PACK_BYTES:
                    yield from self._finish(writer)
                    writer = self._new_writer()
                    writer.begin_group(programs)
                if not self._copy(writer, planned, digest, cache) and not self._copy_other(writer, planned, digest):
                    continue
                if writer.count % 16 == 0:
                    yield
        yield from self._finish(writer)

    def _copy(self, writer: pack.PackWriter, planned: Planned, digest: bytes, cache: dict[int, bytes]) -> bool:
        reader = self._sources[planned.source]
        try:
            found = reader.record_at(planned.offset, planned.inner, cache)
        except OSError as error:
            self._kept_sources.add(planned.source)
            self.result.damage.append(Damage(reader.path, "unreadable", planned.offset, detail=str(error.strerror)))
            return False
        if found is None or found[0][6] != digest:
            self._quarantine(planned.source, self._damage_at(reader, planned))
            return False
        problem = binaries.problem(found[1]) if planned.magic == format.BINARIES else ""
        if problem:
            self._quarantine(planned.source, self._impossible(reader, planned, problem))
            return False
        writer.add(found[0], found[1], planned.fingerprint, planned.last_used)
        return True

    def _copy_other(self, writer: pack.PackWriter, planned: Planned, digest: bytes) -> bool:
        """The same record from another source."""
        for planned.source, planned.offset, planned.inner in self._copies.get(digest, ()):
            if self._copy(writer, planned, digest, {}):
                return True
        return False

    @staticmethod
    def _damage_at(reader: Reader, planned: Planned) -> Damage:
        """What stands where a record was expected, up to the next one that verifies: of a compressed block all of it,
        also where its header, and with it the length, is damaged."""
        damage: list[Damage] = []
        next(reader.parts(damage, planned.offset), None)
        if damage and damage[0].offset == planned.offset:
            return damage[0]
        return Damage(reader.path, "damaged-data", planned.offset, format.record_size(planned.size))

    @staticmethod
    def _impossible(reader: Reader, planned: Planned, problem: str) -> Damage:
        """The record, or the compressed block that it is in."""
        head = reader.bytes_at(planned.offset, format.RECORD_HEADER.size)
        size = format.RECORD_HEADER.unpack(head)[3]
        return Damage(reader.path, "impossible", planned.offset, format.record_size(size), problem)

    def _write_uses(self, writer: pack.PackWriter, program: int, represented: set[int]) -> None:
        """Uses that the records written now do not carry, because their records are in other packs; by the day, and
        the last run's time in any case."""
        last_run = self._uses.last_run.get(program)
        if last_run is None:
            return
        by_time: dict[int, list[int]] = {last_run: []}
        if program in self._other_programs:
            for fingerprint, when in self._uses.by_program.get(program, {}).items():
                if fingerprint not in represented:
                    day = last_run if last_run - when < RECENT_SECONDS else when // RECENT_SECONDS * RECENT_SECONDS
                    by_time.setdefault(day, []).append(fingerprint)
        for when, fingerprints in sorted(by_time.items()):
            head, data, _ = used_parts(fingerprints, when)
            digest = format.RECORD_HEADER.unpack(head)[5]
            record: Record = (format.USED, 0, 0, 0, len(data), 0, digest, 0, when)
            writer.add(record, data, 0, when)

    # ---- afterwards ------------------------------------------------------------------------------

    def _whole_file(self, index: int, outcome: str) -> None:
        reader = self._sources[index]
        damage = Damage(reader.path, outcome)
        self._kept_sources.add(index)
        if outcome == "foreign-version" and format.is_later_version(reader.first_bytes()):
            return  # a newer pylayer's
        self.result.damage.append(damage)
        if self._dry_run:
            return
        try:
            quarantine.move_file(self.folder.root, damage)
        except OSError as error:
            damage.detail = f"it cannot be moved to quarantine: {error.strerror or error}"

    def _quarantine(self, index: int, damage: Damage) -> None:
        reader = self._sources[index]
        if (index, damage.offset) in self._damaged_places:
            return  # another record of the same compressed block
        self._damaged_places.add((index, damage.offset))
        self.result.damage.append(damage)
        if self._dry_run or damage.size == 0 or damage.outcome == "unreadable":
            return
        self._stretches[index] = self._stretches.get(index, 0) + 1
        if self._stretches[index] > MAX_STRETCHES:
            self._shattered.setdefault(index, damage)
            return
        try:
            size = damage.size if damage.size > 0 else reader.size
            data = reader.bytes_at(damage.offset, min(size, quarantine.MAX_STRETCH_BYTES))
            quarantine.keep_bytes(self.folder.root, damage, data)
        except OSError:
            self._kept_sources.add(index)

    def _remove_sources(self) -> Iterator[None]:
        for index, reader in enumerate(self._sources):
            yield  # a large file takes the system milliseconds
            if index in self._kept_sources:
                continue
            if _size(reader.path) != reader.size:
                continue  # somebody appended all the same: folded next time
            if index not in self._shattered:
                remove(reader.path)
                continue
            try:
                quarantine.move_file(self.folder.root, self._shattered[index])
            except OSError:
                pass  # it stays


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
