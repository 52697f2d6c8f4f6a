"""What a store has of a program as data of VkPipelineCaches, for a process without the layer (``pylayer warm``)."""

from __future__ import annotations

from . import deaths
from .chunk import merged_of
from .folder import Folder
from .format import CELL, CHUNK
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..common.identity import Identity
    from .reader import Record


class Piece:
    """The data of one VkPipelineCache in the store, by its place, and the fingerprints of its pipelines."""

    def __init__(self, reader: Reader, place: int, record: Record) -> None:
        self.size = record.size
        self.fingerprints = record.fingerprints
        self._reader, self._place = reader, place

    def read(self) -> bytes:
        """Returns the data, verified again; nothing if it is not there any more. Raises OSError."""
        found = self._reader.record_at(self._place)
        if found is None:
            return b""
        return bytes(merged_of(memoryview(found[1]))) if found[0].magic == CHUNK else found[1]


def pieces(root: str, identity: Identity, program: int, others: set[int]) -> Iterator[Piece]:
    """Yields what verifies and is not blocked. Adds the fingerprints of pipelines that are stored as binaries to
    ``others``."""
    folder = Folder(root, identity)
    blocked = deaths.of_everyone(folder)
    for path in folder.files(program):
        try:
            reader = Reader(path)
            for part in reader.verified(identity.digest, []):
                for record in part.records:
                    if record.magic not in (CELL, CHUNK):
                        others.update(record.fingerprints)
                    elif not blocked.takes_record(record):
                        yield Piece(reader, part.place(record), record)
        except OSError:
            continue  # compacted meanwhile, or unreadable, which `pylayer ls --verify` tells
