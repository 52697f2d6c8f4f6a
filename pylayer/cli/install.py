"""``pylayer install`` makes the layer known to every loader of this user, or of the machine, and ``pylayer uninstall``
removes that again."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import click

from .. import LAYER_NAME
from ..common.files import replace_file
from ..common.paths import store_root
from . import manifests
from .manifests import EXPLICIT, IMPLICIT, KINDS, make_directory, package_directory
from .output import Failure, failing, json_option, print_json

# ---- the units of systemd with which pylayer rebuild runs while nobody needs the machine ---------------------

UNIT = "pylayer-rebuild"


def _wants(base: Path) -> Path:
    return base / "systemd" / "user" / "timers.target.wants" / f"{UNIT}.timer"


def units_in(base: Path) -> list[Path]:
    """Returns the paths of the units below a data directory, and of the link that enables them."""
    directory = base / "systemd" / "user"
    paths = (_wants(base), directory / f"{UNIT}.timer", directory / f"{UNIT}.service")
    return [path for path in paths if os.path.lexists(path)]


def write_units(base: Path, system: bool) -> list[Path]:
    """Writes and enables the units below a data directory, where systemd looks for them. Raises OSError."""
    directory = base / "systemd" / "user"
    make_directory(_wants(base).parent, system)
    for name in (f"{UNIT}.service", f"{UNIT}.timer"):
        text = (package_directory() / "data" / "config" / name).read_text(encoding="utf-8")
        text = text.replace("@PYTHON@", sys.executable.replace("%", "%%"))
        replace_file(str(directory / name), text.encode(), anywhere=True, mode=0o644)
    _wants(base).unlink(missing_ok=True)
    _wants(base).symlink_to(f"../{UNIT}.timer")
    return units_in(base)


# ---- install and uninstall -----------------------------------------------------------------------------------

UNDO = ("pylayer uninstall", "pylayer uninstall --system")


def unsafe(path: Path) -> str:
    """Returns why a file is not for all users: because anyone but root could replace it, or because some users cannot
    read it. Returns empty text if it is. Raises OSError."""
    for each in (path, *path.parents):
        status = each.stat()
        writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
        needed = stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else stat.S_IROTH
        if status.st_uid != 0 or writable:
            return f"users other than root can change {each}"
        if not status.st_mode & needed:
            return f"not all users can read {each}"
    return ""


def base_of(system: bool) -> Path:
    """Returns the data directory that the option selects. Raises Failure."""
    return manifests.SYSTEM_PREFIX / "share" if system else manifests.user_data()


def _write(path: Path, kind: str, system: bool) -> None:
    """Writes a manifest, unless it is there. Raises OSError and Failure."""
    text = manifests.manifest_text(kind).encode()
    manifests.make_directory(path.parent, system)
    if not path.is_file() or path.read_bytes() != text:
        replace_file(str(path), text, anywhere=True)
    if system:
        path.chmod(0o644)


@click.command
@click.option("--implicit", is_flag=True, help="Also for programs with ENABLE_PYLAYER=1.")
@click.option("--system", is_flag=True, help="For all users, in /usr/local. Needs root.")
@click.option(
    "--rebuild-when-idle", "rebuilds", is_flag=True, help="Also run pylayer rebuild every day, by a timer of systemd."
)
@json_option
def install(implicit: bool, system: bool, rebuilds: bool, as_json: bool) -> None:
    """Register the layer where it is, for this user.

    This writes manifests, which tell the loader where the layer is. They lead to the environment that this command runs
    from, so keep that: make install puts one into ~/.local/share/pylayer.

    It does not enable the layer. Programs can request the layer by its name, also in VK_INSTANCE_LAYERS. With
    --implicit, ENABLE_PYLAYER=1 in a program's environment enables it too. DISABLE_PYLAYER=1 disables it in any
    program.

    With --rebuild-when-idle, a timer runs pylayer rebuild once a day, at the lowest priority and not on battery.

    \b
    Example:
      pylayer install --implicit
      ENABLE_PYLAYER=1 vkcube
    """
    base, library = base_of(system), manifests.library_path()
    kind = IMPLICIT if implicit or os.path.lexists(manifests.manifest_path(base, IMPLICIT)) else EXPLICIT
    # Also write it beside an implicit one: loaders before 1.3.262 do not find an implicit layer for
    # VK_INSTANCE_LAYERS.
    kinds = [EXPLICIT, IMPLICIT] if kind == IMPLICIT else [EXPLICIT]
    try:
        # A layer for all users is loaded into everybody's programs, root's included.
        if system and (why := unsafe(library)):
            raise Failure(f"{why}, so a layer there is not for all users; nothing was installed")
        paths = [manifests.manifest_path(base, each) for each in kinds]
        for path, each in zip(paths, kinds, strict=True):
            _write(path, each, system)
        timer = write_units(base, system) if rebuilds else []
    except OSError as error:
        instead = "run this command as root" if system else "pylayer run works without it"
        where = error.filename2 or error.filename or base
        raise Failure(f"{where} cannot be written ({error.strerror or error}); {instead}") from error
    if as_json:
        print_json({"kind": kind, "written": [str(path) for path in (*paths, *timer)]})
        return
    for path in (*paths, *timer):
        click.echo(f"Installed: {path}")
    if timer:
        start = f"systemctl --user daemon-reload && systemctl --user start {UNIT}.timer"
        click.echo(f"It runs from the next login on. To begin now: {start}")
    for other in manifests.find():
        if other.path not in paths and not other.is_ours:
            click.echo(f"Another: {other.path} leads to {manifests.state(other)}; pylayer doctor shows which is used.")
    switch = "ENABLE_PYLAYER=1 APP" if kind == IMPLICIT else f"VK_INSTANCE_LAYERS={LAYER_NAME} APP"
    click.echo(f"\nEnable it for a program:       {switch}")
    if kind == IMPLICIT:
        click.echo("Disable it for one:            DISABLE_PYLAYER=1 APP")
    click.echo(f"See whether everything works:  pylayer doctor\nUndo this:                     {UNDO[system]}")


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
    written = [path for kind in KINDS if os.path.lexists(path := manifests.manifest_path(base, kind))]
    removed = [*written, *units_in(base)]
    left = [other for other in manifests.find() if other.path not in removed]
    with failing("not all was removed", hint="; check who owns it", named=True):
        for path in removed:
            path.unlink(missing_ok=True)
    if not removed:
        click.echo(f"Nothing to remove: {manifests.manifest_path(base, KINDS[0])} is not there.")
    for path in removed:
        click.echo(f"Removed: {path}")
    for other in left:
        more = "; pylayer uninstall --system removes it" if manifests.SYSTEM_PREFIX in other.path.parents else ""
        click.echo(f"Still there: {other.path}, which leads to {manifests.state(other)}{more}.")
    root = store_root()
    if removed and root and not system:
        click.echo(f"Stored pipelines stay in {root}; pylayer rm --all removes them.")
