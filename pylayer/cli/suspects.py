"""What ``pylayer quarantine`` shows and forgets of the processes that died while the driver had stored data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from .output import EXIT_PROBLEM, EXIT_STATUSES, HELP, console, json_option, plural, print_json, printable
from .selection import confirm, dry_run_option, require_root, yes_option

if TYPE_CHECKING:
    from ..store.folder import Folder
    from ..store.suspects import Suspects


def _folders(root: str) -> list[Folder]:
    from ..store.folder import Folder, identity_names, read_identity

    identities = (read_identity(root, name) for name in identity_names(root))
    return [Folder(root, identity) for identity in identities if identity is not None]


def found(root: str) -> list[tuple[Folder, Suspects]]:
    """Folders with something suspected. Reads only; deaths that no start has written down are not there."""
    from ..store import suspects

    read = [(folder, suspects.read(folder, keep=True)) for folder in _folders(root)]
    return [(folder, known) for folder, known in read if known.notes]


def _driver(folder: Folder) -> str:
    fields = folder.identity.fields
    known = [str(fields[key]) for key in ("driver_name", "driver_info") if fields.get(key)]
    return ", ".join(known) or "unknown driver"


def as_json(root: str) -> list[dict[str, Any]]:
    """The notes, by identity."""
    from ..store.suspects import describe

    return [
        {
            "identity": folder.identity.name,
            "driver": _driver(folder),
            "left_alone": known.too_many,
            "deaths": [
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
            ],
        }
        for folder, known in found(root)
    ]


def print_found(root: str) -> bool:
    """One line for each death. False where there was none."""
    from rich.text import Text

    from ..store.suspects import describe

    out = console()
    shown = found(root)
    for folder, known in shown:
        out.print(Text(f"{printable(_driver(folder))}; identity {folder.identity.name}", style="bold"), soft_wrap=True)
        for note in known.notes:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(note["time"]))
            cleared = "; made anew since, and in use again" if known.is_cleared(note) else ""
            out.print(Text(f"  {when}  {printable(describe(note))}{cleared}"), soft_wrap=True)
        if known.too_many:
            out.print(
                Text("  The layer leaves this device alone until these are a week old, or: pylayer quarantine forget"),
                style="yellow",
                soft_wrap=True,
            )
    return bool(shown)


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@dry_run_option
@yes_option
@json_option
def forget(dry_run: bool, yes: bool, as_json: bool) -> None:
    """Use what processes died over again, as if they had not.

    What the driver had in its hands when a process died is set aside for 30 days: nothing of it is deleted, and
    this takes it back into use. A driver that crashes on it will crash once more.

    \b
    Example:
      pylayer quarantine forget
    """
    from ..store import suspects

    root = require_root()
    folders = found(root)
    deaths = sum(len(known.notes) for _, known in folders)
    left = 0
    if folders and not dry_run:
        confirm(f"Forget {plural(deaths, 'death')}?", yes)
        for folder, _ in folders:
            suspects.forget(folder)
            left += len(suspects.read(folder, keep=True).notes)
    if as_json:
        print_json({"store": root, "dry_run": dry_run, "deaths": deaths, "left": left})
    elif dry_run or not folders:
        nothing = f"Nothing to forget: {root} knows of no process that died over what it holds."
        click.echo(f"Would forget: {plural(deaths, 'death')}." if folders else nothing)
    else:
        click.echo(f"Forgotten: {plural(deaths - left, 'death')}.")
    if left:
        raise click.exceptions.Exit(EXIT_PROBLEM)
