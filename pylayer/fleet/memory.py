"""What a machine remembers of a fleet between two pulls, for each URL and identity.

    <root>/fleet/<url>/lock                       whoever pulls or publishes has it, and changes it at the beginning
    <root>/fleet/<url>/<identity>.index           the last index that was accepted, as it came
    <root>/fleet/<url>/<identity>.state           its ETag, and how the last pull ended, as settings text
    <root>/fleet/<url>/<identity>.pulled          which records each pulled pack has
    <root>/fleet/<url>/<identity>.pushed          program and name of each record that this machine pushed
    <root>/fleet/<url>/<sha256>.part              a pack that is being downloaded
    <root>/fleet/<url>/<maker>.tmp/               what a push or a publication works on
    <root>/fleet/<url>/<identity>/<sha256>.pack   a publisher's copy of a published pack

<url> is a hash of the URL. All of it may be deleted: the next pull then downloads everything again, and believes any
number of an index once. What is missing is decided by what the store has: a pack whose records are not all there any
more, whatever became of them, is missing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import struct
import time
from collections.abc import Container, Iterator
from typing import Any, NamedTuple

from ..common import file_kinds, flat
from ..common.files import Scratch, names_in, read_small, remove, remove_left_temporaries, replace_file
from ..common.paths import make_private_below, open_in_store
from .index import MAX_INDEX_BYTES, Pack, is_hex

#: A pushed record: program, digest, fingerprint.
Name = tuple[int, bytes, int]
_PUSHED = struct.Struct("<Q16sQ")
#: 4 million records. Beyond that the oldest are forgotten, and pushed once more.
MAX_PUSHED_BYTES = (4 << 20) * _PUSHED.size
#: A pulled pack: SHA-256, program, first and last generation, number of pipelines. Beginnings of their digests follow.
_PULLED = struct.Struct("<32sQQQQ")
#: 8 million records. What is beyond that is pulled once more.
MAX_PULLED_BYTES = 64 << 20
_MAX_STATE_BYTES = 1 << 16
_MAX_PROBLEM = 1000
_POLL_SECONDS = 0.05


def folder_of(root: str, url: str) -> str:
    """Returns the directory for a URL, which need not exist."""
    return os.path.join(root, "fleet", hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16])


def make_folder(root: str, url: str, *below: str) -> str:
    """Makes the directory for a URL, and nested ones below it; returns the last. Raises OSError."""
    path = folder_of(root, url)
    make_private_below(root, "fleet", os.path.basename(path), *below)
    return os.path.join(path, *below)


def scratch(root: str, url: str) -> Scratch:
    """Returns a directory for a push or a publication, after it deletes those of commands that were killed. Raises
    OSError."""
    remove_left_temporaries(make_folder(root, url), trees=True)
    return Scratch(root, "fleet", os.path.basename(folder_of(root, url)))


# ---- one at a time -----------------------------------------------------------------------------------


def _lock_of(root: str, url: str) -> str:
    return os.path.join(folder_of(root, url), "lock")


def last_begun(root: str, url: str) -> float:
    """Returns when somebody last began to pull from a URL or to publish there, in seconds since 1970; 0 for never."""
    try:
        return os.stat(_lock_of(root, url)).st_mtime
    except OSError:
        return 0.0


@contextlib.contextmanager
def turn(root: str, url: str, seconds: float) -> Iterator[bool]:
    """Waits, at most for so long, until no other process pulls from a URL into this store or publishes from it; yields
    whether that is so. The system ends the turn of a process that ends. On a file system without locks nobody waits:
    two at once do double work, and nothing else. Raises OSError."""
    make_folder(root, url)
    fd = open_in_store(_lock_of(root, url), os.O_RDWR | os.O_CREAT)
    end = time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
                    if time.monotonic() >= end:
                        yield False
                        return
                    time.sleep(_POLL_SECONDS)
                    continue
            os.utime(fd)
            yield True
            return
    finally:
        os.close(fd)


# ---- one identity ------------------------------------------------------------------------------------


class Held(NamedTuple):
    """A pack that this machine pulled, and the first 8 bytes of the digest of each of its pipelines."""

    sha256: str
    program: int
    first: int
    last: int
    digests: tuple[bytes, ...]

    @classmethod
    def of(cls, pack: Pack, digests: list[bytes]) -> Held:
        """Returns what is remembered of a pack."""
        return cls(pack.sha256, int(pack.program, 16), pack.first, pack.last, tuple(digest[:8] for digest in digests))

    def is_in(self, present: Container[bytes]) -> bool:
        """Returns whether all its pipelines are there."""
        return all(digest in present for digest in self.digests)

    def packed(self) -> bytes:
        """Returns the bytes that stand for it in a file."""
        head = _PULLED.pack(bytes.fromhex(self.sha256), self.program, self.first, self.last, len(self.digests))
        return head + b"".join(self.digests)


def _unpack(data: bytes) -> Iterator[Held]:
    """Yields what is in a file whose end may be torn. If it is damaged, what it says is not in the store."""
    at = 0
    while at + _PULLED.size <= len(data):
        sha256, program, first, last, count = _PULLED.unpack_from(data, at)
        at += _PULLED.size
        if count > (len(data) - at) // 8 or not 0 < first <= last:
            return
        digests = struct.unpack_from("8s" * count, data, at)
        yield Held(sha256.hex(), program, first, last, digests)
        at += 8 * count


class Memory:
    """What is remembered of one identity. The constructor reads it; what cannot be read is forgotten."""

    def __init__(self, root: str, url: str, identity: str) -> None:
        self.identity = identity
        self._root = root
        self._url = url
        self._base = os.path.join(folder_of(root, url), identity)
        #: The last index that was accepted; None if there was none.
        self.index = self._read(file_kinds.INDEX, MAX_INDEX_BYTES) or None
        values = self._values()
        self.etag: str | None = None
        if self.index and _is_line(values.get("etag")):
            self.etag = values["etag"]
        #: When the last pull ended, and what went wrong then; empty if nothing did.
        self.pulled_at = 0.0
        self.problem = ""
        if isinstance(values.get("pulled_at"), float) and 0 <= values["pulled_at"] < 1e11:
            self.pulled_at = values["pulled_at"]
        if isinstance(values.get("problem"), str):
            self.problem = "".join(filter(str.isprintable, values["problem"]))
        #: What the store had at the end of the last pull: everything that was pulled; empty if that is not known.
        self.store_state = values["store_state"] if _is_line(values.get("store_state")) else ""

    def _read(self, suffix: str, most_bytes: int) -> bytes:
        try:
            return read_small(self._base + suffix, most_bytes)
        except OSError:
            return b""

    def _values(self) -> dict[str, Any]:
        try:
            return flat.loads(self._read(file_kinds.FLEET_STATE, _MAX_STATE_BYTES).decode())
        except ValueError:
            return {}

    def accept(self, index: bytes, etag: str | None) -> None:
        """Keeps an index that was accepted. Raises OSError."""
        if index != self.index:
            make_folder(self._root, self._url)
            replace_file(self._base + file_kinds.INDEX, index, sync=True)
        self.index, self.etag = index, etag

    def end(self, problem: str) -> None:
        """Keeps that a pull ended now, with this problem if it is not empty. Raises OSError."""
        self.pulled_at, self.problem = time.time(), problem[:_MAX_PROBLEM]
        values = {"pulled_at": self.pulled_at, "problem": self.problem, "store_state": self.store_state}
        if self.etag:
            values["etag"] = self.etag
        make_folder(self._root, self._url)
        replace_file(self._base + file_kinds.FLEET_STATE, flat.dumps(values).encode())

    def forget(self) -> None:
        """Deletes what is remembered, and the copies of published packs."""
        for suffix in (file_kinds.INDEX, file_kinds.FLEET_STATE, file_kinds.PULLED, file_kinds.PUSHED):
            remove(self._base + suffix)
        shutil.rmtree(self._base, ignore_errors=True)

    # ---- pulled and pushed -----------------------------------------------------------------------

    def held(self) -> list[Held]:
        """Returns the packs that this machine pulled. Their records may be gone."""
        return list(_unpack(self._read(file_kinds.PULLED, MAX_PULLED_BYTES)))

    def keep(self, held: list[Held]) -> None:
        """Keeps these packs and no others. Raises OSError."""
        make_folder(self._root, self._url)
        replace_file(self._base + file_kinds.PULLED, b"".join(one.packed() for one in held))

    def add(self, held: Held) -> None:
        """Keeps one pack more. Raises OSError."""
        append_private(self._base + file_kinds.PULLED, held.packed())

    def _read_pushed(self) -> bytes:
        data = self._read(file_kinds.PUSHED, MAX_PUSHED_BYTES)
        return data[: len(data) // _PUSHED.size * _PUSHED.size]

    def pushed(self) -> set[Name]:
        """Returns the names of the records that this machine pushed."""
        return set(_PUSHED.iter_unpack(self._read_pushed()))

    def add_pushed(self, records: set[Name]) -> None:
        """Adds records. Raises OSError."""
        make_folder(self._root, self._url)
        new = b"".join(_PUSHED.pack(*record) for record in sorted(records))
        replace_file(self._base + file_kinds.PUSHED, (self._read_pushed() + new)[-MAX_PUSHED_BYTES:])


def append_private(path: str, data: bytes) -> None:
    """Appends to a file of the store, which need not exist. Raises OSError."""
    with open(open_in_store(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab", buffering=0) as file:
        file.write(data)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable()


def remembered(root: str, url: str) -> list[Memory]:
    """Returns what is remembered of each identity under a URL."""
    there = names_in(folder_of(root, url))
    found = [name.removesuffix(file_kinds.FLEET_STATE) for name in there if name.endswith(file_kinds.FLEET_STATE)]
    return [Memory(root, url, name) for name in found if is_hex(name, 32)]
