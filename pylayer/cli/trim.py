"""``pylayer trim``: folds the whole store and brings it within its limits."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import click

from ..common.settings import Limits
from .output import (
    EXIT_PROBLEM,
    Failure,
    WrongUse,
    human_bytes,
    json_option,
    picked,
    plural,
    print_json,
    progress,
    say,
)
from .policy_in_force import read_limits
from .selection import dry_run_option, require_store

if TYPE_CHECKING:
    from ..store.store import Store
    from ..store.trimming import Trim


#: Bytes, such as 500M, 2GiB or 1000000. Units are powers of 1024.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def parse_size(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Called by click for an option."""
    if value is None:
        return None
    found = _SIZE.fullmatch(value.strip())
    if not found:
        raise click.BadParameter(f"{value!r} is not a size; write it like 500M or 2GiB")
    return int(float(found[1]) * (1 << _SHIFTS[found[2].lower()]))


@click.command
@click.option("--max-size", callback=parse_size, metavar="SIZE", help="Size limit of the store (max_store_mib).")
@click.option("--max-program", callback=parse_size, metavar="SIZE", help="Size limit of a program.")
@click.option("--free", callback=parse_size, metavar="SIZE", help="Make the store smaller by SIZE.")
@dry_run_option
@json_option
def trim(max_size: int | None, max_program: int | None, free: int | None, dry_run: bool, as_json: bool) -> None:
    """Fold the store into few files and bring it within its limits, evicting the least recently used pipelines first.

    Programs do the same as they run, a little at a time. Sizes are like 500M or 2GiB. A limit that is not given comes
    from the policy file; --free sets the store's limit below its size now. Files that a running program is writing are
    kept. On a full disk, a file that cannot be rewritten is deleted as a whole.

    \b
    Example:
      pylayer trim --free 1G --dry-run
      pylayer trim --max-size 2GiB
    """
    from ..store.trimming import Trim

    if free is not None and max_size is not None:
        raise WrongUse("give --free or --max-size, not both")
    store = require_store()
    if not os.path.isdir(store.root) and not as_json:
        say(f"Nothing is stored in {store.root} yet; start a program with: pylayer run -- APP")
        return
    if free is not None:
        max_size = _limit_that_frees(store, free)
    limits = _limits(max_size, max_program)
    work = Trim(store.root, limits, dry_run)
    with progress("folding", None, as_json) as advance:
        for _ in work.fold_steps():
            advance(1)
    try:
        with progress("trimming", None, as_json) as advance:
            for _ in work.evict_steps():
                advance(1)
    except OSError as error:
        raise Failure(f"{store.root} could not be trimmed: {error.strerror or error}; the store is intact") from error
    if as_json:
        print_json(_as_json(store.root, work, limits, dry_run))
    else:
        _print(work, dry_run)
        if work.bytes_after > limits.max_store:
            click.echo(f"That is more than {human_bytes(limits.max_store)}: the rest is in use or cannot be rewritten.")
    if work.skipped or (work.bytes_after > limits.max_store and not dry_run):
        raise click.exceptions.Exit(EXIT_PROBLEM)


def _limit_that_frees(store: Store, free: int) -> int:
    """Returns the size limit of a store that is smaller by ``free``. Raises Failure if the store has less than that."""
    size = store.total_bytes()
    if free > size:
        raise Failure(
            f"nothing was evicted: the store has {human_bytes(size)}, less than {human_bytes(free)}; "
            "pylayer rm --all --pipelines removes all of it"
        )
    return size - free


def _limits(max_size: int | None, max_program: int | None) -> Limits:
    """Returns the limits, from the policy file if they are not given. Raises Failure if that is not valid."""
    limits, problem = read_limits()
    if problem and (max_size is None or max_program is None):
        raise Failure(
            f"{problem}; its limits are unknown. Correct it, or give --max-program and one of --max-size and --free"
        )
    return Limits(
        limits.max_store if max_size is None else max_size,
        limits.max_program if max_program is None else max_program,
        state=limits.state,
    )


def _as_json(root: str, work: Trim, limits: Limits, dry_run: bool) -> dict[str, Any]:
    return {
        "store": root,
        "dry_run": dry_run,
        "max_store_bytes": limits.max_store,
        "max_program_bytes": limits.max_program,
        **picked(work, "bytes_before", "bytes_after"),
        "records_removed": work.records,
        "files_removed": work.files,
        "journals_folded": work.journals,
        "packs_folded": work.packs,
        "damaged_parts": work.damaged,
        "skipped": [{"identity": name, "reason": reason} for name, reason in work.skipped],
    }


def _print(work: Trim, dry_run: bool) -> None:
    journals, packs = plural(work.journals, "journal"), plural(work.packs, "pack")
    say(f"{'To fold' if dry_run else 'Folded'}: {journals} and {packs}.")
    say(f"{'To evict' if dry_run else 'Evicted'}: {plural(work.records, 'record')} and {plural(work.files, 'file')}.")
    before, after = human_bytes(work.bytes_before), human_bytes(work.bytes_after)
    if dry_run:
        unchanged = work.bytes_after == work.bytes_before
        saved = "how much folding saves is not known in advance" if unchanged else "and folding may save more"
        say(f"The store is {before} and would be {after} at most; {saved}.")
    else:
        say(f"The store was {before} and is {after}.")
    for name, reason in work.skipped:
        click.echo(f"Not folded: identity {name}, because {reason}.")
