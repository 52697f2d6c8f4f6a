"""Records what an application read from its own caches, so that data it loads later can be recognised.

The layer cannot put a header of its own into an application's cache file. So for each program and identity it records
the XXH3-128, the length and a sketch of every blob that vkGetPipelineCacheData returned, and keeps the last whole blob
of each of its caches. A cache is identified by its creation order on its device (``slot``). Data without a record that
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
from .reader import Reader, parts_of
from .sketch import Sketches
from .syncing import SyncedJournal, Syncer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Newest attestations kept for each program, and total bytes of their records. A record has 112 bytes, with the sketch
#: of 4 KB of data 208, with that of 64 KB 912. So 16,384 blobs of 64 KB have room.
MAX_RECORDS = 1 << 15
MAX_BYTES = 16 << 20
#: In a history that has reached half of that, data that is used is dated again after this time, so that it stays.
RENEW_SECONDS = 24 * 3600
#: Most caches of a device whose last good data is kept.
MAX_SLOTS = 64
#: More files than these are combined into one.
MAX_FILES = 8

#: The data was truncated to the size of the application's buffer (VK_INCOMPLETE).
INCOMPLETE = 1
#: Not an attestation: marks an application that passes data to vkCreatePipelineCache.
LOADS = 2
#: The program passed the data, and nothing was known against it. It may be the driver's or not.
PASSED = 4


class Attestation(Value):
    """One blob that an application read or passed. ``sketch`` is empty if there is none."""

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


class Blob:
    """The last data of one slot, in a file. ``older``: the blobs that it replaces. They are the fallback, because its
    own file may not be on the disk yet."""

    __slots__ = ("digest", "older", "path", "size", "slot")

    def __init__(self, path: str, slot: int, digest: bytes, size: int) -> None:
        self.path = path
        self.slot = slot
        self.digest = digest
        self.size = size
        self.older: list[Blob] = []


class History:
    """Attestations of one program in one identity's folder, including those that other processes added since.
    ``takes_passed``: data that the program only passed counts as known."""

    def __init__(self, folder: Folder, program: int, takes_passed: bool) -> None:
        self.folder = folder
        self.known: dict[bytes, Attestation] = {}
        self.sketches = Sketches()
        #: Bytes of all records.
        self.bytes = 0
        #: The program passed data of its own to vkCreatePipelineCache in some run.
        self.loads = False
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
        if attestation.flags & LOADS:
            self.loads = True
            return
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

    def may_lose(self, known: Attestation) -> bool:
        """Returns whether ``compact`` may soon delete the record as one of the oldest."""
        is_large = len(self.known) > MAX_RECORDS // 2 or self.bytes > MAX_BYTES // 2
        return is_large and time.time() - date_of(known.time) > RENEW_SECONDS


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


def _read_blob(path: str, identity_digest: bytes) -> Blob | None:
    """Returns the blob of a file, read from its headers alone, or None. The headers must verify: a blob with a wrong
    slot would replace another slot's blob."""
    try:
        reader = Reader(path)
    except OSError:
        return None
    try:
        header, _ = reader.header(identity_digest)
        head = reader.header_at(format.FILE_HEADER.size) if header is not None else None
        if head is None or head[0] != format.BLOB:
            return None
        _, slot, _, size, _, digest, *_ = head
        return Blob(path, slot, digest, size)
    except OSError:
        return None


class Attestations:
    """Attestations and blobs of one program under one identity. The constructor reads them from the store."""

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
        self.blobs: dict[int, Blob] = {}
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
        for path in self.folder.files(self.program, (file_kinds.BLOB,)):
            blob = _read_blob(path, self.folder.identity.digest)
            if blob is None:
                continue
            older = self.blobs.get(blob.slot)  # left by a process that died before it deleted the file
            if older is not None:
                blob.older = [older, *older.older]
            self.blobs[blob.slot] = blob

    def outcome(self, data_digest: bytes, size: int, data_sketch: bytes = b"") -> tuple[str, str]:
        """Returns one of ``outcomes.HISTORY`` for initial data of a VkPipelineCache, and for altered data how it was
        damaged. Without a sketch no data is recognised as altered."""
        if self.history.has(data_digest, size):
            return "attested", ""
        self.history.refresh(self.damage, self._journal.path)  # other processes may have added records since
        if self.history.has(data_digest, size):
            return "attested", ""
        elsewhere = self._outcome_elsewhere(data_digest, size)
        if elsewhere:
            return elsewhere, ""
        damage = self.history.sketches.damage(size, data_sketch)
        return ("altered", damage) if damage else ("unknown", "")

    def _outcome_elsewhere(self, data_digest: bytes, size: int) -> str:
        """Returns ``attested`` if the program read the data from the same driver under an identity of an earlier
        pylayer, ``stale`` if it read the data from another driver, else an empty string."""
        if self._others is None:
            self._others = list(self._read_others())
        found = [other.folder.identity for other in self._others if other.has(data_digest, size)]
        if any(identity.is_same_driver(self.folder.identity) for identity in found):
            return "attested"
        return "stale" if found else ""

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
        known = self.history.known.get(data_digest)
        if known is None or self.history.may_lose(known):
            self._append(
                Attestation(data_digest, size, int(time.time()), slot, PASSED if known is None else known.flags)
            )

    def note_load(self) -> None:
        """Records that the application passed data to vkCreatePipelineCache. Raises OSError."""
        if not self.history.loads:
            self._append(Attestation(bytes(format.DIGEST_BYTES), 0, int(time.time()), 0, LOADS))

    def keep(self, data_digest: bytes, slot: int, data: memoryview) -> None:
        """Keeps what the application read as the last good data of the slot. Raises OSError."""
        older = self.blobs.get(slot)
        if slot >= MAX_SLOTS or (older is not None and older.digest == data_digest):
            return
        path = self.folder.write_blob(self.program, self._application, slot, data)
        self.blobs[slot] = Blob(path, slot, data_digest, len(data))
        replaced = [] if older is None else [blob.path for blob in (older, *older.older)]
        self._syncer.replaced(path, replaced)

    def last_good(self, slot: int, any_slot: bool) -> Blob | None:
        """Returns the blob of a slot. If the slot has none, returns the newest blob of another slot with ``any_slot``,
        else None."""
        blob = self.blobs.get(slot)
        if blob is None and any_slot and self.blobs:
            return max(self.blobs.values(), key=lambda blob: blob.path.rpartition("/")[2].partition("-")[2])
        return blob

    def has(self, data_digest: bytes) -> bool:
        """Returns whether a blob with this content is kept."""
        return any(blob.digest == data_digest for blob in self.blobs.values())

    def read_blob(self, blob: Blob) -> bytes | None:
        """Returns a blob's verified data. If the blob cannot be used, falls back to those that it replaces. Returns
        None if none of them can be used. Adds what is wrong to ``damage``."""
        for one in (blob, *blob.older):
            data = self._read_one(one)
            if data is not None:
                blob.digest = one.digest
                return data
        return None

    def _read_one(self, blob: Blob) -> bytes | None:
        try:
            reader = Reader(blob.path)
        except OSError:
            return None
        try:
            header, outcome = reader.header(self.folder.identity.digest)
            found = reader.record_at(format.FILE_HEADER.size) if header is not None else None
        except OSError:
            return None
        if found is None or found[0].digest != blob.digest:
            self.damage.append(Damage(blob.path, outcome if header is None else "damaged-data"))
            return None
        return found[1]

    def compact(self) -> None:
        """Combines the files whose writers have ended into one that has the newest attestations. Raises OSError."""
        ended = [path for path in self.folder.files(self.program, (file_kinds.ATTEST,)) if not may_have_writer(path)]
        if len(ended) <= MAX_FILES:
            return
        # Read the files again: a writer that has ended may have appended after this process read them.
        newest: dict[bytes, Attestation] = {}
        loads = False
        combined = []
        for path in ended:
            damage: list[Damage] = []
            for attestation in read_attestations(path, self.folder.identity.digest, damage):
                loads |= bool(attestation.flags & LOADS)
                newest.setdefault(attestation.digest, attestation).add(attestation)
            if all(what.is_torn_end for what in damage):
                combined.append(path)
        # What cannot be read now, because a newer version wrote it or the disk fails, stays. A damaged file goes to
        # quarantine as a whole.
        if len(combined) <= MAX_FILES:
            return
        newest.pop(bytes(format.DIGEST_BYTES), None)
        parts: list[bytes | memoryview] = []
        if loads:
            parts += Attestation(bytes(format.DIGEST_BYTES), 0, int(time.time()), 0, LOADS).parts()
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
