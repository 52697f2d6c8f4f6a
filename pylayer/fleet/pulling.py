"""Pulls published packs into the store: the index, then what is missing, verified before it is in the store.

A pull can be killed at any moment. A pack is in the store whole or not at all (rename), and what was downloaded of it
stays beside the store for the next pull. If a pull dies between a pack's rename and the note that this machine has it,
the pack is downloaded once more; the store loads equal content once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..common.files import remove
from ..store.store import Refused, Store
from .backend import Backend, Missing, Unavailable, Unchanged
from .choice import add_range, missing
from .downloading import Budget, OutOfBudget, download, remove_left_parts
from .index import Index, Pack
from .memory import Memory, make_folder
from .trust import MAX_INDEX_BYTES, Trust, Untrusted

#: Called with a program's number and name; returns whether its packs are wanted.
Wanted = Callable[[str, str], bool]


@dataclass
class Pulled:
    """What a pull did for one identity. ``problem`` is one line, empty if nothing went wrong."""

    identity: str
    packs: int = 0
    records: int = 0
    bytes: int = 0
    #: Packs that are still missing, because the pull ended before.
    left: int = 0
    #: Whether anything is published for the identity.
    published: bool = False
    problem: str = ""


class Pull:
    """A pull for one identity: first ``plan``, then ``steps``. What goes wrong is in ``result.problem``, and is
    remembered. Both raise OSError if this machine cannot write. ``again``: as if this machine had pulled nothing yet.
    """

    def __init__(
        self,
        backend: Backend,
        store: Store,
        identity: str,
        keys: Mapping[str, str],
        budget: Budget,
        wanted: Wanted = lambda number, name: True,
        again: bool = False,
    ) -> None:
        self.result = Pulled(identity)
        self._backend = backend
        self._store = store
        self._memory = Memory(store.root, backend.url, identity)
        if again:
            self._memory.have = {}
        self._trust = Trust(keys, identity, self._memory.index)
        self._budget = budget
        self._wanted = wanted
        self._index: Index | None = None
        self._packs: list[Pack] = []

    @contextlib.contextmanager
    def _remembering(self) -> Iterator[None]:
        """Turns what goes wrong into ``result.problem``, and remembers it."""
        result = self.result
        try:
            yield
        except (Unavailable, Untrusted, OutOfBudget) as error:
            result.problem = str(error)
        except OSError as error:
            result.problem = f"this machine cannot write: {error.strerror or error}"
            raise
        finally:
            if result.problem or not result.left:
                try:
                    self._memory.end(result.problem)
                except OSError:
                    pass  # the disk is full, which the caller is told

    def plan(self) -> int:
        """Fetches the index. Returns the number of bytes to come."""
        with self._remembering():
            self._budget.check_time()
            self._index = self._fetch_index()
            if self._index is not None:
                self._packs = self._missing(self._index)
                self.result.left = len(self._packs)
        return sum(pack.bytes for pack in self._packs)

    def steps(self) -> Iterator[int]:
        """Fetches the packs; yields the number of bytes that arrived."""
        if not self._packs or self._index is None:
            return
        with self._remembering():
            folder = make_folder(self._store.root, self._backend.url)
            remove_left_parts(folder)
            for pack in self._packs:
                yield from self._fetch(folder, self._index, pack)

    def _fetch_index(self) -> Index | None:
        """Returns the index; None if nothing is published for this identity."""
        path, last, etag = f"v1/{self.result.identity}/index", self._memory.index, self._memory.etag
        try:
            data, etag = self._backend.read(path, MAX_INDEX_BYTES, etag)
        except Missing:
            if last is None:
                return None
            raise Untrusted("the index that this machine has seen is not there any more") from None
        except Unchanged:
            if last is None:
                raise Untrusted("the server says that the index did not change, but it was never read") from None
            data = last
        index = self._trust.index(data, time.time())
        self._memory.accept(data, etag)
        self.result.published = True
        return index

    def _missing(self, index: Index) -> list[Pack]:
        """Returns the packs to fetch, those that were used last first: a budget may end the pull."""
        by_program: dict[str, list[Pack]] = {}
        for pack in index.packs:
            if self._wanted(pack.program, index.programs[pack.program].name):
                by_program.setdefault(pack.program, []).append(pack)
        have = self._memory.have
        found = [pack for program, packs in by_program.items() for pack in missing(packs, have.get(program, ()))]
        return sorted(found, key=lambda pack: (-pack.last_use, pack.first))

    def _fetch(self, folder: str, index: Index, pack: Pack) -> Iterator[int]:
        """Downloads a pack and admits it to the store."""
        path = yield from download(self._backend, folder, index.identity.name, pack, self._budget)
        try:
            self._store.admit(index.identity, int(pack.program, 16), path)
        except Refused as error:
            raise Untrusted(f"{pack.name} was refused: {error}") from error
        finally:
            remove(path)  # unless it is in the store now
        have = self._memory.have
        have[pack.program] = add_range(have.get(pack.program, ()), pack.first, pack.last)
        self._memory.save()
        result = self.result
        result.packs, result.records = result.packs + 1, result.records + pack.records
        result.bytes, result.left = result.bytes + pack.bytes, result.left - 1
