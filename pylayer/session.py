"""One device of the program: its identity, what was loaded for it, and what is kept of it.

Plain Python over a ``commands`` object, which is the ``boundary`` module in a program's process and a fake
in tests.
"""

from __future__ import annotations

import sys
import time

import xxhash

from . import __version__
from .application_caches import ApplicationCaches
from .crashes import Crashes
from .identity import Identity, program_id
from .recording import Recording
from .store import format
from .store.folder import Batch, Folder, Loaded, note_parts
from .store.recency import RECENT_SECONDS, used_parts
from .storing import Storing
from .values import (
    CARRIER_BINARIES,
    CARRIER_NAMES,
    CARRIER_OFF,
    CARRIERS_THAT_KEEP,
    CELL_ADOPTED,
    CELL_AFTER_LOAD,
    CELL_EMPTY,
    CELL_INTERNALS,
    KIND_NAMES,
    KINDS_THAT_COMPILE,
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    UNIT_BINARIES,
    BinaryRead,
    Cell,
    DeviceFacts,
    DeviceState,
    Program,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

    from .store.application_binaries import ApplicationBinaries
    from .store.attestation import Blob
    from .store.format import Damage

#: Pipelines that leave their cells empty, and none that does not, before a driver's cache counts as a stub; and
#: adoptions in vain before a kind is adopted no more.
STUB_EVIDENCE = 4
#: Counters that are worth a line of the log as soon as they are not zero.
WARNINGS = {
    "binaries_altered": "pipeline binaries that the program brought back are not as it read them",
    "binaries_stale": "pipeline binaries that the program brought back are of another driver or device",
    "binaries_refused": "vkCreatePipelineBinariesKHR failed for the program, because of such binaries",
    "binaries_evicted": "the driver could not create pipelines from stored binaries, and they were created anew",
}


class DeviceSession:
    """Everything policy holds for one VkDevice, from its plan to its end."""

    def __init__(
        self,
        commands: ModuleType,
        serial: int,
        program: Program,
        facts: DeviceFacts,
        root: str | None,
        share: str,
        settings: dict[str, Any],
    ) -> None:
        self.commands = commands
        self.serial = serial
        self.program = program
        self.facts = facts
        self.settings = settings
        self.identity = Identity.of(facts)
        self.program_id = program_id(program.executable, program.application)
        self.carrier_planned = CARRIER_OFF
        self.state: DeviceState | None = None
        self.loaded = Loaded()
        self.verify_ns = 0
        self.load_ns = 0
        self.load_records = 0
        self.wholly_loaded = False
        self._handed_over = 0
        #: Stored pipelines' binaries that the layer's index took, and those for which it had no room.
        self._indexed = 0
        self._not_indexed = 0
        self._snapshots_handed_over: list[str] = []
        self.stored_bytes = 0
        self.stored_records = 0
        self.lost_records = 0
        self.duplicates = 0
        self.reason = ""
        #: What is said of the user's policy class; the watchdog changes it in place.
        self.policy: dict[str, Any] = {}
        self._load_all = share == "all"
        #: Nothing is added to the store, changed in it or deleted from it, but for statistics of the run.
        self.read_only: bool = settings["store"] == "read-only"
        self.folder = self._open_folder(root) if root else None
        self.storing = self._new_storing()
        self._application_binaries: ApplicationBinaries | None = None
        self.attested_binaries = 0
        self._warned: set[str] = set()
        self._load_is_over = False
        self._load_damage_said = False
        self._uses_written: set[int] = set()
        #: What had been stored when folding and repairs were last asked for; None: not since the load.
        self.maintained_at: int | None = None
        self._snapshot_seen = (-1, -1)
        mib = int(settings["timeline_mib"])
        self.recording: Recording | None = None
        if root:
            self.recording = Recording(commands, serial, root, self.identity, program, self.program_id, mib)
        self._totals: dict[str, int] = {}
        self._own_digests: set[bytes] = set()
        self.crashes = self._watch_for_crashes()
        self.caches = self._new_caches()
        #: Too many processes died: the carrier is off.
        self.left_alone = False
        self._empty_cells = 0
        self._vain_adoptions: dict[int, int] = {}

    def log(self, level: int, text: str, **fields: str | int) -> None:
        """One line of the log."""
        self.commands.log(level, text, **fields)

    def use_global_key(self, global_key: bytes) -> bool:
        """The device has pipeline binaries, and their global key is part of the identity: what was read so far is
        another identity's. False where there is no such key."""
        if not global_key:
            return False
        self.identity = Identity.of(self.facts, global_key)
        if self.folder is not None:
            self.folder = self._open_folder(self.folder.root)
        if self.recording is not None:
            self.recording.use_identity(self.identity)
        self.loaded = Loaded()
        self.storing = self._new_storing()
        self.crashes = self._watch_for_crashes()
        self.caches = self._new_caches()
        self._application_binaries = None
        return True

    def _open_folder(self, root: str) -> Folder:
        folder = Folder(root, self.identity)
        older = None if self.read_only else folder.set_aside_older()
        if older is not None:
            self.log(
                LOG_WARN,
                f"an older pylayer wrote {folder.path}, in a format that this one does not read: it is now {older}, "
                "and pipelines are compiled again; pylayer clear --stale deletes it",
            )
        return folder

    @property
    def awaits_global_key(self) -> bool:
        """Whether the device will have pipeline binaries, whose global key is known when it exists: until then any
        other identity's folder would be read in vain."""
        return self.carrier_planned == CARRIER_BINARIES or self.facts.binaries_requested

    @property
    def checks_binaries(self) -> bool:
        """Whether what the program does with pipeline binaries of its own is looked at."""
        return self.settings["application_binaries"] != "pass" and self.facts.binaries_requested

    @property
    def _keeps(self) -> bool:
        """Whether there is a carrier: pipelines are stored, and stored ones used."""
        return self.state is not None and self.state.carrier in CARRIERS_THAT_KEEP

    @property
    def _has_binaries(self) -> bool:
        return self.state is not None and self.state.carrier == CARRIER_BINARIES

    # ---- loading ---------------------------------------------------------------------------------

    def verify(self) -> Iterator[Batch]:
        """Reads and verifies the store, batch by batch."""
        if self.checks_binaries and self.application_binaries is not None:
            for attested in self.application_binaries.load():
                known = Batch(b"")
                known.attested = attested
                yield known
            self._say_damage(self.application_binaries.damage)
        keeps = self.carrier_planned in CARRIERS_THAT_KEEP if self.state is None else self._keeps
        if self.folder is not None and keeps:
            self.loaded.suspects = self.crashes.suspects
            yield from self.folder.load(None if self._load_all else self.program_id, self.loaded)

        yield from self.caches.batches_to_restore()

    def hand_over(self, batch: Batch) -> None:
        """Publishes one batch for the driver."""
        start = time.monotonic_ns()
        if batch.attested:
            self.attested_binaries += max(self.commands.load_attested(self.serial, batch.attested), 0)
        else:
            self.commands.load_records(self.serial, batch.data, batch.offsets, batch.sizes, batch.digests)
        if batch.binary_offsets and self._has_binaries:
            self._load_binaries(batch)
        self.load_ns += time.monotonic_ns() - start
        self._handed_over += len(batch.offsets)
        if batch.snapshot and batch.offsets:
            self._snapshots_handed_over.append(batch.snapshot)

    def _load_binaries(self, batch: Batch) -> None:
        indexed = self.commands.load_binaries(self.serial, batch.data, batch.binary_offsets, batch.binary_sizes)
        if indexed >= 0:
            self._indexed += indexed
            self._not_indexed += len(batch.binary_offsets) - indexed
        self.loaded.bytes += sum(batch.binary_sizes)

    def load_finished(self) -> None:
        """Everything was handed over: pipeline creations that wait go on."""
        self._load_is_over = True
        for kind in range(len(KIND_NAMES)):
            if self.loaded.plain_kinds >> kind & 1:
                self.commands.make_plain(self.serial, kind)
        if self.loaded.stub and not self._has_binaries:
            self._stub("was found to keep nothing")
        self.commands.restorable(self.serial, self.caches.restorable_slots() if self._keeps else 0)
        start = time.monotonic_ns()
        taken = self.commands.load_done(self.serial)
        self.load_ns += time.monotonic_ns() - start
        self.load_records = max(taken, 0) + self._indexed
        self.wholly_loaded = taken == self._handed_over
        if self.wholly_loaded:
            self.loaded.snapshots += self._snapshots_handed_over
        elif taken >= 0:
            self.log(LOG_WARN, f"the driver refused {self._handed_over - taken} stored records")
        if self._not_indexed:
            self.log(
                LOG_INFO, f"{self._not_indexed} pipelines' binaries were not taken: binaries_mib is too small for them"
            )
        for what in self.loaded.torn:
            self.log(LOG_DEBUG, f"not used: {what}")
        self._say_load_damage()
        if self.recording is not None:
            self.recording.loaded(self.load_records, self.loaded.bytes)
        self.log(
            LOG_INFO,
            f"loaded {self.load_records} records, {self.loaded.bytes} bytes, for {self.program.name}",
            records=self.load_records,
            bytes=self.loaded.bytes,
            program=self.program.name,
            us=(self.verify_ns + self.load_ns) // 1000,
        )

    def _say_load_damage(self) -> None:
        self._load_damage_said = True
        damage = []
        unreadable: dict[str, list[Damage]] = {}
        for what in self.loaded.damage:
            if self.folder is not None and what.path == self.folder.path:
                # As a whole; that nothing is stored there either goes without saying.
                self.storing.failures_said |= {"write", "statistics"}
            if what.outcome == "unreadable":
                unreadable.setdefault(what.detail, []).append(what)
            else:
                damage.append(what)
        for detail, alike in unreadable.items():  # a disk that fails does so for every file
            if not self.storing.is_first(detail):
                continue
            more = f", nor {len(alike) - 1} more files" if len(alike) > 1 else ""
            self.log(LOG_WARN, f"not used: {alike[0]}{more}; their pipelines are compiled again")
        for what in damage[:8]:
            self.log(LOG_WARN, f"not used: {what}")
        if len(damage) > 8:
            self.log(LOG_WARN, f"not used: {len(damage) - 8} more damaged records")

    # ---- keeping ---------------------------------------------------------------------------------

    def _new_storing(self) -> Storing:
        interval = self.settings["fsync_interval_ms"]
        folder = None if self.read_only else self.folder
        return Storing(folder, self.identity, self.program_id, self.program.name, interval, self.log)

    def new_cell(self, cell: Cell) -> list[bytes | memoryview]:
        """The pieces to write for a cell, none where it is known already."""
        if cell.flags & CELL_EMPTY:
            self._empty_cell(cell)
            return []
        digest = xxhash.xxh3_128_digest(cell.data)
        if digest in self.loaded.digests:
            self._known_cell(cell)
            return []
        if not self.crashes.allows(digest, cell.fingerprint):
            return []
        if digest in self._own_digests:  # two threads compiled the same pipeline at once
            self.duplicates += 1
            return []
        self._own_digests.add(digest)
        self._uses_written.add(cell.fingerprint)
        if self.read_only:
            return []
        magic, flags = format.CELL, cell.flags & CELL_ADOPTED
        if cell.unit == UNIT_BINARIES:
            magic, flags = format.BINARIES, flags | self._compression_flag
        return format.record_parts(
            magic,
            cell.data,
            digest,
            cell.kind,
            flags,
            cell.create_ns,
            cell.fingerprint,
            int(time.time()),
        )

    @property
    def _compression_flag(self) -> int:
        """Of binaries alone: what the driver says of them it does not say of VkPipelineCache data."""
        return format.DRIVER_COMPRESSED if self.facts.binary_data_compressed else 0

    def write_cells(self, parts: list[bytes | memoryview]) -> None:
        """Stores the pieces that ``new_cell`` gave, in one write."""
        records = len(parts) // 3
        if not records:
            return
        if self.storing.write(parts):
            self.stored_records += records
            self.stored_bytes += sum(len(part) for part in parts)
        else:
            self.lost_records += records

    def _empty_cell(self, cell: Cell) -> None:
        """A linked pipeline or a library may rightly add nothing, and so may a single whole one; when the first
        ``STUB_EVIDENCE`` whole ones do, the driver's cache is a stub. Not where there are binaries, and not those that
        drivers keep out of their caches."""
        if cell.flags & CELL_ADOPTED:
            self._vain_adoption(cell)
            return
        if cell.flags & CELL_INTERNALS:
            return
        if self.loaded.stub or self._has_binaries or cell.kind not in KINDS_THAT_COMPILE:
            return
        self._empty_cells += 1
        if self._empty_cells >= STUB_EVIDENCE and not self.loaded.digests and not self._own_digests:
            self.storing.write(note_parts({"stub": True}))
            self._stub("keeps nothing")

    def _vain_adoption(self, cell: Cell) -> None:
        """An adopted cell is empty or known already: seen with NVIDIA's driver, whose feedback does not tell of
        libraries and fast links that they were found in our cache. The probe succeeded, so nothing is amiss."""
        self._vain_adoptions[cell.kind] = self._vain_adoptions.get(cell.kind, 0) + 1
        if self._vain_adoptions[cell.kind] == STUB_EVIDENCE:
            self.commands.stop_adopting(self.serial, cell.kind)
            self.log(LOG_DEBUG, f"{KIND_NAMES[cell.kind]} pipelines are adopted no more: nothing came of it")

    def _known_cell(self, cell: Cell) -> None:
        """The store had this very cell merged, and the probe missed all the same: probes never hit."""
        self.duplicates += 1
        if cell.unit == UNIT_BINARIES:  # evicted, or under a key that other pipelines have too: says nothing of probes
            return
        if cell.flags & CELL_ADOPTED:
            self._vain_adoption(cell)
            return
        if cell.flags & CELL_INTERNALS:
            return
        if self.wholly_loaded and cell.flags & CELL_AFTER_LOAD and not self.loaded.plain_kinds >> cell.kind & 1:
            self._plain(cell.kind, "the driver compiled what the store already held")

    def _plain(self, kind: int, why: str) -> None:
        self.loaded.plain_kinds |= 1 << kind
        self.commands.make_plain(self.serial, kind)
        self.storing.write(note_parts({"plain_kind": kind}))
        self.log(LOG_INFO, f"{KIND_NAMES[kind]} pipelines are created without a probe: {why}")

    def _stub(self, what: str) -> None:
        self.loaded.stub = True
        self.reason = f"this driver's VkPipelineCache {what}"
        self.commands.switch_off(self.serial)
        self.state = None
        self.log(LOG_INFO, f"{self.facts.device_name}: {self.reason}, so nothing can be stored; the layer stays out")

    # ---- crashes ---------------------------------------------------------------------------------

    def _watch_for_crashes(self) -> Crashes:
        return Crashes(self.folder, self.program_id, self.program, self.log, self.read_only)

    @property
    def needs_watching(self) -> bool:
        """Whether anything that is not the driver's own work of this run can be given to it."""
        mends = self.settings["application_caches"] not in ("pass", "report")
        return self._keeps or self.checks_binaries or mends

    def watch(self) -> None:
        """Makes the crash sentinel and tells the layer what to leave alone. The device exists; nothing stored was
        given to it."""
        suspects = self.crashes.suspects
        if suspects.too_many and self._keeps:
            self._leave_alone()
        elif suspects.pipelines_alone or suspects.kinds:
            self.commands.suspect(self.serial, suspects.pipelines_alone, suspects.kinds)
        self.crashes.open(lambda fd: int(self.commands.watch(self.serial, fd)))

    def _leave_alone(self) -> None:
        self.reason = "processes died again and again over what was stored for it"
        self.commands.switch_off(self.serial)
        assert self.state is not None
        self.state.carrier = CARRIER_OFF
        self.left_alone = True
        self.log(
            LOG_WARN,
            f"{self.facts.device_name}: {self.reason}, so the layer leaves it alone; "
            "pylayer quarantine ls shows what they died of, pylayer quarantine forget lets it begin again",
        )

    # ---- application caches ----------------------------------------------------------------------

    def _new_caches(self) -> ApplicationCaches:
        return ApplicationCaches(
            self.folder,
            self.program_id,
            self.program.name,
            self.settings,
            self.storing,
            self.crashes,
            self._say_damage,
            self.read_only,
        )

    def last_good(self, slot: int, any_slot: bool) -> Blob | None:
        """The last good data of an application's cache, if there is any that is not merged yet. Without a carrier there
        is no cache of the layer's to merge it into."""
        return self.caches.last_good(slot, any_slot) if self._keeps else None

    def restore(self, blob: Blob | None, load_expected: bool) -> bool:
        """Merges it into the layer's cache, from where it reaches the application's at its first miss.
        ``load_expected``: the layer waits for that, and waits no longer afterwards, whatever comes of it."""
        batch = None
        if blob is not None:
            if not self._load_is_over:
                self.caches.restore_later(blob)  # handed over with the store
            else:
                batch = self.caches.restore_now(blob)
        if batch is None:
            if load_expected:
                self.commands.load_cancel(self.serial)
            return blob is not None and not self._load_is_over
        self.commands.load_records(self.serial, batch.data, batch.offsets, batch.sizes, batch.digests)
        self.commands.load_done(self.serial)
        return True

    def _say_damage(self, damage: list[Damage]) -> None:
        for what in damage if self._load_damage_said else ():  # else it is said with what the load found
            if what.outcome != "unreadable" or self.storing.is_first(what.detail):
                self.log(LOG_WARN, f"not used: {what}")
        self.loaded.damage += damage
        damage.clear()

    # ---- the program's own pipeline binaries -------------------------------------------------------

    @property
    def application_binaries(self) -> ApplicationBinaries | None:
        """What the program read of its pipeline binaries in this and earlier runs; None without a store."""
        if self._application_binaries is None and self.folder is not None:
            from .store.application_binaries import ApplicationBinaries

            most = int(self.settings["keep_cache_mib"]) << 20
            self._application_binaries = ApplicationBinaries(
                self.folder, self.program_id, self.program.name, most, self.storing.syncer
            )
        return self._application_binaries

    def new_binary(self, read: BinaryRead) -> list[bytes | memoryview]:
        """The pieces to write for a binary that the program read, none where it is known already."""
        if not self.checks_binaries or self.application_binaries is None or self.storing.paused or self.read_only:
            return []
        return self.application_binaries.new(read, self.settings["application_binaries"] == "restore")

    def write_binaries(self, parts: list[bytes | memoryview]) -> None:
        """Stores the pieces that ``new_binary`` gave, in one write."""
        if not parts or self.application_binaries is None:
            return
        try:
            self.application_binaries.write(parts)
        except OSError as error:
            self.storing.failed(error)

    def warn(self, counters: dict[str, int]) -> None:
        """Says once of each thing that should not be that it was."""
        for name, text in WARNINGS.items():
            if counters[name] and name not in self._warned:
                self._warned.add(name)
                self.log(LOG_WARN, f"{text} ({counters[name]} so far)")

    # ---- snapshot --------------------------------------------------------------------------------

    def snapshot_wanted(self, counters: dict[str, int]) -> bool:
        """Whether something may have been compiled that is in no cell."""
        if not self._keeps:
            return False
        assert self.state is not None
        told = counters["plain_compiled"] if self.state.feedback else counters["plain"]
        return told + counters["absorbed"] > 0

    def snapshot(self, counters: dict[str, int]) -> None:
        """Keeps the whole of the layer's cache where it holds more than the last snapshot."""
        seen = (counters["plain"], counters["absorbed"])
        if self.folder is None or not self.snapshot_wanted(counters) or seen == self._snapshot_seen:
            return
        if self.storing.paused or self.read_only:
            return
        self._snapshot_seen = seen
        data = self.commands.read_merged(self.serial)
        if not data or (self.state and len(data) <= self.state.empty_cache_bytes):
            return
        digest = xxhash.xxh3_128_digest(data)
        if digest in self.loaded.digests or digest in self._own_digests:
            return
        try:
            path = self.folder.write_snapshot(self.program_id, self.program.name, data, counters["plain_ns"])
        except OSError as error:
            self._snapshot_seen = (-1, -1)
            self.storing.failed(error)
            return
        self._own_digests.add(digest)
        self.crashes.given_out(digest)
        self.storing.syncer.replaced(path, list(self.loaded.snapshots))
        self.loaded.snapshots = [path]
        self.stored_records += 1
        self.stored_bytes += len(data)
        self.log(LOG_DEBUG, f"snapshot of {len(data)} bytes")

    # ---- recency ---------------------------------------------------------------------------------

    def write_uses(self) -> None:
        """Records which pipelines this run created, as far as no run did within a day (store/recency.py)."""
        if self.folder is None or not self._keeps:
            return
        if self.storing.paused or self.read_only:
            return
        seen = self.commands.fingerprints(self.serial)
        if not seen:
            return
        fingerprints = {int.from_bytes(seen[at : at + 8], sys.byteorder) for at in range(0, len(seen), 8)}
        new = sorted(fingerprints - self._uses_written - self.loaded.used.keys())
        now = int(time.time())
        marked = now - self.loaded.last_run < RECENT_SECONDS
        if not new and marked:
            return
        try:
            self.storing.append(used_parts(new, now))
        except OSError as error:  # a store that is only read: nothing is lost but the order in which records leave
            self.log(LOG_DEBUG, f"uses are not recorded: {error.strerror or error}")
            return
        self._uses_written.update(new)
        self.loaded.last_run = now

    @property
    def wants_maintenance(self) -> bool:
        """Once after the load, and again when a journal's worth was stored."""
        if not self.wholly_loaded:
            return False
        return self.maintained_at is None or self.stored_bytes - self.maintained_at >= format.MAX_JOURNAL_BYTES

    # ---- statistics ------------------------------------------------------------------------------

    def read_counters(self) -> dict[str, int]:
        """The device's totals; the last ones known when it is gone."""
        totals = self.commands.counters(self.serial)
        if totals is not None:
            self._totals = totals
        return self._totals

    def write_run(self) -> bool:
        """Puts the run's statistics where `pylayer stats` and `pylayer top` find them; whether anything is new."""
        totals = self._totals
        if self.recording is None or self.folder is None or not totals:
            return False
        try:
            return self.recording.write(
                {
                    "version": 1,
                    "pylayer": __version__,
                    "program": self.program.name,
                    "executable": self.program.executable,
                    "application": self.program.application,
                    "engine": self.program.engine,
                    "identity": self.identity.name,
                    "device": self.facts.device_name,
                    "driver": self.facts.driver_name,
                    "driver_info": self.facts.driver_info,
                    "carrier": CARRIER_NAMES[self.state.carrier] if self.state else "off",
                    "reason": self.reason,
                    "counters": totals,
                    "refused": self.caches.refused,
                    "cache_outcomes": self.caches.outcomes,
                    "restored_caches": self.caches.restored,
                    "duplicates": self.duplicates,
                    "loaded_records": self.load_records,
                    "loaded_bytes": self.loaded.bytes,
                    "loaded_binaries": self._indexed,
                    "attested_binaries": self.attested_binaries,
                    "verify_ns": self.verify_ns,
                    "load_ns": self.load_ns,
                    "damaged_records": len(self.loaded.damage),
                    "damage": self._damage_counts(),
                    "mean_compile_ns": self.loaded.mean_create_ns,
                    "stored_records": self.stored_records,
                    "stored_bytes": self.stored_bytes,
                    "write_errors": self.storing.errors,
                    "lost_records": self.lost_records,
                    "left_out": self.crashes.left_out,
                    "policy": self.policy,
                },
                totals,
                self.folder.path,
            )
        except OSError as error:
            if self.read_only:
                return False
            self.storing.errors += 1
            if "write" not in self.storing.failures_said and self.storing.is_first("statistics"):
                self.log(LOG_WARN, f"statistics cannot be written: {error.strerror or error}")
            return False

    def _damage_counts(self) -> dict[str, int]:
        """How often the load found each outcome; torn ends of journals, which are normal after a kill, among them."""
        counts: dict[str, int] = {}
        for what in (*self.loaded.damage, *self.loaded.torn):
            counts[what.outcome] = counts.get(what.outcome, 0) + 1
        return counts

    def close(self) -> None:
        """Ends the files that this device wrote. What the fsync policy wants on the disk is there, or under way."""
        self.crashes.close()
        self.storing.close()
        self.caches.close()
        if self.recording is not None:
            self.recording.close()
        if self._application_binaries is not None:
            self._application_binaries.close()
        self.storing.wait()
