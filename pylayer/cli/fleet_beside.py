"""Pulls from the fleet while ``pylayer run`` starts a program, which neither waits for it nor sees it.

The pull is a process of its own and nobody's child, because ``pylayer run`` becomes the program, and a program does not
expect children that it did not start. It has no terminal and holds no pipe open. What it finds is in the store for the
devices that the program creates afterwards, and for the next run.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from ..common.settings import fleet_settings
from .output import fail

#: The program's start goes first.
NICE = 10


def pull_beside(document: dict[str, Any], root: str, environment: Mapping[str, str]) -> None:
    """Starts a pull if the policy document asks for one and the last is long enough ago. Prints one line if the last
    one failed, or if none can be. Never raises OSError."""
    settings = fleet_settings(document)
    if not settings["url"] or not settings["pull_on_run"]:
        return
    from ..fleet.bucket import NEEDS_OBSTORE
    from ..fleet.memory import remembered

    if not settings["url"].startswith(("http", "file")) and find_spec("obstore") is None:
        fail(f"nothing is pulled from {settings['url']}: {NEEDS_OBSTORE}")
        return
    last = remembered(root, settings["url"])
    for problem in {memory.problem for memory in last if memory.problem}:
        fail(f"the last pull from {settings['url']} failed: {problem}; pylayer fleet pull tries again")
    since = time.time() - max((memory.pulled_at for memory in last), default=0.0)
    if not 0 <= since < settings["pull_interval_minutes"] * 60:
        _start([sys.executable, "-P", "-m", "pylayer", "fleet", "pull"], environment)


def _start(command: list[str], environment: Mapping[str, str]) -> None:
    """Starts a process that has no parent to wait for it."""
    try:
        child = os.fork()
    except OSError:
        return  # no process can be started: the program itself will tell
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # a pipe that somebody waits for must not stay open
            os.nice(NICE)
            os.execve(command[0], command, dict(environment))
    finally:
        os._exit(0)
