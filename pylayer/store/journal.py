"""Journals: append-only files of one process, one program and one identity.

While a process may append, the name ends in ``.journal``; a closed journal's name ends in ``.closed``. A process that
compacts a journal renames it to that first. Another process may take a living writer for dead. So that nothing is lost
then, the writer checks after each append whether its file still has its name, and otherwise writes the same records to
a new journal.
"""

from __future__ import annotations

import os
import time

from ..common import file_kinds, owner
from ..common.files import append_all
from ..common.paths import open_in_store
from . import format
from .folder import Folder
from .reader import Reader

OPEN, CLOSED = file_kinds.JOURNAL, file_kinds.CLOSED
#: What earlier builds called files of state. A compaction reads them as closed journals.
EARLIER = (".objects", ".objectpack")


class Journal:
    """A journal being written. The file appears with its first record, after its header, and is open during ``append``
    only. A folder that is missing is made.

    ``path`` is None until then. If ``append`` raises OSError, everything appended before stays readable, and the next
    ``append`` begins another file.
    """

    def __init__(self, folder: Folder, program: int, application: str = "") -> None:
        self.path: str | None = None
        self._folder = folder
        self._program = program
        self._application = application
        self._salt = 0
        self._status: os.stat_result
        self._size = 0  # of a file that is open
        self._opened = 0.0

    def append(self, parts: list[bytes | memoryview]) -> None:
        """Appends whole records, given as the pieces of ``format.record_parts``. Raises OSError."""
        full = self._size >= format.MAX_JOURNAL_BYTES or time.monotonic() - self._opened > owner.APPEND_SECONDS
        try:
            if not self._size or full or not self._append(parts):
                self.close()
                self._begin(parts)
        except OSError:
            self.close()
            raise

    def _begin(self, parts: list[bytes | memoryview]) -> None:
        self.path, self._salt = self._folder.write_file(OPEN, self._program, self._application, parts)
        self._opened = time.monotonic()
        try:
            self._status = os.stat(self.path)
            self._size = self._status.st_size
        except FileNotFoundError:
            pass  # compacted or removed already: the next append begins another

    def _append(self, parts: list[bytes | memoryview]) -> bool:
        """Returns False if the file does not have its name any more, because somebody compacts it or removed the
        directory."""
        assert self.path is not None
        try:
            fd = open_in_store(self.path, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return False
        try:
            found = os.fstat(fd)
            if found.st_size != self._size or not os.path.samestat(found, self._status):
                return False
            self._size += append_all(fd, format.seal(parts, self._salt))
            return os.path.samestat(os.stat(self.path), self._status)
        except FileNotFoundError:
            return False
        finally:
            os.close(fd)

    def close(self) -> None:
        """Closes the journal, so that others may compact it."""
        if self.path is None or not self._size:
            return
        self._size = 0
        closed = self.path.removesuffix(OPEN) + CLOSED
        try:
            os.rename(self.path, closed)
            self.path = closed
        except OSError:
            pass  # it is compacted after this process has ended


# ---- journals of others ------------------------------------------------------------------------------


def has_writer(path: str) -> bool:
    """Returns whether a process may still append to a file. Returns False if the header cannot be read, because a file
    gets its header before its name; a recently written file of another version is the exception. Raises OSError."""
    header, outcome = Reader(path).header()
    idle = time.time() - os.stat(path).st_mtime
    if header is None:
        return outcome == "foreign-version" and idle <= owner.FOREIGN_SECONDS
    return not owner.has_ended(header.process, idle)


def may_have_writer(path: str) -> bool:
    """As ``has_writer``. Returns True for a file that is gone or cannot be read: it is not to be compacted or
    deleted."""
    try:
        return has_writer(path)
    except OSError:
        return True


def close_ended_journals(folder: Folder, program: int | None) -> None:
    """Renames journals whose writers have ended to closed ones, of one program or of all with ``program`` None."""
    for path in folder.files(program, (OPEN, *EARLIER)):
        try:
            if not has_writer(path):
                os.rename(path, os.path.splitext(path)[0] + CLOSED)
        except OSError:
            continue  # gone, or not ours to rename
