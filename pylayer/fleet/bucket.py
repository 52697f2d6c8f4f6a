"""Object storage: S3, Google, Azure. Only this module knows obstore, which takes credentials from the environment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from .backend import (
    CONNECT_SECONDS,
    RETRIES,
    STALL_SECONDS,
    Backend,
    Denied,
    Missing,
    StoredObject,
    Unavailable,
    Unchanged,
)

#: What to do where obstore is missing.
NEEDS_OBSTORE = "obstore is not installed; install it with: pip install obstore"
#: Larger files are uploaded in parts. What is left of such an upload that was killed only the bucket's own rules
#: delete (docs/containers.md).
_ONE_PUT_BYTES = 64 << 20

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


class Bucket(Backend):
    """A bucket, or a folder in it. ``seconds`` bounds each request with its retries."""

    def __init__(self, url: str, seconds: float) -> None:
        super().__init__(url)
        try:
            import obstore
            from obstore.store import from_url
        except ImportError as error:
            raise Unavailable(NEEDS_OBSTORE) from error
        self._obstore = obstore
        client: Any = {
            "allow_http": True,  # signatures protect what is read, not the connection
            "connect_timeout": f"{CONNECT_SECONDS * 1000} ms",
            "read_timeout": f"{round(min(seconds, STALL_SECONDS) * 1000)} ms",
            "timeout": f"{round(seconds * 1000)} ms",
        }
        retry: Any = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=seconds)}
        with self._errors(self.url):
            self._store: Any = from_url(self.url, client_options=client, retry_config=retry)

    @contextlib.contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Turns the exceptions of obstore into this package's."""
        from obstore.exceptions import BaseError, NotModifiedError, NotSupportedError

        try:
            yield
        except FileNotFoundError as error:
            raise Missing(f"{self.url} has no {path}") from error
        except NotModifiedError as error:
            raise Unchanged from error
        except NotSupportedError as error:
            raise Denied(f"{self.url} cannot continue a download, so the next pull begins it anew") from error
        except (BaseError, OSError, ValueError) as error:
            where = path if path == self.url else f"{self.url}/{path}"
            raise Unavailable(f"{where}: {_one_line(error)}") from error

    def _open(self, path: str, start: int, etag: str | None) -> tuple[int | None, str | None, Iterator[bytes]]:
        options: Any = {"range": {"offset": start}} if start else {"if_none_match": etag} if etag else None
        with self._errors(path):
            found = self._obstore.get(self._store, path, options=options)
        return found.meta["size"], found.meta["e_tag"], self._pieces(path, found)

    def _pieces(self, path: str, found: Any) -> Iterator[bytes]:
        with self._errors(path):
            # A chunk is what has arrived: waiting for more of a slow server would hide that time passes.
            for piece in found.stream(min_chunk_size=1):
                yield bytes(piece)

    def write(self, path: str, source: bytes | Path) -> None:
        """Creates or replaces an object, whole or not at all."""
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        with self._errors(path):
            self._obstore.put(self._store, path, source, use_multipart=size > _ONE_PUT_BYTES)

    def create(self, path: str, data: bytes) -> bool:
        """Creates an object. Returns False if there is one, which stays as it is."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._errors(path):
            try:
                self._obstore.put(self._store, path, data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
            return True

    def items(self, prefix: str) -> list[StoredObject]:
        """Returns all objects below a prefix."""
        with self._errors(prefix):
            return [
                StoredObject(meta["path"], meta["size"], meta["last_modified"])
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
