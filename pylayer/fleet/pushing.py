"""Pushes what this machine compiled: signed exports, for the publisher to verify (``publishing``).

An object in incoming/ is named by its SHA-256 and written whole. If a push dies before it notes what it pushed, the
next one pushes the same records again, and the publisher drops those that it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..store.store import Store
from .backend import Backend, Missing, Unavailable
from .memory import Memory, scratch
from .signatures import append_signature, sha256_of
from .trust import MAX_INDEX_BYTES, Trust, Untrusted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..common.identity import Identity
    from ..store.store import Moved


class Push:
    """Pushes the records of some programs, given by number with their names, under one identity: those that this
    machine compiled and, unless ``again`` is set, did not push yet. ``result`` says what they are. If the storage has
    an older index than it had at an earlier push, it was restored from a backup, and everything is pushed. ``keys``:
    who may sign indexes. Raises OSError."""

    def __init__(
        self,
        backend: Backend,
        store: Store,
        identity: Identity,
        names: dict[int, str],
        device: str,
        again: bool = False,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        self._backend = backend
        self._store = store
        self._memory = Memory(store.root, backend.url, identity.name)
        again = again or self._is_restored(keys or {})
        self._export = store.export(identity, names, device, set() if again else self._memory.pushed())
        self.result: Moved = self._export.result

    def _is_restored(self, keys: Mapping[str, str]) -> bool:
        """Returns whether the storage lost the last index that this machine has seen, and keeps a newer one."""
        name = self._memory.identity
        seen = Trust(keys, name, self._memory.index).seen
        try:
            data, _ = self._backend.read(f"v1/{name}/index", MAX_INDEX_BYTES)
            index = Trust(keys, name).index(data, 0)
        except Missing:
            return seen is not None
        except (Unavailable, Untrusted):
            return False  # builders need not be able to read it
        if seen is not None and index.number < seen.number:
            return True
        self._memory.accept(data, None)
        return False

    def steps(self, key: Ed25519PrivateKey) -> Iterator[int]:
        """Yields the number of bytes read. Raises Unavailable and OSError."""
        with scratch(self._store.root, self._backend.url) as directory:
            yield from self._export.steps(f"{directory}/export")
            for path in self.result.paths:
                append_signature(path, key)
                name = f"incoming/{self._memory.identity}/{sha256_of(path)}.pack"
                self._backend.write(name, Path(path))
                self._memory.add_pushed(self.result.names)
