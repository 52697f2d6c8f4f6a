"""What is known of the data of a program's own caches, so that data it passes can be recognised.

The layer cannot put a header of its own into an application's cache file. So for each program and identity it records
the XXH3-128, the length and a sketch of all data that vkGetPipelineCacheData returned. Unknown data that passed is
recorded, too, without a sketch, so that nobody is asked about it again. It is no evidence about other data. The layer
writes all of that (shim/layer/caches/cache_history.c); here it is read, judged and combined.

A missing record proves nothing: runs without the layer, or with an unwritable store, leave none. So data is refused
only on evidence: it was read from another driver, or it is a damaged copy of data that was read.
"""

from __future__ import annotations

import os

from ..common import file_kinds
from ..common.files import date_of, remove, size_of
from ..values import Value
from . import format
from .folder import Folder, folders
from .format import Damage
from .journal import may_have_writer
from .reader import application_of, parts_of
from .sketch import Sketches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .reader import Part

#: Newest records kept for each program, and their bytes. A record has 112 bytes, with the sketch of 4 KB of data 208,
#: with that of 64 KB 912. Beyond MAX_BYTES the oldest have no sketch.
MAX_RECORDS = 1 << 16
MAX_BYTES = 16 << 20
BARE_BYTES = format.record_size(format.KNOWN.size)
#: More files than these are combined into one.
MAX_FILES = 8

#: The program passed the data, and nothing was known against it. It may be the driver's or not.
PASSED = 4


class Known(Value):
    """Data that an application read or passed. ``sketch`` is empty if there is none."""

    digest: bytes
    size: int
    time: int
    flags: int
    sketch: bytes = b""

    def add(self, other: Known) -> None:
        """Adds what another record says of the same data."""
        self.time = max(self.time, other.time, key=date_of)
        self.flags &= other.flags | ~PASSED
        self.sketch = self.sketch or other.sketch

    def parts(self) -> list[bytes | memoryview]:
        """Returns the record as the pieces to write."""
        data = format.KNOWN.pack(self.digest, self.size, self.time, 0, self.flags) + self.sketch
        return format.record_parts(format.ATTEST, data, last_used=self.time)


def known_in(part: Part) -> Iterator[Known]:
    """Yields what the records of a part of a file say."""
    for record in part.records:
        if record.magic == format.ATTEST and record.size >= format.KNOWN.size:
            data = bytes(part.data_of(record))
            digest, size, when, _, flags = format.KNOWN.unpack_from(data)
            yield Known(digest, size, when, flags, data[format.KNOWN.size :])


def _read(folder: Folder, program: int, damage: list[Damage], read: dict[str, tuple[int, int]]) -> Iterator[Known]:
    """Yields what a folder says of a program's data that it did not say before. ``read``: the size of each file when it
    was read last, and the end of its last record."""
    try:
        folder.check()
    except OSError:
        return
    for path in folder.files(program, (file_kinds.ATTEST,)):
        known, start = read.get(path, (0, format.FILE_HEADER.size))
        try:
            size = os.stat(path).st_size
        except OSError:
            continue  # another process combined several files
        if size == known:
            continue
        read[path] = size, start
        for part in parts_of(path, folder.identity.digest, damage, start):
            yield from known_in(part)
            last = part.records[-1]
            read[path] = size, part.place(last) + format.record_size(last.size)


class History:
    """What the store says of a program's data under one identity. ``takes_passed``: data that the program only passed
    counts as known. ``damage``: what could not be read."""

    def __init__(self, folder: Folder, program: int, takes_passed: bool) -> None:
        self.damage: list[Damage] = []
        self._folder = folder
        self._program = program
        self._takes_passed = takes_passed
        self._known: set[tuple[bytes, int]] = set()
        self._sketches = Sketches()
        self._read: dict[str, tuple[int, int]] = {}
        #: What the program read under other identities. None until needed.
        self._stale: set[tuple[bytes, int]] | None = None

    def outcome(self, digest: bytes, size: int, sketch: bytes = b"") -> tuple[str, str]:
        """Returns one of ``outcomes.HISTORY`` for initial data of a VkPipelineCache, and for altered data how it was
        damaged. Without a sketch no data is recognised as altered."""
        for known in _read(self._folder, self._program, self.damage, self._read):  # what is new since the last call
            if self._takes_passed or not known.flags & PASSED:
                self._known.add((known.digest, known.size))
            self._sketches.add(known.size, known.sketch)
        if (digest, size) in self._known:
            return "attested", ""
        if self._stale is None:
            self._stale = self._read_others()
        if (digest, size) in self._stale:
            return "stale", ""
        damage = self._sketches.damage(size, sketch)
        return ("altered", damage) if damage else ("unknown", "")

    def _read_others(self) -> set[tuple[bytes, int]]:
        others = [one for one in folders(self._folder.root) if one.identity.name != self._folder.identity.name]
        found = (known for other in others for known in _read(other, self._program, [], {}))
        return {(known.digest, known.size) for known in found if not known.flags & PASSED}


def compact(folder: Folder) -> Iterator[None]:
    """Combines the files of each program whose writers have ended into one that has the newest records, in steps of
    about a millisecond. Raises OSError; every file is then still there."""
    for program, paths in folder.files_by_program((file_kinds.ATTEST,)).items():
        if _is_much(paths):
            yield from _compact(folder, program, [path for path in paths if not may_have_writer(path)])


def _is_much(paths: list[str]) -> bool:
    return len(paths) > MAX_FILES or sum(map(size_of, paths)) > 2 * MAX_BYTES


def _compact(folder: Folder, program: int, ended: list[str]) -> Iterator[None]:
    found: dict[bytes, Known] = {}
    combined = []
    for path in reversed(ended):  # the newest first: of the others, no more is read than finds damage at the beginning
        damage: list[Damage] = []
        for part in parts_of(path, folder.identity.digest, damage):
            if len(found) > MAX_RECORDS:
                break
            for known in known_in(part):
                found.setdefault(known.digest, known).add(known)
            yield
        if all(what.is_torn_end for what in damage):
            combined.append(path)
    # What cannot be read now, because a newer version wrote it or the disk fails, stays.
    if not _is_much(combined):
        return
    newest = sorted(found.values(), key=lambda one: date_of(one.time), reverse=True)[:MAX_RECORDS]
    room = MAX_BYTES - BARE_BYTES * len(newest)
    parts: list[bytes | memoryview] = []
    for known in newest:  # without a sketch data is still known, but damaged copies of it are not recognised
        room -= format.record_size(format.KNOWN.size + len(known.sketch)) - BARE_BYTES
        known.sketch = known.sketch if room >= 0 else b""
        parts += known.parts()
    folder.write_file(file_kinds.ATTEST, program, application_of(combined), parts, sync=True)
    for path in combined:
        remove(path)
