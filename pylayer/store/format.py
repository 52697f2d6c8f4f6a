"""The bytes of the store's files. docs/internals/format.md describes the same for readers in other languages.

Every file is a header of 256 bytes followed by records, each at a multiple of 16 bytes. All numbers are little-endian.
A record has a hash of its header, so that its length can be trusted before it is used, and a hash of its data, which
also identifies equal content.

When the meaning of a byte changes, raise ``VERSION``. A test pins the bytes.
"""

from __future__ import annotations

import os
import struct
import time

import xxhash

from ..common import file_kinds, outcomes, owner
from ..common.identity import Identity
from ..values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = b"PYLCACHE"
VERSION = 3

#: Kinds of files, as their headers name them.
JOURNAL, PACK, RUN_FILE = file_kinds.JOURNAL.magic, file_kinds.PACK.magic, file_kinds.RUN.magic
VERDICT_FILE = file_kinds.VERDICT.magic
#: Of journals and packs of state that an earlier build wrote.
EARLIER_STATE_FILE = b"STAT"
#: It may lie anywhere and have any name.
EXPORT = b"XPRT"

#: Magics of records. CELL, CHNK (contents.py) and BINR go to a driver. NOTE is settings text, of exports, runs and
#: recordings. ATST has the digest of data that an application read, of a cache or a pipeline binary. USED has
#: fingerprints of the pipelines that a run created, EVTS has timed events of a run, FRMS its frames,
#: CNTD what the layer counted, VRDT has blocks.
#: OBJT, CRTD, FAIL and IDNT are recordings (state.py).
CELL, NOTE, ATTEST, USED = b"CELL", b"NOTE", b"ATST", b"USED"
CHUNK, BINARIES = b"CHNK", b"BINR"
EVENTS, FRAMES, COUNTED, VERDICTS = b"EVTS", b"FRMS", b"CNTD", b"VRDT"
OBJECT, CREATED, FAILED, IDENTIFIED = b"OBJT", b"CRTD", b"FAIL", b"IDNT"
#: The records of a pack in the order of fingerprints: TABLE_ENTRY each. It is a pack's last record.
TABLE = b"TABL"
MAGICS = (
    *(CELL, CHUNK, BINARIES, NOTE, ATTEST, USED, EVENTS, FRAMES, COUNTED, VERDICTS),
    *(OBJECT, CREATED, FAILED, IDENTIFIED, TABLE),
)
#: Kinds of files whose header has the length of the file.
SIZED = (PACK, EXPORT)
#: Records that hold pipelines.
PIPELINES = (CHUNK, CELL, BINARIES)
#: The most cells in a chunk. With more, threads wait for each other while one of them gives a chunk to the driver.
CHUNK_CELLS = 32
#: Records of what a program asked for.
STATE = (OBJECT, IDENTIFIED, CREATED, FAILED, NOTE)
#: Flags of these records. Earlier builds wrote it, and it says nothing; the record came from a fleet; `pylayer rebuild`
#: compiled it.
EARLIER, PULLED, REBUILT = 1, 2, 4
#: Last use of a record that came from a fleet and that no run has used here. 0 would mean that nothing is known.
NEVER_USED = 1
#: Version of how the layer computes fingerprints (shim/layer/shaders/fingerprints.c). Whoever changes what goes into
#: one changes this number: pipelines of another version would not be found by it, so exports and fleets refuse them.
FINGERPRINTS = 2

#: Of a crash marker: in its process a variable is set that changes what the driver gives.
CHANGED_DRIVER = 1

FILE_HEADER = struct.Struct("<8sII4sI16sIIII16sBB38xQQQQ16sIIQ64sQQ")
RECORD_HEADER = struct.Struct("<4sHHQQ16sQQQ")
#: Fingerprint, and offset of the record in the file.
TABLE_ENTRY = struct.Struct("<QQ")
#: CHNK begins with the number of cells. Of each it has the fingerprint, and the number of its own record.
CHUNK_HEAD, CHUNK_CELL = struct.Struct("<QQ"), struct.Struct("<QQ")
ALIGNMENT = 16
HASHED_FILE_HEADER = FILE_HEADER.size - 8
HASHED_RECORD_HEADER = RECORD_HEADER.size - 8
assert FILE_HEADER.size == 256 and RECORD_HEADER.size == 64

#: ATST: digest of the application's data, its size, when it was read or passed, 0, flags. A sketch may follow
#: (sketch.py).
KNOWN = struct.Struct("<16sQQII")
assert KNOWN.size == 40

#: A journal that reaches this size is closed and another one begun.
MAX_JOURNAL_BYTES = 32 << 20
#: Larger files are not read: they are not ours.
MAX_FILE_BYTES = 8 << 30
MAX_RECORD_BYTES = 1 << 30
#: The record limit for a file that anybody may have made. It is lower, because a record is in memory as a whole.
MAX_FOREIGN_RECORD_BYTES = 128 << 20

_PADDING = bytes(ALIGNMENT)


class Refused(Exception):
    """An export that cannot be imported. The text says where and why."""


class Damage(Value):
    """A part of a file that cannot be used. ``outcome`` is one of ``outcomes.STORE``; ``size`` -1 means to the end of
    the file."""

    path: str
    outcome: str
    offset: int = 0
    size: int = -1
    detail: str = ""

    @classmethod
    def unreadable(cls, path: str, error: OSError, offset: int = 0) -> Damage:
        """Returns the damage of a file that the system does not give."""
        return cls(path, "unreadable", offset, detail=str(error.strerror or error))

    @property
    def is_torn_end(self) -> bool:
        """Whether this is the torn end of a file to which a process appends, or appended when it was killed."""
        return self.outcome == "truncated" and self.offset > 0 and self.path.endswith(file_kinds.MAY_BE_TORN)

    @property
    def reason(self) -> str:
        """What is wrong, and where in the file."""
        place = "" if self.offset == 0 and self.size < 0 else f" at byte {self.offset}"
        size = f", {self.size} bytes" if self.size >= 0 else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.outcome}{place}{size}: {outcomes.STORE[self.outcome]}{detail}"

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class FileHeader(Value):
    """The fields of a file header that a reader needs."""

    kind: bytes
    flags: int
    identity_digest: bytes
    program: int
    created_ns: int
    size: int
    #: Offset of a pack's TABL record; 0 for other files.
    table: int
    #: Its writer, as ``owner.this_process`` returns it.
    process: owner.Process
    application: str
    salt: int


def new_salt() -> int:
    """Returns a random number for one file, which nobody can predict and which is never 0."""
    return int.from_bytes(os.urandom(8), "little") | 1


def file_header(
    kind: bytes,
    identity: Identity,
    program: int = 0,
    application: str = "",
    *,
    salt: int,
    size: int = 0,
    table: int = 0,
    created_ns: int | None = None,
) -> bytes:
    """Returns the first 256 bytes of a file. ``salt``: the number that its records are sealed with. ``size``: bytes of
    a whole pack or export, 0 for other files. ``table``: offset of a pack's TABL record. ``created_ns``: by default
    now."""
    fields: dict[str, Any] = identity.fields
    abi = str(fields.get("abi", ""))
    head = FILE_HEADER.pack(
        MAGIC,
        VERSION,
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
        program,
        created_ns or time.time_ns(),
        size,
        table,
        *owner.this_process(),
        application.encode("utf-8", "replace")[:64].decode("utf-8", "ignore").encode(),  # no character cut in two
        salt,
        0,
    )[:HASHED_FILE_HEADER]
    return head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head))


def read_file_header(data: bytes, identity_digest: bytes | None = None) -> tuple[FileHeader | None, str]:
    """Returns the header and ``ok``, or None and the outcome that says why nothing in the file can be used.

    Raises nothing, whatever ``data`` holds.
    """
    if not data:
        return None, "empty"
    if len(data) < FILE_HEADER.size:
        return None, "truncated"
    if not any(data[: FILE_HEADER.size]):
        return None, "zero-filled"
    fields = FILE_HEADER.unpack_from(data)
    if fields[0] != MAGIC:
        return None, "not-a-store-file"
    # Another version may hash another part of the header, but its magic and version are at the same place.
    if fields[1] != VERSION and 0 < fields[1] < 1000:
        return None, "foreign-version"
    if xxhash.xxh3_64_intdigest(data[:HASHED_FILE_HEADER]) != fields[-1]:
        return None, "damaged-header"
    if fields[1] != VERSION or fields[2] != FILE_HEADER.size:
        return None, "impossible"
    application = fields[21].rstrip(b"\0").decode("utf-8", "replace")
    kind, flags, digest = fields[3:6]
    program, created_ns, size, table = fields[13:17]
    process, salt = fields[17:21], fields[22]
    header = FileHeader(kind, flags, digest, program, created_ns, size, table, process, application, salt)
    if identity_digest is not None and header.identity_digest != identity_digest:
        return None, "foreign-identity"
    return header, "ok"


class RecordHead(bytes):
    """The header of a record that is not in a file yet. ``seal`` ties it to one file."""


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
    """Returns the 64 bytes before a record's data, not yet sealed."""
    head = RECORD_HEADER.pack(magic, kind, flags, size, create_ns, digest, fingerprint, last_used, 0)
    head = head[:HASHED_RECORD_HEADER]
    return RecordHead(head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head)))


def seal(parts: list[bytes | memoryview], salt: int) -> list[bytes | memoryview]:
    """Returns the pieces of records, with their headers hashed anew with the salt of one file. So bytes inside a
    record's data that look like a record do not verify there, nor do records that a file system mixed in from another
    file (measured: 0.3 us a record)."""
    sealed: list[bytes | memoryview] = []
    for part in parts:
        if type(part) is RecordHead:
            head = part[:HASHED_RECORD_HEADER]
            part = head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head, salt))
        sealed.append(part)
    return sealed


def padding(size: int) -> bytes:
    """Returns the zeros that follow ``size`` bytes of data."""
    return _PADDING[: -size % ALIGNMENT]


def record_parts(
    magic: bytes, data: bytes | memoryview, digest: bytes | None = None, *fields: int, **named: int
) -> list[bytes | memoryview]:
    """Returns a record as the three pieces to write: header, data, padding. ``digest`` is the XXH3-128 of ``data``. The
    other fields are those of ``record_header``."""
    digest = xxhash.xxh3_128_digest(data) if digest is None else digest
    return [record_header(magic, len(data), digest, *fields, **named), data, padding(len(data))]


def number_of(digest: bytes) -> int:
    """Returns the number that names a digest in chunks, crash markers and blocks: its first eight bytes."""
    return int.from_bytes(digest[:8], "little")


def cells_of(data: bytes | memoryview) -> tuple[tuple[int, int], ...]:
    """Returns fingerprint and number of each cell of a chunk; nothing if no chunk has such data."""
    count = CHUNK_HEAD.unpack_from(data)[0] if len(data) > CHUNK_HEAD.size else 0
    end = CHUNK_HEAD.size + count * CHUNK_CELL.size
    if not 0 < count <= CHUNK_CELLS or end >= len(data):
        return ()
    return tuple(CHUNK_CELL.iter_unpack(data[CHUNK_HEAD.size : end]))


def table_of(records: list[tuple[int, int]]) -> bytes:
    """Returns the data of a pack's TABL record. ``records``: fingerprint and offset of each pipeline, and of each other
    record."""
    return b"".join(TABLE_ENTRY.pack(*entry) for entry in sorted(records))


def with_kind(head: bytes, kind: bytes) -> bytes:
    """Returns the header of a file of another kind, for which all else is the same."""
    head = head[:16] + kind + head[20:HASHED_FILE_HEADER]
    return head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head))


def record_size(data_size: int) -> int:
    """Returns the bytes of a record on disk: header, data, padding."""
    return RECORD_HEADER.size + data_size + -data_size % ALIGNMENT
