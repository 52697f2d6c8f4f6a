"""State: what programs asked for when they created pipelines, apart from any driver.

An *object* is one create info as a flat image, with the places of pointers and of handles. A handle is the digest of
the object that makes it, so pipelines are described down to their shaders' code. A CREATED record names the objects of
one pipeline and how long its compile held the program up. ``pylayer rebuild`` creates the pipelines again on another
driver (shim/replay). docs/internals/format.md has every byte.

Files are in the root's folder ``state``. A process appends to its own, and a fold combines those of ended processes. An
export has one program's state, for another machine.
"""

from __future__ import annotations

import os
import struct
import time

from ..common import file_kinds, flat, outcomes
from ..common.file_kinds import FileName
from ..common.files import AHEAD_SECONDS, names_in, remove, replace_file, unique_name
from ..common.identity import Identity
from ..common.paths import make_private_below
from . import ended, format, quarantine
from .folder import folders
from .format import Refused as Refused
from .journal import Journal
from .pack import PackWriter
from .reader import Reader, parts_of
from .recency import Uses, fingerprints_of
from .survey import DOWN_TO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator

    from .reader import Part, Record

PLACE = file_kinds.OBJECTS.place
#: State belongs to no driver.
NO_IDENTITY = Identity({})

#: Magic, version, kind, flags, sizes of the image, numbers of pointers and handles, VK_HEADER_VERSION.
HEADER = struct.Struct("<IHHIIIIIIQ")
POINTER, HANDLE = struct.Struct("<II"), struct.Struct("<II16s")
MAGIC, VERSION = 0x54535950, 1
#: How a shader is named that is known by its identifier alone: a digest of that, and IS_NAME, which ends no other name.
NAME, IS_NAME = struct.Struct("<QQ"), 0x726566697469646E
#: Kinds of the objects that all pipelines of a device are created with: the instance, the device.
ROOTS = (1, 2)
SHADER_MODULE = 9
#: Pipeline, device and instance; fingerprint; nanoseconds that the program waited; seconds since 1970.
CREATED = struct.Struct("<16s16s16sQQQ")
#: Pipeline and identity. Text follows: why the pipeline was not rebuilt.
FAILED = struct.Struct("<16s16s")
#: Name of a shader by its identifier, and the object of its module.
IDENTIFIED = struct.Struct("<16s16s")
#: Libraries of pipelines, layouts, samplers and conversions nest less deeply.
MOST_DEPTH = 16
#: A longer name of an executable is not used.
MOST_NAME = 200
#: Room for everything.
ALL = format.MAX_FILE_BYTES
#: So many files of ended processes are worth a fold.
WORTH_FILES = 8


class Unusable(Exception):
    """State that cannot be replayed. The text says why."""


class Created:
    """One pipeline that a program created: digests of the objects, fingerprint, the longest wait and the last use."""

    __slots__ = ("device", "fingerprint", "instance", "last_use", "pipeline", "stall_ns")

    def __init__(self, data: bytes) -> None:
        self.pipeline, self.device, self.instance, *numbers = CREATED.unpack(data)
        self.fingerprint, self.stall_ns, self.last_use = numbers

    @property
    def key(self) -> tuple[bytes, bytes, bytes, int]:
        """What distinguishes it from others."""
        return self.pipeline, self.device, self.instance, self.fingerprint


def object_parts(data: bytes | memoryview) -> list[bytes | memoryview]:
    """Returns an OBJECT record as the pieces to write."""
    return format.record_parts(format.OBJECT, data)


def created_parts(created: Created) -> list[bytes | memoryview]:
    """Returns a CREATED record as the pieces to write."""
    data = CREATED.pack(*created.key, created.stall_ns, created.last_use)
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


def unrecorded_path(root: str, program: int) -> str:
    """Returns the path of the file that has a program's next run record. The layer looks for it."""
    return os.path.join(root, PLACE, f"{program:016x}{file_kinds.UNRECORDED}")


def record_again(root: str, program: int) -> None:
    """Has the program's next run record what is missing. Raises OSError."""
    make_private_below(root, PLACE)
    replace_file(unrecorded_path(root, program), b"the next run records what it creates\n")


def writer(root: str, program: int, application: str) -> Journal:
    """Returns a journal for a program's state. Raises OSError."""
    make_private_below(root, PLACE)
    return Journal(os.path.join(root, PLACE), NO_IDENTITY, program, application, file_kinds.OBJECTS)


def files(root: str, program: int | None = None) -> list[str]:
    """Returns the paths of a program's state, or of all programs', oldest first."""
    parsed = [(name, FileName.parse(name)) for name in names_in(os.path.join(root, PLACE))]
    return [
        os.path.join(root, PLACE, name)
        for name, it in parsed
        if it is not None and it.kind in file_kinds.STATE_FILES and program in (None, it.program)
    ]


def programs(root: str) -> list[int]:
    """Returns the programs that have state."""
    return sorted({name.program for path in files(root) if (name := FileName.parse(path))})


def application(root: str, program: int) -> str:
    """Returns the name of a program with state; empty text if it is unknown."""
    for path in files(root, program):
        try:
            header, _ = Reader(path).header()
        except OSError:
            continue  # folded meanwhile
        if header is not None:
            return header.application
    return ""


def unused_files(root: str, program: int | None = None) -> list[str]:
    """Returns the files of a program's state, or of all programs', to which no process appends."""
    found = files(root, program)
    return [path for path in found if not (path.endswith(file_kinds.OBJECTS) and ended.may_have_writer(path))]


def removable(root: str, program: int | None = None) -> list[str]:
    """Returns all files of a program's state, or of all programs', except those to which a process appends."""
    chosen = programs(root) if program is None else [program]
    marks = [path for it in chosen if os.path.lexists(path := unrecorded_path(root, it))]
    return [*unused_files(root, program), *marks]


def _has_another_version(path: str) -> bool:
    """Returns whether another version of pylayer wrote a file. Raises OSError."""
    return Reader(path).header()[1] == "foreign-version"


class State:
    """What the store knows of one program's pipelines, apart from the data of objects. ``reading`` reads and verifies
    all of it; ``read`` returns one that did."""

    def __init__(self, root: str, program: int, foreign: str = "") -> None:
        """``foreign``: an export to read instead of the root's files."""
        self.program = program
        self.application = ""
        #: As rules name it: an interpreter comes first.
        self.executable = ""
        self._root = root
        self._is_foreign = bool(foreign)
        self._journal: Journal | None = None
        self.created: dict[tuple[bytes, bytes, bytes, int], Created] = {}
        #: Why pipelines were not rebuilt, by pipeline and identity.
        self.failed: dict[bytes, dict[bytes, str]] = {}
        #: Objects of shader modules, by the names that their identifiers give them.
        self.identified: dict[bytes, bytes] = {}
        self.damage: list[format.Damage] = []
        #: Number of pipelines that lack objects, or files that could not be used, as far as writing has found them.
        self.gaps = 0
        self.bytes = 0
        #: File and offset of each object.
        self._objects: dict[bytes, tuple[Reader, int]] = {}
        self.paths = [foreign] if foreign else files(root, program)
        self._latest = int(time.time() + AHEAD_SECONDS)

    def reading(self) -> Iterator[None]:
        """Reads in steps of a part of a file."""
        for path in self.paths:
            try:
                reader = Reader(path, self._is_foreign)
                header, _ = reader.header()
                self.application = header.application if header else self.application
                self.bytes += reader.size
                for part in reader.verified(NO_IDENTITY.digest, self.damage):
                    for record in part.records:
                        self._take(reader, part, record)
                    yield
            except FileNotFoundError:
                continue  # folded meanwhile
            except OSError as error:
                self.damage.append(format.Damage.unreadable(path, error))

    def _take(self, reader: Reader, part: Part, record: Record) -> None:
        if record.magic == format.OBJECT:
            self._objects.setdefault(record.digest, (reader, part.place(record)))
            return
        data = bytes(part.data_of(record))
        if record.magic == format.CREATED and len(data) == CREATED.size:
            new = Created(data)
            new.last_use *= new.last_use <= self._latest  # a wrong clock's would be evicted last for ever
            known = self.created.setdefault(new.key, new)
            known.stall_ns = max(known.stall_ns, new.stall_ns)
            known.last_use = max(known.last_use, new.last_use)
        elif record.magic == format.FAILED and len(data) >= FAILED.size:
            pipeline, identity = FAILED.unpack_from(data)
            self.failed.setdefault(pipeline, {})[identity] = data[FAILED.size :].decode("utf-8", "replace")
        elif record.magic == format.IDENTIFIED and len(data) == IDENTIFIED.size:
            name, module = IDENTIFIED.unpack(data)
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
        for path in folder.files(state.program, file_kinds.FOLDED):
            for part in parts_of(path, folder.identity.digest, []):
                for record in part.records:
                    if record.magic == format.USED:
                        uses.note(fingerprints_of(part.data_of(record)), record.last_used)
                yield
    state.note_uses(uses.by_fingerprint)


def _evicted_last(created: Created) -> tuple[int, int]:
    return -created.last_use, -created.stall_ns


def fold(root: str, program: int, limit: int, everything: bool = False) -> Iterator[None]:
    """Combines the files of ended processes into one, without what nothing needs. If they exceed ``limit`` bytes,
    evicts what was used longest ago, and of that what was waited for least. ``everything``: also if it is not worth the
    work. Raises OSError; nothing is lost then.

    Two processes may fold at once: both files have everything then."""
    sources = [path for path in unused_files(root, program) if not _has_another_version(path)]
    size = sum(os.stat(path).st_size for path in sources)
    if len(sources) < (2 if everything else WORTH_FILES) and size <= limit:
        return
    state = State(root, program)
    yield from state.reading()
    if size > limit:
        yield from _note_recorded_uses(state, root)
    yield from _write_file(state, _new_path(root, program), int(limit * DOWN_TO) if size > limit else ALL)
    for source in sources:
        mine = [what for what in state.damage if what.path == source and not what.is_torn_end]
        if not mine:
            remove(source)
        elif all(what.outcome != "unreadable" for what in mine):
            state.gaps += 1
            quarantine.move_file(root, source, mine)
    if state.gaps:
        record_again(root, program)


def _new_path(root: str, program: int) -> str:
    return os.path.join(root, PLACE, str(FileName(program, unique_name(), file_kinds.OBJECT_PACK)))


def _write_file(
    state: State, path: str, room: int, kind: bytes = format.STATE_FILE, whole: bool = False
) -> Iterator[None]:
    """Writes what is complete of a state into a new file, or no file if nothing is. ``whole``: raises Refused if
    objects are missing. Raises OSError."""
    pack = PackWriter(path, NO_IDENTITY, state.program, state.application, kind)
    try:
        yield from _write(state, pack, room)
        if whole and state.gaps:
            raise Refused("objects that its pipelines are made of are missing")
        yield from pack.finishing() if pack.count else ()
    finally:
        pack.abandon()  # a finished one has lost its temporary name


def _write(state: State, pack: PackWriter, room: int) -> Iterator[None]:
    have: set[bytes] = set()
    names: dict[bytes, list[bytes]] = {}
    for name, module in state.identified.items():
        names.setdefault(module, []).append(name)
    for created in sorted(state.created.values(), key=_evicted_last):
        new: dict[bytes, bytes] = {}
        try:
            for digest in created.key[:3]:
                data, inputs = state.with_inputs(digest, have)
                new |= {**inputs, digest: data}
        except Unusable:
            state.gaps += 1
            continue
        new = {digest: data for digest, data in new.items() if digest not in have}
        have.update(new)
        parts = [*map(object_parts, new.values()), created_parts(created)]
        parts += [note_parts(state.executable)] if not pack.count and state.executable else []
        failed = state.failed.pop(created.pipeline, {})
        parts += [failed_parts(created.pipeline, identity, why) for identity, why in failed.items()]
        parts += [identified_parts(name, module) for module in new for name in names.get(module, ())]
        if pack.size + sum(len(piece) for part in parts for piece in part) > room:
            return
        for part in parts:
            pack.add_parts(part)
        yield


def maintain(root: str, limit: int, everything: bool = False) -> Iterator[None]:
    """Folds the state of every program, where that is worth the work or with ``everything``."""
    for program in programs(root):
        try:
            yield from fold(root, program, limit, everything)
        except OSError:
            continue  # folded meanwhile, or the disk is full


# ---- to another machine ----------------------------------------------------------------------------------


def export(state: State, path: str) -> Iterator[None]:
    """Writes a state that was read into a new file, or no file if nothing of it is complete. Raises OSError."""
    state.failed.clear()  # what drivers of this machine did
    yield from _write_file(state, path, ALL, format.EXPORT)


def foreign(path: str) -> State | None:
    """Returns the state in a file that ``export`` wrote, to be read; None if it did not write the file, which may come
    from anybody. Raises OSError."""
    header, _ = Reader(path, foreign=True).header()
    if header is None or (header.kind, header.identity_digest) != (format.EXPORT, NO_IDENTITY.digest):
        return None
    return State("", header.program, path)


def take_over(state: State, root: str, recipient: tuple[int, str] | None = None, whole: bool = True) -> Iterator[None]:
    """Adds what ``foreign`` returned to a root. ``recipient``: number and name of the program that gets it. ``whole``:
    nothing of it if a part is damaged or missing. Raises Refused and OSError."""
    yield from state.reading()
    if whole and state.damage:
        raise Refused(outcomes.STORE[state.damage[0].outcome])
    if recipient is not None:
        (state.program, state.application), state.executable = recipient, ""  # the recipient's runs note their own
    state.failed.clear()
    make_private_below(root, PLACE)
    yield from _write_file(state, _new_path(root, state.program), ALL, whole=whole)
