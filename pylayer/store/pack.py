"""Packs: immutable files into which journals are folded, sorted by the programs that own the records.

A pack is a sequence of groups, each for one set of programs, so that a program reads what is its own in a few
stretches and content that several programs share is stored once. A group begins with a GRUP record that lists its
programs; behind it stand its records, most of them in compressed blocks. Behind the groups: INDX, one entry a
record, and GRPS, where the groups are and what the programs are called. The file header says where GRPS is. Both
are for finding things fast: a pack whose GRPS is damaged is read from its start by its GRUP records.
"""

from __future__ import annotations

import os
import struct

from ..identity import Identity
from . import format
from .descriptors import OwnFile
from .files import create_temporary, remove, rename_to_new, write_all
from .format import Damage, FileHeader
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .reader import Record

#: A block that shrinks by less than this is stored as it is, and after so many of them, of records of one
#: magic, none is tried any more.
WORTH_IT = 0.9
VAIN_BLOCKS = 4

#: Of an entry in INDX, where its record is: a fold waits for the check of all of them at once.
_PLACE = struct.Struct(f"<QI{format.INDEX_ENTRY.size - 12}x")


class Group:
    """One stretch of a pack: where it is, how many records it has, and whose they are."""

    __slots__ = ("count", "offset", "programs", "raw_bytes", "size")

    def __init__(self, offset: int, size: int, raw_bytes: int, count: int, programs: tuple[int, ...]) -> None:
        self.offset = offset
        self.size = size
        self.raw_bytes = raw_bytes
        self.count = count
        self.programs = programs


class Directory:
    """What GRPS says: groups in the order of the file, names of programs, and where INDX is."""

    __slots__ = ("groups", "index_offset", "index_size", "names")

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.names: dict[int, str] = {}
        self.index_offset = 0
        self.index_size = 0

    @property
    def entries(self) -> int:
        """Records in all groups."""
        return sum(group.count for group in self.groups)


class Entry:
    """What INDX knows of one record: where it is, and what a fold needs without reading it."""

    __slots__ = (
        "create_us",
        "digest",
        "fingerprint",
        "flags",
        "inner",
        "kind",
        "last_used",
        "magic",
        "offset",
        "programs",
        "size",
    )

    offset: int
    inner: int
    size: int
    digest: bytes
    fingerprint: int
    last_used: int
    magic: bytes
    kind: int
    flags: int
    create_us: int

    def __init__(self, row: tuple[Any, ...], programs: tuple[int, ...]) -> None:
        (self.offset, self.inner, self.size, self.digest, self.fingerprint) = row[:5]
        (self.last_used, self.magic, self.kind, self.flags, self.create_us) = row[5:]
        self.programs = programs


def read_directory(reader: Reader, header: FileHeader, damage: list[Damage]) -> Directory | None:
    """The directory of a pack; None, and what is wrong in ``damage``, where it cannot be used."""

    def wrong(outcome: str, detail: str) -> None:
        damage.append(Damage(reader.path, outcome, header.groups_offset, 0, detail))

    offset, size = header.groups_offset, header.groups_size
    if offset % format.ALIGNMENT or offset < format.FILE_HEADER.size:
        wrong("impossible", "the place of GRPS")
        return None
    if reader.foreign and size > format.MAX_FOREIGN_DIRECTORY_BYTES:
        wrong("impossible", "the length of GRPS")
        return None
    end = offset + format.record_size(size)
    if end > reader.size:
        wrong("truncated", "GRPS is missing")
        return None
    if end < reader.size:
        damage.append(Damage(reader.path, "extended", end, reader.size - end))
    found = reader.record_at(offset, 0, {})
    if found is None or found[0][0] != format.GROUPS or found[0][4] != size:
        wrong("damaged-data", "GRPS")
        return None
    directory = _parse(found[1], offset)
    if directory is None:
        wrong("impossible", "GRPS")
    return directory


def _parse(data: bytes, data_end: int) -> Directory | None:
    """GRPS as a Directory; None where it says what cannot be. Groups lie one behind the other, from the header to
    INDX: nothing is read twice, and nothing is left out."""
    if len(data) < format.GROUPS_HEADER.size:
        return None
    groups, programs, names, _, index_offset, index_size = format.GROUPS_HEADER.unpack_from(data)
    wanted = (
        format.GROUPS_HEADER.size + groups * format.GROUP_ENTRY.size + programs * 8 + names * format.PROGRAM_NAME.size
    )
    if len(data) != wanted:
        return None
    directory = Directory()
    at = format.GROUPS_HEADER.size
    programs_at = at + groups * format.GROUP_ENTRY.size
    names_at = programs_at + programs * 8
    place = format.FILE_HEADER.size
    for _ in range(groups):
        offset, size, raw_bytes, count, members = format.GROUP_ENTRY.unpack_from(data, at)
        at += format.GROUP_ENTRY.size
        if offset != place or offset % format.ALIGNMENT or size % format.ALIGNMENT or offset + size > data_end:
            return None
        if programs_at + members * 8 > names_at:
            return None
        place = offset + size
        group = Group(offset, size, raw_bytes, count, struct.unpack_from(f"<{members}Q", data, programs_at))
        programs_at += members * 8
        directory.groups.append(group)
    for _ in range(names):
        program, name = format.PROGRAM_NAME.unpack_from(data, names_at)
        names_at += format.PROGRAM_NAME.size
        directory.names[program] = name.rstrip(b"\0").decode("utf-8", "replace")
    if index_offset != place or index_offset + format.record_size(index_size) > data_end:
        return None
    if index_size != directory.entries * format.INDEX_ENTRY.size:
        return None
    directory.index_offset, directory.index_size = index_offset, index_size
    return directory


def read_index(reader: Reader, directory: Directory) -> Iterator[Entry] | None:
    """The entries of a pack, in the order of the file; None where INDX does not verify or says what cannot be."""
    found = reader.record_at(directory.index_offset, 0, {})
    if found is None or found[0][0] != format.INDEX or found[0][4] != directory.index_size:
        return None
    return _entries(found[1], directory) if _follows_the_file(found[1], directory) else None


def _follows_the_file(data: bytes, directory: Directory) -> bool:
    """Whether each entry lies in its group and behind the one before: so a block is unpacked once, not for each
    record that is said to be in it."""
    places = [offset << 32 | inner for offset, inner in _PLACE.iter_unpack(data)]
    if not all(map(int.__lt__, places, places[1:])):
        return False
    first = 0
    for group in directory.groups:  # the others lie between its first and its last
        behind = first + group.count
        if group.count and not (
            group.offset <= places[first] >> 32 and places[behind - 1] >> 32 < group.offset + group.size
        ):
            return False
        first = behind
    return True


def _entries(data: bytes, directory: Directory) -> Iterator[Entry]:
    rows = format.INDEX_ENTRY.iter_unpack(data)
    for group in directory.groups:
        for _ in range(group.count):
            yield Entry(next(rows), group.programs)


def group_programs(data: bytes | bytearray | memoryview) -> tuple[int, ...]:
    """The programs that a GRUP record lists."""
    return struct.unpack(f"<{len(data) // 8}Q", bytes(data[: len(data) // 8 * 8]))


class PackWriter:
    """Writes a pack beside its final name; nothing is there before ``finish``. Raises OSError from every method.

    At most one block, its compressed form and 56 bytes a record are held in memory.
    """

    def __init__(self, path: str, identity: Identity, compress: bool = True, kind: bytes = format.PACK) -> None:
        self.path = path
        self.count = 0
        self._identity = identity
        self._kind = kind
        self._compress = compress
        #: Blocks in vain one after another, by the magic of their records.
        self._vain: dict[bytes, int] = {}
        self._groups: list[Group] = []
        self._index = bytearray()
        self._block: list[bytes | memoryview] = []
        self._block_bytes = 0
        self._block_magic = b""
        self._block_entries: list[list[int | bytes]] = []
        self._salt = format.new_salt()
        fd, self._temporary = create_temporary(path, anywhere=kind == format.EXPORT)
        self._file = OwnFile(fd)
        try:
            self._at = write_all(self._file.fileno(), [bytes(format.FILE_HEADER.size)])
        except BaseException:
            self.abandon()
            raise

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._at

    def begin_group(self, programs: Iterable[int]) -> None:
        """What is added from now on belongs to these programs."""
        self._end_group()
        members = tuple(sorted(programs))
        self._groups.append(Group(self._at, 0, 0, 0, members))
        self._write(format.record_parts(format.GROUP, struct.pack(f"<{len(members)}Q", *members)))

    def add(self, record: Record, data: bytes | memoryview, fingerprint: int, last_used: int) -> None:
        """Adds one record; its magic, kind, flags, create_ns and digest are kept."""
        magic, kind, flags, _, size, create_ns, digest, _, _ = record
        parts = format.record_parts(magic, data, digest, kind, flags, create_ns, fingerprint, last_used)
        create_us = min(create_ns // 1000, 0xFFFFFFFF)
        entry: list[int | bytes] = [
            self._at, 0, size, digest, fingerprint, min(last_used, 0xFFFFFFFF), magic, kind, flags, create_us
        ]  # fmt: skip
        self._groups[-1].count += 1
        self._groups[-1].raw_bytes += size
        self.count += 1
        whole = format.record_size(size)
        if not self._may_shrink(magic, flags) or whole > format.BLOCK_BYTES:
            self._end_block()
            entry[0] = self._at
            self._index += format.INDEX_ENTRY.pack(*entry)
            self._write(parts)
            return
        if magic != self._block_magic:
            self._end_block()
            entry[0], self._block_magic = self._at, magic
        entry[1] = self._block_bytes
        # The data is the caller's.
        self._block += [part if type(part) is format.RecordHead else bytes(part) for part in parts]
        self._block_entries.append(entry)
        self._block_bytes += whole
        if self._block_bytes >= format.BLOCK_BYTES:
            self._end_block()

    def _may_shrink(self, magic: bytes, flags: int) -> bool:
        """Whether it is worth trying to compress a record."""
        if not self._compress or magic not in format.PIPELINES or flags & format.DRIVER_COMPRESSED:
            return False
        return self._vain.get(magic, 0) < VAIN_BLOCKS

    def _end_block(self) -> None:
        if not self._block:
            return
        from . import zstd

        raw = b"".join(self._block)
        packed = zstd.compress(raw)
        if len(packed) < len(raw) * WORTH_IT:
            for entry in self._block_entries:
                entry[0] = self._at
            self._write(format.record_parts(format.COMPRESSED, packed, create_ns=len(raw)))
            self._vain[self._block_magic] = 0
        else:
            for entry in self._block_entries:
                entry[0], entry[1] = self._at + int(entry[1]), 0
            self._write(self._block)
            self._vain[self._block_magic] = self._vain.get(self._block_magic, 0) + 1
        for entry in self._block_entries:
            self._index += format.INDEX_ENTRY.pack(*entry)
        self._block, self._block_entries, self._block_bytes = [], [], 0

    def _end_group(self) -> None:
        self._end_block()
        if self._groups:
            self._groups[-1].size = self._at - self._groups[-1].offset

    def _write(self, parts: list[bytes | memoryview]) -> None:
        self._at += write_all(self._file.fileno(), format.seal(parts, self._salt))

    def finish(self, names: dict[int, str]) -> str:
        """Writes the directory and gives the file its name; returns it. The file is on the disk then."""
        for _ in self.finishing(names):
            pass
        return self.path

    def finishing(self, names: dict[int, str]) -> Iterator[None]:
        """``finish`` in steps, because the disk may take its time."""
        from .syncing import fsync_in_steps

        self._end_group()
        index_at = self._at
        self._write(format.record_parts(format.INDEX, bytes(self._index)))
        groups_at = self._at
        members = [program for group in self._groups for program in group.programs]
        known = [(program, names[program]) for program in sorted(set(members)) if names.get(program)]
        data = format.GROUPS_HEADER.pack(len(self._groups), len(members), len(known), 0, index_at, len(self._index))
        data += b"".join(
            format.GROUP_ENTRY.pack(group.offset, group.size, group.raw_bytes, group.count, len(group.programs))
            for group in self._groups
        )
        data += struct.pack(f"<{len(members)}Q", *members)
        data += b"".join(format.PROGRAM_NAME.pack(program, format.cut_text(name, 64)) for program, name in known)
        self._write(format.record_parts(format.GROUPS, data))
        head = format.file_header(self._kind, self._identity, groups=(groups_at, len(data)), salt=self._salt)
        os.pwrite(self._file.fileno(), head, 0)
        yield from fsync_in_steps(self._file)
        self._file.close()
        if self._kind == format.EXPORT:
            rename_to_new(self._temporary, self.path)  # the user's directory, and a name that the user chose
        else:
            os.rename(self._temporary, self.path)
        directory = OwnFile(os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_CLOEXEC))
        try:
            yield from fsync_in_steps(directory)
        finally:
            directory.close()

    def abandon(self) -> None:
        """Leaves nothing."""
        self._file.close()
        remove(self._temporary)
