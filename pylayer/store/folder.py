"""One identity's folder in the store: what is read when a device is created, and what is added to it.

    <root>/store/<identity>/identity                    the identity's fields, as settings text
    <root>/store/<identity>/<program>-<unique>.journal  cells and notes of one process
    <root>/store/<identity>/<program>-<unique>.snapshot a whole VkPipelineCache of one process

No file is ever changed by another process than the one that made it, so two processes need no lock. A
snapshot is deleted only by a process that loaded it and has written one that contains it.
"""

from __future__ import annotations

import os

import xxhash

from .. import flat
from ..identity import Identity
from ..paths import make_private, require_own
from . import journal
from .files import replace_file, sync_file, unique_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class Loaded:
    """What a load found: the digests of everything handed over, notes, totals and damage."""

    def __init__(self) -> None:
        self.digests: set[bytes] = set()
        self.plain_kinds = 0
        self.stub = False
        self.bytes = 0
        self.create_ns = 0
        self.timed_cells = 0
        self.damage: list[str] = []
        #: Tails that are still being written, or whose writer died; each loses only itself.
        self.torn: list[str] = []
        #: Snapshots that hold nothing which the device's cache lacks; ``Batch.snapshot`` are still to come.
        self.snapshots: list[str] = []

    @property
    def mean_create_ns(self) -> float:
        """What compiling one of the stored cells took, on average."""
        return self.create_ns / self.timed_cells if self.timed_cells else 0.0


class Batch:
    """Records that verified, as places in a part of a file; ``snapshot`` is the path of a snapshot's file.

    ``data`` is valid until the batch after the next is asked for.
    """

    __slots__ = ("data", "offsets", "sizes", "snapshot")

    def __init__(self, data: bytearray, snapshot: str | None = None) -> None:
        self.data = data
        self.snapshot = snapshot
        self.offsets: list[int] = []
        self.sizes: list[int] = []


class Folder:
    """The folder of one identity. Creating the object touches nothing on disk."""

    def __init__(self, root: str, identity: Identity) -> None:
        self.root = root
        self.identity = identity
        self.path = os.path.join(root, "store", identity.name)

    def prepare(self) -> None:
        """Makes the folder and the description in it.

        Raises OSError, ``paths.UntrustedDirectory`` included.
        """
        for directory in self._directories():
            make_private(directory)
        description = os.path.join(self.path, "identity")
        if not os.path.exists(description):
            replace_file(description, flat.dumps(self.identity.fields).encode())

    def _directories(self) -> tuple[str, str, str]:
        return self.root, os.path.dirname(self.path), self.path

    def files(self, program: int | None) -> list[str]:
        """Paths of journals and snapshots of one program, of all programs for None, oldest first."""
        try:
            names = os.listdir(self.path)
        except OSError:
            return []
        prefix = "" if program is None else f"{program:016x}-"
        return [
            os.path.join(self.path, name)
            for name in sorted(names, key=lambda name: name.partition("-")[2])
            if name.startswith(prefix) and name.endswith((".journal", ".snapshot"))
        ]

    def load(self, program: int | None, loaded: Loaded) -> Iterator[Batch]:
        """Reads and verifies everything stored, in batches to hand over; fills ``loaded`` as it goes."""
        try:
            for directory in self._directories():
                require_own(directory)
        except FileNotFoundError:
            return
        except OSError as error:
            loaded.damage.append(str(error))
            return
        seen: set[str] = set()
        vanished = True
        while vanished:  # a snapshot that another process has just replaced by a larger one
            vanished = False
            for path in self.files(program):
                if path in seen:
                    continue
                seen.add(path)
                try:
                    yield from self._load_file(path, loaded)
                except FileNotFoundError:
                    vanished = True
                except OSError as error:
                    loaded.damage.append(f"{path}: {error.strerror or error}")

    def _load_file(self, path: str, loaded: Loaded) -> Iterator[Batch]:
        reader = journal.Reader(path)
        damage: list[str] = []
        snapshot = path if path.endswith(".snapshot") else None
        batches = 0
        try:
            reason = reader.check_header(self.identity)
            if reason != "ok":
                damage.append(reason)
                return
            for data, records in reader.parts(damage):
                batch = Batch(data, snapshot)
                _take_records(records, batch, loaded)
                if batch.offsets:
                    yield batch
                    batches += 1
            if snapshot and not batches:
                loaded.snapshots.append(snapshot)
        finally:
            reader.close()
            for what in damage:
                if what.startswith(journal.TORN):
                    loaded.torn.append(f"{path}: {what}")
                else:
                    loaded.damage.append(f"{path}: {what}")

    def write_snapshot(self, program: int, data: bytes, create_ns: int, superseded: list[str]) -> str:
        """Keeps a whole VkPipelineCache and deletes the snapshots that it contains; returns its path.

        Raises OSError; the superseded ones are then still there.
        """
        self.prepare()
        path = os.path.join(self.path, f"{program:016x}-{unique_name()}.snapshot")
        digest = xxhash.xxh3_128_digest(data)
        parts = journal.record_parts(journal.SNAPSHOT, data, digest, create_ns=create_ns)
        replace_file(path, b"".join([journal.file_header(self.identity, program), *parts]))
        if superseded:
            try:
                sync_file(path)  # else a power failure could take the old ones and the new one
            except OSError:
                return path
        for old in superseded:
            try:
                os.unlink(old)
            except OSError:
                pass  # another process deleted it, or it stays and is loaded twice
        return path


def _take_records(records: list[journal.ScannedRecord], batch: Batch, loaded: Loaded) -> None:
    """Puts what the store does not have twice into the batch. A program waits for this: 0.3 us a record."""
    cell, snapshot, digests = journal.CELL, journal.SNAPSHOT, loaded.digests
    offsets, sizes = batch.offsets, batch.sizes
    size_sum = create_sum = timed = 0
    for magic, _kind, flags, start, size, create_ns, digest in records:
        if digest in digests:
            continue
        if magic == cell:
            if create_ns and not flags:
                create_sum += create_ns
                timed += 1
        elif magic != snapshot:
            if magic == journal.NOTE:
                _read_note(bytes(batch.data[start : start + size]), loaded)
            continue
        digests.add(digest)
        offsets.append(start)
        sizes.append(size)
        size_sum += size
    loaded.bytes += size_sum
    loaded.create_ns += create_sum
    loaded.timed_cells += timed


def note_parts(note: dict[str, Any]) -> list[bytes | memoryview]:
    """A note as the pieces of a record."""
    data = flat.dumps(note).encode()
    return journal.record_parts(journal.NOTE, data, xxhash.xxh3_128_digest(data))


def _read_note(data: bytes, loaded: Loaded) -> None:
    try:
        note = flat.loads(data.decode())
    except ValueError:
        return
    kind = note.get("plain_kind")
    if isinstance(kind, int) and 0 <= kind < 8:
        loaded.plain_kinds |= 1 << kind
    if note.get("stub") is True:
        loaded.stub = True
