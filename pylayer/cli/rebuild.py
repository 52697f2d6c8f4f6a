"""``pylayer rebuild``: compiles what programs created on an earlier driver for the drivers that are here now."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import click

from ..common.paths import system_store_root
from ..common.settings import top_setting
from ..report import recorded
from ..store import state as states
from ..store.store import Refused, Store
from ..values import DeviceFacts
from .devices import described
from .output import (
    EXIT_PROBLEM,
    Failure,
    console,
    human_time,
    json_option,
    plural,
    print_json,
    print_table,
    printable,
    progress,
)
from .replaying import NOTHING_OF_ITS_OWN, RENAMED, Effort, Rebuild, partitions_of, require_replayer, room
from .selection import NAMES, Names, require_store, with_recordings

#: VK_VENDOR_ID_MESA: drivers that draw with the processor.
SOFTWARE = 0x10005


def _is_here(facts: DeviceFacts, fields: dict[str, Any]) -> bool:
    return (fields.get("vendor_id"), fields.get("device_id")) == (facts.vendor_id, facts.device_id)


def unrecorded(runs: list[recorded.Run]) -> dict[int, Counter[str]]:
    """Returns how many pipelines the last run that recorded state could not record, by program and by reason."""
    return {run.program_id: Counter(run.unrecorded) for run in runs if run.numbers["state_recorded"] or run.unrecorded}


class Plan:
    """What programs lack on the devices of this machine. ``everything``: also what failed before on this driver."""

    def __init__(self, store: Store, names: Names, everything: bool = False) -> None:
        from .devices import present_facts
        from .policy_in_force import read_policy

        self.names = names
        self._store = store
        self._everything = everything
        self._shares = top_setting(read_policy()[0], "share") == "all"
        self._partitions = partitions_of(store.root)
        self._system = partitions_of(system_store_root())
        self._unrecorded = unrecorded(recorded.read(store.root))
        present, problem = present_facts()
        if problem:
            raise Failure(f"nothing was rebuilt: {problem}")
        self._present = {(it.vendor_id, it.device_id, it.pipeline_cache_uuid): it for it in present}

    def _devices(self, program: int) -> list[DeviceFacts]:
        """Returns the devices that a program used, whatever their driver was then. If none is here, returns all, but a
        processor that draws only if there is nothing else."""
        used = [
            partition.identity.fields
            for partition in self._partitions
            if program in partition.holdings and partition.identity
        ]
        found = [facts for facts in self._present.values() if any(_is_here(facts, fields) for fields in used)]
        cards = [facts for facts in self._present.values() if facts.vendor_id != SOFTWARE]
        return found or cards or list(self._present.values())

    def _stored(self, program: int, facts: DeviceFacts) -> set[int]:
        from .devices import is_of

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
    require_replayer()
    try:
        with (
            room(store, "the rest was not rebuilt") as scratch,
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


def _as_json(root: str, works: list[Rebuild]) -> dict[str, Any]:
    rebuilds = [
        {
            "program": work.recipient[1],
            "program_id": f"{work.recipient[0]:016x}",
            "device": work.facts.device_name,
            "driver": work.facts.driver_name,
            "driver_info": work.facts.driver_info,
            "wanted": len(work.wanted),
            "rebuilt": work.rebuilt,
            "without_data": work.without_data,
            "without_recording": work.without_recording,
            "not_rebuilt": dict(work.failures),
            "not_tried": dict(work.earlier),
            "not_recorded": dict(work.unrecorded),
        }
        for work in works
    ]
    return {"store": root, "rebuilds": rebuilds}


def _works(store: Store, program: str | None, everything: bool) -> list[Rebuild]:
    names = Names(store.root)
    chosen = with_recordings(store, names, program)
    if program is not None and not chosen:
        raise Failure(f"nothing was rebuilt: no state is recorded of a program named {program}")
    if not chosen:
        return []
    plan = Plan(store, names, everything)
    return [work for number in chosen for work in plan.rebuilds(number)]


@click.command(short_help="Compile pipelines for a new driver.")
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
        print_json(_as_json(store.root, works))
    elif works:
        _print(works)
    else:
        click.echo("Nothing to rebuild: no state of a program is recorded.")
    is_cold = False
    if warms:
        from .warm import warm_after

        is_cold = not warm_after(store, (program,) if program else (), as_json)
    if is_cold or any(work.failures for work in works):
        raise click.exceptions.Exit(EXIT_PROBLEM)
