"""What is not given to the driver because a process died over it: the store has it, and keeps it, and does not use it.

    <root>/store/<identity>/<program>-<unique>.suspects    what one start found, as settings text in a NOTE record

What is suspected can be innocent: a process that was killed, or crashed in another thread, while it created a
pipeline, leaves the same mark as one that the driver crashed. So the least that explains the death is set aside: eight
records, a pipeline, the data of one application cache. Such a pipeline is compiled anew, without anything stored, and
what comes of it clears it: data that is not the suspected takes its place, and the same data, which the driver
has just made, was not damaged and is used again. Who is suspected a second time stays so. Suspicion ends with
SUSPECTED_SECONDS, or with ``pylayer quarantine forget``.
"""

from __future__ import annotations

import os
import time

from .. import flat
from . import format, sentinel
from .files import remove, replace_file, unique_name
from .folder import Folder
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .reader import Record
    from .sentinel import Death

SUFFIX = ".suspects"
SUSPECTED_SECONDS = 30 * 24 * 3600
#: So many deaths within so many seconds that nothing has cleared, and the layer leaves the device alone.
MANY_DEATHS, MANY_DEATHS_SECONDS = 3, 7 * 24 * 3600
#: The oldest notes leave beyond this.
MAX_NOTES = 200
#: After so many of them at the creation of pipelines, the snapshots that were there are suspected too: they may hold
#: any pipeline.
SNAPSHOT_DEATHS = 2


class Suspects:
    """What all notes of a folder come to. Digests are named by their first eight bytes, pipelines by fingerprint."""

    def __init__(self) -> None:
        #: How often each was suspected.
        self.records: dict[bytes, int] = {}
        self.pipelines: dict[int, int] = {}
        self.applications: dict[bytes, int] = {}
        #: Bit mask of PylayerPipelineKind, of pipelines without a fingerprint.
        self.kinds = 0
        #: What was made anew and is used again.
        self.cleared: set[bytes] = set()
        self._cleared_pipelines: set[int] = set()
        self._cleared_at: dict[bytes | int, float] = {}
        #: Records of the last load that were left out.
        self.left_out: set[bytes] = set()
        #: Names of processes, when they died and of what, for people.
        self.notes: list[dict[str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self.records or self.pipelines or self.applications or self.kinds)

    # ---- questions -------------------------------------------------------------------------------

    def takes_record(self, digest: bytes, fingerprint: int) -> bool:
        """Whether a record is to be left out."""
        name = digest[:8]
        times = max(self.records.get(name, 0), self.pipelines.get(fingerprint, 0))
        return times > 1 or (times == 1 and name not in self.cleared)

    def takes_pipeline(self, fingerprint: int) -> bool:
        """Whether a pipeline is to be created without anything stored."""
        times = self.pipelines.get(fingerprint, 0)
        return times > 1 or (times == 1 and fingerprint not in self._cleared_pipelines)

    def takes_application_data(self, digest: bytes) -> bool:
        """Whether an application's data is to be refused."""
        times = self.applications.get(digest[:8], 0)
        return bool(times > 1 or (times == 1 and digest[:8] not in self.cleared))

    def takes_snapshot(self, path: str) -> bool:
        """Whether a snapshot was there when processes died that may have died of it."""
        deaths = [note for note in self._open if note.get("pipelines") or note.get("kinds")]
        if _one_after_another(deaths) < SNAPSHOT_DEATHS:
            return False
        latest: float = max(note["time"] for note in deaths)
        try:
            return int(os.path.basename(path).split("-")[1], 16) / 1e9 <= latest
        except (IndexError, ValueError):
            return True

    @property
    def pipelines_alone(self) -> list[int]:
        """Fingerprints of pipelines that are created without anything stored, in ascending order."""
        return sorted(fingerprint for fingerprint in self.pipelines if self.takes_pipeline(fingerprint))

    @property
    def too_many(self) -> bool:
        """So many processes died, each over something else, that the fault is not in single records."""
        return _one_after_another(self._open) >= MANY_DEATHS

    @property
    def _open(self) -> list[dict[str, Any]]:
        since = time.time() - MANY_DEATHS_SECONDS
        return [note for note in self.notes if note["time"] > since and not self.is_cleared(note)]

    def is_cleared(self, note: dict[str, Any]) -> bool:
        """Whether everything that a process was thought to have died of is used again, or was not of the store."""
        if note.get("kinds"):
            return False
        records = all(_name(text) in self.cleared for text in note.get("records", []))
        return records and all(int(text, 16) in self._cleared_pipelines for text in note.get("pipelines", []))

    def without(self, records: list[Record]) -> list[Record]:
        """Those that are not left out."""
        kept = []
        for record in records:
            if record[0] in format.LOADED and self.takes_record(record[6], record[7]):
                self.left_out.add(record[6])
            else:
                kept.append(record)
        return kept

    # ---- notes -----------------------------------------------------------------------------------

    def add(self, note: dict[str, Any]) -> None:
        """One note, the oldest first. Raises ValueError, TypeError, KeyError where it is none."""
        note["time"] = float(note["time"])
        if "cleared" in note:
            names = {_name(text) for text in note["cleared"]}
            pipelines = {int(text, 16) for text in note.get("pipelines", [])}
            self.cleared |= names
            self._cleared_pipelines |= pipelines
            self._cleared_at.update(dict.fromkeys(names | pipelines, note["time"]))
            return
        note["started"] = float(note.get("started", note["time"]))
        for text in note.get("records", []):
            self._suspect(self.records, _name(text), note["started"])
        for text in note.get("pipelines", []):
            self._suspect(self.pipelines, int(text, 16), note["started"])
        for text in note.get("applications", []):
            self._suspect(self.applications, _name(text), note["started"])
        self.kinds |= int(note.get("kinds", 0))
        self.notes.append(note)

    def _suspect(self, times: dict[Any, int], what: bytes | int, started: float) -> None:
        """Once, and once more where it was cleared and a process died that had it since: one that began before may have
        had what was suspected already."""
        if what not in times:
            times[what] = 1
        elif started > self._cleared_at.get(what, float("inf")):
            times[what] += 1


def _one_after_another(notes: list[dict[str, Any]]) -> int:
    """Deaths of processes that ran at the same time are one: each began before the first of them was found."""
    count, found = 0, 0.0
    for note in sorted(notes, key=lambda note: float(note["time"])):
        if note["started"] > found:
            count += 1
            found = note["time"]
    return count


def _name(text: str) -> bytes:
    name = bytes.fromhex(text)
    if len(name) != 8:
        raise ValueError("a digest's name has eight bytes")
    return name


def _text(number: int) -> str:
    """A digest's first bytes, which a mark has as a number."""
    return number.to_bytes(8, "little").hex()


def note_of(death: Death) -> dict[str, Any] | None:
    """What is suspected of having ended a process; None where it had nothing in the driver."""
    records: set[str] = set()
    pipelines: set[str] = set()
    applications: set[str] = set()
    kinds = 0
    for mark in death.marks:
        if mark.call == sentinel.RECORDS:
            records |= {_text(number) for number in mark.ids}
        elif mark.call in (sentinel.APPLICATION, sentinel.MERGE):
            applications |= {_text(number) for number in mark.ids}
        else:
            pipelines |= {f"{fingerprint:016x}" for fingerprint in mark.ids if fingerprint}
            kinds |= sum({1 << mark.kind for fingerprint in mark.ids if not fingerprint and mark.kind < 8})
            if mark.cache:
                applications.add(_text(mark.cache))
    if not (records or pipelines or applications or kinds):
        return None
    return {
        "death": death.name,
        "program": death.application,
        "started": death.started,
        "time": time.time(),
        "records": sorted(records),
        "pipelines": sorted(pipelines),
        "applications": sorted(applications),
        "kinds": kinds,
    }


def describe(note: dict[str, Any]) -> str:
    """A note in words: who died, and what is set aside for it."""
    parts = []
    if note.get("records"):
        parts.append(_counted(len(note["records"]), "stored record"))
    created = note.get("pipelines") or note.get("kinds")
    if created:
        parts.append(f"what is stored of {_counted(max(len(note.get('pipelines', [])), 1), 'pipeline')}")
    if note.get("applications"):
        parts.append(f"{_counted(len(note['applications']), 'cache')} of its own")
    doing = "created pipelines" if created else "loaded pipeline caches"
    return f"{note.get('program') or 'a program'} died while the driver {doing}: {' and '.join(parts)} set aside"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _write(folder: Folder, program: int, application: str, note: dict[str, Any]) -> None:
    """Raises OSError."""
    folder.prepare()
    path = os.path.join(folder.path, f"{program:016x}-{unique_name()}{SUFFIX}")
    salt = format.new_salt()
    head = format.file_header(format.SUSPECTS_FILE, folder.identity, program, application, salt=salt)
    record = format.record_parts(format.NOTE, flat.dumps(note).encode())
    replace_file(path, [head, *format.seal(record, salt)], sync=True)


def read(folder: Folder, keep: bool = False) -> Suspects:
    """All notes that are there; those that are too old or too many are deleted, unless they are to be kept."""
    suspects = Suspects()
    known: set[str] = set()
    now = time.time()
    files = folder.files(None, (SUFFIX,))
    for path in files[:-MAX_NOTES] if not keep else []:
        remove(path)
    for path in files[-MAX_NOTES:]:
        for note in _read_notes(path, folder):
            try:
                if now - float(note["time"]) > SUSPECTED_SECONDS:
                    _ = keep or remove(path)
                elif note.get("death", path) not in known:  # two starts may have found the same death
                    known.add(note.get("death", path))
                    suspects.add(note)
            except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
                continue  # no note of ours
    return suspects


def _read_notes(path: str, folder: Folder) -> Iterable[dict[str, Any]]:
    """What does not verify says nothing; `pylayer verify` names it."""
    try:
        reader = Reader(path)
    except OSError:
        return
    try:
        if reader.header(folder.identity.digest)[0] is None:
            return
        for part in reader.parts([]):
            for record in part.records:
                if record[0] == format.NOTE:
                    yield flat.loads(bytes(part.data[record[3] : record[3] + record[4]]).decode())
    except (OSError, ValueError):
        return
    finally:
        reader.close()


def review(folder: Folder, read_only: bool = False) -> tuple[Suspects, list[dict[str, Any]]]:
    """Writes down what processes died of since the last start, and reads all notes: the suspects, and the notes that
    are new. A store that cannot be written still has its new suspects in this process, and one that is ``read_only`` is
    left as it is."""
    fresh = []
    unwritten = []
    for death in sentinel.deaths(folder):
        note = note_of(death)
        if note is None:
            if not read_only:
                remove(death.path)
            continue
        fresh.append(note)
        if read_only:
            unwritten.append(note)
            continue
        try:
            _write(folder, death.program, death.application, note)
        except OSError:
            unwritten.append(note)
        else:
            remove(death.path)
    suspects = read(folder, keep=read_only)
    for note in unwritten:
        suspects.add(note)
    return suspects, fresh


def clear(
    folder: Folder, program: int, application: str, suspects: Suspects, digests: set[bytes], pipelines: set[int]
) -> None:
    """Writes down what was made anew. Raises OSError."""
    note = {
        "time": time.time(),
        "cleared": sorted(digest[:8].hex() for digest in digests),
        "pipelines": sorted(f"{fingerprint:016x}" for fingerprint in pipelines),
    }
    _write(folder, program, application, note)
    suspects.add(note)


def forget(folder: Folder) -> int:
    """Deletes all notes; returns how many."""
    return sum(remove(path) for path in folder.files(None, (SUFFIX,)))
