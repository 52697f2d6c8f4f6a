"""Pulls from the fleet before ``pylayer run`` starts a program, once in a while and for a few seconds at most.

``pylayer run`` becomes the program. So whatever it left running would be a child of the program, or of a process above
it that waits for all of them: Steam's, or a container's first one. It waits instead, for a time that the policy file
limits, and leaves nothing behind. What is pulled is there for this very run. A pull that takes longer is killed, which
it may be at any moment, and the next one continues. A signal that ends this process ends the pull, too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from ..common.settings import top_setting
from .output import fail
from .process import ending_by_exception

#: From one pull to the next at least.
INTERVAL_SECONDS = 3600


def pull_first(document: dict[str, Any], root: str, environment: Mapping[str, str]) -> None:
    """Pulls if the policy document asks for it and nobody began to pull for long enough. What goes wrong is told in a
    line. Never raises OSError."""
    settings = top_setting(document, "fleet")
    url, seconds = settings["url"], settings["pull_on_run_seconds"]
    if not url or not seconds or (os.path.isdir(root) and not os.access(root, os.W_OK)):
        return
    from ..fleet.folder import last_begun

    if 0 <= time.time() - last_begun(root, url) < INTERVAL_SECONDS:
        return
    with contextlib.suppress(OSError):  # no process can be started: the program itself will tell
        _pull(url, seconds, environment)


def _pull(url: str, seconds: int, environment: Mapping[str, str]) -> None:
    """Runs ``pylayer fleet pull``, and ends it with the processes that it started when the time is over."""
    command = [sys.executable, "-P", "-m", "pylayer", "fleet", "pull"]
    null = subprocess.DEVNULL
    # A container that is stopped during the pull would otherwise start the program, and be killed later.
    with ending_by_exception():
        process = subprocess.Popen(command, env=dict(environment), stdin=null, stdout=null, start_new_session=True)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            fail(
                f"the pull from {url} took longer than {seconds} s (fleet.pull_on_run_seconds); the next one continues"
            )
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
