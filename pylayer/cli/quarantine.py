"""``pylayer quarantine``: what could not be used, to look at, to put back or to be rid of."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from .complete import files, quarantined
from .output import (
    EXIT_PROBLEM,
    EXIT_STATUSES,
    HELP,
    Failure,
    WrongUse,
    console,
    human_bytes,
    json_option,
    plural,
    print_json,
    printable,
)
from .selection import confirm, dry_run_option, require_root, yes_option
from .suspects import as_json as suspects_as_json
from .suspects import forget, print_found

if TYPE_CHECKING:
    from ..store.quarantine import Item


@click.group(context_settings=HELP, epilog=EXIT_STATUSES)
def quarantine() -> None:
    """Look after what could not be used and was kept aside.

    Nothing in quarantine reaches a driver. The oldest leaves by itself when it is more than 64 MiB.

    \b
    Example:
      pylayer quarantine ls
    """


def _item_json(item: Item) -> dict[str, Any]:
    return {
        "name": item.name,
        "outcome": item.outcome,
        "detail": item.detail,
        "source": item.source,
        "offset": item.offset,
        "whole_file": item.whole_file,
        "bytes": item.size,
        "time_s": item.time,
    }


def _when(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds > 0 else "?"
    except (OverflowError, ValueError, OSError):
        return "?"


@quarantine.command(
    "ls", context_settings=HELP, epilog=EXIT_STATUSES, short_help="List what is in quarantine, and why."
)
@json_option
def list_items(as_json: bool) -> None:
    """List what is in quarantine, the oldest first, and what programs died over.

    \b
    Example:
      pylayer quarantine ls
    """
    from rich.padding import Padding
    from rich.text import Text

    from ..store import format
    from ..store import quarantine as store_quarantine

    root = require_root()
    items = store_quarantine.items(root)
    total = sum(item.size for item in items)
    if as_json:
        print_json(
            {
                "store": root,
                "items": [_item_json(item) for item in items],
                "bytes": total,
                "suspects": suspects_as_json(root),
            }
        )
        return
    if not print_found(root) and not items:
        click.echo(f"The quarantine of {root} is empty.")
    if not items:
        return
    out = console()
    for item in items:
        what = "the file" if item.whole_file else f"a part from byte {item.offset} of"
        out.print(Text(f"{item.name}  {human_bytes(item.size)}  {_when(item.time)}", style="bold"), soft_wrap=True)
        meaning = format.OUTCOMES.get(item.outcome, "no reason is known")
        detail = f" ({item.detail})" if item.detail else ""
        out.print(Padding(Text(printable(f"{item.outcome}: {meaning}{detail}")), (0, 0, 0, 2), expand=False))
        source = printable(item.source or "somewhere that is not known")
        out.print(Text(f"  {what} {source}", style="dim"), soft_wrap=True)
    out.print(f"{plural(len(items), 'item')}, {human_bytes(total)}", style="dim")


def _find(root: str, name: str) -> Item:
    """The item whose name, or the second half of it, begins so."""
    from ..store import quarantine as store_quarantine

    items = store_quarantine.items(root)
    exact = [item for item in items if item.name == name]
    found = exact or [
        item for item in items if name and (item.name.startswith(name) or item.name.partition("-")[2].startswith(name))
    ]
    if not found:
        raise Failure(f"nothing in quarantine is called {name}; pylayer quarantine ls lists what is there")
    if len(found) > 1:
        listed = ", ".join(item.name for item in found[:4]) + ", ..." * (len(found) > 4)
        raise WrongUse(f"{name} is the beginning of {len(found)} names ({listed}); give more of it")
    return found[0]


def _write_out(item: Item, target: str) -> None:
    """The bytes as they are, into a new file."""
    try:
        with open(item.path, "rb") as source, open(target, "xb") as file:
            while piece := source.read(1 << 20):
                file.write(piece)
    except FileExistsError as error:
        raise Failure(f"{target} is there already; name a file that is not") from error
    except OSError as error:
        raise Failure(f"{item.name} cannot be written to {target}: {error.strerror or error}") from error


def _place_of(root: str, item: Item) -> tuple[str, str]:
    """Identity and path of the file that an item was; Failure where it was none of a driver's folder."""
    from ..store import format

    parts = item.source.split("/")
    known = len(parts) == 3 and parts[0] == "store" and os.path.splitext(parts[2])[1] in format.KIND_OF_SUFFIX
    if not known or len(parts[1]) != 32 or not all(c in "0123456789abcdef" for c in parts[1]):
        raise Failure(f"{item.name} was {item.source or 'somewhere'}, which is no file of pipelines; use --to FILE")
    return parts[1], os.path.join(root, *parts)


def _check(item: Item, path: str, identity: str) -> None:
    """Failure with the reason where the file would be of no use where it was."""
    from ..store import checking, format

    name = os.path.basename(path)
    suffix = os.path.splitext(name)[1]
    program = None
    if suffix != ".pack":
        try:
            program = int(name[:16], 16)
        except ValueError:
            raise Failure(f"{item.name} was {item.source}, which is no name of the store; use --to FILE") from None
    checked = checking.Checked(item.path)
    try:
        kind = format.KIND_OF_SUFFIX[suffix]
        for _ in checking.check_file(item.path, kind, bytes.fromhex(identity), checked, program):
            pass
    except OSError as error:
        raise Failure(f"{item.name} cannot be read: {error.strerror or error}") from error
    if checked.damage:
        what = checked.damage[0]
        place = f" at byte {what.offset}" if what.offset else ""
        detail = f" ({what.detail})" if what.detail else ""
        reason = f"{what.outcome}{place}: {format.OUTCOMES[what.outcome]}{detail}"
        raise Failure(f"{item.name} was not put back, because it would be of no use: {reason}; use --to FILE")


def _put_back(root: str, item: Item, path: str) -> None:
    from ..paths import make_private
    from ..store import quarantine as store_quarantine

    try:
        for directory in (root, os.path.join(root, "store"), os.path.dirname(path)):
            make_private(directory)
        os.link(item.path, path, follow_symlinks=False)  # never over a file that is there
    except FileExistsError as error:
        raise Failure(f"{path} is there again, so nothing was put back") from error
    except OSError as error:
        raise Failure(f"{item.name} cannot be put back to {path}: {error.strerror or error}") from error
    store_quarantine.delete(item)


@quarantine.command(context_settings=HELP, epilog=EXIT_STATUSES)
@click.argument("name", shell_complete=quarantined, help="The beginning of a name that pylayer quarantine ls shows.")
@click.option(
    "--to", metavar="FILE", shell_complete=files, help="Write the bytes to this new file, for analysis; the item stays."
)
@json_option
def restore(name: str, to: str | None, as_json: bool) -> None:
    """Put a whole file back to where it was, if it can be used now.

    A file verifies where another pylayer, or another disk, was at fault. Parts of files cannot go back: the rest of
    their file has gone on without them.

    \b
    Example:
      pylayer quarantine restore 18e9ce9d7283ad5c --to damaged.bin
    """
    root = require_root()
    item = _find(root, name)
    if to is not None:
        _write_out(item, to)
        path = os.path.abspath(to)
    else:
        if not item.whole_file:
            raise Failure(f"{item.name} is a part of a file, which cannot go back; --to FILE writes it out")
        identity, path = _place_of(root, item)
        _check(item, path, identity)
        _put_back(root, item, path)
    if as_json:
        print_json({"name": item.name, "bytes": item.size, "file": path, "restored": to is None})
    elif to is None:
        click.echo(f"Put back: {path}")
    else:
        click.echo(f"Written: {path}, {plural(item.size, 'byte')}; the item stays in quarantine.")


@quarantine.command(context_settings=HELP, epilog=EXIT_STATUSES)
@dry_run_option
@yes_option
@json_option
def empty(dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete everything in quarantine for good.

    \b
    Example:
      pylayer quarantine empty --dry-run
    """
    from ..store import quarantine as store_quarantine

    root = require_root()
    items = store_quarantine.items(root)
    total = sum(item.size for item in items)
    removed = 0
    if items and not dry_run:
        confirm(f"Delete {plural(len(items), 'item')}, {human_bytes(total)}?", yes)
        removed = sum(store_quarantine.delete(item) for item in items)
    if as_json:
        values = {"store": root, "dry_run": dry_run, "items": len(items), "bytes": total, "removed": removed}
        print_json(values)
    elif dry_run or not items:
        would = f"Would delete: {plural(len(items), 'item')}, {human_bytes(total)}."
        click.echo(would if items else f"Nothing to delete: the quarantine of {root} is empty.")
    else:
        click.echo(f"Deleted: {plural(removed, 'item')}, {human_bytes(total)}.")
    if items and not dry_run and removed < len(items):
        raise click.exceptions.Exit(EXIT_PROBLEM)


quarantine.add_command(forget)
