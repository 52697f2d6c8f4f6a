"""What a program's process does for the store while idle: compact, repair, keep the limits.

It works on the policy thread between messages, in pieces of about a millisecond. An interruption leaves the store as it
was.
"""

from __future__ import annotations

import os
import time

from ..common import file_kinds
from ..common.file_kinds import FileName
from ..common.files import SCRATCH, entries_in, prune_oldest, remove, remove_left_temporaries, remove_tree, size_of
from . import bounds, cache_history, compaction, journal, runs, state
from .folder import Folder, identity_names
from .format import Damage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ..common.settings import Limits

#: A program that exits compacts for at most this time. It compacts if it has this many journals, so that short runs do
#: not leave more and more small files, or if WORTH_BYTES are in them. The runs after one that compiled everything have
#: no policy, so nobody else would compact its journal, and each would read the header of each of its records (measured
#: with 2,600 records: 2.9 ms of a start of 3.6 ms, and none from a pack, which has a table).
EXIT_SECONDS = 0.2
EXIT_JOURNALS = 16
#: The driver joins cells from this many bytes of journals on: when policy is idle, and while vkDestroyDevice waits, for
#: at most EXIT_SECONDS. The layer starts policy for that if ended runs left so much in journals.
JOIN_BYTES = 64 << 10
#: The most bytes that such a compaction reads. A compaction that takes longer than EXIT_SECONDS would begin at every
#: exit and never end (measured: 64 MiB take 0.4 s).
EXIT_BYTES = 16 << 20
#: Files with these outcomes are not repaired: the system may give them later, and a later pylayer reads them.
STAYS = ("unreadable", "foreign-version")
#: What is remembered of a fleet is deleted if nothing was pulled for this long. Its indexes have expired by then.
FLEET_SECONDS = 180 * 24 * 3600


def worth_compacting(folder: Folder, program: int, at_exit: bool, least: int) -> bool:
    """Returns whether a program has enough journals, or at least so many bytes in those that a compaction may read."""
    most = EXIT_BYTES if at_exit else compaction.PROCESS_BYTES
    count = size = 0
    for path in folder.files(program, (file_kinds.CLOSED,)):
        bytes_there = size_of(path)
        count += 1
        size += bytes_there if bytes_there <= most else 0
    return count >= (EXIT_JOURNALS if at_exit else compaction.WORTH_JOURNALS) or size >= least


def join(folder: Folder, program: int, merge: compaction.Join) -> None:
    """Has the driver join the cells in a program's journals, if that takes no longer than EXIT_SECONDS. Raises OSError;
    the store is then as it was."""
    work = compaction.Compaction(folder, program, most_bytes=EXIT_BYTES, join=merge)
    end = time.monotonic() + EXIT_SECONDS
    for _ in work.steps():
        if time.monotonic() > end and not work.written:  # once the pack is written, its sources must be deleted
            return


def tidy(
    folder: Folder,
    damaged: list[Damage],
    done: Callable[[compaction.Compaction], None] = lambda work: None,
    everything: bool = False,
    at_exit: bool = False,
    merge: compaction.Join | None = None,
    least: int = compaction.WORTH_BYTES,
) -> Generator[None, None, int]:
    """Repairs one folder, and compacts and combines its files as far as that is worthwhile, or ``everything``. Returns
    how many damaged files are gone. ``done`` gets each compaction. ``merge``: how a compaction joins
    cells. ``least``: as for ``worth_compacting``. Raises OSError; the store is then as it was."""
    wrong = {
        what.path
        for what in damaged
        if os.path.dirname(what.path) == folder.path and what.outcome not in STAYS and not what.is_torn_end
    }
    repaired = sum(remove(path) for path in wrong if path.endswith(file_kinds.DROPPED_WHOLE))
    for _ in cache_history.compact(folder):
        if not at_exit:  # at exit in one step: if time ran out in the middle, each exit would begin again
            yield
    journal.close_ended_journals(folder, None)
    most = EXIT_BYTES if at_exit else compaction.PROCESS_BYTES
    for program in folder.programs():
        must = frozenset(path for path in wrong if _is_compacted_of(program, path))
        if must or everything or worth_compacting(folder, program, at_exit, least):
            work = compaction.Compaction(folder, program, everything, must=must, most_bytes=most, join=merge)
            yield from work.steps()
            done(work)
            repaired += work.repaired
    return repaired


def _is_compacted_of(program: int, path: str) -> bool:
    name = FileName.parse(path)
    return name is not None and name.kind.compacted and name.program == program


def maintain(
    folder: Folder,
    damaged: list[Damage],
    limits: Limits,
    say: Callable[[str], None],
    at_exit: bool = False,
    merge: compaction.Join | None = None,
    least: int = JOIN_BYTES,
) -> Generator[None, None, None]:
    """Does everything that one identity's folder needs now, and that of state. ``merge``, ``least``: as in ``tidy``.
    Raises OSError; the store is then as it was."""

    # First, because time may end in a compaction, which makes one file of many. If all runs are short, nobody else does
    # it.
    if at_exit and (removed := bounds.drop_oldest_files(folder.root, limits.max_store)):
        say(
            f"the store was far beyond its limit; its {removed} oldest files were deleted. "
            "pylayer trim evicts by last use"
        )
    folder.prepare()
    repaired = 0
    for place, bytes_there in ((folder, least), (state.folder(folder.root), compaction.WORTH_BYTES)):
        repaired += yield from tidy(place, damaged, at_exit=at_exit, merge=merge, least=bytes_there)
    if repaired:
        say(f"{repaired} damaged files of the store are gone; what verified in packs and journals is kept")
    if at_exit:
        return
    yield
    yield from state.evict(folder.root, limits.state)
    eviction = bounds.Eviction(folder.root, limits.max_store)
    yield from eviction.steps()
    if eviction.bytes_after < eviction.bytes_before:
        say(
            f"the store was {eviction.bytes_before} bytes and is {eviction.bytes_after}: "
            "the least recently used pipelines were evicted"
        )


def prune(root: str) -> None:
    """Deletes what is beyond the limits of each kind of file beside the pipelines, and what ended processes left."""
    runs.prune(root)
    for kind, most in file_kinds.MADE_AGAIN.items():
        prune_oldest(os.path.join(root, kind.place), kind, most)
    for entry, status in entries_in(os.path.join(root, file_kinds.INDEX.place)):
        if time.time() - status.st_mtime > FLEET_SECONDS:  # whoever pulls changes its date
            remove_tree(entry.path)
    remove_left_temporaries(root, SCRATCH)  # whose directory may hold files of others
    for directory in file_kinds.BESIDE:
        remove_left_temporaries(os.path.join(root, directory))
    for name in identity_names(root):
        remove_left_temporaries(os.path.join(root, "store", name))
