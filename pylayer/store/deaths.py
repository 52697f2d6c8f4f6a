"""What follows from the deaths of processes: reads the sentinels that they left, and decides what to set aside.

A start of the layer that finds a sentinel whose process has ended does this before it loads the store.
"""

from __future__ import annotations

import time

from ..common import file_kinds
from ..common.files import remove
from ..values import KIND_NAMES
from . import runs, sentinel, verdict_files, verdicts
from .format import number_of
from .reader import parts_of
from .verdicts import ADDED_CALL, APPLICATION, KILLED, LAYER_OFF, PIPELINE, RECORD, SUCCESSES, SUSPECTED, Verdicts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .folder import Folder
    from .sentinel import Death, Mark


def accusations(marks: Iterable[Mark], used: int = 0) -> dict[verdicts.Key, int]:
    """Returns what the marks of a dead process accuse, with flags. ``used``: how often it had used stored data without
    harm."""
    found: dict[verdicts.Key, int] = {}

    killed = KILLED if used >= SUCCESSES else 0

    def accuse(type: int, kind: int, subject: int, flags: int = killed) -> None:
        found[type, kind, subject] = found.get((type, kind, subject), flags) & flags

    for mark in marks:
        if mark.call == sentinel.RECORDS:
            for number in mark.ids:
                accuse(RECORD, 0, number)
        elif mark.call in (sentinel.APPLICATION, sentinel.MERGE):
            for number in mark.ids:
                accuse(APPLICATION, 0, number)
        elif mark.call in (sentinel.PIPELINES, sentinel.COMPILE):
            flags = KILLED if mark.call == sentinel.COMPILE else killed
            for fingerprint in mark.ids:
                accuse(PIPELINE, 0, verdicts.pipeline_number(fingerprint, mark.kind), flags)
            if mark.cache:
                accuse(APPLICATION, 0, mark.cache, flags)
        elif mark.call in sentinel.ADDED and mark.kind < len(KIND_NAMES):
            # Drivers that crash there do so for each kind, in a death each.
            accuse(ADDED_CALL, verdicts.EVERY_KIND if mark.call == sentinel.KEY else mark.kind, mark.call)
    return found


def review(folder: Folder, read_only: bool = False) -> dict[int, Verdicts]:
    """Decides what follows from processes that died since the last start, and stores it. Returns what is decided for
    their programs, and for ``EVERY_PROGRAM``; in ``new`` what is decided now. If the store cannot be written, this
    process still has it. A ``read_only`` store is not changed."""
    found_ns = time.time_ns()
    findings: dict[int, Verdicts] = {}
    paths = []

    def about(program: int, death: Death) -> Verdicts:
        if program not in findings:
            findings[program] = verdict_files.read(folder, program)
            findings[program].application = death.application
        return findings[program]

    for death in sentinel.deaths(folder):
        own = about(death.program, death)
        paths.append(death.path)
        if death.used >= SUCCESSES:
            own.acquit(LAYER_OFF)
        for key, flags in accusations(death.marks, death.used).items():
            everyones = key[0] == ADDED_CALL and not death.changed
            known = about(verdict_files.EVERY_PROGRAM, death) if everyones else own
            known.accuse(*key, death.began_ns, found_ns, flags)
    for program, known in findings.items():
        _accuse_records(folder, program, known, found_ns)
        known.judge_deaths(found_ns)
    if not read_only:
        _store(folder, findings, paths)
    return findings


def _accuse_records(folder: Folder, program: int, known: Verdicts, found_ns: int) -> None:
    """Accuses the records of the pipelines that are accused. If such a pipeline compiles to other bytes, it is no
    longer suspected, but these records stay aside."""
    pipelines = {one.subject: one.flags & KILLED for one in known.new if one.type == PIPELINE}
    if not pipelines:
        return
    for path in (*folder.files(program, file_kinds.FOLDED), *folder.system_packs(program, [])):
        for part in parts_of(path, folder.identity.digest, []):  # one that cannot be read: the pipeline is accused
            for record in part.records:
                accused = [pipelines[each] for each in record.fingerprints if each in pipelines]
                if accused:
                    known.accuse(RECORD, 0, number_of(record.digest), found_ns, found_ns, min(accused))


def _store(folder: Folder, findings: dict[int, Verdicts], paths: list[str]) -> None:
    """Stores all findings, then deletes the sentinels that led to them."""
    try:
        for program, known in findings.items():
            if known.new:
                verdict_files.write(folder, program, known.application, known.new)
    except OSError:
        return  # the next start finds the sentinels again
    for path in paths:
        runs.keep_dead(folder.root, path)
        remove(path)


def of_everyone(folder: Folder) -> Verdicts:
    """Returns what processes of any program died over, deaths that no start has found yet included. Only reads."""
    found = Verdicts()
    for known in (*verdict_files.read_all(folder).values(), *review(folder, read_only=True).values()):
        found.entries.update({one.key: one for one in known.in_force(*SUSPECTED)})
    return found
