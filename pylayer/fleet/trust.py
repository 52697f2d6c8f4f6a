"""What a machine believes of a fleet. This module has all rules, and neither input nor output.

A server, a proxy and the network between may change, replay, withhold or invent every byte. What stops them:

1. **Sizes first.** An index has at most MAX_INDEX_BYTES, and a pack exactly the bytes that the index says, at most
   MAX_PACK_BYTES. Who reads stops at that size (``most_bytes``), so nobody can fill memory or disk.
2. **Signature.** The bytes of an index are signed by a key that the policy file lists. Nothing of them is parsed before
   that. A key that was taken out of the policy file is not believed any more, also for an index that was kept.
3. **Identity.** The index is for the identity that was asked for: the fields in it hash to that name. A valid index of
   another driver is refused.
4. **No rollback.** Its number is not lower than that of the last index that was accepted from this URL. If the numbers
   are equal, the bytes are equal: one number never means two things. The last index counts as long as the policy file
   lists the key that signed it: who removes a stolen key forgets the numbers that the thief gave.
5. **Not expired.** This machine's clock is before its end. So nobody can withhold new indexes for longer than that.
6. **Digest.** A pack has the size and the SHA-256 that the index says. None of its bytes is used before both are known.
7. **Records.** What is left is the store's own verification, record by record (``Store.admit``): XXH3 of every byte,
   the identity and program in the file's header, kinds, and the header of each cell, which names device and driver.

Rules 1 to 6 fail closed: ``Untrusted`` is raised, nothing changes, and the program starts as without a fleet. A packs'
records were verified by the publisher too. That a record does no harm is not checked by anybody: whoever owns a listed
key decides what drivers execute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from .index import MAX_INDEX_BYTES as MAX_INDEX_BYTES
from .index import Index, Pack, parse
from .signatures import Refused, index_payload


class Untrusted(Exception):
    """Something from a fleet that is not believed. The text says what and why."""


class Older(Untrusted):
    """An index that was in force before the last that this machine has seen, as a mirror has it that lags behind."""


class Trust:
    """Judges what comes for one identity.

    ``keys``: names of the trusted keys, by key. ``identity``: the name of the identity that is asked for. ``last``: the
    bytes of the last index that was accepted; None if there was none.
    """

    def __init__(self, keys: Mapping[str, str], identity: str, last: bytes | None = None) -> None:
        self._keys = keys
        self._identity = identity
        #: The last index and its bytes, if it is believed apart from its age.
        self.seen: Index | None = None
        self.last: bytes | None = None
        if last is not None:
            try:
                self.seen, self.last = self._signed(last), last
            except Untrusted:
                pass  # damaged on this machine's disk, or by a key that was removed

    def index(self, data: bytes, now: float) -> Index:
        """Returns the index in ``data``. Raises Untrusted."""
        if len(data) > MAX_INDEX_BYTES:
            raise Untrusted(f"the index has more than {MAX_INDEX_BYTES} bytes")
        index = self._signed(data)
        if index.identity.name != self._identity:
            raise Untrusted(f"the index is for identity {index.identity.name}, not for {self._identity}")
        self._refuse_rollback(index, data)
        if index.expires <= now:
            raise Untrusted(
                f"the index expired {round((now - index.expires) / 3600)} hours ago: the publisher stopped, somebody "
                "withholds newer ones, or the clock of this machine is wrong"
            )
        return index

    def _signed(self, data: bytes) -> Index:
        try:
            payload, key = index_payload(data)
            if key not in self._keys:
                raise Untrusted(f"the index is signed by {key}, which fleet.keys of the policy file does not list")
            return parse(payload)
        except Refused as error:
            raise Untrusted(f"the index was refused: {error}") from error

    def _refuse_rollback(self, index: Index, data: bytes) -> None:
        seen = self.seen
        if seen is None or self.last == data or index.number > seen.number:
            return
        if index.number < seen.number and index.issued <= seen.issued:
            raise Older(f"the index has number {index.number}, and this machine saw {seen.number}: it is an old one")
        raise Untrusted(
            f"the index has number {index.number} and is newer than number {seen.number}, which this machine has seen: "
            "the storage was restored from a backup, or two publishers have the same key"
        )


class Arriving:
    """Judges the bytes of one pack while they arrive."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._hash = hashlib.sha256()
        self.size = 0

    def take(self, data: bytes) -> None:
        """Adds bytes. Raises Untrusted if there are more than the index says."""
        self.size += len(data)
        if self.size > self._pack.bytes:
            raise Untrusted(f"{self._pack.name} has more than the {self._pack.bytes} bytes that the index says")
        self._hash.update(data)

    def require_whole(self) -> None:
        """Raises Untrusted unless all bytes arrived and are those that the index says."""
        if self.size != self._pack.bytes:
            raise Untrusted(f"{self._pack.name} has {self.size} bytes, and the index says {self._pack.bytes}")
        if self._hash.hexdigest() != self._pack.sha256:
            raise Untrusted(f"{self._pack.name} has other bytes than the index says")
