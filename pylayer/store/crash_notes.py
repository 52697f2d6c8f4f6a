"""Notes of what processes died over, and of what the driver made anew since.

<root>/store/<identity>/<program>-<unique>.suspects    what one start found, as settings text in a NOTE record
"""

from __future__ import annotations

import time

from ..common import file_kinds, flat
from ..common.files import remove, replace_file
from . import format, sentinel
from .folder import Folder
from .reader import Reader
from .suspects import SUSPECTED_SECONDS, Suspects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .sentinel import Death

#: Beyond this many notes the oldest are deleted.
MAX_NOTES = 200


def note_of(death: Death, now: float) -> dict[str, Any] | None:
    """Returns a note of what is suspected of having ended a process; None if the driver was working on nothing then.
    ``now``: when the death was found."""
    records: set[str] = set()
    pipelines: set[str] = set()
    applications: set[str] = set()
    kinds = 0
    for mark in death.marks:
        if mark.call == sentinel.RECORDS:
            records |= {_text(number) for number in mark.ids}
        elif mark.call in (sentinel.APPLICATION, sentinel.MERGE):
            applications |= {_text(number) for number in mark.ids}
        elif mark.call not in sentinel.ADDED:
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
        "time": now,
        "records": sorted(records),
        "pipelines": sorted(pipelines),
        "applications": sorted(applications),
        "kinds": kinds,
    }


def _text(number: int) -> str:
    """Returns the first bytes of a digest, which a mark stores as a number, in hex."""
    return number.to_bytes(8, "little").hex()


def _write(folder: Folder, program: int, application: str, note: dict[str, Any]) -> None:
    """Writes a note to a file of its own. Raises OSError."""
    folder.prepare()
    path = folder.new_path(program, file_kinds.SUSPECTS)
    salt = format.new_salt()
    head = format.file_header(format.SUSPECTS_FILE, folder.identity, program, application, salt=salt)
    record = format.record_parts(format.NOTE, flat.dumps(note).encode())
    replace_file(path, [head, *format.seal(record, salt)], sync=True)


def read(folder: Folder, keep: bool = False) -> Suspects:
    """Returns the suspects of all notes. Deletes notes that are too old or too many, unless ``keep`` is set."""
    suspects = Suspects()
    known: set[str] = set()
    now = time.time()
    files = folder.files(None, (file_kinds.SUSPECTS,))
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
                continue  # not a note of ours
    return suspects


def _read_notes(path: str, folder: Folder) -> Iterable[dict[str, Any]]:
    """Yields the notes that verify. `pylayer verify` reports the others."""
    try:
        for part in Reader(path).verified(folder.identity.digest, []):
            for record in part.records:
                if record[0] == format.NOTE:
                    yield flat.loads(bytes(part.data[record[3] : record[3] + record[4]]).decode())
    except (OSError, ValueError):
        return


def review(folder: Folder, read_only: bool = False) -> tuple[Suspects, list[dict[str, Any]]]:
    """Records what processes died of since the last start, and reads all notes. Returns the suspects and the new notes.
    If the store cannot be written, this process still gets the new suspects. A ``read_only`` store is not changed."""
    fresh = []
    unwritten = []
    now = time.time()
    for death in sentinel.deaths(folder):
        note = note_of(death, now)
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


def clear(folder: Folder, program: int, application: str, suspects: Suspects, made: set[bytes | int]) -> None:
    """Writes a note that clears suspects: names of data and fingerprints of pipelines that the driver made anew for the
    first time. Raises OSError."""
    new = made - suspects.cleared.keys()
    if not new:
        return
    note = {
        "time": time.time(),
        "cleared": sorted(name.hex() for name in new if isinstance(name, bytes)),
        "pipelines": sorted(f"{name:016x}" for name in new if isinstance(name, int)),
    }
    _write(folder, program, application, note)
    suspects.add(note)


def forget(folder: Folder) -> int:
    """Deletes all notes; returns how many."""
    return sum(remove(path) for path in folder.files(None, (file_kinds.SUSPECTS,)))
