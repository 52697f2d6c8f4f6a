"""Who folds a folder just now.

    <root>/store/<identity>/folding/<maker>

A directory in which an empty directory is named after the process that holds the claim. Two calls decide, on network
file systems too: a rename onto a directory that is not empty fails, so one of several processes gets the claim; and no
name of a maker is ever made twice, so nobody removes another claim than the one that was found to be abandoned.
"""

from __future__ import annotations

import errno
import os
import time

from . import owner
from .files import TEMPORARY, remove, remove_directory
from .folder import Folder


class Claim:
    """Says to other processes that this one folds a folder. Saves double work; nothing depends on it."""

    def __init__(self, folder: Folder) -> None:
        self._path = os.path.join(folder.path, "folding")
        self._maker = ""

    def take(self) -> bool:
        """False where a process that may live holds it. Raises OSError where the folder cannot be written."""
        if not self._remove_abandoned():
            return False
        self._maker = owner.maker()
        prepared = f"{self._path}.{self._maker}{TEMPORARY}"
        os.mkdir(prepared, 0o700)
        try:
            os.mkdir(os.path.join(prepared, self._maker), 0o700)
            os.rename(prepared, self._path)
        except BaseException as error:
            remove_directory(prepared)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False  # another process was faster
            raise
        return True

    def _remove_abandoned(self) -> bool:
        """Removes the claims of processes that have ended; False where there is another."""
        try:
            names = os.listdir(self._path)
        except FileNotFoundError:
            return True
        except NotADirectoryError:
            return remove(self._path)  # an earlier pylayer made a file
        for name in names:
            path = os.path.join(self._path, name)
            try:
                if not owner.maker_has_ended(name, time.time() - os.stat(path).st_mtime):
                    return False
                os.rmdir(path)
            except FileNotFoundError:
                continue  # another process did it
        return True

    def drop(self) -> None:
        """Others may fold. Leaves a claim that another process took meanwhile."""
        for path in (os.path.join(self._path, self._maker), self._path):
            try:
                os.rmdir(path)
            except OSError:
                return
