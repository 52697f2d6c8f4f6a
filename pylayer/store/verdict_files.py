"""The files of verdicts, and what is read from the sentinels of processes that died.

<root>/store/<identity>/<program>-<unique>.verdict    a VRDT record with entries of ``verdicts.ENTRY``

No process changes another's file. A writer combines all files of the program into a new one and deletes those. For each
key the newest decision is in force, so it does not matter if two do that at once. Program 0 has what concerns every
program. The layer reads only the names: a new one makes what was compiled of the others invalid (``decisions``).
"""

from __future__ import annotations

import os

import xxhash

from ..common import file_kinds
from ..common.files import remove
from . import format
from .reader import Reader
from .verdicts import ENTRY, TABLE, Verdict, Verdicts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .folder import Folder

#: Files with more bytes are not read. A file of MAX_ENTRIES has 41 KiB.
MAX_BYTES = 64 << 10
#: The most files of one program that are read. Only processes that die between two calls leave several.
MAX_FILES = 64
#: Most listings of one read, so that it ends even while files keep being combined.
MAX_LISTINGS = 8
#: The program of verdicts that concern all programs.
EVERY_PROGRAM = 0


def paths_of(folder: Folder, program: int | None) -> list[str]:
    """Returns the newest ``MAX_FILES`` files of a program, or with None of all programs."""
    found = folder.files(program, (file_kinds.VERDICT,))
    return found[-MAX_FILES:] if program is not None else found


def _read_file(path: str, folder: Folder) -> tuple[str, list[Verdict], bool]:
    """Returns the application's name, the entries, and whether this version knows all of them. A damaged file, and one
    of a newer version, has no entries. Raises OSError."""
    reader = Reader(path)
    header, outcome = reader.header(folder.identity.digest)
    if header is None or header.kind != format.VERDICT_FILE or reader.size > MAX_BYTES:
        return "", [], outcome not in ("foreign-version", "foreign-identity")
    entries = []
    for part in reader.content(header, []):
        for record in part.records:
            if record.magic == format.VERDICTS and record.size % ENTRY.size == 0:
                entries += [Verdict(*fields) for fields in ENTRY.iter_unpack(part.data_of(record))]
    known = [one for one in entries if one.type in TABLE]
    return header.application, known, len(known) == len(entries)


def _read_files(folder: Folder, program: int | None) -> Iterator[tuple[str, tuple[str, list[Verdict], bool]]]:
    """Yields the paths of a program, or with None of all programs, and what ``_read_file`` returns. If another process
    combines files while they are read, neither the old ones nor the new one may be found, and the next listing has the
    new one. What cannot be read now is left out."""
    seen: set[str] = set()
    for _ in range(MAX_LISTINGS):
        gone = False
        for path in paths_of(folder, program):
            try:
                content = _read_file(path, folder) if path not in seen else None
            except OSError as error:
                gone |= isinstance(error, FileNotFoundError)
                continue
            if content is not None:
                seen.add(path)
                yield path, content
        if not gone:
            return


def read(folder: Folder, program: int, changing: str = "") -> Verdicts:
    """Returns what is decided for one program, or for ``EVERY_PROGRAM``."""
    found = Verdicts(changing=changing)
    for path, content in _read_files(folder, program):
        found.files += xxhash.xxh3_64_intdigest(os.path.basename(path).encode())
        for verdict in content[1]:
            found.add(verdict)
    return found


def read_all(folder: Folder) -> dict[int, tuple[str, Verdicts]]:
    """Returns the names of all programs of a folder about which something is decided, and what, by program."""
    found: dict[int, tuple[str, Verdicts]] = {}
    for path, content in _read_files(folder, None):
        name = file_kinds.FileName.parse(path)
        if name is not None:
            before, known = found.get(name.program, ("", Verdicts()))
            found[name.program] = (before or content[0], known)
            for verdict in content[1]:
                known.add(verdict)
    return found


def write(folder: Folder, program: int, application: str, new: list[Verdict]) -> None:
    """Stores new decisions together with what was decided before, in one file. Raises OSError."""
    known = Verdicts()
    sources = []
    for path, content in _read_files(folder, program):
        for verdict in content[1]:
            known.add(verdict)
        if content[2]:
            sources.append(path)
    for verdict in new:
        known.add(verdict)
    kept = known.memorable()
    if kept:
        record = format.record_parts(format.VERDICTS, b"".join(one.pack() for one in kept))
        folder.write_file(file_kinds.VERDICT, program, application, record, sync=True)
    for path in sources:
        remove(path)


def forget(folder: Folder, program: int | None = None) -> int:
    """Deletes all verdicts about a program, or with None of a folder; returns how many files."""
    return sum(remove(path) for path in paths_of(folder, program))
