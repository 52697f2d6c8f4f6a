"""``pylayer clear``: removes programs, drivers, pipelines that no driver of this machine would use, or everything."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..common.files import remove
from ..common.identity import ABI
from ..report.recorded import is_pattern
from .devices import described, is_of, present_facts
from .output import (
    EXIT_PROBLEM,
    Failure,
    WrongUse,
    human_bytes,
    json_option,
    picked,
    plural,
    print_json,
    say,
)
from .selection import (
    Names,
    Selection,
    app_option,
    confirm,
    dry_run_option,
    identity_option,
    one_identity,
    require_one,
    require_store,
    yes_option,
)
from .state import with_state

if TYPE_CHECKING:
    from ..store.removal import Removal
    from ..store.store import Shelf, Store


def _removal_json(plan: Removal, names: Names) -> dict[str, Any]:
    return {
        **names.as_json(plan.shelf.identity, plan.shelf.name),
        "why": plan.why,
        "whole_identity": plan.whole,
        "programs": list(plan.programs.values()),
        "files": len(plan.paths),
        **picked(plan, "bytes", "in_use"),
        "failure": plan.failure or None,
    }


def _plan_whole(store: Store, shelf: Shelf, why: str) -> Removal:
    from ..store.removal import Removal

    plan = Removal(store.root, shelf, why)
    plan.add_whole()
    return plan


def _selected(
    store: Store, shelves: list[Shelf], selection: Selection, names: Names, has_state: bool = False
) -> list[Removal]:
    """Returns plans for what --app and --identity select, or for all. ``has_state``: state of the program goes, too.
    Raises Failure and WrongUse."""
    from ..store.removal import Removal

    if not selection.app:
        return [_plan_whole(store, shelf, "asked for") for shelf in shelves]
    plans = [Removal(store.root, shelf, f"of {selection}") for shelf in shelves]
    for plan in plans:
        taken = [number for number in plan.shelf.programs if selection.takes(number, names)]
        plan.add_programs({number: names.of(number) for number in taken})
    named = {number: name for plan in plans for number, name in plan.programs.items()}
    require_one(selection.app, named, "nothing was deleted")
    if not named and not has_state and not is_pattern(selection.app):
        raise Failure(f"nothing was deleted: {store.root} has nothing of {selection}; pylayer ls lists what is there")
    return plans


def _stale(store: Store, shelves: list[Shelf]) -> tuple[list[Removal], list[dict[str, str]], list[str]]:
    """Returns plans for what no driver of this machine would use, what is kept because its driver cannot be checked,
    and the devices of this machine."""
    present, problem = present_facts()
    if problem:
        raise Failure(f"nothing was deleted: {problem}, so it is not known which drivers are here; see pylayer doctor")
    plans, kept = [], []
    for shelf in shelves:
        abi = shelf.identity.fields.get("abi") if shelf.identity is not None else None
        if shelf.identity is None:
            kept.append({"identity": shelf.name, "reason": "its identity file is missing or damaged"})
        elif abi != ABI:
            reason = f"it is for {abi} programs, whose drivers cannot be listed from here"
            kept.append({"identity": shelf.name, "reason": reason})
        elif not any(is_of(shelf.identity, facts) for facts in present):
            plans.append(_plan_whole(store, shelf, "no driver of this machine would use it"))
    return plans, kept, [described(facts) for facts in present]


def _recorded(store: Store, names: Names, app: str | None) -> list[str]:
    """Returns the files of state of programs of this name, or of all."""
    from ..store.state import removable

    return [path for program in with_state(store, names, app) for path in removable(store.root, program)]


@dataclass
class _Clearing:
    """What one call removes, and what it keeps."""

    store: Store
    names: Names
    plans: list[Removal]
    #: What is kept because its driver cannot be checked, and the devices of this machine.
    kept: list[dict[str, str]]
    devices: list[str]
    #: Paths of folders that an older pylayer wrote, of kept plans and compiled policy files, and of state.
    older: list[str]
    copies: list[str]
    state: list[str]
    bytes_before: int

    def print_plans(self, dry_run: bool, yes: bool) -> None:
        verb = "would remove" if dry_run else "remove"
        if self.devices:
            say(f"Devices here: {'; '.join(self.devices)}")
        for line in self.kept:
            say(f"Kept: identity {line['identity']}, because {line['reason']}.")
        for plan in self.plans:
            say(self.names.target(plan.shelf.identity, plan.shelf.name), asks=not yes)
            what = "the whole identity" if plan.whole else ", ".join(plan.programs.values())
            size = f"{plural(len(plan.paths), 'file')}, {human_bytes(plan.bytes)}"
            say(f"  {verb} {what}: {size} ({plan.why})", asks=not yes)
        for path in self.older:
            say(f"{verb.capitalize()} {path}, which an older pylayer wrote.")
        if self.copies:
            what = f"{plural(len(self.copies), 'kept plan')}, compiled policy files included"
            say(f"{verb.capitalize()} {what}: programs make them again.")
        if self.state:
            say(f"{verb.capitalize()} what is recorded for pylayer rebuild.")

    def remove(self, yes: bool) -> None:
        """Asks, unless ``yes``, and removes."""
        to_do = [plan for plan in self.plans if plan.paths]
        if not (to_do or self.older or self.copies or self.state):
            return
        older_bytes = sum(self.store.tree_bytes("store", os.path.basename(path))[0] for path in self.older)
        older_bytes += sum(os.path.getsize(path) for path in self.state if os.path.exists(path))
        confirm(f"Remove {human_bytes(sum(plan.bytes for plan in to_do) + older_bytes)}?", yes)
        for plan in to_do:
            plan.remove()
        for path in self.older:
            shutil.rmtree(path, ignore_errors=True)
        for path in (*self.copies, *self.state):
            remove(path)

    def print_done(self, dry_run: bool, everything: bool, what: str) -> None:
        """Prints what was not removed, and the size of the store. ``what`` says what there would have been nothing
        of."""
        for plan in self.plans:
            for path in plan.in_use:
                click.echo(f"Kept: {path}, because a running program may write to it. Clear it when that has ended.")
            if plan.failure:
                click.echo(f"Not removed: identity {plan.shelf.name}: {plan.failure}")
        if not (self.plans or self.older or self.copies or self.state):
            say(f"Nothing to remove: there is {what} in {self.store.root}.")
        elif not dry_run:
            if everything:
                say("Kept: the list of what ran (pylayer forget --all), and the quarantine (pylayer quarantine empty).")
            after = human_bytes(self.store.total_bytes())
            say(f"The store was {human_bytes(self.bytes_before)} and is {after}.")

    def as_json(self, dry_run: bool) -> dict[str, Any]:
        planned = sum(plan.bytes for plan in self.plans)
        return {
            "store": self.store.root,
            "dry_run": dry_run,
            "removed": [_removal_json(plan, self.names) for plan in self.plans],
            "older_folders": self.older,
            "copies": len(self.copies),
            "state_files": len(self.state),
            **picked(self, "kept", "devices", "bytes_before"),
            "bytes_after": self.bytes_before - planned if dry_run else self.store.total_bytes(),
        }


@click.command
@app_option
@identity_option
@click.option(
    "--stale", is_flag=True, help="Pipelines that no driver of this machine would use, and what an older pylayer wrote."
)
@click.option("--all", "everything", is_flag=True, help="All pipelines of all programs and drivers.")
@dry_run_option
@yes_option
@json_option
def clear(
    app: str | None, identity: str | None, stale: bool, everything: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Remove the stored pipelines of programs, of a driver, of drivers that are gone, or all.

    Programs compile removed pipelines again. Files that a running program is writing to are kept. --stale asks the
    drivers which devices there are, in the environment of this command (VK_DRIVER_FILES). A device that is not plugged
    in counts as gone. --stale and --all also remove folders that an older pylayer wrote, and --all what the layer keeps
    to start faster. --all, and --app without --identity, also remove what is recorded for pylayer rebuild. The list of
    what ran and the quarantine are kept: see pylayer forget and pylayer quarantine empty.

    \b
    Example:
      pylayer clear --stale --dry-run
    """
    from ..store.removal import copies, older_folders

    if (bool(app or identity)) + stale + everything != 1:
        raise WrongUse("say what to remove: --app or --identity or both, --stale, or --all; see pylayer clear --help")
    store = require_store()
    if identity and not app:
        identity = one_identity(store, identity)
    names, selection, before = Names(store.root), Selection(app, identity), store.total_bytes()
    shelves = selection.shelves(store, names)
    recorded = _recorded(store, names, app) if everything or (app and not identity) else []
    if stale:
        plans, kept, devices = _stale(store, shelves)
    else:
        plans, kept, devices = _selected(store, shelves, selection, names, bool(recorded)), [], []
    plans = [plan for plan in plans if not plan.is_empty]
    older = older_folders(store.root) if stale or everything else []
    kept_plans = copies(store.root) if everything else []
    work = _Clearing(store, names, plans, kept, devices, older, kept_plans, recorded, before)
    if not as_json:
        work.print_plans(dry_run, yes)
    if not dry_run:
        work.remove(yes)
    if as_json:
        print_json(work.as_json(dry_run))
    else:
        what = "nothing stale" if stale else "nothing" if everything else f"nothing of {selection}"
        work.print_done(dry_run, everything, what)
    if any(plan.in_use or plan.failure for plan in work.plans) and not dry_run:
        raise click.exceptions.Exit(EXIT_PROBLEM)
