"""Suspects: what a process died over. The store keeps it, but the driver does not get it.

A suspect can be innocent. A process that was killed, or that crashed in another thread, while it created a pipeline
leaves the same mark as one that the driver crashed. So as little as possible is set aside for a death: eight records, a
pipeline, the data of one application cache. Such a pipeline is compiled anew without stored data, and the result clears
it. Different data replaces the suspected data. The same data, which the driver has just made, was not damaged and is
used again. If a process that began after that dies over it again, it stays set aside. Suspicion ends after
SUSPECTED_SECONDS, or with ``pylayer quarantine forget``.
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
#: Numbers of starts that found deaths which nothing has cleared. From SNAPSHOT_DEATHS of them at the creation of
#: pipelines, snapshots that existed then are set aside too, because they may hold any pipeline. From MANY_DEATHS the
#: layer leaves the device alone.
SNAPSHOT_DEATHS, MANY_DEATHS = 2, 3


class Suspects:
    """The content of all notes of a folder. Digests are named by their first eight bytes, pipelines by fingerprint."""

    def __init__(self) -> None:
        #: For each suspect, when the last process that died over it began.
        self.records: dict[bytes, float] = {}
        self.pipelines: dict[int, float] = {}
        self.applications: dict[bytes, float] = {}
        #: Bit mask of PylayerPipelineKind, for pipelines without a fingerprint.
        self.kinds = 0
        #: When the driver first made each of them anew.
        self.cleared: dict[bytes | int, float] = {}
        #: Digests of the records that the last load left out.
        self.left_out: set[bytes] = set()
        #: Notes of deaths for people: which process died, when, and over what.
        self.notes: list[dict[str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self.records or self.pipelines or self.applications or self.kinds)

    def _is_aside(self, started: float | None, name: bytes | int) -> bool:
        """Returns whether something is set aside. ``started``: when the last process that died over it began."""
        return started is not None and started > self.cleared.get(name, float("-inf"))

    # ---- questions -------------------------------------------------------------------------------

    def takes_record(self, digest: bytes, fingerprint: int) -> bool:
        """Returns whether to leave a record out."""
        name = digest[:8]
        return self._is_aside(self.records.get(name), name) or self._is_aside(self.pipelines.get(fingerprint), name)

    def takes_pipeline(self, fingerprint: int) -> bool:
        """Returns whether to create a pipeline without stored data."""
        return self._is_aside(self.pipelines.get(fingerprint), fingerprint)

    def takes_application_data(self, digest: bytes) -> bool:
        """Returns whether to refuse an application's data."""
        return self._is_aside(self.applications.get(digest[:8]), digest[:8])

    def takes_snapshot(self, path: str) -> bool:
        """Returns whether to leave a snapshot out: enough processes died at the creation of pipelines, and it existed
        when the last of these deaths was found."""
        deaths = [note["time"] for note in self.notes if _created(note) and not self.is_cleared(note)]
        if len(set(deaths)) < SNAPSHOT_DEATHS:
            return False
        try:
            return bool(int(os.path.basename(path).split("-")[1], 16) / 1e9 <= max(deaths))
        except (IndexError, ValueError):
            return True

    @property
    def pipelines_alone(self) -> list[int]:
        """Fingerprints of pipelines that are created without stored data, in ascending order."""
        return sorted(fingerprint for fingerprint in self.pipelines if self.takes_pipeline(fingerprint))

    @property
    def too_many(self) -> bool:
        """Whether processes died so often, each time over something else, that the fault is not in single records.
        Deaths that one start found count once: processes that somebody killed all at once did not die of stored
        records."""
        return len({note["time"] for note in self.notes if not self.is_cleared(note)}) >= MANY_DEATHS

    def is_cleared(self, note: Mapping[str, Any]) -> bool:
        """Returns whether everything that a process may have died over is used again or is not in the store."""
        if note.get("kinds"):
            return False
        records = (name_of(text) for text in note.get("records", []))
        pipelines = (int(text, 16) for text in note.get("pipelines", []))
        aside = any(self._is_aside(self.records.get(name), name) for name in records)
        return not aside and not any(map(self.takes_pipeline, pipelines))

    def without(self, records: list[Record]) -> list[Record]:
        """Returns the records that are not suspects."""
        kept = []
        for record in records:
            if record[0] in format.LOADED and self.takes_record(record[6], record[7]):
                self.left_out.add(record[6])
            else:
                kept.append(record)
        return kept

    # ---- notes -----------------------------------------------------------------------------------

    def add(self, note: dict[str, Any]) -> None:
        """Adds one note. The oldest must come first. Raises ValueError, TypeError or KeyError if it is not a valid
        note."""
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

    @staticmethod
    def describe(note: Mapping[str, Any]) -> str:
        """Returns a note in words: which program died, and what is set aside for it."""
        parts = []
        if note.get("records"):
            parts.append(_counted(len(note["records"]), "stored record"))
        created = _created(note)
        if created:
            parts.append(f"the stored data of {_counted(max(len(note.get('pipelines', [])), 1), 'pipeline')}")
        if note.get("applications"):
            parts.append(f"{_counted(len(note['applications']), 'cache')} of the program")
        doing = "created pipelines" if created else "loaded pipeline caches"
        return f"{note.get('program') or 'a program'} died while the driver {doing}; set aside: {' and '.join(parts)}"


def _created(note: Mapping[str, Any]) -> bool:
    """Returns whether a process died while it created pipelines."""
    return bool(note.get("pipelines") or note.get("kinds"))


def name_of(text: str) -> bytes:
    """Returns the eight bytes that name a digest. Raises ValueError."""
    name = bytes.fromhex(text)
    if len(name) != 8:
        raise ValueError("a digest's name has eight bytes")
    return name


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
