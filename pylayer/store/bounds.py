"""Limits on the store's size on disk. The least recently used records are evicted first.

The whole store has a limit, and so has each program in it. Records are evicted by time of last use over all identities,
so those of a driver that is no longer installed go before those of today's. Files that hold nothing else are deleted;
packs are rewritten without the evicted records.
"""

from __future__ import annotations

import os
import struct

from ..common import file_kinds
from ..common.file_kinds import FileName, Kind
from ..common.files import remove
from . import format
from .fold import STEP_ENTRIES, Fold
from .folder import Folder, identity_names, read_identity
from .format import Damage
from .reader import Reader
from .recency import Uses, fingerprints_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .fold import Planned

#: Eviction goes down to this fraction of a limit, so that the next record does not exceed it again.
DOWN_TO = 0.9


class StoreFile:
    """A file of the store and its size on the disk. ``program`` and ``kind`` are None if the name is not that of a
    program's file."""

    __slots__ = ("kind", "mtime", "path", "program", "size")

    def __init__(self, path: str, size: int, mtime: float) -> None:
        name = FileName.parse(path)
        self.path = path
        self.program: int | None = name.program if name is not None else None
        self.kind: Kind | None = name.kind if name is not None else None
        self.size = size
        self.mtime = mtime


def files_of(root: str, identity_name: str) -> list[StoreFile]:
    """Returns every file in an identity's folder, whatever it is."""
    found = []
    try:
        with os.scandir(os.path.join(root, "store", identity_name)) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                found.append(StoreFile(entry.path, status.st_size, status.st_mtime))
    except OSError:
        pass
    return found


def total_bytes(root: str) -> int:
    """Returns the number of bytes in all identities' folders."""
    return sum(file.size for name in identity_names(root) for file in files_of(root, name))


def is_exceeded(root: str, max_store: int, max_program: int) -> bool:
    """Returns whether the store or a program in it has more bytes than its limit."""
    by_program: dict[int | None, int] = {}
    for name in identity_names(root):
        for file in files_of(root, name):
            by_program[file.program] = by_program.get(file.program, 0) + file.size
    largest = max((size for program, size in by_program.items() if program is not None), default=0)
    return sum(by_program.values()) > max_store or largest > max_program


class _Ages:
    """Bytes by time of last use. There are few distinct times, however many records there are."""

    def __init__(self) -> None:
        self.by_time: dict[int, int] = {}
        self.total = 0

    def add(self, when: int, size: int) -> None:
        self.by_time[when] = self.by_time.get(when, 0) + size
        self.total += size

    def cut(self, limit: int) -> tuple[int, int]:
        """Returns (time, bytes): evict everything last used before the time, and this many bytes of what was last used
        at it. Returns (0, 0) if nothing is to be evicted."""
        if self.total <= limit:
            return 0, 0
        excess = self.total - int(limit * DOWN_TO)
        for when in sorted(self.by_time):
            if self.by_time[when] > excess:
                return when, excess
            excess -= self.by_time[when]
        return max(self.by_time) + 1, 0


class _Cut:
    """Decides for one record after another whether it is evicted."""

    def __init__(self, ages: _Ages, limit: int) -> None:
        self.before, self.more = ages.cut(limit)

    def takes(self, when: int, size: int) -> bool:
        if when < self.before:
            return True
        if when == self.before and self.more > 0:
            self.more -= size
            return True
        return False

    def __bool__(self) -> bool:
        return self.before > 0


class Trimmed:
    """What a trim evicted, or would evict."""

    def __init__(self) -> None:
        self.bytes_before = 0
        self.bytes_after = 0
        self.records = 0
        self.files = 0
        self.damage: list[Damage] = []


class Survey:
    """Sizes and ages of a store's records, from which eviction is decided. A journal counts as a whole, by the file's
    modification time."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.ages = _Ages()
        self.by_program: dict[int, _Ages] = {}
        #: The contents of USED records, by identity and program.
        self.uses: dict[tuple[str, int | None], Uses] = {}
        #: Last use of the least recently used record of each pack.
        self.oldest: dict[str, int] = {}

    def _add(self, program: int | None, when: int, size: int) -> None:
        self.ages.add(when, size)
        if program is not None:
            self.by_program.setdefault(program, _Ages()).add(when, size)

    def read(self) -> Iterator[None]:
        """Reads every pack. Other files count by their modification time and size."""
        for name in identity_names(self.root):
            packs: dict[int | None, list[StoreFile]] = {}
            for file in files_of(self.root, name):
                if file.kind == file_kinds.PACK:
                    packs.setdefault(file.program, []).append(file)
                else:
                    self._add(file.program, int(file.mtime), file.size)
            for program, files in packs.items():
                yield from self._read_packs(name, program, files)

    def _read_packs(self, name: str, program: int | None, files: list[StoreFile]) -> Iterator[None]:
        """Reads all packs of a program together, because a use may be recorded in another pack than its record."""
        uses = self.uses[name, program] = Uses()
        records = []
        for file in files:
            found = bytearray()
            yield from _collect(file.path, bytes.fromhex(name), uses, found)
            records.append(found)
        for file, found in zip(files, records, strict=True):
            if not found:  # nothing in it can be read
                self._add(program, int(file.mtime), file.size)
            for number, (fingerprint, own_time, size) in enumerate(_RECORD.iter_unpack(found)):
                when = uses.last_use(fingerprint, own_time)
                self.oldest[file.path] = min(when, self.oldest.get(file.path, when))
                self._add(program, when, size)
                if number % STEP_ENTRIES == STEP_ENTRIES - 1:
                    yield


#: What a survey keeps of a record until all uses are known: fingerprint, last use, bytes on disk.
_RECORD = struct.Struct("=QQQ")


def _collect(path: str, identity_digest: bytes, uses: Uses, found: bytearray) -> Iterator[None]:
    """Appends a ``_RECORD`` for each record of a pack, and adds its USED records to ``uses``."""
    try:
        for part in Reader(path).verified(identity_digest, []):
            for magic, _, _, start, size, _, _, fingerprint, last_used in part.records:
                if magic == format.USED:
                    uses.note(fingerprints_of(bytes(part.data[start : start + size])), last_used)
                elif magic != format.TABLE:
                    found += _RECORD.pack(fingerprint, last_used, format.record_size(size))
            yield
    except OSError:
        return


def enforce(
    root: str,
    max_store: int,
    max_program: int,
    trimmed: Trimmed,
    dry_run: bool = False,
) -> Iterator[None]:
    """Brings a store within its limits, which are in bytes, in steps of about a millisecond. Rewrites one pack after
    the other without the evicted records, so that memory does not grow with the store. Journals are not trimmed before
    they are folded. Raises OSError; nothing is half done then.

    ``dry_run``: only records in ``trimmed`` what would be evicted, journals included.
    """
    trimmed.bytes_before = trimmed.bytes_after = total_bytes(root)
    survey = Survey(root)
    yield from survey.read()
    whole = _Cut(survey.ages, max_store)
    cuts = {program: _Cut(ages, max_program) for program, ages in survey.by_program.items()}
    cuts = {program: cut for program, cut in cuts.items() if cut}
    if not whole and not cuts:
        return
    for name in identity_names(root):
        _evict_files(root, name, whole, cuts, trimmed, dry_run)
        identity = read_identity(root, name)
        if identity is None:
            continue
        folder = Folder(root, identity)
        for program in folder.programs():
            cut = cuts.get(program)
            if dry_run:
                yield from _fold_without(folder, program, None, survey, (whole, cut), trimmed)
                continue
            for path in folder.files(program, (file_kinds.PACK,)):
                if cut is not None or survey.oldest.get(path, 1 << 62) <= whole.before:
                    yield from _fold_without(folder, program, path, survey, (whole, cut), trimmed)
    if not dry_run:
        trimmed.bytes_after = total_bytes(root)


def _evict_files(root: str, name: str, whole: _Cut, cuts: dict[int, _Cut], trimmed: Trimmed, dry_run: bool) -> None:
    """Deletes files that are evicted as a whole."""
    for file in files_of(root, name):
        if file.kind is None or not file.kind.evicted or file.kind.folded:
            continue
        when, cut = int(file.mtime), cuts.get(file.program) if file.program is not None else None
        if whole.takes(when, file.size) or (cut is not None and cut.takes(when, file.size)):
            trimmed.files += 1
            trimmed.bytes_after -= file.size
            if not dry_run:
                remove(file.path)


def _fold_without(
    folder: Folder,
    program: int,
    path: str | None,
    survey: Survey,
    cuts: tuple[_Cut, _Cut | None],
    trimmed: Trimmed,
) -> Iterator[None]:
    """Rewrites one pack without the evicted records. With ``path`` None, a dry run over all files of the program."""
    uses = survey.uses.get((folder.identity.name, program), Uses())
    whole, own = cuts
    freed = 0

    def drop(planned: Planned) -> bool:
        nonlocal freed
        size = format.record_size(planned.size)
        when = uses.last_use(planned.fingerprint, planned.last_used)
        drops = whole.takes(when, size) or (own is not None and own.takes(when, size))
        freed += size * drops
        return drops

    everything = path is None
    fold = Fold(folder, program, everything=everything, drop=drop, dry_run=everything, only=path)
    yield from fold.steps()
    trimmed.records += fold.result.dropped
    trimmed.damage += fold.result.damage
    if path is None:
        trimmed.bytes_after -= freed


#: A program that ends has no time to rewrite packs. Beyond this multiple of the limit it deletes whole files.
HARD_LIMIT = 1.25


def drop_oldest_files(root: str, max_store: int) -> int:
    """If a store is far beyond its limit, deletes the files that were written longest ago until it is within, whatever
    they contain; returns how many. Journals that may have a writer are kept."""
    files = [file for name in identity_names(root) for file in files_of(root, name)]
    total = sum(file.size for file in files)
    if total <= max_store * HARD_LIMIT:
        return 0
    removed = 0
    for file in sorted(files, key=lambda file: file.mtime):
        if total <= max_store * DOWN_TO:
            break
        if file.kind is not None and file.kind.evicted and remove(file.path):
            total -= file.size
            removed += 1
    return removed
