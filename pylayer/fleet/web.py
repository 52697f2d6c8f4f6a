"""Reads from a web server with the standard library's client, because a server may be anybody's.

Every byte that arrives is asked for: no header announces memory, the body of an error is not read, and each wait ends
when the time of the whole pull does, however many attempts and answers there were. A redirect never leads to another
host, so neither do credentials.
"""

from __future__ import annotations

import base64
import http.client
import io
import os
import socket
import ssl
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from .backend import CONNECT_SECONDS, RETRIES, STALL_SECONDS, Backend, Denied, Missing, Unavailable, Unchanged

#: Value of the Authorization header, such as "Bearer TOKEN". Sent to the host of the fleet's URL alone.
AUTHORIZATION = "PYLAYER_FLEET_AUTHORIZATION"
_MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_PIECE_BYTES = 1 << 16
_MAX_ETAG = 256


class _Answer(io.RawIOBase):
    """The bytes of a connection. Each read ends with the time of the pull."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        super().__init__()
        self._connection = connection
        self._bytes: Any = connection.makefile("rb", buffering=0)
        self._end = end

    def readable(self) -> bool:
        """Called by BufferedReader."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Called by BufferedReader. Raises OSError."""
        self._connection.settimeout(min(STALL_SECONDS, _left(self._end)))
        count: int = self._bytes.readinto(buffer)
        return count

    def close(self) -> None:
        """Called by BufferedReader."""
        self._bytes.close()
        super().close()


class _Connection:
    """What HTTPResponse needs of a socket."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection = connection
        self._end = end

    def makefile(self, mode: str) -> io.BufferedReader:
        """Called by HTTPResponse."""
        return io.BufferedReader(_Answer(self._connection, self._end), _PIECE_BYTES)


def _response(end: float, connection: socket.socket, *arguments: Any, **named: Any) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(_Connection(connection, end), *arguments, **named)  # type: ignore[arg-type]


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _meaning(error: Exception) -> str:
    """Returns what went wrong, in words that no server chose."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "the server's certificate is not trusted here (install ca-certificates, or set SSL_CERT_FILE)"
    if isinstance(error, TimeoutError):
        return "the server is too slow, or cannot be reached"
    if isinstance(error, (http.client.RemoteDisconnected, ConnectionResetError, http.client.IncompleteRead)):
        return "the connection ended early"
    if isinstance(error, ssl.SSLError):
        return "there is no HTTPS"
    if isinstance(error, OSError):
        return f"the server cannot be reached ({error.strerror or type(error).__name__})"
    if isinstance(error, ValueError):
        return "the server's name, or the path that it redirects to, cannot be asked for"
    return f"the answer is no HTTP ({type(error).__name__})"


class Web(Backend):
    """A web server. Keeps one connection. ``seconds``: everything that it does ends by then."""

    def __init__(self, url: str, seconds: float) -> None:
        super().__init__(url)
        self._end = time.monotonic() + seconds
        self._base = urlsplit(self.url + "/")
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "pylayer", "Cache-Control": "no-cache"}
        self._kept: http.client.HTTPConnection | None = None
        authorization = os.environ.get(AUTHORIZATION, "")
        if authorization:
            if not (authorization.isascii() and authorization.isprintable()):
                raise Unavailable(f"{AUTHORIZATION} is no value of a header, such as 'Bearer TOKEN'")
            self._headers["Authorization"] = authorization
        try:
            if not self._base.hostname:
                raise ValueError
            self._port = self._base.port
        except ValueError as error:
            raise Unavailable(f"{self.url} names no server") from error

    # ---- connections -----------------------------------------------------------------------------

    def _connect(self, target: SplitResult) -> http.client.HTTPConnection:
        """Returns a new connection to the server, or to the proxy that the environment names for it."""
        timeout = min(CONNECT_SECONDS, _left(self._end))
        secure, host, port = target.scheme == "https", str(target.hostname), target.port
        proxy = _proxy(target)
        connection: http.client.HTTPConnection
        if secure:
            near, near_port = (proxy.hostname, proxy.port) if proxy else (host, port)
            connection = http.client.HTTPSConnection(str(near), near_port, timeout=timeout)
            if proxy:
                connection.set_tunnel(host, port, _proxy_headers(proxy))
        elif proxy:
            connection = http.client.HTTPConnection(str(proxy.hostname), proxy.port, timeout=timeout)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        connection.response_class = partial(_response, self._end)  # type: ignore[assignment]
        return connection

    def _close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _ask(self, target: SplitResult, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Sends a request and returns the head of the answer. Raises OSError and HTTPException."""
        if self._kept is None:
            self._kept = self._connect(target)
        proxy = None if target.scheme == "https" else _proxy(target)
        if self._kept.sock is not None:
            self._kept.sock.settimeout(min(STALL_SECONDS, _left(self._end)))
        path = target.geturl() if proxy else target._replace(scheme="", netloc="").geturl()
        self._kept.request("GET", path, headers={**headers, **(_proxy_headers(proxy) if proxy else {})})
        return self._kept.getresponse()

    def _answer(self, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Returns the answer to a request, after redirects on the same host and retries. Messages name what was asked
        for, and not where a redirect led: the server chose that, and it may be a secret."""
        asked = urljoin(self._base.geturl(), quote(path))
        target, redirects, failures = urlsplit(asked), 0, 0
        while True:
            problem: Exception | None = None
            try:
                answer = self._ask(target, {**self._headers, **headers})
                if answer.status < 400 and answer.status not in _REDIRECTS:
                    return answer
                location = answer.headers.get("Location", "")
                status = answer.status
            except (OSError, http.client.HTTPException, ValueError) as error:  # of a name or path that HTTP cannot have
                problem, status, location = error, 0, ""
            self._close()  # the rest of such an answer is not read
            if status in _REDIRECTS:
                redirects += 1
                target = _redirected(asked, target, location, redirects)
                continue
            failures += 1
            if problem is not None and (failures > RETRIES or isinstance(problem, (ssl.SSLError, ValueError))):
                raise Unavailable(f"{asked}: {_meaning(problem)}") from problem
            if problem is None and (status < 500 or failures > RETRIES):
                raise self._refusal(path, asked, status)
            self._pause(0.2 * failures)

    def _pause(self, seconds: float) -> None:
        try:
            time.sleep(min(seconds, _left(self._end)))
        except TimeoutError:
            pass  # the next attempt says so

    def _refusal(self, path: str, asked: str, status: int) -> Unavailable:
        if status in (404, 410):
            return Missing(f"{self.url} has no {path}")
        meaning = http.client.responses.get(status, "unknown")
        hint = f"; {AUTHORIZATION} is sent to it if it is set" if status == 401 else ""
        kind = Denied if status < 500 else Unavailable
        return kind(f"{asked}: status {status}, {meaning}{hint}")

    # ---- objects ---------------------------------------------------------------------------------

    def _open(self, path: str, start: int, etag: str | None) -> tuple[int | None, str | None, Iterator[bytes]]:
        headers = {"Range": f"bytes={start}-"} if start else {}
        if etag:
            headers["If-None-Match"] = etag
        answer = self._answer(path, headers)
        if answer.status == 304:
            answer.close()
            raise Unchanged
        if answer.status != (206 if start else 200) or (start and not _begins_at(answer, start)):
            self._close()
            if start:
                raise Denied(f"{self.url} cannot continue a download, so the next pull begins it anew")
            raise Unavailable(f"{self.url}/{path}: status {answer.status}")
        size = None if answer.length is None else answer.length + start
        found = answer.headers.get("ETag", "")
        sane = found.isascii() and found.isprintable() and 0 < len(found) <= _MAX_ETAG
        return size, found if sane else None, self._pieces(path, answer)

    def _pieces(self, path: str, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        done = False
        try:
            while piece := answer.read1(_PIECE_BYTES):
                yield piece
            done = True
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{self.url}/{path}: {_meaning(error)}") from error
        finally:
            answer.close()
            if not done or answer.length:
                self._close()  # what is left of the answer would be read as the next one


def _redirected(asked: str, target: SplitResult, location: str, redirects: int) -> SplitResult:
    """Returns where a redirect leads: to the same host, and not less secure. Raises Unavailable."""
    try:
        new = urlsplit(urljoin(target.geturl(), location))
    except ValueError:
        raise Unavailable(f"{asked}: the server redirects to what is no URL") from None
    same_place = (new.scheme, new.netloc) == (target.scheme, target.netloc)
    if not (same_place or (new.scheme == "https" and new.netloc == target.hostname)):
        raise Unavailable(f"{asked}: the server redirects to another one, which is not followed")
    if redirects > _MAX_REDIRECTS:
        raise Unavailable(f"{asked}: the server redirects again and again")
    return new


def _begins_at(answer: http.client.HTTPResponse, start: int) -> bool:
    return answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")


def _proxy(target: SplitResult) -> SplitResult | None:
    """Returns the proxy that the environment names for a URL."""
    host = str(target.hostname)
    found = urllib.request.getproxies().get(target.scheme)
    if not found or urllib.request.proxy_bypass(host):
        return None
    try:
        proxy = urlsplit(found if "://" in found else f"http://{found}")
        if proxy.hostname is None or proxy.port == 0:  # reading the port may raise
            raise ValueError
        return proxy
    except ValueError as error:
        raise Unavailable(f"the environment names a proxy that cannot be used ({target.scheme}_proxy)") from error


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(secret).decode()}"}
