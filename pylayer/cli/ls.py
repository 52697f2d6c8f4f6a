"""``pylayer ls``: lists what the store holds, by driver and program, or with --verify what in it cannot be used."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ..common.file_kinds import BESIDE
from ..common.paths import exists, system_store_root
from ..report.words import DAY, human_bytes, moment, plural, printable
from ..store.checking import Checked
from ..store.store import Damage, Holding, Partition, Store
from .output import (
    Failure,
    console,
    end_if,
    json_option,
    picked,
    print_blocks,
    print_indented,
    print_json,
    print_table,
    print_total,
    work_through,
)
from .policy_in_force import read_limits
from .selection import NAMES, Names, Selection, identity_option, meant, require_store

if TYPE_CHECKING:
    from rich.console import Console

    Row = dict[str, Any]

COLUMNS = {
    "program": "program",
    "#pipelines": "pipelines",
    "#files": "files",
    "#last used": "last_used",
    "#on disk": "bytes",
}


# ---- rows ------------------------------------------------------------------------------------------


def _program(names: Names, holding: Holding) -> Row:
    return {
        "program": names.of(holding.program),
        "program_id": f"{holding.program:016x}",
        "pipelines": len(holding.fingerprints),
        "files": holding.files,
        "bytes": holding.bytes,
        "last_used_s": holding.last_use,
    }


def _identity(names: Names, partition: Partition, selection: Selection) -> Row:
    taken = [one for one in partition.holdings.values() if selection.takes(one.program, names)]
    return {
        **names.as_json(partition.identity, partition.name),
        "fields": partition.identity.fields if partition.identity is not None else None,
        "programs": [_program(names, one) for one in sorted(taken, key=lambda one: (-one.bytes, one.program))],
        "other_bytes": partition.other_bytes,
        "bytes": partition.bytes,
        "unusable_files": partition.unusable,
    }


# ---- for people ------------------------------------------------------------------------------------


def _print_programs(out: Console, identity: Row) -> None:
    rows = identity["programs"]
    shown = [row | {"last_used": moment(row["last_used_s"], DAY)} for row in rows]
    if shown:
        print_table(out, COLUMNS, shown, {"?": "no use is recorded"})
    other, together = human_bytes(identity["other_bytes"]), human_bytes(identity["bytes"])
    print_indented(out, f"other files {other}, together {together}", "dim")
    if identity["fields"] is None:
        print_indented(out, "its identity file is missing or damaged; pylayer ls --verify says more", "yellow")
    if unusable := identity["unusable_files"]:
        print_indented(out, f"{plural(len(unusable), 'file')} cannot be used (pylayer ls --verify)", "yellow")


def _print_identities(found: list[Row]) -> None:
    """Prints a table for each identity."""
    out = console()
    for number, identity in enumerate(found):
        if number:
            out.print()
        out.print(identity["device"], style="bold")
        out.print(f"{identity['driver']}; identity {identity['identity']}", style="dim")
        _print_programs(out, identity)


def _print_totals(store: Store) -> None:
    limits, problem = read_limits()
    print_total(f"\n{human_bytes(store.total_bytes())} of at most {human_bytes(limits.max_store)} are used.")
    if decided := store.block_list():
        print_total("\nBlocked or switched off:")
        print_blocks(decided)
    beside = {folder: store.tree_bytes(folder) for folder in BESIDE}
    if parts := [f"{name} {human_bytes(size)}" for name, (size, count) in beside.items() if count]:
        print_total(f"Besides them: {', '.join(parts)}.")
    if problem:
        print_total(f"{problem}, its limits included")
    print_total(f"Store: {store.root}")
    system = system_store_root()
    if exists(f"{system}/store") and system != store.root:
        print_total(f"Programs also use the system's store: PYLAYER_STORE={system} pylayer ls")


# ---- the command -----------------------------------------------------------------------------------


@click.command(epilog="Exit status: 0 success, and what --verify read is fine; 1 a problem was found; 2 usage error.")
@click.argument(
    "name",
    required=False,
    help=f"Only this program, {NAMES}; or the identity that begins with this.",
)
@identity_option
@click.option("--verify", "verifies", is_flag=True, help="Read every byte, and show instead what cannot be used.")
@click.option("--repair", "repairs", is_flag=True, help="With --verify: drop what cannot be used, and keep the rest.")
@json_option
def ls(name: str | None, identity: str | None, verifies: bool, repairs: bool, as_json: bool) -> None:
    """Show what the store holds, for each driver and program.

    last used is the day on which a run last used or stored a pipeline. Sizes are those of the files.

    With --verify, every record is compared with its hash. A run verifies what it loads in the same way: it ignores what
    is damaged, keeps the rest of a pack or journal, and deletes the file. With --repair that is done now. Files of
    other versions of pylayer are listed, but are not a problem. Neither is a file that ends inside a record, because a
    program is writing it or was killed.

    \b
    Example:
      pylayer ls
      pylayer ls blender
      pylayer ls --verify
    """
    store = require_store()
    selection = meant(name, identity, store.identities())
    if verifies or repairs:
        verify(store, selection, as_json, repairs)
        return
    names = Names(store.root)

    partitions = selection.partitions(store, names)
    found = [_identity(names, partition, selection) for partition in partitions]
    found = [one for one in found if one["programs"] or selection.app is None]
    if (name or identity) and not found:
        raise Failure(f"{store.root} has no program and no identity {name or identity}; pylayer ls lists what is there")
    if as_json:
        parts = {f"{folder}_bytes": store.tree_bytes(folder)[0] for folder in BESIDE}
        sizes = {"store_bytes": store.total_bytes(), **parts, "max_store_bytes": read_limits()[0].max_store}
        blocked = [picked(one, *vars(one)) for one in store.block_list()]
        print_json({"store": store.root, "identities": found, **sizes, "blocks": blocked})
    elif not found:
        click.echo(f"Nothing is stored in {store.root} yet; start a program with: pylayer run -- APP")
    else:
        _print_identities(found)
        if name is None:
            _print_totals(store)


# ---- --verify ------------------------------------------------------------------------------------------------

#: The most problems to list for people. --json lists all.
LISTED = 40


def _damage_json(what: Damage) -> dict[str, Any]:
    size = what.size if what.size >= 0 else None
    return {"file": what.path, **picked(what, "outcome", "detail", "offset"), "size_bytes": size}


def _json(root: str, report: Checked) -> dict[str, Any]:
    return {
        "store": root,
        "fine": not report.problems,
        **picked(report, "files", "records", "file_bytes", "data_bytes"),
        "problems": [_damage_json(what) for what in report.problems],
        "torn_ends": [_damage_json(what) for what in report.torn_ends],
        "other_versions": [_damage_json(what) for what in report.other_versions],
    }


def _print(report: Checked) -> None:
    out = console()
    listed = [(what, "bold red") for what in report.problems] + [(what, "yellow") for what in report.other_versions]
    listed += [(what, "dim") for what in report.torn_ends]
    for what, style in listed[:LISTED]:
        out.print(printable(str(what)), style=style, soft_wrap=True)
    if len(listed) > LISTED:
        out.print(f"and {len(listed) - LISTED} more (--json lists all)", style="dim")
    out.print(
        f"Verified: {plural(report.records, 'record')} ({human_bytes(report.data_bytes)}) in "
        f"{plural(report.files, 'file')} ({human_bytes(report.file_bytes)})."
    )
    if report.other_versions:
        others = plural(len(report.other_versions), "file")
        out.print(f"{others} of another version, left alone.", style="dim")
    if not report.problems:
        out.print("Everything is fine.", style="bold green")
        return
    out.print(f"{plural(len(report.problems), 'problem')}; a run ignores what does not verify.", style="bold red")
    out.print("A run that finds one keeps the rest of a pack or journal, and deletes what is damaged.")
    out.print("So does pylayer ls --verify --repair, at once.")


def verify(store: Store, selection: Selection, as_json: bool, repairs: bool) -> None:
    """Verifies what a selection takes, and if wanted repairs the store. Ends with status 1 if a problem is left."""
    if not os.path.isdir(store.root) and not as_json:
        click.echo(f"Nothing is stored in {store.root} yet; start a program with: pylayer run -- APP")
        return
    names = Names(store.root)
    if selection.app is not None:
        selection.partitions(store, names)
    takes = None if selection.app is None else partial(selection.takes, names=names)

    def read() -> Checked:
        report = Checked(store.root)
        size = store.tree_bytes("store")[0]
        work_through("verifying", size, report.steps(selection.takes_identity, takes), as_json)
        return report

    report = read()
    if repairs and report.problems:
        report.repair()
        found, report = len(report.problems), read()
        if not as_json:
            repaired = f"{max(0, found - len(report.problems))} of {plural(found, 'problem')}"
            click.echo(f"Repaired: {repaired}. What verifies in these files is kept.")
    if as_json:
        print_json(_json(store.root, report))
    elif not (report.files or report.problems or report.other_versions):
        click.echo(f"Nothing of {selection} is stored in {store.root}; pylayer ls lists what is there.")
    else:
        _print(report)
    end_if(report.problems)
