"""What follows from the deaths of processes: reads the crash markers that they left, and decides what to block.

A start of the layer that finds a crash marker whose process has ended does this before it loads the store.
"""

from __future__ import annotations

import time

from ..common import file_kinds
from ..common.files import remove
from ..values import KIND_NAMES
from . import block_files, block_list, crash_marker, runs
from .block_list import ADDED_CALL, APPLICATION, BLOCKED, KILLED, LAYER_OFF, PIPELINE, RECORD, SUCCESSES, BlockList
from .format import number_of
from .reader import parts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .crash_marker import Death, Mark
    from .folder import Folder


#: The types of blocks on the data of these calls.
OF_DATA = {crash_marker.RECORDS: RECORD, crash_marker.APPLICATION: APPLICATION, crash_marker.MERGE: APPLICATION}


def blocked_by(marks: Iterable[Mark], used: int = 0) -> dict[block_list.Key, int]:
    """Returns what to block because of a dead process's marks, with flags. ``used``: how often it had used stored data
    without harm."""
    found: dict[block_list.Key, int] = {}

    killed = KILLED if used >= SUCCESSES else 0

    def block(type: int, kind: int, subject: int, flags: int = killed) -> None:
        found[type, kind, subject] = found.get((type, kind, subject), flags) & flags

    for mark in marks:
        if mark.call in OF_DATA:
            for number in mark.ids:
                block(OF_DATA[mark.call], 0, number)
        elif mark.call in (crash_marker.PIPELINES, crash_marker.COMPILE):
            flags = KILLED if mark.call == crash_marker.COMPILE else killed
            for fingerprint in mark.ids:
                block(PIPELINE, 0, block_list.pipeline_number(fingerprint, mark.kind), flags)
            if mark.cache:
                block(APPLICATION, 0, mark.cache, flags)
        elif mark.call in crash_marker.ADDED and mark.kind < len(KIND_NAMES):
            # Drivers that crash there do so for each kind, in a death each.
            block(ADDED_CALL, block_list.EVERY_KIND if mark.call == crash_marker.KEY else mark.kind, mark.call)
    return found


def review(folder: Folder, read_only: bool = False) -> dict[int, BlockList]:
    """Decides what follows from processes that died since the last start, and stores it. Returns what is decided for
    their programs, and for ``EVERY_PROGRAM``; in ``new`` what is decided now. If the store cannot be written, this
    process still has it. A ``read_only`` store is not changed."""
    found_ns = time.time_ns()
    findings: dict[int, BlockList] = {}
    paths = []

    def about(program: int, death: Death) -> BlockList:
        if program not in findings:
            findings[program] = block_files.read(folder, program)
            findings[program].application = death.application
        return findings[program]

    for death in crash_marker.deaths(folder):
        own = about(death.program, death)
        paths.append(death.path)
        if death.used >= SUCCESSES:
            own.unblock(LAYER_OFF)
        for key, flags in blocked_by(death.marks, death.used).items():
            everyones = key[0] == ADDED_CALL and not death.changed
            known = about(block_files.EVERY_PROGRAM, death) if everyones else own
            known.block(*key, death.began_ns, found_ns, flags)
    for program, known in findings.items():
        _block_records(folder, program, known, found_ns)
        known.judge_deaths(found_ns)
    if not read_only:
        _store(folder, findings, paths)
    return findings


def _block_records(folder: Folder, program: int, known: BlockList, found_ns: int) -> None:
    """Blocks the records of the pipelines that were just blocked. If such a pipeline compiles to other bytes, it is no
    longer blocked, but these records stay blocked."""
    pipelines = {one.subject: one.flags & KILLED for one in known.new if one.type == PIPELINE}
    if not pipelines:
        return
    for path in (*folder.files(program, file_kinds.COMPACTED), *folder.system_packs(program, [])):
        for part in parts_of(path, folder.identity.digest, []):  # unreadable: only the pipeline is blocked
            for record in part.records:
                blocked_ones = [pipelines[each] for each in record.fingerprints if each in pipelines]
                if blocked_ones:
                    known.block(RECORD, 0, number_of(record.digest), found_ns, found_ns, min(blocked_ones))


def _store(folder: Folder, findings: dict[int, BlockList], paths: list[str]) -> None:
    """Stores all findings, then deletes the crash markers that led to them."""
    try:
        for program, known in findings.items():
            if known.new:
                block_files.write(folder, program, known.application, known.new)
    except OSError:
        return  # the next start finds the crash markers again
    for path in paths:
        runs.keep_dead(folder.root, path)
        remove(path)


def of_everyone(folder: Folder) -> BlockList:
    """Returns what processes of any program died over, deaths that no start has found yet included. Only reads."""
    found = BlockList()
    for known in (*block_files.read_all(folder).values(), *review(folder, read_only=True).values()):
        found.entries.update({one.key: one for one in known.in_force(*BLOCKED)})
    return found
