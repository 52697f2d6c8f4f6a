"""Files that carry pipelines of one driver from one store to another.

A pack of the kind XPRT whose first group belongs to no program and holds one note: the fields of the identity, so
that whoever reads it computes the identity anew. Behind it the groups of the programs: CELL, BINR, NOTE and USED.

For the command line. An export may come from anybody: nothing in it is believed that does not follow from its
bytes, and the data of every cell must be headed by the device and driver that the file is for. Binaries have no such
head: they are of the driver whose global key is in the identity.
"""

from __future__ import annotations

import os
import time

from .. import flat
from ..cache_header import HEADER, HEADER_VERSION_ONE
from ..identity import Identity
from ..values import KIND_NAMES
from . import checking, format, pack, suspects
from .files import remove, unique_name
from .fold import ORDER
from .folder import Folder
from .reader import Reader
from .recency import Uses, fingerprints_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any

    from .reader import Part, Record

#: Notes are short.
MAX_NOTE_BYTES = 1 << 16
#: Fields of an identity and their types; the global key is not always there.
FIELDS: dict[str, type] = {
    "abi": str,
    "device_id": int,
    "driver_id": int,
    "driver_info": str,
    "driver_name": str,
    "driver_version": int,
    "pipeline_cache_uuid": str,
    "vendor_id": int,
}


class Refused(Exception):
    """A file that is not imported; the text says where and why."""


class Moved:
    """What an export or import carried."""

    def __init__(self) -> None:
        self.programs: dict[int, str] = {}
        self.records = 0
        self.pipelines = 0
        self.data_bytes = 0
        #: Records that the store had already.
        self.known = 0
        #: Records that it had for other programs only: the next fold stores them once.
        self.shared = 0
        self.snapshots = 0
        #: Records that were left out because a process died over them.
        self.suspects = 0
        self.path: str | None = None
        self.damage: list[format.Damage] = []


# ---- export ------------------------------------------------------------------------------------------


class _Wanted:
    """A record on its way into an export."""

    __slots__ = ("fingerprint", "inner", "last_used", "magic", "offset", "programs", "source")

    def __init__(self, source: int, place: tuple[int, int], record: Record, programs: set[int]) -> None:
        self.source = source
        self.offset, self.inner = place
        self.magic, self.fingerprint, self.last_used = record[0], record[7], record[8]
        self.programs = programs


class Export:
    """Writes what some programs have under one identity into a file, without what is suspected of having crashed a
    driver; snapshots and the programs' own caches stay."""

    def __init__(self, folder: Folder, programs: dict[int, str], device: str = "") -> None:
        self.result = Moved()
        self.result.programs = programs
        self._folder = folder
        self._device = device
        self._sources: list[Reader] = []
        self._plan: dict[bytes, _Wanted] = {}
        self._uses = Uses()
        self._suspects = suspects.review(folder, read_only=True)[0]

    def steps(self, path: str, compress: bool = True) -> Iterator[int]:
        """Yields bytes read. Raises OSError; there is no file then."""
        try:
            for file in self._folder.files(None, (".pack", ".closed", ".journal")):
                yield from self._read(file)
            self.result.suspects = len(self._suspects.left_out)
            for digest in self._suspects.left_out:
                self._plan.pop(digest, None)  # a copy of it without the fingerprint that is suspected
            for program in self.result.programs:
                self.result.snapshots += len(self._folder.files(program, (".snapshot",)))
            if any(wanted.magic in format.PIPELINES for wanted in self._plan.values()):
                yield from self._write(path, compress)
        finally:
            for reader in self._sources:
                reader.close()

    def _read(self, file: str) -> Iterator[int]:
        suffix = os.path.splitext(file)[1]
        owner = None
        if suffix != ".pack":
            try:
                owner = int(os.path.basename(file)[:16], 16)
            except ValueError:
                return  # nobody's
            if owner not in self.result.programs:
                return
        checked = checking.Checked(file)
        try:
            reader = Reader(file)
        except FileNotFoundError:
            return  # folded meanwhile
        index = len(self._sources)
        self._sources.append(reader)
        chosen = self.result.programs.keys()
        pieces = checking.check_file(
            file,
            format.KIND_OF_SUFFIX[suffix],
            self._folder.identity.digest,
            checked,
            owner,
            lambda programs: not chosen.isdisjoint(programs),
        )
        done = 0
        for programs, part in pieces:
            self._take(index, part, chosen & set(programs))
            yield checked.file_bytes - done
            done = checked.file_bytes
        self.result.damage += [what for what in checked.damage if what.outcome != "truncated" or suffix == ".pack"]

    def _take(self, source: int, part: Part, programs: set[int]) -> None:
        for record in self._suspects.without(part.records):
            if record[0] == format.USED:
                data = bytes(part.data[record[3] : record[3] + record[4]])
                self._uses.note(tuple(programs), fingerprints_of(data), record[8])
            elif record[0] in ORDER:
                known = self._plan.get(record[6])
                if known is None:
                    self._plan[record[6]] = _Wanted(source, part.place(record), record, programs)
                    continue
                known.programs = known.programs | programs
                if record[8] > known.last_used:
                    known.last_used, known.fingerprint = record[8], record[7] or known.fingerprint

    def _write(self, path: str, compress: bool) -> Iterator[int]:
        writer = pack.PackWriter(path, self._folder.identity, compress, format.EXPORT)
        try:
            writer.begin_group(())
            _add(writer, format.NOTE, self._description(), 0)
            groups: dict[tuple[int, ...], list[bytes]] = {(program,): [] for program in self._uses.last_run}
            for digest, wanted in self._plan.items():
                groups.setdefault(tuple(sorted(wanted.programs)), []).append(digest)
            cache: dict[int, bytes] = {}
            cached_source = -1
            for programs in sorted(groups):
                writer.begin_group(programs)
                last_run = self._uses.last_run.get(programs[0]) if len(programs) == 1 else None
                if last_run is not None:
                    _add(writer, format.USED, b"", last_run)
                for digest in sorted(groups[programs], key=lambda digest: ORDER[self._plan[digest].magic]):
                    wanted = self._plan[digest]
                    if wanted.source != cached_source:
                        cache, cached_source = {}, wanted.source
                    found = self._sources[wanted.source].record_at(wanted.offset, wanted.inner, cache)
                    if found is None or found[0][6] != digest:
                        continue  # damaged since it was read
                    when = self._uses.last_use(programs, wanted.fingerprint, wanted.last_used)
                    writer.add(found[0], found[1], wanted.fingerprint, when)
                    self.result.records += 1
                    self.result.pipelines += wanted.magic in format.PIPELINES
                    self.result.data_bytes += len(found[1])
                    yield 0
            self.result.path = writer.finish(self.result.programs)
        except BaseException:
            writer.abandon()
            raise

    def _description(self) -> bytes:
        return flat.dumps({"identity": self._folder.identity.fields, "device": self._device}).encode()


def _add(writer: pack.PackWriter, magic: bytes, data: bytes, when: int) -> None:
    head = format.RECORD_HEADER.unpack(format.record_parts(magic, data, last_used=when)[0])
    writer.add((magic, 0, 0, 0, len(data), 0, head[5], 0, when), data, 0, when)


# ---- import ------------------------------------------------------------------------------------------


class Import:
    """Verifies an export, and writes it into a store as one new pack, whole or not at all. With ``recipient``, a
    program's number and name, everything becomes that program's, whoever compiled it."""

    def __init__(self, path: str, recipient: tuple[int, str] | None = None) -> None:
        self.result = Moved()
        self.device = ""
        self._recipient = recipient
        #: Whose records the pack has last.
        self._group: tuple[int, ...] | None = None
        self._checked = checking.Checked(path)
        self._pieces = checking.check_file(path, format.EXPORT, None, self._checked)
        self.identity = self._read_identity()
        self.result.programs = self._checked.names

    def _refuse(self, reason: str, offset: int | None = None) -> Refused:
        place = "" if offset is None else f" at byte {offset}"
        return Refused(f"{reason}{place}")

    def _read_identity(self) -> Identity:
        """The identity that the file is for, from the note that its first group is. Raises Refused and OSError."""
        owners, part = next(self._pieces, (None, None))
        self._stop_at_damage()
        records = [record for record in part.records if record[0] != format.GROUP] if part is not None else []
        if owners != () or part is None or len(records) != 1 or records[0][0] != format.NOTE:
            raise self._refuse("the identity's fields are not at the beginning")
        start, size = records[0][3], records[0][4]
        if size > MAX_NOTE_BYTES:
            raise self._refuse("the identity's fields are too long")
        identity = self._identity_of(bytes(part.data[start : start + size]))
        header = self._checked.header
        if header is None or identity.digest != header.identity_digest:
            raise self._refuse("the identity's fields are not those of the file's header")
        return identity

    def _identity_of(self, data: bytes) -> Identity:
        try:
            values = flat.loads(data.decode())
            fields: dict[str, Any] = values["identity"]
            wanted = {**FIELDS, "global_key": str} if "global_key" in fields else FIELDS
            types = {key: type(value) for key, value in fields.items()}
            sane = types == wanted and len(bytes.fromhex(fields["pipeline_cache_uuid"])) == 16
            sane = sane and len(bytes.fromhex(fields.get("global_key", ""))) <= 32
            sane = sane and all(0 <= value < 1 << 32 for value in fields.values() if isinstance(value, int))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._refuse("the identity's fields cannot be read") from error
        if not sane:
            raise self._refuse("the identity's fields are none of a device")
        self.device = str(values.get("device", ""))
        return Identity(fields)

    def steps(self, root: str, compress: bool = True, dry_run: bool = False) -> Iterator[int]:
        """Yields bytes done. Raises Refused and OSError; the store is then as it was."""
        folder = Folder(root, self.identity)
        present = yield from _present(folder)
        fresh = not os.path.isdir(folder.path)
        writer: pack.PackWriter | None = None
        try:
            if not dry_run:
                folder.prepare()
                writer = pack.PackWriter(os.path.join(folder.path, f"{unique_name()}.pack"), self.identity, compress)
            yield from self._read(writer, present)
            if writer is not None and writer.count:
                names = self.result.programs if self._recipient is None else dict([self._recipient])
                self.result.path = writer.finish(names)
                writer, fresh = None, False
        finally:
            if writer is not None:
                writer.abandon()
            if fresh and not dry_run:
                remove(os.path.join(folder.path, "identity"))
                try:
                    os.rmdir(folder.path)
                except OSError:
                    pass  # not made, or in use meanwhile

    def _read(self, writer: pack.PackWriter | None, present: dict[bytes, set[int]]) -> Iterator[int]:
        last_runs: dict[int, int] = {}
        gained: set[int] = set()
        taken: set[bytes] = set()
        done, now = 0, int(time.time())
        for owners, part in self._pieces:
            self._stop_at_damage()
            yield self._checked.file_bytes - done
            done = self._checked.file_bytes
            programs = owners if self._recipient is None else (self._recipient[0],)
            for record in part.records:
                if record[0] == format.GROUP:
                    continue
                place = part.place(record)[0]
                data = memoryview(part.data)[record[3] : record[3] + record[4]]
                self._judge(owners, record, data, place)
                if record[0] == format.USED:
                    for program in programs:
                        last_runs[program] = max(last_runs.get(program, 0), min(record[8], now))
                    continue
                if record[6] in taken:
                    raise self._refuse("the same record twice", place)
                taken.add(record[6])
                having = present.get(record[6], set())
                if having >= set(programs):
                    self.result.known += 1
                    continue
                gained.update(programs)
                self.result.shared += bool(having)
                self._keep(writer, programs, record, data, min(record[8], now))
        self._stop_at_damage()
        if writer is not None:
            for program in sorted(gained & last_runs.keys()):
                writer.begin_group((program,))
                _add(writer, format.USED, b"", last_runs[program])

    def _keep(
        self, writer: pack.PackWriter | None, programs: tuple[int, ...], record: Record, data: memoryview, when: int
    ) -> None:
        """A record that the store has not; it is only counted where there is nothing to write to."""
        self.result.records += 1
        self.result.pipelines += record[0] in format.PIPELINES
        self.result.data_bytes += record[4]
        if writer is not None:
            if programs != self._group:
                writer.begin_group(programs)
                self._group = programs
            writer.add(record, data, record[7], when)

    def _stop_at_damage(self) -> None:
        if self._checked.damage:
            what = self._checked.damage[0]
            detail = f" ({what.detail})" if what.detail else ""
            raise self._refuse(f"{what.outcome}: {format.OUTCOMES[what.outcome]}{detail}", what.offset or None)

    def _judge(self, programs: tuple[int, ...], record: Record, data: memoryview, place: int) -> None:
        """Raises Refused for what no pylayer writes into an export."""
        magic, kind, flags = record[0], record[1], record[2]
        if not programs:
            raise self._refuse("a record of no program", place)
        for program in programs:
            name = self.result.programs.get(program, "")
            if not name or not name.isprintable():
                raise self._refuse("a program without a name, or with one that cannot be printed", place)
        if magic in format.PIPELINES:
            known = format.ADOPTED | (format.DRIVER_COMPRESSED if magic == format.BINARIES else 0)
            if kind >= len(KIND_NAMES) or flags & ~known:
                raise self._refuse("a pipeline of no known kind", place)
            reason = self._cell_problem(data) if magic == format.CELL else self._binaries_problem()
            if reason:
                raise self._refuse(f"a pipeline {reason}", place)
        elif magic == format.NOTE:
            self._judge_note(data, place)
        elif len(data) % 8:
            raise self._refuse("uses that are none", place)

    def _cell_problem(self, data: memoryview) -> str:
        """What is wrong with the VkPipelineCacheHeaderVersionOne of a cell; empty where nothing is."""
        fields = self.identity.fields
        if len(data) < HEADER.size:
            return "shorter than a pipeline cache header"
        length, version, vendor, device, uuid = HEADER.unpack_from(data)
        if version != HEADER_VERSION_ONE or not HEADER.size <= length <= len(data):
            return "without a pipeline cache header"
        if vendor != fields["vendor_id"] or device != fields["device_id"]:
            return "of another device than the file is for"
        if uuid != bytes.fromhex(fields["pipeline_cache_uuid"]):
            return "of another driver build than the file is for"
        return ""

    def _binaries_problem(self) -> str:
        """Their structure is checked with the file's."""
        return "" if self.identity.fields.get("global_key") else "of binaries, for a driver without a global key"

    def _judge_note(self, data: memoryview, place: int) -> None:
        try:
            note = flat.loads(bytes(data[:MAX_NOTE_BYTES]).decode())
        except ValueError:
            note = {}
        kind = note.get("plain_kind")
        known = type(kind) is int and 0 <= kind < len(KIND_NAMES) if "plain_kind" in note else note.get("stub") is True
        if len(note) != 1 or not known or len(data) > MAX_NOTE_BYTES:
            raise self._refuse("a note that says nothing known", place)


def _present(folder: Folder) -> Generator[int, None, dict[bytes, set[int]]]:
    """Returns the programs that have each record in the store, by its digest."""
    present: dict[bytes, set[int]] = {}
    for file in folder.files(None, (".pack", ".closed", ".journal")):
        suffix = os.path.splitext(file)[1]
        checked = checking.Checked(file)
        kind, digest = format.KIND_OF_SUFFIX[suffix], folder.identity.digest
        try:
            for programs, part in checking.check_file(file, kind, digest, checked):
                for record in part.records:
                    if record[0] in ORDER:
                        present.setdefault(record[6], set()).update(programs)
                yield 0
        except FileNotFoundError:
            continue  # folded meanwhile
    return present
