"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import time

#: Pieces that Linux writes with one call.
IOV_MAX = 1024


def unique_name() -> str:
    """A name that no other process makes, also on another machine or in another container that shares the
    directory: start time in nanoseconds and 64 random bits."""
    return f"{time.time_ns():016x}-{os.urandom(8).hex()}"


def write_all(fd: int, parts: list[bytes | memoryview]) -> int:
    """Writes every byte of ``parts``; returns their number.

    Raises OSError, after which the file may end in a part of them.
    """
    total = sum(len(part) for part in parts)
    written = os.writev(fd, parts[:IOV_MAX])
    if written < total:
        rest = memoryview(b"".join(parts))[written:]
        while rest:
            rest = rest[os.write(fd, rest) :]
    return total


def sync_file(path: str) -> None:
    """Returns when the file's content is on the disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: str, data: bytes) -> None:
    """Writes ``data`` to ``path``: temporary file in the same directory, then rename.

    Raises OSError; ``path`` is then what it was before.
    """
    temporary = f"{path}.{unique_name()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            write_all(fd, [data])
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
