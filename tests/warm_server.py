"""The server of warm_command.py: imports what others wrote, and forks for every command."""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import socket
import sys
import time
from typing import NoReturn

#: What others wrote and pylayer's commands import.
PACKAGES = (
    "click", "click.shell_completion", "cryptography.hazmat.primitives.asymmetric.ed25519",
    "cryptography.hazmat.primitives.serialization", "ctypes", "dataclasses", "difflib",
    "json", "random", "rich.console", "rich.live", "rich.markup", "rich.padding", "rich.progress", "rich.table",
    "select", "shutil", "subprocess", "tempfile", "textwrap", "uuid", "xxhash", "yaml",
)  # fmt: skip


def serve(number: int) -> None:
    """Forks for every request until nobody can send one any more."""
    for package in PACKAGES:
        __import__(package)
    gc.collect()
    gc.freeze()  # so that a collection in a child writes to none of the pages that it shares
    requests = socket.socket(fileno=number)
    requests.set_inheritable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for a command
    while True:
        request, channels, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _wait_for_command(*json.loads(request), *channels)
        for channel in channels:
            os.close(channel)


def _wait_for_command(
    arguments: list[str], environment: dict[str, str], directory: str, out: int, error: int, told: int
) -> None:
    """Tells the number of the command's process, and its exit status when it has ended. Returns nowhere: the command
    ends with SystemExit."""
    child = os.fork()
    if child == 0:
        _become(arguments, environment, directory, out, error)
    os.close(out)
    os.close(error)
    os.write(told, f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    os.write(told, f"{os.waitstatus_to_exitcode(status)}".encode())
    os._exit(0)


def _become(arguments: list[str], environment: dict[str, str], directory: str, out: int, error: int) -> NoReturn:
    """This process is ``python -m pylayer`` from now on."""
    os.dup2(out, 1)
    os.dup2(error, 2)
    os.closerange(3, 256)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.path.insert(0, directory)
    sys.argv = ["pylayer", *arguments]
    runpy.run_module("pylayer", run_name="__main__", alter_sys=True)
    raise SystemExit(0)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
