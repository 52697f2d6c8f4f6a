"""``pylayer install``: makes the layer known to every loader of this user, or of the machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click

from .. import LAYER_NAME
from . import installed, layer_features, layer_files
from .complete import directories
from .installed import EXPLICIT, IMPLICIT, KINDS, Manifest
from .output import EXIT_STATUSES, HELP, Failure, WrongUse, json_option, print_json, say

SWITCH_ON = {
    EXPLICIT: f"VK_INSTANCE_LAYERS={LAYER_NAME} APP",
    IMPLICIT: "ENABLE_PYLAYER=1 APP",
}
#: Modes of a system-wide manifest: every user's loader must be able to read it.
SYSTEM_DIRECTORY_MODE, SYSTEM_FILE_MODE = 0o755, 0o644


def next_steps(kind: str, undo: str) -> str:
    """Returns what the user should do next."""
    rows = [("Enable it for a program:", SWITCH_ON[kind])]
    if kind == IMPLICIT:
        rows.append(("Disable it for one:", "DISABLE_PYLAYER=1 APP"))
    rows += [
        ("See whether everything works:", "pylayer doctor"),
        ("See what it does:", "pylayer stats"),
        ("Undo this:", undo),
    ]
    return "\n".join(f"{what:<31}{command}" for what, command in rows)


def require_public(library: Path) -> None:
    """Raises Failure if other users cannot read the layer, or if anyone but root could replace it. A layer that is
    installed for all users is loaded into everybody's programs, root's included."""
    instead = "create an environment as root with python3 -m venv /opt/pylayer, and install vk-pylayer there"
    for path in (library, *library.parents):
        status = path.stat()
        writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
        needed = stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else stat.S_IROTH
        if status.st_uid != 0 or writable:
            raise Failure(f"users other than root can change {path}, so its layer is not safe for all users; {instead}")
        if not status.st_mode & needed:
            raise Failure(f"not all users can read {path}, so its layer cannot be for all users; {instead}")


def make_directory(path: Path, system: bool) -> None:
    """Creates a manifest's directory and its parents. Raises OSError."""
    if path.is_dir():
        return
    make_directory(path.parent, system)
    path.mkdir()
    if system:
        path.chmod(SYSTEM_DIRECTORY_MODE)


def write(path: Path, kind: str, system: bool) -> tuple[bool, str]:
    """Writes a manifest. Returns whether that changed anything, and which library the manifest led to before (empty
    text if it was this one).

    Raises Failure.
    """
    before = installed.read(path, kind)
    try:
        make_directory(path.parent, system)
        text = layer_features.with_features(layer_files.manifest_text(kind))
        changed = layer_files.write_manifest(path, text)
        if system:
            path.chmod(SYSTEM_FILE_MODE)
    except OSError as error:
        instead = "run this command as root" if system else "pylayer run works without it"
        raise Failure(
            f"{path} cannot be written ({error.strerror or error}); nothing was installed; {instead}"
        ) from error
    return changed, before.library if before and not before.is_ours else ""


def remove_manifest(path: Path) -> bool:
    """Removes a manifest. Returns false if there is none. Raises Failure."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Failure(f"{path} cannot be removed ({error.strerror or error}); the layer is still installed") from error
    return True


def base_of(system: bool, prefix: str | None) -> Path:
    """Returns the data directory that the options select. Raises WrongUse and Failure."""
    if prefix and not system:
        raise WrongUse("--prefix is for --system; without it the manifest goes into your own data directory")
    return Path(os.path.abspath(prefix or installed.SYSTEM_PREFIX), "share") if system else installed.user_data()


def _others(paths: list[Path]) -> list[Manifest]:
    """Returns manifests outside of ``paths`` that lead to another installation's layer."""
    return [manifest for manifest in installed.find() if manifest.path not in paths and not manifest.is_ours]


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@click.option(
    "--explicit", "kind", flag_value=EXPLICIT, help="For programs that name the layer, also in VK_INSTANCE_LAYERS."
)
@click.option("--implicit", "kind", flag_value=IMPLICIT, help="Also for programs with ENABLE_PYLAYER=1.")
@click.option("--system", is_flag=True, help="For all users, in /usr/local/share/vulkan. Needs root.")
@click.option(
    "--prefix",
    metavar="DIR",
    shell_complete=directories,
    help="With --system: write to DIR/share/vulkan, for packages and images.",
)
@json_option
def install(kind: str | None, system: bool, prefix: str | None, as_json: bool) -> None:
    """Register the layer with the Vulkan loader, for this user.

    This writes manifests into the user's data directory, and replaces those of another installation or version. It
    does not enable the layer. With --explicit, the default for a first installation, programs can request the layer by
    its name. With --implicit, ENABLE_PYLAYER=1 in a program's environment enables it too. DISABLE_PYLAYER=1 disables it
    in any program.

    \b
    Example:
      pylayer install --implicit
      ENABLE_PYLAYER=1 vkcube
    """
    base = base_of(system, prefix)
    paths = {each: installed.manifest_path(base, each) for each in KINDS}
    if system:
        require_public(layer_files.library_path())
    kind = kind or (IMPLICIT if os.path.lexists(paths[IMPLICIT]) else EXPLICIT)
    # Also write it beside an implicit one: loaders before about 1.4.326 do not find an implicit layer for
    # VK_INSTANCE_LAYERS.
    kinds = [EXPLICIT, IMPLICIT] if kind == IMPLICIT else [EXPLICIT]
    written = {each: write(paths[each], each, system) for each in kinds}
    removed = [paths[IMPLICIT]] if kind == EXPLICIT and remove_manifest(paths[IMPLICIT]) else []
    changed = bool(removed) or any(was_changed for was_changed, _ in written.values())
    others = _others([paths[each] for each in kinds])
    if as_json:
        print_json(
            {
                "layer": LAYER_NAME,
                "library": str(layer_files.library_path()),
                "kind": kind,
                "changed": changed,
                "manifests": [str(paths[each]) for each in kinds],
                "replaced": sorted({library for _, library in written.values() if library}),
                "removed": [str(path) for path in removed],
                "others": [{"manifest": str(other.path), "library": other.library} for other in others],
            }
        )
        return
    for each in kinds:
        say(f"{'Installed' if written[each][0] else 'Installed already'}: {paths[each]}")
    for library in sorted({library for _, library in written.values() if library}):
        say(f"Before, it led to {library}.")
    for path in removed:
        say(f"Removed: {path}")
    for other in others:
        click.echo(f"Another: {other.path} leads to {installed.state(other)}; pylayer doctor shows which is used.")
    undo = "pylayer uninstall" + (" --system" if system else "") + (f" --prefix {prefix}" if prefix else "")
    say(f"\n{next_steps(kind, undo)}")
