"""Packs: immutable files into which the journals of one program are compacted.

A pack is a file header and records, like a journal. Its header has the length of the file. Its last record is a table
of the others, in which the layer finds a pipeline without reading the file.
"""

from __future__ import annotations

import _thread
import os

from ..common.files import append, create_temporary, remove, rename_to_new, sync_file, write_all, write_at_start
from ..common.identity import Identity
from . import format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .reader import Record


def _fsync_in_steps(path: str) -> Iterator[None]:
    """Runs fsync on a file or directory in another thread; yields about every millisecond until it is done. Raises
    OSError. If the caller stops early, the fsync goes on by itself."""
    errors: list[OSError] = []
    done = _thread.allocate_lock()
    done.acquire()

    def in_thread() -> None:
        try:
            sync_file(path)
        except OSError as error:
            errors.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(in_thread, ())
    except RuntimeError:  # no thread can be started
        in_thread()
    while not done.acquire(timeout=0.001):
        yield
    if errors:
        raise errors[0]


class PackWriter:
    """Writes a pack or an export under a temporary name, and renames the file with ``finish``. Only packs get a table.
    Raises OSError from every method."""

    def __init__(
        self, path: str, identity: Identity, program: int = 0, application: str = "", kind: bytes = format.PACK
    ) -> None:
        self.path = path
        self.count = 0
        self._identity = identity
        self._program = program
        self._application = application
        self._kind = kind
        self._salt = format.new_salt()
        #: Fingerprint and offset of each record of a pack.
        self._table: list[tuple[int, int]] = []
        fd, self._temporary = create_temporary(path, anywhere=kind == format.EXPORT)
        try:
            self.size = write_all(fd, [bytes(format.FILE_HEADER.size)])
        except BaseException:
            self.abandon()
            raise
        finally:
            os.close(fd)

    def add(self, record: Record, data: bytes | memoryview, last_used: int) -> None:
        """Adds one record with its magic, kind, flags, create_ns, digest and fingerprint."""
        head = (record.digest, record.kind, record.flags, record.create_ns, record.fingerprint, last_used)
        self.add_parts(format.record_parts(record.magic, data, *head), record.fingerprints or (0,))

    def add_chunk(self, cells: list[Record], data: bytes, last_used: int) -> None:
        """Adds cells as one record. ``data``: as ``contents.chunk_data`` returns it."""
        head = (None, cells[0].kind, cells[0].flags, sum(cell.create_ns for cell in cells), 0, last_used)
        self.add_parts(format.record_parts(format.CHUNK, data, *head), tuple(cell.fingerprint for cell in cells))

    def add_parts(self, parts: list[bytes | memoryview], fingerprints: tuple[int, ...] = (0,)) -> None:
        """Adds one record, given as the pieces of ``format.record_parts``; to another file than a pack, several.
        ``fingerprints``: of the pipelines in it."""
        self.count += 1
        if self._kind == format.PACK:
            self._table += [(fingerprint, self.size) for fingerprint in fingerprints]
        self.size += append(self._temporary, format.seal(parts, self._salt))

    def finish(self, sync: bool = True) -> str:
        """Completes the file, waits until it is on the disk, and gives it its final name, which is returned. Without
        ``sync`` it does not wait: for files that are read back and verified, or made anew."""
        for _ in self.finishing(sync):
            pass
        return self.path

    def finishing(self, sync: bool = True) -> Iterator[None]:
        """``finish`` in steps, because the disk may take seconds."""
        table = self._add_table() if self._kind == format.PACK else 0
        names = (self._kind, self._identity, self._program, self._application)
        head = format.file_header(*names, salt=self._salt, size=self.size, table=table)
        write_at_start(self._temporary, head)
        if sync:
            yield from _fsync_in_steps(self._temporary)
        if self._kind == format.EXPORT:
            rename_to_new(self._temporary, self.path)  # the user's directory, and a name that the user chose
        else:
            os.rename(self._temporary, self.path)
        if sync:
            yield from _fsync_in_steps(os.path.dirname(self.path))

    def _add_table(self) -> int:
        """Returns the table's offset."""
        place = self.size
        table = format.record_parts(format.TABLE, format.table_of(self._table))
        self.size += append(self._temporary, format.seal(table, self._salt))
        return place

    def abandon(self) -> None:
        """Deletes the unfinished file."""
        remove(self._temporary)
