"""The bytes of the store's files; docs/format.md describes the same for readers in other languages.

Every file is a header of 256 bytes and records behind it, each at a multiple of 16 bytes, all little-endian.
A record has a hash of its header, so that a length can be trusted before anything is read by it, and a hash of
its data, which also names equal content.

When the meaning of a byte changes, ``VERSION`` rises; a test pins the bytes.
"""

from __future__ import annotations

import os
import struct
import time

import xxhash

from ..identity import Identity
from . import owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = b"PYLSTORE"
VERSION = 4
#: Versions that are read. Version 2 has no BINR and no ABIN; a pylayer of version 2 would pass over them and lose them
#: when it folds, so what is written is not for it. Versions 2 and 3 have no salt.
READ_VERSIONS = (2, 3, 4)
#: The version of a file without a salt, which an older pylayer reads as well.
UNSALTED_VERSION = 3
#: Magic of format version 1, which nothing writes any more.
OLD_MAGICS = (b"PYLAYERJ",)

#: Files by what they hold. The kind stands in the header, and the file's name ends accordingly.
JOURNAL, PACK, SNAPSHOT_FILE, BLOB_FILE, ATTEST_FILE, EXPORT = b"JRNL", b"PACK", b"SNAP", b"BLOB", b"ATST", b"XPRT"
APPLICATION_BINARIES_FILE, SUSPECTS_FILE, EVENTS_FILE = b"ABIN", b"SUSP", b"EVNT"
#: ``.closed`` is a journal to which nobody appends any more.
KIND_OF_SUFFIX = {
    ".journal": JOURNAL,
    ".closed": JOURNAL,
    ".pack": PACK,
    ".snapshot": SNAPSHOT_FILE,
    ".blob": BLOB_FILE,
    ".attest": ATTEST_FILE,
    ".binaries": APPLICATION_BINARIES_FILE,
    ".suspects": SUSPECTS_FILE,
}
#: Files of which one process appends to each, beside journals.
APPENDED = (".journal", ".attest", ".binaries")

#: Records. CELL, BINR and SNAP go to a driver; NOTE is settings text; BLOB is an application's cache as it read it and
#: ABIN a pipeline binary; ATST an attestation; USED fingerprints of pipelines that a run created; GRUP, ZSTD, GRPS and
#: INDX make packs; EVTS is what a run did when.
CELL, SNAPSHOT, NOTE, BLOB, ATTEST, USED = b"CELL", b"SNAP", b"NOTE", b"BLOB", b"ATST", b"USED"
BINARIES, APPLICATION_BINARY = b"BINR", b"ABIN"
GROUP, COMPRESSED, GROUPS, INDEX, EVENTS = b"GRUP", b"ZSTD", b"GRPS", b"INDX", b"EVTS"
MAGICS = (
    CELL,
    BINARIES,
    SNAPSHOT,
    NOTE,
    BLOB,
    ATTEST,
    APPLICATION_BINARY,
    USED,
    GROUP,
    COMPRESSED,
    GROUPS,
    INDEX,
    EVENTS,
)
#: Records that are one pipeline each.
PIPELINES = (CELL, BINARIES)
#: Records that a driver is given when a device loads its store.
LOADED = (*PIPELINES, SNAPSHOT)

#: Flags of such a record: the driver's own cache had it; the driver compressed it, so that nothing is gained by
#: compressing it again. The second stands in the record because whoever folds it knows no driver.
ADOPTED, DRIVER_COMPRESSED = 1, 2

FILE_HEADER = struct.Struct("<8sII4sI16sIIII16sBBH32s4xQQQQ16sIIQ64sQQ")
RECORD_HEADER = struct.Struct("<4sHHQQ16sQQQ")
ALIGNMENT = 16
HASHED_FILE_HEADER = FILE_HEADER.size - 8
HASHED_RECORD_HEADER = RECORD_HEADER.size - 8
assert FILE_HEADER.size == 256 and RECORD_HEADER.size == 64

#: GRPS: 32 bytes, then for each group 40 bytes and its programs; at the end the programs' names.
GROUPS_HEADER = struct.Struct("<IIIIQQ")
GROUP_ENTRY = struct.Struct("<QQQII8x")
PROGRAM_NAME = struct.Struct("<Q64s")
#: INDX: one entry a record of the pack.
INDEX_ENTRY = struct.Struct("<QII16sQI4sHHI")
DIGEST_BYTES = 16
#: ATST: digest of the application's data, its size, when it was read, which cache of the device, flags. A sketch may
#: follow (sketch.py).
ATTESTATION = struct.Struct("<16sQQII")
assert GROUPS_HEADER.size == 32 and GROUP_ENTRY.size == 40 and PROGRAM_NAME.size == 72
assert INDEX_ENTRY.size == 56 and ATTESTATION.size == 40

#: A journal that reaches this is closed and another one begun.
MAX_JOURNAL_BYTES = 32 << 20
#: Nothing larger is read: a file that big is not one of ours.
MAX_FILE_BYTES = 8 << 30
MAX_RECORD_BYTES = 1 << 30
#: In a file that anybody may have made, less is taken: a record is in memory whole, and a directory becomes objects of
#: five times its bytes.
MAX_FOREIGN_RECORD_BYTES = 128 << 20
MAX_FOREIGN_DIRECTORY_BYTES = 8 << 20
#: Records that are compressed together, before compression. RADV's cells shrink to a half one by one, to a
#: quarter in blocks of this size (measured: 4112 bytes each, 560 of them, zstd level 3).
BLOCK_BYTES = 256 << 10
#: No block is larger before compression: it is full at BLOCK_BYTES, and the record that fills it is not larger than
#: that. Larger records are stored as they are.
MAX_BLOCK_BYTES = 2 * BLOCK_BYTES

_PADDING = bytes(ALIGNMENT)

#: What can be wrong with a file or a part of it, in words.
OUTCOMES = {
    "empty": "the file has no bytes",
    "zero-filled": "zeros where records should be, as after a power failure",
    "truncated": "the file ends inside a record: its writer was killed, or the end was cut off",
    "extended": "bytes behind the end",
    "damaged-header": "a header that does not match its hash",
    "damaged-data": "data that does not match its hash",
    "foreign-version": "another version of the format",
    "foreign-identity": "another driver or device than the folder is for",
    "not-a-store-file": "not a file of this store",
    "impossible": "lengths or places that cannot be, under a valid hash",
    "unreadable": "the file could not be read",
    "untrusted": "somebody else could have written it",
}


class Damage:
    """A part of a file that cannot be used, by its outcome: one of ``OUTCOMES``. ``size`` -1: to the end."""

    __slots__ = ("detail", "offset", "outcome", "path", "size")

    def __init__(self, path: str, outcome: str, offset: int = 0, size: int = -1, detail: str = "") -> None:
        self.path = path
        self.outcome = outcome
        self.offset = offset
        self.size = size
        self.detail = detail

    def __str__(self) -> str:
        place = "" if self.offset == 0 and self.size < 0 else f" at byte {self.offset}"
        size = f", {self.size} bytes" if self.size >= 0 else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.path}: {self.outcome}{place}{size}: {OUTCOMES[self.outcome]}{detail}"


class FileHeader:
    """The fields of a file header that a reader needs."""

    __slots__ = (
        "application",
        "created_ns",
        "groups_offset",
        "groups_size",
        "identity_digest",
        "kind",
        "machine",
        "pid",
        "program",
        "salt",
        "start_ticks",
        "version",
    )
    application: str
    created_ns: int
    groups_offset: int
    groups_size: int
    identity_digest: bytes
    kind: bytes
    machine: bytes
    pid: int
    program: int
    salt: int
    start_ticks: int
    version: int


def new_salt() -> int:
    """A file's own number, which nobody can know beforehand, and never 0."""
    return int.from_bytes(os.urandom(8), "little") | 1


def file_header(
    kind: bytes,
    identity: Identity,
    program: int = 0,
    application: str = "",
    groups: tuple[int, int] = (0, 0),
    salt: int = 0,
) -> bytes:
    """The first 256 bytes of a file. ``groups``: where a pack's GRPS record is, and its size. ``salt``: what its
    records are sealed with; 0: they are not."""
    fields: dict[str, Any] = identity.fields
    abi = str(fields.get("abi", ""))
    global_key = bytes.fromhex(fields.get("global_key", ""))
    machine, pid, start_ticks = owner.this_process()
    head = FILE_HEADER.pack(
        MAGIC,
        VERSION if salt else UNSALTED_VERSION,
        FILE_HEADER.size,
        kind,
        0,
        identity.digest,
        fields.get("vendor_id", 0),
        fields.get("device_id", 0),
        fields.get("driver_version", 0),
        fields.get("driver_id", 0),
        bytes.fromhex(fields.get("pipeline_cache_uuid", "")),
        8 if abi.startswith("64") else 4 if abi.startswith("32") else 0,
        1 if "little" in abi else 2 if "big" in abi else 0,
        len(global_key),
        global_key,
        program,
        time.time_ns(),
        *groups,
        machine,
        pid,
        0,
        start_ticks,
        cut_text(application, 64),
        salt,
        0,
    )[:HASHED_FILE_HEADER]
    return head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head))


def cut_text(text: str, size: int) -> bytes:
    """UTF-8 in at most ``size`` bytes, no character cut in two."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore").encode()


def read_file_header(data: bytes, identity_digest: bytes | None = None) -> tuple[FileHeader | None, str]:
    """The header and ``ok``, or None and the outcome that says why nothing in the file can be used.

    Raises nothing, whatever ``data`` holds.
    """
    if not data:
        return None, "empty"
    if len(data) >= 12 and data[:8] in OLD_MAGICS:
        return None, "foreign-version"
    if len(data) < FILE_HEADER.size:
        return None, "truncated"
    if not any(data[: FILE_HEADER.size]):
        return None, "zero-filled"
    fields = FILE_HEADER.unpack_from(data)
    if fields[0] != MAGIC:
        return None, "not-a-store-file"
    # A later version may hash another part, but its magic and version stand where they always stood.
    if fields[1] not in READ_VERSIONS and 0 < fields[1] < 1000:
        return None, "foreign-version"
    if xxhash.xxh3_64_intdigest(data[:HASHED_FILE_HEADER]) != fields[-1]:
        return None, "damaged-header"
    if fields[1] not in READ_VERSIONS or fields[2] != FILE_HEADER.size:
        return None, "foreign-version"
    header = FileHeader()
    header.version, header.kind, header.identity_digest = fields[1], fields[3], fields[5]
    (header.program, header.created_ns, header.groups_offset, header.groups_size) = fields[15:19]
    header.machine, header.pid, header.start_ticks = fields[19], fields[20], fields[22]
    header.application = fields[23].rstrip(b"\0").decode("utf-8", "replace")
    header.salt = fields[24] if header.version > UNSALTED_VERSION else 0
    if identity_digest is not None and header.identity_digest != identity_digest:
        return None, "foreign-identity"
    return header, "ok"


def is_later_version(data: bytes) -> bool:
    """Whether a header is of a format that comes after this one: such a file is left for the pylayer that knows it."""
    return len(data) >= 12 and data[:8] == MAGIC and VERSION < struct.unpack_from("<I", data, 8)[0] < 1000


class RecordHead(bytes):
    """The header of a record that is in no file yet: ``seal`` makes it one of a file's."""


def record_header(
    magic: bytes,
    size: int,
    digest: bytes,
    kind: int = 0,
    flags: int = 0,
    create_ns: int = 0,
    fingerprint: int = 0,
    last_used: int = 0,
) -> RecordHead:
    """The 64 bytes before a record's data, as they stand in a compressed block and in a file without a salt."""
    head = RECORD_HEADER.pack(magic, kind, flags, size, create_ns, digest, fingerprint, last_used, 0)
    head = head[:HASHED_RECORD_HEADER]
    return RecordHead(head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head)))


def seal(parts: list[bytes | memoryview], salt: int) -> list[bytes | memoryview]:
    """The pieces of records for a file with this salt. What looks like a record inside a record's data, or was another
    file's until a file system mixed them up, does not verify there (measured: 0.3 us a record)."""
    if not salt:
        return parts
    sealed: list[bytes | memoryview] = []
    for part in parts:
        if type(part) is RecordHead:
            head = part[:HASHED_RECORD_HEADER]
            part = head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head, salt))
        sealed.append(part)
    return sealed


def padding(size: int) -> bytes:
    """The zeros that follow ``size`` bytes of data."""
    return _PADDING[: -size % ALIGNMENT]


def record_parts(
    magic: bytes,
    data: bytes | memoryview,
    digest: bytes | None = None,
    kind: int = 0,
    flags: int = 0,
    create_ns: int = 0,
    fingerprint: int = 0,
    last_used: int = 0,
) -> list[bytes | memoryview]:
    """A record as the three pieces to write: header, data, padding. ``digest`` is the XXH3-128 of ``data``."""
    digest = xxhash.xxh3_128_digest(data) if digest is None else digest
    head = record_header(magic, len(data), digest, kind, flags, create_ns, fingerprint, last_used)
    return [head, data, padding(len(data))]


def record_size(data_size: int) -> int:
    """Bytes of a record on disk: header, data, padding."""
    return RECORD_HEADER.size + data_size + -data_size % ALIGNMENT
