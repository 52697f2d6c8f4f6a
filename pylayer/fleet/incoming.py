"""What machines pushed: fetched, and verified into a store of its own, for one publication."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..store.store import Refused, Store
from .backend import Backend, Denied, Missing, StoredObject
from .signatures import verified

if TYPE_CHECKING:
    from ..common.identity import Identity

#: Larger pushed packs are refused unread.
MAX_INCOMING_BYTES = 2 << 30


class Incoming:
    """What machines pushed for one identity. ``root``: an empty directory for the store."""

    def __init__(self, root: str) -> None:
        self.store = Store(root)
        self.identity: Identity | None = None
        self.device = ""
        self.names: dict[int, str] = {}
        self.paths: list[str] = []
        self.refused: dict[StoredObject, str] = {}
        self.records = 0

    def read(self, backend: Backend, identity: str, push_keys: Mapping[str, str]) -> Iterator[int]:
        """Fetches and verifies all pushed packs; yields numbers of bytes. Raises Unavailable and OSError."""
        for item in backend.items(f"incoming/{identity}"):
            try:
                yield from self._take(backend, identity, item, push_keys)
                self.paths.append(item.path)
            except Missing:
                continue  # another publisher published it
            except (Denied, Refused) as error:
                self.refused[item] = str(error)

    def _take(self, backend: Backend, identity: str, item: StoredObject, push_keys: Mapping[str, str]) -> Iterator[int]:
        if item.bytes > MAX_INCOMING_BYTES:
            raise Refused(f"it has {item.bytes} bytes, more than a pushed pack can have")
        path = os.path.join(self.store.root, "incoming")
        with open(path, "wb") as file:
            for data in backend.stream(item.path, 0, item.bytes):
                file.write(data)
                yield len(data)
        required = "trusted_keys of the publisher's policy file lists who may push"
        with verified(path, dict(push_keys), required, self.store.root) as (content, _):
            work = self.store.import_from(content, None, sync=False)
            if work.identity.name != identity:
                raise Refused(f"it is for identity {work.identity.name}")
            yield from work.steps(self.store.root)
        self.identity, self.device = work.identity, work.device or self.device
        self.names |= work.result.programs
        self.records += work.result.records + work.result.known
