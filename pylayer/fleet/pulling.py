"""Pulls published packs into the store: the index, then what is missing, verified before it is in the store.

A pull can be killed at any moment. A pack is in the store whole or not at all (rename), and what was downloaded of it
stays beside the store for the next pull. If a pull dies between a pack's rename and the note which records it has, the
pack is downloaded once more; the store loads equal content once.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..common.files import remove
from ..store import fleet_packs
from ..store.store import Refused, Store
from .backend import Backend, Denied, Missing, Unavailable, Unchanged
from .choice import Ranges, add_range, missing
from .downloading import Budget, OutOfBudget, download, remove_left_parts
from .index import Index, Pack
from .memory import Held, Memory, make_folder
from .trust import MAX_INDEX_BYTES, Older, Trust, Untrusted

if TYPE_CHECKING:
    from ..store.store import Room

#: Called with a program's number and name; returns whether its packs are wanted.
Wanted = Callable[[str, str], bool]


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
    """A pull for one identity: first ``plan``, then ``steps``. What goes wrong is in ``result.problem``, and is
    remembered. Both raise OSError if this machine cannot write.
    """

    def __init__(
        self,
        backend: Backend,
        store: Store,
        identity: str,
        keys: Mapping[str, str],
        budget: Budget,
        wanted: Wanted = lambda number, name: True,
    ) -> None:
        self.result = Pulled(identity)
        self._backend = backend
        self._store = store
        self._memory = Memory(store.root, backend.url, identity)
        self._trust = Trust(keys, identity, self._memory.index)
        self._budget = budget
        self._wanted = wanted
        self._index: Index | None = None
        self._packs: list[Pack] = []
        self._held: list[Held] = []
        #: Files of the store as this pull knows them.
        self._known_files: set[tuple[str, int, int]] = set()

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

    # ---- what is missing -------------------------------------------------------------------------

    def plan(self) -> int:
        """Fetches the index. Returns the number of bytes to come."""
        with self._remembering():
            self._budget.check()
            self._index = self._fetch_index()
            if self._index is not None:
                fleet_packs.mark_in_use(self._store.root, self.result.identity)
                self._packs = self._missing(self._index)
                self.result.left = len(self._packs)
        return sum(pack.bytes for pack in self._packs)

    def _fetch_index(self) -> Index | None:
        """Returns the index; None if nothing is published for this identity."""
        last = self._trust.last
        path, etag = f"v1/{self.result.identity}/index", self._memory.etag if last else None
        try:
            data, etag = self._backend.read(path, MAX_INDEX_BYTES, etag)
            index = self._trust.index(data, time.time())
        except Missing:
            if last is not None:
                raise Untrusted("the index that this machine has seen is not there any more") from None
            self._require_fleet(path)
            return None
        except (Unchanged, Older):  # or a mirror lags behind
            if last is None:
                raise Untrusted("the server says that the index did not change, but it was never read") from None
            data, etag = last, self._memory.etag
            index = self._trust.index(data, time.time())
        held = self._memory.held()
        self._held = _of_this_line(held, index, self._trust.seen)
        if len(self._held) < len(held):
            self._memory.keep(self._held)  # first: it takes the last index to see that
        self._memory.accept(data, etag)
        self.result.published = True
        return index

    def _require_fleet(self, path: str) -> None:
        """Raises Untrusted if nothing at all was ever published at the URL."""
        try:
            self._backend.read("v1/fleet", 4096)
        except Missing:
            raise Untrusted(
                f"there is no fleet at {self._backend.url}, neither {path} nor v1/fleet: the URL is wrong, or nothing "
                "was ever published"
            ) from None

    def _missing(self, index: Index) -> list[Pack]:
        """Returns the packs to fetch, those that were used last first: a budget may end the pull."""
        by_program: dict[str, list[Pack]] = {}
        for pack in index.packs:
            if self._wanted(pack.program, index.programs[pack.program].name):
                by_program.setdefault(pack.program, []).append(pack)
        have = self._have()
        found = [pack for program, packs in by_program.items() for pack in missing(packs, have.get(program, ()))]
        return sorted(found, key=lambda pack: (-pack.last_use, pack.first))

    def _have(self) -> dict[str, Ranges]:
        """Returns the generations that the store has, by program."""
        known = self._held
        files = fleet_packs.pack_files(self._store.root, self.result.identity)
        if not files or self._memory.store_state != _state(files):
            present = fleet_packs.present(self._store.root, self.result.identity, {one.program for one in known})
            known = [one for one in known if one.is_in(present.get(one.program, ()))]
        if len(known) < len(self._held):
            self._memory.keep(known)
        self._memory.store_state, self._known_files = "", files
        have: dict[str, Ranges] = {}
        for one in known:
            program = f"{one.program:016x}"
            have[program] = add_range(have.get(program, ()), one.first, one.last)
        return have

    # ---- fetching --------------------------------------------------------------------------------

    def steps(self, room: Room | None = None) -> Iterator[int]:
        """Fetches the packs, as far as there is room; yields the number of bytes that arrived."""
        if self._index is None:
            return
        with self._remembering():
            if self._packs:
                folder = make_folder(self._store.root, self._backend.url)
                remove_left_parts(folder)
                problems: dict[str, None] = {}  # those of single packs, each once: the others are pulled
                for pack in self._packs:
                    problem = room.problem(int(pack.program, 16), pack.bytes) if room else ""
                    try:
                        if not problem:
                            yield from self._fetch(folder, self._index, pack, room)
                    except (Denied, Untrusted) as error:
                        problem = str(error)
                    if problem:
                        problems[problem] = None
                fleet_packs.sync_packs(self._store.root, self.result.identity)
                if problems:
                    more = f"; and {len(problems) - 1} more problems" if len(problems) > 1 else ""
                    raise Untrusted(f"{next(iter(problems))}{more}")
            if fleet_packs.pack_files(self._store.root, self.result.identity) == self._known_files:
                self._memory.store_state = _state(self._known_files)

    def _fetch(self, folder: str, index: Index, pack: Pack, room: Room | None) -> Iterator[int]:
        """Downloads a pack and admits it to the store."""
        path = yield from download(self._backend, folder, index.identity.name, pack, self._budget)
        try:
            admitted = fleet_packs.admit(self._store.root, index.identity, int(pack.program, 16), path)
        except Refused as error:
            raise Untrusted(f"{pack.name} was refused: {error}") from error
        finally:
            remove(path)  # unless it is in the store now
        self._memory.add(Held.of(pack, admitted.digests))
        self._known_files.add(admitted.file)
        if room is not None:
            room.take(int(pack.program, 16), pack.bytes)
        result = self.result
        result.packs, result.records = result.packs + 1, result.records + pack.records
        result.bytes, result.left = result.bytes + pack.bytes, result.left - 1


def _of_this_line(held: list[Held], index: Index, last: Index | None) -> list[Held]:
    """Returns what of these packs belongs to the line of generations that the index goes on with. After the storage was
    restored from a backup, or a program left the index for a time, a generation has a number that another one had: the
    last index then has another pack with the same numbers, or numbers that the new one has not reached."""
    packs = {(pack.program, pack.first, pack.last): pack.sha256 for pack in index.packs}
    before = [(pack.program, pack.first, pack.last, pack.sha256) for pack in last.packs] if last else []
    before += [(f"{one.program:016x}", one.first, one.last, one.sha256) for one in held]
    others = set()
    for program, first, end, sha256 in before:
        reached = index.programs[program].generation if program in index.programs else 0
        if end > reached or packs.get((program, first, end), sha256) != sha256:
            others.add(int(program, 16))
    return [one for one in held if one.program not in others]


def _state(files: set[tuple[str, int, int]]) -> str:
    """Returns a text for these files that is the same as long as they are."""
    return hashlib.sha256(repr(sorted(files)).encode()).hexdigest()
