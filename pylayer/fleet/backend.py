"""The server or object storage behind a fleet's URL: one small class over obstore.

    https://, http://   whoever pulls reads here; nothing can be written
    s3://, gs://, az:// builders push and publish here; obstore takes credentials from the environment
    file:///            a directory, also a mounted one

Nothing that comes from here is trusted: sizes are checked before bytes are read, and ``trust`` judges the bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

#: What to do where obstore is missing.
NEEDS_OBSTORE = "obstore is not installed; install it with: pip install obstore"
#: A connection that delivers nothing for this many seconds has failed.
STALL_SECONDS = 20
CONNECT_SECONDS = 10
#: Attempts beyond the first, for errors of the server and the connection.
RETRIES = 2


class Unavailable(Exception):
    """The server did not do what it was asked. The text says what happened, in one line."""


class Missing(Unavailable):
    """There is no such object."""


class NoRanges(Unavailable):
    """The server sends whole objects only."""


class Unchanged(Exception):
    """The object is the one that the caller has."""


class NotInstalled(Exception):
    """obstore is not installed."""


@dataclass(frozen=True)
class Item:
    """An object of a listing."""

    path: str
    bytes: int
    modified: datetime


#: What to say before some texts of obstore.
_MEANINGS = {
    "error sending request": "the server cannot be reached",
    "request or response body error": "the connection ended early, or was too slow",
    "builder error": "no HTTPS here without CA certificates: install ca-certificates, or set SSL_CERT_FILE",
}


def _one_line(error: Exception) -> str:
    """Returns an error of obstore as one line, without its account of the request and its internals."""
    text = " ".join(str(error).partition("\n\nDebug source")[0].split())
    text = text.rpartition(" - ")[2].removeprefix("Generic ").removeprefix("HTTP error: ").removeprefix("HTTP error: ")
    if "InvalidCertificate" in str(error):
        return "the server's certificate is not trusted here (SSL_CERT_FILE names other authorities)"
    for known, meaning in _MEANINGS.items():
        if text.endswith(known):
            return f"{meaning} ({known})"
    return text.rstrip(": ")[:300]


class Backend:
    """Objects by path below a URL. ``seconds`` bounds each request. ``writes``: makes the directory of a file URL.
    Raises NotInstalled, and Unavailable for a URL that cannot be used. Every method raises Unavailable."""

    def __init__(self, url: str, seconds: float, writes: bool = False) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError as error:
            raise NotInstalled from error
        self.url = url
        self._obstore = obstore
        client: Any = {
            "allow_http": True,  # signatures protect what is read, not the connection
            # A container without ca-certificates can read from http://, where no certificate is ever checked.
            "allow_invalid_certificates": url.startswith("http://"),
            "connect_timeout": f"{CONNECT_SECONDS * 1000} ms",
            "read_timeout": f"{round(min(seconds, STALL_SECONDS) * 1000)} ms",
            "timeout": f"{round(seconds * 1000)} ms",
        }
        options: dict[str, Any] = {"client_options": client, "retry_config": {"max_retries": RETRIES}}
        if url.startswith("file:"):
            options = {"mkdir": writes}
        with self._errors(url):
            self._store: Any = from_url(url, **options)

    @contextlib.contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Turns the exceptions of obstore into this module's."""
        from obstore.exceptions import BaseError, NotModifiedError, NotSupportedError

        try:
            yield
        except FileNotFoundError as error:
            raise Missing(f"{self.url} has no {path}") from error
        except NotModifiedError as error:
            raise Unchanged from error
        except NotSupportedError as error:
            raise NoRanges(f"{self.url} cannot continue a download, so the next pull begins it anew") from error
        except (BaseError, OSError, ValueError) as error:
            where = path if path == self.url else f"{self.url.rstrip('/')}/{path}"
            raise Unavailable(f"{where}: {_one_line(error)}") from error

    def read(self, path: str, most_bytes: int, etag: str | None = None) -> tuple[bytes, str | None]:
        """Returns a small object and its ETag. Raises Unchanged if it still has the ETag ``etag``."""
        with self._errors(path):
            found = self._obstore.get(self._store, path, options={"if_none_match": etag} if etag else None)
            if found.meta["size"] > most_bytes:
                raise Unavailable(f"{path} has {found.meta['size']} bytes, and at most {most_bytes} are read")
            return bytes(found.bytes()), found.meta["e_tag"]

    def stream(self, path: str, start: int, size: int) -> Iterator[bytes]:
        """Yields the bytes of an object of ``size`` bytes from ``start`` on, as they arrive. Raises NoRanges."""
        with self._errors(path):
            options: Any = {"range": {"offset": start}} if start else None
            found = self._obstore.get(self._store, path, options=options)
            if found.meta["size"] != size:
                raise Unavailable(f"{path} has {found.meta['size']} bytes, and the index says {size}")
            # A chunk is what has arrived: waiting for more of a slow server would hide that time passes.
            yield from found.stream(min_chunk_size=1)

    def write(self, path: str, source: bytes | Path) -> None:
        """Creates or replaces an object, whole or not at all."""
        with self._errors(path):
            self._obstore.put(self._store, path, source)

    def create(self, path: str, data: bytes) -> bool:
        """Creates an object. Returns False if there is one, which stays as it is."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._errors(path):
            try:
                self._obstore.put(self._store, path, data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
            return True

    def items(self, prefix: str) -> list[Item]:
        """Returns all objects below a prefix."""
        with self._errors(prefix):
            return [
                Item(meta["path"], meta["size"], meta["last_modified"])
                for page in self._obstore.list(self._store, prefix)
                for meta in page
            ]

    def remove(self, paths: list[str]) -> None:
        """Deletes objects. One that does not exist is no error."""
        for path in paths:
            try:
                with self._errors(path):
                    self._obstore.delete(self._store, path)
            except Missing:
                continue

    def move(self, path: str, new: str) -> None:
        """Renames an object; replaces one that has the name."""
        with self._errors(path):
            self._obstore.rename(self._store, path, new)
