"""Who folds a folder just now."""

from __future__ import annotations

import os
import time

from .. import flat
from . import owner
from .descriptors import OwnFile
from .files import TEMPORARY, read_small, remove, replace_file, write_all
from .folder import Folder


class Claim:
    """Says to other processes that this one folds a folder. Saves double work; nothing depends on it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._path = os.path.join(folder.path, "folding")

    def take(self) -> bool:
        """False where a living process holds it. Raises OSError where the folder cannot be written."""
        machine, pid, ticks = owner.this_process()
        mine = flat.dumps({"machine": machine.hex(), "pid": pid, "ticks": ticks}).encode()
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            if not self._abandoned():
                return False
            self._remove_left_packs()
            replace_file(self._path, mine)
            return True
        file = OwnFile(fd)
        try:
            write_all(file.fileno(), [mine])
        except BaseException:  # an empty claim would keep everybody from folding for a minute
            self.drop()
            raise
        finally:
            file.close()
        return True

    def _abandoned(self) -> bool:
        idle = 0.0
        try:
            idle = time.time() - os.stat(self._path).st_mtime
            values = flat.loads(read_small(self._path, 4096).decode())
            machine, pid, ticks = bytes.fromhex(values["machine"]), int(values["pid"]), int(values["ticks"])
        except FileNotFoundError:
            return False
        except (OSError, OverflowError, ValueError, KeyError, TypeError):
            return idle > 60  # not written yet, or by nobody
        return owner.has_ended(machine, pid, ticks, idle)

    def _remove_left_packs(self) -> None:
        """What the dead holder of the claim was writing."""
        for name in os.listdir(self._folder.path):
            if ".pack." in name and name.endswith(TEMPORARY):
                remove(os.path.join(self._folder.path, name))

    def drop(self) -> None:
        """Others may fold."""
        remove(self._path)
