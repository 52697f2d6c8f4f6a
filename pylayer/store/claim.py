"""Which process is folding a folder.

    <root>/store/<identity>/folding/<maker>

A claim is a directory that holds an empty directory named after the claiming process. Two system calls decide, on
network file systems too. A rename onto a directory that is not empty fails, so only one of several processes gets the
claim. And no name of a maker is ever used twice, so nobody removes another claim than the one found to be abandoned.
"""

from __future__ import annotations

import errno
import os
import time

from ..common import owner
from ..common.files import TEMPORARY, remove_tree
from .folder import Folder

#: A claim of a process elsewhere, such as in a container that was killed, is abandoned after this many seconds. A fold
#: of the largest store takes less; and two folds at once only do work twice.
FOREIGN_SECONDS = 900.0


class Claim:
    """Tells other processes that this one is folding a folder. It saves double work; nothing depends on it."""

    def __init__(self, folder: Folder) -> None:
        self._path = os.path.join(folder.path, "folding")
        self._maker = ""

    def acquire(self) -> bool:
        """Returns False if a process that may still be running holds the claim. Raises OSError if the folder cannot be
        written."""
        if not self._remove_abandoned():
            return False
        self._maker = owner.maker()
        prepared = f"{self._path}.{self._maker}{TEMPORARY}"
        os.mkdir(prepared, 0o700)
        try:
            os.mkdir(os.path.join(prepared, self._maker), 0o700)
            os.rename(prepared, self._path)
        except BaseException as error:
            remove_tree(prepared)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False  # another process was faster
            raise
        return True

    def _remove_abandoned(self) -> bool:
        """Removes the claims of processes that have ended. Returns False if another claim remains."""
        try:
            names = os.listdir(self._path)
        except FileNotFoundError:
            return True
        for name in names:
            path = os.path.join(self._path, name)
            try:
                if not owner.maker_has_ended(name, time.time() - os.stat(path).st_mtime, FOREIGN_SECONDS):
                    return False
                os.rmdir(path)
            except FileNotFoundError:
                continue  # another process removed it
        return True

    def release(self) -> None:
        """Releases the claim, so that others may fold. Does not remove a claim that another process has taken since."""
        for path in (os.path.join(self._path, self._maker), self._path):
            try:
                os.rmdir(path)
            except OSError:
                return
