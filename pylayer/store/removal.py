"""Removes from the store what programs have, or all that a folder has. Only the command line uses this."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..common import file_kinds
from ..common.file_kinds import FileName
from ..common.files import FULL, entries_in, names_in, remove, size_of
from ..common.identity import Identity
from . import crash_marker, journal, runs
from .compaction import NAME, Claim
from .folder import Folder, unrecorded_path
from .holdings import Partition


class Removal:
    """Files to remove."""

    def __init__(self, paths: Iterable[str]) -> None:
        #: Their sizes, by path.
        self.paths = {path: size_of(path) for path in paths}
        #: Files that a running process may write to. They are kept.
        self.in_use: list[str] = []
        #: Why not all of it was removed; empty text if it was.
        self.failure = ""

    def remove(self) -> None:
        """Removes them. What stays is in ``failure``."""
        for path in self.paths:
            remove(path)
        self._note_left()

    def _note_left(self) -> None:
        if left := list(filter(os.path.lexists, self.paths)):
            self.failure = f"files that could not be deleted ({len(left)}), such as {left[0]}"


class FolderRemoval(Removal):
    """What to remove of one folder: files of ``programs``, given by number with their names, or with None all of it,
    but what is blocked only ``with_blocks``."""

    def __init__(self, folder: Folder, programs: dict[int, str] | None, with_blocks: bool = True) -> None:
        super().__init__(())
        self.folder = folder
        self._programs = programs
        self._with_blocks = with_blocks
        self._find()

    def _find(self) -> None:
        """Finds the files. The description stays as long as another file does."""
        self.in_use, stays = [], False
        for entry, status in entries_in(self.folder.path):
            if not self._with_blocks and entry.path.endswith(file_kinds.VERDICT):
                stays = True
            elif self._takes(entry.path) and not self._is_written(entry.path):
                self.paths[entry.path] = status.st_size
        if self.in_use or stays:
            self.paths.pop(os.path.join(self.folder.path, "identity"), None)

    def _takes(self, path: str) -> bool:
        if self._programs is None:
            return not os.path.basename(path).startswith(NAME)
        name = FileName.parse(path)
        if name is not None:
            return name.program in self._programs and name.kind.removed
        return path in [unrecorded_path(self.folder.root, program) for program in self._programs]

    def _is_written(self, path: str) -> bool:
        try:
            if path.endswith(file_kinds.LIVE):
                written = crash_marker.is_alive(path)
            else:
                written = path.endswith(file_kinds.APPENDED) and journal.has_writer(path)
        except OSError:
            written = False  # it is gone or unreadable
        self.in_use += [path] * written
        return written

    def remove(self) -> None:
        """Removes it. What stays is in ``failure``."""
        try:
            self.folder.check()
            self._remove_files()
        except OSError as error:
            self.failure = f"{self.folder.path}: {error.strerror or error}"
            return
        if self._programs is None:
            try:
                os.rmdir(self.folder.path)
            except OSError:
                pass  # a file is in use, or was created meanwhile

    def _remove_files(self) -> None:
        """Deletes the files under the folder's claim. Without it, a concurrent compaction would write back what it has
        already read. Raises OSError."""
        claim = Claim(self.folder)
        try:
            if not claim.acquire():
                self.failure = f"{self.folder.path}: another process is compacting it; try again when it is done"
                return
        except OSError as error:
            if error.errno not in FULL:  # on a full disk a claim has no room, and deleting is what helps
                raise
        try:
            self._find()  # again, because a compaction may have written files since
            for path in sorted(self.paths, key=lambda path: os.path.basename(path) == "identity"):
                if path.endswith(file_kinds.LIVE):
                    runs.keep_dead(self.folder.root, path)
                remove(path)
        finally:
            claim.release()
        self._note_left()


def folder_of(root: str, partition: Partition) -> Folder:
    """Returns the folder of an identity."""
    identity = partition.identity
    if identity is None:  # only the folder's name is known
        identity = Identity({})
        identity.name, identity.digest = partition.name, bytes.fromhex(partition.name)
    return Folder(root, identity)


def leftovers(root: str) -> list[str]:
    """Returns the paths of what policy made for the layer: decisions and compiled policy files, which are made again
    when they are needed."""
    found = []
    for kind in file_kinds.MADE_AGAIN:
        directory = os.path.join(root, kind.place)
        found += [os.path.join(directory, name) for name in names_in(directory) if name.endswith(kind)]
    return found
