"""What a program's process does for the store while idle: fold, repair, keep the limits.

It works on the policy thread between messages, in pieces of about a millisecond. An interruption leaves the store as it
was.
"""

from __future__ import annotations

import os
import time

from ..common import file_kinds
from ..common.file_kinds import FileName
from ..common.files import SCRATCH, names_in, prune_oldest, remove_left_temporaries, remove_tree
from . import binary_history, bounds, cache_history, ended, fold, quarantine, runs, state
from .folder import Folder, identity_names
from .format import Damage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ..common.settings import Limits

#: A program that exits folds for at most this time. It folds if it has this many journals, so that short runs do not
#: leave more and more small files, or if WORTH_BYTES are in them. The runs after one that compiled everything have
#: no policy, so nobody else would fold its journal, and each would read the header of each of its records (measured
#: with 2,600 records: 2.9 ms of a start of 3.6 ms, and none from a pack, which has a table).
EXIT_SECONDS = 0.2
EXIT_JOURNALS = 16
#: The driver joins cells from this many bytes of journals on: when policy is idle, and while vkDestroyDevice waits, for
#: at most EXIT_SECONDS. The layer starts policy for that if ended runs left so much in journals.
JOIN_BYTES = 64 << 10
#: The most bytes that such a fold reads. A fold that takes longer than EXIT_SECONDS would begin at every exit and never
#: end (measured: 64 MiB take 0.4 s).
EXIT_BYTES = 16 << 20
#: What is remembered of a fleet is deleted if nothing of it changed for this long. Its indexes have expired by then.
FLEET_SECONDS = 180 * 24 * 3600


def worth_folding(folder: Folder, program: int, at_exit: bool, least: int) -> bool:
    """Returns whether a program has enough journals, or at least so many bytes in those that a fold may read."""
    most = EXIT_BYTES if at_exit else fold.PROCESS_BYTES
    count = size = 0
    for path in folder.files(program, (file_kinds.CLOSED,)):
        try:
            bytes_there = os.stat(path).st_size
        except OSError:
            continue  # another process folded it
        count += 1
        size += bytes_there if bytes_there <= most else 0
    return count >= (EXIT_JOURNALS if at_exit else fold.WORTH_JOURNALS) or size >= least


def repair_whole_files(folder: Folder, damaged: list[Damage]) -> int:
    """Moves damaged files that are not folded (``file_kinds.MOVED_WHOLE``) to quarantine; returns how many."""
    moved = 0
    by_path: dict[str, list[Damage]] = {}
    for what in damaged:
        stays = what.outcome in ("unreadable", "foreign-version") or what.is_torn_end
        if what.path.endswith(file_kinds.MOVED_WHOLE) and not stays:
            by_path.setdefault(what.path, []).append(what)
    for path, wrong in by_path.items():
        try:
            moved += quarantine.move_file(folder.root, path, wrong)
        except OSError:
            pass  # the file stays and is not used
    return moved


def worth_joining(folder: Folder, program: int) -> bool:
    """Returns whether there are enough cells in a program's journals to ``join``."""
    return worth_folding(folder, program, True, JOIN_BYTES)


def join(folder: Folder, program: int, merge: fold.Join) -> None:
    """Has the driver join the cells in a program's journals, if that takes no longer than EXIT_SECONDS. Raises OSError;
    the store is then as it was."""
    work, end = fold.Fold(folder, program, most_bytes=EXIT_BYTES, join=merge), time.monotonic() + EXIT_SECONDS
    for _ in work.steps():
        if time.monotonic() > end and not work.result.written:  # once the pack is written, its sources must be deleted
            return


def maintain(
    folder: Folder,
    damaged: list[Damage],
    limits: Limits,
    say: Callable[[str], None],
    at_exit: bool = False,
    merge: fold.Join | None = None,
    least: int = JOIN_BYTES,
) -> Generator[None, None, None]:
    """Does everything that one identity's folder needs now, and that of state. ``merge``: how a fold joins cells.
    ``least``: from how many bytes of journals with pipelines on they are folded. Raises OSError; the store is then as
    it was."""
    if at_exit:
        _limit_at_exit(folder.root, limits, say)  # first, because time may end in a fold, which makes one file of many
    else:
        quarantine.prune(folder.root)  # first, so that what this pass moves there is still there when the log names it
    folder.prepare()
    quarantined = repair_whole_files(folder, damaged)
    for _ in cache_history.compact(folder):
        if not at_exit:  # at exit in one step: if time ran out in the middle, each exit would begin again
            yield
    ended.close_ended_journals(folder, None)
    for place, bytes_there in ((folder, least), (state.folder(folder.root), fold.WORTH_BYTES)):
        for program in place.programs():
            quarantined += yield from _fold(place, program, damaged, say, at_exit, merge, bytes_there)
    if quarantined:
        say(f"{quarantined} damaged files of the store were moved to quarantine; pylayer ls lists them")
    if at_exit:
        return
    yield
    yield from binary_history.compact(folder)
    yield from state.evict(folder.root, limits.state)
    eviction = bounds.Eviction(folder.root, limits.max_store)
    yield from eviction.steps()
    if eviction.bytes_after < eviction.bytes_before:
        say(
            f"the store was {eviction.bytes_before} bytes and is {eviction.bytes_after}: "
            "the least recently used pipelines were evicted"
        )


def _limit_at_exit(root: str, limits: Limits, say: Callable[[str], None]) -> None:
    """Does what nobody else does if every run is short."""
    removed = bounds.drop_oldest_files(root, limits.max_store)
    if removed:
        say(
            f"the store was far beyond its limit; its {removed} oldest files were deleted. "
            "pylayer trim evicts by last use"
        )


def _fold(
    folder: Folder,
    program: int,
    damaged: list[Damage],
    say: Callable[[str], None],
    at_exit: bool,
    merge: fold.Join | None,
    least: int,
) -> Generator[None, None, int]:
    """Folds a program's files if that is worthwhile; returns how many went to quarantine. Raises OSError."""
    mine = [
        what.path
        for what in damaged
        if what.outcome != "unreadable"
        and (name := FileName.parse(what.path))
        and (os.path.dirname(what.path), name.program) == (folder.path, program)
    ]
    must = frozenset(path for path in mine if path.endswith(file_kinds.PACK))
    broken_journals = any(path.endswith((file_kinds.JOURNAL, file_kinds.CLOSED)) for path in mine)
    if not (must or broken_journals or worth_folding(folder, program, at_exit, least)):
        return 0
    most = EXIT_BYTES if at_exit else fold.PROCESS_BYTES
    work = fold.Fold(folder, program, must=must, most_bytes=most, join=merge)
    yield from work.steps()
    result = work.result
    if result.pack is not None:
        say(
            f"folded {result.journals} journals and {result.packs} packs, {result.bytes_before} bytes, into "
            f"{result.records} records, {result.bytes_after} bytes"
        )
    return result.quarantined


def prune(root: str) -> None:
    """Deletes what is beyond the limits of each kind of file beside the pipelines, and what ended processes left."""
    runs.prune(root)
    for kind, most in file_kinds.MADE_AGAIN.items():
        prune_oldest(os.path.join(root, kind.place), kind, most)
    _prune_fleets(root)
    remove_left_temporaries(root, SCRATCH)  # whose directory may hold files of others
    for directory in file_kinds.BESIDE:
        remove_left_temporaries(os.path.join(root, directory))
    for name in identity_names(root):
        remove_left_temporaries(os.path.join(root, "store", name))


def _prune_fleets(root: str) -> None:
    """Deletes what is remembered of fleets that were not used for long."""
    directory = os.path.join(root, file_kinds.INDEX.place)
    for name in names_in(directory):
        path = os.path.join(directory, name)
        try:
            found = [os.path.join(below, name) for below, _, names in os.walk(path) for name in names]
            newest = max(os.lstat(one).st_mtime for one in (path, *found))
        except OSError:
            continue  # in use just now
        if time.time() - newest > FLEET_SECONDS:
            remove_tree(path)
