"""Packs that travel between machines: what a publisher makes of records, and what a machine admits to its store.

A published pack is a pack of the store (``pack``) for one program, without USED records. Its pipelines have the flag
PULLED and were last used at NEVER_USED, so that a machine sees later which of them its own runs used. A machine
verifies the file and renames it into its store: no record is written again.

Only the command line uses this. pylayer/fleet/ imports it directly, not through ``store.Store``.
"""

from __future__ import annotations

import os

from ..common import file_kinds
from ..common.files import entries_in, sync_file, unique_name
from . import checking, deaths, format, judging
from .folder import Folder, read_identity
from .format import Refused
from .pack import PackWriter
from .reader import Reader, parts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from ..common.identity import Identity
    from .reader import Part, Record
    from .verdicts import Verdicts


# ---- admitting ---------------------------------------------------------------------------------------


class Admitted:
    """A pack that was moved into the store: its ``file`` as ``pack_files`` has it, and its pipelines' digests."""

    def __init__(self, file: tuple[str, int, int], digests: list[bytes]) -> None:
        self.file = file
        self.digests = digests


def admit(root: str, identity: Identity, program: int, path: str) -> Admitted:
    """Verifies a published pack and moves it into the store. Its name is on the disk after ``sync_packs``. The file is
    on the same file system, in a directory that only this user can write to. Raises Refused and OSError; the store is
    then as it was."""
    if not judging.describes_device(identity.fields):
        raise Refused("the identity's fields do not describe a device")
    digests = _verify(path, identity, program)
    folder = Folder(root, identity)
    try:
        folder.check()
    except FileNotFoundError:
        folder.prepare()
    target = folder.new_path(program, file_kinds.PACK)
    sync_file(path)
    os.rename(path, target)
    status = os.lstat(target)
    return Admitted((os.path.basename(target), status.st_size, status.st_mtime_ns), digests)


def sync_packs(root: str, identity: str) -> None:
    """Waits until the names of admitted packs are on the disk. Raises OSError."""
    path = os.path.join(root, "store", identity)
    if os.path.isdir(path):
        sync_file(path)


def pack_files(root: str, identity: str) -> set[tuple[str, int, int]]:
    """Returns name, size and time of change of each pack under an identity."""
    found = entries_in(os.path.join(root, "store", identity), file_kinds.PACK)
    return {(entry.name, status.st_size, status.st_mtime_ns) for entry, status in found}


def present(root: str, identity: str, programs: Container[int]) -> dict[int, set[bytes]]:
    """Returns the first 8 bytes of the digest of each pipeline that verifies in the store, by program."""
    found: dict[int, set[bytes]] = {}
    known = read_identity(root, identity)
    for program, paths in Folder(root, known).files_by_program().items() if known is not None else ():
        for path in paths if program in programs else ():
            for part in parts_of(path, bytes.fromhex(identity), []):
                digests = {record.digest[:8] for record in part.records if record.is_pipeline}
                found.setdefault(program, set()).update(digests)
    return found


def mark_in_use(root: str, identity: str) -> None:
    """Notes that somebody pulls for an identity now: what was pulled for it is evicted after that for others."""
    try:
        os.utime(os.path.join(root, "store", identity, "identity"))
    except OSError:
        pass  # nothing was pulled yet


def _verify(path: str, identity: Identity, program: int) -> list[bytes]:
    """Returns the digests of the pipelines. Raises Refused unless every record is one that a publisher writes for this
    identity and program."""
    checked = checking.Checked(path)
    digests = []
    for part in checking.check_file(path, format.PACK, identity.digest, checked, program):
        for record in part.records:
            if checked.damage:
                break
            is_table = record.magic == format.TABLE
            reason = "" if is_table else judging.problem(record, part.data_of(record), identity)
            if record.magic == format.USED or (record.is_pipeline and not record.is_pulled):
                reason = reason or "a record that was not published"
            if reason:
                raise Refused(f"{reason} at byte {part.place(record)}")
            if record.is_pipeline:
                digests.append(record.digest)
    checked.require_sound()
    return digests


# ---- publishing --------------------------------------------------------------------------------------


def names_of(path: str, identity: Identity) -> set[tuple[bytes, int]]:
    """Returns digest and fingerprint of each record in a pack. Raises OSError."""
    names: set[tuple[bytes, int]] = set()
    for part in Reader(path).verified(identity.digest, []):
        names.update(record.name for record in part.records if record.magic != format.TABLE)
    return names


def packs_of(root: str, identity: Identity) -> dict[int, list[str]]:
    """Returns the paths of the packs under one identity, by program."""
    return Folder(root, identity).files_by_program((file_kinds.PACK,))


def suspects_of(root: str, identity: Identity) -> Verdicts:
    """Returns what processes on this machine died over, under one identity."""
    return deaths.of_everyone(Folder(root, identity))


class Bound:
    """A pack that ``bind`` wrote. Its records were used from ``first_use`` to ``last_use``, 0 if that is unknown."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.records = 0
        self.pipelines = 0
        self.first_use = 0
        self.last_use = 0

    def count(self, record: Record) -> None:
        """Counts one record."""
        self.records += 1
        self.pipelines += record.is_pipeline
        when = record.last_used
        if when > format.NEVER_USED:
            self.first_use = min(self.first_use or when, when)
            self.last_use = max(self.last_use, when)


class Binding:
    """Writes the records of some packs of one program into new packs to publish, equal content once for each
    fingerprint, by which the layer finds it.

    ``known``: digests and fingerprints of records to leave out. ``most_bytes``: from this size on another pack begins.
    """

    def __init__(
        self,
        directory: str,
        identity: Identity,
        program: tuple[int, str],
        known: Container[tuple[bytes, int]],
        suspects: Verdicts,
        most_bytes: int,
    ) -> None:
        self.result: list[Bound] = []
        #: Records left out because they are suspected of having crashed a driver.
        self.suspects = 0
        self._directory = directory
        self._identity = identity
        self._program, self._name = program
        self._known = known
        self._aside = suspects
        self._most_bytes = most_bytes
        self._seen: set[tuple[bytes, int]] = set()
        self._writer: PackWriter | None = None

    def steps(self, sources: list[str]) -> Iterator[int]:
        """Yields the number of bytes read. Raises OSError. Writes no pack if there is no pipeline."""
        try:
            for path in sources:
                for part in Reader(path).verified(self._identity.digest, []):
                    self._take(part)
                    yield len(part.data)
            self._finish()
        finally:
            if self._writer is not None:
                self._writer.abandon()

    def _take(self, part: Part) -> None:
        for record in part.records:
            if not record.is_pipeline or record.name in self._seen or record.name in self._known:
                continue
            self._seen.add(record.name)
            if self._aside.takes_record(*record.name):
                self.suspects += 1
                continue
            self._add(record, part.data_of(record))

    def _add(self, record: Record, data: memoryview) -> None:
        if self._writer is not None and self._writer.size + len(data) > self._most_bytes:
            self._finish()
        if self._writer is None:
            path = os.path.join(self._directory, f"{unique_name()}{file_kinds.PACK}")
            self._writer = PackWriter(path, self._identity, self._program, self._name)
            self.result.append(Bound(path))
        record.flags |= format.PULLED
        self._writer.add(record, data, record.fingerprint, format.NEVER_USED)
        self.result[-1].count(record)

    def _finish(self) -> None:
        if self._writer is None:
            return
        if self.result[-1].pipelines:
            self._writer.finish(sync=False)
        else:
            self._writer.abandon()
            self.result.pop()
        self._writer = None
