"""``pylayer rm``: removes what the store has of a program, of a driver, of drivers that are gone, or of all."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from ..common import file_kinds
from ..common.files import remove
from ..common.identity import ABI
from ..report import recorded
from ..report.recorded import is_pattern
from ..store import state
from ..store.removal import Removal, folder_of, leftovers
from .blocks import print_blocks
from .devices import described, is_of, present_facts
from .output import EXIT_PROBLEM, Failure, WrongUse, human_bytes, json_option, picked, plural, print_json, say
from .selection import (
    NAMES,
    Names,
    Selection,
    confirm,
    dry_run_option,
    identity_option,
    meant,
    one_identity,
    require_one,
    require_store,
    with_recordings,
    yes_option,
)

if TYPE_CHECKING:
    from ..store.store import Shelf, Store, VerdictText

#: What can be removed, and what the help says of it.
KINDS = {
    "pipelines": "Only stored pipelines.",
    "history": "Only recorded runs, their numbers and their timelines.",
    "recordings": "Only what pylayer rebuild needs, shaders included.",
    "blocks": "Only what is set aside or switched off (pylayer doctor), so that it is used again.",
}


#: Other files and folders than pipelines, in words.
OTHERS = {
    "history": "recorded runs and timelines",
    "recordings": "recordings for pylayer rebuild",
    "leftovers": "decisions and compiled policies",
}


@dataclass
class Removing:
    """What one call removes, and what it keeps."""

    store: Store
    names: Names
    plans: list[Removal] = field(default_factory=list)
    #: What is kept because its driver cannot be checked, and the devices of this machine.
    kept: list[dict[str, str]] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    blocks: list[VerdictText] = field(default_factory=list)
    #: Sizes of other files by their paths, by their key in OTHERS.
    others: dict[str, dict[str, int]] = field(default_factory=dict)
    #: Of what OTHERS calls so; None if there are none.
    recordings: Removal | None = None
    #: Runs of programs that are running, which are kept.
    running: int = 0
    #: Programs that a name stands for, by number.
    programs: dict[int, str] = field(default_factory=dict)

    # ---- what to remove ----------------------------------------------------------------------------------

    def _add(self, shelf: Shelf, programs: dict[int, str] | None = None) -> None:
        plan = Removal(folder_of(self.store.root, shelf), programs)
        self.plans += [plan] * (not plan.is_empty)

    def add_pipelines(self, selection: Selection) -> None:
        """Adds stored pipelines: of the selected program, or all under the selected identities."""
        for shelf in selection.shelves(self.store, self.names):
            taken = {number: self.names.of(number) for number in shelf.programs if selection.takes(number, self.names)}
            self._add(shelf, taken if selection.app else None)

    def add_stale(self) -> None:
        """Adds the pipelines that no driver of this machine would use. Raises Failure."""
        present, problem = present_facts()
        if problem:
            why = f"{problem}, so it is not known which drivers are here; see pylayer doctor"
            raise Failure(f"nothing was deleted: {why}")
        self.devices = [described(facts) for facts in present]
        for shelf in Selection().shelves(self.store, self.names):
            abi = shelf.identity.fields.get("abi") if shelf.identity is not None else None
            if shelf.identity is None:
                self.kept.append({"identity": shelf.name, "reason": "its identity file is missing or damaged"})
            elif abi != ABI:
                reason = f"it is for {abi} programs, whose drivers cannot be listed from here"
                self.kept.append({"identity": shelf.name, "reason": reason})
            elif not any(is_of(shelf.identity, facts) for facts in present):
                self._add(shelf)

    def add_history(self, selection: Selection) -> None:
        """Adds recorded runs and their timelines. Files that nobody can read are added if all are selected."""
        from ..store.runs import recorded_paths

        everything = selection.app is None and selection.identity is None
        runs = list(filter(selection.takes_run, recorded.read(self.store.root)))
        running = {run.name for run in runs if run.state == "running"}
        self.running = len(running)
        found = recorded_paths(self.store.root, None if everything else {run.name for run in runs} - running)
        kept = {name + file_kinds.RUN for name in running}
        self.others["history"] = {path: _size(path) for path in found if os.path.basename(path) not in kept}

    def add_recordings(self, app: str | None) -> None:
        """Adds what is recorded for pylayer rebuild."""
        programs = {number: self.names.of(number) for number in with_recordings(self.store, self.names, app)}
        plan = Removal(state.folder(self.store.root), None if app is None else programs)
        self.recordings = None if plan.is_empty else plan
        self.others["recordings"] = plan.paths

    def add_blocks(self, selection: Selection) -> None:
        """Adds what is set aside or switched off."""
        for one in self.store.verdicts():
            number = int(one.program_id, 16)
            self.names.learn(number, one.program)
            if selection.takes_identity(one.identity) and selection.takes(number, self.names):
                self.blocks.append(one)

    # ---- removing ----------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Returns whether there is nothing to remove."""
        return not (self.plans or self.blocks or any(self.others.values()))

    @property
    def bytes(self) -> int:
        """Returns the bytes of all of it."""
        return sum(plan.bytes for plan in self.plans) + sum(sum(found.values()) for found in self.others.values())

    def print_plan(self, dry_run: bool, yes: bool) -> None:
        """Prints what is removed."""
        verb = "would remove" if dry_run else "remove"
        if self.devices:
            say(f"Devices here: {'; '.join(self.devices)}")
        for line in self.kept:
            say(f"Kept: identity {line['identity']}, because {line['reason']}.")
        for plan in self.plans:
            say(self.names.target(plan.folder.identity, plan.folder.identity.name), asks=not yes)
            what = "the whole identity" if plan.whole else ", ".join(plan.programs.values())
            say(f"  {verb} {what}: {_told(plan.paths)}", asks=not yes)
        for what, paths in self.others.items():
            if paths:
                of = f" of {', '.join(sorted(set(self.programs.values())))}" if self.programs else ""
                say(f"{verb.capitalize()} {OTHERS[what]}{of}: {_told(paths)}", asks=not yes)
        if self.blocks:
            say(f"{verb.capitalize()} {plural(len(self.blocks), 'block')}:", asks=not yes)
            print_blocks(self.blocks)

    @property
    def removals(self) -> list[Removal]:
        """Returns what is removed of folders of journals and packs."""
        return [*self.plans, *([self.recordings] if self.recordings else [])]

    def remove(self) -> list[str]:
        """Removes it. Returns what is left of it without a reason of its own."""
        for plan in self.removals:
            plan.remove()
        paths = [path for what, found in self.others.items() if what != "recordings" for path in found]
        for path in paths:
            remove(path)
        self.store.forget(self.blocks)
        return [path for path in paths if os.path.lexists(path)]

    def as_json(self, dry_run: bool, before: int) -> dict[str, Any]:
        """Returns all of this for --json."""
        return {
            "store": self.store.root,
            "dry_run": dry_run,
            "removed": [
                {
                    **self.names.as_json(plan.folder.identity, plan.folder.identity.name),
                    "whole_identity": plan.whole,
                    "programs": list(plan.programs.values()),
                    "files": len(plan.paths),
                    **picked(plan, "bytes", "in_use"),
                    "failure": plan.failure or None,
                }
                for plan in self.plans
            ],
            "others": {what: len(paths) for what, paths in self.others.items()},
            "blocks": len(self.blocks),
            "left": [] if dry_run else list(filter(os.path.lexists, chain(*self.others.values()))),
            **picked(self, "running", "kept", "devices"),
            "bytes_before": before,
            "bytes_after": before - sum(plan.bytes for plan in self.plans) if dry_run else self.store.total_bytes(),
        }


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0  # gone


def _told(sizes: dict[str, int]) -> str:
    return f"{plural(len(sizes), 'file')}, {human_bytes(sum(sizes.values()))}"


def _planned(store: Store, selection: Selection, stale: bool, kinds: set[str]) -> Removing:
    """Returns what to remove. Raises Failure and WrongUse."""
    work = Removing(store, Names(store.root))
    everything = not (selection.app or selection.identity or stale)
    if stale:
        work.add_stale()
    elif "pipelines" in kinds:
        work.add_pipelines(selection)
    if stale or (everything and "pipelines" in kinds):
        work.others["leftovers"] = {path: _size(path) for path in leftovers(store.root)}
    if stale:
        return work
    if "history" in kinds:
        work.add_history(selection)
    if "recordings" in kinds and not selection.identity:
        work.add_recordings(selection.app)
    if "blocks" in kinds:
        work.add_blocks(selection)
    if selection.app:
        work.programs = {number: work.names.of(number) for number in work.names.known(selection.app)}
        require_one(selection.app, work.programs, "nothing was deleted")
        if not work.programs and not is_pattern(selection.app):
            there = "pylayer ls and pylayer stats list what is there"
            raise Failure(f"nothing was deleted: {store.root} has nothing of {selection}; {there}")
    return work


def _print_done(work: Removing, dry_run: bool, before: int, what: str) -> None:
    """Prints what was not removed, and the size of the store, which only pipelines count for. ``what`` is what there
    would have been nothing of."""
    for plan in work.removals:
        for path in plan.in_use:
            click.echo(f"Kept: {path}, because a running program may write to it. Remove it when that has ended.")
        if plan.failure:
            click.echo(f"Not removed: {plan.folder.path}: {plan.failure}")
    if work.running:
        click.echo(f"Kept: {plural(work.running, 'run')} of programs that are running.")
    if work.is_empty:
        say(f"Nothing to remove: there is {what} in {work.store.root}.")
    elif work.plans and not dry_run:
        say(f"The store was {human_bytes(before)} and is {human_bytes(work.store.total_bytes())}.")


@click.command
@click.argument("name", required=False, help=f"This program, {NAMES}; or the identity that begins with this.")
@identity_option
@click.option("--stale", is_flag=True, help="Pipelines that no driver of this machine would use.")
@click.option("--all", "everything", is_flag=True, help="Of all programs and drivers.")
@click.option("--pipelines", "kinds", flag_value="pipelines", multiple=True, help=KINDS["pipelines"])
@click.option("--history", "kinds", flag_value="history", multiple=True, help=KINDS["history"])
@click.option("--recordings", "kinds", flag_value="recordings", multiple=True, help=KINDS["recordings"])
@click.option("--blocks", "kinds", flag_value="blocks", multiple=True, help=KINDS["blocks"])
@dry_run_option
@yes_option
@json_option
def rm(
    name: str | None,
    identity: str | None,
    stale: bool,
    everything: bool,
    kinds: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove what the store has of a program or a driver.

    That is stored pipelines, recorded runs, what pylayer rebuild needs, and what is set aside. Options choose among
    these. Programs compile removed pipelines again. If the driver crashed on what is set aside, it will again.

    Files that a running program is writing to are kept. --stale asks the drivers which devices there are, in the
    environment of this command (VK_DRIVER_FILES). A device that is not plugged in counts as gone.

    \b
    Example:
      pylayer rm game --dry-run
      pylayer rm --stale
      pylayer rm --all --blocks
    """
    if bool(name or identity) + stale + everything != 1 or (stale and set(kinds) - {"pipelines"}):
        raise WrongUse("say what to remove: a NAME or --identity, or --stale, or --all; see pylayer rm --help")
    store = require_store()
    selection = meant(name, identity, store.identities())
    if selection.identity and not selection.app:
        selection = Selection(identity=one_identity(store, selection.identity))
    before = store.total_bytes()
    work = _planned(store, selection, stale, set(kinds or KINDS))
    if not as_json:
        work.print_plan(dry_run, yes)
    left: list[str] = []
    if not (dry_run or work.is_empty):
        confirm(f"Remove {human_bytes(work.bytes)}?", yes)
        left = work.remove()
    if as_json:
        print_json(work.as_json(dry_run, before))
    else:
        what = "nothing stale" if stale else "nothing" if everything else f"nothing of {selection}"
        _print_done(work, dry_run, before, what)
    if left:
        raise Failure(f"{plural(len(left), 'file')} could not be removed, such as {left[0]}; check who owns it")
    if any(plan.in_use or plan.failure for plan in work.removals) and not dry_run:
        raise click.exceptions.Exit(EXIT_PROBLEM)
