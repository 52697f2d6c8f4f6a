"""``pylayer uninstall``: removes what ``pylayer install`` wrote, and with --purge all else."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..common.paths import store_root
from . import installed
from .complete import directories
from .install import base_of, remove_manifest
from .installed import KINDS
from .output import EXIT_STATUSES, HELP, Failure, WrongUse, json_option, plural, print_json, say
from .purge import Purge
from .selection import confirm, dry_run_option, yes_option


def _remove_empty(directory: Path, last: Path) -> None:
    """Removes a directory and its parents as long as they are empty. Stops below ``last``."""
    while directory != last and last in directory.parents:
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@click.option("--system", is_flag=True, help="Remove what pylayer install --system wrote. Needs root.")
@click.option(
    "--prefix", metavar="DIR", shell_complete=directories, help="With --system: the DIR given to pylayer install."
)
@click.option("--purge", is_flag=True, help="Also the store, your policy file, and all else that pylayer wrote.")
@dry_run_option
@yes_option
@json_option
def uninstall(system: bool, prefix: str | None, purge: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove what `pylayer install` wrote, and nothing else.

    This removes both kinds of manifest, whichever installation they lead to, and directories that are then empty. Do
    this before `pip uninstall vk-pylayer`. Stored pipelines are kept.

    With --purge, it also deletes everything else that pylayer wrote for you: stored pipelines, what was recorded of
    programs, your policy file, completions. It lists all of this and asks first. Then it prints the commands that
    remove the rest: the package, or in a clone what make built and the system packages that make installed.

    \b
    Example:
      pylayer uninstall
      pylayer uninstall --purge --dry-run
    """
    if purge and system:
        raise WrongUse("--purge is for your own files; run pylayer uninstall --system by itself")
    if (dry_run or yes) and not purge:
        raise WrongUse("--dry-run and --yes are for --purge; without it, only manifests are removed")
    base = base_of(system, prefix)
    paths = [installed.manifest_path(base, kind) for kind in KINDS]
    work = Purge() if purge else None
    if work is not None:
        if not as_json:
            work.list_parts([str(path) for path in paths if os.path.lexists(path)], dry_run, yes)
        if not dry_run:
            confirm("Delete all of this?", yes)
    removed = [path for path in paths if (os.path.lexists(path) if dry_run else remove_manifest(path))]
    home = Path(os.path.expanduser("~")) if not system else base.parent
    # Keep XDG_DATA_HOME and a prefix, which the user chose. An empty .local/share in a home may go.
    last = home if home in base.parents else base
    for path in removed if not dry_run else ():
        _remove_empty(path.parent, last)
    left = [other for other in installed.find() if other.path not in removed]
    failures = work.remove() if work is not None and not dry_run else []
    if as_json:
        told = {
            "removed": [str(path) for path in removed],
            "left": [{"manifest": str(other.path), "library": other.library} for other in left],
        }
        print_json(told | (work.as_json(dry_run, failures) if work is not None else {}))
    else:
        if not removed and (work is None or not work.parts):
            say(f"Nothing to remove: {paths[0]} is not there.")
        _print(removed, left, dry_run)
        root = store_root()
        if work is not None:
            work.print_rest()
        elif removed and root and not system:
            say(f"Stored pipelines stay in {root}; pylayer uninstall --purge removes them.")
    if failures:
        raise Failure(f"{plural(len(failures), 'part')} could not be deleted, such as {failures[0]}")


def _print(removed: list[Path], left: list[installed.Manifest], dry_run: bool) -> None:
    for path in removed if not dry_run else ():
        say(f"Removed: {path}")
    for other in left:
        how = "pylayer uninstall --system removes it" if _is_systems(other.path) else "this command does not remove it"
        click.echo(f"Still there: {other.path}, which leads to {installed.state(other)}; {how}.")


def _is_systems(path: Path) -> bool:
    return installed.SYSTEM_PREFIX in path.parents
