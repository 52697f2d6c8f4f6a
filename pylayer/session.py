"""One device of the program: its identity, what was loaded for it, and what is kept of it.

Plain Python over a ``commands`` object, which is the ``boundary`` module in a program's process and a fake
in tests.
"""

from __future__ import annotations

import os
import sys
import time

import xxhash

from . import __version__
from .crashes import Crashes
from .identity import Identity, program_id
from .store import format, runs
from .store.folder import Batch, Folder, Loaded, note_parts
from .store.journal import Journal
from .store.recency import RECENT_SECONDS, used_parts
from .store.syncing import Syncer
from .values import (
    CARRIER_BINARIES,
    CARRIER_NAMES,
    CARRIER_OFF,
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
    CacheData,
    CacheRead,
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
    from .store.attestation import Attestations, Blob
    from .store.format import Damage

#: A failed write is tried again after this long; until then cells are counted as lost.
RETRY_SECONDS = 10.0
#: vkDestroyDevice and exit() wait for the disk at most this long.
CLOSE_SYNC_SECONDS = 0.5
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
        self.write_errors = 0
        #: What the log said once already of the store's failures.
        self._failures_said: set[str] = set()
        self.lost_records = 0
        self.duplicates = 0
        self.refused: dict[str, int] = {}
        self.cache_outcomes: dict[str, int] = {}
        self.restored_caches = 0
        self.reason = ""
        #: What is said of the user's policy class; the watchdog changes it in place.
        self.policy: dict[str, Any] = {}
        self.started = time.time()
        self._load_all = share == "all"
        self.folder = Folder(root, self.identity) if root else None
        self._journal: Journal | None = None
        interval = settings["fsync_interval_ms"]
        self._syncer = Syncer(None if interval is None else interval / 1000, self._sync_failed)
        self._attestations: Attestations | None = None
        self._application_binaries: ApplicationBinaries | None = None
        self.attested_binaries = 0
        self._warned: set[str] = set()
        #: The last good data of application caches, to be merged into the layer's.
        self._to_restore: list[Blob] = []
        self._restored: set[bytes] = set()
        self._load_is_over = False
        self._load_damage_said = False
        self._uses_written: set[int] = set()
        #: What had been stored when folding and repairs were last asked for; None: not since the load.
        self.maintained_at: int | None = None
        self._retry_at = 0.0
        self._snapshot_seen = (-1, -1)
        self._run = runs.RunFile(root) if root else None
        self._totals: dict[str, int] = {}
        self._own_digests: set[bytes] = set()
        self.crashes = self._watch_for_crashes()
        #: Too many processes died: the carrier is off.
        self.left_alone = False
        self._empty_cells = 0
        self._vain_adoptions: dict[int, int] = {}

    def log(self, level: int, text: str) -> None:
        """One line of the log."""
        self.commands.log(level, text)

    def use_global_key(self, global_key: bytes) -> bool:
        """The device has pipeline binaries, and their global key is part of the identity: what was read so far is
        another identity's. False where there is no such key."""
        if not global_key:
            return False
        self.identity = Identity.of(self.facts, global_key)
        if self.folder is not None:
            self.folder = Folder(self.folder.root, self.identity)
        self.loaded = Loaded()
        self.crashes = self._watch_for_crashes()
        self._attestations = None
        self._application_binaries = None
        return True

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
        off = self.state is not None and self.state.carrier == CARRIER_OFF
        if self.folder is not None and not off:
            self.loaded.suspects = self.crashes.suspects
            yield from self.folder.load(None if self._load_all else self.program_id, self.loaded)

        while self._to_restore:
            batch = self._read_for_restoring(self._to_restore.pop())
            if batch is not None:
                yield batch

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
        slots = 0
        if self._may_restore and self.attestations is not None:
            slots = sum(1 << slot for slot in self.attestations.blobs if slot < 64)
        self.commands.restorable(self.serial, slots)
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
        self.log(LOG_INFO, f"loaded {self.load_records} records, {self.loaded.bytes} bytes, for {self.program.name}")

    def _say_load_damage(self) -> None:
        self._load_damage_said = True
        damage = []
        unreadable: dict[str, list[Damage]] = {}
        for what in self.loaded.damage:
            if self.folder is not None and what.path == self.folder.path:
                # As a whole; that nothing is stored there either goes without saying.
                self._failures_said |= {"write", "statistics"}
            if what.outcome == "unreadable":
                unreadable.setdefault(what.detail, []).append(what)
            else:
                damage.append(what)
        for detail, alike in unreadable.items():  # a disk that fails does so for every file
            if not self._is_first(detail):
                continue
            more = f", nor {len(alike) - 1} more files" if len(alike) > 1 else ""
            self.log(LOG_WARN, f"not used: {alike[0]}{more}; their pipelines are compiled again")
        for what in damage[:8]:
            self.log(LOG_WARN, f"not used: {what}")
        if len(damage) > 8:
            self.log(LOG_WARN, f"not used: {len(damage) - 8} more damaged records")

    # ---- keeping ---------------------------------------------------------------------------------

    def _write(self, parts: list[bytes | memoryview]) -> bool:
        if self.folder is None or time.monotonic() < self._retry_at:
            return False
        try:
            try:
                self._append(self.folder, parts)
            except FileNotFoundError:
                self._journal = None  # somebody removed the folder; what he removed is gone, what follows is not
                self._append(self.folder, parts)
            return True
        except OSError as error:
            self._journal = None
            self._write_failed(error)
            return False

    def _append(self, folder: Folder, parts: list[bytes | memoryview]) -> None:
        if self._journal is None:
            folder.prepare()
            self._journal = Journal(folder.path, self.identity, self.program_id, self.program.name)
        self._journal.append(parts)
        self._syncer.written(self._journal)

    def _write_failed(self, error: OSError) -> None:
        assert self.folder is not None
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self.write_errors += 1
        if self._is_first("write"):
            self.log(
                LOG_WARN,
                f"pipelines cannot be stored in {self.folder.path}: {error.strerror or error}; "
                "the program goes on, and storing is tried again",
            )

    def _is_first(self, failure: str) -> bool:
        first = failure not in self._failures_said
        self._failures_said.add(failure)
        return first

    def _sync_failed(self, error: OSError) -> None:
        assert self.folder is not None
        self.log(
            LOG_WARN,
            f"what was stored in {self.folder.path} may not be on the disk: {error.strerror or error}; "
            "a power failure would lose it",
        )

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
        if self._write(parts):
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
            self._write(note_parts({"stub": True}))
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
        self._write(note_parts({"plain_kind": kind}))
        self.log(LOG_INFO, f"{KIND_NAMES[kind]} pipelines are created without a probe: {why}")

    def _stub(self, what: str) -> None:
        self.loaded.stub = True
        self.reason = f"this driver's VkPipelineCache {what}"
        self.commands.switch_off(self.serial)
        self.state = None
        self.log(LOG_INFO, f"{self.facts.device_name}: {self.reason}, so nothing can be stored; the layer stays out")

    # ---- crashes ---------------------------------------------------------------------------------

    def _watch_for_crashes(self) -> Crashes:
        return Crashes(self.folder, self.program_id, self.program, self.log)

    @property
    def needs_watching(self) -> bool:
        """Whether anything that is not the driver's own work of this run can be given to it."""
        keeps = self.state is not None and self.state.carrier != CARRIER_OFF
        return keeps or self.checks_binaries or self.settings["application_caches"] != "pass"

    def watch(self) -> None:
        """Makes the crash sentinel and tells the layer what to leave alone. The device exists; nothing stored was
        given to it."""
        suspects = self.crashes.suspects
        if suspects.too_many and self.state is not None and self.state.carrier != CARRIER_OFF:
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

    @property
    def attestations(self) -> Attestations | None:
        """What the program read of its caches in this and earlier runs; None without a store."""
        if self._attestations is None and self.folder is not None:
            from .store.attestation import Attestations

            self._attestations = Attestations(self.folder, self.program_id, self.program.name, self._syncer)
            self._say_damage(self._attestations.damage)
        return self._attestations

    def attested(self, data: CacheData) -> str:
        """What is known of initial data: one of ``attestation.OUTCOMES``."""
        attestations = self.attestations if self.settings["application_caches"] == "attest" else None
        if attestations is None or data.data_is_null or data.data_size == 0:
            return "unknown"
        return attestations.outcome(data.digest, data.data_size)

    def cache_outcome(self, outcome: str, refused: bool) -> None:
        """Counts what became of an application's initial data."""
        counts = self.refused if refused else self.cache_outcomes
        counts[outcome] = counts.get(outcome, 0) + 1

    def cache_read(self, read: CacheRead) -> None:
        """The program read one of its caches: what it loads later can be compared with this."""
        self.crashes.given_out(read.digest)
        attestations = self.attestations if self.settings["application_caches"] == "attest" else None
        if attestations is None or time.monotonic() < self._retry_at:
            return
        try:
            attestations.attest(read.digest, read.size, read.slot, read.incomplete)
            if read.data is not None and not read.incomplete:
                attestations.keep(read.digest, read.slot, read.data)
        except OSError as error:
            self._write_failed(error)

    def keeps(self, data: CacheData) -> bool:
        """Whether a copy of this initial data is kept, so that the layer need not send it again when it is read."""
        return self._attestations is not None and self._attestations.has(data.digest)

    @property
    def _may_restore(self) -> bool:
        wanted = self.settings["seed_application_caches"] and self.settings["application_caches"] == "attest"
        return wanted and self.state is not None and self.state.carrier != CARRIER_OFF

    def last_good(self, slot: int, any_slot: bool) -> Blob | None:
        """The last good data of an application's cache, if there is any that is not merged yet."""
        attestations = self.attestations if self._may_restore else None
        blob = attestations.last_good(slot, any_slot) if attestations is not None else None
        if blob is None or blob.digest in self._restored or self.crashes.suspects.takes_application_data(blob.digest):
            return None
        return blob

    def restore(self, blob: Blob | None, load_expected: bool) -> bool:
        """Merges it into the layer's cache, from where it reaches the application's at its first miss.
        ``load_expected``: the layer waits for that, and waits no longer afterwards, whatever comes of it."""
        batch = None
        if blob is not None:
            self._restored.add(blob.digest)
            if not self._load_is_over:
                self._to_restore.append(blob)  # handed over with the store
            else:
                batch = self._read_for_restoring(blob)
        if batch is None:
            if load_expected:
                self.commands.load_cancel(self.serial)
            return blob is not None and not self._load_is_over
        self.commands.load_records(self.serial, batch.data, batch.offsets, batch.sizes, batch.digests)
        self.commands.load_done(self.serial)
        return True

    def _read_for_restoring(self, blob: Blob) -> Batch | None:
        assert self._attestations is not None
        data = self._attestations.read_blob(blob)
        if data is None:
            self._say_damage(self._attestations.damage)
            return None
        self.restored_caches += 1
        batch = Batch(data)
        batch.offsets.append(0)
        batch.sizes.append(len(data))
        batch.digests.append(blob.digest)
        return batch

    def _say_damage(self, damage: list[Damage]) -> None:
        for what in damage if self._load_damage_said else ():  # else it is said with what the load found
            if what.outcome != "unreadable" or self._is_first(what.detail):
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
                self.folder, self.program_id, self.program.name, most, self._syncer
            )
        return self._application_binaries

    def new_binary(self, read: BinaryRead) -> list[bytes | memoryview]:
        """The pieces to write for a binary that the program read, none where it is known already."""
        if not self.checks_binaries or self.application_binaries is None or time.monotonic() < self._retry_at:
            return []
        return self.application_binaries.new(read, self.settings["application_binaries"] == "restore")

    def write_binaries(self, parts: list[bytes | memoryview]) -> None:
        """Stores the pieces that ``new_binary`` gave, in one write."""
        if not parts or self.application_binaries is None:
            return
        try:
            self.application_binaries.write(parts)
        except OSError as error:
            self._write_failed(error)

    def warn(self, counters: dict[str, int]) -> None:
        """Says once of each thing that should not be that it was."""
        for name, text in WARNINGS.items():
            if counters[name] and name not in self._warned:
                self._warned.add(name)
                self.log(LOG_WARN, f"{text} ({counters[name]} so far)")

    # ---- snapshot --------------------------------------------------------------------------------

    def snapshot_wanted(self, counters: dict[str, int]) -> bool:
        """Whether something may have been compiled that is in no cell."""
        if self.state is None or self.state.carrier == CARRIER_OFF:
            return False
        told = counters["plain_compiled"] if self.state.feedback else counters["plain"]
        return told + counters["absorbed"] > 0

    def snapshot(self, counters: dict[str, int]) -> None:
        """Keeps the whole of the layer's cache where it holds more than the last snapshot."""
        seen = (counters["plain"], counters["absorbed"])
        if self.folder is None or not self.snapshot_wanted(counters) or seen == self._snapshot_seen:
            return
        if time.monotonic() < self._retry_at:
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
            self._write_failed(error)
            return
        self._own_digests.add(digest)
        self.crashes.given_out(digest)
        self._syncer.replaced(path, list(self.loaded.snapshots))
        self.loaded.snapshots = [path]
        self.stored_records += 1
        self.stored_bytes += len(data)
        self.log(LOG_DEBUG, f"snapshot of {len(data)} bytes")

    # ---- recency ---------------------------------------------------------------------------------

    def write_uses(self) -> None:
        """Records which pipelines this run created, as far as no run did within a day (store/recency.py)."""
        if self.folder is None or self.state is None or self.state.carrier == CARRIER_OFF:
            return
        if time.monotonic() < self._retry_at:
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
            self._append(self.folder, used_parts(new, now))
        except OSError as error:  # a store that is only read: nothing is lost but the order in which records leave
            self._journal = None
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

    def sync(self) -> None:
        """Puts what was written on the disk itself, by a thread of its own."""
        if self._journal is not None:
            self._syncer.start(self._journal)

    # ---- statistics ------------------------------------------------------------------------------

    def read_counters(self) -> dict[str, int]:
        """The device's totals; the last ones known when it is gone."""
        totals = self.commands.counters(self.serial)
        if totals is not None:
            self._totals = totals
        return self._totals

    def write_run(self) -> None:
        """Puts the run's statistics where `pylayer stats` finds them."""
        totals = self._totals
        if self._run is None or not totals:
            return
        try:
            self._run.write(
                {
                    "version": 1,
                    "pylayer": __version__,
                    "pid": os.getpid(),
                    "started": self.started,
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
                    "refused": self.refused,
                    "cache_outcomes": self.cache_outcomes,
                    "restored_caches": self.restored_caches,
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
                    "write_errors": self.write_errors,
                    "lost_records": self.lost_records,
                    "left_out": self.crashes.left_out,
                    "policy": self.policy,
                }
            )
        except OSError as error:
            self.write_errors += 1
            if "write" not in self._failures_said and self._is_first("statistics"):
                self.log(LOG_WARN, f"statistics cannot be written: {error.strerror or error}")

    def _damage_counts(self) -> dict[str, int]:
        """How often the load found each outcome; torn ends of journals, which are normal after a kill, among them."""
        counts: dict[str, int] = {}
        for what in (*self.loaded.damage, *self.loaded.torn):
            counts[what.outcome] = counts.get(what.outcome, 0) + 1
        return counts

    def close(self) -> None:
        """Ends the files that this device wrote. What the fsync policy wants on the disk is there, or under way."""
        self.crashes.close()
        if self._journal is not None:
            self.sync()
            self._journal.close()
        if self._attestations is not None:
            try:
                self._attestations.compact()
            except OSError:
                pass  # next time
            self._attestations.close()
        if self._application_binaries is not None:
            self._application_binaries.close()
        self._syncer.wait(CLOSE_SYNC_SECONDS)
