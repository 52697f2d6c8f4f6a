"""``pylayer uninstall``: removes what ``pylayer install`` wrote."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..common.paths import store_root
from . import installed, tree, units
from .install import base_of, is_our_link, links_of, place_of, remove_manifest, remove_temporaries
from .installed import KINDS
from .layer_files import CURRENT
from .output import Failure, json_option, print_json, reason, say

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
@click.option("--prefix", metavar="DIR", help="With --system: the DIR given to pylayer install.")
@json_option
def uninstall(system: bool, prefix: str | None, as_json: bool) -> None:
    """Remove what `pylayer install` wrote, and nothing else.

    This removes both kinds of manifest, whichever installation they lead to, the copies of pylayer with the links to
    them, and directories that are then empty. A copy that a running program uses stays. Stored pipelines are kept:
    pylayer rm --all removes them.

    \b
    Example:
      pylayer uninstall
    """
    base = base_of(system, prefix)
    found = Installation(base, system)
    left = [other for other in installed.find() if other.path not in found.manifests]
    found.remove()
    if as_json:
        print_json(
            {
                "removed": [str(path) for path in found.manifests],
                "links": [str(path) for path in found.links],
                "trees": [str(path) for path in found.trees],
                "used": [str(path) for path in found.used],
                "left": [{"manifest": str(other.path), "library": other.library} for other in left],
            }
        )
        return
    if not found.all():
        say(f"Nothing to remove: {installed.manifest_path(base, KINDS[0])} is not there.")
    _print(found, left)
    root = store_root()
    if found.manifests and root and not system:
        say(f"Stored pipelines stay in {root}; pylayer rm --all removes them.")


def _print(found: Installation, left: list[installed.Manifest]) -> None:
    for path in found.all():
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
