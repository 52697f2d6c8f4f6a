"""State: what programs asked for when they created pipelines, apart from any driver.

An *object* is one create info as a flat image, with the places of pointers and of handles. A handle is the digest of
the object that makes it, so pipelines are described down to their shaders' code. A CREATED record names the objects of
one pipeline and how long its compile held the program up. ``pylayer rebuild`` creates the pipelines again on another
driver (shim/replay). docs/internals/format.md has every byte.

The records are in journals and packs as those of pipelines are, in the root's folder ``state``, and are compacted,
verified, repaired, exported and imported with them.
"""

from __future__ import annotations

import os
import struct
import time

from ..common import file_kinds, flat
from ..common.files import AHEAD_SECONDS
from ..common.identity import NO_IDENTITY
from . import format
from .bounds import DOWN_TO
from .compaction import Compaction
from .contents import Uses, fingerprints_of
from .folder import Folder, folders
from .folder import record_again as record_again
from .journal import CLOSED, Journal, close_ended_journals
from .reader import Reader, parts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Generator, Iterable, Iterator

    from .holdings import Partition
    from .reader import Part, Record

#: Magic, version, kind, flags, sizes of the image, numbers of pointers and handles, VK_HEADER_VERSION.
HEADER = struct.Struct("<IHHIIIIIIQ")
POINTER, HANDLE = struct.Struct("<II"), struct.Struct("<II16s")
MAGIC, VERSION = 0x54535950, 1
#: How a shader is named that is known by its identifier alone: a digest of that, and IS_NAME, which ends no other name.
NAME, IS_NAME = struct.Struct("<QQ"), 0x726566697469646E
#: Kinds of the objects that all pipelines of a device are created with: the instance, the device.
ROOTS = (1, 2)
SHADER_MODULE = 9
#: Pipeline, device and instance; fingerprint. The record's header has how long the program waited, and the last use.
CREATED = struct.Struct("<16s16s16sQ")
#: Pipeline and identity. Text follows: why the pipeline was not rebuilt.
FAILED = struct.Struct("<16s16s")
#: Name of a shader by its identifier, and the object of its module.
IDENTIFIED = struct.Struct("<16s16s")
#: Libraries of pipelines, layouts, samplers and conversions nest less deeply.
MOST_DEPTH = 16
#: A longer name of an executable is not used.
MOST_NAME = 200


class Unusable(Exception):
    """State that cannot be replayed. The text says why."""


class Created:
    """One pipeline that a program created: digests of the objects, fingerprint, the longest wait and the last use."""

    __slots__ = ("device", "fingerprint", "instance", "last_use", "pipeline", "stall_ns")

    def __init__(self, data: bytes, stall_ns: int, last_use: int) -> None:
        self.pipeline, self.device, self.instance, self.fingerprint = CREATED.unpack_from(data)
        self.stall_ns, self.last_use = stall_ns, last_use

    @property
    def key(self) -> tuple[bytes, bytes, bytes, int]:
        """What distinguishes it from others."""
        return self.pipeline, self.device, self.instance, self.fingerprint


def object_parts(data: bytes | memoryview) -> list[bytes | memoryview]:
    """Returns an OBJECT record as the pieces to write."""
    return format.record_parts(format.OBJECT, data)


def created_parts(created: Created) -> list[bytes | memoryview]:
    """Returns a CREATED record as the pieces to write."""
    data = CREATED.pack(*created.key)
    return format.record_parts(
        format.CREATED, data, fingerprint=created.fingerprint, create_ns=created.stall_ns, last_used=created.last_use
    )


def failed_parts(pipeline: bytes, identity: bytes, why: str) -> list[bytes | memoryview]:
    """Returns a FAILED record as the pieces to write."""
    return format.record_parts(format.FAILED, FAILED.pack(pipeline, identity) + why.encode()[:200])


def identified_parts(name: bytes, module: bytes) -> list[bytes | memoryview]:
    """Returns an IDENTIFIED record as the pieces to write."""
    return format.record_parts(format.IDENTIFIED, IDENTIFIED.pack(name, module))


def note_parts(executable: str) -> list[bytes | memoryview]:
    """Returns a NOTE record as the pieces to write: by what name drivers know the program."""
    return format.record_parts(format.NOTE, flat.dumps({"executable": executable}).encode())


def problem(record: Record, data: memoryview) -> str:
    """Returns why nobody writes such a record; empty text if it may be one of a state."""
    if record.magic == format.OBJECT:
        try:
            made_of(data)
        except Unusable as error:
            return str(error)
    elif record.magic == format.CREATED:
        return "" if len(data) >= CREATED.size else "a pipeline without its objects"
    elif record.magic == format.IDENTIFIED:
        return "" if len(data) == IDENTIFIED.size else "a malformed name of a shader"
    return "" if record.magic in (format.OBJECT, format.NOTE) else "a record that is not exported"


def made_of(data: bytes | memoryview) -> list[bytes]:
    """Returns the digests of the objects that make an object's handles. Raises Unusable if its lengths are impossible;
    the replayer checks the rest."""
    if len(data) < HEADER.size:
        raise Unusable("an object that is too short")
    magic, version, _, _, image, pointers, handles, *_ = HEADER.unpack_from(data)
    at = HEADER.size + image + pointers * POINTER.size
    if (magic, version) != (MAGIC, VERSION) or at + handles * HANDLE.size != len(data):
        raise Unusable("an object with impossible lengths, or of another version")
    return [digest for _, _, digest in HANDLE.iter_unpack(data[at:])]


def with_digests(data: bytes | memoryview, names: dict[bytes, bytes]) -> bytes | memoryview | None:
    """Returns an object that is made of other objects, not of what ``names`` has. None: one of them is unknown."""
    inputs = made_of(data)
    digests = [names.get(name, b"" if NAME.unpack(name)[1] == IS_NAME else name) for name in inputs]
    if digests == inputs:
        return data
    if not all(digests):
        return None
    changed, end = bytearray(data), len(data)
    for digest in reversed(digests):
        changed[end - len(digest) : end] = digest
        end -= HANDLE.size
    return bytes(changed)


def in_packs(of: Folder, program: int) -> set[int]:
    """Returns the fingerprints of a program's pipelines in packs."""
    found: set[int] = set()
    for path in of.files(program, (file_kinds.PACK,)):
        try:
            reader = Reader(path)
            header, _ = reader.header(of.identity.digest)
            table = reader.record_at(header.table) if header is not None and header.table else None
        except OSError:
            continue  # compacted meanwhile
        if table is not None and table[0].magic == format.TABLE:
            found.update(fingerprints_of(table[1])[::2])  # each is followed by the record's offset
    return found - {0}


def folder(root: str) -> Folder:
    """Returns the folder of state. Journals in it whose writers have ended are closed."""
    found = Folder(root, NO_IDENTITY)
    close_ended_journals(found, None)
    return found


def writer(root: str, program: int, application: str) -> Journal:
    """Returns a journal for a program's state."""
    return Journal(Folder(root, NO_IDENTITY), program, application)


def lacking(partitions: Iterable[Partition], state: State) -> set[int]:
    """Returns the fingerprints of a program's stored pipelines that are not among the recorded ones."""
    stored: set[int] = set()
    for partition in partitions:
        if state.program in partition.holdings:
            stored |= partition.holdings[state.program].fingerprints
    return stored - {created.fingerprint for created in state.created.values()}


def programs(root: str) -> dict[int, str]:
    """Returns the programs that have state, with their names, which may be empty."""
    found: dict[int, str] = {}
    for program, paths in folder(root).files_by_program().items():
        for path in paths:
            try:
                header, _ = Reader(path).header()
            except OSError:
                continue  # compacted meanwhile
            found[program] = found.get(program) or (header.application if header is not None else "")
    return found


class State:
    """What the store knows of one program's pipelines, apart from the data of objects. ``reading`` reads and verifies
    all of it; ``read`` returns one that did."""

    def __init__(self, root: str, program: int) -> None:
        self.program = program
        self.application = ""
        #: As rules name it: an interpreter comes first.
        self.executable = ""
        self._root = root
        self._journal: Journal | None = None
        self.created: dict[tuple[bytes, bytes, bytes, int], Created] = {}
        #: Why pipelines were not rebuilt, by pipeline and identity.
        self.failed: dict[bytes, dict[bytes, str]] = {}
        #: Objects of shader modules, by the names that their identifiers give them.
        self.identified: dict[bytes, bytes] = {}
        self.damage: list[format.Damage] = []
        self.bytes = 0
        #: File and offset of each object.
        self._objects: dict[bytes, tuple[Reader, int]] = {}
        #: What other records belong to, by their digest: the key of a pipeline, or an object.
        self._belong: dict[bytes, object] = {}
        self.paths = folder(root).files(program)
        self._latest = int(time.time() + AHEAD_SECONDS)

    def reading(self) -> Iterator[None]:
        """Reads in steps of a part of a file."""
        for path in self.paths:
            try:
                reader = Reader(path)
                header, _ = reader.header()
                self.application = header.application if header else self.application
                self.bytes += reader.size
                for part in reader.verified(NO_IDENTITY.digest, self.damage):
                    for record in part.records:
                        self._take(reader, part, record)
                    yield
            except FileNotFoundError:
                continue  # compacted meanwhile
            except OSError as error:
                self.damage.append(format.Damage.unreadable(path, error))

    def _take(self, reader: Reader, part: Part, record: Record) -> None:
        if record.magic == format.OBJECT:
            self._objects.setdefault(record.digest, (reader, part.place(record)))
            return
        data = bytes(part.data_of(record))
        if record.magic == format.CREATED and len(data) >= CREATED.size:
            # A use in the future, from a wrong clock, would keep the pipeline for ever.
            new = Created(data, record.create_ns, record.last_used if record.last_used <= self._latest else 0)
            self._belong[record.digest] = new.key
            known = self.created.setdefault(new.key, new)
            known.stall_ns = max(known.stall_ns, new.stall_ns)
            known.last_use = max(known.last_use, new.last_use)
        elif record.magic == format.FAILED and len(data) >= FAILED.size:
            pipeline, identity = FAILED.unpack_from(data)
            self._belong[record.digest] = pipeline
            self.failed.setdefault(pipeline, {})[identity] = data[FAILED.size :].decode("utf-8", "replace")
        elif record.magic == format.IDENTIFIED and len(data) == IDENTIFIED.size:
            name, module = IDENTIFIED.unpack(data)
            self._belong[record.digest] = module
            self.identified[name] = module
        elif record.magic == format.NOTE:
            try:
                name = str(flat.loads(data.decode())["executable"])
            except (KeyError, ValueError):
                return  # of another version
            self.executable = name if name.isprintable() and len(name.encode()) <= MOST_NAME else ""

    @property
    def objects(self) -> Collection[bytes]:
        """Digests of all objects."""
        return self._objects.keys()

    def data(self, digest: bytes) -> bytes:
        """Returns an object, verified again. Raises Unusable and OSError."""
        reader, place = self._objects.get(digest, (None, 0))
        found = reader.record_at(place) if reader is not None else None
        if found is None or found[0].digest != digest:
            raise Unusable("an object that it is made of is missing")
        return found[1]

    def with_inputs(self, digest: bytes, have: Container[bytes]) -> tuple[bytes, dict[bytes, bytes]]:
        """Returns an object, and what it is made of by digest, each after what that is made of, without what is in
        ``have``. Raises Unusable and OSError."""
        found: dict[bytes, bytes] = {}
        data = self.data(digest)
        self._collect(data, have, found, 1)
        return data, found

    def _collect(self, data: bytes, have: Container[bytes], found: dict[bytes, bytes], depth: int) -> None:
        if depth > MOST_DEPTH:
            raise Unusable("objects that are made of each other, or nested too deeply")
        for other in made_of(data):
            if other not in have and other not in found:
                inner = self.data(other)
                self._collect(inner, have, found, depth + 1)
                found[other] = inner

    def fail(self, pipeline: bytes, identity: bytes, why: str) -> None:
        """Notes why a pipeline was not rebuilt for an identity, so that it is not tried again. Raises OSError."""
        if self._journal is None:
            self._journal = writer(self._root, self.program, self.application)
        self._journal.append(failed_parts(pipeline, identity, why))
        self.failed.setdefault(pipeline, {})[identity] = why

    def evicting(self, room: int) -> Generator[None, None, Callable[[Record], bool]]:
        """Returns, in steps, which records a compaction leaves out so that the rest fits into so many bytes: those of
        the pipelines that were used longest ago, and of these the ones that were waited for least. Raises OSError."""
        kept: set[object] = set()
        have: set[bytes] = set()
        for created in sorted(self.created.values(), key=lambda created: (-created.last_use, -created.stall_ns)):
            yield
            new: dict[bytes, bytes] = {}
            try:
                for digest in created.key[:3]:
                    data, inputs = self.with_inputs(digest, have)
                    new |= {**inputs, digest: data}
            except Unusable:
                continue
            new = {digest: data for digest, data in new.items() if digest not in have}
            sizes = (CREATED.size, *map(len, new.values()))
            room -= sum(format.record_size(size) + format.TABLE_ENTRY.size for size in sizes)
            if room < 0:
                break
            have.update(new)
            kept.add(created.key)
        kept |= have

        def drops(planned: Record) -> bool:
            """Keeps what another process recorded meanwhile."""
            is_known = planned.digest in self._objects or planned.digest in self._belong
            return is_known and self._belong.get(planned.digest, planned.digest) not in kept

        return drops

    def note_uses(self, uses: dict[int, int]) -> None:
        """Takes over the last use of fingerprints that runs recorded."""
        for created in self.created.values():
            created.last_use = max(created.last_use, uses.get(created.fingerprint, 0))


def read(root: str, program: int) -> State:
    """Returns a program's state."""
    state = State(root, program)
    for _ in state.reading():
        pass
    return state


def _note_recorded_uses(state: State, root: str) -> Iterator[None]:
    """Notes when runs last used the program's pipelines, with whatever driver."""
    uses = Uses()
    for folder in folders(root):
        for path in folder.files(state.program, file_kinds.COMPACTED):
            for part in parts_of(path, folder.identity.digest, []):
                for record in part.records:
                    if record.magic == format.USED:
                        uses.note(fingerprints_of(part.data_of(record)), record.last_used)
                yield
    state.note_uses(uses.by_fingerprint)


def evict(root: str, limit: int) -> Iterator[None]:
    """Brings the state of each program that exceeds ``limit`` bytes within it."""
    place = folder(root)
    for program, paths in place.files_by_program((file_kinds.PACK, CLOSED)).items():
        try:
            if sum(map(os.path.getsize, paths)) > limit:
                state = State(root, program)
                yield from state.reading()
                yield from _note_recorded_uses(state, root)
                drop = yield from state.evicting(int(limit * DOWN_TO))
                yield from Compaction(place, program, everything=True, drop=drop).steps()
        except OSError:
            continue  # compacted meanwhile, or the disk is full
