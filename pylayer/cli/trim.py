"""``pylayer trim``: folds the whole store and brings it within its limits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from .output import EXIT_PROBLEM, EXIT_STATUSES, HELP, Failure, human_bytes, json_option, plural, print_json, progress
from .selection import dry_run_option, require_root
from .sizes import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.folder import Folder


def _fold_all(root: str, compress: bool, dry_run: bool, quiet: bool) -> dict[str, Any]:
    """Folds the journals and packs of each program into one pack per program. Returns what was done."""
    from ..store.folder import Folder, identity_names, read_identity

    done: dict[str, Any] = {"journals": 0, "packs": 0, "damaged": 0, "skipped": []}
    with progress("folding", None, quiet) as advance:
        for name in identity_names(root):
            identity = read_identity(root, name)
            if identity is None:
                done["skipped"].append({"identity": name, "reason": "its identity file is missing or damaged"})
                continue
            folder = Folder(root, identity)
            try:
                for program in folder.programs():
                    _fold_program(folder, program, compress, dry_run, advance, done)
            except OSError as error:
                done["skipped"].append({"identity": name, "reason": str(error.strerror or error)})
    return done


def _fold_program(
    folder: Folder, program: int, compress: bool, dry_run: bool, advance: Callable[[int], None], done: dict[str, Any]
) -> None:
    """Folds one program's files and adds the result to ``done``. Raises OSError."""
    from ..store import fold

    more = True
    while more:  # one fold reads a limited number of journals
        work = fold.Fold(folder, program, everything=True, compress=compress, dry_run=dry_run)
        for _ in work.steps():
            advance(1)
        if not work.result.claimed:
            done["skipped"].append({"identity": folder.identity.name, "reason": "another process is folding it"})
        done["journals"] += work.result.journals
        done["packs"] += work.result.packs
        done["damaged"] += len(work.result.damage)
        more = not dry_run and work.result.journals >= fold.MOST_FILES


@click.command(context_settings=HELP, epilog=EXIT_STATUSES, short_help="Fold the store and keep it within its limits.")
@click.option("--max-size", callback=parse_size, metavar="SIZE", help="Size limit of the store (max_store_mib).")
@click.option("--max-program", callback=parse_size, metavar="SIZE", help="Size limit of a program (max_program_mib).")
@dry_run_option
@json_option
def trim(max_size: int | None, max_program: int | None, dry_run: bool, as_json: bool) -> None:
    """Fold the store into few files and bring it within its limits, evicting the least recently used pipelines first.

    Programs do the same as they run, a little at a time. After this command the store is as small as possible. Sizes
    are like 500M or 2GiB. A limit that is not given comes from the policy file. Files that a running program is
    writing are kept.

    \b
    Example:
      pylayer trim --max-size 2GiB --dry-run
    """
    from ..store import bounds, maintenance, quarantine
    from .policy_in_force import read_limits

    root = require_root()
    if not os.path.isdir(root) and not as_json:
        click.echo(f"Nothing is stored in {root} yet; start a program with: pylayer run -- APP")
        return
    limits, problem = read_limits()
    if problem and (max_size is None or max_program is None):
        raise Failure(f"{problem}; its limits are unknown. Correct it, or give --max-size and --max-program")
    store = limits.max_store if max_size is None else max_size
    program = limits.max_program if max_program is None else max_program
    before = bounds.total_bytes(root)
    if not dry_run:
        quarantine.prune(root)  # prune first: files that this command moves to quarantine stay until the next run
    folded = _fold_all(root, limits.compress, dry_run, as_json)
    trimmed = bounds.Trimmed()
    try:
        with progress("trimming", None, as_json) as advance:
            for _ in bounds.enforce(root, store, program, trimmed, limits.compress, dry_run):
                advance(1)
    except OSError as error:
        raise Failure(f"{root} could not be trimmed: {error.strerror or error}; the store is intact") from error
    if not dry_run:
        maintenance.prune(root)
    after = trimmed.bytes_after if dry_run else bounds.total_bytes(root)
    if as_json:
        print_json(
            {
                "store": root,
                "dry_run": dry_run,
                "max_store_bytes": store,
                "max_program_bytes": program,
                "bytes_before": before,
                "bytes_after": after,
                "records_removed": trimmed.records,
                "files_removed": trimmed.files,
                "journals_folded": folded["journals"],
                "packs_folded": folded["packs"],
                "damaged_parts": folded["damaged"] + len(trimmed.damage),
                "skipped": folded["skipped"],
            }
        )
    else:
        _print(dry_run, before, after, folded, trimmed.records, trimmed.files)
        if after > store:
            click.echo(f"That is more than {human_bytes(store)}: the rest is in use or cannot be rewritten.")
    if folded["skipped"] or (after > store and not dry_run):
        raise click.exceptions.Exit(EXIT_PROBLEM)


def _print(dry_run: bool, before: int, after: int, folded: dict[str, Any], records: int, files: int) -> None:
    journals, packs = plural(folded["journals"], "journal"), plural(folded["packs"], "pack")
    click.echo(f"{'To fold' if dry_run else 'Folded'}: {journals} and {packs}.")
    click.echo(f"{'To evict' if dry_run else 'Evicted'}: {plural(records, 'record')} and {plural(files, 'file')}.")
    if dry_run:
        saved = "how much folding saves is not known in advance" if after == before else "and folding may save more"
        click.echo(f"The store is {human_bytes(before)} and would be {human_bytes(after)} at most; {saved}.")
    else:
        click.echo(f"The store was {human_bytes(before)} and is {human_bytes(after)}.")
    for skipped in folded["skipped"]:
        click.echo(f"Not folded: identity {skipped['identity']}, because {skipped['reason']}.")
