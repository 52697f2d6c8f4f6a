"""``pylayer install``: the layer becomes known to every loader of this user."""

from __future__ import annotations

import click

from .. import LAYER_NAME
from . import layer_features, layer_files
from .output import EXIT_STATUSES, HELP, Failure, json_option, print_json

NEXT_STEPS = f"""\
Switch it on for a program:    VK_INSTANCE_LAYERS={LAYER_NAME} APP
See whether everything works:  pylayer doctor
See what it does:              pylayer stats
Undo this:                     pylayer uninstall"""


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@json_option
def install(as_json: bool) -> None:
    """Make the layer known to the Vulkan loader, for this user.

    Writes one file, the manifest, into the user's data directory. It switches nothing on: programs get the
    layer where VK_INSTANCE_LAYERS names it.

    \b
    Example:
      pylayer install
      VK_INSTANCE_LAYERS=VK_LAYER_PYLAYER_pipeline_cache vkcube
    """
    path = layer_files.installed_manifest()
    text = layer_features.with_features(layer_files.manifest_text())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        changed = layer_files.write_manifest(path, text)
    except OSError as error:
        raise Failure(
            f"{path} cannot be written ({error.strerror or error}); nothing was installed, pylayer run works without"
        ) from error
    library = str(layer_files.library_path())
    if as_json:
        print_json({"manifest": str(path), "library": library, "layer": LAYER_NAME, "changed": changed})
        return
    click.echo(f"{'Installed' if changed else 'Installed already'}: {path}\n\n{NEXT_STEPS}")
