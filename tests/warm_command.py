"""Runs ``python -m pylayer`` in a child of a process that has imported the packages of others that it needs.

Most of a short command's processor time goes into importing click, rich and the standard library. The server in
warm_server.py imports them once for each worker of pytest and forks for every command. Nothing of pylayer is imported
before the fork, and the child has the arguments, the environment, the directory and the pipes of a process of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

#: Variables that the C library, the linker or Python reads when a process starts. A command for which one of them
#: differs from the server's is started as a process of its own.
AT_START = ("ASAN_", "GLIBC_", "LANG", "LC_", "LD_", "LSAN_", "MALLOC_", "PYTHON", "TSAN_", "TZ", "UBSAN_")

SERVER = Path(__file__).with_name("warm_server.py")
_servers: list[_Server] = []


def run(
    arguments: list[str], environment: dict[str, str], directory: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """What ``subprocess.run`` returns for ``python -m pylayer`` with these arguments."""
    command = [sys.executable, "-m", "pylayer", *arguments]
    server = _server(environment)
    if _read_at_start(environment) != server.at_start:
        return subprocess.run(
            command, env=environment, cwd=directory, capture_output=True, text=True, timeout=timeout, check=False
        )
    request = json.dumps([arguments, environment, str(directory)]).encode()
    with _Channels() as channels:
        socket.send_fds(server.requests, [request], channels.theirs)
        channels.close_theirs()
        out, error, status = channels.read(command, timeout)
    return subprocess.CompletedProcess(command, status, out, error)


def _read_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith(AT_START)}


class _Channels:
    """Pipes for standard output and error, and one on which the child's number and its exit status come."""

    def __init__(self) -> None:
        pairs = [os.pipe() for _ in range(3)]
        self._ours = [ours for ours, _ in pairs]
        self.theirs = [theirs for _, theirs in pairs]

    def __enter__(self) -> _Channels:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_theirs()
        for number in self._ours:
            os.close(number)

    def close_theirs(self) -> None:
        for number in self.theirs:
            os.close(number)
        self.theirs = []

    def read(self, command: list[str], timeout: float) -> tuple[str, str, int]:
        """Both outputs and the exit status. Kills the child and raises TimeoutExpired when the time is over."""
        received = [b"", b"", b""]
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for index, number in enumerate(self._ours):
                selector.register(number, selectors.EVENT_READ, index)
            while selector.get_map():
                ready = selector.select(deadline - time.monotonic())
                if not ready:
                    if b"\n" in received[2]:
                        os.kill(int(received[2].split(b"\n")[0]), signal.SIGKILL)
                    raise subprocess.TimeoutExpired(command, timeout, received[0], received[1])
                for key, _ in ready:
                    piece = os.read(key.fd, 1 << 16)
                    received[key.data] += piece
                    if not piece:
                        selector.unregister(key.fd)
        assert received[2].count(b"\n") == 1, "warm_server.py has ended; run it by hand to see why"
        _, status = received[2].split(b"\n")
        return _text(received[0]), _text(received[1]), int(status)


def _text(output: bytes) -> str:
    """As subprocess gives text."""
    return output.decode().replace("\r\n", "\n").replace("\r", "\n")


class _Server:
    """The server of this process."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.at_start = _read_at_start(environment)
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = theirs.fileno()
        # Pipes, as each command has: Python looks once, at its start, whether its outputs can be positioned.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(SERVER), str(number)],
            env=environment,
            pass_fds=[number],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        atexit.register(self._end)

    def _end(self) -> None:
        self.requests.close()
        self._process.communicate(timeout=10)


def _server(environment: dict[str, str]) -> _Server:
    """Starts the server for the first command."""
    if not _servers:
        _servers.append(_Server(environment))
    return _servers[0]
