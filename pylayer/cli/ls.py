"""``pylayer ls``: lists what the store holds, by driver and program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..common.file_kinds import BESIDE
from ..common.paths import exists, system_store_root
from ..report.origin import used_here
from .complete import programs_and_identities
from .output import (
    Failure,
    console,
    day,
    human_bytes,
    human_time,
    json_option,
    plural,
    print_facts,
    print_json,
    print_marks,
    print_total,
    program_table,
    shorten,
)
from .selection import NAMES, Names, identity_option, meant, require_store

if TYPE_CHECKING:
    from rich.console import Console

    from ..store.store import Holding, Shelf
    from .inventory import Inventory

HEADINGS = ("pipelines", "files", "last used", "on disk")


def _rows(found: Inventory, shelf: Shelf, program: str | None) -> list[Holding]:
    """Returns the programs to list for an identity, the largest first."""
    chosen = [
        holding for number, holding in shelf.holdings.items() if program is None or found.names.matches(number, program)
    ]
    return sorted(chosen, key=lambda holding: (-holding.bytes, holding.program))


# ---- for people ------------------------------------------------------------------------------------


def _files(holding: Holding) -> str:
    """Returns the number of files of each kind, as short as possible."""
    letters = {"journals": "J", "packs": "P", "snapshots": "S", "blobs": "B", "attestation_files": "A"}
    return " ".join(f"{count}{letters[kind]}" for kind, count in holding.counts().items() if count) or "-"


def _cells(holding: Holding) -> list[str]:
    binaries = f" ({holding.binaries} bin)" if holding.binaries else ""
    known = f" of {holding.pipelines + holding.missing}" if holding.missing else ""
    return [
        f"{holding.pipelines}{known}{binaries}",
        _files(holding),
        "?" if holding.last_used is None else day(holding.last_used),
        human_bytes(holding.bytes),
    ]


def _print_heading(out: Console, found: Inventory, shelf: Shelf) -> None:
    from rich.text import Text

    from .inventory import describe

    device, driver = describe(shelf.identity, shelf.name, found.names)
    out.print(Text(device, style="bold"))
    out.print(Text(f"{driver}; identity {shelf.name}", style="dim"))


def _print_shelf(out: Console, found: Inventory, shelf: Shelf, rows: list[Holding]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    def line(text: str, style: str) -> None:
        out.print(Padding(Text(text, style=style), (0, 0, 0, 2), expand=False))

    cells = [_cells(holding) for holding in rows]
    table, name_width = program_table(out, HEADINGS, cells)
    for holding, row in zip(rows, cells, strict=True):
        table.add_row(Text(shorten(found.names.of(holding.program), name_width)), *row)
    if rows:
        out.print(table)
    print_marks([row[2] for row in cells], {"?": "unknown: programs with store: read-only do not record what they use"})
    line(f"other files {human_bytes(shelf.other_bytes)}, together {human_bytes(shelf.bytes)}", "dim")
    if shelf.identity is None:
        line("its identity file is missing or damaged; pylayer verify says more", "yellow")
    if shelf.unusable:
        line(f"{plural(len(shelf.unusable), 'file')} cannot be used; pylayer verify says why", "yellow")


def _print_program(out: Console, found: Inventory, holding: Holding) -> None:
    """Prints one program under one driver."""
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(holding.kinds.items(), key=lambda pair: -pair[1]))
    saved = f"{human_time(holding.compile_ns)}, which a run that loads all of them saves"
    files = ", ".join(plural(count, kind.replace("_", " ")[:-1]) for kind, count in holding.counts().items() if count)
    facts = [
        ("pipelines", f"{holding.pipelines} ({listed})" if listed else str(holding.pipelines)),
        ("compile time", saved if holding.compile_ns else "unknown"),
        ("last used", "?" if holding.last_used is None else day(holding.last_used)),
        ("on disk", f"{human_bytes(holding.bytes)} in {files}"),
    ]
    if holding.missing:
        facts.insert(1, ("not stored", f"{holding.missing} more that runs created; another run may store them"))
    if holding.binaries:
        facts.insert(1, ("binaries", f"{holding.binaries} of the pipelines are stored as pipeline binaries"))
    if holding.pulled:
        facts.insert(1, ("from the fleet", f"{len(holding.pulled)} of the pipelines, {used_here(holding.pulled_used)}"))
    out.print(found.names.of(holding.program), style="bold", soft_wrap=True)
    print_facts(out, facts)


def _print_fields(out: Console, shelf: Shelf) -> None:
    """Prints the fields that the identity is made of."""
    fields = sorted(shelf.identity.fields.items()) if shelf.identity is not None else ()
    print_facts(
        out,
        [
            (key.replace("_", " "), f"{value:#x}" if isinstance(value, int) and key != "driver_id" else str(value))
            for key, value in fields
        ],
        style="dim",
    )


# ---- for programs ----------------------------------------------------------------------------------


def _holding_json(found: Inventory, holding: Holding) -> dict[str, Any]:
    return {
        "program": found.names.of(holding.program),
        "program_id": f"{holding.program:016x}",
        "pipelines": holding.pipelines,
        "missing_pipelines": holding.missing,
        "binaries": holding.binaries,
        "pulled_pipelines": len(holding.pulled),
        "pulled_pipelines_used": holding.pulled_used,
        "pipelines_by_kind": holding.kinds,
        "compile_ns": holding.compile_ns,
        "data_bytes": holding.data_bytes,
        "bytes": holding.bytes,
        "last_used_s": holding.last_used,
        **holding.counts(),
    }


def _shelf_json(found: Inventory, shelf: Shelf, rows: list[Holding]) -> dict[str, Any]:
    from .inventory import describe

    device, driver = describe(shelf.identity, shelf.name, found.names)
    return {
        "identity": shelf.name,
        "device": device,
        "driver": driver,
        "fields": shelf.identity.fields if shelf.identity is not None else None,
        "programs": [_holding_json(found, holding) for holding in rows],
        "other_bytes": shelf.other_bytes,
        "bytes": shelf.bytes,
        "unusable_files": shelf.unusable,
    }


def _json(
    found: Inventory, chosen: list[tuple[Shelf, list[Holding]]], beside: dict[str, tuple[int, int]]
) -> dict[str, Any]:
    from .policy_in_force import read_limits

    limits = read_limits()[0]
    return {
        "store": found.root,
        "identities": [_shelf_json(found, shelf, rows) for shelf, rows in chosen],
        "stray_bytes": found.stray_bytes,
        "store_bytes": found.store_bytes,
        **{f"{folder}_bytes": size for folder, (size, _) in beside.items()},
        "max_store_bytes": limits.max_store,
        "max_program_bytes": limits.max_program,
    }


# ---- the command -----------------------------------------------------------------------------------


def _print_all(found: Inventory, chosen: list[tuple[Shelf, list[Holding]]], detailed: bool, fields: bool) -> None:
    """Prints a table for each identity. ``detailed`` adds lines for each program, ``fields`` adds what the identity is
    made of."""
    out = console()
    for number, (shelf, rows) in enumerate(chosen):
        if number:
            out.print()
        _print_heading(out, found, shelf)
        if not detailed:
            _print_shelf(out, found, shelf, rows)
            if fields:
                _print_fields(out, shelf)
            continue
        for holding in rows:
            out.print()
            _print_program(out, found, holding)


def _print_totals(found: Inventory, beside: dict[str, tuple[int, int]]) -> None:
    from .policy_in_force import read_limits

    limits, problem = read_limits()
    text = f"\n{human_bytes(found.store_bytes)} of at most {human_bytes(limits.max_store)} are used"
    print_total(f"{text}; a program may have {human_bytes(limits.max_program)}.")
    if found.stray_bytes:
        print_total(f"{human_bytes(found.stray_bytes)} in {found.root}/store belong to no identity.")
    parts = [f"{name} {human_bytes(size)}" for name, (size, count) in beside.items() if count]
    if parts:
        print_total(f"Besides them: {', '.join(parts)}.")
    if problem:
        print_total(f"{problem}, its limits included")
    print_total(f"Store: {found.root}")
    system = system_store_root()
    if exists(f"{system}/store") and system != found.root:
        print_total(f"Programs also use the system's store: PYLAYER_STORE={system} pylayer ls")


@click.command
@click.argument(
    "name",
    required=False,
    shell_complete=programs_and_identities,
    help=f"Show details of this program, {NAMES}; or of the identity that begins with this.",
)
@identity_option
@json_option
def ls(name: str | None, identity: str | None, as_json: bool) -> None:
    """Show what the store holds, for each driver and program.

    '74 of 200' means that runs created 126 pipelines more, such as some that the driver's own disk cache had. The
    number before (bin) says how many of the pipelines are stored as pipeline binaries; the others are cells. files
    counts journals (J), packs (P), snapshots (S), blobs of the program's own caches (B), and files that record what
    the program read from its caches and pipeline binaries (A). last used is the day on which a run last used or
    stored a pipeline. Sizes are those of the files.

    \b
    Example:
      pylayer ls
      pylayer ls blender
    """
    from .inventory import Inventory

    store = require_store()
    selection, program = meant(name, identity, store.identities())
    found = Inventory(store, selection, Names(store.root))
    chosen = [(shelf, _rows(found, shelf, program)) for shelf in found.shelves]
    if program is not None:
        chosen = [(shelf, rows) for shelf, rows in chosen if rows]
    if (name or identity) and not chosen:
        raise Failure(f"{store.root} has no program and no identity {name or identity}; pylayer ls lists what is there")
    beside = {folder: store.tree_bytes(folder) for folder in BESIDE}
    if as_json:
        print_json(_json(found, chosen, beside))
    elif not chosen:
        click.echo(f"Nothing is stored in {store.root} yet; start a program with: pylayer run -- APP")
    else:
        _print_all(found, chosen, program is not None, name is not None)
        if name is None:
            _print_totals(found, beside)
