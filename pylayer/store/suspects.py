"""What is not given to the driver because a process died over it: the store has it, and keeps it, and does not use it.

What is suspected can be innocent: a process that was killed, or crashed in another thread, while it created a
pipeline, leaves the same mark as one that the driver crashed. So the least that explains the death is set aside: eight
records, a pipeline, the data of one application cache. Such a pipeline is compiled anew, without anything stored, and
what comes of it clears it: other data takes the place of what was suspected, and the same data, which the driver
has just made, was not damaged and is used again. What a process died over that began after that stays set aside.
Suspicion ends with SUSPECTED_SECONDS, or with ``pylayer quarantine forget``.
"""

from __future__ import annotations

import os

from . import format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .reader import Record

SUSPECTED_SECONDS = 14 * 24 * 3600
#: After so many starts that found deaths which nothing has cleared: if they were at the creation of pipelines, the
#: snapshots of before are set aside too, for they may hold any pipeline; the layer leaves the device alone.
SNAPSHOT_DEATHS, MANY_DEATHS = 2, 3


class Suspects:
    """What all notes of a folder come to. Digests are named by their first eight bytes, pipelines by fingerprint."""

    def __init__(self) -> None:
        #: When the last process began that died over each.
        self.records: dict[bytes, float] = {}
        self.pipelines: dict[int, float] = {}
        self.applications: dict[bytes, float] = {}
        #: Bit mask of PylayerPipelineKind, of pipelines without a fingerprint.
        self.kinds = 0
        #: When each was first made anew.
        self.cleared: dict[bytes | int, float] = {}
        #: Records of the last load that were left out.
        self.left_out: set[bytes] = set()
        #: Names of processes, when they died and of what, for people.
        self.notes: list[dict[str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self.records or self.pipelines or self.applications or self.kinds)

    def _is_aside(self, started: float | None, name: bytes | int) -> bool:
        """Whether something is set aside. ``started``: when the last process began that died over it."""
        return started is not None and started > self.cleared.get(name, float("-inf"))

    # ---- questions -------------------------------------------------------------------------------

    def takes_record(self, digest: bytes, fingerprint: int) -> bool:
        """Whether a record is to be left out."""
        name = digest[:8]
        return self._is_aside(self.records.get(name), name) or self._is_aside(self.pipelines.get(fingerprint), name)

    def takes_pipeline(self, fingerprint: int) -> bool:
        """Whether a pipeline is to be created without anything stored."""
        return self._is_aside(self.pipelines.get(fingerprint), fingerprint)

    def takes_application_data(self, digest: bytes) -> bool:
        """Whether an application's data is to be refused."""
        return self._is_aside(self.applications.get(digest[:8]), digest[:8])

    def takes_snapshot(self, path: str) -> bool:
        """Whether a snapshot was there when processes died that may have died of it."""
        deaths = [note["time"] for note in self.notes if _created(note) and not self.is_cleared(note)]
        if len(set(deaths)) < SNAPSHOT_DEATHS:
            return False
        try:
            return bool(int(os.path.basename(path).split("-")[1], 16) / 1e9 <= max(deaths))
        except (IndexError, ValueError):
            return True

    @property
    def pipelines_alone(self) -> list[int]:
        """Fingerprints of pipelines that are created without anything stored, in ascending order."""
        return sorted(fingerprint for fingerprint in self.pipelines if self.takes_pipeline(fingerprint))

    @property
    def too_many(self) -> bool:
        """Whether processes died so often, each time over something else, that the fault is not in single records.
        Deaths that one start found count once: whoever kills several processes at once kills them over nothing."""
        return len({note["time"] for note in self.notes if not self.is_cleared(note)}) >= MANY_DEATHS

    def is_cleared(self, note: Mapping[str, Any]) -> bool:
        """Whether everything that a process was thought to have died of is used again, or was not of the store."""
        if note.get("kinds"):
            return False
        records = (name_of(text) for text in note.get("records", []))
        pipelines = (int(text, 16) for text in note.get("pipelines", []))
        aside = any(self._is_aside(self.records.get(name), name) for name in records)
        return not aside and not any(map(self.takes_pipeline, pipelines))

    def without(self, records: list[Record]) -> list[Record]:
        """Returns those that are not left out."""
        kept = []
        for record in records:
            if record[0] in format.LOADED and self.takes_record(record[6], record[7]):
                self.left_out.add(record[6])
            else:
                kept.append(record)
        return kept

    # ---- notes -----------------------------------------------------------------------------------

    def add(self, note: dict[str, Any]) -> None:
        """Takes one note, the oldest first. Raises ValueError, TypeError, KeyError if it is none."""
        note["time"] = float(note["time"])
        pipelines = [int(text, 16) for text in note.get("pipelines", [])]
        if "cleared" in note:
            made: list[bytes | int] = [*map(name_of, note["cleared"]), *pipelines]
            for name in made:
                self.cleared.setdefault(name, note["time"])
            return
        note["started"] = started = float(note.get("started", note["time"]))
        for fingerprint in pipelines:
            self.pipelines[fingerprint] = max(started, self.pipelines.get(fingerprint, 0.0))
        for suspected, key in ((self.records, "records"), (self.applications, "applications")):
            for name in map(name_of, note.get(key, [])):
                suspected[name] = max(started, suspected.get(name, 0.0))
        self.kinds |= int(note.get("kinds", 0))
        self.notes.append(note)


def _created(note: Mapping[str, Any]) -> bool:
    """Whether a process died while it created pipelines."""
    return bool(note.get("pipelines") or note.get("kinds"))


def name_of(text: str) -> bytes:
    """Returns the eight bytes that name a digest. Raises ValueError."""
    name = bytes.fromhex(text)
    if len(name) != 8:
        raise ValueError("a digest's name has eight bytes")
    return name


def describe(note: Mapping[str, Any]) -> str:
    """Returns a note in words: who died, and what is set aside for it."""
    parts = []
    if note.get("records"):
        parts.append(_counted(len(note["records"]), "stored record"))
    created = _created(note)
    if created:
        parts.append(f"what is stored of {_counted(max(len(note.get('pipelines', [])), 1), 'pipeline')}")
    if note.get("applications"):
        parts.append(f"{_counted(len(note['applications']), 'cache')} of its own")
    doing = "created pipelines" if created else "loaded pipeline caches"
    return f"{note.get('program') or 'a program'} died while the driver {doing}: {' and '.join(parts)} set aside"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
