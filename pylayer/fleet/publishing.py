"""Publishes signed exports: verifies them, leaves out what is published, merges packs, and replaces the index last.

    v1/<identity>/<sha256>.pack   a published pack of one program; it never changes
    v1/<identity>/index           the signed list of these packs, which machines read
    lock                          somebody publishes

A publisher may die at any moment. Before the index is replaced, nobody sees what it did. It remembers nothing: it
fetches what is published for the exports' identities as machines do, into a store that is deleted afterwards. The
number of an index is the time. Packs that no index lists any more are deleted later.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.file_kinds import PACK
from ..common.identity import Identity
from ..store import portable
from ..store.portable import NEVER_USED, PULLED, Folder, Import
from ..store.store import Refused
from .index import MAX_INDEX_BYTES, Index, Pack, is_hex
from .pulling import fetch
from .signatures import sha256_of, signed_index, verified
from .storage import Missing, Objects, Unavailable
from .trust import Trust, Untrusted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: The most packs of one program. Beyond that the smallest ones, so many, are merged, and the largest ones stay: most of
#: what a machine has it does not download again.
MOST_PACKS, MERGED = 16, 9
#: Whoever publishes for longer than this is taken for dead.
LOCK_SECONDS = 3600
#: Packs that no index lists any more stay for so long, for machines that have read an old index.
KEEP = timedelta(days=30)
#: Machines believe an index for so long.
VALID_SECONDS = 30 * 24 * 3600


@dataclass
class Published:
    """What was published for one identity."""

    identity: str
    number: int = 0
    records: int = 0
    #: New packs, of which some may have taken in older ones.
    packs: int = 0
    #: Packs that the storage lost. They can be exported again.
    lost: int = 0
    #: Why nothing was published; empty if nothing went wrong.
    problem: str = ""


@contextlib.contextmanager
def only_publisher(storage: Objects) -> Iterator[None]:
    """For ``with``: nobody else publishes meanwhile. Raises Unavailable if somebody does."""
    if not storage.create("lock", b""):
        age = (datetime.now(UTC) - storage.modified("lock")).total_seconds()
        if age < LOCK_SECONDS:
            raise Unavailable(
                f"another publisher began {round(age / 60)} minutes ago; publish when it has ended, or delete "
                f"{storage.url}/lock if it died"
            )
        storage.write("lock", b"")
    try:
        yield
    finally:
        storage.remove(["lock"])


def identities(storage: Objects) -> list[str]:
    """Returns the identities for which something is published. Raises Unavailable."""
    found = {item["path"].split("/")[-2] for item in storage.items("v1")}
    return sorted(name for name in found if is_hex(name, 32))


class Publication:
    """Publishes for one identity. First ``take`` exports, then ``finish``. ``trust``: judges what was published before.
    ``root``: a store to work in, which is deleted afterwards."""

    def __init__(self, storage: Objects, root: str, trust: Trust, identity: str, key: Ed25519PrivateKey) -> None:
        self.result = Published(identity)
        self._storage = storage
        self._root = root
        self._trust = trust
        self._key = key
        self._place = f"v1/{identity}"
        self._identity: Identity | None = None
        self._packs: list[Pack] = []
        #: Whether the packs are in the store at ``root``.
        self._fetched = False
        with self.noting_problems():
            self._read_index()

    @contextlib.contextmanager
    def noting_problems(self) -> Iterator[None]:
        """For ``with``: a problem of the storage, or with what is in it, is in the result, and nothing is published."""
        try:
            yield
        except (Unavailable, Untrusted) as error:
            self.result.problem = self.result.problem or str(error)

    def _read_index(self) -> None:
        """Reads the last index. What it lists and the storage has is published again."""
        path = f"{self._place}/index"
        try:
            index = self._trust.index(self._storage.read(path, MAX_INDEX_BYTES), 0)  # also one that has expired
        except Missing:
            return
        except Untrusted as error:
            raise Untrusted(f"{path}: {error}; {self._place} in the storage can be deleted to begin anew") from error
        there = {(item["path"], item["size"]) for item in self._storage.items(self._place)}
        self._packs = [pack for pack in index.packs if (f"{self._place}/{pack.name}", pack.bytes) in there]
        self.result.lost = len(index.packs) - len(self._packs)
        self._identity, self.result.number = index.identity, index.number

    def take(self, export: Import) -> Iterator[int]:
        """Imports a verified export beside what is published. Yields numbers of bytes that were read. Raises Refused
        and OSError."""
        self._identity = export.identity
        with self.noting_problems():
            yield from self._fetch(export.identity)
        yield from export.steps(self._root)
        self.result.records += export.result.pipelines

    def _fetch(self, identity: Identity) -> Iterator[int]:
        """Fetches what is published. A pack of which the storage has other bytes is lost."""
        for pack in () if self._fetched else list(self._packs):
            try:
                yield from fetch(self._storage, self._root, self._root, identity, pack)
            except (Untrusted, Missing):
                self._packs.remove(pack)
                self.result.lost += 1
        self._fetched = True

    def finish(self) -> None:
        """Merges packs, uploads those that are new, and then publishes an index of all. Raises OSError."""
        if self._identity is None or self.result.problem:
            return
        with self.noting_problems():
            if self._fetched:
                portable.merge(self._root, self._identity, MOST_PACKS, MERGED)
                self._upload(self._identity)
            self._replace_index(self._identity)
            kept = {f"{self._place}/{name}" for name in ("index", *(pack.name for pack in self._packs))}
            end = datetime.now(UTC) - KEEP
            old = [item["path"] for item in self._storage.items(self._place) if item["last_modified"] < end]
            self._storage.remove([path for path in old if path not in kept])

    def _upload(self, identity: Identity) -> None:
        known, self._packs = {pack.sha256 for pack in self._packs}, []
        for program, paths in Folder(self._root, identity).files_by_program((PACK,)).items():
            for path in paths:
                pack = Pack(sha256_of(path), os.path.getsize(path), f"{program:016x}")
                self._packs.append(pack)
                if pack.sha256 not in known:
                    self._storage.write(f"{self._place}/{pack.name}", Path(path))
                    self.result.packs += 1

    def _replace_index(self, identity: Identity) -> None:
        """Publishes an index. Raises Untrusted if machines would not believe it; nothing is published then."""
        now = int(time.time())
        number = max(now, self.result.number + 1)
        data = signed_index(Index(identity, number, now, now + VALID_SECONDS, tuple(self._packs)).payload(), self._key)
        try:
            self._trust.index(data, now)
        except Untrusted as error:
            raise Untrusted(
                f"nothing was published for identity {self.result.identity}, because no machine would believe it: "
                f"{error}; give some programs a fleet with another URL"
            ) from error
        self._storage.write(f"{self._place}/index", data)
        self.result.number = number


def publish(
    storage: Objects,
    root: str,
    key: Ed25519PrivateKey,
    keys: tuple[Mapping[str, str], Mapping[str, str]],
    exports: Iterable[str],
    advance: Callable[[int], None] = lambda amount: None,
) -> tuple[list[Published], list[str]]:
    """Publishes the exports in these files, and signs the indexes of all identities anew. ``keys``: names of the keys
    that sign indexes, and of those that sign exports, by key. ``advance``: called with numbers of bytes that were read.
    Returns what came of each identity, and which exports were refused, with the reason: neither keeps others from being
    published. Raises Unavailable and OSError."""

    def work_for(name: str) -> Publication:
        return Publication(storage, root, Trust(keys[0], name), name, key)

    works, refused = {name: work_for(name) for name in identities(storage)}, []
    required = "trusted_keys of the publisher's policy file lists whose exports are published"
    for path in exports:
        try:
            with verified(os.path.realpath(path), dict(keys[1]), required, root) as (content, _):
                export = Import(content, sync=False, flags=PULLED, last_used=NEVER_USED)
                if not export.identity.fields:
                    raise Refused("it has recordings and no pipelines")
                name = export.identity.name
                works[name] = works[name] if name in works else work_for(name)
                for amount in works[name].take(export):
                    advance(amount)
        except Refused as error:
            refused.append(f"{path} was refused: {error}")
    for work in works.values():
        work.finish()
    return [work.result for work in works.values()], refused
