"""Reads files of the store part by part and verifies every byte, whatever the file holds."""

from __future__ import annotations

import os

import xxhash

from ..common.files import open_foreign
from ..common.paths import open_in_store
from ..values import Value
from . import format
from .format import ALIGNMENT, HASHED_RECORD_HEADER, RECORD_HEADER, Damage, FileHeader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: Bytes read at once: small enough to be in the processor's cache when hashed, large enough for few system calls.
PART_BYTES = 128 << 10


class Record(Value):
    """A verified record, as its header has it. ``start``: where its data begins in the part that was read. ``cells``:
    fingerprint and number of each pipeline in it; none if it holds no pipeline, or is no chunk that anybody writes.
    ``source``, ``offset``: the file and the place that a compaction or an export copies it from."""

    magic: bytes
    kind: int
    flags: int
    size: int
    create_ns: int
    digest: bytes
    fingerprint: int
    last_used: int
    start: int
    cells: tuple[tuple[int, int], ...]
    source: Reader
    offset: int

    def __init__(self, header: tuple[Any, ...], start: int, data: bytes | memoryview) -> None:
        (
            self.magic, self.kind, self.flags, self.size, self.create_ns,
            self.digest, self.fingerprint, self.last_used, _,
        ) = header  # fmt: skip
        self.start = start
        if self.magic == format.CHUNK:
            self.cells = format.cells_of(data)
        else:
            self.cells = ((self.fingerprint, format.number_of(self.digest)),) if self.is_pipeline else ()

    @property
    def is_pipeline(self) -> bool:
        """Whether it holds pipelines."""
        return self.magic in format.PIPELINES

    @property
    def fingerprints(self) -> tuple[int, ...]:
        """The fingerprints of its pipelines."""
        return tuple(fingerprint for fingerprint, _ in self.cells)

    @property
    def name(self) -> tuple[bytes, int]:
        """Digest and fingerprint. Equal content is stored once for each fingerprint, by which the layer finds it."""
        return self.digest, self.fingerprint


class Part(Value):
    """Verified records of a piece of a file. ``base``: offset of the piece in the file."""

    data: bytearray | bytes
    records: list[Record]
    base: int

    def place(self, record: Record) -> int:
        """Returns the offset in the file of a record of this part."""
        return self.base + record.start - RECORD_HEADER.size

    def data_of(self, record: Record) -> memoryview:
        """Returns the data of a record of this part. It is valid as long as the part is."""
        return memoryview(self.data)[record.start : record.start + record.size]


class Reader:
    """Reads a file part by part, into two buffers by turns.

    It copies, because a mapped file could change after it was verified, or be truncated and raise SIGBUS in somebody's
    program. The buffers are small and reused, because each page of fresh memory costs a fault (measured: reading 2.3 MB
    at once took 2.0 ms, this way 0.3). What ``parts`` yielded is valid until the part after the next is
    requested.

    The file is open only during a read (measured: 5 us a part). A program may close every descriptor that it finds, and
    a number that we kept could then belong to a file of the program's own.

    ``foreign``: the file may be made by anybody and lie anywhere. Otherwise the reader makes sure that nobody else
    could have written it. Raises OSError, also if it is not a plain file, or is too large for a file of the store.
    """

    def __init__(self, path: str, foreign: bool = False) -> None:
        self.path = path
        #: Of a compaction: what cannot be used of the file, and whether the rest is in the compaction's plan.
        self.damage: list[Damage] = []
        self.is_read = False
        self._most = format.MAX_FOREIGN_RECORD_BYTES if foreign else format.MAX_RECORD_BYTES
        fd = open_foreign(path) if foreign else open_in_store(path)
        try:
            self._status = os.fstat(fd)
            self.size = self._status.st_size
            if self.size > format.MAX_FILE_BYTES:
                raise OSError(f"{path} has {self.size} bytes, more than a file of the store can have")
            head = bytearray(format.FILE_HEADER.size)
            #: The bytes at the place of the header.
            self.head = bytes(head[: self._fill(fd, head, 0)])
        finally:
            os.close(fd)
        header, _ = self.header()
        #: The number that the file's records are sealed with, and when it was made; 0 if the header does not verify.
        self.salt, self.created_ns = (header.salt, header.created_ns) if header is not None else (0, 0)

    def _read(self, buffer: bytearray, offset: int) -> int:
        """Fills ``buffer`` and returns how many bytes were read. Raises OSError, and FileNotFoundError if another file
        has the name by now."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not os.path.samestat(os.fstat(fd), self._status):
                raise FileNotFoundError(2, "another file now has its name", self.path)
            return self._fill(fd, buffer, offset)
        finally:
            os.close(fd)

    def _fill(self, fd: int, buffer: bytearray, offset: int) -> int:
        """Reads until the file's end or that of ``buffer``: a network file system may give less with one call."""
        view, wanted, done = memoryview(buffer), min(len(buffer), self.size - offset), 0
        while done < wanted and (count := os.preadv(fd, [view[done:]], offset + done)):
            done += count
        return done

    def header(self, identity_digest: bytes | None = None) -> tuple[FileHeader | None, str]:
        """Returns the file's header and ``ok``, or None and the outcome."""
        return format.read_file_header(self.head, identity_digest)

    def verified(
        self, identity_digest: bytes, damage: list[Damage], start: int = format.FILE_HEADER.size
    ) -> Iterator[Part]:
        """Reads a whole file of any kind: yields the records that verify, and adds the rest to ``damage``. ``start``:
        where to begin, in a file to which somebody appends."""
        header, outcome = self.header(identity_digest)
        if header is None:
            damage.append(Damage(self.path, outcome))
        else:
            yield from self.content(header, damage, start)

    def content(self, header: FileHeader, damage: list[Damage], start: int = format.FILE_HEADER.size) -> Iterator[Part]:
        """Yields the records of a file whose header ``header`` returned. For packs and exports it also checks the
        length of the file, which their header has."""
        if header.kind not in format.SIZED:
            yield from self.parts(damage, start)
            return
        if header.size < self.size:
            damage.append(Damage(self.path, "extended", header.size, self.size - header.size))
        yield from self.parts(damage, start, header.size)
        torn = bool(damage) and damage[-1].outcome == "truncated"
        if header.size > self.size and not torn:
            damage.append(Damage(self.path, "truncated", self.size, 0, f"{header.size - self.size} bytes are missing"))

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Returns at most ``size`` bytes of the file."""
        if offset >= self.size:  # it may exceed what a file offset can be
            return b""
        data = bytearray(max(min(size, self.size - offset), 0))
        return bytes(memoryview(data)[: self._read(data, offset)])

    def parts(
        self, damage: list[Damage], start: int = format.FILE_HEADER.size, end: int | None = None
    ) -> Iterator[Part]:
        """Yields the records that verify, and adds the rest to ``damage``.

        ``start`` and ``end`` are offsets at which a record begins; by default the whole file is read.
        """
        end = self.size if end is None else min(end, self.size)
        buffers = [bytearray(min(PART_BYTES, max(end - start, 1))) for _ in range(2)]
        turn, at = 0, start
        scan = Scan(self.path, damage, self.salt, most=self._most)
        while at < end:
            buffer = buffers[turn]
            count = min(self._read(buffer, at), end - at)
            last = count < len(buffer) or at + count >= end
            found: list[Record] = []
            done = scan.part(buffer, count, at, None if last else end, found)
            if done == 0 and not last:  # one record is larger than the buffer, and its length verified
                buffers[turn] = bytearray(format.record_size(RECORD_HEADER.unpack_from(buffer)[3]))
                continue
            if found:
                yield Part(buffer, found, at)
                turn = 1 - turn
            if done == 0:
                return
            at += done

    def record_at(self, offset: int) -> tuple[Record, bytes] | None:
        """Returns a verified record and its data, by its place; None if it does not verify."""
        header, start = self.header_at(offset), offset + RECORD_HEADER.size
        if header is None or start + header[3] > self.size or header[3] > self._most:
            return None
        data = self.bytes_at(start, header[3])
        return (Record(header, RECORD_HEADER.size, data), data) if xxhash.xxh3_128_digest(data) == header[5] else None

    def header_at(self, offset: int) -> tuple[Any, ...] | None:
        """Returns the fields of a record's header, by its place; None if it does not verify."""
        head = self.bytes_at(offset, RECORD_HEADER.size)
        if len(head) < RECORD_HEADER.size:
            return None
        fields = RECORD_HEADER.unpack(head)
        return fields if xxhash.xxh3_64_intdigest(head[:HASHED_RECORD_HEADER], self.salt) == fields[8] else None


def parts_of(
    path: str, identity_digest: bytes, damage: list[Damage], start: int = format.FILE_HEADER.size
) -> Iterator[Part]:
    """``Reader.verified`` of a file that need not be there, because another process compacted or combined it. One that
    cannot be read is damage. Raises nothing."""
    try:
        yield from Reader(path).verified(identity_digest, damage, start)
    except FileNotFoundError:
        pass  # perhaps meanwhile: the reader opens it for each part
    except OSError as error:
        damage.append(Damage.unreadable(path, error))


def application_of(paths: list[str]) -> str:
    """Returns the program's name, from the first of its files that has one. Raises OSError."""
    headers = (Reader(path).header()[0] for path in paths)
    return next((header.application for header in headers if header is not None and header.application), "")


class Scan:
    """Finds records that verify in bytes that may hold anything. ``salt``: the salt of the file."""

    def __init__(self, path: str, damage: list[Damage], salt: int, most: int = format.MAX_RECORD_BYTES) -> None:
        self._most = most
        self._path = path
        self._damage = damage
        self._salt = salt

    def part(self, data: bytes | bytearray, end: int, base: int, limit: int | None, found: list[Record]) -> int:
        """Appends every record in ``data[:end]`` that verifies to ``found``; returns where the rest begins.

        ``base`` is the offset of ``data`` in the file. ``limit`` is None if ``end`` is the end of what is read.
        Otherwise it is the offset of that end in the file, and a record that does not end before ``end`` is left for
        the next part. No memory is allocated from a length that was not checked against the file.
        """
        view = memoryview(data)
        unpack = RECORD_HEADER.unpack_from
        hash64, hash128, salt = xxhash.xxh3_64_intdigest, xxhash.xxh3_128_digest, self._salt
        header_size = RECORD_HEADER.size
        take = found.append
        places: dict[bytes, int] = {}
        at = 0
        while at + header_size <= end:
            header = unpack(view, at)
            size = header[3]
            if hash64(view[at : at + HASHED_RECORD_HEADER], salt) != header[8]:
                next_one = next_record(data, at + ALIGNMENT, end, limit is None, places, salt)
                self._unverified(view, at, next_one, base)
                at = next_one
                continue
            start = at + header_size
            stop = start + size
            if stop > end:
                if limit is not None and base + stop <= limit and size <= self._most:
                    return at
                next_one = next_record(data, at + ALIGNMENT, end, limit is None, places, salt)
                goes_on = size > self._most or (limit is None and next_one < end)
                self._damage.append(
                    Damage(self._path, "impossible" if goes_on else "truncated", base + at, next_one - at)
                )
                at = next_one
                continue
            if hash128(view[start:stop]) == header[5]:
                take(Record(header, start, view[start:stop]))
            else:
                self._damage.append(Damage(self._path, "damaged-data", base + at, format.record_size(size)))
            at = stop + -size % ALIGNMENT
        if limit is not None:
            return at  # beyond ``end`` if the padding of the last record continues
        if at < end:
            self._damage.append(Damage(self._path, "truncated", base + at, end - at))
        return end

    def _unverified(self, view: memoryview, at: int, next_one: int, base: int) -> None:
        """Records damage for bytes without a record, which may continue the damage of the part before."""
        zeros = not any(view[at : min(next_one, at + 4096)])
        outcome = "zero-filled" if zeros else "damaged-header"
        last = self._damage[-1] if self._damage else None
        goes_on = last is not None and last.offset + last.size == base + at
        if last is not None and goes_on and last.outcome in (outcome, "truncated", "impossible"):
            last.size += next_one - at
        else:
            self._damage.append(Damage(self._path, outcome, base + at, next_one - at))


def next_record(data: bytes | bytearray, at: int, end: int, last: bool, places: dict[bytes, int], salt: int = 0) -> int:
    """Returns where the next record header that verifies begins in ``data[at:end]``. If there is none, returns the end,
    or in a part that is not the last, the last place at which one could begin.

    ``places`` is the next occurrence of each magic. It is empty at first, and all calls for one ``data`` share it. So
    each byte is searched once for each magic, whatever the data holds and however often the search restarts.
    """
    nowhere = end if last else max(at, (end - RECORD_HEADER.size) // ALIGNMENT * ALIGNMENT + ALIGNMENT)
    while True:
        for magic in format.MAGICS:
            if places.get(magic, -1) < at:
                found = data.find(magic, at, end)
                places[magic] = end if found < 0 else found
        place = min(places.values())
        if place + RECORD_HEADER.size > end:
            return nowhere
        head = data[place : place + RECORD_HEADER.size]
        if (
            place % ALIGNMENT == 0
            and xxhash.xxh3_64_intdigest(head[:HASHED_RECORD_HEADER], salt) == RECORD_HEADER.unpack(head)[8]
        ):
            return place
        at = (place // ALIGNMENT + 1) * ALIGNMENT
