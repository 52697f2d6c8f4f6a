"""``pylayer uninstall``: removes what ``pylayer install`` wrote, and with --purge all else."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..common.paths import store_root
from . import installed, tree, units
from .complete import directories
from .install import base_of, is_our_link, links_of, place_of, remove_manifest, remove_temporaries
from .installed import KINDS
from .layer_files import CURRENT
from .output import Failure, WrongUse, json_option, plural, print_json, reason, say
from .purge import Leftover, Purge
from .selection import confirm, dry_run_option, yes_option

#: Directories of the system below /usr/local. They stay, even if they are empty.
OF_THE_SYSTEM = ("bin", "lib", "share", "share/man")


def _remove_empty(directory: Path, last: Path) -> None:
    """Removes a directory and its parents as long as they are empty. Stops below ``last``."""
    while directory != last and last in directory.parents:
        if directory in [installed.SYSTEM_PREFIX / name for name in OF_THE_SYSTEM]:
            return
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent


class Installation:
    """What ``pylayer install`` wrote for one data directory, and what programs still use of it."""

    def __init__(self, base: Path, system: bool) -> None:
        self.base, self.system, self.place = base, system, place_of(base, system)
        self.manifests = [path for kind in KINDS if os.path.lexists(path := installed.manifest_path(base, kind))]
        links = links_of(base, system)
        # Also those of an install that died before it renamed them.
        known = links | {tree.unfinished_link(path): target for path, target in links.items()}
        self.links = [path for path, target in known.items() if is_our_link(path, target)] + units.found(base)
        self.trees = [self.place / name for name in tree.names(self.place)]
        #: Trees that programs use.
        self.used: list[Path] = []

    def all(self) -> list[Path]:
        """Returns the paths of all of it."""
        return [*self.manifests, *self.links, *self.trees]

    def parts(self) -> list[Leftover]:
        """Returns all of it, with its sizes."""
        return [
            *(Leftover("a manifest", str(path)) for path in self.manifests),
            *(Leftover("a link to the installed tree, or a unit of systemd", str(path)) for path in self.links),
            *(Leftover("the installed tree", str(path)) for path in self.trees),
        ]

    def remove(self) -> None:
        """Deletes all of it, first what leads to the trees. A tree that a program uses stays. Raises Failure."""
        self.manifests = [path for path in self.manifests if remove_manifest(path)]
        try:
            for path in self.links:
                path.unlink(missing_ok=True)
            self._remove_trees()
        except OSError as error:
            raise Failure(f"not all was removed: {reason(error)}; the layer is no longer registered") from error
        # Keep XDG_DATA_HOME and a prefix, which the user chose. An empty .local/share in a home may go.
        home = Path(os.path.expanduser("~")) if not self.system else self.base.parent
        last = home if home in self.base.parents else self.base
        for path in (*self.manifests, self.place):
            _remove_empty(path.parent, last)
        for path in self.links:
            _remove_empty(path.parent, home)

    def _remove_trees(self) -> None:
        if not self.place.is_dir():
            return
        with tree.locked(self.place, self.system):
            tree.remove_unfinished(self.place)
            for kind in KINDS:
                remove_temporaries(installed.manifest_path(self.base, kind))
            (self.place / CURRENT).unlink(missing_ok=True)
            self.used = [self.place / name for name in tree.remove_unused(self.place, set())]
            self.trees = [path for path in self.trees if path not in self.used]
            if not os.listdir(self.place):
                self.place.rmdir()


@click.command
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

    This removes both kinds of manifest, whichever installation they lead to, the copies of pylayer with the links to
    them, and directories that are then empty. A copy that a running program uses stays. Stored pipelines are kept.

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
        raise WrongUse("--dry-run and --yes are for --purge")
    base = base_of(system, prefix)
    found = Installation(base, system)
    work = Purge() if purge else None
    if work is not None:
        if not as_json:
            work.list_parts(found.parts(), dry_run, yes)
        if not dry_run:
            confirm("Delete all of this?", yes)
    left = [other for other in installed.find() if other.path not in found.manifests]
    if not dry_run:
        found.remove()
    removed = found.manifests
    failures = work.remove() if work is not None and not dry_run else []
    if as_json:
        values = {
            "removed": [str(path) for path in removed],
            "links": [str(path) for path in found.links],
            "trees": [str(path) for path in found.trees],
            "used": [str(path) for path in found.used],
            "left": [{"manifest": str(other.path), "library": other.library} for other in left],
        }
        print_json(values | (work.as_json(dry_run, failures) if work is not None else {}))
    else:
        if not found.all() and (work is None or not work.parts):
            say(f"Nothing to remove: {installed.manifest_path(base, KINDS[0])} is not there.")
        _print(found, left, dry_run)
        root = store_root()
        if work is not None:
            work.print_rest()
        elif removed and root and not system:
            say(f"Stored pipelines stay in {root}; pylayer uninstall --purge removes them.")
    if failures:
        raise Failure(f"{plural(len(failures), 'part')} could not be deleted, such as {failures[0]}")


def _print(found: Installation, left: list[installed.Manifest], dry_run: bool) -> None:
    for path in found.all() if not dry_run else ():
        say(f"Removed: {path}")
    for path in found.used:
        users = ", ".join(map(str, tree.users(path)))
        click.echo(f"Kept: {path}, because running programs use it (pid {users}); delete it when they have ended.")
    for other in left:
        how = remover(other.path)
        click.echo(f"Still there: {other.path}, which leads to {installed.state(other)}; {how}.")


def remover(path: Path) -> str:
    """Returns what removes a manifest that is not this installation's, as part of a sentence."""
    if installed.SYSTEM_PREFIX in path.parents:
        return "pylayer uninstall --system removes it"
    if installed.PACKAGES_PREFIX in path.parents:
        return "a package of the system installed it, so remove that, such as with apt purge vk-pylayer"
    return "this command does not remove it"
