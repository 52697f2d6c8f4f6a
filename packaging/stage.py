"""Writes the files of a distribution's package below a directory.

    make stage DESTDIR=DIR

They are what ``pylayer install --system --implicit`` writes, with /usr for /usr/local and with paths as they are on the
machine that gets the package, and what else belongs to a system: completions, units for systemd, and a policy file for
all users. Run it with the Python of an environment in which vk-pylayer is installed.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import subprocess
import sys
from pathlib import Path

from pylayer.cli import installed, layer_features, layer_files, tree
from pylayer.cli.install import links_of, place_of

PREFIX = Path("/usr")
#: Where shells look for completions: below PREFIX.
COMPLETIONS = {
    "bash": "share/bash-completion/completions/pylayer",
    "zsh": "share/zsh/site-functions/_pylayer",
    "fish": "share/fish/vendor_completions.d/pylayer.fish",
}
UNITS = ("pylayer-pull.service", "pylayer-pull.timer")
#: The command as the units in config/ name it.
USERS_COMMAND = "%h/.local/bin/pylayer"
TOP = Path(__file__).resolve().parents[1]


class Stage:
    """The directory that stands for the root of a machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, path: Path) -> Path:
        """Returns where a path of the machine is now, and creates its directory."""
        found = self.root / path.relative_to("/")
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def write(self, path: Path, text: str) -> None:
        """Writes a file."""
        self.path(path).write_text(text, encoding="utf-8")

    def link(self, path: Path, target: str) -> None:
        """Makes a link."""
        self.path(path).symlink_to(target)


def stage_tree(stage: Stage, place: Path) -> None:
    """Writes the tree. It is named after the build, so that a program never gets one half of each of two versions."""
    made = tree.Tree()
    final = place / made.name
    here = stage.path(final)
    made.write(here, final)
    # Packages change the times of files, and bytecode is not made again where nobody may write.
    compileall.compile_dir(
        str(here / "lib"),
        quiet=2,
        force=True,
        rx=re.compile("/pylayer/_private/"),
        stripdir=str(here),
        prependdir=str(final),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    stage.link(place / layer_files.CURRENT, made.name)


def stage_all(root: Path) -> None:
    """Writes everything."""
    stage = Stage(root)
    data = PREFIX / "share"
    place = place_of(data, system=True)
    stage_tree(stage, place)
    library = place / layer_files.CURRENT / layer_files.PACKAGE / layer_files.LIBRARY_NAME
    for kind in installed.KINDS:
        text = layer_features.with_features(layer_files.manifest_text(kind, library))
        stage.write(installed.manifest_path(data, kind), text)
    for path, target in links_of(data, system=True).items():
        if path.parent.name == "bin":
            stage.link(path, target)
    stage.write(data / "man" / "man1" / "pylayer.1", (TOP / "docs" / "pylayer.1").read_text(encoding="utf-8"))
    for shell, name in COMPLETIONS.items():
        command, asks = [sys.executable, "-IB", "-m", "pylayer"], {"_PYLAYER_COMPLETE": f"{shell}_source"}
        done = subprocess.run(command, env=os.environ | asks, check=True, stdout=subprocess.PIPE, text=True)
        stage.write(PREFIX / name, done.stdout)
    for name in UNITS:
        text = (TOP / "config" / name).read_text(encoding="utf-8").replace(USERS_COMMAND, str(PREFIX / "bin/pylayer"))
        stage.write(PREFIX / "lib" / "systemd" / "user" / name, text)
    stage.write(Path("/etc/pylayer/policy.yaml"), (TOP / "packaging" / "policy.yaml").read_text(encoding="utf-8"))


if __name__ == "__main__":
    os.umask(0o022)
    stage_all(Path(sys.argv[1]).absolute())
