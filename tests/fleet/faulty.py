"""A web server with faults, for what nginx cannot be made to do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Answer:
    """What the server says: headers for ``size`` bytes, and then ``body``, piece by piece."""

    status: int
    #: Announced in Content-Length; None: not announced, and the connection ends behind the body.
    size: int | None
    body: Iterable[bytes]
    headers: dict[str, str] = field(default_factory=dict)
    #: Called between two pieces.
    pause: Callable[[], object] = lambda: None


#: Gets the path and the answer that a good server would give.
Fault = Callable[[str, Answer], Answer]


@dataclass
class Faulty:
    """A server's address, what it serves, its fault, and the requests that it got: path and range."""

    root: Path
    url: str = ""
    fault: Fault = lambda path, answer: answer
    requests: list[tuple[str, str]] = field(default_factory=list)
    #: The headers of the last request.
    headers: dict[str, str] = field(default_factory=dict)
    #: Bytes of bodies that were sent.
    sent: int = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Faulty

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        wanted = self.headers.get("Range", "")
        self.served.requests.append((path, wanted))
        self.served.headers = dict(self.headers.items())
        file = self.served.root / path.partition("?")[0]
        if not file.is_file():
            answer = Answer(404, 0, [])
        else:
            data = file.read_bytes()
            start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
            answer = Answer(206 if wanted else 200, len(data) - start, [data[start:]])
            if wanted:
                answer.headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._send(self.served.fault(path, answer))

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.served.requests.append((self.path.lstrip("/"), "PUT"))
        self._send(self.served.fault(self.path, Answer(200, 0, [], {"ETag": '"x"'})))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.size is not None:
            self.send_header("Content-Length", str(answer.size))
        self.end_headers()
        sent = 0
        try:
            for piece in answer.body:
                self.wfile.write(piece)
                self.wfile.flush()
                sent += len(piece)
                answer.pause()
        except OSError:
            pass  # the client gave up
        self.served.sent += sent
        if sent != answer.size:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(root: Path) -> Iterator[Faulty]:
    """Serves a directory, without a fault at first."""
    served = Faulty(root)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"served": served}))
    served.url = f"http://127.0.0.1:{server.server_port}"
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def only(suffix: str, fault: Fault) -> Fault:
    """The fault for paths with this ending alone."""
    return lambda path, answer: fault(path, answer) if path.endswith(suffix) else answer


def cut(at: int) -> Fault:
    """The connection ends before byte ``at``, although all bytes were announced."""
    return lambda path, answer: replace(answer, body=[b"".join(answer.body)[:at]])


def flipped(at: int) -> Fault:
    """A byte is another one."""

    def fault(path: str, answer: Answer) -> Answer:
        data = bytearray(b"".join(answer.body))
        data[at % len(data)] ^= 1
        return replace(answer, body=[bytes(data)])

    return fault


def failing(status: int) -> Fault:
    """An error of the server."""
    return lambda path, answer: Answer(status, 0, [])


def dripping(pause: Callable[[], object]) -> Fault:
    """One byte at a time, with a pause after each."""
    return lambda path, answer: replace(answer, body=[bytes([byte]) for byte in b"".join(answer.body)], pause=pause)
