"""A directory as the storage of a fleet, also a mounted one.

Others may write to it. What is neither a plain file nor a directory, and what has a name that no builder gives, is not
there.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..common import owner
from ..common.files import TEMPORARY, remove, remove_left_temporaries, sync_file
from .backend import Backend, Denied, Missing, StoredObject, Unavailable, Unchanged

_PIECE_BYTES = 1 << 20
#: Names of objects and their directories.
_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]*")


class Directory(Backend):
    """A directory. ``writes``: makes it."""

    def __init__(self, url: str, writes: bool) -> None:
        super().__init__(url)
        parts = urlsplit(self.url)
        self._root = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not self._root:
            raise Unavailable(f"{url} names no directory of this machine, as file:///srv/pylayer does")
        if writes:
            with self._errors(self.url):
                os.makedirs(self._root, exist_ok=True)

    def _place(self, path: str) -> str:
        return os.path.join(self._root, path)

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Turns OSError into this package's exceptions."""
        try:
            yield
        except FileNotFoundError as error:
            raise Missing(f"{self.url} has no {path}") from error
        except PermissionError as error:
            raise Denied(f"{self._place(path)}: {error.strerror}") from error
        except OSError as error:
            raise Unavailable(f"{self._place(path)}: {error.strerror or error}") from error

    def _open(self, path: str, start: int, etag: str | None) -> tuple[int | None, str | None, Iterator[bytes]]:
        with self._errors(path):
            fd = os.open(self._place(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                os.close(fd)
                raise Denied(f"{self._place(path)} is not a regular file")
        found = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
        if found == etag:
            os.close(fd)
            raise Unchanged
        return status.st_size, found, self._pieces(path, fd, start)

    def _pieces(self, path: str, fd: int, start: int) -> Iterator[bytes]:
        with self._errors(path), open(fd, "rb", buffering=0) as file:
            file.seek(start)
            while piece := file.read(_PIECE_BYTES):
                yield piece

    def _temporary(self, path: str, source: bytes | Path) -> str:
        """Writes a file beside an object's place, which is on the disk then; returns its path. Raises OSError."""
        place = self._place(path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        temporary = f"{place}.{owner.maker()}{TEMPORARY}"
        try:
            with open(temporary, "xb") as file:
                if isinstance(source, bytes):
                    file.write(source)
                else:
                    with open(source, "rb") as given:
                        while piece := given.read(_PIECE_BYTES):
                            file.write(piece)
            sync_file(temporary)
        except BaseException:
            remove(temporary)
            raise
        return temporary

    def write(self, path: str, source: bytes | Path) -> None:
        """Creates or replaces an object, whole or not at all."""
        with self._errors(path):
            temporary = self._temporary(path, source)
            try:
                os.rename(temporary, self._place(path))
            except BaseException:
                remove(temporary)
                raise

    def create(self, path: str, data: bytes) -> bool:
        """Creates an object. Returns False if there is one, which stays as it is."""
        with self._errors(path):
            temporary = self._temporary(path, data)
            try:
                os.link(temporary, self._place(path))
            except FileExistsError:
                return False
            finally:
                remove(temporary)
            return True

    def items(self, prefix: str) -> list[StoredObject]:
        """Returns all objects below a prefix. Deletes what uploads left that ended before their end."""
        found: list[StoredObject] = []
        waiting = [prefix]
        while waiting:
            inner = waiting.pop()
            try:
                with self._errors(inner), os.scandir(self._place(inner)) as entries:
                    here = [entry for entry in entries if _NAME.fullmatch(entry.name)]
            except Missing:
                continue
            for entry in here:
                path = f"{inner}/{entry.name}"
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # deleted meanwhile
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(path)
                elif stat.S_ISREG(status.st_mode) and not path.endswith(TEMPORARY):
                    found.append(StoredObject(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)))
            remove_left_temporaries(self._place(inner))
        return sorted(found, key=lambda item: item.path)

    def remove(self, paths: list[str]) -> None:
        """Deletes objects. One that does not exist is no error."""
        for path in paths:
            try:
                with self._errors(path):
                    os.unlink(self._place(path))
            except Missing:
                continue
