"""Pipelines and recordings that leave a store, or come to it from another one.

An export is a file of the kind XPRT. Its first record is a NOTE with the fields of the identity, from which the reader
computes the identity anew. Recordings have no such fields. Then, for each program, follow a NOTE with its number and
name, and its records.

Only the command line uses this. An export may come from anybody, so an import trusts only what it can verify. The data
of every cell must begin with the device and driver that the file is for. Binaries have no such header: they belong to
drivers with the global key whose hash is in them.

A pack that a fleet publishes is a pack of the store for one program, without USED records. Its pipelines have the flag
PULLED and were last used at NEVER_USED, so that a machine sees later which of them its own runs used. A machine
verifies the file and renames it into its store: no record is written again. The publisher has what is published in a
store made for the occasion, and imports the exports there: whatever packs are then in it are published.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from ..common import file_kinds, flat, outcomes
from ..common.file_kinds import FileName
from ..common.files import names_in, remove, sync_file
from ..common.identity import Identity
from . import checking, deaths, format, pack
from .compaction import Compaction
from .contents import merged_of
from .folder import Folder as Folder
from .folder import came_unrecorded
from .format import CELL, CHUNK
from .format import NEVER_USED as NEVER_USED
from .format import PULLED as PULLED
from .format import Refused as Refused
from .reader import Part, Reader, Record, parts_of

#: The longest name of a program. The header of a file has the first 64 bytes of it.
MAX_NAME = 4096


class Moved:
    """The result of an export or import."""

    def __init__(self) -> None:
        self.programs: dict[int, str] = {}
        self.pipelines = 0
        #: Records that the store had already.
        self.known = 0
        #: Records that were left out because a process died over them.
        self.blocked = 0
        #: Path of the export, or of the packs that an import wrote.
        self.paths: list[str] = []
        self.damage: list[format.Damage] = []


# ---- export ------------------------------------------------------------------------------------------


class Export:
    """Writes the records of some programs under one identity into a file, except those blocked because they crashed a
    driver. Equal content is exported once for each fingerprint, by which the layer finds it. The programs' own caches
    are not exported."""

    def __init__(self, folder: Folder, programs: dict[int, str], device: str = "") -> None:
        self.result = Moved()
        self.result.programs = programs
        self._folder = folder
        self._device = device
        self._plans: dict[int, dict[tuple[bytes, int], Record]] = {program: {} for program in programs}
        self._verdicts = deaths.of_everyone(folder)
        self._left_out: set[bytes] = set()

    def steps(self, path: str) -> Iterator[int]:
        """Yields the number of bytes read. Raises OSError; no file is left then. Writes no file if there are no
        pipelines."""
        files = self._folder.files_by_program()
        for program in self.result.programs:
            for file in files.get(program, ()):
                yield from self._read(program, file)
        self.result.blocked = len(self._left_out)
        found = False
        for plan in self._plans.values():
            for name in [name for name in plan if name[0] in self._left_out]:
                del plan[name]  # a copy of the record without the blocked fingerprint
            found |= bool(plan)
        if found:
            yield from self._write(path)

    def _read(self, program: int, file: str) -> Iterator[int]:
        checked = checking.Checked()
        try:
            source = Reader(file)
            kind, digest = file_kinds.BY_SUFFIX[os.path.splitext(file)[1]].magic, self._folder.identity.digest
            for part in checking.check_file(file, kind, digest, checked, program):
                self._take(program, source, part)
                yield 0
        except FileNotFoundError:
            return  # compacted meanwhile
        yield checked.file_bytes
        self.result.damage += [what for what in checked.damage if not what.is_torn_end]

    def _take(self, program: int, source: Reader, part: Part) -> None:
        plan = self._plans[program]
        for record in part.records:
            if record.is_pipeline and self._verdicts.takes_record(record):
                self._left_out.add(record.digest)
            # Why a pipeline was not rebuilt is known of this machine's driver alone.
            elif record.magic in self._folder.content and record.magic != format.FAILED:
                record.source, record.offset = source, part.place(record)
                plan.setdefault(record.name, record)

    def _write(self, path: str) -> Iterator[int]:
        writer = pack.PackWriter(path, self._folder.identity, kind=format.EXPORT)
        try:
            fields = self._folder.identity.fields
            note = {"identity": fields, "device": self._device, "fingerprints": format.FINGERPRINTS}
            writer.add_parts(format.record_parts(format.NOTE, flat.dumps(note).encode()))
            for program, name in self.result.programs.items():
                if self._plans[program]:
                    note = {"program": f"{program:016x}", "name": name}
                    writer.add_parts(format.record_parts(format.NOTE, flat.dumps(note).encode()))
                    yield from self._write_program(writer, program)
            self.result.paths = [writer.finish()]
        except BaseException:
            writer.abandon()
            raise

    def _write_program(self, writer: pack.PackWriter, program: int) -> Iterator[int]:
        plan = self._plans[program]
        order = self._folder.content
        for wanted in sorted(plan.values(), key=lambda planned: order.index(planned.magic)):
            found = wanted.source.record_at(wanted.offset)
            if found is None or found[0].digest != wanted.digest:
                continue  # damaged since it was read
            found[0].flags &= ~format.REBUILT  # of this machine
            writer.add(*found, 0)
            self.result.pipelines += _pipelines_in(found[0])
            yield 0


# ---- import ------------------------------------------------------------------------------------------


class _Section:
    """What is imported for one program. ``present``: digest and fingerprint of the records that the store has."""

    def __init__(self, writer: pack.PackWriter, present: set[tuple[bytes, int]]) -> None:
        self.writer = writer
        #: Fingerprints of the pipelines that the store lacked.
        self.fingerprints: set[int] = set()
        self.present = present
        self.taken: set[tuple[bytes, int]] = set()


class Import:
    """Verifies an export and imports it into a store as a new pack for each program, whole or not at all: no pack gets
    its name before the entire file is verified. With ``recipient``, a program's number and name, that program gets all
    records, whichever program compiled them. ``sync``: waits until the packs are on the disk. ``flags``: added to those
    of each pipeline. ``last_used``: what counts as its last use, by default the time of the import."""

    def __init__(
        self,
        path: str,
        recipient: tuple[int, str] | None = None,
        sync: bool = True,
        flags: int = 0,
        last_used: int | None = None,
    ) -> None:
        self.path = path
        self._sync = sync
        self._flags = flags
        self._last_used = int(time.time()) if last_used is None else last_used
        self.result = Moved()
        self._recipient = recipient
        self._sections: dict[int, _Section] = {}
        self._files: dict[int, list[str]] = {}
        self.device = ""
        self.identity = self._read_identity()

    def _read_identity(self) -> Identity:
        """Returns the identity that the file is for, computed from its fields. Raises Refused and OSError."""
        reader = Reader(self.path, foreign=True)
        header, outcome = reader.header()
        if header is None:
            raise Refused(f"{outcome}: {outcomes.STORE[outcome]}")
        if header.kind != format.EXPORT:
            raise Refused(f"a file of kind {checking.text_of(header.kind)}, not an export")
        if header.size != reader.size:
            outcome = "truncated" if header.size > reader.size else "extended"
            raise Refused(f"{outcome}: {outcomes.STORE[outcome]} at byte {min(header.size, reader.size)}")
        head = reader.header_at(format.FILE_HEADER.size)
        found = reader.record_at(format.FILE_HEADER.size) if head and head[3] <= checking.MAX_NOTE_BYTES else None
        if found is None or found[0].magic != format.NOTE:
            raise Refused(f"the identity's fields are missing, or do not verify at byte {format.FILE_HEADER.size}")
        identity = self._identity_of(found[1])
        if identity.digest != header.identity_digest:
            raise Refused("the identity's fields do not match the file's header")
        return identity

    def _identity_of(self, data: bytes) -> Identity:
        try:
            values = flat.loads(data.decode())
            fields: dict[str, Any] = values.get("identity", {})
        except ValueError as error:
            raise Refused("the identity's fields cannot be read") from error
        if fields and not checking.describes_device(fields):
            raise Refused("the identity's fields do not describe a device")
        version = values.get("fingerprints", 1)
        if version != format.FINGERPRINTS:
            raise Refused(
                f"its fingerprints have version {str(version)[:20]}, and this pylayer's have {format.FINGERPRINTS}: "
                "programs would not find its pipelines; both need the same release"
            )
        self.device = str(values.get("device", ""))
        return Identity(fields)

    def steps(self, root: str) -> Iterator[int]:
        """Yields the number of bytes done. Raises Refused and OSError; the store is then as it was."""
        folder = Folder(root, self.identity)
        fresh = not os.path.isdir(folder.path)
        try:
            folder.prepare()
            self._files = folder.files_by_program()
            yield from self._read(folder)
            for program, section in self._sections.items():
                if section.writer.count:
                    self.result.paths.append(section.writer.finish(self._sync))
                    fresh = False
                    if section.fingerprints and not self._flags & format.REBUILT:
                        came_unrecorded(root, program, section.fingerprints)
        finally:
            for section in self._sections.values():
                section.writer.abandon()  # unless it has its name
            if fresh and names_in(folder.path) == ["identity"]:  # otherwise a program has begun to store there
                remove(os.path.join(folder.path, "identity"))
                try:
                    os.rmdir(folder.path)
                except OSError:
                    pass  # not made, or in use meanwhile

    def _read(self, folder: Folder) -> Iterator[int]:
        checked = checking.Checked()
        section: _Section | None = None
        first = True
        for part in checking.check_file(self.path, format.EXPORT, self.identity.digest, checked):
            checked.require_sound()
            yield len(part.data)
            for record in part.records:
                data, place = part.data_of(record), part.place(record)
                if first:  # the identity's fields, which ``_read_identity`` has read
                    first = False
                elif record.magic == format.NOTE and (named := self._program_of(data, place)) is not None:
                    section = self._begin(folder, named)
                elif section is None:
                    raise Refused(f"a record that belongs to no program at byte {place}")
                else:
                    reason = checking.foreign_problem(record, data, self.identity)
                    if reason:
                        raise Refused(f"{reason} at byte {place}")
                    is_note = record.magic == format.NOTE  # how the program's file is called
                    if record.magic in folder.content and not (is_note and self._recipient):
                        self._take(section, record, data, place)
        checked.require_sound()

    def _program_of(self, data: memoryview, place: int) -> tuple[int, str] | None:
        """Returns number and name of the program whose section a NOTE record begins; None if it is another note."""
        try:
            note = flat.loads(bytes(data[: checking.MAX_NOTE_BYTES]).decode())
            if "program" not in note:
                return None
            program, name = int(note["program"], 16), note["name"]
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(f"a note with unknown content at byte {place}") from error
        if set(note) != {"program", "name"} or not 0 <= program < 1 << 64 or program in self.result.programs:
            raise Refused(f"an impossible program, or one that appears twice at byte {place}")
        if not isinstance(name, str) or not name or not name.isprintable() or len(name) > MAX_NAME:
            raise Refused(f"a program without a name, or with one that cannot be printed at byte {place}")
        self.result.programs[program] = name
        return program, name

    def _begin(self, folder: Folder, named: tuple[int, str]) -> _Section:
        """Returns the section that the following records go to. With a recipient it is always the same one."""
        program, name = self._recipient or named
        section = self._sections.get(program)
        if section is None:
            writer = pack.PackWriter(folder.new_path(program, file_kinds.PACK), self.identity, program, name)
            section = _Section(writer, _present(folder, self._files.get(program, [])))
            self._sections[program] = section
        return section

    def _take(self, section: _Section, record: Record, data: memoryview, place: int) -> None:
        if record.name in section.taken:
            if self._recipient is None:
                raise Refused(f"the same record twice at byte {place}")
            return  # two programs had it
        section.taken.add(record.name)
        if record.name in section.present:
            self.result.known += _pipelines_in(record)
            return
        section.fingerprints.update(fingerprint for fingerprint, _ in record.cells if fingerprint)
        self.result.pipelines += _pipelines_in(record)
        record.flags |= self._flags
        section.writer.add(record, data, self._last_used)


def _pipelines_in(record: Record) -> int:
    """Returns the number of pipelines that a record stands for."""
    return len(record.cells) or int(record.magic == format.CREATED)


def _present(folder: Folder, files: list[str]) -> set[tuple[bytes, int]]:
    """Returns digest and fingerprint of a program's records in the store, in these files."""
    parts = (part for file in files for part in parts_of(file, folder.identity.digest, []))
    return {record.name for part in parts for record in part.records if record.magic in folder.content}


# ---- packs of a fleet: admitting -------------------------------------------------------------------


def admit(root: str, identity: Identity, program: int, path: str, sha256: str) -> int:
    """Verifies a published pack and moves it into the store, under a name with the beginning of its SHA-256, which is
    on the disk after ``sync_packs``. The file is on the same file system, in a directory that only this user can write
    to. Returns the number of pipelines. Raises Refused and OSError; the store is then as it was."""
    pipelines, fingerprints = _verify(path, identity, program)
    folder = Folder(root, identity)
    try:
        folder.check()
    except FileNotFoundError:
        folder.prepare()
    sync_file(path)
    os.rename(path, os.path.join(folder.path, str(FileName(program, _unique(sha256), file_kinds.PACK))))
    came_unrecorded(root, program, fingerprints)
    return pipelines


def sync_packs(root: str, identity: str) -> None:
    """Waits until the names of admitted packs are on the disk. Raises OSError."""
    path = os.path.join(root, "store", identity)
    if os.path.isdir(path):
        sync_file(path)


def _unique(sha256: str) -> str:
    """Returns the part of a pulled pack's name that says which it is."""
    return sha256[: file_kinds.PULLED_DIGITS]


def held(root: str, identity: Identity, listed: set[str]) -> set[str]:
    """Returns which of the ``listed`` packs, given by SHA-256, the store has. A pulled pack that is not listed any
    more, because it was merged into another, becomes one like those of this machine, for compactions. Raises
    OSError."""
    folder, found, names = Folder(root, identity), set(), {_unique(sha256): sha256 for sha256 in listed}
    for path in folder.files(None, (file_kinds.PACK,)):
        name = FileName.parse(path)
        if name is not None and name.is_published:
            if name.unique in names:
                found.add(names[name.unique])
            else:
                os.rename(path, folder.new_path(name.program, file_kinds.PACK))
    return found


def _verify(path: str, identity: Identity, program: int) -> tuple[int, set[int]]:
    """Returns the number of pipelines, and the fingerprints of those that have one. Raises Refused unless every record
    is one that a publisher writes for this identity and program."""
    checked = checking.Checked()
    pipelines = 0
    fingerprints: set[int] = set()
    for part in checking.check_file(path, format.PACK, identity.digest, checked, program):
        for record in part.records:
            if checked.damage:
                break
            reason = checking.foreign_problem(record, part.data_of(record), identity)
            if record.magic == format.USED or (record.is_pipeline and not record.flags & PULLED):
                reason = reason or "a record that was not published"
            if reason:
                raise Refused(f"{reason} at byte {part.place(record)}")
            pipelines += len(record.cells)
            fingerprints.update(fingerprint for fingerprint, _ in record.cells if fingerprint)
    checked.require_sound()
    return pipelines, fingerprints


# ---- packs of a fleet: publishing ------------------------------------------------------------------


def merge(root: str, identity: Identity, most: int, merged: int) -> None:
    """Merges the smallest packs, so many, of each program that has more than ``most``. Raises OSError."""
    folder = Folder(root, identity)
    for program, paths in folder.files_by_program((file_kinds.PACK,)).items():
        if len(paths) > most:
            smallest = frozenset(sorted(paths, key=os.path.getsize)[:merged])
            for _ in Compaction(folder, program, must=smallest).steps():
                pass


# ---- for drivers' own caches --------------------------------------------------------------------------


class Piece:
    """The data of one VkPipelineCache in the store, by its place, and the fingerprints of its pipelines."""

    def __init__(self, reader: Reader, place: int, record: Record) -> None:
        self.size = record.size
        self.fingerprints = record.fingerprints
        self._reader, self._place = reader, place

    def read(self) -> bytes:
        """Returns the data, verified again; nothing if it is not there any more. Raises OSError."""
        found = self._reader.record_at(self._place)
        if found is None:
            return b""
        return bytes(merged_of(memoryview(found[1]))) if found[0].magic == CHUNK else found[1]


def pieces(root: str, identity: Identity, program: int, others: set[int]) -> Iterator[Piece]:
    """Yields what verifies and is not blocked. Adds the fingerprints of pipelines that are stored as binaries to
    ``others``."""
    folder = Folder(root, identity)
    blocked = deaths.of_everyone(folder)
    for path in folder.files(program):
        try:
            reader = Reader(path)
            for part in reader.verified(identity.digest, []):
                for record in part.records:
                    if record.magic not in (CELL, CHUNK):
                        others.update(record.fingerprints)
                    elif not blocked.takes_record(record):
                        yield Piece(reader, part.place(record), record)
        except OSError:
            continue  # compacted meanwhile, or unreadable, which `pylayer ls --verify` tells
