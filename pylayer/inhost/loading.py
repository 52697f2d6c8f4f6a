"""Loads the store for one device: verifies it while the driver creates the device, then hands it to the layer."""

from __future__ import annotations

import os
import time

from ..store.folder import Batch, Loaded
from ..store.format import Damage
from ..store.reader import parts_of
from ..values import LOG_DEBUG, LOG_INFO, LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..values import DeviceState
    from .device import Device
    from .journal_writer import JournalWriter
    from .learning import Learning

#: The log names at most this many damaged records one by one.
NAMED_DAMAGE = 8


class StoreLoad:
    """The load of one device at its creation. ``load_all``: load records of every program, not only of this one."""

    def __init__(
        self,
        device: Device,
        writer: JournalWriter,
        learning: Learning,
        load_all: bool,
    ) -> None:
        self._device = device
        self._writer = writer
        self._learning = learning
        self._load_all = load_all
        self.loaded = Loaded()
        self.device_exists = False
        self.verify_ns = 0
        self.load_ns = 0
        #: Number of records that the driver and the layer's index took.
        self.records = 0
        #: The layer has a kept plan with which it may read the store itself, and says so once the device exists.
        self.layer_may_read = False
        #: The driver took all records that were handed over.
        self.whole = False
        #: Number of binaries records that the layer's index took.
        self.indexed = 0
        self._handed_over = 0
        self._damage_said = False
        self._verified: Batch | None = None
        self._source: Iterator[Batch] | None = self._verify()

    # ---- piece by piece --------------------------------------------------------------------------

    def step(self) -> bool:
        """Does a piece of work of about a millisecond. Returns False if there is nothing to do now."""
        if self.layer_may_read and not self.device_exists:
            return False
        if self._verified is None and self._source is not None:
            start = time.monotonic_ns()
            self._verified = next(self._source, None)
            self.verify_ns += time.monotonic_ns() - start
            if self._verified is None:
                self._source = None
            elif not self.device_exists:
                return True
        if self._verified is None or not self.device_exists:
            return False
        batch, self._verified = self._verified, None
        self._hand_over(batch)
        return True

    def leave_to_layer(self, state: DeviceState) -> None:
        """Ends the load before it began: the layer reads stored cells itself, when the program creates their
        pipelines."""
        device = self._device
        self.abandon()
        self.whole = True
        self.loaded.stored_cells = state.stored_cells
        if state.used_recently:
            self.loaded.last_run = self.loaded.now
        self._say_load_damage()
        device.log(
            LOG_INFO,
            f"{state.stored_cells} stored records for {device.program.name}, read when it creates their pipelines",
            records=state.stored_cells,
            program=device.program.name,
        )

    def verify_file(self, name: str) -> None:
        """Says what is wrong with a file of which the layer could not use all, for maintenance to repair."""
        folder = self._device.folder
        if folder is None or os.path.basename(name) != name:
            return
        damage: list[Damage] = []
        path = os.path.join(folder.path, name)
        for _ in parts_of(path, folder.identity.digest, damage):
            pass
        self.loaded.torn += [what for what in damage if what.is_torn_end]
        self.say_damage([what for what in damage if not what.is_torn_end])

    def abandon(self) -> None:
        """Abandons the load: nothing more is read or handed over."""
        self._source = None
        self._verified = None

    @property
    def finished(self) -> bool:
        """Whether everything was handed over, so that ``finish`` can be called."""
        return self.device_exists and self._source is None and self._verified is None

    def _verify(self) -> Iterator[Batch]:
        device = self._device
        if device.folder is not None and device.will_keep:
            self.loaded.verdicts = self._learning.known
            yield from device.folder.load(None if self._load_all else device.program_id, self.loaded)

    def _hand_over(self, batch: Batch) -> None:
        """Hands one batch to the layer, which gives its records to the driver."""
        device = self._device
        start = time.monotonic_ns()
        device.commands.load_records(device.serial, batch)
        if batch.binary_offsets and device.has_binaries:
            self.indexed += max(device.commands.load_binaries(device.serial, batch), 0)
            self.loaded.bytes += sum(batch.binary_sizes)
        self.load_ns += time.monotonic_ns() - start
        self._handed_over += len(batch.offsets)

    # ---- the end ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """Ends the load after everything was handed over: waiting pipeline creations go on."""
        device = self._device
        start = time.monotonic_ns()
        taken = device.commands.load_done(device.serial)
        self.load_ns += time.monotonic_ns() - start
        self.records = max(taken, 0) + self.indexed
        self.whole = taken == self._handed_over
        self._say_what_came_of_it()

    def _say_what_came_of_it(self) -> None:
        device = self._device
        for what in self.loaded.torn:
            device.log(LOG_DEBUG, f"not used: {what}")
        self._say_load_damage()
        device.log(
            LOG_INFO,
            f"loaded {self.records} records, {self.loaded.bytes} bytes, for {device.program.name}",
            records=self.records,
            bytes=self.loaded.bytes,
            program=device.program.name,
            us=(self.verify_ns + self.load_ns) // 1000,
        )

    # ---- damage ----------------------------------------------------------------------------------

    def say_damage(self, damage: list[Damage]) -> None:
        """Moves damage from the list into ``loaded.damage``. During the load it is logged later, together with damage
        that the load finds; afterwards at once."""
        for what in damage if self._damage_said else ():
            if what.outcome != "unreadable" or self._writer.is_first(what.detail):
                self._device.log(LOG_WARN, f"not used: {what}")
        self.loaded.damage += damage
        damage.clear()

    def _say_load_damage(self) -> None:
        self._damage_said = True
        folder, log = self._device.folder, self._device.log
        damage = []
        unreadable: dict[str, list[Damage]] = {}
        for what in self.loaded.damage:
            if folder is not None and what.path == folder.path:
                # The whole folder cannot be used. Do not also log that nothing can be stored in it.
                self._writer.failures_said |= {"write", "statistics"}
            if what.outcome == "unreadable":
                unreadable.setdefault(what.detail, []).append(what)
            else:
                damage.append(what)
        for detail, alike in unreadable.items():  # one line for all files: a failing disk fails for each of them
            if not self._writer.is_first(detail):
                continue
            more = f", and {len(alike) - 1} more files" if len(alike) > 1 else ""
            log(LOG_WARN, f"not used: {alike[0]}{more}; their pipelines are compiled again")
        damage += self.loaded.system_damage
        for what in damage[:NAMED_DAMAGE]:
            log(LOG_WARN, f"not used: {what}")
        if len(damage) > NAMED_DAMAGE:
            log(LOG_WARN, f"not used: {len(damage) - NAMED_DAMAGE} more damaged records")

    def damage_counts(self) -> dict[str, int]:
        """Returns how often the load found each kind of damage. Includes torn ends of journals, which are normal after
        a kill."""
        counts: dict[str, int] = {}
        for what in (*self.loaded.damage, *self.loaded.torn):
            counts[what.outcome] = counts.get(what.outcome, 0) + 1
        return counts
