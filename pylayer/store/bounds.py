"""What the store takes on the disk, and what leaves when it is too much: the least recently used first.

A whole store, and each program in it, has a limit. What leaves is chosen by time of last use over all identities,
so that records of a driver that is no longer installed leave before those of today's; files that hold nothing else
are deleted, the others written anew without what leaves.
"""

from __future__ import annotations

import os

from . import format, pack
from .files import TEMPORARY, remove
from .fold import Fold
from .folder import Folder, identity_names, read_identity
from .format import Damage
from .reader import Reader
from .recency import Uses, fingerprints_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .fold import Planned

#: Down to this part of a limit, so that the next record does not exceed it again.
DOWN_TO = 0.9


class StoreFile:
    """A file of the store: to whom it belongs, and its size on the disk. ``program`` None: several programs'."""

    __slots__ = ("mtime", "path", "program", "size")

    def __init__(self, path: str, program: int | None, size: int, mtime: float) -> None:
        self.path = path
        self.program = program
        self.size = size
        self.mtime = mtime


def files_of(root: str, identity_name: str) -> list[StoreFile]:
    """Every file in an identity's folder, whatever it is."""
    found = []
    try:
        with os.scandir(os.path.join(root, "store", identity_name)) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                head, dash, _ = entry.name.partition("-")
                program = None
                if dash and len(head) == 16 and not entry.name.endswith((".pack", TEMPORARY)):
                    try:
                        program = int(head, 16)
                    except ValueError:
                        pass
                found.append(StoreFile(entry.path, program, status.st_size, status.st_mtime))
    except OSError:
        pass
    return found


def total_bytes(root: str) -> int:
    """What all identities' folders hold."""
    return sum(file.size for name in identity_names(root) for file in files_of(root, name))


class _Ages:
    """Bytes by time of last use: few distinct times, whatever the number of records."""

    def __init__(self) -> None:
        self.by_time: dict[int, int] = {}
        self.total = 0

    def add(self, when: int, size: int) -> None:
        self.by_time[when] = self.by_time.get(when, 0) + size
        self.total += size

    def cut(self, limit: int) -> tuple[int, int]:
        """(time, bytes): what was used before the time leaves, and of what was used at it so many bytes. (0, 0)
        where nothing leaves."""
        if self.total <= limit:
            return 0, 0
        excess = self.total - int(limit * DOWN_TO)
        for when in sorted(self.by_time):
            if self.by_time[when] > excess:
                return when, excess
            excess -= self.by_time[when]
        return max(self.by_time) + 1, 0


class _Cut:
    """What leaves, as a decision on one record after another."""

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
    """What a trim did, or would do."""

    def __init__(self) -> None:
        self.bytes_before = 0
        self.bytes_after = 0
        self.records = 0
        self.files = 0
        self.damage: list[Damage] = []


class Survey:
    """Sizes and ages of a store's records, for a decision what leaves. Journals count by their file's time."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.ages = _Ages()
        self.by_program: dict[int, _Ages] = {}
        #: What USED records say, by identity.
        self.uses: dict[str, Uses] = {}
        self.names: dict[int, str] = {}
        #: Share of the disk that one byte of a pack's data takes, by pack.
        self.shares: dict[str, float] = {}
        #: When the record of a pack was last used that was used least recently, and all programs in it.
        self.oldest: dict[str, int] = {}
        self.owners: dict[str, set[int]] = {}

    def _add(self, programs: tuple[int, ...], when: int, size: int) -> None:
        self.ages.add(when, size)
        for program in programs:
            self.by_program.setdefault(program, _Ages()).add(when, size)

    def read(self) -> Iterator[None]:
        """Looks at every file; packs by their index."""
        for name in identity_names(self.root):
            uses = self.uses[name] = Uses()
            packs = []
            for file in files_of(self.root, name):
                if file.path.endswith(".pack"):
                    packs.append(file)
                else:
                    self._add(() if file.program is None else (file.program,), int(file.mtime), file.size)
            for file in packs:
                self._read_pack(file, uses, collect=True)
                yield
            for file in packs:
                self._read_pack(file, uses, collect=False)
                yield

    def _read_pack(self, file: StoreFile, uses: Uses, collect: bool) -> None:
        try:
            reader = Reader(file.path)
        except OSError:
            return
        try:
            header, _ = reader.header()
            directory = pack.read_directory(reader, header, []) if header is not None else None
            entries = pack.read_index(reader, directory) if directory is not None else None
            if directory is None or entries is None:
                if not collect:
                    self._add((), int(file.mtime), file.size)
                return
            self.names.update(directory.names)
            raw = sum(group.raw_bytes for group in directory.groups) or 1
            share = self.shares[file.path] = file.size / raw
            cache: dict[int, bytes] = {}
            for entry in entries:
                if collect:
                    if entry.magic == format.USED:
                        found = reader.record_at(entry.offset, entry.inner, cache)
                        if found is not None:
                            uses.note(entry.programs, fingerprints_of(found[1]), entry.last_used)
                else:
                    when = uses.last_use(entry.programs, entry.fingerprint, entry.last_used)
                    self.oldest[file.path] = min(when, self.oldest.get(file.path, when))
                    self.owners.setdefault(file.path, set()).update(entry.programs)
                    self._add(entry.programs, when, round(entry.size * share))
        except OSError:
            return
        finally:
            reader.close()


def enforce(
    root: str,
    max_store: int,
    max_program: int,
    trimmed: Trimmed,
    compress: bool = True,
    dry_run: bool = False,
) -> Iterator[None]:
    """Brings a store within its limits, in bytes; steps of about a millisecond. One pack after the other is written
    without what leaves, so that memory does not grow with the store; journals wait until they are folded. Raises
    OSError; nothing is half done then.

    ``dry_run``: only says in ``trimmed`` what would leave, journals included.
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
        folder = _folder(root, name)
        for file in files_of(root, name):
            if file.path.endswith((".snapshot", ".blob", ".attest", ".binaries")):
                program = file.program
                when = int(file.mtime)
                leaves = whole.takes(when, file.size) or (program in cuts and cuts[program].takes(when, file.size))
                if leaves:
                    trimmed.files += 1
                    trimmed.bytes_after -= file.size
                    if not dry_run:
                        remove(file.path)
        if folder is None:
            continue
        if dry_run:
            yield from _fold_without(folder, None, survey, whole, cuts, trimmed, compress)
            continue
        for path in folder.files(None, (".pack",)):
            if survey.oldest.get(path, 1 << 62) <= whole.before or survey.owners.get(path, set()) & cuts.keys():
                yield from _fold_without(folder, path, survey, whole, cuts, trimmed, compress)
    if not dry_run:
        trimmed.bytes_after = total_bytes(root)


def _folder(root: str, name: str) -> Folder | None:
    identity = read_identity(root, name)
    return Folder(root, identity) if identity is not None else None


def _fold_without(
    folder: Folder,
    path: str | None,
    survey: Survey,
    whole: _Cut,
    cuts: dict[int, _Cut],
    trimmed: Trimmed,
    compress: bool,
) -> Iterator[None]:
    """One pack without what leaves; for None a dry run over the whole folder."""
    here = [share for pack_path, share in survey.shares.items() if os.path.dirname(pack_path) == folder.path]
    share = survey.shares[path] if path is not None else max(here, default=1.0)
    uses = survey.uses[folder.identity.name]
    freed = 0

    def losers(planned: Planned, _: Uses) -> tuple[int, ...]:
        nonlocal freed
        size = round(planned.size * share)
        when = uses.last_use(planned.programs, planned.fingerprint, planned.last_used)
        if whole.takes(when, size):
            freed += size
            return planned.programs
        gone = tuple(program for program in planned.programs if program in cuts and cuts[program].takes(when, size))
        if len(gone) == len(planned.programs):
            freed += size
        return gone

    fold = Fold(folder, everything=path is None, compress=compress, drop=losers, dry_run=path is None, only=path)
    yield from fold.steps()
    trimmed.records += fold.result.dropped
    trimmed.damage += fold.result.damage
    if path is None:
        trimmed.bytes_after -= freed


#: A program that ends at once has no time to rewrite packs; beyond this many times the limit whole files leave.
HARD_LIMIT = 1.25


def drop_oldest_files(root: str, max_store: int) -> int:
    """Where a store is far beyond its limit, deletes the files that were written longest ago until it is within,
    whatever is in them; returns how many. Journals that may have a writer stay."""
    files = [file for name in identity_names(root) for file in files_of(root, name)]
    total = sum(file.size for file in files)
    if total <= max_store * HARD_LIMIT:
        return 0
    removed = 0
    for file in sorted(files, key=lambda file: file.mtime):
        if total <= max_store * DOWN_TO:
            break
        if file.path.endswith((".pack", ".closed", ".snapshot", ".blob", ".binaries")) and remove(file.path):
            total -= file.size
            removed += 1
    return removed
