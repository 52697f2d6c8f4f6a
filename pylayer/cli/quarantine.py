"""``pylayer quarantine``: files that could not be used, and pipelines that were set aside after a crash."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from .output import EXIT_PROBLEM, EXIT_STATUSES, HELP, console, human_bytes, json_option, plural, print_json, printable
from .selection import confirm, dry_run_option, require_root, yes_option

if TYPE_CHECKING:
    from ..store.folder import Folder
    from ..store.suspects import Suspects


@click.group(context_settings=HELP, epilog=EXIT_STATUSES)
def quarantine() -> None:
    """Show what is set aside, and why.

    The layer moves damaged files to the store's quarantine directory. Nothing there reaches a driver, and the oldest
    are deleted when there are more than 64 MiB. Pipelines that the driver handled when a process died stay where they
    are. They are not used for 14 days, or until they have been compiled again.

    \b
    Example:
      pylayer quarantine ls
    """


def _suspects(root: str) -> list[tuple[Folder, Suspects]]:
    """Returns the folders with suspects. Only reads: a death that no later start of the layer has recorded is
    missing."""
    from ..store import crash_notes
    from ..store.folder import Folder, identity_names, read_identity

    identities = (read_identity(root, name) for name in identity_names(root))
    folders = [Folder(root, identity) for identity in identities if identity is not None]
    read = [(folder, crash_notes.read(folder, keep=True)) for folder in folders]
    return [(folder, known) for folder, known in read if known.notes]


def _driver(folder: Folder) -> str:
    fields = folder.identity.fields
    known = [str(fields[key]) for key in ("driver_name", "driver_info") if fields.get(key)]
    return ", ".join(known) or "unknown driver"


def _suspects_json(folder: Folder, known: Suspects) -> dict[str, Any]:
    from ..store.suspects import describe

    deaths = [
        {
            "program": note.get("program", ""),
            "time_s": note["time"],
            "text": describe(note),
            "records": len(note.get("records", [])),
            "pipelines": len(note.get("pipelines", [])),
            "application_caches": len(note.get("applications", [])),
            "cleared": known.is_cleared(note),
        }
        for note in known.notes
    ]
    name = folder.identity.name
    return {"identity": name, "driver": _driver(folder), "left_alone": known.too_many, "deaths": deaths}


def _when(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds > 0 else "?"
    except (OverflowError, ValueError, OSError):
        return "?"


def _print_suspects(folder: Folder, known: Suspects) -> None:
    """Prints a line for each death."""
    from rich.text import Text

    from ..store.suspects import describe

    out = console()
    out.print(Text(f"{printable(_driver(folder))}; identity {folder.identity.name}", style="bold"), soft_wrap=True)
    for note in known.notes:
        cleared = "; compiled again since, and in use again" if known.is_cleared(note) else ""
        out.print(Text(f"  {_when(note['time'])}  {printable(describe(note))}{cleared}"), soft_wrap=True)
    if known.too_many:
        line = "  The layer is off for this device until these are 14 days old, or until: pylayer quarantine forget"
        out.print(Text(line, style="yellow"), soft_wrap=True)


@quarantine.command(
    "ls", context_settings=HELP, epilog=EXIT_STATUSES, short_help="List what is set aside, and the reason."
)
@json_option
def list_items(as_json: bool) -> None:
    """List damaged files, oldest first, and what is set aside because a process died, with the reasons.

    \b
    Example:
      pylayer quarantine ls
    """
    from ..store.quarantine import items

    root = require_root()
    found, suspects = items(root), _suspects(root)
    total = sum(item.size for item in found)
    if as_json:
        listed = [
            {"path": item.path, "reason": printable(item.reason), "bytes": item.size, "time_s": item.time}
            for item in found
        ]
        told = [_suspects_json(folder, known) for folder, known in suspects]
        print_json({"store": root, "items": listed, "bytes": total, "suspects": told})
        return
    for folder, known in suspects:
        _print_suspects(folder, known)
    for item in found:
        click.echo(f"{_when(item.time)}  {human_bytes(item.size)}  {printable(item.path)}")
        click.echo(f"  {printable(item.reason) or 'no reason is known'}")
    if found:
        click.echo(f"{plural(len(found), 'file')}, {human_bytes(total)}")
    elif not suspects:
        click.echo(f"Nothing is set aside in {root}.")


@quarantine.command(context_settings=HELP, epilog=EXIT_STATUSES)
@dry_run_option
@yes_option
@json_option
def forget(dry_run: bool, yes: bool, as_json: bool) -> None:
    """Re-enable pipelines that were set aside after a crash.

    A driver that crashes on one of them will crash again. Damaged files stay in quarantine.

    \b
    Example:
      pylayer quarantine forget
    """
    from ..store import crash_notes

    root = require_root()
    folders = _suspects(root)
    deaths = sum(len(known.notes) for _, known in folders)
    left = 0
    if folders and not dry_run:
        confirm(f"Forget {plural(deaths, 'death')}?", yes)
        for folder, _ in folders:
            crash_notes.forget(folder)
            left += len(crash_notes.read(folder, keep=True).notes)
    if as_json:
        print_json({"store": root, "dry_run": dry_run, "deaths": deaths, "left": left})
    elif dry_run or not folders:
        nothing = f"Nothing to forget: {root} has no record of a crash with stored data."
        click.echo(f"Would forget: {plural(deaths, 'death')}." if folders else nothing)
    else:
        click.echo(f"Forgotten: {plural(deaths - left, 'death')}.")
    if left:
        raise click.exceptions.Exit(EXIT_PROBLEM)
