"""A user of the command line: a home directory of its own, and the ``pylayer`` command in real processes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from world import BUILD, SLOW_COMPILES, clean_environment, driver_environment, run_pylayer

DEMO = BUILD / "demo" / "pipelines"

#: For tests whose ``user`` needs RADV null hardware.
ON_RADV = pytest.mark.parametrize("user", ["radv"], indirect=True)

#: Ctrl-C is typed until it works: a signal between a prompt and the following read, both in Python's input(), does not
#: end that read. Only a test is that quick.
CTRL_C = "\x03"


class User:
    """A home directory, and an environment with one driver and none of pylayer's variables."""

    def __init__(self, directory: Path, driver: str = "radv") -> None:
        self.home = directory / "home"
        self.store = self.home / ".cache" / "pylayer"
        self.data = self.home / ".local" / "share"
        self.home.mkdir()
        # `python -m pylayer` searches the working directory first, so it must not be the checkout.
        self.directory = directory / "work"
        self.directory.mkdir()
        self.environment = {
            **clean_environment(),
            **driver_environment(driver),
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.data),
            "XDG_CACHE_HOME": str(self.store.parent),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "PYLAYER_SYSTEM_CONFIG": str(directory / "etc" / "policy.yaml"),
            "PYLAYER_SYSTEM_STORE": str(directory / "system"),
        }
        if driver == "test":
            self.environment["PYLAYER_TEST_DRIVER"] = SLOW_COMPILES

    @property
    def policy_file(self) -> Path:
        """The place of the user's policy file. Its directory exists."""
        path = self.home / ".config" / "pylayer" / "policy.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def process(self, arguments: tuple[Any, ...], **environment: str) -> dict[str, Any]:
        """Returns what subprocess needs to start ``pylayer`` with these arguments."""
        return {
            "args": [sys.executable, "-m", "pylayer", *map(str, arguments)],
            "env": self.environment | environment,
            "cwd": self.directory,
            "text": True,
        }

    def pylayer(self, *arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs ``pylayer`` to its end and checks that it prints no traceback."""
        started = self.process(arguments, **environment)
        done = run_pylayer(started["args"][3:], started["env"], self.directory, timeout=120)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def fails(self, *arguments: Any, status: int = 1, **environment: str) -> str:
        """Returns the one line with which ``pylayer`` fails."""
        done = self.pylayer(*arguments, **environment)
        assert (done.returncode, done.stdout) == (status, "") and done.stderr.count("\n") == 1, done
        return done.stderr

    def says(self, *arguments: Any, status: int = 0, **environment: str) -> str:
        """Returns what ``pylayer`` prints, without an error."""
        done = self.pylayer(*arguments, **environment)
        assert (done.returncode, done.stderr) == (status, ""), done
        return done.stdout

    def terminal(self, *arguments: Any, answer: str = "", columns: int = 80, **environment: str) -> tuple[int, str]:
        """Runs ``pylayer`` on a terminal of its own and types ``answer`` at the first question. Returns its exit
        status, negative for a signal, and what the terminal received."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        wanted = self.process(arguments, **({"TERM": "xterm-256color"} | environment))
        wanted["env"].pop("COLUMNS", None)

        def become_leader() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        process = subprocess.Popen(
            **wanted, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=become_leader
        )
        os.close(slave)
        received = b""
        typed = silent = 0
        while True:
            if answer and b"? [y/N]: " in received and (typed == 0 or (answer == CTRL_C and silent)):
                os.write(master, answer.encode())
                typed += 1
            if not select.select([master], [], [], 1)[0]:
                silent += 1
                if silent == 120:
                    process.kill()
                    raise AssertionError(f"nothing more came within two minutes behind {received!r}")
                continue
            silent = 0
            try:
                piece = os.read(master, 1 << 16)
            except OSError:  # the other end of the terminal is closed
                break
            received += piece
        os.close(master)
        text = received.decode()
        assert "Traceback" not in text, text
        return process.wait(timeout=120), text.replace("\r\n", "\n")

    def json(self, *arguments: Any, status: int = 0, **environment: str) -> Any:
        """Returns what ``pylayer ... --json`` printed."""
        done = self.pylayer(*arguments, "--json", **environment)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)

    def public_key(self, *arguments: Any) -> str:
        """Returns the public key that ``pylayer key`` prints."""
        return self.pylayer("key", *arguments).stdout.rpartition("Public key: ")[2].strip()

    def demo(self, count: int = 20, *arguments: Any, **environment: str) -> None:
        """Runs the demo program with ``pylayer run``."""
        assert DEMO.exists(), f"{DEMO} is missing; `make test` builds it"
        done = self.pylayer("run", "--", DEMO, "--count", count, *arguments, **environment)
        assert done.returncode == 0, done.stderr
