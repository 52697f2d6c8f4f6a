"""Starts a program so that it has the same signals and exit status as without pylayer. A command that has to clean up
lets signals end it by an exception."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any, NoReturn

import click

from .output import Failure

#: The exit status of a program that signal n ended is this plus n, as in every shell.
EXIT_SIGNAL_BASE = 128

#: Python ignores these signals in its own process. A program expects the defaults.
RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)


def _end_by(number: int, frame: Any) -> NoReturn:
    raise click.exceptions.Exit(EXIT_SIGNAL_BASE + number)


@contextlib.contextmanager
def ending_by_exception() -> Iterator[None]:
    """Until the end of ``with``, SIGTERM and SIGHUP end this command by an exception, so that it cleans up. The first
    process of a container gets only signals that it has a handler for."""
    ending = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _end_by) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class NotFound(Failure):
    """There is no such program, or no such interpreter. The exit status is env(1)'s."""

    exit_code = 127


class NotExecutable(Failure):
    """The program exists but cannot be started. The exit status is env(1)'s."""

    exit_code = 126


def replace_by(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Replaces this process by the program. Like execvp(3), uses /bin/sh for a script without '#!'. Raises NotFound and
    NotExecutable."""
    for number in RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    name = command[0]
    try:
        try:
            os.execvpe(name, command, environment)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            os.execve("/bin/sh", ["/bin/sh", shutil.which(name) or name, *command[1:]], environment)
    except (OSError, ValueError) as error:
        # execvp(3) says EACCES, too, if the program is nowhere and a directory of PATH may not be entered.
        if not (os.path.lexists(name) if "/" in name else shutil.which(name, os.F_OK)):
            place = "there is no such file" if "/" in name else "it is in no directory of PATH"
            raise NotFound(f"{name} was not started: {place}; check the command after '--'") from error
        kind = NotFound if isinstance(error, FileNotFoundError) else NotExecutable
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        message = f"{name} was not started: {reason}; check that it, and the interpreter that it names, can be executed"
        raise kind(message) from error
