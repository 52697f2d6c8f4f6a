"""Packs: immutable files into which the journals of one program are folded.

A pack is a file header and records, like a journal. Most of its records are in compressed blocks, and its header has
the length of the file.
"""

from __future__ import annotations

import os

from ..common.files import append, create_temporary, remove, rename_to_new, write_all, write_at_start
from ..common.identity import Identity
from . import format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .reader import Record

#: A block that shrinks by less than this is stored uncompressed. After this many such blocks in a row, records of that
#: magic are not compressed any more.
WORTH_IT = 0.9
VAIN_BLOCKS = 4


class PackWriter:
    """Writes a pack under a temporary name; the final name appears with ``finish``. Raises OSError from every method.

    At most one block and its compressed form are held in memory.
    """

    def __init__(
        self,
        path: str,
        identity: Identity,
        program: int = 0,
        application: str = "",
        compress: bool = True,
        kind: bytes = format.PACK,
    ) -> None:
        self.path = path
        self.count = 0
        self._identity = identity
        self._program = program
        self._application = application
        self._kind = kind
        self._compress = compress
        #: Blocks in a row that did not shrink enough, by the magic of their records.
        self._vain: dict[bytes, int] = {}
        self._block: list[bytes | memoryview] = []
        self._block_bytes = 0
        self._block_magic = b""
        self._salt = format.new_salt()
        fd, self._temporary = create_temporary(path, anywhere=kind == format.EXPORT)
        try:
            self.size = write_all(fd, [bytes(format.FILE_HEADER.size)])
        except BaseException:
            self.abandon()
            raise
        finally:
            os.close(fd)

    def add(self, record: Record, data: bytes | memoryview, fingerprint: int, last_used: int) -> None:
        """Adds one record with its magic, kind, flags, create_ns and digest."""
        magic, kind, flags, _, size, create_ns, digest, _, _ = record
        self.add_parts(
            magic, flags, size, format.record_parts(magic, data, digest, kind, flags, create_ns, fingerprint, last_used)
        )

    def add_parts(self, magic: bytes, flags: int, size: int, parts: list[bytes | memoryview]) -> None:
        """Adds one record, given as the pieces of ``format.record_parts``."""
        self.count += 1
        whole = format.record_size(size)
        if not self._may_shrink(magic, flags) or whole > format.BLOCK_BYTES:
            self._end_block()
            self._write(parts)
            return
        if magic != self._block_magic:
            self._end_block()
            self._block_magic = magic
        # The caller may reuse the memory of the data, so it is copied.
        self._block += [part if type(part) is format.RecordHead else bytes(part) for part in parts]
        self._block_bytes += whole
        if self._block_bytes >= format.BLOCK_BYTES:
            self._end_block()

    def _may_shrink(self, magic: bytes, flags: int) -> bool:
        """Returns whether it is worth trying to compress a record."""
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
            self._write(format.record_parts(format.COMPRESSED, packed, create_ns=len(raw)))
            self._vain[self._block_magic] = 0
        else:
            self._write(self._block)
            self._vain[self._block_magic] = self._vain.get(self._block_magic, 0) + 1
        self._block, self._block_bytes = [], 0

    def _write(self, parts: list[bytes | memoryview]) -> None:
        self.size += append(self._temporary, format.seal(parts, self._salt))

    def finish(self) -> str:
        """Completes the file, waits until it is on the disk, and gives it its final name, which is returned."""
        for _ in self.finishing():
            pass
        return self.path

    def finishing(self) -> Iterator[None]:
        """``finish`` in steps, because the disk may take seconds."""
        from .syncing import fsync_in_steps

        self._end_block()
        head = format.file_header(
            self._kind, self._identity, self._program, self._application, salt=self._salt, size=self.size
        )
        write_at_start(self._temporary, head)
        yield from fsync_in_steps(self._temporary)
        if self._kind == format.EXPORT:
            rename_to_new(self._temporary, self.path)  # the user's directory, and a name that the user chose
        else:
            os.rename(self._temporary, self.path)
        yield from fsync_in_steps(os.path.dirname(self.path))

    def abandon(self) -> None:
        """Deletes the unfinished file."""
        remove(self._temporary)
