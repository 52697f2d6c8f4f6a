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

#: Read at once: small enough to be in the cache when it is hashed, large enough that few calls are made.
PART_BYTES = 128 << 10

#: What damage of a tail begins with that its writer may still be writing, or died writing.
TORN = "truncated"

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


def _open(path: str) -> tuple[int, int]:
    """Descriptor and size of a journal. Raises OSError, also for what is too large to be one."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    size = os.fstat(fd).st_size
    if size > MAX_READ_BYTES:
        os.close(fd)
        raise OSError(f"{path} has {size} bytes, more than a journal can have")
    return fd, size


class Reader:
    """Reads a journal part by part, into two buffers that take turns.

    Copies, because a mapped file could change after it was verified, or be cut and raise SIGBUS. Small buffers
    used again, because each page of fresh memory costs a fault (measured: reading 2.3 MB at once took 2.0 ms,
    this way 0.3). What ``parts`` yielded is valid until the part after the next is asked for.
    """

    def __init__(self, path: str) -> None:
        self._fd, self.size = _open(path)

    def check_header(self, identity: Identity) -> str:
        """``ok``, or the named reason why nothing in the file can be used."""
        return check_file_header(os.pread(self._fd, FILE_HEADER.size, 0), identity)

    def parts(self, damage: list[str]) -> Iterator[tuple[bytearray, list[ScannedRecord]]]:
        """Buffers with the records in them that verify; what does not is named in ``damage``."""
        buffers = [bytearray(min(PART_BYTES, max(self.size, 1))) for _ in range(2)]
        turn, at = 0, FILE_HEADER.size
        while at < self.size:
            buffer = buffers[turn]
            count = os.preadv(self._fd, [buffer], at)
            found: list[ScannedRecord] = []
            last = count < len(buffer) or at + count >= self.size
            done = scan_part(buffer, 0, count, at, None if last else self.size, damage, found)
            if done == 0 and not last:  # one record is larger than the buffer, and its length verified
                size = RECORD_HEADER.unpack_from(buffer)[3]
                buffers[turn] = bytearray(RECORD_HEADER.size + size + -size % ALIGNMENT)
                continue
            if found:
                yield buffer, found
                turn = 1 - turn
            if done == 0:
                return
            at += done

    def close(self) -> None:
        """Ends the file."""
        os.close(self._fd)


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


#: One record of ``scan_part``: magic, kind, flags, offset of the data, its size, create_ns, digest.
if TYPE_CHECKING:
    ScannedRecord = tuple[bytes, int, int, int, int, int, bytes]


def scan_part(
    data: bytes | bytearray,
    at: int,
    end: int,
    base: int,
    file_size: int | None,
    damage: list[str],
    found: list[ScannedRecord],
) -> int:
    """Appends every record in ``data[at:end]`` that verifies; returns where the rest begins.

    ``base`` is where ``data`` stands in the file, for messages. ``file_size`` is None where ``end`` is the end of
    the file; elsewhere a record that does not end before ``end`` is left for the next part. Nothing is allocated
    from a length that was not checked against the file.
    """
    view = memoryview(data)
    unpack = RECORD_HEADER.unpack_from
    hash64, hash128 = xxhash.xxh3_64_intdigest, xxhash.xxh3_128_digest
    header_size = RECORD_HEADER.size
    take = found.append
    while at + header_size <= end:
        magic, kind, flags, size, create_ns, digest, hashed = unpack(view, at)
        start = at + header_size
        if hash64(view[at : at + HASHED_RECORD_HEADER]) != hashed:
            damage.append(f"damaged record header at byte {base + at}")
            at = _next_record(data, at + ALIGNMENT, end, file_size is None)
            continue
        stop = start + size
        if stop > end:
            if file_size is not None and base + stop <= file_size:
                return at
            damage.append(f"{TORN} record at byte {base + at}")
            return end if file_size is None else file_size - base
        if hash128(view[start:stop]) == digest:
            take((magic, kind, flags, start, size, create_ns, digest))
        else:
            damage.append(f"damaged data at byte {base + start}")
        at = stop + -size % ALIGNMENT
    if file_size is not None:
        return at  # behind end where the padding of the last record goes on
    if at < end:
        damage.append(f"{TORN} record header at byte {base + at}")
    return end


def _next_record(data: bytes | bytearray, at: int, end: int, last: bool) -> int:
    """Where the next record header that verifies starts in ``data[at:end]``. Where there is none, the end, or
    in a part that is not the file's last, the last place at which one could begin.

    Looks at each byte once for each magic, whatever the data holds, and so ends soon for any data.
    """
    places = dict.fromkeys((CELL, SNAPSHOT, NOTE), -1)
    nowhere = end if last else max(at, (end - RECORD_HEADER.size) // ALIGNMENT * ALIGNMENT + ALIGNMENT)
    while True:
        for magic, place in places.items():
            if place < at:
                found = data.find(magic, at, end)
                places[magic] = end if found < 0 else found
        place = min(places.values())
        if place + RECORD_HEADER.size > end:
            return nowhere
        head = data[place : place + RECORD_HEADER.size]
        if (
            place % ALIGNMENT == 0
            and xxhash.xxh3_64_intdigest(head[:HASHED_RECORD_HEADER]) == RECORD_HEADER.unpack(head)[6]
        ):
            return place
        at = (place // ALIGNMENT + 1) * ALIGNMENT
