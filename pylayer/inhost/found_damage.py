"""Damage that was found in one device's folder of the store: who is told of it, and what maintenance repairs."""

from __future__ import annotations

import os

from ..common import file_kinds
from ..store.format import Damage
from ..store.reader import parts_of
from ..values import LOG_DEBUG, LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .device import Device
    from .journal_writer import JournalWriter

#: Of one file, the log names at most this many damaged records one by one.
NAMED_DAMAGE = 8


class FoundDamage:
    """What a run found."""

    def __init__(self, device: Device, writer: JournalWriter) -> None:
        self._device = device
        self._writer = writer
        self.damage: list[Damage] = []
        #: Tails that are still being written, or whose writer died. Each loses only itself.
        self._torn: list[Damage] = []
        self._verified: set[str] = set()

    def check_folder(self) -> None:
        """Makes the folder, unless the store is read-only. Says why it cannot be used, if that is so."""
        folder = self._device.folder
        if folder is None:
            return
        try:
            if not self._device.read_only:
                folder.prepare()
        except OSError as error:
            self._device.log(LOG_DEBUG, f"{folder.path} cannot be made: {error.strerror or error}")
        problem = folder.problem()
        if problem is not None:
            # Nothing can be stored in it either, which need not be logged, too.
            self._writer.failures_said |= {"write", "statistics"}
            self.say([problem])
        system: list[Damage] = []
        folder.system_packs(self._device.program_id, system)
        for what in system:  # nobody here can repair it
            self._device.log(LOG_WARN, f"not used: {what}")

    def verify_file(self, name: str) -> None:
        """Says what is wrong with a file of which the layer could not use all."""
        folder = self._device.folder
        if folder is None or os.path.basename(name) != name or name in self._verified:
            return
        self._verified.add(name)  # the layer tells of it again if policy had to look into the folder first
        found: list[Damage] = []
        for _ in parts_of(os.path.join(folder.path, name), folder.identity.digest, found):
            pass
        self._torn += [what for what in found if what.is_torn_end]
        self.say([what for what in found if not what.is_torn_end])

    def say(self, damage: list[Damage]) -> None:
        """Logs damage, and moves it from the list into ``damage``. A failing disk fails for each file, and is logged
        once."""
        new = [what for what in damage if what.outcome != "unreadable" or self._writer.is_first(what.detail)]
        for what in new[:NAMED_DAMAGE]:
            pipelines = not what.path.endswith(file_kinds.ATTEST)
            after = "; what it holds is compiled again" if what.outcome == "unreadable" and pipelines else ""
            self._device.log(LOG_WARN, f"not used: {what}{after}")
        if len(new) > NAMED_DAMAGE:
            self._device.log(LOG_WARN, f"not used: {len(new) - NAMED_DAMAGE} more damaged records")
        self.damage += damage
        damage.clear()

    def counts(self) -> dict[str, int]:
        """Returns how often each kind of damage was found. Includes torn ends of journals, which are normal after a
        kill."""
        counts: dict[str, int] = {}
        for what in (*self.damage, *self._torn):
            counts[what.outcome] = counts.get(what.outcome, 0) + 1
        return counts
