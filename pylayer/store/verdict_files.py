"""The files of verdicts, and what is read from the sentinels of processes that died.

<root>/store/<identity>/<program>-<unique>.verdict    a VRDT record with entries of ``verdicts.ENTRY``

No process changes another's file. A writer combines all files of the program into a new one and deletes those. For each
key the newest decision is in force, so it does not matter if two do that at once. Program 0 has what concerns every
program. shim/layer/store/verdicts.c reads the files, too.
"""

from __future__ import annotations

import time

from ..common import file_kinds
from ..common.files import remove
from . import format, runs, sentinel, verdicts
from .reader import Reader, parts_of
from .verdicts import ADDED_CALL, ENTRY, PIPELINE, RECORD, TABLE, Verdict, Verdicts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .folder import Folder
    from .sentinel import Death

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


def _read_file(path: str, folder: Folder) -> tuple[str, list[Verdict], bool] | None:
    """Returns the application's name, the entries, and whether this version knows all of them. None if the file is a
    newer version's or cannot be read now. A damaged file has no entries. Raises FileNotFoundError."""
    try:
        reader = Reader(path)
        header, outcome = reader.header(folder.identity.digest)
        if header is None or header.kind != format.VERDICT_FILE or reader.size > MAX_BYTES:
            return None if outcome in ("foreign-version", "foreign-identity") else ("", [], True)
        entries = []
        for part in reader.content(header, []):
            for record in part.records:
                if record.magic == format.VERDICTS and record.size % ENTRY.size == 0:
                    entries += [Verdict(*fields) for fields in ENTRY.iter_unpack(part.data_of(record))]
    except FileNotFoundError:
        raise
    except OSError:
        return None
    known = [one for one in entries if one.type in TABLE]
    return header.application, known, len(known) == len(entries)


def _read_files(folder: Folder, program: int | None) -> Iterator[tuple[str, tuple[str, list[Verdict], bool]]]:
    """Yields the paths of a program, or with None of all programs, and what ``_read_file`` returns. If another process
    combines files while they are read, neither the old ones nor the new one may be found, and the next listing has the
    new one."""
    seen: set[str] = set()
    for _ in range(MAX_LISTINGS):
        gone = False
        for path in paths_of(folder, program):
            try:
                content = _read_file(path, folder) if path not in seen else None
            except FileNotFoundError:
                gone = True
                continue
            seen.add(path)
            if content is not None:
                yield path, content
        if not gone:
            return


def read(folder: Folder, program: int, changing: str = "") -> Verdicts:
    """Returns what is decided for one program, or for ``EVERY_PROGRAM``."""
    found = Verdicts(changing=changing)
    for _, content in _read_files(folder, program):
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


def of_everyone(folder: Folder) -> Verdicts:
    """Returns what processes of any program died over, deaths that no start has found yet included. Only reads."""
    found = Verdicts()
    every = [known for _, known in read_all(folder).values()]
    every += [finding.known for finding in review(folder, read_only=True).values()]
    for known in every:
        found.entries.update({one.key: one for one in known.in_force(*verdicts.SUSPECTED)})
    return found


def forget(folder: Folder) -> int:
    """Deletes all verdicts of a folder; returns how many files."""
    return sum(remove(path) for path in paths_of(folder, None))


# ---- deaths --------------------------------------------------------------------------------------------


class Finding:
    """What a start found out about a program of which processes died."""

    def __init__(self, program: int, application: str, known: Verdicts) -> None:
        self.program = program
        self.application = application
        self.known = known
        self.new: list[Verdict] = []
        #: Files of sentinels that are read.
        self.paths: list[str] = []


def review(folder: Folder, read_only: bool = False, changing: str = "") -> dict[int, Finding]:
    """Decides what follows from processes that died since the last start, and stores it. Returns what is decided for
    their programs, and for ``EVERY_PROGRAM``. If the store cannot be written, this process still has it. A
    ``read_only`` store is not changed."""
    found_ns = time.time_ns()
    findings: dict[int, Finding] = {}

    def about(program: int, death: Death) -> Finding:
        if program not in findings:
            findings[program] = Finding(program, death.application, read(folder, program, changing))
        return findings[program]

    for death in sentinel.deaths(folder):
        accused = verdicts.accusations(death.marks)
        own = about(death.program, death)
        own.paths.append(death.path)
        for type, kind, subject, flags in accused:
            everyones = type == ADDED_CALL and not death.changed
            finding = about(EVERY_PROGRAM, death) if everyones else own
            decision = finding.known.accuse(type, kind, subject, death.began_ns, found_ns, flags)
            if decision is not None:
                finding.new.append(decision)
    for finding in findings.values():
        if any(one.type == PIPELINE for one in finding.new):
            _accuse_records(folder, finding, found_ns)
        snapshots = bool(folder.files(finding.program, (file_kinds.SNAPSHOT,)))
        finding.new += finding.known.judge_deaths(found_ns, snapshots)
    if not read_only:
        _store(folder, findings)
    return findings


def _accuse_records(folder: Folder, finding: Finding, found_ns: int) -> None:
    """Accuses the records of the pipelines that are accused. If such a pipeline compiles to other bytes, it is no
    longer suspected, but these records stay aside."""
    pipelines = {one.subject: one.flags & verdicts.COMPILING for one in finding.new if one.type == PIPELINE}
    for path in (*folder.files(finding.program, file_kinds.FOLDED), *folder.system_packs(finding.program, [])):
        for part in parts_of(path, folder.identity.digest, []):  # one that cannot be read: the pipeline is accused
            for record in part.records:
                if record.is_pipeline and record.fingerprint in pipelines:
                    number, flags = verdicts.number_of(record.digest), pipelines[record.fingerprint]
                    decision = finding.known.accuse(RECORD, 0, number, found_ns, found_ns, flags)
                    if decision is not None:
                        finding.new.append(decision)


def _store(folder: Folder, findings: dict[int, Finding]) -> None:
    """Stores all findings, then deletes the sentinels that led to them."""
    try:
        for finding in findings.values():
            if finding.new:
                write(folder, finding.program, finding.application, finding.new)
    except OSError:
        return  # the next start finds the sentinels again
    for finding in findings.values():
        for path in finding.paths:
            runs.keep_dead(folder.root, path)
            remove(path)
