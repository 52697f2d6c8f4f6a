"""Journals: append-only files of records, each with its length and hashes.

A journal belongs to one process, one program and one identity. Layout, all little-endian:

file header, 64 bytes
    0  8s  magic ``PYLAYERJ``
    8  I   format version, 1
    12 I   bytes of this header, 64
    16 16s identity digest (``identity.Identity``)
    32 Q   program (``identity.program_id``)
    40 Q   created, nanoseconds since 1970
    48 Q   reserved, 0
    56 Q   XXH3-64 of bytes 0 to 55

record, starting at a multiple of 16
    0  4s  magic: ``CELL``, ``SNAP`` (a whole VkPipelineCache) or ``NOTE`` (settings text)
    4  H   pipeline kind (``values.KIND_NAMES``)
    6  H   flags (``values.CELL_ADOPTED``)
    8  Q   bytes of data
    16 Q   duration of the creation that compiled it, nanoseconds
    24 16s XXH3-128 of the data
    40 Q   XXH3-64 of bytes 0 to 39
    48     data, then zeros up to a multiple of 16

The record header has a hash of its own so that a length can be trusted before the data is looked at. The
data's hash covers only the data, so that it also names equal content. Data starts at a multiple of 16:
drivers map structures onto it.
"""

from __future__ import annotations

import os
import struct
import time

import xxhash

from ..identity import Identity
from .files import unique_name, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"PYLAYERJ"
VERSION = 1
FILE_HEADER = struct.Struct("<8sII16sQQQQ")
RECORD_HEADER = struct.Struct("<4sHHQQ16sQ")
ALIGNMENT = 16
HASHED_FILE_HEADER = FILE_HEADER.size - 8
HASHED_RECORD_HEADER = RECORD_HEADER.size - 8
assert FILE_HEADER.size == 64 and RECORD_HEADER.size == 48

CELL, SNAPSHOT, NOTE = b"CELL", b"SNAP", b"NOTE"

#: A journal that reaches this is closed and another one begun: readers hold one file in memory at a time.
MAX_BYTES = 32 << 20
#: Nothing larger is read: a file that big is not a journal of ours, snapshots included.
MAX_READ_BYTES = 1 << 30

_PADDING = bytes(ALIGNMENT)


def file_header(identity: Identity, program: int) -> bytes:
    """The first 64 bytes of a journal."""
    head = FILE_HEADER.pack(MAGIC, VERSION, FILE_HEADER.size, identity.digest, program, time.time_ns(), 0, 0)
    head = head[:HASHED_FILE_HEADER]
    return head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head))


def record_parts(
    magic: bytes, data: bytes | memoryview, digest: bytes, kind: int = 0, flags: int = 0, create_ns: int = 0
) -> list[bytes | memoryview]:
    """A record as the pieces to write: header, data, padding. ``digest`` is the XXH3-128 of ``data``."""
    head = RECORD_HEADER.pack(magic, kind, flags, len(data), create_ns, digest, 0)[:HASHED_RECORD_HEADER]
    head += struct.pack("<Q", xxhash.xxh3_64_intdigest(head))
    return [head, data, _PADDING[: -len(data) % ALIGNMENT]]


class Journal:
    """The journal that this process writes for one program and identity. The file appears with its first
    record.

    ``path`` is None until then. Raises OSError from ``append``; everything appended before stays readable,
    and the next ``append`` begins another file.
    """

    def __init__(self, directory: str, identity: Identity, program: int) -> None:
        self.path: str | None = None
        self._directory = directory
        self._identity = identity
        self._program = program
        self._fd = -1
        self._size = 0

    def _open(self) -> None:
        path = os.path.join(self._directory, f"{self._program:016x}-{unique_name()}.journal")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600)
        self.path = path
        self._size = 0
        self._size = write_all(self._fd, [file_header(self._identity, self._program)])

    def append(self, parts: list[bytes | memoryview]) -> None:
        """Appends whole records, given as the pieces of ``record_parts``."""
        try:
            if self._fd < 0 or self._size >= MAX_BYTES:
                self.close()
                self._open()
            self._size += write_all(self._fd, parts)
        except OSError:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Cuts off what a failed write left, so that it cannot be mistaken for a torn tail of this run. A file
        without a record goes: tries on a full disk would leave one each."""
        if self._fd >= 0:
            try:
                os.ftruncate(self._fd, self._size)
                if self.path and self._size <= FILE_HEADER.size:
                    os.unlink(self.path)
                    self.path = None
            except OSError:
                pass  # a reader skips what does not verify
        self.close()

    def close(self) -> None:
        """Ends the file."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def read_file(path: str) -> bytes:
    """A journal's bytes, private to this process: a mapped file could change after it was verified, or be
    cut and raise SIGBUS.

    Raises OSError, also for what is too large to be a journal.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        size = os.fstat(fd).st_size
        if size > MAX_READ_BYTES:
            raise OSError(f"{path} has {size} bytes, more than a journal can have")
        data = os.read(fd, size)
        while len(data) < size:
            more = os.read(fd, size - len(data))
            if not more:
                break
            data += more
        return data
    finally:
        os.close(fd)


def check_file_header(data: bytes, identity: Identity) -> str:
    """``ok``, or the named reason why nothing in the file can be used."""
    if len(data) < FILE_HEADER.size:
        return "truncated header"
    magic, version, size, digest, _, _, _, hashed = FILE_HEADER.unpack_from(data)
    if magic != MAGIC:
        return "not a journal"
    if xxhash.xxh3_64_intdigest(data[:HASHED_FILE_HEADER]) != hashed:
        return "damaged header"
    if version != VERSION or size != FILE_HEADER.size:
        return f"format version {version}"
    if digest != identity.digest:
        return "another identity"
    return "ok"


def program_of(data: bytes) -> int:
    """The program of a journal whose header was checked."""
    return int(FILE_HEADER.unpack_from(data)[4])


#: One record of ``scan``: magic, kind, flags, offset of the data, its size, create_ns, digest.
if TYPE_CHECKING:
    ScannedRecord = tuple[bytes, int, int, int, int, int, bytes]


def scan(data: bytes, damage: list[str]) -> Iterator[ScannedRecord]:
    """Every record whose header and data verify. What does not is skipped and named in ``damage``.

    Nothing is allocated from a length that was not checked against the file.
    """
    view = memoryview(data)
    unpack = RECORD_HEADER.unpack_from
    hash64, hash128 = xxhash.xxh3_64_intdigest, xxhash.xxh3_128_digest
    header_size, end = RECORD_HEADER.size, len(data)
    at = FILE_HEADER.size
    while at + header_size <= end:
        magic, kind, flags, size, create_ns, digest, hashed = unpack(view, at)
        start = at + header_size
        if hash64(view[at : at + HASHED_RECORD_HEADER]) != hashed:
            damage.append(f"damaged record header at byte {at}")
            at = _next_record(data, at + ALIGNMENT)
            continue
        stop = start + size
        if stop > end:
            damage.append(f"truncated record at byte {at}")
            return
        if hash128(view[start:stop]) == digest:
            yield magic, kind, flags, start, size, create_ns, digest
        else:
            damage.append(f"damaged data at byte {start}")
        at = stop + -size % ALIGNMENT
    if at < end:
        damage.append(f"truncated record header at byte {at}")


def _next_record(data: bytes, at: int) -> int:
    """Where the next record header that verifies starts; the end of the data where there is none.

    Looks at each byte once for each magic, whatever the data holds, and so ends soon for any data.
    """
    end = len(data)
    places = dict.fromkeys((CELL, SNAPSHOT, NOTE), -1)
    while True:
        for magic, place in places.items():
            if place < at:
                found = data.find(magic, at)
                places[magic] = end if found < 0 else found
        place = min(places.values())
        if place + RECORD_HEADER.size > end:
            return end
        head = data[place : place + RECORD_HEADER.size]
        if (
            place % ALIGNMENT == 0
            and xxhash.xxh3_64_intdigest(head[:HASHED_RECORD_HEADER]) == RECORD_HEADER.unpack(head)[6]
        ):
            return place
        at = (place // ALIGNMENT + 1) * ALIGNMENT
