"""Runs a program for ``pylayer bench``, and measures the process."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from .process import EXIT_SIGNAL_BASE, RESET_SIGNALS, start_program

#: How long a program may take to end after SIGTERM. Then it gets SIGKILL.
GRACE_SECONDS = 5.0
#: What ends this command by an exception.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How far ru_maxrss is from VmHWM: the kernel counts pages on each processor apart (measured: 0.2 MiB on two).
INEXACT_KIB = 1024


class Measured:
    """A process that has ended. Moments are on CLOCK_MONOTONIC."""

    def __init__(self, begun_ns: int, wall_ns: int, status: int, ended: bool, usage: Any, least: int) -> None:
        self.begun_ns, self.wall_ns = begun_ns, wall_ns
        #: As a shell has it: 128 + n if signal n ended the program.
        self.status = status
        #: Whether it ran until this command ended it.
        self.ended = ended
        self.processor_ns = int((usage.ru_utime + usage.ru_stime) * 1e9)
        #: The most memory of the process, or of the largest one that it waited for. None if that is unknown: the kernel
        #: begins with what the parent had, so less than that is not to be seen.
        self.memory: int | None = usage.ru_maxrss << 10 if usage.ru_maxrss > least + INEXACT_KIB else None


def _own_peak() -> int:
    """Returns the most memory that this program itself had, in KiB. A child's ru_maxrss begins with that, and this
    process's own ru_maxrss began with that of its parent, which may be large."""
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    peak = re.search(r"^VmHWM:\s*(\d+)", status, re.M)
    return int(peak[1]) if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _wait(child: int, seconds: float | None) -> bool:
    """Returns whether a child has ended. Waits for this time at most; None: forever. SIGCHLD must be blocked."""
    until = None if seconds is None else time.monotonic() + seconds
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        left = 3600.0 if until is None else until - time.monotonic()
        if left <= 0:
            return False
        signal.sigtimedwait({signal.SIGCHLD}, left)
    return True


def _signal_group(group: int, number: int) -> bool:
    """Returns False if nobody is left in the group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's process, which this command cannot end
    return True


def _end(child: int) -> None:
    """Asks a child and its group to end, and waits for the child for a while."""
    _signal_group(child, signal.SIGTERM)
    _wait(child, GRACE_SECONDS)


def _end_rest(group: int) -> None:
    """Ends what a process that has ended left in its group."""
    until = time.monotonic() + GRACE_SECONDS
    try:
        _signal_group(group, signal.SIGTERM)
        while _signal_group(group, 0) and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        _signal_group(group, signal.SIGKILL)


def measure(command: list[str], environment: dict[str, str], seconds: float | None) -> Measured:
    """Runs a program until it ends, or for ``seconds``, and then ends what it left running. Its input is empty, and its
    output goes to standard error.

    Raises NotFound and NotExecutable.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if SIGCHLD were ignored, there would be no status to wait for
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *ENDING_SIGNALS})
    redirections = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, sys.stderr.fileno(), 1),
    ]

    def spawn(words: list[str]) -> int:
        # In a group of its own, so that it ends as a whole. Ctrl-C then reaches this command alone.
        return os.posix_spawnp(
            words[0],
            words,
            environment,
            setpgroup=0,
            setsigmask=before,
            setsigdef=RESET_SIGNALS,
            file_actions=redirections,
        )

    try:
        least, begun = _own_peak(), time.monotonic_ns()
        child = start_program(spawn, command)
        ended = True
        try:
            # Not before: a signal between the start and this block would leave the program running.
            signal.pthread_sigmask(signal.SIG_SETMASK, before | {signal.SIGCHLD})
            ended = not _wait(child, seconds)
        finally:  # after Ctrl-C, too
            try:
                if ended:
                    _end(child)
            finally:
                if not _wait(child, 0):
                    _signal_group(child, signal.SIGKILL)
                _wait(child, None)
                wall = time.monotonic_ns() - begun
                _, status, usage = os.wait4(child, 0)
                _end_rest(child)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = os.waitstatus_to_exitcode(status)
    return Measured(begun, wall, code if code >= 0 else EXIT_SIGNAL_BASE - code, ended, usage, least)
