"""``pylayer trim``: compacts the whole store and brings it within its limits."""

from __future__ import annotations

import os
import re

import click

from ..report.words import human_bytes, plural
from .output import Failure, end_if, failing, work_through
from .policy_in_force import read_limits
from .selection import require_store

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
def trim(max_size: int | None) -> None:
    """Repair the store, compact it into few files, and evict the least recently used pipelines beyond its limits.

    Programs do the same as they run, a little at a time. SIZE is like 500M or 2GiB. Without --max-size, the limit is
    that of the policy file. Files that a running program is writing are kept. On a full disk, a file that cannot be
    rewritten is deleted as a whole.

    \b
    Example:
      pylayer trim
      pylayer trim --max-size 2GiB
    """
    from ..store.checking import Trim

    store = require_store()
    if not os.path.isdir(store.root):
        click.echo(f"Nothing is stored in {store.root} yet; start a program with: pylayer run -- APP")
        return
    limits, problem = read_limits()
    if max_size is not None:
        limits.max_store = max_size
    elif problem:
        raise Failure(f"{problem}; its limits are unknown. Correct it, or give --max-size")
    work = Trim(store.root, limits)
    with failing(f"{store.root} could not be trimmed", hint="; the store is intact"):
        work_through("trimming", None, work.steps())
    click.echo(f"Evicted: {plural(work.evicted.records, 'record')} and {plural(work.evicted.files, 'file')}.")
    click.echo(f"The store was {human_bytes(work.bytes_before)} and is {human_bytes(work.bytes_after)}.")
    for name, reason in work.skipped:
        click.echo(f"Not compacted: identity {name}, because {reason}.")
    if work.bytes_after > limits.max_store:
        click.echo(f"That is more than {human_bytes(limits.max_store)}: the rest is in use or cannot be rewritten.")
    end_if(work.skipped or work.bytes_after > limits.max_store)
