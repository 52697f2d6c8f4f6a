"""Journals: append-only files of one process, one program and one identity.

While a process may append, the name ends in ``.journal``; closed, in ``.closed``. Whoever folds a journal gives it
the second name first. So that nothing is lost to a process that takes a living writer for dead, the writer looks
after each append whether its file still has its name, and writes the same records to a new journal if not.
"""

from __future__ import annotations

import os
import time

from ..identity import Identity
from ..paths import root_changed
from . import format, owner
from .descriptors import OwnFile, move_up
from .files import create_temporary, remove, unique_name, write_all

OPEN, CLOSED = ".journal", ".closed"


class Journal:
    """A journal being written. The file appears with its first record, its header already in it.

    ``path`` is None until then. Raises OSError from ``append``; everything appended before stays readable,
    and the next ``append`` begins another file.
    """

    def __init__(
        self,
        directory: str,
        identity: Identity,
        program: int,
        application: str = "",
        kind: bytes = format.JOURNAL,
        suffix: str = OPEN,
    ) -> None:
        self.path: str | None = None
        #: Bytes appended that fdatasync has not put on the disk.
        self.unsynced = 0
        self._directory = directory
        self._identity = identity
        self._program = program
        self._application = application
        self._kind = kind
        self._suffix = suffix
        self._file: OwnFile | None = None
        self._salt = 0
        self._size = 0
        self._opened = 0.0
        self._new_directory: str | None = None

    def _open(self) -> OwnFile:
        path = os.path.join(self._directory, f"{self._program:016x}-{unique_name()}{self._suffix}")
        fd, temporary = create_temporary(path)
        file = None
        try:
            file = OwnFile(move_up(fd))
            salt = format.new_salt()
            head = format.file_header(self._kind, self._identity, self._program, self._application, salt=salt)
            size = write_all(file.fileno(), [head])
            os.rename(temporary, path)
        except BaseException:
            if file is not None:
                file.close()
            remove(temporary)
            raise
        self._file, self.path, self._size, self._salt = file, path, size, salt
        self._opened = time.monotonic()
        self._new_directory = self._directory
        return file

    def append(self, parts: list[bytes | memoryview]) -> None:
        """Appends whole records, given as the pieces of ``format.record_parts``."""
        try:
            if self._file is not None and (
                self._size >= format.MAX_JOURNAL_BYTES
                or time.monotonic() - self._opened > owner.APPEND_SECONDS
                or not self._file.is_own()
            ):
                self.close()
            for _ in range(2):
                file = self._file or self._open()
                self._size += write_all(file.fileno(), format.seal(parts, self._salt))
                self.unsynced += 1
                if self._has_its_name():
                    return
                file.close()  # somebody folds it, or the directory was removed
                self._file = None
            raise OSError(f"{self._directory} loses its files while they are written")
        except OSError:
            self._abandon()
            raise

    def _has_its_name(self) -> bool:
        assert self.path is not None and self._file is not None
        try:
            return os.stat(self.path).st_ino == self._file.inode
        except FileNotFoundError:
            return root_changed()  # no name leads there any more; the file itself is where it was

    def _abandon(self) -> None:
        """Cuts off what a failed write left, so that it cannot be mistaken for a torn tail of this run. A file
        without a record goes: tries on a full disk would leave one each."""
        if self._file is not None:
            try:
                os.ftruncate(self._file.fileno(), self._size)
                if self.path and self._size <= format.FILE_HEADER.size:
                    os.unlink(self.path)
                    self.path = None
            except OSError:
                pass  # a reader skips what does not verify
        self.close()

    def duplicate_descriptor(self) -> OwnFile | None:
        """Of the open file, for fdatasync elsewhere; None where there is nothing to write to the disk, or no
        descriptor to be had: what was appended is in the file all the same."""
        if self._file is None or not self.unsynced:
            return None
        try:
            duplicate = self._file.duplicate()
        except OSError:
            return None
        self.unsynced = 0
        return duplicate

    def take_new_directory(self) -> str | None:
        """The directory, if the file's name in it was not asked for since it appeared."""
        directory, self._new_directory = self._new_directory, None
        return directory

    def close(self) -> None:
        """Ends the file: others may fold it."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        if self.path and self.path.endswith(OPEN):
            closed = self.path[: -len(OPEN)] + CLOSED
            try:
                os.rename(self.path, closed)
                self.path = closed
            except OSError:
                pass  # folded when this process has ended
