"""``pylayer uninstall``: removes what ``pylayer install`` wrote."""

from __future__ import annotations

import click

from ..paths import store_root
from . import layer_files
from .output import EXIT_STATUSES, HELP, Failure, json_option, print_json


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@json_option
def uninstall(as_json: bool) -> None:
    """Remove what `pylayer install` wrote, and nothing else.

    \b
    Example:
      pylayer uninstall
    """
    path = layer_files.installed_manifest()
    try:
        path.unlink()
        removed = True
    except FileNotFoundError:
        removed = False
    except OSError as error:
        raise Failure(f"{path} cannot be removed ({error.strerror or error}); the layer is still installed") from error
    if as_json:
        print_json({"manifest": str(path), "removed": removed})
    elif removed:
        click.echo(f"Removed: {path}\nStored pipelines stay in {store_root()}; delete it to be rid of them.")
    else:
        click.echo(f"Nothing to remove: {path} is not there.")
