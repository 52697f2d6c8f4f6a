"""Publishes what builders exported: verifies it, leaves out what is published, merges packs, and replaces the index
last.

    incoming/<identity>/<sha256>.pack   a signed export
    v1/<identity>/<sha256>.pack         a published pack of one program; it never changes
    v1/<identity>/index                 the signed list of these packs, which machines read
    lock                                somebody publishes

A publisher may die at any moment. Before the index is replaced, nobody sees what it did, and the exports are still
there. The next publisher leaves out what is published already, which it fetches as machines do, into a store that is
deleted afterwards. Packs that no index lists any more are deleted later. The number of an index is the time, so nobody
has to remember the last one.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ..store import fleet_packs
from ..store.store import Refused, Store
from .folder import scratch
from .index import MAX_INDEX_BYTES, MAX_PACK_BYTES, Index, Pack, is_hex
from .pulling import fetch
from .signatures import append_signature, index_payload, public_of, sha256_of, signed_index, verified
from .storage import Denied, Missing, Objects, Unavailable
from .trust import Trust, Untrusted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..common.identity import Identity
    from ..store.store import Export

#: The most packs of one program. Beyond that the smallest ones, so many, are merged, and the largest ones stay: most of
#: what a machine has it does not download again.
MOST_PACKS, MERGED = 16, 9
#: Whoever publishes for longer than this is taken for dead.
LOCK_SECONDS = 3600
#: Packs that no index lists any more stay for so long, for machines that have read an old index. So do refused exports,
#: for whoever looks why.
KEEP = timedelta(days=30)
_DAY = 24 * 3600


def _now() -> datetime:
    return datetime.now(UTC)


# ---- builders ----------------------------------------------------------------------------------------------


def upload(storage: Objects, root: str, export: Export, identity: str, key: Ed25519PrivateKey) -> Iterator[int]:
    """Writes and signs an export, and uploads it for the publisher. Yields the number of bytes read. Raises Unavailable
    and OSError."""
    with scratch(root, storage.url) as directory:
        yield from export.steps(f"{directory}/export")
        for path in export.result.paths:
            append_signature(path, key)
            storage.write(f"incoming/{identity}/{sha256_of(path)}.pack", Path(path))


# ---- the publisher -----------------------------------------------------------------------------------------


@dataclass
class Published:
    """What was published for one identity."""

    identity: str
    number: int = 0
    records: int = 0
    #: Exported records that were published before.
    known: int = 0
    #: Records left out because a process of this machine died over them.
    suspects: int = 0
    #: New packs, of which some may have taken in older ones.
    packs: int = 0
    #: Packs that the storage lost. Builders export them again.
    lost: int = 0
    #: Why nothing was published; empty if nothing went wrong.
    problem: str = ""
    #: Exports that were refused, each with the reason.
    refused: list[str] = field(default_factory=list)


@contextlib.contextmanager
def only_publisher(storage: Objects) -> Iterator[None]:
    """For ``with``: nobody else publishes meanwhile. Raises Unavailable if somebody does."""
    if not storage.create("lock", b""):
        age = (_now() - storage.modified("lock")).total_seconds()
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
    """Returns the identities for which something is published or exported. Raises Unavailable."""
    found = {item["path"].split("/")[-2] for prefix in ("incoming", "v1") for item in storage.items(prefix)}
    return sorted(name for name in found if is_hex(name, 32))


class Publication:
    """Publishes for one identity. ``keys``: names of the keys that sign indexes, and of those that sign exports, by
    key. ``steps`` does it, and ``result`` has the outcome."""

    def __init__(
        self,
        storage: Objects,
        store: Store,
        identity: str,
        key: Ed25519PrivateKey,
        keys: tuple[Mapping[str, str], Mapping[str, str]],
        valid_days: int = 30,
    ) -> None:
        self.result = Published(identity)
        self._storage = storage
        self._own = store.root
        self._key = key
        self._trust = Trust(keys[0], identity)
        self._export_keys = keys[1]
        self._valid = valid_days * _DAY
        self._place = f"v1/{identity}"
        #: A store with what is published, and then what is to be: of the programs in the exports.
        self._root = ""
        self._identity: Identity | None = None
        self._device = ""
        self._names: dict[str, str] = {}
        self._packs: list[Pack] = []
        self._fetched: set[str] = set()
        #: Exports that are to be deleted.
        self._done: list[str] = []

    def steps(self) -> Iterator[int]:
        """Yields numbers of bytes that were read. Raises Unavailable, Untrusted and OSError."""
        with scratch(self._own, self._storage.url) as self._root:
            current, signer = self._current()
            for item in self._storage.items(f"incoming/{self.result.identity}"):
                path, old = item["path"], item["last_modified"] < _now() - KEEP
                try:
                    yield from self._take(path)
                except (Denied, Refused) as error:
                    self.result.refused.append(f"{path}: {error}")
                    self._done += [path] if old else []
                else:
                    self._done.append(path)
            if self._identity is not None:
                yield from self._pack(self._identity)
            is_fresh = current and current.expires - time.time() > self._valid / 2 and signer == public_of(self._key)
            if self._identity is not None and (self.result.records or self.result.lost or (current and not is_fresh)):
                self._replace(self._identity, current.number if current else 0)
            self._storage.remove(self._done)
        self._remove_old()

    # ---- the index -------------------------------------------------------------------------------

    def _current(self) -> tuple[Index | None, str]:
        """Returns the last index, None if there is none, and the key that signed it. What it lists and the storage has
        is published again."""
        path = f"{self._place}/index"
        try:
            data = self._storage.read(path, MAX_INDEX_BYTES)
            index = self._trust.index(data, 0)  # one that has expired is still the last one
        except Missing:
            return None, ""
        except Untrusted as error:
            raise Untrusted(f"{path}: {error}; {self._place} in the storage can be deleted to begin anew") from error
        there = {(item["path"], item["size"]) for item in self._storage.items(self._place)}
        self._packs = [pack for pack in index.packs if (f"{self._place}/{pack.name}", pack.bytes) in there]
        self.result.lost = len(index.packs) - len(self._packs)
        self._identity, self._device, self._names = index.identity, index.device, dict(index.programs)
        return index, index_payload(data)[1]

    def _replace(self, identity: Identity, last: int) -> None:
        """Publishes an index. Raises Untrusted if machines would not believe it; nothing is published then."""
        now, listed = int(time.time()), {pack.program for pack in self._packs}
        names = {program: name for program, name in self._names.items() if program in listed}
        number = max(now, last + 1)
        index = Index(identity, self._device, number, now, now + self._valid, names, tuple(self._packs))
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

    # ---- packs -----------------------------------------------------------------------------------

    def _take(self, name: str) -> Iterator[int]:
        """Verifies an export and imports it beside what is published. Raises Refused."""
        path, size = os.path.join(self._root, "export"), 0
        with open(path, "wb") as file:
            for data in self._storage.stream(name):
                size += file.write(data)
                if size > MAX_PACK_BYTES:
                    raise Refused(f"it has more than {MAX_PACK_BYTES} bytes; export programs one by one (--app)")
                yield len(data)
        required = "trusted_keys of the publisher's policy file lists whose exports are published"
        with verified(path, dict(self._export_keys), required, self._root) as (content, _):
            work = fleet_packs.import_to_publish(content, self._own)
            if work.identity.name != self.result.identity:
                raise Refused(f"it is for identity {work.identity.name}")
            yield from work.steps(self._root, dry_run=True)
            self._names |= {f"{number:016x}": text for number, text in work.result.programs.items()}
            yield from self._fetch(work.identity, {f"{number:016x}" for number in work.result.programs})
            work = fleet_packs.import_to_publish(content, self._own)
            yield from work.steps(self._root)
        self._identity, self._device = work.identity, work.device or self._device
        self.result.records += work.result.records
        self.result.known += work.result.known
        self.result.suspects += work.result.suspects

    def _fetch(self, identity: Identity, programs: set[str]) -> Iterator[int]:
        """Fetches what is published of some programs. A pack of which the storage has other bytes is lost."""
        for pack in [pack for pack in self._packs if pack.program in programs - self._fetched]:
            try:
                yield from fetch(self._storage, self._root, self._root, identity, pack)
            except (Untrusted, Denied):
                self._packs.remove(pack)
                self.result.lost += 1
        self._fetched |= programs

    def _pack(self, identity: Identity) -> Iterator[int]:
        """Merges packs, and uploads those that are new."""
        yield from fleet_packs.merge(self._root, identity, MOST_PACKS, MERGED)
        known = {pack.sha256: pack for pack in self._packs}
        self._packs = [pack for pack in self._packs if pack.program not in self._fetched]
        for program, paths in fleet_packs.packs_of(self._root, identity).items():
            for path in paths:
                pack = Pack(sha256_of(path), os.path.getsize(path), f"{program:016x}")
                self._packs.append(pack)
                if pack.sha256 not in known:
                    self._storage.write(f"{self._place}/{pack.name}", Path(path))
                    self.result.packs += 1

    def _remove_old(self) -> None:
        """Deletes old packs of the storage that the index does not list."""
        kept = {f"{self._place}/{name}" for name in ("index", *(pack.name for pack in self._packs))}
        old = [item["path"] for item in self._storage.items(self._place) if item["last_modified"] < _now() - KEEP]
        self._storage.remove([path for path in old if path not in kept])
