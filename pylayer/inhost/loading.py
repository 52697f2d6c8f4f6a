"""The store on its way to the driver of one device: verified while the driver creates the device, then handed over."""

from __future__ import annotations

import time

from ..store.folder import Batch, Loaded
from ..values import KIND_NAMES, LOG_DEBUG, LOG_INFO, LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.format import Damage
    from .application_binaries import OwnBinaries
    from .application_caches import ApplicationCaches
    from .crashes import Crashes
    from .device import Device
    from .storing import Storing

#: Damaged records that the log names one by one.
NAMED_DAMAGE = 8


class StoreLoad:
    """``load_all``: records of every program, not of this one alone."""

    def __init__(
        self,
        device: Device,
        storing: Storing,
        crashes: Crashes,
        caches: ApplicationCaches,
        binaries: OwnBinaries,
        load_all: bool,
    ) -> None:
        self._device = device
        self._storing = storing
        self._crashes = crashes
        self._caches = caches
        self._binaries = binaries
        self._load_all = load_all
        self.loaded = Loaded()
        self.device_exists = False
        self.verify_ns = 0
        self.load_ns = 0
        #: Records that the driver and the layer's index took.
        self.records = 0
        #: The driver took all that was handed over.
        self.whole = False
        #: Everything was handed over.
        self.over = False
        #: Stored pipelines' binaries that the layer's index took, and those for which it had no room.
        self.indexed = 0
        self._not_indexed = 0
        #: The program's own binaries of earlier runs that the layer knows.
        self.attested_binaries = 0
        self._handed_over = 0
        self._snapshots: list[str] = []
        self._damage_said = False
        self._verified: Batch | None = None
        self._source: Iterator[Batch] | None = self._verify()

    # ---- piece by piece --------------------------------------------------------------------------

    def step(self) -> bool:
        """A piece of work of about a millisecond; False when there is nothing to do now."""
        if self._device.awaits_global_key and not self.device_exists:
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

    def give_up(self) -> None:
        """Nothing more is read or handed over."""
        self._source = None
        self._verified = None

    @property
    def finished(self) -> bool:
        """Everything was handed over, and ``finish`` can be called."""
        return self.device_exists and self._source is None and self._verified is None

    def _verify(self) -> Iterator[Batch]:
        yield from self._binaries.batches()
        device = self._device
        if device.folder is not None and device.will_keep:
            self.loaded.suspects = self._crashes.suspects
            yield from device.folder.load(None if self._load_all else device.program_id, self.loaded)
        yield from self._caches.batches_to_restore()

    def _hand_over(self, batch: Batch) -> None:
        """Publishes one batch for the driver."""
        device = self._device
        start = time.monotonic_ns()
        if batch.attested:
            self.attested_binaries += max(device.commands.load_attested(device.serial, batch.attested), 0)
        else:
            device.commands.load_records(device.serial, batch.data, batch.offsets, batch.sizes, batch.digests)
        if batch.binary_offsets and device.has_binaries:
            self._index(batch)
        self.load_ns += time.monotonic_ns() - start
        self._handed_over += len(batch.offsets)
        if batch.snapshot and batch.offsets:
            self._snapshots.append(batch.snapshot)

    def _index(self, batch: Batch) -> None:
        device = self._device
        indexed = device.commands.load_binaries(device.serial, batch.data, batch.binary_offsets, batch.binary_sizes)
        if indexed >= 0:
            self.indexed += indexed
            self._not_indexed += len(batch.binary_offsets) - indexed
        self.loaded.bytes += sum(batch.binary_sizes)

    # ---- the end ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """Everything was handed over: pipeline creations that wait go on."""
        device = self._device
        self.over = True
        for kind in range(len(KIND_NAMES)):
            if self.loaded.plain_kinds >> kind & 1:
                device.commands.make_plain(device.serial, kind)
        if self.loaded.stub and not device.has_binaries:
            device.give_up_stub("was found to keep nothing")
        device.commands.restorable(device.serial, self._caches.restorable_slots() if device.keeps else 0)
        start = time.monotonic_ns()
        taken = device.commands.load_done(device.serial)
        self.load_ns += time.monotonic_ns() - start
        self.records = max(taken, 0) + self.indexed
        self.whole = taken == self._handed_over
        if self.whole:
            self.loaded.snapshots += self._snapshots
        elif taken >= 0:
            device.log(LOG_WARN, f"the driver refused {self._handed_over - taken} stored records")
        self._say_what_came_of_it()

    def _say_what_came_of_it(self) -> None:
        device = self._device
        if self._not_indexed:
            device.log(
                LOG_INFO, f"{self._not_indexed} pipelines' binaries were not taken: binaries_mib is too small for them"
            )
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
        """Takes what could not be used into ``loaded.damage`` and empties the list. Until the load is over it is said
        with what the load found."""
        for what in damage if self._damage_said else ():
            if what.outcome != "unreadable" or self._storing.is_first(what.detail):
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
                # As a whole; that nothing is stored there either goes without saying.
                self._storing.failures_said |= {"write", "statistics"}
            if what.outcome == "unreadable":
                unreadable.setdefault(what.detail, []).append(what)
            else:
                damage.append(what)
        for detail, alike in unreadable.items():  # a disk that fails does so for every file
            if not self._storing.is_first(detail):
                continue
            more = f", nor {len(alike) - 1} more files" if len(alike) > 1 else ""
            log(LOG_WARN, f"not used: {alike[0]}{more}; their pipelines are compiled again")
        for what in damage[:NAMED_DAMAGE]:
            log(LOG_WARN, f"not used: {what}")
        if len(damage) > NAMED_DAMAGE:
            log(LOG_WARN, f"not used: {len(damage) - NAMED_DAMAGE} more damaged records")

    def damage_counts(self) -> dict[str, int]:
        """How often the load found each outcome; torn ends of journals, which are normal after a kill, among them."""
        counts: dict[str, int] = {}
        for what in (*self.loaded.damage, *self.loaded.torn):
            counts[what.outcome] = counts.get(what.outcome, 0) + 1
        return counts
