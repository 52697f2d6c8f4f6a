"""Commands that run a program as after a reboot, or in a container: in namespaces of its own."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import pytest


@functools.cache
def unshared(*flags: str) -> tuple[str, ...]:
    """Returns a command that runs another one in namespaces of its own. Skips the test where the machine gives
    this user none. Root needs no user namespace, in which it may not enter the directories of other users."""
    command = ("unshare", *(("--user", "--map-root-user") if os.geteuid() else ()), *flags)
    if subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine gives this user no namespaces")
    return command


def container() -> tuple[str, ...]:
    """Returns a command that runs another one in a pid namespace of its own, which ends with it."""
    return unshared("--pid", "--fork", "--kill-child", "--mount-proc")


def rebooted(directory: Path) -> tuple[str, ...]:
    """Returns a command that runs another one as if the machine had been started again."""
    boot = directory / "boot_id"
    boot.write_text("0e1a7c1e-0000-4000-8000-000000000000\n")
    line = f'mount --bind {boot} /proc/sys/kernel/random/boot_id && exec "$@"'
    return (*unshared("--mount"), "sh", "-c", line, "sh")
