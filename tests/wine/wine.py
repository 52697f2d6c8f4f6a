"""Wine with a prefix and a screen of its own, for Windows programs under the layer: ``make wine``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from world import BUILD, World

#: tests/wine/vk.c, whose head tells its arguments.
PROGRAM = BUILD / "tests" / "wine" / "vk.exe"
#: Wine's loaders, by where Debian, Ubuntu and other distributions put it.
LOADERS = ("/usr/lib/wine/wine64", "/usr/lib/wine/wine", "/usr/bin/wine64")
#: The driver that has a GPU's windows on Wine's side needs a screen, or Wine has no Vulkan.
NEEDED = ("Xvfb", "wineserver")


def loader() -> str:
    """Returns the path of Wine's loader, or empty text if there is none. A shell script is not meant."""
    found = (path for path in LOADERS if os.path.exists(path) and Path(path).read_bytes()[:4] == b"\x7fELF")
    return next(found, "")


def missing() -> list[str]:
    """Returns what is not installed of what these tests need."""
    return [
        *([] if loader() else ["wine64"]),
        *(name for name in NEEDED if not shutil.which(name)),
        *([] if PROGRAM.exists() else [str(PROGRAM)]),
    ]


class Wine:
    """A prefix, and how to run Windows programs in it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.loader = loader()

    def start(self, world: World, *arguments: Any, program: str | Path = PROGRAM, **how: Any) -> subprocess.Popen[str]:
        """Starts a Windows program under the layer. ``loader`` is another path of Wine's loader, ``variables`` are of
        the environment, where None unsets one; all else is Popen's."""
        command = [how.pop("loader", self.loader), str(program), *map(str, arguments)]
        environment = world.environment_with({**self.environment, **how.pop("variables", {})})
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": world.directory} | how
        return subprocess.Popen(command, env=environment, **how)

    def run(self, world: World, *arguments: Any, check: bool = True, **how: Any) -> subprocess.CompletedProcess[str]:
        """Runs a Windows program to its end. With ``check``, asserts that it exits with 0."""
        process = self.start(world, *arguments, **how)
        out, errors = process.communicate(timeout=120)
        assert not check or process.returncode == 0, f"exit {process.returncode}\n{out}\n{errors}"
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)

    def ready(self, process: subprocess.Popen[str]) -> None:
        """Waits until tests/wine/vk.c has created its pipelines."""
        assert process.stdout
        line = process.stdout.readline()
        assert line.strip() == "ready", f"{line}{process.communicate(timeout=60)}"

    def stop(self) -> None:
        """Ends all programs of this prefix by wineserver, as users do whose program hangs."""
        subprocess.run(["wineserver", "-k"], env=os.environ | self.environment, check=False, timeout=60)


@contextmanager
def serving(directory: Path) -> Iterator[Wine]:
    """Yields Wine with a new prefix and a screen. Takes ten seconds."""
    assert not missing(), f"not installed: {', '.join(missing())}; make wine installs all"
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-nolisten", "tcp", "-screen", "0", "640x480x24"]
    screen = subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    try:
        with os.fdopen(reading) as number:
            display = f":{number.readline().strip()}"
        # Without these two, a new prefix asks to install Mono and Gecko.
        quiet = {"WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree=;mshtml="}
        wine = Wine({"DISPLAY": display, "WINEPREFIX": str(directory / "prefix"), "WINELOADER": loader(), **quiet})
        variables = {name: text for name, text in os.environ.items() if not name.startswith(("VK_", "PYLAYER_"))}
        subprocess.run(
            [wine.loader, "wineboot", "-i"], env=variables | wine.environment, check=True, timeout=240,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield wine
        finally:
            wine.stop()
    finally:
        screen.terminate()
        screen.wait(30)
