"""Wine with a prefix and a screen of its own, for Windows programs under the layer: ``make wine``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from screen import Screen
from world import BUILD, World

from pylayer.cli.status import running

PROGRAMS = BUILD / "tests" / "wine"
#: tests/wine/vk.c for 64 and 32 bits. Its head tells its arguments.
PROGRAM, PROGRAM_32 = (PROGRAMS / f"vk-{kind}.exe" for kind in ("x86_64", "i686"))
#: Wine's loaders, by where Debian, Ubuntu and other distributions put it.
LOADERS = ("/usr/lib/wine/wine64", "/usr/lib/wine/wine", "/usr/lib/x86_64-linux-gnu/wine/wine", "/usr/bin/wine64")


def loader() -> str:
    """Returns the path of Wine's loader, or empty text if there is none. A shell script is not meant."""
    found = (path for path in LOADERS if os.path.exists(path) and Path(path).read_bytes()[:4] == b"\x7fELF")
    return next(found, "")


def server() -> str | None:
    """Returns the path of wineserver, which is in PATH or beside the loader; None if there is none."""
    return shutil.which("wineserver") or shutil.which("wineserver", path=str(Path(loader()).parent))


def missing() -> list[str]:
    """Returns what is not installed of what these tests need."""
    return [
        *([] if loader() else ["wine64"]),
        *([] if server() else ["wineserver"]),
        *([] if shutil.which("Xvfb") else ["Xvfb"]),  # without a screen, Wine has no Vulkan
        *(str(path) for path in (PROGRAM, PROGRAM_32) if not path.exists()),
    ]


class Wine:
    """A prefix, and how to run Windows programs in it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.loader = loader()
        #: In processes of how many bits this Wine runs 32-bit programs: 64 is new WoW64, 0 none. None is not known yet.
        self.bits_of_32: int | None = None

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

    def how_32(self, world: World) -> int:
        """Returns ``bits_of_32``. The program that tells it is recorded in this world."""
        if self.bits_of_32 is None:
            process = self.start(world, 0, "loop", program=PROGRAM_32)
            assert process.stdout
            ready = process.stdout.readline().strip() == "ready"
            # Wine may start it in a process beside the one that was started here.
            pids = [one.pid for one in running(PROGRAM_32.name, set())] if ready else []
            self.bits_of_32 = min((32 * Path(f"/proc/{pid}/exe").read_bytes()[4] for pid in pids), default=0)
            self.stop()
            process.communicate(timeout=60)
        return self.bits_of_32

    def stop(self) -> None:
        """Ends all programs of this prefix by wineserver, as users do whose program hangs."""
        subprocess.run([str(server()), "-k"], env=os.environ | self.environment, check=False, timeout=60)


@contextmanager
def serving(directory: Path) -> Iterator[Wine]:
    """Yields Wine with a new prefix and a screen. Takes ten seconds."""
    assert not missing(), f"not installed: {', '.join(missing())}; make wine installs all"
    screen = Screen()
    try:
        # Without these two, a new prefix asks to install Mono and Gecko.
        quiet = {"WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree=;mshtml="}
        wine = Wine({"DISPLAY": screen.name, "WINEPREFIX": str(directory / "prefix"), "WINELOADER": loader(), **quiet})
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
        screen.close()
