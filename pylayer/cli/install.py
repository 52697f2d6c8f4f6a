"""``pylayer install``: makes the layer known to every loader of this user, or of the machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

import click

from .. import LAYER_NAME
from ..common.files import TEMPORARY
from ..common.paths import _base
from . import installed, layer_features, layer_files, tree, units
from .installed import EXPLICIT, IMPLICIT, KINDS, Manifest
from .output import Failure, WrongUse, json_option, print_json, say

SWITCH_ON = {
    EXPLICIT: f"VK_INSTANCE_LAYERS={LAYER_NAME} APP",
    IMPLICIT: "ENABLE_PYLAYER=1 APP",
}
START = f"systemctl --user start {units.NAME}.timer"
#: What else of a tree is put where programs look for it: paths below ~/.local or a prefix, and in the tree.
COMMAND = ("bin/pylayer", "share/man/man1/pylayer.1")


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


def require_public(path: Path) -> None:
    """Raises Failure if what is at the path, or would be, is not safe for all users. A layer that is installed for all
    users is loaded into everybody's programs, root's included."""
    while not path.exists():
        path = path.parent
    why = unsafe(path)
    if why:
        raise Failure(f"{why}, so a layer there is not for all users; nothing was installed")


def write(path: Path, kind: str, library: Path, system: bool) -> tuple[bool, str]:
    """Writes a manifest. Returns whether that changed anything, and which library the manifest led to before (empty
    text if it was one of this build).

    Raises OSError and Failure.
    """
    before = installed.read(path, kind)
    tree.make_directory(path.parent, system)
    text = layer_features.with_features(layer_files.manifest_text(kind, library))
    changed = layer_files.write_manifest(path, text)
    if system:
        path.chmod(tree.FILE_MODE)
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


def remove_temporaries(manifest: Path) -> None:
    """Deletes what an install that died has left beside a manifest. Hold the lock. Raises OSError."""
    for path in manifest.parent.glob(f"{manifest.name}.*{TEMPORARY}"):
        path.unlink()


def base_of(system: bool, prefix: str | None) -> Path:
    """Returns the data directory that the options select. Raises WrongUse and Failure."""
    if prefix and not system:
        raise WrongUse("--prefix is for --system; without it the manifest goes into your own data directory")
    return Path(os.path.abspath(prefix or installed.SYSTEM_PREFIX), "share") if system else installed.user_data()


def place_of(base: Path, system: bool) -> Path:
    """Returns where the trees are that belong to the manifests of a data directory."""
    return base.parent / "lib" / "pylayer" if system else base / "pylayer"


def links_of(base: Path, system: bool) -> dict[Path, str]:
    """Returns the links to the command and its page, with what each leads to. Without a home there are none."""
    home = None if system else _base("HOME", "")
    top = base.parent if system else Path(home, ".local") if home else None
    place = place_of(base, system)
    return {top / name: str(place / layer_files.CURRENT / name) for name in COMMAND} if top else {}


def is_our_link(path: Path, target: str) -> bool:
    """Returns whether install made this link."""
    return path.is_symlink() and os.readlink(path) == target


@dataclass
class Work:
    """One installation: what was done, and what another one did before."""

    base: Path
    system: bool
    kinds: list[str]
    library: Path
    tree: Path | None = None
    before: str = ""
    changed: bool = False
    written: dict[Path, tuple[bool, str]] = field(default_factory=dict)
    removed: list[Path] = field(default_factory=list)
    linked: list[Path] = field(default_factory=list)
    #: The units that rebuild.
    units: list[Path] = field(default_factory=list)
    #: Why the command has no link, each a line.
    notes: list[str] = field(default_factory=list)

    def manifests(self) -> None:
        """Writes the manifests, and removes an implicit one that was not asked for. Raises OSError and Failure."""
        for kind in self.kinds:
            path = installed.manifest_path(self.base, kind)
            self.written[path] = write(path, kind, self.library, self.system)
        other = installed.manifest_path(self.base, IMPLICIT)
        if other not in self.written and remove_manifest(other):
            self.removed.append(other)
        self.changed |= bool(self.removed) or any(changed for changed, _ in self.written.values())

    def copy(self) -> None:
        """Copies the tree, switches to it, and writes the manifests. If one of them fails, all is as it was. Raises
        OSError and Failure."""
        made = tree.Tree()
        place = place_of(self.base, self.system)
        with tree.locked(place, self.system):
            tree.remove_unfinished(place)
            for kind in KINDS:
                remove_temporaries(installed.manifest_path(self.base, kind))
            self.before = tree.current(place)
            added = switched = False
            try:
                added = tree.add(place, made)
                self.tree = place / made.name
                self.library = place / layer_files.CURRENT / layer_files.PACKAGE / layer_files.LIBRARY_NAME
                switched = tree.switch(place, made.name)
                self.changed |= switched or added
                self.manifests()
            except BaseException:
                self._undo(place, made.name if added else "")
                raise
            self._link()
            if switched:
                with contextlib.suppress(OSError):  # the next switch deletes the rest
                    tree.remove_unused(place, {made.name, self.before})

    def _undo(self, place: Path, added: str) -> None:
        with contextlib.suppress(OSError):
            if self.before:
                tree.switch(place, self.before)
            elif tree.current(place):
                (place / layer_files.CURRENT).unlink()
            if added and added != self.before:
                shutil.rmtree(place / added, ignore_errors=True)
            if not os.listdir(place):
                place.rmdir()

    def _link(self) -> None:
        """Puts the command and its page where they are looked for. What somebody else put there stays."""
        why = ""
        if self.system:
            with contextlib.suppress(OSError):
                why = unsafe(tree.interpreter())
        for path, target in links_of(self.base, self.system).items():
            is_command = path.name == "pylayer"
            if is_our_link(path, target):
                self.linked.append(path)
            elif is_command and why:
                self.notes.append(f"{path} was not made, because {why}; use the command from where it is")
            elif path.exists():
                self.notes.append(f"{path} belongs to another installation, and stays; this one's is {target}")
            elif os.path.exists(target):
                try:
                    tree.make_directory(path.parent, self.system)
                    tree.replace_link(path, target)
                except OSError as error:
                    self.notes.append(f"{path} cannot be written ({error.strerror}); the command is {target}")
                    continue
                self.changed = True
                self.linked.append(path)
        command = next((path for path in self.linked if path.name == "pylayer"), None)
        if command and str(command.parent) not in os.get_exec_path():
            self.notes.append(
                f"{command.parent} is not on PATH; add it, or log in again if your system adds it by itself"
            )


def _install(work: Work, in_place: bool, rebuilds: bool) -> None:
    """Raises Failure."""
    try:
        if in_place:
            work.manifests()
        else:
            work.copy()
        if rebuilds:
            command = place_of(work.base, work.system) / layer_files.CURRENT / "bin" / "pylayer"
            work.units = units.write(work.base, command, work.system)
    except OSError as error:
        instead = "run this command as root" if work.system else "pylayer run works without it"
        where = error.filename2 or error.filename or work.base
        raise Failure(
            f"{where} cannot be written ({error.strerror or error}); nothing was installed; {instead}"
        ) from error


def _print(work: Work, undo: str) -> None:
    if work.tree:
        build = work.tree.name[: layer_files.SHORT]
        say(f"{'Installed' if work.changed else 'Installed already'}: build {build} in {work.tree}")
    if work.before and work.tree and work.before != work.tree.name:
        say(f"Before, it was {work.before}, which is kept for programs that run.")
    for path, (changed, library) in work.written.items():
        say(f"{'Installed' if changed else 'Installed already'}: {path}")
        if library:
            say(f"Before, it led to {library}.")
    for path in work.removed:
        say(f"Removed: {path}")
    for path in work.linked:
        say(f"Linked: {path}")
    for path in work.units:
        say(f"Installed: {path}")
    if work.units:
        say(f"It runs from the next login on. To begin now: systemctl --user daemon-reload && {START}")
    for note in work.notes:
        click.echo(f"Note: {note}.")
    for other in _others(list(work.written)):
        click.echo(f"Another: {other.path} leads to {installed.state(other)}; pylayer doctor shows which is used.")
    say(f"\n{next_steps(work.kinds[-1], undo)}")


def _others(paths: list[Path]) -> list[Manifest]:
    """Returns manifests outside of ``paths`` that lead to another installation's layer."""
    return [manifest for manifest in installed.find() if manifest.path not in paths and not manifest.is_ours]


@click.command
@click.option(
    "--explicit", "kind", flag_value=EXPLICIT, help="For programs that name the layer, also in VK_INSTANCE_LAYERS."
)
@click.option("--implicit", "kind", flag_value=IMPLICIT, help="Also for programs with ENABLE_PYLAYER=1.")
@click.option("--system", is_flag=True, help="For all users, in /usr/local. Needs root.")
@click.option(
    "--prefix",
    metavar="DIR",
    help="With --system: install below DIR, for images.",
)
@click.option("--in-place", is_flag=True, help="Copy nothing: register the layer where it is.")
@click.option(
    "--rebuild-when-idle", "rebuilds", is_flag=True, help="Also run pylayer rebuild every day, by a timer of systemd."
)
@json_option
def install(kind: str | None, system: bool, prefix: str | None, in_place: bool, rebuilds: bool, as_json: bool) -> None:
    """Install pylayer and register its layer, for this user.

    This copies the layer and this command to ~/.local/share/pylayer, puts the command into ~/.local/bin, and writes
    manifests, which tell the loader where the layer is. The environment or the clone that the command came from is not
    needed afterwards. Another build replaces the one that is installed. Programs that run keep the old one.

    It does not enable the layer. With --explicit, the default for a first installation, programs can request the layer
    by its name. With --implicit, ENABLE_PYLAYER=1 in a program's environment enables it too. DISABLE_PYLAYER=1 disables
    it in any program.

    With --rebuild-when-idle, a timer runs pylayer rebuild once a day, at the lowest priority and not on battery.

    \b
    Example:
      pylayer install --implicit
      ENABLE_PYLAYER=1 vkcube
    """
    if rebuilds and in_place:
        raise WrongUse("--rebuild-when-idle needs a copy of the command, which --in-place does not make")
    base = base_of(system, prefix)
    if system:
        require_public(layer_files.library_path() if in_place else place_of(base, system))
    kind = kind or (IMPLICIT if os.path.lexists(installed.manifest_path(base, IMPLICIT)) else EXPLICIT)
    # Also write it beside an implicit one: loaders before about 1.4.326 do not find an implicit layer for
    # VK_INSTANCE_LAYERS.
    kinds = [EXPLICIT, IMPLICIT] if kind == IMPLICIT else [EXPLICIT]
    work = Work(base, system, kinds, layer_files.library_for_loaders())
    _install(work, in_place, rebuilds)
    if as_json:
        print_json(
            {
                "layer": LAYER_NAME,
                "build": layer_files.build_id(),
                "tree": str(work.tree) if work.tree else None,
                "library": str(work.library),
                "kind": kind,
                "changed": work.changed,
                "manifests": [str(path) for path in work.written],
                "links": [str(path) for path in (*work.linked, *work.units)],
                "replaced": sorted({library for _, library in work.written.values() if library}),
                "removed": [str(path) for path in work.removed],
                "notes": work.notes,
                "others": [
                    {"manifest": str(other.path), "library": other.library} for other in _others(list(work.written))
                ],
            }
        )
        return
    _print(work, "pylayer uninstall" + (" --system" if system else "") + (f" --prefix {prefix}" if prefix else ""))
