"""``pylayer rebuild``: compiles what programs created on an earlier driver for the drivers that are here now.

A replayer works for a slice of time. Then it ends, its store is imported, and another one begins. So a kill loses one
slice only, and memory that a driver does not free is bounded.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import click

from ..common.files import remove_tree
from ..common.identity import Identity
from ..common.paths import system_store_root
from ..common.settings import top_setting
from ..report import recorded
from ..report.words import human_time, plural, printable
from ..store import state as states
from ..store.state import Created, State, Unusable, record_again
from ..store.store import Refused, Store
from ..values import MODE_NAMES, MODES_THAT_KEEP, DeviceFacts
from . import replaying
from .devices import described, device_row, is_of, present_facts
from .output import Failure, console, end_if, json_option, picked, print_json, print_table, progress
from .policy_in_force import read_policy
from .replaying import Ended, NoDevice, Replayer
from .selection import NAMES, Names, require_store, with_recordings

SLICE_SECONDS = 20.0
#: Noted for a pipeline that was created and left nothing to store, such as one that is linked from stored libraries.
NOTHING_OF_ITS_OWN = "it has no data of its own"
#: Noted for a pipeline that may be stored under another fingerprint, because its fingerprint is made of shader
#: identifiers (VK_EXT_shader_module_identifier), and this driver computes other ones. Which ones, only the program's
#: next run shows.
RENAMED = "it may be stored, since this driver has other shader identifiers"
OTHER_NAME = "its data was stored under another fingerprint"
NOT_ENDED = "the process crashed or hung when it destroyed the device"
NOT_STORED = "the policy, the driver or the disk keeps the layer from storing it (pylayer doctor)"

# ---- all that a program lacks on a device --------------------------------------------------------------


@dataclass
class Effort:
    """Limits of a rebuild: the number of processes, which share half of the machine's memory, and the seconds for each
    pipeline."""

    jobs: int
    seconds: float

    @property
    def share(self) -> int:
        """The memory for one process."""
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 // self.jobs


@dataclass
class Rebuild:
    """Rebuilds pipelines of one program for one device. ``wanted``: in the order in which they are compiled."""

    store: Store
    state: State
    facts: DeviceFacts
    recipient: tuple[int, str]
    wanted: list[Created]
    #: Numbers of pipelines that are not tried, because they failed before on this driver, by reason.
    earlier: Counter[str] = field(default_factory=Counter)
    #: Numbers of pipelines that were not rebuilt, by reason.
    failures: Counter[str] = field(default_factory=Counter)
    #: Numbers of pipelines that the program created and that have no recording, by reason.
    unrecorded: Counter[str] = field(default_factory=Counter)
    rebuilt: int = 0
    #: Number of pipelines that could be created, but have no data of their own.
    without_data: int = 0
    #: Number of pipelines that are stored and have no recording.
    without_recording: int = 0

    def __post_init__(self) -> None:
        #: Set when no other pipeline is to be begun.
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._groups: dict[tuple[bytes, bytes], deque[Created]] = {}
        #: Called with the number of pipelines that were just done; negative if some have to be done again.
        self._advance: Callable[..., None] = lambda number: None

    @property
    def identity(self) -> Identity:
        """The device's identity, made from what does not depend on what a program enables."""
        return Identity.of(self.facts)

    def run(self, effort: Effort, scratch: str, advance: Callable[..., None]) -> None:
        """Rebuilds until all is done or Ctrl-C was typed, and imports what there is. Raises OSError and Refused."""
        path = replaying.replayer_for(self.state, scratch)
        for created in self.wanted:
            self._groups.setdefault((created.instance, created.device), deque()).append(created)
        self._advance = advance
        with ThreadPoolExecutor(effort.jobs) as pool:
            works = [pool.submit(self._work, effort, path) for _ in range(effort.jobs)]
            try:
                for work in works:
                    work.result()
            finally:
                self.stop.set()

    def _work(self, effort: Effort, path: str) -> None:
        try:
            while not self.stop.is_set() and (group := self._next_group()):
                root = f"{path}.{next(self._numbers)}.store"
                try:
                    environment = replaying.scratch_environment(root, bool(self.state.identified))
                    self._slice(group, effort, path, environment)
                finally:
                    remove_tree(root)
        except BaseException:
            self.stop.set()
            raise

    def _next_group(self) -> tuple[bytes, bytes] | None:
        with self._lock:
            return next((key for key, group in self._groups.items() if group), None)

    def _next(self, key: tuple[bytes, bytes]) -> Created | None:
        with self._lock:
            group = self._groups[key]
            return group.popleft() if group and not self.stop.is_set() else None

    def _fail(self, lost: list[Created], why: str, again: bool = False) -> None:
        """Counts pipelines as failed. Without ``again`` this is noted, and later rebuilds do not try them."""
        with self._lock:
            for created in lost:
                self.failures[why] += 1
                if not again:
                    self.state.fail(created.pipeline, self.identity.digest, why)

    def _fail_all(self, keys: Iterable[tuple[bytes, bytes]], why: str) -> None:
        for key in keys:
            while created := self._next(key):
                self._fail([created], why, again=True)
                self._advance(1)

    def _slice(self, key: tuple[bytes, bytes], effort: Effort, path: str, environment: dict[str, str]) -> None:
        """Replays pipelines of one device's creation until the slice is over, and imports what was stored."""
        replayer = Replayer(path, self.facts, environment, effort.share)
        made: list[Created] = []
        try:
            try:
                replayer.begin(self.state, *key, effort.seconds)
            except (NoDevice, Ended, Unusable) as error:
                self._fail_all([key], f"its device cannot be created: {error}")
                return
            is_whole = self._feed(replayer, key, effort, made)
        finally:
            ends = replayer.close(effort.seconds)
        root = environment["PYLAYER_STORE"]
        lost, others = self._import(root, made) if made else ([], 0)
        runs = recorded.read(root)
        are_renamed = others > 0 and any(run.numbers["identified_shaders"] for run in runs)
        if not is_whole:  # the process died over a later one before the layer had written these: create them again
            with self._lock:
                self._groups[key].extendleft(reversed(lost))
            self._advance(-len(lost))
        elif lost and ends and not _stored_all(runs):
            self._fail(lost, NOT_STORED, again=True)
            if len(lost) == len(made):
                self._fail_all(list(self._groups), NOT_STORED)
        elif ends and (not others or are_renamed):
            with self._lock:
                of_them = len({created.fingerprint for created in lost})
                renamed = len(lost) if others >= of_them else min(len(lost), others)
                self.rebuilt += renamed
                self.without_data += len(lost) - renamed
                for created in lost:
                    note = RENAMED if are_renamed else NOTHING_OF_ITS_OWN
                    self.state.fail(created.pipeline, self.identity.digest, note)
        else:
            self._fail(lost, OTHER_NAME if ends else NOT_ENDED, again=not ends)

    def _feed(self, replayer: Replayer, key: tuple[bytes, bytes], effort: Effort, made: list[Created]) -> bool:
        """Creates pipelines one by one, and adds those that could be created to ``made``. Returns False if the process
        died over one."""
        end = time.monotonic() + SLICE_SECONDS
        while created := self._next(key):
            try:
                why = replayer.create(self.state, created, effort.seconds)
            except Ended as error:
                self._fail([created], str(error), error.again)
                return False
            except Unusable as error:
                record_again(self.store.root, self.state.program)
                self._fail([created], str(error), again=True)
                continue
            finally:
                self._advance(1)
            if why:
                self._fail([created], why)
            else:
                made.append(created)
            if time.monotonic() > end or replayer.resident_bytes > effort.share // 2:
                break
        return True

    def _import(self, root: str, made: list[Created]) -> tuple[list[Created], int]:
        """Imports what was stored. Returns the pipelines of ``made`` that were not stored, and how many pipelines were
        stored under fingerprints that no recording has."""
        with self._lock:
            _, fingerprints = replaying.import_all(root, self.store, self.recipient, rebuilt=True)
            lost = [created for created in made if created.fingerprint not in fingerprints]
            self.rebuilt += len(made) - len(lost)
        known = {created.fingerprint for created in self.state.created.values()}
        return lost, len(fingerprints - {0} - known)


def _stored_all(runs: list[recorded.Run]) -> bool:
    """Returns whether the layer stored all that it compiled. Then pipelines that are not stored have no data."""
    compiled, stored = (sum(run.numbers[key] for run in runs) for key in ("compiled", "stored_records"))
    return compiled <= stored and any(run.texts["mode"] in KEEPING for run in runs)


KEEPING = [MODE_NAMES[mode] for mode in MODES_THAT_KEEP]
#: VK_VENDOR_ID_MESA: drivers that draw with the processor.
SOFTWARE = 0x10005


def unrecorded(runs: list[recorded.Run]) -> dict[int, Counter[str]]:
    """Returns how many pipelines the last run that recorded state could not record, by program and by reason."""
    known = ((run, Counter(run.counts("unrecorded"))) for run in runs)
    return {run.program_id: counts for run, counts in known if counts or run.numbers["state_recorded"]}


class Plan:
    """What programs lack on the devices of this machine. ``everything``: also what failed before on this driver."""

    def __init__(self, store: Store, names: Names, everything: bool = False) -> None:
        self.names = names
        self._store = store
        self._everything = everything
        self._shares = top_setting(read_policy()[0], "share") == "all"
        self._partitions = replaying.partitions_of(store.root)
        self._system = replaying.partitions_of(system_store_root())
        self._unrecorded = unrecorded(recorded.read(store.root))
        present, problem = present_facts()
        if problem:
            raise Failure(f"nothing was rebuilt: {problem}")
        distinct = {(it.vendor_id, it.device_id, it.pipeline_cache_uuid): it for it in present}
        self._present = list(distinct.values())

    def _devices(self, program: int) -> list[DeviceFacts]:
        """Returns the devices that a program used, whatever their driver was then. If none is here, returns all, but a
        processor that draws only if there is nothing else."""
        used = {
            (partition.identity.fields.get("vendor_id"), partition.identity.fields.get("device_id"))
            for partition in self._partitions
            if program in partition.holdings and partition.identity
        }
        found = [facts for facts in self._present if (facts.vendor_id, facts.device_id) in used]
        return found or [facts for facts in self._present if facts.vendor_id != SOFTWARE] or self._present

    def _stored(self, program: int, facts: DeviceFacts) -> set[int]:
        found: set[int] = set()
        for partition in (*self._partitions, *self._system):
            if partition.identity is not None and is_of(partition.identity, facts):
                takes = partition.holdings if self._shares else [program]
                found.update(*(partition.holdings[it].fingerprints for it in takes if it in partition.holdings))
        return found

    def rebuilds(self, program: int) -> list[Rebuild]:
        """Returns the work for each device of a program. What a program waited for longest comes first."""
        state = states.read(self._store.root, program)
        if any(not what.is_torn_end for what in state.damage):
            states.record_again(self._store.root, program)
        for partition in self._partitions:
            if program in partition.holdings:
                state.note_uses(partition.holdings[program].created)
        unrecorded_ones = states.lacking(self._partitions, state)
        if unrecorded_ones:
            states.record_again(self._store.root, program, unrecorded_ones)
        found = []
        for facts in self._devices(program):
            stored = self._stored(program, facts)
            recipient = program, self.names.of(program)
            work = Rebuild(self._store, state, facts, recipient, [])
            work.unrecorded = self._unrecorded.get(program, Counter())
            work.without_recording = len(unrecorded_ones)
            lacking = [created for created in state.created.values() if created.fingerprint not in stored]
            for created in lacking:
                why = state.failed.get(created.pipeline, {}).get(work.identity.digest)
                if why is None or self._everything or (why == RENAMED and not stored):
                    work.wanted.append(created)
                elif why not in (NOTHING_OF_ITS_OWN, RENAMED):
                    work.earlier[why] += 1
            work.wanted.sort(key=lambda created: (-created.stall_ns, -created.last_use))
            found.append(work)
        return found


def _perform(store: Store, works: list[Rebuild], effort: Effort) -> None:
    """Does all of the work that there is. Raises Failure."""
    total = sum(len(work.wanted) for work in works)
    if not total:
        return
    replaying.require_replayer()
    try:
        with (
            replaying.room(store, "the rest was not rebuilt") as scratch,
            progress("rebuilding", total, remaining=True) as advance,
        ):
            for work in works:
                if work.wanted:
                    work.run(effort, scratch, advance)
    except Refused as error:
        raise Failure(f"what was compiled is no data of this driver: {error}; the rest was not rebuilt") from error


# ---- the command ---------------------------------------------------------------------------------------


def _print(works: list[Rebuild]) -> None:
    for work in works:
        reasons = work.failures + work.earlier
        reasons.update({f"not recorded: {why}": number for why, number in work.unrecorded.items()})
        if not work.wanted and not reasons:
            click.echo(f"Nothing to rebuild for {work.recipient[1]}:")
        else:
            waited = human_time(sum(created.stall_ns for created in work.wanted))
            count = plural(len(work.wanted), "pipeline")
            others = f"; {work.without_data} more have no data of their own" if work.without_data else ""
            done = f"{work.rebuilt} of {count} for {work.recipient[1]}"
            click.echo(f"Rebuilt: {done}, which once waited {waited} for them{others}")
        click.echo(f"  {printable(described(work.facts))}")
        if work.without_recording:
            count = plural(work.without_recording, "stored pipeline")
            click.echo(f"  without {count} of which no recording is there: the next runs record those that they create")
        if reasons:
            again = dict.fromkeys(work.earlier, " (not tried again; --all does)")
            rows = [
                {"number": number, "why": printable(why) + again.get(why, "")} for why, number in reasons.most_common()
            ]
            print_table(console(), {"#not rebuilt": "number", "why": "why"}, rows)


def _as_json(work: Rebuild) -> dict[str, Any]:
    program = {"program": work.recipient[1], "program_id": f"{work.recipient[0]:016x}"}
    reasons = {"not_rebuilt": work.failures, "not_tried": work.earlier, "not_recorded": work.unrecorded}
    return {
        **program,
        **device_row(work.facts),
        "wanted": len(work.wanted),
        **picked(work, "rebuilt", "without_data", "without_recording"),
        **{key: dict(counts) for key, counts in reasons.items()},
    }


def _works(store: Store, program: str | None, everything: bool) -> list[Rebuild]:
    names = Names(store.root)
    chosen = with_recordings(store, names, program)
    if program is not None and not chosen:
        raise Failure(f"nothing was rebuilt: no state is recorded of a program named {program}")
    if not chosen:
        return []
    plan = Plan(store, names, everything)
    return [work for number in chosen for work in plan.rebuilds(number)]


@click.command
@click.argument("program", required=False, help=f"Only this program, {NAMES}. Default: all.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes. Default: one less than there are processors.")
@click.option(
    "--timeout",
    type=click.IntRange(1, 86400),
    default=120,
    show_default=True,
    help="Seconds after which a pipeline is given up.",
)
@click.option("--all", "everything", is_flag=True, help="Also try what failed before on this driver.")
@click.option("--warm", "warms", is_flag=True, help="Then fill the driver's own disk cache (pylayer warm).")
@json_option
def rebuild(program: str | None, jobs: int | None, timeout: int, everything: bool, warms: bool, as_json: bool) -> None:
    """Compile pipelines for this machine's drivers, from what programs asked for with another driver or card.

    This needs the recorded state of programs: what they asked for when they created pipelines. It creates the pipelines
    that the store lacks for the present driver, in processes of their own, the ones that programs waited for longest
    first. A pipeline that crashes the driver, hangs or takes too much memory is not tried again on this driver, except
    with --all. After Ctrl-C or a kill, the next rebuild continues.

    \b
    Example:
      pylayer rebuild
      pylayer rebuild game --jobs 4
    """
    store = require_store()
    effort = Effort(jobs or max(1, len(os.sched_getaffinity(0)) - 1), float(timeout))
    works = _works(store, program, everything)
    try:
        _perform(store, works, effort)
    except KeyboardInterrupt:
        _print(works)
        raise
    if as_json:
        print_json({"store": store.root, "rebuilds": [_as_json(work) for work in works]})
    elif works:
        _print(works)
    else:
        click.echo("Nothing to rebuild: no state of a program is recorded.")
    is_cold = False
    if warms:
        from .warm import warm_after

        is_cold = not warm_after(store, (program,) if program else (), as_json)
    end_if(is_cold or any(work.failures for work in works))
