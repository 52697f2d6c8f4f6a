"""``pylayer clear``: removes programs, drivers, pipelines that no driver of this machine would use, or everything."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import click

from .output import EXIT_PROBLEM, EXIT_STATUSES, HELP, Failure, WrongUse, human_bytes, json_option, plural, print_json
from .selection import (
    Names,
    Selection,
    app_option,
    confirm,
    dry_run_option,
    identity_option,
    one_identity,
    require_root,
    yes_option,
)

if TYPE_CHECKING:
    from ..store.folder import Folder
    from ..values import DeviceFacts
    from .inventory import Shelf

IS_FOLDED = "another process is folding it; try again when it is done"


class Plan:
    """What to remove of one identity: files of programs, or the whole folder."""

    def __init__(self, shelf: Shelf, why: str) -> None:
        self.shelf = shelf
        self.why = why
        self.whole = False
        self.paths: dict[str, int] = {}
        self.programs: dict[int, str] = {}
        #: Files that a running process may append to. They are kept.
        self.in_use: list[str] = []
        self.failure = ""

    @property
    def bytes(self) -> int:
        """Returns the number of bytes that the plan frees on disk."""
        return sum(self.paths.values())

    @property
    def is_empty(self) -> bool:
        """Returns whether the plan has no file to remove and no file that is in use."""
        return not (self.paths or self.in_use)

    def add(self, path: str, size: int) -> None:
        """Plans to remove a file, or lists it as in use if a process may write to it."""
        from ..store import ended, format

        try:
            written = path.endswith(format.APPENDED) and ended.has_writer(path)
        except FileNotFoundError:
            return
        except OSError:
            written = False  # nobody can read it
        if written:
            self.in_use.append(path)
        else:
            self.paths[path] = size

    def as_json(self, names: Names) -> dict[str, Any]:
        """Returns the plan for --json, with units in key names."""
        from .inventory import describe

        device, driver = describe(self.shelf.identity, self.shelf.name, names)
        return {
            "identity": self.shelf.name,
            "device": device,
            "driver": driver,
            "why": self.why,
            "whole_identity": self.whole,
            "programs": list(self.programs.values()),
            "files": len(self.paths),
            "bytes": self.bytes,
            "in_use": self.in_use,
            "failure": self.failure or None,
        }


def _plan_whole(root: str, shelf: Shelf, why: str) -> Plan:
    """Plans to remove a driver's folder. The identity file is kept as long as another file stays."""
    from ..store.bounds import files_of

    plan = Plan(shelf, why)
    plan.whole = True
    for file in files_of(root, shelf.name):
        if os.path.basename(file.path) != "folding":
            plan.add(file.path, file.size)
    if plan.in_use:
        plan.paths.pop(os.path.join(shelf.path, "identity"), None)
    return plan


def _plan_programs(root: str, shelf: Shelf, selection: Selection, names: Names) -> Plan:
    """Plans to remove the files of the selected programs under one identity."""
    from ..store.bounds import files_of
    from .inventory import OWN

    plan = Plan(shelf, f"of {selection}")
    plan.programs = {program: names.of(program) for program in shelf.programs if selection.takes(program, names)}
    for file in files_of(root, shelf.name):
        if file.program in plan.programs and file.path.endswith(OWN):
            plan.add(file.path, file.size)
    return plan


def older_folders(root: str) -> list[str]:
    """Returns the paths of folders that an older pylayer wrote and that this version renamed."""
    from ..store.folder import OLDER

    try:
        names = sorted(name for name in os.listdir(os.path.join(root, "store")) if name.endswith(OLDER))
    except OSError:
        return []
    return [os.path.join(root, "store", name) for name in names]


def _stale(root: str, shelves: list[Shelf], names: Names) -> tuple[list[Plan], list[dict[str, str]], list[str]]:
    """Returns plans for what no driver of this machine would use, what is kept because its driver cannot be checked,
    and the devices of this machine."""
    from ..common.identity import ABI
    from .devices import is_of, present_facts

    present, problem = present_facts()
    if problem:
        raise Failure(f"nothing was deleted: {problem}, so nobody knows which drivers are here; see pylayer doctor")
    plans, kept = [], []
    for shelf in shelves:
        why = _why_stale(shelf, present, is_of)
        if why:
            plans.append(_plan_whole(root, shelf, why))
            continue
        if shelf.identity is None:
            kept.append({"identity": shelf.name, "reason": "its identity file is missing or damaged"})
        elif shelf.identity.fields.get("abi") != ABI:
            reason = f"it is for {shelf.identity.fields.get('abi')} programs, whose drivers cannot be listed from here"
            kept.append({"identity": shelf.name, "reason": reason})
    return plans, kept, [f"{facts.device_name}, {facts.driver_name} {facts.driver_info}".strip() for facts in present]


def _why_stale(shelf: Shelf, present: list[DeviceFacts], is_of: Any) -> str:
    """Returns why a folder is stale. Returns empty text if its driver is here, or if that cannot be known."""
    from ..common.identity import ABI

    if shelf.identity is None or shelf.identity.fields.get("abi") != ABI:
        return ""
    return "" if any(is_of(shelf.identity, facts) for facts in present) else "no driver of this machine would use it"


def _folder(root: str, shelf: Shelf) -> Folder:
    from ..common.identity import Identity
    from ..store.folder import Folder

    identity = shelf.identity
    if identity is None:  # only the folder's name is known
        identity = Identity({})
        identity.name, identity.digest = shelf.name, bytes.fromhex(shelf.name)
    return Folder(root, identity)


def _remove_files(folder: Folder, plan: Plan) -> None:
    """Deletes the files of a plan under the folder's claim. Without it, a concurrent fold would write back what it has
    already read."""
    from ..common.files import remove
    from ..store.claim import Claim
    from .inventory import OWN

    claim = Claim(folder)
    if not claim.take():
        plan.failure = IS_FOLDED
        return
    try:
        for program in plan.programs:  # files that a fold wrote since the plan was made
            for path in set(folder.files(program, OWN)) - {*plan.paths, *plan.in_use}:
                plan.add(path, 0)
        paths = sorted(plan.paths, key=lambda path: os.path.basename(path) == "identity")
        left = [path for path in paths if not remove(path) and os.path.lexists(path)]
    finally:
        claim.drop()
    if left:
        plan.failure = f"{plural(len(left), 'file')} could not be deleted, such as {left[0]}"


def _remove_whole(root: str, plan: Plan) -> None:
    folder = _folder(root, plan.shelf)
    folder.check()
    _remove_files(folder, plan)
    try:
        os.rmdir(folder.path)
    except OSError:
        pass  # a file is in use, or was created meanwhile


def _remove(root: str, plan: Plan) -> None:
    try:
        if plan.whole:
            _remove_whole(root, plan)
        else:
            folder = _folder(root, plan.shelf)
            folder.check()
            _remove_files(folder, plan)
    except OSError as error:
        plan.failure = str(error.strerror or error)


def _print_plans(plans: list[Plan], names: Names, dry_run: bool) -> None:
    from .inventory import describe

    for plan in plans:
        device, driver = describe(plan.shelf.identity, plan.shelf.name, names)
        click.echo(f"{device}, {driver}; identity {plan.shelf.name}")
        what = "the whole identity" if plan.whole else ", ".join(plan.programs.values())
        verb = "would remove" if dry_run else "remove"
        click.echo(f"  {verb} {what}: {plural(len(plan.paths), 'file')}, {human_bytes(plan.bytes)} ({plan.why})")


def _print_in_use(plans: list[Plan]) -> None:
    for plan in plans:
        for path in plan.in_use:
            click.echo(f"Kept: {path}, because a program that runs may write to it; clear it when that has ended.")
        if plan.failure:
            click.echo(f"Not removed: identity {plan.shelf.name}: {plan.failure}")


@click.command(context_settings=HELP, epilog=EXIT_STATUSES, short_help="Remove stored pipelines, by program or driver.")
@app_option
@identity_option
@click.option(
    "--stale", is_flag=True, help="What no driver of this machine would use, and what an older pylayer wrote."
)
@click.option("--all", "everything", is_flag=True, help="All pipelines of all programs and drivers.")
@dry_run_option
@yes_option
@json_option
def clear(
    app: str | None, identity: str | None, stale: bool, everything: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Remove stored pipelines: of programs, of a driver, of drivers that are gone, or all.

    Programs compile again what is removed. Files that a running program writes are kept. --stale asks the drivers
    which devices there are, under the environment of this command (VK_DRIVER_FILES); a device that is not plugged
    in counts as gone. Folders that an older pylayer wrote go with --stale and --all. Statistics stay, and so does
    the quarantine.

    
    Example:
      pylayer clear --stale --dry-run
    """
    from ..store import bounds
    from .inventory import Inventory, tree_bytes

    if (bool(app or identity)) + stale + everything != 1:
        raise WrongUse("say what to remove: --app and --identity, or --stale, or --all; see pylayer clear --help")
    root = require_root()
    names = Names(root)
    if identity and not app:
        identity = one_identity(root, identity)
    selection = Selection(app, identity)
    shelves = Inventory(root, selection, names).shelves
    kept: list[dict[str, str]] = []
    devices: list[str] = []
    if stale:
        plans, kept, devices = _stale(root, shelves, names)
    elif app:
        plans = [_plan_programs(root, shelf, selection, names) for shelf in shelves]
    else:
        plans = [_plan_whole(root, shelf, "asked for") for shelf in shelves]
    plans = [plan for plan in plans if not plan.is_empty]
    to_do = [plan for plan in plans if plan.paths]
    older = older_folders(root) if stale or everything else []
    before = bounds.total_bytes(root)
    if not as_json:
        if devices:
            click.echo(f"Devices here: {'; '.join(devices)}")
        for line in kept:
            click.echo(f"Kept: identity {line['identity']}, because {line['reason']}.")
        _print_plans(plans, names, dry_run)
        for path in older:
            click.echo(f"{'Would remove' if dry_run else 'Remove'} {path}, which an older pylayer wrote.")
    if (to_do or older) and not dry_run:
        size = sum(plan.bytes for plan in to_do) + sum(tree_bytes(path)[0] for path in older)
        confirm(f"Remove {human_bytes(size)}?", yes)
        for plan in to_do:
            _remove(root, plan)
        for path in older:
            shutil.rmtree(path, ignore_errors=True)
    after = bounds.total_bytes(root)
    if as_json:
        print_json(
            {
                "store": root,
                "dry_run": dry_run,
                "removed": [plan.as_json(names) for plan in plans],
                "older_folders": older,
                "kept": kept,
                "devices": devices,
                "bytes_before": before,
                "bytes_after": before - sum(plan.bytes for plan in plans) if dry_run else after,
            }
        )
    else:
        _print_in_use(plans)
        if not plans and not older:
            what = "nothing stale" if stale else "nothing" if everything else f"nothing of {selection}"
            click.echo(f"Nothing to remove: there is {what} in {root}.")
        elif not dry_run:
            click.echo(f"The store was {human_bytes(before)} and is {human_bytes(after)}.")
    if any(plan.in_use or plan.failure for plan in plans) and not dry_run:
        raise click.exceptions.Exit(EXIT_PROBLEM)
