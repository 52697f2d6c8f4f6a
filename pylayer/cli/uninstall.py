"""``pylayer uninstall``: removes what ``pylayer install`` wrote."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..common.paths import store_root
from . import installed
from .complete import directories
from .install import base_of, remove_manifest
from .installed import KINDS
from .output import EXIT_STATUSES, HELP, json_option, print_json, say


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
@json_option
def uninstall(system: bool, prefix: str | None, as_json: bool) -> None:
    """Remove what `pylayer install` wrote, and nothing else.

    This removes both kinds of manifest, whichever installation they lead to, and directories that are then empty. Do
    this before `pip uninstall vk-pylayer`. Stored pipelines are kept.

    \b
    Example:
      pylayer uninstall
    """
    base = base_of(system, prefix)
    paths = [installed.manifest_path(base, kind) for kind in KINDS]
    removed = [path for path in paths if remove_manifest(path)]
    home = Path(os.path.expanduser("~")) if not system else base.parent
    # Keep XDG_DATA_HOME and a prefix, which the user chose. An empty .local/share in a home may go.
    last = home if home in base.parents else base
    for path in removed:
        _remove_empty(path.parent, last)
    left = installed.find()
    if as_json:
        print_json(
            {
                "removed": [str(path) for path in removed],
                "left": [{"manifest": str(other.path), "library": other.library} for other in left],
            }
        )
        return
    for path in removed:
        say(f"Removed: {path}")
    if not removed:
        say(f"Nothing to remove: {paths[0]} is not there.")
    for other in left:
        how = "pylayer uninstall --system removes it" if _is_systems(other.path) else "this command does not remove it"
        click.echo(f"Still there: {other.path}, which leads to {installed.state(other)}; {how}.")
    root = store_root()
    if removed and root and not system:
        say(f"Stored pipelines stay in {root}; delete it to remove them.")


def _is_systems(path: Path) -> bool:
    return installed.SYSTEM_PREFIX in path.parents
