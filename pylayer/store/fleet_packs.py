"""Packs that travel between machines: what a publisher makes of records, and what a machine admits to its store.

A published pack is a pack of the store (``pack``) for one program, without USED records. Its pipelines have the flag
PULLED and were last used at NEVER_USED, so that a machine sees later which of them its own runs used. A machine
verifies the file and renames it into its store: no record is written again. The publisher has what is published in a
store made for the occasion, and imports the exports there: whatever packs are then in it are published.

Only the command line uses this. pylayer/fleet/ imports it directly, not through ``store.Store``.
"""

from __future__ import annotations

import os

from ..common import file_kinds
from ..common.file_kinds import FileName
from ..common.files import sync_file
from . import checking, format
from .compaction import Compaction
from .folder import Folder as Folder
from .folder import came_unrecorded
from .format import NEVER_USED as NEVER_USED
from .format import PULLED as PULLED
from .format import Refused
from .portable import Import as Import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..common.identity import Identity


# ---- admitting ---------------------------------------------------------------------------------------


def admit(root: str, identity: Identity, program: int, path: str, sha256: str) -> int:
    """Verifies a published pack and moves it into the store, under a name with the beginning of its SHA-256, which is
    on the disk after ``sync_packs``. The file is on the same file system, in a directory that only this user can write
    to. Returns the number of pipelines. Raises Refused and OSError; the store is then as it was."""
    if not checking.describes_device(identity.fields):
        raise Refused("the identity's fields do not describe a device")
    pipelines, fingerprints = _verify(path, identity, program)
    folder = Folder(root, identity)
    try:
        folder.check()
    except FileNotFoundError:
        folder.prepare()
    sync_file(path)
    os.rename(path, os.path.join(folder.path, str(FileName(program, _unique(sha256), file_kinds.PACK))))
    came_unrecorded(root, program, fingerprints)
    return pipelines


def sync_packs(root: str, identity: str) -> None:
    """Waits until the names of admitted packs are on the disk. Raises OSError."""
    path = os.path.join(root, "store", identity)
    if os.path.isdir(path):
        sync_file(path)


def _unique(sha256: str) -> str:
    """Returns the part of a pulled pack's name that says which it is."""
    return sha256[: file_kinds.PULLED_DIGITS]


def held(root: str, identity: Identity, listed: set[str]) -> set[str]:
    """Returns which of the ``listed`` packs, given by SHA-256, the store has. A pulled pack that is not listed any
    more, because it was merged into another, becomes one like those of this machine, for compactions. Raises
    OSError."""
    folder, found, names = Folder(root, identity), set(), {_unique(sha256): sha256 for sha256 in listed}
    for path in folder.files(None, (file_kinds.PACK,)):
        name = FileName.parse(path)
        if name is not None and name.is_published:
            if name.unique in names:
                found.add(names[name.unique])
            else:
                os.rename(path, folder.new_path(name.program, file_kinds.PACK))
    return found


def _verify(path: str, identity: Identity, program: int) -> tuple[int, set[int]]:
    """Returns the number of pipelines, and the fingerprints of those that have one. Raises Refused unless every record
    is one that a publisher writes for this identity and program."""
    checked = checking.Checked()
    pipelines = 0
    fingerprints: set[int] = set()
    for part in checking.check_file(path, format.PACK, identity.digest, checked, program):
        for record in part.records:
            if checked.damage:
                break
            reason = checking.foreign_problem(record, part.data_of(record), identity)
            if record.magic == format.USED or (record.is_pipeline and not record.is_pulled):
                reason = reason or "a record that was not published"
            if reason:
                raise Refused(f"{reason} at byte {part.place(record)}")
            pipelines += len(record.cells)
            fingerprints.update(fingerprint for fingerprint, _ in record.cells if fingerprint)
    checked.require_sound()
    return pipelines, fingerprints


# ---- publishing --------------------------------------------------------------------------------------


def merge(root: str, identity: Identity, most: int, merged: int) -> None:
    """Merges the smallest packs, so many, of each program that has more than ``most``. Raises OSError."""
    folder = Folder(root, identity)
    for program, paths in folder.files_by_program((file_kinds.PACK,)).items():
        if len(paths) > most:
            smallest = frozenset(sorted(paths, key=os.path.getsize)[:merged])
            for _ in Compaction(folder, program, must=smallest).steps():
                pass
