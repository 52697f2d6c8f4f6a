"""Stores one device's pipelines: cells, binaries, snapshots, and which pipelines the run created."""

from __future__ import annotations

import sys
import time

import xxhash

from ..store import format, sentinel
from ..store.recency import RECENT_SECONDS, used_parts
from ..values import (
    CARRIER_SNAPSHOT,
    CELL_ADOPTED,
    CELL_AFTER_LOAD,
    CELL_EMPTY,
    CELL_INTERNALS,
    CELL_NOT_FOUND,
    CELL_STORED,
    KIND_NAMES,
    KINDS_THAT_COMPILE,
    LOG_DEBUG,
    LOG_INFO,
    UNIT_BINARIES,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..values import Cell
    from .device import Device
    from .journal_writer import JournalWriter
    from .learning import Learning
    from .loading import StoreLoad

#: In this run a pipeline kind is no longer adopted after so many adoptions that brought nothing.
VAIN_ADOPTIONS = 4

#: The cell of a deferred operation is stored once for each of its pipelines if that takes no more bytes.
NAMED_BYTES = 1 << 20


def _names(cell: Cell) -> list[int]:
    """Returns the fingerprints under which a cell is stored. A later run may create any of its pipelines by itself."""
    if cell.pipelines < 2:
        return [cell.fingerprint]
    names = list(dict.fromkeys([cell.fingerprint, *filter(None, cell.others)]))
    return names if any(cell.others) and len(cell.data) * len(names) <= NAMED_BYTES else [0]


class Pipelines:
    """Owns what this run stored, and what the run learnt about the driver from its cells."""

    def __init__(self, device: Device, load: StoreLoad, writer: JournalWriter, learning: Learning) -> None:
        self._device = device
        self._load = load
        self._writer = writer
        self._learning = learning
        self.stored_records = 0
        self.stored_bytes = 0
        self.lost_records = 0
        self.duplicates = 0
        self._digests: set[bytes] = set()
        self._uses_written: set[int] = set()
        self._snapshot_seen = (-1, -1)
        self._vain_adoptions: dict[int, int] = {}

    # ---- cells and binaries ----------------------------------------------------------------------

    def new(self, cell: Cell) -> list[bytes | memoryview]:
        """Returns the pieces to write for a cell. Empty if there is nothing to store: the cell is empty or already
        stored, or the store is read-only."""
        if cell.flags & CELL_EMPTY:
            self._empty_cell(cell)
            return []
        self._learning.full_cell()
        digest = xxhash.xxh3_128_digest(cell.data)
        if digest in self._load.loaded.digests or cell.flags & CELL_STORED:
            self._known_cell(cell)
            return []
        if not self._learning.allows(cell, digest):
            return []
        if digest in self._digests:  # two threads compiled the same pipeline at once
            self.duplicates += 1
            return []
        self._digests.add(digest)
        names = _names(cell)
        self._uses_written.update(names)
        if self._device.read_only:
            return []
        magic, flags = format.CELL, cell.flags & CELL_ADOPTED
        if cell.unit == UNIT_BINARIES:
            magic = format.BINARIES
        each_ns, now = cell.create_ns // len(names), int(time.time())
        parts: list[bytes | memoryview] = []
        for name in names:
            parts += format.record_parts(magic, cell.data, digest, cell.kind, flags, each_ns, name, now)
        return parts

    def write(self, parts: list[bytes | memoryview]) -> None:
        """Stores pieces that ``new`` returned, in one write."""
        self._learning.store()
        records = len(parts) // 3
        if not records:
            return
        if self._writer.write(parts):
            self.stored_records += records
            self.stored_bytes += sum(len(part) for part in parts)
        else:
            self.lost_records += records

    # ---- what cells tell about the driver --------------------------------------------------------

    def _empty_cell(self, cell: Cell) -> None:
        """Counts an empty cell as evidence of a stub. A linked pipeline or a library may rightly add nothing to a cell,
        and so may a single whole pipeline. Not evidence: devices with binaries, and pipelines that drivers keep out of
        their caches."""
        if cell.flags & CELL_ADOPTED:
            self._vain_adoption(cell)
            return
        if cell.flags & CELL_INTERNALS:
            return
        loaded = self._load.loaded
        if self._device.has_binaries or cell.kind not in KINDS_THAT_COMPILE or not self._device.keeps:
            return
        if not (loaded.digests or loaded.stored_cells) and self._learning.empty_cell():
            reason = "this driver's VkPipelineCache keeps nothing, so nothing can be stored"
            self._device.switch_off(reason)
            self._device.log(LOG_INFO, f"{self._device.facts.device_name}: {reason}; the layer is off for it")

    def _vain_adoption(self, cell: Cell) -> None:
        """Counts an adopted cell that is empty or already stored. Seen with NVIDIA's driver: its feedback does not say
        that it found libraries and fast links in our cache. The probe succeeded, so nothing is wrong."""
        self._vain_adoptions[cell.kind] = self._vain_adoptions.get(cell.kind, 0) + 1
        if self._vain_adoptions[cell.kind] == VAIN_ADOPTIONS:
            self._device.commands.call_off(self._device.serial, sentinel.ADOPT, cell.kind)
            self._device.log(
                LOG_DEBUG, f"{KIND_NAMES[cell.kind]} pipelines are no longer adopted: it stored nothing new"
            )

    def _known_cell(self, cell: Cell) -> None:
        """Counts a cell that the store already had. If the driver had been given it and did not find it, that is
        evidence that probes for this kind never hit."""
        self.duplicates += 1
        if cell.unit == UNIT_BINARIES:  # evicted, or other pipelines share its key: this says nothing about probes
            return
        if cell.flags & CELL_ADOPTED:
            self._vain_adoption(cell)
            return
        if cell.flags & CELL_INTERNALS:
            return
        if self._load.whole and cell.flags & CELL_AFTER_LOAD and cell.flags & CELL_NOT_FOUND:
            self._learning.not_found(cell.kind)

    # ---- snapshot --------------------------------------------------------------------------------

    def snapshot_wanted(self, counters: dict[str, int]) -> bool:
        """Returns whether the driver may have compiled pipelines that are in no cell."""
        device = self._device
        if not device.keeps:
            return False
        assert device.state is not None
        told = counters["plain_compiled"] if device.state.feedback else counters["plain"]
        return told + counters["absorbed"] > 0

    def snapshot(self, counters: dict[str, int]) -> None:
        """Stores the layer's whole cache if it may hold more than the last snapshot, or if it is made of several."""
        device, loaded = self._device, self._load.loaded
        seen = (counters["plain"], counters["absorbed"])
        if device.folder is None or seen == self._snapshot_seen:
            return
        if not self.snapshot_wanted(counters) and not self._loaded_several:
            return
        if self._writer.paused or device.read_only:
            return
        self._snapshot_seen = seen
        data = device.commands.read_merged(device.serial)
        if not data or (device.state and len(data) <= device.state.empty_cache_bytes):
            return
        digest = xxhash.xxh3_128_digest(data)
        if digest in loaded.digests or digest in self._digests:
            self._delete_contained(digest)
            return
        try:
            path = device.folder.write_snapshot(device.program_id, device.program.name, data, counters["plain_ns"])
        except OSError as error:
            self._snapshot_seen = (-1, -1)
            self._writer.failed(error)
            return
        self._digests.add(digest)
        self._learning.note_returned(digest)
        self._writer.syncer.replaced(path, list(loaded.snapshots))
        loaded.snapshots = {path: digest}
        self.stored_records += 1
        self.stored_bytes += len(data)
        device.log(LOG_DEBUG, f"snapshot of {len(data)} bytes")

    @property
    def _loaded_several(self) -> bool:
        """Whether earlier runs left several snapshots: two ran at once, or one ended before its snapshot was on the
        disk, so that it could not delete what this replaced."""
        device = self._device
        if not device.keeps or len(self._load.loaded.snapshots) < 2:
            return False
        return device.state is not None and device.state.carrier == CARRIER_SNAPSHOT

    def _delete_contained(self, digest: bytes) -> None:
        """Deletes all snapshots but the one with this digest, which is all that the layer's cache holds."""
        snapshots = self._load.loaded.snapshots
        for path, known in snapshots.items():
            if known == digest and len(snapshots) > 1:
                self._writer.syncer.replaced(path, [other for other in snapshots if other != path], wait=True)
                self._load.loaded.snapshots = {path: digest}
                return

    # ---- recency ---------------------------------------------------------------------------------

    def write_uses(self) -> None:
        """Records which pipelines this run created, except those recorded by any run within a day
        (store/recency.py)."""
        device, loaded = self._device, self._load.loaded
        if device.folder is None or not device.keeps:
            return
        if self._writer.paused or device.read_only:
            return
        seen = device.commands.fingerprints(device.serial)
        if not seen:
            return
        fingerprints = {int.from_bytes(seen[at : at + 8], sys.byteorder) for at in range(0, len(seen), 8)}
        new = sorted(fingerprints - self._uses_written - loaded.used.keys())
        now = int(time.time())
        marked = now - loaded.last_run < RECENT_SECONDS
        if not new and marked:
            return
        try:
            self._writer.append(used_parts(new, now))
        except OSError as error:  # the store cannot be written to: only the order of eviction suffers
            device.log(LOG_DEBUG, f"uses cannot be recorded: {error.strerror or error}")
            return
        self._uses_written.update(new)
        loaded.last_run = now
