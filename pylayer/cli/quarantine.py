"""``pylayer quarantine``: damaged files that are not used, and what is set aside after crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..report.words import minute
from ..store.quarantine import empty as delete_all
from ..store.quarantine import items
from . import verdict_lines
from .output import (
    EXIT_PROBLEM,
    console,
    human_bytes,
    is_quiet,
    json_option,
    plural,
    print_json,
    printable,
    say,
)
from .selection import confirm, dry_run_option, require_store, yes_option

if TYPE_CHECKING:
    from ..store.quarantine import QuarantinedFile
    from ..store.store import VerdictText


@click.group
def quarantine() -> None:
    """Show what is set aside or switched off, and why.

    The layer moves damaged files to the store's quarantine directory. Nothing there reaches a driver, and the oldest
    are deleted when there are more than 64 MiB or 100 files. Pipelines that the driver handled when a program died stay
    where they are. That program does not use them until they have been compiled again, or for 14 days. Everything else
    that makes later runs do less is listed too, with its end.

    \b
    Example:
      pylayer quarantine ls
    """


def _lines(item: QuarantinedFile) -> str:
    """Returns two lines about a damaged file."""
    reason = printable(item.reason) or "no reason is known"
    return f"{minute(item.time)}  {human_bytes(item.size)}  {printable(item.path)}\n  {reason}"


def _print_verdicts(found: list[VerdictText]) -> None:
    """Prints a line for each verdict and what became of it."""
    out, identity = console(), ""
    for one in found:
        if identity != one.identity:
            identity = one.identity
            out.print(f"{printable(one.driver)}; identity {identity}", style="bold", soft_wrap=True)
        out.print(f"  {printable(verdict_lines.line(one))}", soft_wrap=True)


@quarantine.command("ls", short_help="List what is set aside, and the reason.")
@json_option
def list_items(as_json: bool) -> None:
    """List what is set aside or switched off for programs, until when, and damaged files, with the reasons.

    \b
    Example:
      pylayer quarantine ls
    """
    store = require_store()
    found, decided = items(store.root), store.verdicts()
    total = sum(item.size for item in found)
    if as_json:
        listed = [
            {"path": item.path, "reason": printable(item.reason), "bytes": item.size, "time_s": item.time}
            for item in found
        ]
        verdicts = [verdict_lines.as_json(one) for one in decided]
        print_json({"store": store.root, "items": listed, "bytes": total, "verdicts": verdicts})
        return
    _print_verdicts(decided)
    for item in found:
        click.echo(_lines(item))
    if found:
        click.echo(f"{plural(len(found), 'file')}, {human_bytes(total)}")
    elif not decided:
        click.echo(f"Nothing is set aside in {store.root}.")


@quarantine.command
@dry_run_option
@yes_option
@json_option
def forget(dry_run: bool, yes: bool, as_json: bool) -> None:
    """Use again what was set aside or switched off, for all programs.

    A driver that crashes on it will crash again. Damaged files stay in quarantine.

    \b
    Example:
      pylayer quarantine forget
    """
    store = require_store()
    decided = store.verdicts()
    count, left = len(decided), 0
    if not as_json and not (yes and is_quiet()):
        _print_verdicts(decided)
    if decided and not dry_run:
        confirm(f"Forget {plural(count, 'verdict')}?", yes)
        store.forget_verdicts()
        left = len(store.verdicts())
    if as_json:
        print_json({"store": store.root, "dry_run": dry_run, "verdicts": count, "left": left})
    elif dry_run or not decided:
        nothing = f"Nothing to forget: nothing in {store.root} is set aside or switched off."
        click.echo(f"Would forget: {plural(count, 'verdict')}." if decided else nothing)
    else:
        say(f"Forgotten: {plural(count - left, 'verdict')}.")
    if left:
        raise click.exceptions.Exit(EXIT_PROBLEM)


@quarantine.command
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
    found = items(store.root)
    size = human_bytes(sum(item.size for item in found))
    count = f"{plural(len(found), 'file')}, {size}"
    left = 0
    for item in () if as_json else found:
        say(_lines(item), asks=not yes)
    if found and not dry_run:
        confirm(f"Delete {count}?", yes)
        left = len(found) - delete_all(store.root)
    if as_json:
        print_json({"store": store.root, "dry_run": dry_run, "files": len(found), "left": left})
    elif dry_run or not found:
        click.echo(f"Would delete: {count}." if found else f"The quarantine of {store.root} is empty.")
    else:
        say(f"Deleted: {plural(len(found) - left, 'file')}.")
    if left > 0:
        raise click.exceptions.Exit(EXIT_PROBLEM)
