"""``pylayer ls``: lists what the store holds, by driver and program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..common.file_kinds import BESIDE
from ..common.paths import exists, system_store_root
from ..store.quarantine import items
from . import blocks
from .output import (
    Failure,
    console,
    day,
    human_bytes,
    human_time,
    json_option,
    plural,
    print_facts,
    print_indented,
    print_json,
    print_marks,
    print_total,
    program_table,
)
from .policy_in_force import read_limits
from .selection import NAMES, Names, identity_option, meant, require_store
from .verify import verify

if TYPE_CHECKING:
    from rich.console import Console

    from ..store.store import Holding, Shelf, Store

#: Each identity, and the programs to list for it.
Chosen = list[tuple["Shelf", list["Holding"]]]

HEADINGS = ("pipelines", "files", "last used", "on disk")


# ---- for people ------------------------------------------------------------------------------------


def _last_used(holding: Holding) -> str:
    return day(holding.last_use) if holding.last_use else "-"


def _cells(holding: Holding) -> list[str]:
    files = str(sum(holding.counts().values()))
    return [str(holding.pipelines), files, _last_used(holding), human_bytes(holding.bytes)]


def _print_shelf(out: Console, names: Names, shelf: Shelf, rows: list[Holding]) -> None:
    cells = [_cells(holding) for holding in rows]
    if rows:
        out.print(program_table(out, HEADINGS, [names.of(holding.program) for holding in rows], cells))
    print_marks([row[2] for row in cells], {"-": "no use is recorded"})
    print_indented(out, f"other files {human_bytes(shelf.other_bytes)}, together {human_bytes(shelf.bytes)}", "dim")
    if shelf.identity is None:
        print_indented(out, "its identity file is missing or damaged; pylayer ls --verify says more", "yellow")
    if shelf.unusable:
        print_indented(out, f"{plural(len(shelf.unusable), 'file')} cannot be used (pylayer ls --verify)", "yellow")


def _print_program(out: Console, names: Names, holding: Holding) -> None:
    """Prints one program under one driver."""
    files = ", ".join(plural(count, kind.replace("_", " ")[:-1]) for kind, count in holding.counts().items() if count)
    facts = [("pipelines", str(holding.pipelines))]
    for count, name, what in (
        (len(holding.pulled), "from the fleet", "came from a fleet"),
        (len(holding.rebuilt), "rebuilt", "were compiled by pylayer rebuild"),
        (holding.binaries, "binaries", "are stored as pipeline binaries"),
    ):
        facts += [(name, f"{count} of the pipelines {what}")] * bool(count)
    facts += [
        ("compile time", human_time(holding.compile_ns) if holding.compile_ns else "unknown"),
        ("last used", _last_used(holding)),
        ("on disk", f"{human_bytes(holding.bytes)} in {files}"),
    ]
    out.print(names.of(holding.program), style="bold", soft_wrap=True)
    print_facts(out, facts)


def _print_totals(store: Store, beside: dict[str, tuple[int, int]]) -> None:
    limits, problem = read_limits()
    size = store.total_bytes()
    print_total(f"\n{human_bytes(size)} of at most {human_bytes(limits.max_store)} are used.")
    if decided := store.verdicts():
        print_total("\nSet aside or switched off:")
        blocks.print_blocks(decided)
    if damaged := items(store.root):
        print_total(f"\n{plural(len(damaged), 'damaged file')} in quarantine:")
        blocks.print_quarantined(damaged)
    parts = [f"{name} {human_bytes(size)}" for name, (size, count) in beside.items() if count]
    if parts:
        print_total(f"Besides them: {', '.join(parts)}.")
    if problem:
        print_total(f"{problem}, its limits included")
    print_total(f"Store: {store.root}")
    system = system_store_root()
    if exists(f"{system}/store") and system != store.root:
        print_total(f"Programs also use the system's store: PYLAYER_STORE={system} pylayer ls")


# ---- for programs ----------------------------------------------------------------------------------


def _holding_json(names: Names, holding: Holding) -> dict[str, Any]:
    return {
        "program": names.of(holding.program),
        "program_id": f"{holding.program:016x}",
        "pipelines": holding.pipelines,
        "binaries": holding.binaries,
        "pulled_pipelines": len(holding.pulled),
        "rebuilt_pipelines": len(holding.rebuilt),
        "compile_ns": holding.compile_ns,
        "bytes": holding.bytes,
        "last_used_s": holding.last_use,
        **holding.counts(),
    }


def _shelf_json(names: Names, shelf: Shelf, rows: list[Holding]) -> dict[str, Any]:
    return {
        **names.as_json(shelf.identity, shelf.name),
        "fields": shelf.identity.fields if shelf.identity is not None else None,
        "programs": [_holding_json(names, holding) for holding in rows],
        "other_bytes": shelf.other_bytes,
        "bytes": shelf.bytes,
        "unusable_files": shelf.unusable,
    }


def _json(store: Store, names: Names, chosen: Chosen, beside: dict[str, tuple[int, int]]) -> dict[str, Any]:
    limits = read_limits()[0]
    return {
        "store": store.root,
        "identities": [_shelf_json(names, shelf, rows) for shelf, rows in chosen],
        "store_bytes": store.total_bytes(),
        **{f"{folder}_bytes": size for folder, (size, _) in beside.items()},
        "max_store_bytes": limits.max_store,
        **blocks.as_json(store.verdicts(), items(store.root)),
    }


# ---- the command -----------------------------------------------------------------------------------


def _print_all(names: Names, chosen: Chosen, detailed: bool) -> None:
    """Prints a table for each identity, or if ``detailed`` lines for each program."""
    out = console()
    for number, (shelf, rows) in enumerate(chosen):
        if number:
            out.print()
        device, driver = names.device_and_driver(shelf.identity, shelf.name)
        out.print(device, style="bold")
        out.print(f"{driver}; identity {shelf.name}", style="dim")
        if not detailed:
            _print_shelf(out, names, shelf, rows)
            continue
        for holding in rows:
            out.print()
            _print_program(out, names, holding)


@click.command(epilog="Exit status: 0 success, and what --verify read is fine; 1 a problem was found; 2 usage error.")
@click.argument(
    "name",
    required=False,
    help=f"Show details of this program, {NAMES}; or of the identity that begins with this.",
)
@identity_option
@click.option("--verify", "verifies", is_flag=True, help="Read every byte, and show instead what cannot be used.")
@json_option
def ls(name: str | None, identity: str | None, verifies: bool, as_json: bool) -> None:
    """Show what the store holds, for each driver and program.

    last used is the day on which a run last used or stored a pipeline. Sizes are those of the files. With NAME, it also
    says which of the pipelines came from a fleet, were rebuilt, or are stored as pipeline binaries.

    With --verify, every record is compared with its hash. A run verifies what it loads in the same way: it ignores what
    is damaged, keeps the rest, and moves the file to quarantine. Files of other versions of pylayer are listed, but are
    not a problem. Neither is a file that ends inside a record, because a program is writing it or was killed.

    \b
    Example:
      pylayer ls
      pylayer ls blender
      pylayer ls --verify
    """
    store = require_store()
    names = Names(store.root)
    selection = meant(name, identity, store.identities())
    program = selection.app
    if verifies:
        verify(store, selection, as_json)
        return
    chosen = []

    def has_details(program: int) -> bool:
        return as_json or (selection.app is not None and selection.takes(program, names))

    for shelf in selection.shelves(store, names, has_details):
        listed = [one for one in shelf.holdings.values() if program is None or names.matches(one.program, program)]
        if listed or program is None:
            chosen.append((shelf, sorted(listed, key=lambda holding: (-holding.bytes, holding.program))))
    if (name or identity) and not chosen:
        raise Failure(f"{store.root} has no program and no identity {name or identity}; pylayer ls lists what is there")
    beside = {folder: store.tree_bytes(folder) for folder in BESIDE}
    if as_json:
        print_json(_json(store, names, chosen, beside))
    elif not chosen:
        click.echo(f"Nothing is stored in {store.root} yet; start a program with: pylayer run -- APP")
    else:
        _print_all(names, chosen, program is not None)
        if name is None:
            _print_totals(store, beside)
