"""The server or storage behind a fleet's URL. Nothing that comes from it is trusted: whoever reads stops at a size, and
``trust`` judges the bytes. A text of a server never becomes part of a message.

    https://, http://            machines read here, with the standard library (``Web``)
    file://, s3://, gs://, az:// builders write here, with obstore (``Objects``), which takes credentials from the
                                 environment

Anybody may be a web server. obstore keeps the body of an error in memory, however long it is; the standard library does
not read it.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..common.policy_errors import schema

#: A connection that delivers nothing for this many seconds has failed.
_STALL_SECONDS = 20
#: The longest time that one request to object storage takes, with its retries.
_REQUEST_SECONDS = 600
_PIECE_BYTES = 1 << 16
#: Larger files are uploaded in parts. What is left of such an upload that was killed only the bucket's own rules
#: delete (docs/fleets.md).
_ONE_PUT_BYTES = 64 << 20
#: Value of the Authorization header, such as "Bearer TOKEN".
AUTHORIZATION = "PYLAYER_FLEET_AUTHORIZATION"
NEEDS_OBSTORE = "obstore is not installed; install it with: pip install obstore"


class Unavailable(Exception):
    """The server did not do what it was asked. The text says what happened, in one line."""


class Denied(Unavailable):
    """The server does not give out this object. It may give out others."""


class Missing(Denied):
    """There is no such object."""


class Storage:
    """Objects by path below a URL. Every method raises Unavailable."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def stream(self, path: str) -> Iterator[bytes]:
        """Yields the bytes of an object as they arrive."""
        raise NotImplementedError

    def read(self, path: str, most_bytes: int) -> bytes:
        """Returns a small object."""
        data = bytearray()
        for piece in self.stream(path):
            data += piece
            if len(data) > most_bytes:
                raise Unavailable(f"{self.url}/{path} has more than {most_bytes} bytes")
        return bytes(data)


# ---- web servers ---------------------------------------------------------------------------------------


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Called by urllib. Credentials go to no other server, and the body of a redirect is not read."""


class Web(Storage):
    """A web server, which may be anybody's: no body of an error is read, and no redirect followed."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._headers = {"User-Agent": "pylayer", "Cache-Control": "no-cache"}
        if authorization := os.environ.get(AUTHORIZATION, ""):
            if not (authorization.isascii() and authorization.isprintable()):
                raise Unavailable(f"{AUTHORIZATION} is not the value of a header, such as 'Bearer TOKEN'")
            self._headers["Authorization"] = authorization

    def stream(self, path: str) -> Iterator[bytes]:
        """Yields the bytes of an object as they arrive."""
        asked = quote(f"{self.url}/{path}", safe=":/%[]")
        try:
            request = urllib.request.Request(asked, headers=self._headers)
            with self._opener.open(request, timeout=_STALL_SECONDS) as answer:
                while piece := answer.read1(_PIECE_BYTES):
                    yield piece
                if answer.length:
                    raise http.client.IncompleteRead(b"")
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise Missing(f"{self.url} has no {path}") from None
            hint = f"; {AUTHORIZATION} is sent to it if it is set" if error.code == 401 else ""
            hint = "; redirects are not followed" if error.code < 400 else hint
            raise (Denied if error.code < 500 else Unavailable)(f"{asked}: status {error.code}{hint}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable(f"{asked}: {_meaning(error)}") from error


def _meaning(error: Exception) -> str:
    """Returns what went wrong, in words that no server chose."""
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, ssl.SSLCertVerificationError):
        return "the server's certificate is not trusted here (install ca-certificates, or set SSL_CERT_FILE)"
    if isinstance(error, TimeoutError):
        return "the server is too slow, or cannot be reached"
    if isinstance(error, OSError) and not isinstance(error, ConnectionResetError):
        return f"the server cannot be reached ({error.strerror or type(error).__name__})"
    return f"the connection ended early, or the answer is not HTTP ({type(error).__name__})"


# ---- object storage and directories ----------------------------------------------------------------------


def _one_line(error: Exception) -> str:
    """Returns an error of obstore as one line, without its account of the request and its internals."""
    text = " ".join(str(error).partition("\n\nDebug source")[0].split())
    text = text.rpartition(" - ")[2].removeprefix("Generic ").replace("HTTP error: ", "")
    if "InvalidCertificate" in str(error) or text.endswith("builder error"):
        return "the server's certificate is not trusted here (install ca-certificates, or set SSL_CERT_FILE)"
    return text.rstrip(": ")[:300]


class Objects(Storage):
    """A bucket, a folder in it, or a directory. ``writes``: makes the directory."""

    def __init__(self, url: str, writes: bool = False) -> None:
        super().__init__(url)
        try:
            import obstore
            from obstore.store import from_url
        except ImportError as error:
            raise Unavailable(NEEDS_OBSTORE) from error
        self._obstore = obstore
        options: Any = {
            "client_options": {
                "allow_http": True,  # signatures protect what is read, not the connection
                "read_timeout": timedelta(seconds=_STALL_SECONDS),
                "timeout": timedelta(seconds=_REQUEST_SECONDS),
            },
            "retry_config": {"max_retries": 2, "retry_timeout": timedelta(seconds=_REQUEST_SECONDS)},
        }
        with self._errors(self.url):
            self._store: Any = from_url(self.url, **({"mkdir": writes} if url.startswith("file:") else options))

    @contextlib.contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Turns the exceptions of obstore into this module's."""
        from obstore.exceptions import BaseError, NotSupportedError, PermissionDeniedError

        try:
            yield
        except FileNotFoundError as error:
            raise Missing(f"{self.url} has no {path}") from error
        except (BaseError, OSError, ValueError) as error:
            where = path if path == self.url else f"{self.url}/{path}"
            kind = Denied if isinstance(error, (NotSupportedError, PermissionDeniedError)) else Unavailable
            raise kind(f"{where}: {_one_line(error)}") from error

    def stream(self, path: str) -> Iterator[bytes]:
        """Yields the bytes of an object as they arrive."""
        with self._errors(path):
            for piece in self._obstore.get(self._store, path).stream(
                min_chunk_size=1
            ):  # what has arrived, and no waiting for more
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

    def items(self, prefix: str) -> list[dict[str, Any]]:
        """Returns all objects below a prefix: ``path``, ``size`` and ``last_modified`` of each."""
        with self._errors(prefix):
            return [dict(found) for page in self._obstore.list(self._store, prefix) for found in page]

    def modified(self, path: str) -> datetime:
        """Returns when an object was written."""
        with self._errors(path):
            when: datetime = self._obstore.head(self._store, path)["last_modified"]
            return when

    def remove(self, paths: list[str]) -> None:
        """Deletes objects. One that does not exist is no error."""
        for path in paths:
            with contextlib.suppress(Missing), self._errors(path):
                self._obstore.delete(self._store, path)


# ---- URLs ------------------------------------------------------------------------------------------------


def require_url(url: str) -> None:
    """Raises Unavailable unless a URL has a known scheme, and neither credentials nor a query: it is printed, and
    stands in files. The text does not have the URL, which may hold a password."""
    allowed = schema()["properties"]["fleet"]["properties"]["url"]
    if not re.search(allowed["pattern"], url) or "\n" in url:
        raise Unavailable(f"it is not {allowed['patternDescription']}")


def open_to_read(url: str) -> Storage:
    """Returns the storage behind a URL. Raises Unavailable, also if a library is missing."""
    return Web(url) if url.startswith("http") else Objects(url)


def open_to_write(url: str) -> Objects:
    """As ``open_to_read``. Raises Unavailable for a web server."""
    if url.startswith("http"):
        raise Unavailable(f"{url} can only be read; builders need object storage or a directory")
    return Objects(url, writes=True)
