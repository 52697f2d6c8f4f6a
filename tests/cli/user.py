"""A user of the command line: a home of their own, and the ``pylayer`` command in real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from world import BUILD, clean_environment, driver_environment

DEMO = BUILD / "demo" / "pipelines"


class User:
    """A home directory, and an environment with one driver and nothing of pylayer's."""

    def __init__(self, directory: Path, driver: str = "radv") -> None:
        self.home = directory / "home"
        self.store = self.home / ".cache" / "pylayer"
        self.data = self.home / ".local" / "share"
        self.home.mkdir()
        # Where `python -m pylayer` would look first: not the checkout.
        self.directory = directory / "work"
        self.directory.mkdir()
        self.environment = {
            **clean_environment(),
            **driver_environment(driver),
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.data),
            "XDG_CACHE_HOME": str(self.store.parent),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
        }

    def process(self, arguments: tuple[Any, ...], **environment: str) -> dict[str, Any]:
        """What subprocess needs to start ``pylayer`` with these arguments."""
        return {
            "args": [sys.executable, "-m", "pylayer", *map(str, arguments)],
            "env": {**self.environment, **environment},
            "cwd": self.directory,
            "text": True,
        }

    def pylayer(self, *arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs ``pylayer`` to its end, which is never a traceback."""
        done = subprocess.run(**self.process(arguments, **environment), capture_output=True, timeout=120)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def json(self, *arguments: Any, status: int = 0, **environment: str) -> Any:
        """What ``pylayer ... --json`` printed."""
        done = self.pylayer(*arguments, "--json", **environment)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)

    def demo(self, count: int = 20, **environment: str) -> None:
        """Runs the demo program with ``pylayer run``."""
        assert DEMO.exists(), f"{DEMO} is missing; `make test` builds it"
        done = self.pylayer("run", "--", DEMO, "--count", count, **environment)
        assert done.returncode == 0, done.stderr
