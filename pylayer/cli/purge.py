"""What ``pylayer uninstall --purge`` deletes: all that pylayer wrote for this user.

Each part is listed before anything is deleted.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common import file_kinds
from ..common.files import names_in
from ..common.paths import _base, config_file, store_root
from ..store.removal import left_in_memory
from . import layer_files
from .bench import DIRECTORY
from .output import Failure, human_bytes, plural, say

#: The folders in a store's root. A root with anything else in it may be somebody's own directory, and stays.
OF_A_STORE = {"store", *file_kinds.BESIDE}
#: Where the package's name is in a script that ``pylayer completion`` printed.
COMPLETES = "_PYLAYER_COMPLETE"
#: Where .ci/system-packages lists the packages that it installed, and where it adds a source of packages.
SYSTEM_PACKAGES, SOURCES = "build/system-packages", "/etc/apt/sources.list.d"


@dataclass
class Leftover:
    """A file or a directory to delete, and its size."""

    what: str
    path: str
    files: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        for path in self._paths():
            try:
                self.bytes += os.lstat(path).st_size
                self.files += 1
            except OSError:
                continue  # deleted meanwhile

    def _paths(self) -> list[str]:
        if not self._is_directory():
            return [self.path]
        return [os.path.join(top, name) for top, _, names in os.walk(self.path) for name in names]

    def _is_directory(self) -> bool:
        return os.path.isdir(self.path) and not os.path.islink(self.path)

    def __str__(self) -> str:
        return f"{self.path}: {self.what}, {plural(self.files, 'file')}, {human_bytes(self.bytes)}"

    def remove(self) -> str:
        """Deletes it. Returns why it could not be deleted; empty text if it was."""
        try:
            if self._is_directory():
                shutil.rmtree(self.path)
            else:
                os.unlink(self.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            return f"{error.filename or self.path}: {error.strerror or error}"
        return ""


def _store_roots() -> list[str]:
    """Returns the directories that may be stores: the one in force, the default one, and those of Flatpak programs."""
    cache, home = _base("XDG_CACHE_HOME", ".cache"), os.path.expanduser("~")
    flatpak = sorted(str(path) for path in Path(home).glob(".var/app/*/cache/pylayer"))
    roots = [store_root(), f"{cache}/pylayer" if cache else None, *flatpak]
    return list(dict.fromkeys(root for root in roots if root))


def _running(root: str) -> str:
    """Returns the name of a program that runs with this store; empty text if there is none."""
    from ..report import recorded

    return next((f"{run.title} (pid {run.pid})" for run in recorded.read(root) if run.state == "running"), "")


def _system_commands(clone: Path) -> list[str]:
    """Returns the commands for root that remove system packages which make installed and nothing else needs."""
    commands = []
    try:
        packages = sorted(set((clone / SYSTEM_PACKAGES).read_text(encoding="utf-8").split()))
    except OSError:
        packages = []  # it installed none
    if packages:
        commands.append(f"sudo sh -c 'apt-mark auto {' '.join(packages)} && apt-get autoremove'")
    commands += [f"sudo rm {path}" for path in sorted(Path(SOURCES).glob("pylayer-backports.*"))]
    return commands


class Purge:
    """What is deleted, what stays with the reason, and the commands that remove what this one cannot."""

    def __init__(self) -> None:
        self.parts: list[Leftover] = []
        #: Path and reason.
        self.kept: list[tuple[str, str]] = []
        self.commands: list[str] = []
        #: Directories to delete afterwards if they are empty.
        self._emptied: list[str] = []
        for root in _store_roots():
            self._add_store(root)
            for path in sorted(Path(root).parent.glob(f"{DIRECTORY}*")):
                self._add("of a pylayer bench that was killed", path)
        self._add_small_files()
        self._add_settings()
        self._add_package()

    def _add(self, what: str, path: str | Path) -> None:
        if os.path.lexists(path):
            self.parts.append(Leftover(what, str(path)))

    def _add_store(self, root: str) -> None:
        names = names_in(root)
        others = [name for name in names if name not in OF_A_STORE]
        if others:
            self.kept.append((root, f"{others[0]} in it is not of a store; delete the directory yourself"))
            return
        running = _running(root)
        if running:
            raise Failure(f"nothing was removed: {running} is running under the layer; end it first")
        for name in names:
            self._add("pipelines" if name == "store" else f"the store's {name}", os.path.join(root, name))
        self._emptied.append(root)

    def _add_small_files(self) -> None:
        for path in left_in_memory():
            self._add("of a program that died", path)
            self._emptied.append(os.path.dirname(path))

    def _add_settings(self) -> None:
        config, data = _base("XDG_CONFIG_HOME", ".config"), _base("XDG_DATA_HOME", ".local/share")
        policy = config_file()
        own = f"{config}/pylayer" if config else None
        if own:
            self._add("your policy file", f"{own}/policy.yaml")
            self._emptied.append(own)
            others = [f"{own}/{name}" for name in names_in(own) if name != "policy.yaml"]
            self.kept += [(path, "it is your own file") for path in others]
        if policy and own and os.path.lexists(policy) and os.path.dirname(policy) != own:
            self.kept.append((policy, "PYLAYER_CONFIG names this file, which may belong to something else"))
        for base, place in ((data, "bash-completion/completions/pylayer"), (config, "fish/completions/pylayer.fish")):
            path = Path(base or "/", place)
            try:
                if base and COMPLETES in path.read_text(encoding="utf-8", errors="replace"):
                    self._add("completion for a shell", path)
            except OSError:
                continue  # there is none

    def _add_package(self) -> None:
        """Adds the command that removes the installation this command runs from. It is left to the tool that made it:
        no command deletes the environment that it runs in."""
        environment = Path(sys.prefix)
        if layer_files.TREE.fullmatch(environment.name):
            return  # it is what `pylayer install` copied
        clone = environment.parent
        if (environment / "installed").exists() and (clone / ".ci" / "system-packages").exists():
            self.commands += [*_system_commands(clone), f"make -C {shlex.quote(str(clone))} clean"]
        elif "pipx" in environment.parts and environment.name == "vk-pylayer":
            self.commands.append("pipx uninstall vk-pylayer")
        else:
            self.commands.append(f"{shlex.quote(sys.executable)} -m pip uninstall vk-pylayer")

    def remove(self) -> list[str]:
        """Deletes all parts. Returns what could not be deleted, each with the reason."""
        failures = [failure for part in self.parts if (failure := part.remove())]
        for directory in self._emptied:
            try:
                os.rmdir(directory)
            except OSError:
                continue  # it is not empty, or a link
        return failures

    def list_parts(self, installed: list[Leftover], dry_run: bool, yes: bool) -> None:
        """Prints what is deleted, what stays, and how much. ``installed``: what ``pylayer install`` wrote."""
        verb = "Would delete" if dry_run else "Delete"
        parts = [*installed, *self.parts]
        for part in parts:
            say(f"{verb} {part}", asks=not yes)
        for path, why in self.kept:
            say(f"Kept: {path}, because {why}", asks=not yes)
        files, size = sum(part.files for part in parts), sum(part.bytes for part in parts)
        say(f"{plural(files, 'file')}, {human_bytes(size)}", asks=not yes)

    def print_rest(self) -> None:
        """Prints the commands that remove what this one cannot."""
        for command in self.commands:
            say(f"To remove the rest: {command}")

    def as_json(self, dry_run: bool, failures: list[str]) -> dict[str, Any]:
        """Returns all of this for --json."""
        return {
            "dry_run": dry_run,
            "purged": [
                {"what": part.what, "path": part.path, "files": part.files, "bytes": part.bytes} for part in self.parts
            ],
            "kept": [{"path": path, "reason": why} for path, why in self.kept],
            "failures": failures,
            "commands": self.commands,
        }
