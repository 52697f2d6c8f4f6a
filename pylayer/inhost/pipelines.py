"""Stores one device's pipelines: cells, binaries, and which pipelines the run created."""

from __future__ import annotations

import sys
import time

import xxhash

from ..store import contents, format
from ..store.contents import RECENT_SECONDS, used_parts
from ..values import CELL_AWAITED, CELL_EMPTY, KINDS_THAT_COMPILE, LOG_INFO, UNIT_BINARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.reader import Record
    from ..values import Cell
    from .device import Device
    from .journal_writer import JournalWriter
    from .learning import Learning

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

    def __init__(
        self,
        device: Device,
        writer: JournalWriter,
        learning: Learning,
        join: Callable[[list[tuple[Record, bytes]]], bytes | None],
    ) -> None:
        """``join``: as ``DeviceSession.join``."""
        self._device = device
        self._join = join
        self._writer = writer
        self._learning = learning
        self.stored_records = 0
        self.stored_bytes = 0
        self.lost_records = 0
        #: Large cells that wait for others to be joined with, and the pieces to write for each if they cannot be.
        self._large: list[tuple[Record, bytes, list[bytes | memoryview]]] = []
        self._stored: set[tuple[bytes, int]] = set()
        self._uses_written: set[int] = set()
        #: When this run last recorded uses.
        self._used_at = 0.0

    # ---- cells and binaries ----------------------------------------------------------------------

    def new(self, cell: Cell) -> list[bytes | memoryview]:
        """Returns the pieces to write for a cell. Empty if there is nothing to store: the cell is empty or already
        stored, or the store is read-only."""
        if cell.flags & CELL_EMPTY:
            self._empty_cell(cell)
            return []
        self._learning.full_cell()
        digest = xxhash.xxh3_128_digest(cell.data)
        if not self._learning.allows(cell, digest):
            return []
        # Fingerprints tell pipelines apart that the driver does not, and a later run looks for each of them.
        names = [name for name in _names(cell) if (digest, name) not in self._stored]
        if not names:  # two threads compiled the same pipeline at once
            return []
        self._stored.update((digest, name) for name in names)
        self._uses_written.update(names)
        if self._device.read_only:
            return []
        magic = format.BINARIES if cell.unit == UNIT_BINARIES else format.CELL
        each_ns, now = cell.create_ns // len(names), int(time.time())
        parts: list[bytes | memoryview] = []
        for name in names:
            parts += format.record_parts(magic, cell.data, digest, cell.kind, 0, each_ns, name, now)
        is_large = magic == format.CELL and len(cell.data) > contents.LARGE_BYTES
        # A program that dies in each run would lose what is held each time.
        if is_large and names == [cell.fingerprint] != [0] and not cell.flags & CELL_AWAITED:
            self._hold(parts)
            return []
        return parts

    def _hold(self, parts: list[bytes | memoryview]) -> None:
        """Holds a large cell until there are enough of them, or until ``store_large``."""
        from ..store.reader import Record

        head, data = parts[0], bytes(parts[1])
        self._large.append((Record(format.RECORD_HEADER.unpack(head), 0, data), data, [head, data, parts[2]]))
        held_bytes = sum(record.size for record, *_ in self._large)
        if len(self._large) == format.CHUNK_CELLS or held_bytes + len(data) > contents.MAX_LARGE_BYTES:
            self.store_large()

    def store_large(self, joins: bool = True) -> None:
        """Stores the large cells that are held: as a chunk in a pack, if the driver merges what they share. Without
        ``joins`` it is not asked."""
        held, self._large = self._large, []
        folder = self._device.folder
        joins = joins and len(held) >= contents.FEWEST_CELLS and folder is not None and not self._writer.paused
        joined = self._join([(record, data) for record, data, _ in held]) if joins else None
        if joined is None or folder is None:
            self.write([piece for *_, pieces in held for piece in pieces])
            return
        from ..common.file_kinds import PACK
        from ..store.pack import PackWriter

        records = [record for record, *_ in held]
        try:
            folder.prepare()  # somebody may have deleted it
            path = folder.new_path(self._device.program_id, PACK)
            pack = PackWriter(path, folder.identity, self._device.program_id, self._device.program.name)
            try:
                pack.add_chunk(records, joined, int(time.time()))
                pack.finish(sync=False)  # as a journal: it replaces nothing
            except BaseException:
                pack.abandon()
                raise
        except OSError as error:
            self._writer.failed(error)
            self.lost_records += len(held)
            return
        self.stored_records += len(held)
        self.stored_bytes += len(joined)

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
        and so may a single whole pipeline. Devices with binaries are no evidence."""
        state = self._device.state
        if self._device.has_binaries or cell.kind not in KINDS_THAT_COMPILE or state is None or not self._device.keeps:
            return
        if not state.stored_cells and self._learning.empty_cell():
            reason = "the driver finds nothing in its own cache data, so nothing can be stored"
            self._device.switch_off(reason)
            self._device.log(LOG_INFO, f"{self._device.facts.device_name}: {reason}; the layer is off for it")

    # ---- recency ---------------------------------------------------------------------------------

    def write_uses(self) -> None:
        """Records which pipelines this run created, except those recorded by any run within a day
        (store/contents.py)."""
        device = self._device
        if device.folder is None or device.state is None or not device.keeps:
            return
        if self._writer.paused or device.read_only:
            return
        seen = device.commands.fingerprints(device.serial)
        if not seen:
            return
        fingerprints = {int.from_bytes(seen[at : at + 8], sys.byteorder) for at in range(0, len(seen), 8)}
        new = sorted(fingerprints - self._uses_written)
        now = time.time()
        if not new and (device.state.used_recently or now - self._used_at < RECENT_SECONDS):
            return
        if self._writer.write(used_parts(new, int(now))):
            self._uses_written.update(new)
            self._used_at = now
