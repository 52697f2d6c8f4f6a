"""Verifies files and whole stores: every record, and whether a file of that kind may hold it. Repairs, compacts and
limits a whole store at once.

Only the command line verifies files. Loading verifies what it hands over and nothing else, and a compaction the records
that it takes. Nobody checks the padding between records, which nothing reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..common import outcomes
from ..common.files import FULL
from ..common.identity import FIELDS, NO_IDENTITY, Identity
from ..common.outcomes import HEADER, HEADER_VERSION_ONE
from ..common.settings import Limits
from ..values import KIND_NAMES
from . import bounds, compaction, contents, format, maintenance, state
from .compaction import Compaction
from .folder import Folder, StoreFile, described_identity, files_of, folders, identity_names
from .format import Damage, Refused
from .reader import Part, Reader, Record

Takes = Callable[[int], bool]
TakesIdentity = Callable[[str], bool]


#: Longer notes are refused.
MAX_NOTE_BYTES = 1 << 16


def text_of(magic: bytes) -> str:
    """Returns a magic as a message shows it."""
    return magic.decode("ascii", "replace") if magic.isalnum() else repr(magic)


class Checked:
    """What verified in files, or in the whole store ``root``, and what did not."""

    def __init__(self, root: str = "") -> None:
        self.root = root
        self.files = self.records = 0
        #: Size of the records' data, as a driver or policy gets it, and of the files.
        self.data_bytes = self.file_bytes = 0
        self.damage: list[Damage] = []

    def require_sound(self) -> None:
        """Raises Refused if there is any damage."""
        if self.damage:
            what = self.damage[0]
            detail = f" ({what.detail})" if what.detail else ""
            raise Refused(f"{what.outcome}: {outcomes.STORE[what.outcome]}{detail} at byte {what.offset}")

    @property
    def torn_ends(self) -> list[Damage]:
        """Returns incomplete ends of files that a process appends to, or appended to when it was killed. They are
        harmless."""
        return [what for what in self.damage if what.is_torn_end]

    @property
    def other_versions(self) -> list[Damage]:
        """Returns files of another version of the format. They are harmless but cannot be used."""
        return [what for what in self.damage if what.outcome == "foreign-version"]

    @property
    def problems(self) -> list[Damage]:
        """Returns all other damage."""
        return [what for what in self.damage if not what.is_torn_end and what.outcome != "foreign-version"]

    def steps(self, takes_identity: TakesIdentity, takes: Takes | None) -> Iterator[int]:
        """Verifies the files of the programs that ``takes`` selects, or with None all files of an identity. This
        includes files that appear meanwhile, such as those that a compaction writes. Yields the number of bytes
        read."""
        for name in identity_names(self.root):
            if not takes_identity(name):
                continue
            if takes is None:
                self._verify_identity(name)
            seen: set[str] = set()
            while new := [file for file in _files(self.root, name, takes) if file.path not in seen]:
                for file in new:
                    seen.add(file.path)
                    yield from self._verify_file(file, bytes.fromhex(name))
        if takes_identity(""):  # state belongs to none
            for program, paths in state.folder(self.root).files_by_program().items():
                for path in paths if takes is None or takes(program) else ():
                    yield from self._verify_file(StoreFile(path, 0, 0), NO_IDENTITY.digest)

    def repair(self) -> None:
        """Deletes the files that have problems, and keeps what verifies in packs and journals. Raises OSError."""
        for folder in (*folders(self.root), state.folder(self.root)):
            for _ in maintenance.tidy(folder, self.problems):
                pass

    def _verify_identity(self, name: str) -> None:
        """Verifies that an identity's description matches its folder's name."""
        path = os.path.join(self.root, "store", name, "identity")
        try:
            if described_identity(self.root, name) is None:
                self.damage.append(Damage(path, "damaged-data", detail="its fields do not match the folder"))
            else:
                self.file_bytes += os.stat(path).st_size
                self.files += 1
        except FileNotFoundError:
            self.damage.append(Damage(path, "unreadable", detail="it is missing"))
        except OSError as error:
            self.damage.append(Damage.unreadable(path, error))

    def _verify_file(self, file: StoreFile, identity: bytes) -> Iterator[int]:
        before = self.file_bytes
        try:
            for _ in check_file(file.path, file.kind.magic, identity, self, file.program):
                yield 0
        except FileNotFoundError:
            return  # compacted meanwhile
        except OSError as error:
            self.damage.append(Damage.unreadable(file.path, error))
        yield self.file_bytes - before


def check_file(
    path: str, kind: bytes, identity_digest: bytes | None, result: Checked, program: int | None = None
) -> Iterator[Part]:
    """Reads a file to its end: yields the parts that verify, and adds counts and damage to ``result``.

    ``kind`` and ``program`` are the kind of the file and its program according to its name. Raises OSError.
    """

    def wrong(detail: str, offset: int = 0, size: int = -1) -> None:
        result.damage.append(Damage(path, "impossible", offset, size, detail))

    reader, known = Reader(path, foreign=kind == format.EXPORT), len(result.damage)
    result.files += 1
    result.file_bytes += reader.size
    header, outcome = reader.header(identity_digest)
    if header is None:
        result.damage.append(Damage(path, outcome))
        return
    if header.kind != kind and (header.kind, kind) != (format.EARLIER_STATE_FILE, format.JOURNAL):
        wrong(f"a file of kind {text_of(header.kind)} with a name of kind {text_of(kind)}")
        return
    if program is not None and header.program != program:
        wrong(f"a file of program {header.program:016x} with the name of another")
    places: list[tuple[int, int]] = []
    for part in reader.content(header, result.damage):
        records, part.records = part.records, []
        for record in records:
            place, data = part.place(record), part.data_of(record)
            if record.magic == format.TABLE and kind == format.PACK:
                # Of a damaged record, nobody knows the places.
                if data != format.table_of(places) and len(result.damage) == known:
                    wrong("a table of other records", place)
                continue
            places += [(fingerprint, place) for fingerprint in record.fingerprints or (0,)]
            if detail := compaction.problem(record, data):
                wrong(detail, place, format.record_size(record.size))
                continue
            part.records.append(record)
            result.records += 1
            result.data_bytes += record.size
        yield part


# ---- records of other machines -----------------------------------------------------------------------


def describes_device(fields: Any) -> bool:
    """Returns whether the fields of an identity, which may be anything, describe a device and its driver."""
    if not isinstance(fields, dict):
        return False
    if {key: type(value) for key, value in fields.items()} != FIELDS:
        return False
    try:
        uuid = bytes.fromhex(fields["pipeline_cache_uuid"])
        "".join(map(str, fields.values())).encode()
    except ValueError:  # no hexadecimal digits, or text that UTF-8 cannot encode
        return False
    numbers = [value for value in fields.values() if isinstance(value, int)]
    return len(uuid) == 16 and all(0 <= value < 1 << 32 for value in numbers)


def foreign_problem(record: Record, data: memoryview, identity: Identity) -> str:
    """Returns what is wrong with a record that verified and comes from another machine, in words; empty if nothing is.
    Hashes do not show that it belongs to the device and driver which the file names."""
    if not identity.fields:
        return state.problem(record, data)
    if record.is_pipeline:
        if record.kind >= len(KIND_NAMES) or record.flags & ~(format.EARLIER | format.PULLED):
            return "a pipeline of an unknown kind"
        if record.magic == format.BINARIES:
            has_key = contents.BINARIES_HEAD.unpack_from(data)[2]
            reason = "" if has_key else "of binaries, of a driver without a global key"
        else:
            reason = _cell_problem(data if record.magic == format.CELL else contents.merged_of(data), identity)
        return f"a pipeline {reason}" if reason else ""
    if record.magic == format.USED:
        return "a malformed list of uses" if len(data) % 8 else ""
    if record.magic == format.NOTE:
        return "a note with unknown content"
    return f"a {text_of(record.magic)} record in the wrong file"


def _cell_problem(data: memoryview, identity: Identity) -> str:
    """Returns what is wrong with the VkPipelineCacheHeaderVersionOne of a cell, in words; empty if nothing is."""
    fields = identity.fields
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


def _files(root: str, name: str, takes: Takes | None) -> list[StoreFile]:
    """Returns the files of records in an identity's folder that are taken."""
    found = [file for file in files_of(root, name) if file.kind.verified and (takes is None or takes(file.program))]
    return sorted(found, key=lambda file: file.path)


# ---- a whole store at once -----------------------------------------------------------------------------------


class Trim:
    """One trim, and what it did."""

    def __init__(self, root: str, limits: Limits) -> None:
        self.bytes_before = self.bytes_after = bounds.total_bytes(root)
        self.evicted = bounds.Eviction(root, limits.max_store, by_files=True)
        #: Damaged parts of files, which are dropped.
        self.damaged: list[Damage] = []
        #: Identities that could not be compacted, by name, each with the reason.
        self.skipped: list[tuple[str, str]] = []
        self._root = root
        self._limits = limits
        #: A compaction failed because the disk is full.
        self._is_full = False

    def steps(self) -> Iterator[None]:
        """Compacts the journals of each program, with its small packs, into one pack, and evicts what was used least
        recently until the store is within its limits. Prunes runs and left-over files first, because that frees space.
        Reads the whole store, and so repairs what no compaction reads, too. If the disk was too full to compact,
        compacts again at the end. Raises OSError; nothing is half done then."""
        maintenance.prune(self._root)
        found = Checked(self._root)
        for _ in found.steps(lambda identity: True, None):
            yield
        self.damaged = found.problems
        yield from self._compaction_all()
        yield from state.evict(self._root, self._limits.state)
        yield from self.evicted.steps()
        if self._is_full:
            yield from self._compaction_all()
            yield from self.evicted.steps()
        self.bytes_after = bounds.total_bytes(self._root)

    def _compaction_all(self) -> Iterator[None]:
        known = {folder.identity.name: folder for folder in folders(self._root)}
        unknown = [name for name in identity_names(self._root) if name not in known]
        self.skipped = [(name, "its identity file is missing or damaged") for name in unknown]
        self._is_full = False
        for folder in (*known.values(), state.folder(self._root)):
            try:
                yield from maintenance.tidy(folder, self.damaged, partial(self._done, folder), everything=True)
            except OSError as error:
                self._is_full |= error.errno in FULL
                self.skipped.append((folder.identity.name, str(error.strerror or error)))

    def _done(self, folder: Folder, work: Compaction) -> None:
        if not work.claimed:
            self.skipped.append((folder.identity.name, "another process is compacting it"))
