"""Publishes what machines pushed: verifies it, drops what is known, folds packs, and replaces the index last.

    incoming/<identity>/<sha256>.pack   a signed export that a machine pushed
    v1/<identity>/<sha256>.pack         a published pack; it never changes
    v1/<identity>/<number>.index        each index of the last days; it never changes
    v1/<identity>/index                 the newest of them, which machines read
    v1/fleet                            there is a fleet at this URL

Whoever creates ``<number>.index`` has that number: storage creates an object only if there is none. A publisher that
finds its number taken begins again with the other's index. So two at once lose nothing, and need no lock. A publisher
may die at any moment. Before its ``<number>.index`` exists, nobody sees what it did, and the pushed packs are still
there. After that, ``index`` may be old, and the next publisher replaces it.

The publisher keeps its last index and a copy of each pack in it. What the storage lost, or has back from a backup that
is older, it puts there again. What neither has leaves the index, so that machines do not ask for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.files import remove
from ..store import fleet_packs
from ..store.store import Store
from .backend import Backend, Denied, Missing, StoredObject, Unavailable
from .choice import KEPT_SINGLES, MAX_FOLDED_BYTES, largest, to_fold, to_keep
from .downloading import Budget, download, remove_left_parts
from .incoming import Incoming
from .index import FULL, MAX_PACK_BYTES, Index, IndexedProgram, Pack, is_hex
from .memory import Memory, make_folder, scratch
from .signatures import index_payload, public_of, sha256_of, signed_index
from .trust import MAX_INDEX_BYTES, Trust, Untrusted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..common.identity import Identity
    from ..store.store import Bound, Verdicts

#: So often a publisher begins again because another was faster.
ATTEMPTS = 8
_DAY = 24 * 3600


@dataclass(frozen=True)
class Terms:
    """How long an index is valid, how long old packs stay, and whose signatures a publisher accepts.

    ``index_keys`` signed indexes, ``push_keys`` pushed packs: names by key."""

    index_keys: Mapping[str, str]
    push_keys: Mapping[str, str]
    valid_days: int = 30
    keep_days: int = 30
    #: Leave out everything that was published before, and delete indexes that are not believed.
    discard: bool = False
    #: Upload all packs again of which this machine has copies.
    again: bool = False


@dataclass
class Published:
    """What was published for one identity."""

    identity: str
    number: int = 0
    records: int = 0
    #: Pushed records that were published before.
    known: int = 0
    #: Records left out because a process of this machine died over them.
    suspects: int = 0
    packs: int = 0
    folded: int = 0
    #: Old packs and indexes that were deleted.
    removed: int = 0
    #: Published packs that the storage had lost: uploaded again, and left out because this machine has no copy.
    repaired: int = 0
    lost: int = 0
    #: How much of the largest index that machines read this one is, from 0 to 1.
    fullness: float = 0.0
    #: Why nothing was published; empty if nothing went wrong.
    problem: str = ""
    #: Pushed packs that were refused, each with the reason. They stay for ``keep_days``: a publisher may yet take them.
    refused: list[str] = field(default_factory=list)
    #: Whether there is a new index.
    is_new: bool = False


def identities(backend: Backend) -> list[str]:
    """Returns the identities for which something is published, or was pushed. Raises Unavailable."""
    found = {item.path.split("/")[-2] for prefix in ("incoming", "v1") for item in backend.items(prefix)}
    return sorted(name for name in found if is_hex(name, 32))


def retire(backend: Backend, store: Store, identity: str) -> int:
    """Deletes everything that is published or pushed for an identity, and what this machine remembers of it, so that
    it is not published again. Returns the number of objects. Raises Unavailable and OSError."""
    paths = [item.path for prefix in ("incoming", "v1") for item in backend.items(f"{prefix}/{identity}")]
    # Indexes first, so that no machine asks for a pack that is gone.
    backend.remove(sorted(paths, key=lambda path: path.endswith(".pack")))
    Memory(store.root, backend.url, identity).forget()
    return len(paths)


class Publication:
    """Publishes for one identity. ``steps`` does it, and ``result`` has the outcome."""

    def __init__(self, backend: Backend, store: Store, identity: str, key: Ed25519PrivateKey, terms: Terms) -> None:
        self.result = Published(identity)
        self._backend = backend
        self._store = store
        self._key = key
        self._terms = terms
        self._trust = Trust(terms.index_keys, identity)
        self._place = f"v1/{identity}"
        self._folder = ""
        self._memory = Memory(store.root, backend.url, identity)
        #: The key that signed the index which was read last.
        self._signer = ""
        self._suspects: Verdicts
        self._budget = Budget(float("inf"), 1 << 62)

    def steps(self) -> Iterator[int]:
        """Yields numbers of bytes that were read. Raises Unavailable, Untrusted and OSError."""
        self._folder = make_folder(self._store.root, self._backend.url, self.result.identity)
        remove_left_parts(self._folder)
        with scratch(self._store.root, self._backend.url) as directory:
            incoming = Incoming(directory)
            yield from incoming.read(self._backend, self.result.identity, self._terms.push_keys)
            self.result.refused = [f"{item.path}: {reason}" for item, reason in incoming.refused.items()]
            for _ in range(ATTEMPTS):
                current = self._current()
                lost = self._repair(current) if current else set()
                index = yield from self._next(current, incoming, lost)
                if index is None or self._replace(index):
                    break
            else:
                raise Unavailable(f"other publishers were faster {ATTEMPTS} times; nothing is lost, publish again")
            self._backend.remove(incoming.paths)
            since = datetime.now(UTC) - timedelta(days=self._terms.keep_days)
            self._backend.remove([item.path for item in incoming.refused if item.modified < since])
        self._remove_old(index or current)

    # ---- the index -------------------------------------------------------------------------------

    def _read_index(self, name: str) -> tuple[Index, bytes] | None:
        """Returns an index; None if there is none. One that is not believed is deleted if everything is discarded."""
        path = f"{self._place}/{name}"
        try:
            data, _ = self._backend.read(path, MAX_INDEX_BYTES)
        except Missing:
            return None
        try:
            index = self._trust.index(data, 0)  # one that has expired is still the last one
        except Untrusted as error:
            if self._terms.discard:
                self._backend.remove([path])
                return None
            raise Untrusted(f"{path}: {error}") from error
        return index, data

    def _current(self) -> Index | None:
        """Returns the last index; None if there is none. Puts it in its place, if the publisher that made it did not
        get there, or if the storage lost it."""
        found = self._read_index("index")
        # Without ``index``, begin at the highest number: if it were 1 again, machines would refuse it as an old one.
        for number in sorted(self._numbers(), reverse=True) if found is None else ():
            if found := self._read_index(f"{number}.index"):
                self._backend.write(f"{self._place}/index", found[1])
                break
        while found and (later := self._read_index(f"{found[0].number + 1}.index")):
            found = later
            self._backend.write(f"{self._place}/index", found[1])
        own = self._own_last()
        if own and (found is None or own[0].number > found[0].number):
            found = own
            self._backend.create(f"{self._place}/{own[0].number}.index", own[1])
            self._backend.write(f"{self._place}/index", own[1])
        if found is None:
            return None
        self._signer = index_payload(found[1])[1]
        self._memory.accept(found[1], None)
        return found[0]

    def _own_last(self) -> tuple[Index, bytes] | None:
        """Returns the last index that this publisher has seen; None if there is none, or if it is not believed."""
        data = self._memory.index
        try:
            return None if data is None else (self._trust.index(data, 0), data)
        except Untrusted:
            return None

    def _replace(self, index: Index) -> bool:
        """Publishes an index. Returns False if another publisher has its number. Raises Untrusted if machines would not
        believe it; nothing is published then."""
        data = signed_index(index.payload(), self._key)
        try:
            self._trust.index(data, time.time())
        except Untrusted as error:
            raise Untrusted(
                f"nothing was published for identity {self.result.identity}, because no machine would believe it: "
                f"{error}; give some programs a fleet with another URL, or begin anew with --discard"
            ) from error
        if not self._backend.create(f"{self._place}/{index.number}.index", data):
            return False
        self._backend.write(f"{self._place}/index", data)
        self._backend.create("v1/fleet", b"pylayer fleet\n")
        self._current()  # a publisher that waited here for long would have put an old one there
        self.result.number, self.result.is_new = index.number, True
        return True

    def _numbers(self) -> dict[int, StoredObject]:
        """Returns the numbered indexes."""
        found = {}
        for item in self._backend.items(self._place):
            number, _, suffix = item.path.rpartition("/")[2].partition(".")
            if suffix == "index" and number.isdigit():
                found[int(number)] = item
        return found

    # ---- packs -----------------------------------------------------------------------------------

    def _repair(self, current: Index) -> set[str]:
        """Uploads the packs again that the storage does not have as the index says. Returns the SHA-256 of those of
        which this machine has no copy."""
        sizes = {item.path: item.bytes for item in self._backend.items(self._place)}
        lost = set()
        for pack in current.packs if not self._terms.discard else ():
            path, copy = f"{self._place}/{pack.name}", os.path.join(self._folder, pack.name)
            if sizes.get(path) == pack.bytes and not self._terms.again:
                continue
            if os.path.exists(copy) and sha256_of(copy) == pack.sha256:
                self._backend.write(path, Path(copy))
                self.result.repaired += 1
            elif sizes.get(path) != pack.bytes:
                lost.add(pack.sha256)
        return lost

    def _next(self, current: Index | None, incoming: Incoming, lost: set[str]) -> Generator[int, None, Index | None]:
        """Returns the index to publish, whose packs are uploaded already; None if the present one will do."""
        now, days = int(time.time()), self._terms
        identity = current.identity if current else incoming.identity
        if identity is None:
            return None
        programs = dict(current.programs) if current else {}
        packs: dict[str, list[Pack]] = {}
        for pack in current.packs if current and not days.discard else ():
            if pack.sha256 not in lost:
                packs.setdefault(pack.program, []).append(pack)
        self.result.lost = len(lost)
        number = current.number + 1 if current else 1
        yield from self._add(identity, incoming, programs, packs, number)
        nothing = not self.result.records and not self.result.lost
        if nothing and (current is None or self._is_fresh(current, now)):
            return None
        index = Index(
            identity=identity,
            device=incoming.device or (current.device if current else ""),
            number=number,
            issued=now,
            expires=now + days.valid_days * _DAY,
            programs={program: programs[program] for program, listed in packs.items() if listed},
            packs=(),
        )
        since = now - days.keep_days * _DAY
        for most_singles in (KEPT_SINGLES, KEPT_SINGLES // 4, 0):
            kept = tuple(pack for listed in packs.values() for pack in to_keep(listed, since, most_singles))
            index = replace(index, packs=kept)
            self.result.fullness = index.fullness
            if index.fullness < FULL:
                break
        return index

    def _is_fresh(self, current: Index, now: float) -> bool:
        """Returns whether an index needs no successor: most of its time is left, and this publisher signed it."""
        left = current.expires - now > self._terms.valid_days * _DAY / 2
        return left and self._signer == public_of(self._key) and not self._terms.discard

    def _add(
        self,
        identity: Identity,
        incoming: Incoming,
        programs: dict[str, IndexedProgram],
        packs: dict[str, list[Pack]],
        first_generation: int,
    ) -> Generator[int, None, None]:
        """Adds packs of what was pushed and is not published, and folds. ``first_generation``: of programs that are not
        in the index, which may have been in it before."""
        result = self.result
        result.records = result.packs = result.folded = result.suspects = 0
        self._suspects = fleet_packs.suspects_of(self._store.root, identity)
        for number, paths in fleet_packs.packs_of(incoming.store.root, identity).items():
            program, name = f"{number:016x}", incoming.names[number]
            listed, known = packs.setdefault(program, []), set()
            for path in (yield from self._copies(listed)):
                known |= fleet_packs.names_of(path, identity)
            binding = fleet_packs.Binding(
                self._folder, identity, (number, name), known, self._suspects, MAX_FOLDED_BYTES
            )
            yield from binding.steps(paths)
            for bound in binding.result:
                generation = programs[program].generation + 1 if program in programs else first_generation
                programs[program] = IndexedProgram(name, generation)
                listed.append(self._upload(bound, program, generation, generation))
                result.records += bound.records
            result.suspects += binding.suspects
            result.packs += len(binding.result)
            if binding.result and (chosen := to_fold(listed)):
                yield from self._fold(identity, (number, name), listed, chosen)
        result.known = incoming.records - result.records - result.suspects

    def _fold(
        self, identity: Identity, program: tuple[int, str], listed: list[Pack], chosen: list[Pack]
    ) -> Generator[int, None, None]:
        """Adds a pack that holds what some packs of a program hold."""
        paths = yield from self._copies(chosen)
        if len(paths) < 2:
            return
        binding = fleet_packs.Binding(self._folder, identity, program, (), self._suspects, MAX_PACK_BYTES)
        yield from binding.steps(paths)
        for bound in binding.result[:1]:
            bound.first_use = min((pack.first_use for pack in chosen if pack.first_use), default=0)
            bound.last_use = max(pack.last_use for pack in chosen)
            listed.append(self._upload(bound, chosen[0].program, chosen[0].first, chosen[-1].last))
            self.result.folded += len(chosen)

    def _copies(self, listed: list[Pack]) -> Generator[int, None, list[str]]:
        """Returns the paths of copies that together hold all of these packs. Removes packs from the list of which the
        storage has other bytes, and this machine has no copy."""
        while True:
            paths = []
            for pack in largest(listed):
                try:
                    paths.append((yield from self._copy_of(pack)))
                except (Untrusted, Denied):
                    listed.remove(pack)
                    self.result.lost += 1
                    break
            else:
                return paths

    def _copy_of(self, pack: Pack) -> Generator[int, None, str]:
        """Returns the path of this machine's copy of a published pack, whose bytes are those that the index says."""
        path = os.path.join(self._folder, pack.name)
        if not os.path.exists(path) or sha256_of(path) != pack.sha256:
            part = yield from download(self._backend, self._folder, self.result.identity, pack, self._budget)
            os.rename(part, path)
        return path

    def _upload(self, bound: Bound, program: str, first: int, last: int) -> Pack:
        """Uploads a pack and keeps a copy of it."""
        pack = Pack(
            sha256=sha256_of(bound.path),
            bytes=os.path.getsize(bound.path),
            records=bound.records,
            program=program,
            first=first,
            last=last,
            first_use=bound.first_use,
            last_use=bound.last_use,
            published=int(time.time()),
        )
        path = os.path.join(self._folder, pack.name)
        os.rename(bound.path, path)
        self._backend.write(f"{self._place}/{pack.name}", Path(path))
        return pack

    # ---- old objects -----------------------------------------------------------------------------

    def _remove_old(self, index: Index | None) -> None:
        """Deletes packs that no index of the last ``keep_days`` names, and the older indexes. An index counts for so
        long after the next one came: until then machines read it."""
        if index is None:
            return
        named = {pack.name for pack in index.packs}
        for name in os.listdir(self._folder):
            if name.endswith(".pack") and name not in named:
                remove(os.path.join(self._folder, name))
        since = datetime.now(UTC) - timedelta(days=self._terms.keep_days)
        numbers = self._numbers()
        old = {number for number in numbers if number + 1 in numbers and numbers[number + 1].modified < since}
        packs = [item for item in self._backend.items(self._place) if item.path.endswith(".pack")]
        stale = {item.path for item in packs if item.modified < since and item.path.rpartition("/")[2] not in named}
        for number in sorted(set(numbers) - old) if stale else ():
            try:
                found = self._read_index(f"{number}.index")
            except Untrusted:
                continue  # its key was removed since, so no machine reads it
            stale -= {f"{self._place}/{pack.name}" for pack in found[0].packs} if found else set()
        self._backend.remove([*sorted(stale), *(numbers[number].path for number in sorted(old))])
        self.result.removed = len(stale) + len(old)
