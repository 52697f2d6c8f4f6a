"""The server or storage behind a fleet's URL.

    https://, http://   whoever pulls reads here; nothing can be written (``web``)
    file:///            a directory, also a mounted one (``directory``)
    s3://, gs://, az:// builders push and publish here (``bucket``, the only one that needs obstore)

Nothing that comes from here is trusted: sizes are checked before and while bytes are read, and ``trust`` judges the
bytes. A text of a server never becomes part of a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

#: A connection that delivers nothing for this many seconds has failed.
STALL_SECONDS = 20
CONNECT_SECONDS = 10
#: Attempts beyond the first, for errors of the server and the connection.
RETRIES = 2


class Unavailable(Exception):
    """The server did not do what it was asked. The text says what happened, in one line."""


class Denied(Unavailable):
    """The server does not give out this object. It may give out others."""


class Missing(Denied):
    """There is no such object."""


class Unchanged(Exception):
    """The object is the one that the caller has."""


@dataclass(frozen=True)
class StoredObject:
    """An object of a listing."""

    path: str
    bytes: int
    modified: datetime


class Backend:
    """Objects by path below a URL. Every method raises Unavailable."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def _open(self, path: str, start: int, etag: str | None) -> tuple[int | None, str | None, Iterator[bytes]]:
        """Returns an object's size, None if it is not known in advance, its ETag, and its bytes from ``start`` on as
        they arrive. Raises Missing, and Unchanged if the object still has the ETag ``etag``."""
        raise NotImplementedError

    def read(self, path: str, most_bytes: int, etag: str | None = None) -> tuple[bytes, str | None]:
        """Returns a small object and its ETag. Raises Unchanged if it still has the ETag ``etag``."""
        size, found, pieces = self._open(path, 0, etag)
        data = bytearray()
        if size is None or size <= most_bytes:
            for piece in pieces:
                data += piece
                if len(data) > most_bytes:
                    break
        if (size or len(data)) > most_bytes:
            raise Unavailable(f"{path} has {size or 'more'} bytes, and at most {most_bytes} are read")
        if size is not None and len(data) != size:
            raise Unavailable(f"{self.url}/{path}: the connection ended early")
        return bytes(data), found

    def stream(self, path: str, start: int, size: int) -> Iterator[bytes]:
        """Yields the bytes of an object of ``size`` bytes from ``start`` on, as they arrive, and at most one piece more
        than the object may have. Raises Denied if the server does not begin there."""
        found, _, pieces = self._open(path, start, None)
        if found is not None and found != size:
            raise Denied(f"{path} has {found} bytes, and not {size}")
        at = start
        for piece in pieces:
            at += len(piece)
            yield piece
            if at > size:
                return
        if at < size and at == start > 0:
            raise Denied(f"{self.url} does not continue a download, so the next pull begins it anew")
        if at < size:
            raise Unavailable(f"{self.url}/{path}: the connection ended early")

    def write(self, path: str, source: bytes | Path) -> None:
        """Creates or replaces an object, whole or not at all."""
        raise Unavailable(f"{self.url} can only be read; builders need object storage or a directory")

    def create(self, path: str, data: bytes) -> bool:
        """Creates an object. Returns False if there is one, which stays as it is."""
        raise NotImplementedError

    def items(self, prefix: str) -> list[StoredObject]:
        """Returns all objects below a prefix."""
        raise Unavailable(f"{self.url} cannot be listed; builders need object storage or a directory")

    def remove(self, paths: list[str]) -> None:
        """Deletes objects. One that does not exist is no error."""
        raise NotImplementedError
