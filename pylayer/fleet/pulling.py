"""Pulls published packs into the store: the index, then what is missing, verified before it is in the store.

A pull can be killed at any moment. A pack is in the store whole or not at all: its name there has its SHA-256, by which
the next pull sees what is missing. Beside the store a machine has:

    <root>/fleet/<url>                      whoever pulls has a lock on it, and changes its date at the beginning
    <root>/fleet/<url>/<identity>.index     the last index that was accepted, as it came: no older one is
    <root>/fleet/<url>/<sha256>.<maker>.tmp a pack that is being downloaded

<url> is a hash of the URL. All of it may be deleted: the next pull then believes any number of an index once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

from ..common import file_kinds
from ..common.files import create_temporary, read_small, remove, remove_left_temporaries, replace_file
from ..common.identity import Identity
from ..common.paths import make_private_below
from ..store import portable
from ..store.store import Refused, Store
from .index import MAX_INDEX_BYTES, Index, Pack
from .storage import Denied, Missing, Storage, Unavailable
from .trust import Arriving, Older, Trust, Untrusted


def fetch(storage: Storage, folder: str, root: str, identity: Identity, pack: Pack) -> Generator[int, None, int]:
    """Downloads a pack into ``folder``, and admits it to the store in ``root``. Yields the number of bytes as they
    arrive; returns the number of pipelines. Raises Untrusted, Unavailable and OSError; nothing of it is left then."""
    fd, path = create_temporary(os.path.join(folder, pack.sha256))
    try:
        with open(fd, "wb", buffering=0) as file:
            arriving = Arriving(pack)
            for data in storage.stream(f"v1/{identity.name}/{pack.name}"):
                arriving.take(data)
                file.write(data)
                yield len(data)
        arriving.require_whole()
        return portable.admit(root, identity, int(pack.program, 16), path, pack.sha256)
    except Refused as error:
        raise Untrusted(f"{pack.name} was refused: {error}") from error
    finally:
        remove(path)  # unless it is in the store by another name


# ---- a pull ------------------------------------------------------------------------------------------------


@dataclass
class Pulled:
    """What a pull did for one identity. ``problem`` is one line, empty if nothing went wrong."""

    identity: str
    packs: int = 0
    records: int = 0
    bytes: int = 0
    #: Packs that are still missing.
    left: int = 0
    #: Whether anything is published for the identity.
    published: bool = False
    problem: str = ""


class Pull:
    """A pull for one identity: first ``plan``, then ``steps``. What goes wrong is in ``result.problem``. Both raise
    OSError if this machine cannot write."""

    def __init__(self, storage: Storage, store: Store, identity: str, keys: Mapping[str, str]) -> None:
        self.result = Pulled(identity)
        self._storage = storage
        self._root = store.root
        self._folder = folder_of(store.root, storage.url)
        self._last = os.path.join(self._folder, f"{identity}{file_kinds.INDEX}")
        try:
            last = read_small(self._last, MAX_INDEX_BYTES)
        except OSError:
            last = None
        self._trust = Trust(keys, identity, last)
        self._index: Index | None = None
        self._packs: list[Pack] = []

    def plan(self) -> int:
        """Fetches the index. Returns the number of bytes to come."""
        try:
            self._index = self._fetch_index()
        except (Unavailable, Untrusted) as error:
            self.result.problem = str(error)
        if self._index is not None:
            held = portable.held(self._root, self._index.identity, {pack.sha256 for pack in self._index.packs})
            # The smallest come first: there may be no room for all, and the pull may be ended.
            missing = (pack for pack in self._index.packs if pack.sha256 not in held)
            self._packs = sorted(missing, key=lambda pack: pack.bytes)
            self.result.published, self.result.left = True, len(self._packs)
        return sum(pack.bytes for pack in self._packs)

    def _fetch_index(self) -> Index | None:
        """Returns the index; None if nothing is published for this identity."""
        last = self._trust.last
        try:
            data = self._storage.read(f"v1/{self.result.identity}/index", MAX_INDEX_BYTES)
            index = self._trust.index(data, time.time())
        except Missing:
            if last is not None:
                raise Untrusted("the index that this machine has seen is not there any more") from None
            return None
        except Older:  # a mirror lags behind
            assert last is not None
            return self._trust.index(last, time.time())
        if data != last:
            replace_file(self._last, data, sync=True)
        return index

    def steps(self, most_bytes: int) -> Iterator[int]:
        """Fetches the packs, as long as the store has no more than ``most_bytes``; yields the number of bytes that
        arrived. A pack that cannot be had does not keep the others from being pulled. The first problem is in the
        result."""
        result, room = self.result, most_bytes - Store(self._root).total_bytes()
        for pack in self._packs:
            try:
                if pack.bytes > room:
                    raise Denied("the store has no room for it (max_store_mib); see pylayer rm --stale")
                yield from self._fetch(pack)
                room -= pack.bytes
            except Unavailable as error:
                result.problem = result.problem or str(error)
                if not isinstance(error, Denied):
                    break
            except Untrusted as error:
                result.problem = result.problem or str(error)
        if self._packs:
            portable.sync_packs(self._root, result.identity)

    def _fetch(self, pack: Pack) -> Iterator[int]:
        """Fetches one pack."""
        assert self._index is not None
        pipelines = yield from fetch(self._storage, self._folder, self._root, self._index.identity, pack)
        result = self.result
        result.packs, result.records = result.packs + 1, result.records + pipelines
        result.bytes, result.left = result.bytes + pack.bytes, result.left - 1


def folder_of(root: str, url: str) -> str:
    """Returns the directory for a URL, which need not exist."""
    return os.path.join(root, "fleet", hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16])


def make_folder(root: str, url: str) -> str:
    """Makes the directory for a URL, deletes what killed processes left in it, and returns it. Raises OSError."""
    path = folder_of(root, url)
    make_private_below(root, "fleet", os.path.basename(path))
    remove_left_temporaries(path)
    return path


@contextlib.contextmanager
def turn(root: str, url: str) -> Iterator[None]:
    """Waits until no other process pulls from a URL into this store. On a file system without locks nobody waits: two
    at once do double work, and nothing else. Raises OSError."""
    fd = os.open(make_folder(root, url), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # there are no locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        os.utime(fd)
        yield
    finally:
        os.close(fd)
