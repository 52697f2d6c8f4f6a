"""``pylayer ls``: what the store holds, by driver and program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from .complete import programs_and_identities
from .output import (
    EXIT_STATUSES,
    HELP,
    Failure,
    console,
    day,
    human_bytes,
    human_time,
    json_option,
    plural,
    print_facts,
    print_json,
    print_total,
    program_table,
    shorten,
)
from .selection import LEAST_PREFIX, Names, Selection, identity_option, require_root

if TYPE_CHECKING:
    from rich.console import Console

    from .inventory import Holding, Inventory, Shelf

HEADINGS = ("pipelines", "files", "last used", "on disk")
#: Directories beside the pipelines, each with what it holds.
BESIDE = ("runs", "plans", "policy", "manifests", "quarantine")


def _rows(found: Inventory, shelf: Shelf, program: str | None) -> list[Holding]:
    """What is listed of an identity: programs first, the largest first, then what several share."""
    listed = {holding.programs: holding for holding in shelf.holdings.values()}
    for number in shelf.programs:  # one that has everything in common with others is listed, too
        if (number,) not in listed:
            listed[number,] = type(next(iter(listed.values())))((number,))
            listed[number,].last_used = shelf.uses.last_run.get(number, 0)
    chosen = [
        holding
        for holding in listed.values()
        if program is None or any(found.names.matches(number, program) for number in holding.programs)
    ]
    return sorted(chosen, key=lambda holding: (len(holding.programs) > 1, -holding.bytes, holding.programs))


# ---- for people ------------------------------------------------------------------------------------


def _files(holding: Holding) -> str:
    """How many files of which kind, in as few characters as there can be."""
    letters = {"journals": "J", "packs": "P", "snapshots": "S", "blobs": "B", "attestation_files": "A"}
    return " ".join(f"{count}{letters[kind]}" for kind, count in holding.counts().items() if count) or "-"


def _cells(holding: Holding) -> list[str]:
    binaries = f" ({holding.binaries} bin)" if holding.binaries else ""
    return [f"{holding.pipelines}{binaries}", _files(holding), day(holding.last_used), human_bytes(holding.bytes)]


def _name(found: Inventory, holding: Holding, width: int) -> str:
    if len(holding.programs) == 1:
        return shorten(found.names.of(holding.programs[0]), width)
    if not holding.programs:
        return "of no program"
    names = ", ".join(sorted(found.names.of(program) for program in holding.programs))
    text = f"shared by {len(holding.programs)}: {names}"
    return text if len(text) <= width else f"{text[: width - 1]}…"


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
        table.add_row(Text(_name(found, holding, name_width)), *row)
    if rows:
        out.print(table)
    packs = f"{plural(shelf.packs, 'pack')} ({human_bytes(shelf.overhead_bytes)} of directories)"
    line(f"{packs}, other files {human_bytes(shelf.other_bytes)}, together {human_bytes(shelf.bytes)}", "dim")
    if shelf.identity is None:
        line("its identity file is missing or damaged; pylayer verify says more", "yellow")
    if shelf.unusable:
        line(f"{plural(len(shelf.unusable), 'file')} cannot be used; pylayer verify says why", "yellow")


def _print_program(out: Console, found: Inventory, rows: list[Holding]) -> None:
    """One program under one driver; ``rows``: what it has to itself, and what it shares with others."""
    own, shared = rows[0], rows[1:]
    kinds: dict[str, int] = {}
    for kind, count in (pair for holding in rows for pair in holding.kinds.items()):
        kinds[kind] = kinds.get(kind, 0) + count
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda pair: -pair[1]))
    pipelines = str(sum(holding.pipelines for holding in rows))
    compile_ns = sum(holding.compile_ns for holding in rows)
    saved = f"{human_time(compile_ns)}, which a run that loads all of them does not spend again"
    files = ", ".join(plural(count, kind.replace("_", " ")[:-1]) for kind, count in own.counts().items() if count)
    facts = [
        ("pipelines", f"{pipelines} ({listed})" if listed else pipelines),
        ("compile time", saved if compile_ns else "unknown"),
        ("last used", day(max(holding.last_used for holding in rows))),
        ("on disk", f"{human_bytes(own.bytes)} in {files}" if own.bytes else "nothing of its own"),
    ]
    binaries = sum(holding.binaries for holding in rows)
    if binaries:
        facts.insert(1, ("binaries", f"{binaries} of the pipelines are kept as pipeline binaries"))
    for holding in shared:
        others = ", ".join(found.names.of(number) for number in holding.programs if number not in own.programs)
        facts.append(("shared", f"{holding.pipelines} of them, with {others}: {human_bytes(holding.bytes)}"))
    out.print(found.names.of(own.programs[0]), style="bold", soft_wrap=True)
    print_facts(out, facts)


def _print_fields(out: Console, shelf: Shelf) -> None:
    """What the identity is made of."""
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


def _holding_json(holding: Holding) -> dict[str, Any]:
    return {
        "pipelines": holding.pipelines,
        "binaries": holding.binaries,
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
    programs, shared = [], []
    for holding in rows:
        values = _holding_json(holding)
        if len(holding.programs) == 1:
            (program,) = holding.programs
            programs.append({"program": found.names.of(program), "program_id": f"{program:016x}", **values})
        else:
            ids = [f"{program:016x}" for program in holding.programs]
            names = [found.names.of(program) for program in holding.programs]
            shared.append({"programs": names, "program_ids": ids, **values})
    return {
        "identity": shelf.name,
        "device": device,
        "driver": driver,
        "fields": shelf.identity.fields if shelf.identity is not None else None,
        "programs": programs,
        "shared": shared,
        "packs": shelf.packs,
        "pack_overhead_bytes": shelf.overhead_bytes,
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


def _meant(root: str, name: str | None, identity: str | None) -> tuple[Selection, str | None]:
    """The identities, and the programs by a pattern, that are meant. A name that could be both is an identity's."""
    from ..store.folder import identity_names

    beginning = name.lower() if name is not None and identity is None and len(name) >= LEAST_PREFIX else None
    if beginning and any(known.startswith(beginning) for known in identity_names(root)):
        return Selection(identity=beginning), None
    return Selection(identity=identity), name


def _print_all(found: Inventory, chosen: list[tuple[Shelf, list[Holding]]], detailed: bool, fields: bool) -> None:
    """A table for each identity; ``detailed``: lines for each program, ``fields``: what the identity is made of."""
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
        for own in rows:
            if len(own.programs) == 1:
                out.print()
                shared = [row for row in rows if len(row.programs) > 1 and own.programs[0] in row.programs]
                _print_program(out, found, [own, *shared])


def _print_totals(found: Inventory, beside: dict[str, tuple[int, int]]) -> None:
    from .policy_in_force import read_limits

    limits, problem = read_limits()
    text = f"\n{human_bytes(found.store_bytes)} of at most {human_bytes(limits.max_store)} are used"
    print_total(f"{text}; a program may have {human_bytes(limits.max_program)}.")
    if found.stray_bytes:
        print_total(f"{human_bytes(found.stray_bytes)} in {found.root}/store belong to no identity.")
    parts = [f"{name} {human_bytes(size)}" for name, (size, count) in beside.items() if count]
    if parts:
        print_total(f"Beside them: {', '.join(parts)}.")
    if problem:
        print_total(f"The limits are the built-in ones: {problem}")
    print_total(f"Store: {found.root}")


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@click.argument(
    "name",
    required=False,
    shell_complete=programs_and_identities,
    help="Programs whose name matches, with * and ?, in any case; or the beginning of an identity. Shows details.",
)
@identity_option
@json_option
def ls(name: str | None, identity: str | None, as_json: bool) -> None:
    """Show what the store holds, for each driver and program.

    The number before (bin) says how many of the pipelines are kept as pipeline binaries; the others are cells. files
    counts journals (J), packs with a part of it (P), snapshots (S), blobs of the program's own caches (B) and files of
    what it read of its caches and pipeline binaries (A). Pipelines that several programs have in common are stored
    once, and have a row of their own. last used is the day on which a run last used or stored one. Sizes are those
    of the files.

    \b
    Example:
      pylayer ls
      pylayer ls "blender*"
    """
    from .inventory import Inventory, tree_bytes

    root = require_root()
    selection, program = _meant(root, name, identity)
    found = Inventory(root, selection, Names(root))
    chosen = [(shelf, _rows(found, shelf, program)) for shelf in found.shelves]
    if program is not None:
        chosen = [(shelf, rows) for shelf, rows in chosen if rows]
    if (name or identity) and not chosen:
        raise Failure(f"{root} has no program and no identity {name or identity}; pylayer ls lists what is there")
    beside = {folder: tree_bytes(os.path.join(root, folder)) for folder in BESIDE}
    if as_json:
        print_json(_json(found, chosen, beside))
    elif not chosen:
        click.echo(f"Nothing is stored in {root} yet; start a program with: pylayer run -- APP")
    else:
        _print_all(found, chosen, program is not None, name is not None)
        if name is None:
            _print_totals(found, beside)
