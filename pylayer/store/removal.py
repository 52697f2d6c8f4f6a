"""Removes pipelines from the store: of programs, or of a whole identity. Only the command line uses this."""

from __future__ import annotations

import os

from ..common import file_kinds
from ..common.files import FULL, names_in, remove
from ..common.identity import Identity
from . import ended, runs, sentinel
from .claim import NAME, Claim
from .folder import Folder
from .survey import files_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .holdings import Shelf


class Removal:
    """What to remove of one identity: files of programs, or the whole folder."""

    def __init__(self, root: str, shelf: Shelf) -> None:
        self.shelf = shelf
        self.whole = False
        #: Sizes of the files to remove, by path.
        self.paths: dict[str, int] = {}
        #: Names of the programs whose files go, by number.
        self.programs: dict[int, str] = {}
        #: Files that a running process may write to. They are kept.
        self.in_use: list[str] = []
        #: Why not all of it was removed; empty text if it was.
        self.failure = ""
        self._root = root

    @property
    def bytes(self) -> int:
        """Returns the number of bytes that this frees on disk."""
        return sum(self.paths.values())

    @property
    def is_empty(self) -> bool:
        """Returns whether there is no file to remove and no file that is in use."""
        return not (self.paths or self.in_use)

    def add_whole(self) -> None:
        """Plans to remove the identity's folder. The identity file is kept as long as another file stays."""
        self.whole = True
        for file in files_of(self._root, self.shelf.name):
            if not os.path.basename(file.path).startswith(NAME):
                self._add(file.path, file.size)
        if self.in_use:
            self.paths.pop(os.path.join(self.shelf.path, "identity"), None)

    def add_programs(self, programs: dict[int, str]) -> None:
        """Plans to remove the files of programs, which are given by number with their names."""
        self.programs = programs
        for file in files_of(self._root, self.shelf.name):
            if file.program in programs and file.path.endswith(file_kinds.REMOVED):
                self._add(file.path, file.size)

    def _add(self, path: str, size: int) -> None:
        try:
            if path.endswith(file_kinds.LIVE):
                written = sentinel.is_alive(path)
            else:
                written = path.endswith(file_kinds.APPENDED) and ended.has_writer(path)
        except FileNotFoundError:
            return
        except OSError:
            written = False  # nobody can read it
        if written:
            self.in_use.append(path)
        else:
            self.paths[path] = size

    def remove(self) -> None:
        """Removes it. What stays is in ``failure``."""
        folder = self._folder()
        try:
            folder.check()
            self._remove_files(folder)
        except OSError as error:
            self.failure = str(error.strerror or error)
            return
        if self.whole:
            try:
                os.rmdir(folder.path)
            except OSError:
                pass  # a file is in use, or was created meanwhile

    def _folder(self) -> Folder:
        identity = self.shelf.identity
        if identity is None:  # only the folder's name is known
            identity = Identity({})
            identity.name, identity.digest = self.shelf.name, bytes.fromhex(self.shelf.name)
        return Folder(self._root, identity)

    def _remove_files(self, folder: Folder) -> None:
        """Deletes the files under the folder's claim. Without it, a concurrent fold would write back what it has
        already read. Raises OSError."""
        claim = Claim(folder)
        try:
            if not claim.acquire():
                self.failure = "another process is folding it; try again when it is done"
                return
        except OSError as error:
            if error.errno not in FULL:  # on a full disk a claim has no room, and deleting is what helps
                raise
        try:
            for program in self.programs:  # files that a fold wrote since the plan was made
                for path in set(folder.files(program, file_kinds.REMOVED)) - {*self.paths, *self.in_use}:
                    self._add(path, 0)
            paths = sorted(self.paths, key=lambda path: os.path.basename(path) == "identity")
            for path in paths:
                if path.endswith(file_kinds.LIVE):
                    runs.keep_dead(self._root, path)
            left = [path for path in paths if not remove(path) and os.path.lexists(path)]
        finally:
            claim.release()
        if left:
            self.failure = f"{len(left)} file{'s' * (len(left) > 1)} could not be deleted, such as {left[0]}"


def leftovers(root: str) -> list[str]:
    """Returns the paths of what policy made for the layer: decisions and compiled policy files, which are made again
    when they are needed."""
    found = []
    for kind in file_kinds.MADE_AGAIN:
        directory = os.path.join(root, kind.place)
        found += [os.path.join(directory, name) for name in names_in(directory) if name.endswith(kind)]
    return found
