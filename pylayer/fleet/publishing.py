"""Publishes signed exports: verifies them, leaves out what is published, merges packs, and replaces the index last.

    v1/<identity>/<sha256>.pack   a published pack of one program; it never changes
    v1/<identity>/index           the signed list of these packs, which machines read
    lock                          somebody publishes

A publisher may die at any moment. Before the index is replaced, nobody sees what it did. It remembers nothing: it
fetches what is published of the exported programs as machines do, into a store that is deleted afterwards. Packs that
no index lists any more are deleted later. The number of an index is the time, so nobody has to remember the last one.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ..store import fleet_packs
from ..store.store import Store
from .index import MAX_INDEX_BYTES, Index, Pack, is_hex
from .pulling import fetch
from .signatures import sha256_of, signed_index, verified
from .storage import Denied, Missing, Objects, Unavailable
from .trust import Trust, Untrusted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..common.identity import Identity

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


class Publisher:
    """Publishes with one key. ``keys``: names of the keys that sign indexes, and of those that sign exports, by key.
    First ``take`` exports, then ``finish``. ``results`` has the outcomes."""

    def __init__(
        self,
        storage: Objects,
        store: Store,
        root: str,
        key: Ed25519PrivateKey,
        keys: tuple[Mapping[str, str], Mapping[str, str]],
    ) -> None:
        """``root``: a store to work in, which is deleted afterwards."""
        self._storage = storage
        self._own = store.root
        self._root = root
        self._key = key
        self._keys, self._export_keys = keys
        self._works = {name: self._work(name) for name in identities(storage)}

    def _work(self, name: str) -> _Publication:
        return _Publication(self._storage, self._root, Trust(self._keys, name), name, self._key)

    @property
    def results(self) -> list[Published]:
        """What came of each identity."""
        return [work.result for work in self._works.values()]

    def take(self, path: str) -> Iterator[int]:
        """Verifies an export, and imports it beside what is published. Yields numbers of bytes that were read. Raises
        Refused, Unavailable and OSError."""
        required = "trusted_keys of the publisher's policy file lists whose exports are published"
        with verified(path, dict(self._export_keys), required, self._root) as (content, _):
            export = fleet_packs.import_to_publish(content, self._own)
            yield from export.steps(self._root, dry_run=True)
            work = self._works.setdefault(export.identity.name, self._work(export.identity.name))
            with work.noting_problems():
                yield from work.fetch(export.identity, export.device, export.result.programs)
            export = fleet_packs.import_to_publish(content, self._own)
            yield from export.steps(self._root)
            work.result.records += export.result.records

    def finish(self) -> Iterator[int]:
        """Publishes. Yields 0. What goes wrong with one identity keeps no other from being published. Raises
        OSError."""
        for work in self._works.values():
            with work.noting_problems():
                yield from work.finish()


class _Publication:
    """What is published for one identity, and what is to be."""

    def __init__(self, storage: Objects, root: str, trust: Trust, name: str, key: Ed25519PrivateKey) -> None:
        self.result = Published(name)
        self._storage = storage
        self._root = root
        self._trust = trust
        self._key = key
        self._place = f"v1/{name}"
        self._identity: Identity | None = None
        self._device = ""
        self._names: dict[str, str] = {}
        self._packs: list[Pack] = []
        #: The programs whose published packs are in the store at ``root``.
        self._fetched: set[str] = set()
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
        self._identity, self._device, self._names = index.identity, index.device, dict(index.programs)
        self.result.number = index.number

    def fetch(self, identity: Identity, device: str, programs: dict[int, str]) -> Iterator[int]:
        """Fetches what is published of some programs. A pack of which the storage has other bytes is lost."""
        self._identity, self._device = identity, device or self._device
        named = {f"{number:016x}": name for number, name in programs.items()}
        self._names |= named
        for pack in [pack for pack in self._packs if pack.program in named.keys() - self._fetched]:
            try:
                yield from fetch(self._storage, self._root, self._root, identity, pack)
            except (Untrusted, Denied):
                self._packs.remove(pack)
                self.result.lost += 1
        self._fetched |= named.keys()

    def finish(self) -> Iterator[int]:
        """Merges packs, uploads those that are new, and then publishes an index of all."""
        if self._identity is None or self.result.problem:
            return
        yield from fleet_packs.merge(self._root, self._identity, MOST_PACKS, MERGED)
        known = {pack.sha256 for pack in self._packs}
        self._packs = [pack for pack in self._packs if pack.program not in self._fetched]
        for program, paths in fleet_packs.packs_of(self._root, self._identity).items():
            for path in paths:
                pack = Pack(sha256_of(path), os.path.getsize(path), f"{program:016x}")
                self._packs.append(pack)
                if pack.sha256 not in known:
                    self._storage.write(f"{self._place}/{pack.name}", Path(path))
                    self.result.packs += 1
        self._replace_index(self._identity)
        kept = {f"{self._place}/{name}" for name in ("index", *(pack.name for pack in self._packs))}
        end = datetime.now(UTC) - KEEP
        old = [item["path"] for item in self._storage.items(self._place) if item["last_modified"] < end]
        self._storage.remove([path for path in old if path not in kept])

    def _replace_index(self, identity: Identity) -> None:
        """Publishes an index. Raises Untrusted if machines would not believe it; nothing is published then."""
        now, listed = int(time.time()), {pack.program for pack in self._packs}
        names = {program: name for program, name in self._names.items() if program in listed}
        number = max(now, self.result.number + 1)
        index = Index(identity, self._device, number, now, now + VALID_SECONDS, names, tuple(self._packs))
        data = signed_index(index.payload(), self._key)
        try:
            self._trust.index(data, now)
        except Untrusted as error:
            raise Untrusted(
                f"nothing was published for identity {self.result.identity}, because no machine would believe it: "
                f"{error}; give some programs a fleet with another URL"
            ) from error
        self._storage.write(f"{self._place}/index", data)
        self.result.number = number
