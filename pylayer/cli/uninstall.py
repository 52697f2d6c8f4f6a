"""``pylayer uninstall``: removes what ``pylayer install`` wrote."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..common.paths import store_root
from . import installed, units
from .install import base_of
from .installed import KINDS
from .output import Failure, json_option, print_json, reason, say


def _remove_empty(directory: Path, last: Path) -> None:
    """Removes a directory and its parents as long as they are empty. Stops below ``last``."""
    while last in directory.parents:
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent


def _last(base: Path, system: bool) -> Path:
    """Returns a directory that stays. XDG_DATA_HOME, which the user chose, and /usr/local/share do; an empty
    .local/share in a home may go."""
    home = Path(os.path.expanduser("~"))
    return home if not system and home in base.parents else base


@click.command
@click.option("--system", is_flag=True, help="Remove what pylayer install --system wrote. Needs root.")
@json_option
def uninstall(system: bool, as_json: bool) -> None:
    """Remove what `pylayer install` wrote, and nothing else.

    This removes both kinds of manifest, whichever installation they lead to, the timer, and directories that are then
    empty. The package and stored pipelines are kept: pip uninstall, or deleting the environment, removes the one, and
    pylayer rm --all the others.

    \b
    Example:
      pylayer uninstall
    """
    base = base_of(system)
    manifests = [path for kind in KINDS if os.path.lexists(path := installed.manifest_path(base, kind))]
    removed = [*manifests, *units.found(base)]
    left = [other for other in installed.find() if other.path not in removed]
    try:
        for path in removed:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise Failure(f"not all was removed: {reason(error)}; check who owns it") from error
    for path in removed:
        _remove_empty(path.parent, _last(base, system))
    if as_json:
        others = [{"manifest": str(other.path), "library": other.library} for other in left]
        print_json({"removed": [str(path) for path in removed], "left": others})
        return
    if not removed:
        say(f"Nothing to remove: {installed.manifest_path(base, KINDS[0])} is not there.")
    for path in removed:
        say(f"Removed: {path}")
    for other in left:
        say(f"Still there: {other.path}, which leads to {installed.state(other)}; {remover(other.path)}.", asks=True)
    root = store_root()
    if removed and root and not system:
        say(f"Stored pipelines stay in {root}; pylayer rm --all removes them.")


def remover(path: Path) -> str:
    """Returns what removes a manifest that is not this installation's, as part of a sentence."""
    if installed.SYSTEM_PREFIX in path.parents:
        return "pylayer uninstall --system removes it"
    if installed.PACKAGES_PREFIX in path.parents:
        return "a package of the system installed it, so remove that, such as with apt purge vk-pylayer"
    return "this command does not remove it"
