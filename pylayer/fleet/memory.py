"""What a machine remembers of a fleet between two pulls, for each URL and identity.

    <root>/fleet/<url>/<identity>.index           the last index that was accepted, as it came
    <root>/fleet/<url>/<identity>.state           Memory, as JSON
    <root>/fleet/<url>/<identity>.pushed          program and digest of each record that this machine pushed
    <root>/fleet/<url>/<sha256>.<maker>.part      a pack that is being downloaded
    <root>/fleet/<url>/<identity>/<sha256>.pack   a publisher's copy of a published pack

<url> is a hash of the URL. All of it may be deleted: the next pull then downloads everything again, and believes any
number of an index once.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
from typing import Any

from ..common import file_kinds
from ..common.files import read_small, replace_file
from ..common.paths import make_private_below
from .choice import Ranges
from .index import MAX_INDEX_BYTES, is_hex

_PUSHED = struct.Struct("<Q16s")
#: 4 million records. Beyond that the oldest are forgotten, and pushed once more.
MAX_PUSHED_BYTES = (4 << 20) * _PUSHED.size
_MAX_STATE_BYTES = 16 << 20


def folder_of(root: str, url: str) -> str:
    """Returns the directory for a URL, which need not exist."""
    return os.path.join(root, "fleet", hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16])


def make_folder(root: str, url: str, *below: str) -> str:
    """Makes the directory for a URL, and nested ones below it; returns the last. Raises OSError."""
    path = folder_of(root, url)
    make_private_below(root, "fleet", os.path.basename(path), *below)
    return os.path.join(path, *below)


def _ranges(values: Any) -> Ranges:
    return tuple((int(first), int(last)) for first, last in values)


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
        self.etag: str | None = values.get("etag") if self.index else None
        #: Generations that this machine has, by program.
        self.have: dict[str, Ranges] = {}
        #: When the last pull ended, and what went wrong then; empty if nothing did.
        self.pulled_at = 0.0
        self.problem = ""
        try:
            self.have = {str(program): _ranges(ranges) for program, ranges in values.get("have", {}).items()}
            self.pulled_at, self.problem = float(values.get("pulled_at", 0)), str(values.get("problem", ""))
        except (AttributeError, TypeError, ValueError):
            pass
        if not os.path.isdir(os.path.join(root, "store", identity)):
            self.have = {}  # the pipelines were deleted, so all packs are missing again

    def _read(self, suffix: str, most_bytes: int) -> bytes:
        try:
            return read_small(self._base + suffix, most_bytes)
        except OSError:
            return b""

    def _values(self) -> dict[str, Any]:
        try:
            values = json.loads(self._read(file_kinds.STATE, _MAX_STATE_BYTES) or b"{}")
        except ValueError:
            return {}
        return values if isinstance(values, dict) else {}

    def accept(self, index: bytes, etag: str | None) -> None:
        """Keeps an index that was accepted. Raises OSError."""
        if index != self.index:
            make_folder(self._root, self._url)
            replace_file(self._base + file_kinds.INDEX, index, sync=True)
        self.index, self.etag = index, etag

    def end(self, problem: str) -> None:
        """Keeps everything, and that a pull ended now, with this problem if it is not empty. Raises OSError."""
        self.pulled_at, self.problem = time.time(), problem
        self.save()

    def save(self) -> None:
        """Keeps what is in the store by now. Raises OSError."""
        values = {"etag": self.etag, "have": self.have, "pulled_at": self.pulled_at, "problem": self.problem}
        make_folder(self._root, self._url)
        replace_file(self._base + file_kinds.STATE, json.dumps(values).encode())

    def _read_pushed(self) -> bytes:
        data = self._read(file_kinds.PUSHED, MAX_PUSHED_BYTES)
        return data[: len(data) // _PUSHED.size * _PUSHED.size]

    def pushed(self) -> set[tuple[int, bytes]]:
        """Returns program and digest of each record that this machine pushed."""
        return set(_PUSHED.iter_unpack(self._read_pushed()))

    def add_pushed(self, records: set[tuple[int, bytes]]) -> None:
        """Adds records, given by program and digest. Raises OSError."""
        make_folder(self._root, self._url)
        new = b"".join(_PUSHED.pack(*record) for record in sorted(records))
        replace_file(self._base + file_kinds.PUSHED, (self._read_pushed() + new)[-MAX_PUSHED_BYTES:])


def remembered(root: str, url: str) -> list[Memory]:
    """Returns what is remembered of each identity under a URL."""
    try:
        names = os.listdir(folder_of(root, url))
    except OSError:
        return []
    found = {name.removesuffix(file_kinds.STATE) for name in names if name.endswith(file_kinds.STATE)}
    return [Memory(root, url, name) for name in sorted(found) if is_hex(name, 32)]
