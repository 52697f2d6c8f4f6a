"""``pylayer ls``: what the store holds, by driver and program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from .output import (
    EXIT_STATUSES,
    HELP,
    console,
    day,
    human_bytes,
    json_option,
    plural,
    print_json,
    print_total,
    program_table,
    shorten,
)
from .selection import Names, Selection, app_option, identity_option, require_root

if TYPE_CHECKING:
    from rich.console import Console

    from .inventory import Holding, Inventory, Shelf

HEADINGS = ("pipelines", "files", "last used", "on disk")
#: Directories beside the pipelines, each with what it holds.
BESIDE = ("runs", "plans", "policy", "manifests", "quarantine")


def _chosen(found: Inventory, shelf: Shelf, selection: Selection) -> list[Holding]:
    """Returns what is listed of an identity, the largest first."""
    chosen = [holding for holding in shelf.holdings.values() if selection.takes(holding.program, found.names)]
    return sorted(chosen, key=lambda holding: (-holding.bytes, holding.program))


def _files(holding: Holding) -> str:
    """How many files of which kind, in as few characters as there can be."""
    letters = {"journals": "J", "packs": "P", "snapshots": "S", "blobs": "B", "attestation_files": "A"}
    return " ".join(f"{count}{letters[kind]}" for kind, count in holding.counts().items() if count) or "-"


def _row(holding: Holding) -> list[str]:
    binaries = f" ({holding.binaries} bin)" if holding.binaries else ""
    return [f"{holding.pipelines}{binaries}", _files(holding), day(holding.last_used), human_bytes(holding.bytes)]


def _print_shelf(out: Console, found: Inventory, shelf: Shelf, holdings: list[Holding]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from .inventory import describe

    device, driver = describe(shelf.identity, shelf.name, found.names)
    out.print(Text(device, style="bold"))
    out.print(Text(f"{driver}; identity {shelf.name}", style="dim"))
    rows = [_row(holding) for holding in holdings]
    table, name_width = program_table(out, HEADINGS, rows)
    for holding, row in zip(holdings, rows, strict=True):
        table.add_row(Text(shorten(found.names.of(holding.program), name_width)), *row)
    if holdings:
        out.print(table)
    rest = f"other files {human_bytes(shelf.other_bytes)}, together {human_bytes(shelf.bytes)}"
    out.print(Padding(Text(rest, style="dim"), (0, 0, 0, 2), expand=False))
    if shelf.identity is None:
        line = "its identity file is missing or damaged; pylayer verify says more"
        out.print(Padding(Text(line, style="yellow"), (0, 0, 0, 2), expand=False))
    if shelf.unusable:
        line = f"{plural(len(shelf.unusable), 'file')} cannot be used; pylayer verify says why"
        out.print(Padding(Text(line, style="yellow"), (0, 0, 0, 2), expand=False))


def _holding_json(found: Inventory, holding: Holding) -> dict[str, Any]:
    return {
        "program": found.names.of(holding.program),
        "program_id": f"{holding.program:016x}",
        "pipelines": holding.pipelines,
        "binaries": holding.binaries,
        "bytes": holding.bytes,
        "last_used_s": holding.last_used,
        **holding.counts(),
    }


def _shelf_json(found: Inventory, shelf: Shelf, holdings: list[Holding]) -> dict[str, Any]:
    from .inventory import describe

    device, driver = describe(shelf.identity, shelf.name, found.names)
    return {
        "identity": shelf.name,
        "device": device,
        "driver": driver,
        "fields": shelf.identity.fields if shelf.identity is not None else None,
        "programs": [_holding_json(found, holding) for holding in holdings],
        "other_bytes": shelf.other_bytes,
        "bytes": shelf.bytes,
        "unusable_files": shelf.unusable,
    }


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@app_option
@identity_option
@json_option
def ls(app: str | None, identity: str | None, as_json: bool) -> None:
    """Show what the store holds, for each driver and program.

    Behind the pipelines stands how many of them are kept as pipeline binaries (bin), where any are; the others are
    cells. files counts journals (J), packs (P), snapshots (S), blobs of the program's own caches (B) and files of
    what it read of its caches and pipeline binaries (A). last used is the day on which a run last used or stored
    a pipeline. Sizes are those of the files.

    \b
    Example:
      pylayer ls --app "blender*"
    """
    from .inventory import Inventory, tree_bytes
    from .policy_limits import read_limits

    root = require_root()
    selection = Selection(app, identity)
    found = Inventory(root, selection, Names(root))
    limits, problem = read_limits()
    beside = {name: tree_bytes(os.path.join(root, name)) for name in BESIDE}
    chosen = [(shelf, _chosen(found, shelf, selection)) for shelf in found.shelves]
    if app is not None:
        chosen = [(shelf, holdings) for shelf, holdings in chosen if holdings]
    if as_json:
        print_json(
            {
                "store": root,
                "identities": [_shelf_json(found, shelf, holdings) for shelf, holdings in chosen],
                "stray_bytes": found.stray_bytes,
                "store_bytes": found.store_bytes,
                **{f"{name}_bytes": size for name, (size, _) in beside.items()},
                "max_store_bytes": limits.max_store,
                "max_program_bytes": limits.max_program,
            }
        )
        return
    if not chosen:
        what = f"Nothing of {selection}" if app or identity else "Nothing"
        click.echo(f"{what} is stored in {root} yet; start a program with: pylayer run -- APP")
        return
    out = console()
    for number, (shelf, holdings) in enumerate(chosen):
        if number:
            out.print()
        _print_shelf(out, found, shelf, holdings)
    text = f"\n{human_bytes(found.store_bytes)} of at most {human_bytes(limits.max_store)} are used"
    print_total(f"{text}; a program may have {human_bytes(limits.max_program)}.")
    if found.stray_bytes:
        print_total(f"{human_bytes(found.stray_bytes)} in {root}/store belong to no identity.")
    parts = [f"{name} {human_bytes(size)}" for name, (size, count) in beside.items() if count]
    if parts:
        print_total(f"Beside them: {', '.join(parts)}.")
    if problem:
        print_total(f"The limits are the built-in ones: {problem}")
    print_total(f"Store: {root}")
