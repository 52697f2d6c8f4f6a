"""Records what an application read out of its own VkPipelineBinaryKHR, so that altered data which it passes later can
be recognised.

There is one ABIN record for each content under each key, because several of RADV's ray-tracing pipelines have the same
key and different contents. It has the content's digest; those of an earlier pylayer have the content, too. The records
are in files of their own (``.binaries``), one for each process. The files are never packed: they belong to one program,
and a search for what it read from another driver need not read that driver's packs.
"""

from __future__ import annotations

import os
import struct
import time

import xxhash

from ..common import file_kinds
from ..common.files import remove
from ..values import Attested
from . import format
from .binaries import MAX_KEY_BYTES, is_key
from .folder import Folder, folders
from .format import Damage
from .journal import Journal, has_writer
from .pack import PackWriter
from .reader import application_of, parts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .syncing import Syncer

    Name = tuple[int, bytes, bytes]

#: Key size, whether data follows, size of the data, key, digest of the data.
HEAD = struct.Struct("<IIQ32s16s")
assert HEAD.size == 64
#: Most binaries that are known of one program under one identity, and under its other identities together. The newest
#: are kept.
MAX_BINARIES = 65536
MAX_STALE = 16384
#: Upper bound of the bytes that a record without data takes in a file.
RECORD_BYTES = 192
#: More files than these are combined into one.
MAX_FILES = 8


def parse(data: bytes | bytearray | memoryview, global_key: int = 0) -> Attested | None:
    """Returns the binary in the data of an ABIN record. ``global_key``: the record's fingerprint. Returns None if the
    record is impossible. Raises nothing."""
    if len(data) < HEAD.size:
        return None
    key_size, has_data, size, key, digest = HEAD.unpack_from(data)
    if not is_key(key_size, key) or has_data > 1:
        return None
    if len(data) != HEAD.size + (size if has_data else 0):
        return None
    if has_data and xxhash.xxh3_128_digest(memoryview(data)[HEAD.size :]) != digest:
        return None
    return Attested(digest=digest, global_key=global_key, key=key[:key_size], size=size, stale=False)


def record_parts(read: Attested) -> list[bytes | memoryview]:
    """Returns the record as the pieces to write."""
    head = HEAD.pack(len(read.key), False, read.size, read.key, read.digest)
    return format.record_parts(format.APPLICATION_BINARY, head, fingerprint=read.global_key, last_used=int(time.time()))


def _name(binary: Attested) -> Name:
    return binary.global_key, binary.key, binary.digest


def _read(path: str, identity_digest: bytes, damage: list[Damage]) -> Iterator[list[Attested]]:
    """Yields what verifies in a file, part by part."""
    for part in parts_of(path, identity_digest, damage):
        records = (record for record in part.records if record.magic == format.APPLICATION_BINARY)
        yield [one for record in records if (one := parse(part.data_of(record), record.fingerprint)) is not None]


class BinaryHistory:
    """The binaries of one program under one identity."""

    def __init__(self, folder: Folder, program: int, application: str, syncer: Syncer | None = None) -> None:
        self.damage: list[Damage] = []
        self._folder = folder
        self._program = program
        self._journal = Journal(folder, program, application, file_kinds.BINARIES, syncer)
        self._known: set[Name] = set()
        #: Binaries that ``new`` returned since the last ``write``.
        self._unwritten: list[Name] = []

    # ---- loading ---------------------------------------------------------------------------------

    def load(self) -> Iterator[list[Attested]]:
        """Yields batches of every binary that the program read under this identity, verified, newest files first, then
        of what it read under other identities."""
        try:
            self._folder.check()
        except FileNotFoundError:
            pass  # nothing is stored for this driver yet, but maybe for another
        except OSError:
            return
        for path in reversed(self._folder.files(self._program, (file_kinds.BINARIES,))):
            yield from self.load_file(path)
        yield from self._stale()

    def load_file(self, path: str) -> Iterator[list[Attested]]:
        """Yields batches of a file's binaries that are not known yet."""
        found: list[Damage] = []
        for batch in _read(path, self._folder.identity.digest, found):
            new = {_name(one): one for one in batch if _name(one) not in self._known}
            taken = list(new)[: max(MAX_BINARIES - len(self._known), 0)]
            self._known.update(taken)
            if taken:
                yield [new[name] for name in taken]
        self.damage += [what for what in found if what.outcome != "truncated" or what.offset == 0]  # a torn tail

    def _stale(self) -> Iterator[list[Attested]]:
        """Yields what the program read under other identities, newest files first. What it read under both is valid
        here."""
        others = [other for other in folders(self._folder.root) if other.identity.name != self._folder.identity.name]
        paths = [(path, other) for other in others for path in other.files(self._program, (file_kinds.BINARIES,))]
        room = MAX_STALE
        for path, other in sorted(paths, key=lambda found: os.path.basename(found[0]), reverse=True):
            for batch in _read(path, other.identity.digest, []):
                for one in batch:
                    one.stale, one.global_key = True, 0
                yield batch[:room]
                room -= len(batch)
                if room <= 0:
                    return

    # ---- keeping ---------------------------------------------------------------------------------

    def new(self, read: Attested) -> list[bytes | memoryview]:
        """Returns the pieces to write for a binary that the application just read; empty if it is known. What is known
        may grow to twice what a load takes: the next load takes the newest, and ``compact`` drops the rest."""
        name = _name(read)
        known = name in self._known or len(self._known) >= 2 * MAX_BINARIES
        if not 0 < len(read.key) <= MAX_KEY_BYTES or known:
            return []
        self._unwritten.append(name)
        self._known.add(name)
        return record_parts(read)

    def write(self, parts: list[bytes | memoryview]) -> None:
        """Appends all pieces that ``new`` returned since the last call. Raises OSError; their binaries are then unknown
        again."""
        unwritten, self._unwritten = self._unwritten, []
        try:
            self._journal.append(parts)
        except BaseException:
            self._known.difference_update(unwritten)
            raise

    def close(self) -> None:
        """Closes the file of this process."""
        self._journal.close()


def compact(folder: Folder) -> Iterator[None]:
    """Combines the files of each program in a folder into one and drops duplicates and what exceeds the limit, in
    steps of about a millisecond. A file to which a process still appends is not touched. Raises OSError; every file is
    then still there."""
    for program, paths in folder.files_by_program((file_kinds.BINARIES,)).items():
        size = sum(os.stat(path).st_size for path in paths)
        if len(paths) > MAX_FILES or size > MAX_BINARIES * RECORD_BYTES:
            yield from _compact(folder, program, paths)


def _compact(folder: Folder, program: int, paths: list[str]) -> Iterator[None]:
    ended = [path for path in reversed(paths) if not has_writer(path)]
    if not ended:
        return
    binaries = BinaryHistory(folder, program, "")
    target = folder.new_path(program, file_kinds.BINARIES)
    writer = PackWriter(target, folder.identity, program, application_of(ended), format.APPLICATION_BINARIES_FILE)
    try:
        for path in ended:
            for batch in binaries.load_file(path):
                writer.add_parts([part for one in batch for part in record_parts(one)])
                yield
        yield from writer.finishing()
    except BaseException:
        writer.abandon()
        raise
    damaged = {what.path for what in binaries.damage}
    for path in ended:
        if path not in damaged:  # the next load reports a damaged file, and maintenance deletes it
            remove(path)
