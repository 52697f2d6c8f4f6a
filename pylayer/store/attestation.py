"""What an application read of its own caches, so that what it loads later can be told from anything else.

The layer cannot put a header of its own into an application's cache file. So it remembers the XXH3-128 and the
length of every blob that vkGetPipelineCacheData gave out, by program and identity, and keeps the last whole blob of
each of its caches. Caches are told apart by the order in which a device's are created (``slot``).
"""

from __future__ import annotations

import os
import time

import xxhash

from . import format
from .files import remove, replace_file, unique_name
from .folder import Folder, identity_names
from .format import Damage
from .journal import Journal
from .reader import Reader
from .syncing import Syncer

#: Of a program, so many attestations are kept, the newest, and so many slots' blobs.
MAX_ATTESTATIONS = 256
MAX_SLOTS = 64
#: More files than these are made one.
MAX_FILES = 8

#: The data was cut at what the application's buffer held (VK_INCOMPLETE).
INCOMPLETE = 1

#: What is known of an application's data, by name; ``policy.Policy.admit_cache`` decides what follows from it.
OUTCOMES = {
    "attested": "read back from this driver by this program, byte for byte",
    "stale": "read back by this program from another driver or device",
    "altered": "this program read back data from this driver, and this is none of it",
    "unknown": "this program never read back data from this driver",
}


class Attestation:
    """One blob that an application read."""

    __slots__ = ("digest", "flags", "size", "slot", "time")

    def __init__(self, digest: bytes, size: int, when: int, slot: int, flags: int) -> None:
        self.digest = digest
        self.size = size
        self.time = when
        self.slot = slot
        self.flags = flags

    def parts(self) -> list[bytes | memoryview]:
        """The record as the pieces to write."""
        data = format.ATTESTATION.pack(self.digest, self.size, self.time, self.slot, self.flags)
        return format.record_parts(format.ATTEST, data, last_used=self.time)


class Blob:
    """The last data of one slot, in a file."""

    __slots__ = ("digest", "path", "size", "slot")

    def __init__(self, path: str, slot: int, digest: bytes, size: int) -> None:
        self.path = path
        self.slot = slot
        self.digest = digest
        self.size = size


def _read_file(path: str, identity_digest: bytes | None, damage: list[Damage]) -> list[Attestation]:
    try:
        reader = Reader(path)
    except FileNotFoundError:
        return []  # another process made one file of several
    except OSError as error:
        damage.append(Damage(path, "unreadable", detail=str(error.strerror or error)))
        return []
    try:
        header, outcome = reader.header(identity_digest)
        if header is None:
            damage.append(Damage(path, outcome))
            return []
        return [
            Attestation(*format.ATTESTATION.unpack_from(part.data, record[3]))
            for part in reader.parts(damage)
            for record in part.records
            if record[0] == format.ATTEST and record[4] == format.ATTESTATION.size
        ]
    except OSError as error:
        damage.append(Damage(path, "unreadable", detail=str(error.strerror or error)))
        return []
    finally:
        reader.close()


def _read_blob(path: str, identity_digest: bytes) -> Blob | None:
    """A blob's file by its headers alone. They verify: a slot that is wrong would cost another slot's blob."""
    try:
        reader = Reader(path)
    except OSError:
        return None
    try:
        header, _ = reader.header(identity_digest)
        head = reader.bytes_at(format.FILE_HEADER.size, format.RECORD_HEADER.size)
        if header is None or len(head) < format.RECORD_HEADER.size:
            return None
        magic, slot, _, size, _, digest, _, _, hashed = format.RECORD_HEADER.unpack(head)
        found = xxhash.xxh3_64_intdigest(head[: format.HASHED_RECORD_HEADER], header.salt)
        if magic != format.BLOB or found != hashed:
            return None
        return Blob(path, slot, digest, size)
    except OSError:
        return None
    finally:
        reader.close()


class Attestations:
    """Of one program under one identity; read from the store when they are first asked for."""

    def __init__(
        self, folder: Folder, program: int, application: str, syncer: Syncer | None = None, read_only: bool = False
    ) -> None:
        self._syncer = syncer or Syncer(None, lambda error: None)
        self.folder = folder
        self.program = program
        self.known: dict[bytes, Attestation] = {}
        self.blobs: dict[int, Blob] = {}
        self.damage: list[Damage] = []
        self._application = application
        self._read_only = read_only
        self._journal: Journal | None = None
        self._files: list[str] = []
        self._read()

    def _read(self) -> None:
        try:
            self.folder.check()
        except OSError:
            return
        digest = self.folder.identity.digest
        self._files = self.folder.files(self.program, (".attest",))
        for path in self._files:
            for attestation in _read_file(path, digest, self.damage):
                self.known[attestation.digest] = attestation
        for path in self.folder.files(self.program, (".blob",)):
            blob = _read_blob(path, digest)
            if blob is None:
                continue
            older = self.blobs.get(blob.slot)  # left by a process that died before it deleted it
            self.blobs[blob.slot] = blob
            if older is not None and not self._read_only:
                remove(older.path)

    def outcome(self, data_digest: bytes, size: int) -> str:
        """One of ``OUTCOMES`` for initial data of a VkPipelineCache."""
        known = self.known.get(data_digest)
        if known is not None and known.size == size:
            return "attested"
        if self._attested_elsewhere(data_digest, size):
            return "stale"
        return "altered" if self.known else "unknown"

    def _attested_elsewhere(self, data_digest: bytes, size: int) -> bool:
        prefix = f"{self.program:016x}-"
        for name in identity_names(self.folder.root):
            directory = os.path.join(self.folder.root, "store", name)
            if directory == self.folder.path:
                continue
            try:
                files = os.listdir(directory)
            except OSError:
                continue
            for file in files:
                if not (file.startswith(prefix) and file.endswith(".attest")):
                    continue
                for attestation in _read_file(os.path.join(directory, file), None, []):
                    if attestation.digest == data_digest and attestation.size == size:
                        return True
        return False

    # ---- keeping ---------------------------------------------------------------------------------

    def attest(self, data_digest: bytes, size: int, slot: int, incomplete: bool) -> None:
        """The application has read this. Raises OSError."""
        if data_digest in self.known:
            return
        attestation = Attestation(data_digest, size, int(time.time()), slot, INCOMPLETE if incomplete else 0)
        self.known[data_digest] = attestation
        self.folder.prepare()
        if self._journal is None:
            self._journal = Journal(
                self.folder.path,
                self.folder.identity,
                self.program,
                self._application,
                format.ATTEST_FILE,
                ".attest",
            )
        try:
            self._journal.append(attestation.parts())
            self._syncer.written(self._journal)
        except OSError:
            del self.known[data_digest]
            raise

    def keep(self, data_digest: bytes, slot: int, data: memoryview) -> None:
        """Keeps what the application read as the last good data of the slot. Raises OSError."""
        older = self.blobs.get(slot)
        if slot >= MAX_SLOTS or (older is not None and older.digest == data_digest):
            return
        path = self.folder.write_blob(self.program, self._application, slot, data)
        self.blobs[slot] = Blob(path, slot, data_digest, len(data))
        self._syncer.replaced(path, [] if older is None else [older.path])

    def last_good(self, slot: int, any_slot: bool) -> Blob | None:
        """The blob of a slot; with ``any_slot`` the newest of another where it has none."""
        blob = self.blobs.get(slot)
        if blob is None and any_slot and self.blobs:
            return max(self.blobs.values(), key=lambda blob: blob.path.rpartition("/")[2].partition("-")[2])
        return blob

    def has(self, data_digest: bytes) -> bool:
        """Whether a blob with this content is kept."""
        return any(blob.digest == data_digest for blob in self.blobs.values())

    def read_blob(self, blob: Blob) -> bytes | None:
        """A blob's data, verified; None, and what is wrong in ``damage``, where it cannot be used."""
        try:
            reader = Reader(blob.path)
        except OSError:
            return None
        try:
            header, outcome = reader.header(self.folder.identity.digest)
            found = reader.record_at(format.FILE_HEADER.size, 0, {}) if header is not None else None
        except OSError:
            return None
        finally:
            reader.close()
        if found is None or found[0][6] != blob.digest:
            self.damage.append(Damage(blob.path, outcome if header is None else "damaged-data"))
            return None
        return found[1]

    def compact(self) -> None:
        """Makes one file of many, with the newest attestations. A file that another process still writes is read
        and left. Raises OSError."""
        if len(self._files) <= MAX_FILES and len(self.known) <= MAX_ATTESTATIONS:
            return
        from .ended import has_writer

        newest = sorted(self.known.values(), key=lambda attestation: attestation.time)[-MAX_ATTESTATIONS:]
        path = os.path.join(self.folder.path, f"{self.program:016x}-{unique_name()}.attest")
        salt = format.new_salt()
        head = format.file_header(format.ATTEST_FILE, self.folder.identity, self.program, self._application, salt=salt)
        parts: list[bytes | memoryview] = [head]
        for attestation in newest:
            parts += format.seal(attestation.parts(), salt)
        replace_file(path, b"".join(parts), sync=True)
        for old in self._files:
            if not has_writer(old):
                remove(old)
        self._files = [path]

    def close(self) -> None:
        """Ends the journal of this process."""
        if self._journal is not None:
            self._syncer.start(self._journal)
            self._journal.close()
            self._journal = None
