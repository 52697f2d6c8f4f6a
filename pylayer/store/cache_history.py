"""Records what an application read from its own caches, so that data it loads later can be recognised.

The layer cannot put a header of its own into an application's cache file. So for each program and identity it records
the XXH3-128, the length and a sketch of all data that vkGetPipelineCacheData returned. Data without a record that
passed is recorded, too, without a sketch, so that nobody is asked about it again. It is no evidence about other data.

A missing record proves nothing: runs without the layer, or with an unwritable store, leave none. So data is refused
only on evidence: it was read from another driver, or it is a damaged copy of data that was read.
"""

from __future__ import annotations

import os
import time

from ..common import file_kinds
from ..common.files import date_of, remove
from ..values import Value
from . import format
from .ended import may_have_writer
from .folder import Folder, identity_names, read_identity
from .format import Damage
from .reader import parts_of
from .sketch import Sketches
from .syncing import SyncedJournal, Syncer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Newest attestations kept for each program, and total bytes of their records. A record has 112 bytes, with the sketch
#: of 4 KB of data 208, with that of 64 KB 912. So there is room for 16,384 times 64 KB of data.
MAX_RECORDS = 1 << 15
MAX_BYTES = 16 << 20
#: More files than these are combined into one.
MAX_FILES = 8

#: The data was truncated to the size of the application's buffer (VK_INCOMPLETE).
INCOMPLETE = 1
#: The program passed the data, and nothing was known against it. It may be the driver's or not.
PASSED = 4


class Attestation(Value):
    """Data that an application read or passed. ``slot``: the cache, in creation order on its device. ``sketch`` is
    empty if there is none."""

    digest: bytes
    size: int
    time: int
    slot: int
    flags: int
    sketch: bytes = b""

    @classmethod
    def read(cls, data: bytes) -> Attestation:
        """Returns the attestation in a record's data, which has at least ``format.ATTESTATION.size`` bytes."""
        digest, size, when, slot, flags = format.ATTESTATION.unpack_from(data)
        return cls(digest, size, when, slot, flags, data[format.ATTESTATION.size :])

    def add(self, other: Attestation) -> None:
        """Adds what another record says of the same data."""
        self.time = max(self.time, other.time, key=date_of)
        self.flags &= other.flags | ~PASSED
        self.sketch = self.sketch or other.sketch

    @property
    def size_of_record(self) -> int:
        """Bytes of its record."""
        return format.record_size(format.ATTESTATION.size + len(self.sketch))

    def parts(self) -> list[bytes | memoryview]:
        """Returns the record as the pieces to write."""
        data = format.ATTESTATION.pack(self.digest, self.size, self.time, self.slot, self.flags) + self.sketch
        return format.record_parts(format.ATTEST, data, last_used=self.time)


class History:
    """Attestations of one program in one identity's folder, including those that other processes added since.
    ``takes_passed``: data that the program only passed counts as known."""

    def __init__(self, folder: Folder, program: int, takes_passed: bool) -> None:
        self.folder = folder
        self.known: dict[bytes, Attestation] = {}
        self.sketches = Sketches()
        #: Bytes of all records.
        self.bytes = 0
        self._program = program
        self._takes_passed = takes_passed
        self._read_to: dict[str, int] = {}

    def refresh(self, damage: list[Damage], own: str | None = None) -> None:
        """Reads new files, and what was appended to known ones, but for ``own``."""
        for path in self.folder.files(self._program, (file_kinds.ATTEST,)):
            if path == own:
                continue
            start = self._read_to.get(path, format.FILE_HEADER.size)
            try:
                if os.stat(path).st_size <= start:
                    continue
            except OSError:
                continue  # another process combined several files
            for attestation in read_attestations(path, self.folder.identity.digest, damage, start, self._read_to):
                self.take(attestation)

    def take(self, attestation: Attestation) -> None:
        """Adds an attestation from a file or of this process. Its sketch is in ``sketches`` from then on."""
        self.bytes += attestation.size_of_record
        if self.bytes <= MAX_BYTES:
            self.sketches.add(attestation.size, attestation.sketch)
        attestation.sketch = b""
        known = self.known.setdefault(attestation.digest, attestation)
        if known is not attestation:
            known.add(attestation)

    def has(self, digest: bytes, size: int) -> bool:
        """Returns whether the program read this data, or passed it where that counts."""
        known = self.known.get(digest)
        return known is not None and known.size == size and (self._takes_passed or not known.flags & PASSED)


def read_attestations(
    path: str,
    identity_digest: bytes,
    damage: list[Damage],
    start: int = format.FILE_HEADER.size,
    read_to: dict[str, int] | None = None,
) -> list[Attestation]:
    """Returns the attestations of a file that verify. Sets ``read_to[path]`` to the offset where they end."""
    found = []
    for part in parts_of(path, identity_digest, damage, start):
        for record in part.records:
            if record.magic == format.ATTEST and record.size >= format.ATTESTATION.size:
                found.append(Attestation.read(bytes(part.data_of(record))))
            if read_to is not None:
                read_to[path] = part.place(record) + format.record_size(record.size)
    return found


class Attestations:
    """Attestations of one program under one identity. The constructor reads them from the store."""

    def __init__(
        self,
        folder: Folder,
        program: int,
        application: str,
        syncer: Syncer | None = None,
        takes_passed: bool = False,
    ) -> None:
        self._syncer = syncer or Syncer(None, lambda error: None)
        self.folder = folder
        self.program = program
        self.history = History(folder, program, takes_passed)
        self.damage: list[Damage] = []
        self._application = application
        self._journal = SyncedJournal(folder, program, application, self._syncer, file_kinds.ATTEST)
        self._others: list[History] | None = None
        self._read()

    def _read(self) -> None:
        try:
            self.folder.check()
        except OSError:
            return
        self.history.refresh(self.damage)

    def outcome(self, data_digest: bytes, size: int, data_sketch: bytes = b"") -> tuple[str, str]:
        """Returns one of ``outcomes.HISTORY`` for initial data of a VkPipelineCache, and for altered data how it was
        damaged. Without a sketch no data is recognised as altered."""
        if self.history.has(data_digest, size):
            return "attested", ""
        self.history.refresh(self.damage, self._journal.path)  # other processes may have added records since
        if self.history.has(data_digest, size):
            return "attested", ""
        if self._others is None:
            self._others = list(self._read_others())
        if any(other.has(data_digest, size) for other in self._others):
            return "stale", ""
        damage = self.history.sketches.damage(size, data_sketch)
        return ("altered", damage) if damage else ("unknown", "")

    def _read_others(self) -> Iterator[History]:
        for name in identity_names(self.folder.root):
            identity = read_identity(self.folder.root, name) if name != self.folder.identity.name else None
            if identity is not None:
                other = History(Folder(self.folder.root, identity), self.program, takes_passed=False)
                other.refresh([])
                yield other

    # ---- keeping ---------------------------------------------------------------------------------

    def _append(self, attestation: Attestation) -> None:
        self._journal.append(attestation.parts())
        self.history.take(attestation)

    def attest(self, data_digest: bytes, size: int, slot: int, incomplete: bool, data_sketch: bytes = b"") -> None:
        """Records that the application read this data. Raises OSError."""
        known = self.history.known.get(data_digest)
        if known is None or known.flags & PASSED:
            flags = INCOMPLETE if incomplete else 0
            self._append(Attestation(data_digest, size, int(time.time()), slot, flags, data_sketch))

    def note_pass(self, data_digest: bytes, size: int, slot: int) -> None:
        """Records that the application passed this data, and nothing was known against it. Raises OSError."""
        if data_digest not in self.history.known:
            self._append(Attestation(data_digest, size, int(time.time()), slot, PASSED))

    def compact(self) -> None:
        """Combines the files whose writers have ended into one that has the newest attestations. Raises OSError."""
        ended = [path for path in self.folder.files(self.program, (file_kinds.ATTEST,)) if not may_have_writer(path)]
        if len(ended) <= MAX_FILES:
            return
        # Read the files again: a writer that has ended may have appended after this process read them.
        newest: dict[bytes, Attestation] = {}
        combined = []
        for path in ended:
            damage: list[Damage] = []
            for attestation in read_attestations(path, self.folder.identity.digest, damage):
                newest.setdefault(attestation.digest, attestation).add(attestation)
            if all(what.is_torn_end for what in damage):
                combined.append(path)
        # What cannot be read now, because a newer version wrote it or the disk fails, stays. A damaged file goes to
        # quarantine as a whole.
        if len(combined) <= MAX_FILES:
            return
        parts: list[bytes | memoryview] = []
        room = MAX_BYTES
        for attestation in sorted(newest.values(), key=lambda one: date_of(one.time), reverse=True)[:MAX_RECORDS]:
            room -= attestation.size_of_record
            if room < 0:
                break
            parts += attestation.parts()
        self.folder.write_file(file_kinds.ATTEST, self.program, self._application, parts, sync=True)
        for old in combined:
            remove(old)

    def close(self) -> None:
        """Closes the journal of this process."""
        self._journal.close()
