"""Writes the files of a distribution's package below a directory.

    make stage DESTDIR=DIR

They are an environment in /usr/lib/pylayer with the wheel installed into it, the manifests of ``pylayer install
--implicit``, and what else belongs to a system: the command, its page, completions, units for systemd, and a policy
file for all users. Run it with the Python of an environment in which vk-pylayer is installed.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from pylayer.cli import manifests

PREFIX = Path("/usr")
PLACE = PREFIX / "lib" / "pylayer"
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
SITE = f"lib/python{sysconfig.get_python_version()}/site-packages"
START = f"#!{PLACE}/bin/python -IB\nimport sys\nfrom pylayer.__main__ import main\nsys.exit(main())\n"


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


def stage_environment(stage: Stage, wheel: str) -> None:
    """Installs the wheel into an environment, without what names the machine that built it."""
    here = stage.path(PLACE)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", here], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", here / "bin" / "python"]
    subprocess.run([*pip, "install", "--no-compile", f"{wheel}[report,fleet]"], check=True)
    shutil.rmtree(here / "share", ignore_errors=True)
    for path in (here / "bin").iterdir():
        if path.name != "python":
            path.unlink()
    python = Path(os.path.realpath(sys.executable))
    (here / "bin" / "python").unlink()
    (here / "bin" / "python").symlink_to(python)
    (here / "pyvenv.cfg").write_text(f"home = {python.parent}\ninclude-system-site-packages = false\n")
    (here / "bin" / "pylayer").write_text(START)
    (here / "bin" / "pylayer").chmod(0o755)
    for path in here.glob(f"{SITE}/*.dist-info/direct_url.json"):
        path.unlink()
    # Packages change the times of files, and bytecode is not made again where nobody may write.
    compileall.compile_dir(
        str(here / "lib"),
        quiet=2,
        force=True,
        rx=re.compile("/pylayer/_private/"),
        stripdir=str(here),
        prependdir=str(PLACE),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def stage_all(root: Path, wheel: str) -> None:
    """Writes everything."""
    stage = Stage(root)
    data = PREFIX / "share"
    stage_environment(stage, wheel)
    mine, library = str(manifests.library_path()), str(PLACE / SITE / "pylayer" / manifests.LIBRARY_NAME)
    for kind in manifests.KINDS:
        text = manifests.manifest_text(kind).replace(mine, library)
        stage.write(manifests.manifest_path(data, kind), text)
    stage.path(PREFIX / "bin" / "pylayer").symlink_to(PLACE / "bin" / "pylayer")
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
    stage_all(Path(sys.argv[1]).absolute(), sys.argv[2])
