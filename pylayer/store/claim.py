"""Which process is compacting a folder.

A claim is an empty file in the folder, ``compacting.<maker>.tmp``. A process that finds another claim beside its own
gives up, so at most one process compacts the folder; if two begin at the same moment, neither does. A claim only saves
double work. Anybody deletes that of a process that has ended.
"""

from __future__ import annotations

import os

from ..common.files import create_temporary, names_in, remove, remove_left_temporaries
from .folder import Folder

NAME = "compacting"
#: A claim of a process elsewhere, such as in a container that was killed, is abandoned after this many seconds. A
#: compaction of the largest store takes less.
FOREIGN_SECONDS = 900.0


class Claim:
    """Tells other processes that this one is compacting a folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder.path
        self._path = ""

    def acquire(self) -> bool:
        """Returns False if a process that may still be running has a claim. Raises OSError if the folder cannot be
        written."""
        remove_left_temporaries(self._folder, f"{NAME}.", FOREIGN_SECONDS)
        fd, self._path = create_temporary(os.path.join(self._folder, NAME))
        os.close(fd)
        if [name for name in names_in(self._folder) if name.startswith(f"{NAME}.")] == [os.path.basename(self._path)]:
            return True
        self.release()
        return False

    def release(self) -> None:
        """Lets others compact."""
        remove(self._path)
