"""``pylayer quarantine``: files that could not be used, and pipelines that were set aside after a crash."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from .output import (
    EXIT_PROBLEM,
    EXIT_STATUSES,
    HELP,
    console,
    human_bytes,
    json_option,
    plural,
    print_json,
    printable,
    say,
)
from .selection import confirm, dry_run_option, require_store, yes_option

if TYPE_CHECKING:
    from ..common.identity import Identity
    from ..store.store import Suspects


@click.group(context_settings=HELP, epilog=EXIT_STATUSES)
def quarantine() -> None:
    """Show what is set aside, and why.

    The layer moves damaged files to the store's quarantine directory. Nothing there reaches a driver, and the oldest
    are deleted when there are more than 64 MiB or 100 files. Pipelines that the driver handled when a process died stay
    where they are. They are not used for 14 days, or until they have been compiled again.

    \b
    Example:
      pylayer quarantine ls
    """


def _driver(identity: Identity) -> str:
    fields = identity.fields
    known = [str(fields[key]) for key in ("driver_name", "driver_info") if fields.get(key)]
    return ", ".join(known) or "unknown driver"


def _suspects_json(identity: Identity, known: Suspects) -> dict[str, Any]:
    deaths = [
        {
            "program": note.get("program", ""),
            "time_s": note["time"],
            "text": known.describe(note),
            "records": len(note.get("records", [])),
            "pipelines": len(note.get("pipelines", [])),
            "application_caches": len(note.get("applications", [])),
            "cleared": known.is_cleared(note),
        }
        for note in known.notes
    ]
    return {"identity": identity.name, "driver": _driver(identity), "left_alone": known.too_many, "deaths": deaths}


def _when(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds > 0 else "?"
    except (OverflowError, ValueError, OSError):
        return "?"


def _print_suspects(identity: Identity, known: Suspects) -> None:
    """Prints a line for each death."""
    from rich.text import Text

    out = console()
    out.print(Text(f"{printable(_driver(identity))}; identity {identity.name}", style="bold"), soft_wrap=True)
    for note in known.notes:
        cleared = "; compiled again since, and in use again" if known.is_cleared(note) else ""
        out.print(Text(f"  {_when(note['time'])}  {printable(known.describe(note))}{cleared}"), soft_wrap=True)
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
    store = require_store()
    found, suspects = store.quarantined(), store.suspects()
    total = sum(item.size for item in found)
    if as_json:
        listed = [
            {"path": item.path, "reason": printable(item.reason), "bytes": item.size, "time_s": item.time}
            for item in found
        ]
        told = [_suspects_json(identity, known) for identity, known in suspects]
        print_json({"store": store.root, "items": listed, "bytes": total, "suspects": told})
        return
    for identity, known in suspects:
        _print_suspects(identity, known)
    for item in found:
        click.echo(f"{_when(item.time)}  {human_bytes(item.size)}  {printable(item.path)}")
        click.echo(f"  {printable(item.reason) or 'no reason is known'}")
    if found:
        click.echo(f"{plural(len(found), 'file')}, {human_bytes(total)}")
    elif not suspects:
        click.echo(f"Nothing is set aside in {store.root}.")


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
    store = require_store()
    suspects = store.suspects()
    deaths = sum(len(known.notes) for _, known in suspects)
    left = 0
    if suspects and not dry_run:
        confirm(f"Forget {plural(deaths, 'death')}?", yes)
        for identity, _ in suspects:
            store.forget_suspects(identity)
        left = sum(len(known.notes) for _, known in store.suspects())
    if as_json:
        print_json({"store": store.root, "dry_run": dry_run, "deaths": deaths, "left": left})
    elif dry_run or not suspects:
        nothing = f"Nothing to forget: {store.root} has no record of a crash with stored data."
        click.echo(f"Would forget: {plural(deaths, 'death')}." if suspects else nothing)
    else:
        say(f"Forgotten: {plural(deaths - left, 'death')}.")
    if left:
        raise click.exceptions.Exit(EXIT_PROBLEM)


@quarantine.command(context_settings=HELP, epilog=EXIT_STATUSES)
@dry_run_option
@yes_option
@json_option
def empty(dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete the damaged files in quarantine.

    Nothing uses them. Pipelines that were set aside after a crash stay set aside.

    \b
    Example:
      pylayer quarantine empty
    """
    store = require_store()
    found = store.quarantined()
    size = human_bytes(sum(item.size for item in found))
    told = f"{plural(len(found), 'file')}, {size}"
    left = 0
    if found and not dry_run:
        confirm(f"Delete {told}?", yes)
        left = len(found) - store.empty_quarantine()
    if as_json:
        print_json({"store": store.root, "dry_run": dry_run, "files": len(found), "left": left})
    elif dry_run or not found:
        click.echo(f"Would delete: {told}." if found else f"The quarantine of {store.root} is empty.")
    else:
        say(f"Deleted: {plural(len(found) - left, 'file')}.")
    if left > 0:
        raise click.exceptions.Exit(EXIT_PROBLEM)
