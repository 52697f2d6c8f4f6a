"""One identity's folder in the store: what is read when a device is created, and what is added to it.

common/file_kinds.py lists the kinds of files in it. A process changes the content of its own files only, so two
processes need no lock.
"""

from __future__ import annotations

import os
import time

from ..common import file_kinds, flat
from ..common.file_kinds import FOLDED, FileName, Kind
from ..common.files import AHEAD_SECONDS, names_in, read_small, replace_file, unique_name
from ..common.identity import Identity
from ..common.paths import UntrustedDirectory, exists, make_private_below, require_own_below, system_store_root
from . import format
from .format import Damage
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .reader import Part
    from .verdicts import Verdicts

#: Most listings of one load, so that it ends even while files keep appearing.
MAX_LISTINGS = 8


class Loaded:
    """The result of a load: what was handed over, notes, totals and damage."""

    def __init__(self) -> None:
        #: Digest and fingerprint of each record that was handed over. Pipelines of several fingerprints may be equal.
        self.records: set[tuple[bytes, int]] = set()
        #: How many records the layer reads itself; they are not known here.
        self.stored_cells = 0
        self.bytes = 0
        self.create_ns = 0
        self.timed_cells = 0
        self.damage: list[Damage] = []
        #: Tails that are still being written, or whose writer died. Each loses only itself.
        self.torn: list[Damage] = []
        #: What is wrong with the system's store, in which nobody here repairs anything.
        self.system_damage: list[Damage] = []
        #: Last use of fingerprints within RECENT_SECONDS according to USED records, in seconds since 1970.
        self.used: dict[int, int] = {}
        #: When a run last wrote a USED record.
        self.last_run = 0
        self.now = int(time.time())
        #: Whose suspects are left out, and how many were. None if nothing is decided.
        self.verdicts: Verdicts | None = None
        self.left_out = 0

    @property
    def mean_create_ns(self) -> float:
        """Mean time that it took to compile one of the stored cells or binaries."""
        return self.create_ns / self.timed_cells if self.timed_cells else 0.0


class Batch:
    """Verified records, as places in a part of a file: ``offsets`` become VkPipelineCaches, ``binary_offsets`` pipeline
    binaries. ``data`` is valid until the batch after the next is requested.
    """

    __slots__ = ("binary_offsets", "binary_sizes", "data", "digests", "fingerprints", "offsets", "sizes")

    def __init__(self, data: bytearray | bytes) -> None:
        self.data = data
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        #: XXH3-128 of each record of ``offsets``.
        self.digests: list[bytes] = []
        #: Fingerprint of each record of ``offsets``.
        self.fingerprints: list[int] = []
        self.binary_offsets: list[int] = []
        self.binary_sizes: list[int] = []

    def add(self, offset: int, size: int, digest: bytes, fingerprint: int = 0) -> None:
        """Adds a record of ``offsets``."""
        self.offsets.append(offset)
        self.sizes.append(size)
        self.digests.append(digest)
        self.fingerprints.append(fingerprint)


class Folder:
    """The folder of one identity. The constructor does not access the disk."""

    def __init__(self, root: str, identity: Identity) -> None:
        self.root = root
        self.identity = identity
        self.path = os.path.join(root, "store", identity.name)

    def prepare(self) -> None:
        """Makes the folder and the description in it.

        Raises OSError, ``paths.UntrustedDirectory`` included.
        """
        make_private_below(self.root, "store", self.identity.name)
        if not os.path.exists(os.path.join(self.path, "identity")):
            self._describe()

    def _describe(self) -> None:
        """Writes the description, and waits until it is on the disk: without it no command can use what is stored."""
        fields = {**self.identity.fields, "format": format.VERSION}
        replace_file(os.path.join(self.path, "identity"), flat.dumps(fields).encode(), sync=True)

    def mend_description(self) -> None:
        """Writes the description anew if it is damaged, for instance empty after a power cut. Raises OSError if that
        fails."""
        try:
            damaged = described_identity(self.root, self.identity.name) is None
        except OSError:
            return  # it is missing, and ``prepare`` makes it; or whoever reads the folder says what is wrong
        if damaged:
            self._describe()

    def check(self) -> None:
        """Raises OSError if the folder is missing or somebody else could have written to it."""
        require_own_below(self.root, "store", self.identity.name)

    def files(self, program: int | None, kinds: tuple[str, ...] = FOLDED) -> list[str]:
        """Returns paths of the files of one program, or of all programs with None: by kind in the order given, then
        oldest first."""
        names = names_in(self.path)
        prefix = "" if program is None else f"{program:016x}-"
        found = []
        for kind in kinds:
            mine = [name for name in names if name.endswith(kind) and name.startswith(prefix)]
            mine.sort(key=lambda name: name.partition("-")[2])
            found += [os.path.join(self.path, name) for name in mine]
        return found

    def files_by_program(self, kinds: tuple[str, ...] = FOLDED) -> dict[int, list[str]]:
        """As ``files``, for all programs, with one listing however many there are."""
        found: dict[int, list[str]] = {}
        for path in self.files(None, kinds):
            name = FileName.parse(path)
            if name is not None:
                found.setdefault(name.program, []).append(path)
        return found

    def new_path(self, program: int, kind: Kind) -> str:
        """Returns the path of a new file of a program."""
        return os.path.join(self.path, str(FileName(program, unique_name(), kind)))

    def programs(self) -> list[int]:
        """Returns every program that has pipelines here."""
        return sorted(self.files_by_program())

    # ---- loading ---------------------------------------------------------------------------------

    def load(self, program: int | None, loaded: Loaded) -> Iterator[Batch]:
        """Reads and verifies everything stored, then what the system's store has besides, yields it in batches, and
        fills ``loaded`` meanwhile."""
        yield from self._load_own(program, loaded)
        for path in self.system_packs(program, loaded.system_damage):
            # What others used says nothing about this user's programs, so it is not added to ``loaded``.
            pack = Loaded()
            pack.records, pack.verdicts = loaded.records, loaded.verdicts
            try:
                yield from self._load_file(path, pack)
            except OSError as error:
                pack.damage.append(Damage.unreadable(path, error))
            loaded.system_damage += pack.damage
            loaded.bytes += pack.bytes
            loaded.create_ns += pack.create_ns
            loaded.timed_cells += pack.timed_cells
            loaded.left_out += pack.left_out

    def system_packs(self, program: int | None, damage: list[Damage]) -> list[str]:
        """Returns paths of the packs of this identity in the system's store: none if it is missing or this folder's own
        store. Adds to ``damage`` if it cannot be trusted."""
        folder = Folder(system_store_root(), self.identity)
        if folder.path == self.path or not exists(folder.path):
            return []
        try:
            folder.check()
        except OSError as error:
            damage.append(Damage(folder.path, "untrusted", detail=str(error)))
            return []
        return folder.files(program, (file_kinds.PACK,))

    def _load_own(self, program: int | None, loaded: Loaded) -> Iterator[Batch]:
        try:
            self.check()
            os.listdir(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            if self._is_missing():  # whatever is wrong above it, nothing is stored for this driver
                return
            untrusted = isinstance(error, UntrustedDirectory)
            detail = str(error) if untrusted else f"{error.strerror or error}: {error.filename}"
            loaded.damage.append(Damage(self.path, "untrusted" if untrusted else "unreadable", detail=detail))
            return
        seen: set[str] = set()
        # While the names were read, another process may have folded a journal into a pack. Then neither
        # the old nor the new name was listed; the next listing has the new one.
        for _ in range(MAX_LISTINGS):
            new = [path for path in self.files(program) if path not in seen]
            if not new:
                return
            seen.update(new)
            for path in new:
                try:
                    yield from self._load_file(path, loaded)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    loaded.damage.append(Damage.unreadable(path, error))

    def _is_missing(self) -> bool:
        try:
            os.lstat(self.path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False

    def _load_file(self, path: str, loaded: Loaded) -> Iterator[Batch]:
        reader = Reader(path)
        damage: list[Damage] = []
        try:
            for part in reader.verified(self.identity.digest, damage):
                batch = Batch(part.data)
                _take_records(part, batch, loaded)
                yield batch  # yielded even if empty: the next part is read over the data of the batch before
        finally:
            for what in damage:
                (loaded.torn if what.is_torn_end else loaded.damage).append(what)

    # ---- whole files -----------------------------------------------------------------------------

    def write_file(
        self, kind: Kind, program: int, application: str, parts: list[bytes | memoryview], sync: bool = False
    ) -> str:
        """Writes a file of whole records, given as the pieces of ``format.record_parts``; returns its path. ``sync``:
        waits until it is on the disk. Raises OSError."""
        self.prepare()
        path = self.new_path(program, kind)
        salt = format.new_salt()
        head = format.file_header(kind.magic, self.identity, program, application, salt=salt)
        replace_file(path, [head, *format.seal(parts, salt)], sync)
        return path


def _take_records(part: Part, batch: Batch, loaded: Loaded) -> None:
    """Adds to the batch each record that was not loaded yet. A program waits for this: 0.2 us a record."""
    records, known, pipelines = part.records, loaded.records, format.PIPELINES
    binaries, add = format.BINARIES, batch.add
    size_sum = create_sum = timed = 0
    if loaded.verdicts is not None:
        records, left = loaded.verdicts.without(records)
        loaded.left_out += len(left)
    for record in records:
        digest, magic = record.digest, record.magic
        name = (digest, record.fingerprint)
        if name in known:
            continue
        if magic == format.USED:
            _read_used(part.data_of(record), record.last_used, loaded)
        if magic not in pipelines:
            continue
        known.add(name)
        if create_ns := record.create_ns:
            create_sum += create_ns
            timed += 1
        if magic == binaries:
            batch.binary_offsets.append(record.start)
            batch.binary_sizes.append(record.size)
        else:
            size = record.size
            add(record.start, size, digest, record.fingerprint)
            size_sum += size
    loaded.bytes += size_sum
    loaded.create_ns += create_sum
    loaded.timed_cells += timed


def _read_used(data: bytes | memoryview, when: int, loaded: Loaded) -> None:
    from .recency import RECENT_SECONDS, fingerprints_of

    if when > loaded.now + AHEAD_SECONDS:
        return  # dated by a wrong clock: the uses are recorded again
    if when > loaded.last_run:
        loaded.last_run = when
    if loaded.now - when < RECENT_SECONDS:
        for fingerprint in fingerprints_of(data):
            loaded.used[fingerprint] = max(when, loaded.used.get(fingerprint, 0))


def identity_names(root: str) -> list[str]:
    """Returns the names of the identities' folders."""
    names = names_in(os.path.join(root, "store"))
    return [name for name in names if len(name) == 32 and all(c in "0123456789abcdef" for c in name)]


def read_identity(root: str, name: str) -> Identity | None:
    """Returns the identity of a folder; None if its description is missing, unreadable, or of another folder."""
    try:
        return described_identity(root, name)
    except OSError:
        return None


def described_identity(root: str, name: str) -> Identity | None:
    """Returns the identity of a folder; None if its description is damaged or of another folder. Raises OSError."""
    try:
        fields = flat.loads(read_small(os.path.join(root, "store", name, "identity"), 1 << 16).decode())
    except ValueError:
        return None
    fields.pop("format", None)
    identity = Identity(fields)
    return identity if identity.name == name else None


def folders(root: str) -> Iterator[Folder]:
    """Yields the folders whose identity is known."""
    for name in identity_names(root):
        identity = read_identity(root, name)
        if identity is not None:
            yield Folder(root, identity)
