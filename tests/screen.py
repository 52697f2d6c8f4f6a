"""An X server for programs that need a screen."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path


class Screen:
    """An X server, whose screen is a file."""

    def __init__(self) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="pylayer-screen-")
        read, write = os.pipe()
        command = ["Xvfb", "-displayfd", str(write), "-screen", "0", "640x480x24", "-fbdir", self.directory.name]
        command += ["-nolisten", "tcp", "-nocursor", "-ac", "-noreset"]
        self.server = subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL)
        os.close(write)
        self.name = ":" + os.read(read, 20).decode().strip()

    def picture(self) -> str:
        """A digest of what the screen shows, or nothing if it has one colour."""
        data = (Path(self.directory.name) / "Xvfb_screen0").read_bytes()[-640 * 480 * 4 :]
        return "" if data == data[:4] * (640 * 480) else hashlib.sha256(data).hexdigest()

    def close(self) -> None:
        self.server.terminate()
        self.server.wait()
        self.directory.cleanup()
