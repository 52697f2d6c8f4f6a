"""``pylayer uninstall``: removes what ``pylayer install`` wrote."""

from __future__ import annotations

import os

import click

from ..common.paths import store_root
from . import installed, units
from .install import base_of
from .installed import KINDS
from .output import Failure, reason


@click.command
@click.option("--system", is_flag=True, help="Remove what pylayer install --system wrote. Needs root.")
def uninstall(system: bool) -> None:
    """Remove what `pylayer install` wrote, and nothing else.

    This removes both kinds of manifest, whichever installation they lead to, and the timer. The package and stored
    pipelines are kept: pip uninstall, or deleting the environment, removes the one, and pylayer rm --all the others.

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
    if not removed:
        click.echo(f"Nothing to remove: {installed.manifest_path(base, KINDS[0])} is not there.")
    for path in removed:
        click.echo(f"Removed: {path}")
    for other in left:
        more = "; pylayer uninstall --system removes it" if installed.SYSTEM_PREFIX in other.path.parents else ""
        click.echo(f"Still there: {other.path}, which leads to {installed.state(other)}{more}.")
    root = store_root()
    if removed and root and not system:
        click.echo(f"Stored pipelines stay in {root}; pylayer rm --all removes them.")
