"""Starts a program so that it has the same signals and exit status as without pylayer. A command that has to clean up
lets signals end it by an exception."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import click

from .output import Failure, files

#: The exit status of a program that signal n ended is this plus n, as in every shell.
EXIT_SIGNAL_BASE = 128

#: Python ignores these signals in its own process. A program expects the defaults.
RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

_Started = TypeVar("_Started")

#: The program to start, for ``pylayer run``.
program_argument = click.argument(
    "command",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="-- APP [ARGS]...",
    shell_complete=files,
    help="The program, found as a shell finds it, and its arguments.",
)


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


def start_program(start: Callable[[list[str]], _Started], command: list[str]) -> _Started:
    """Calls ``start`` with the command. Like execvp(3), uses /bin/sh for a script without '#!'.

    Raises NotFound and NotExecutable.
    """
    name = command[0]
    try:
        try:
            return start(command)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            return start(["/bin/sh", shutil.which(name) or name, *command[1:]])
    except (OSError, ValueError) as error:
        # execvp(3) says EACCES, too, if the program is nowhere and a directory of PATH may not be entered.
        if not (os.path.lexists(name) if "/" in name else shutil.which(name, os.F_OK)):
            place = "there is no such file" if "/" in name else "it is in no directory of PATH"
            raise NotFound(f"{name} was not started: {place}; check the command after '--'") from error
        kind = NotFound if isinstance(error, FileNotFoundError) else NotExecutable
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        message = f"{name} was not started: {reason}; check that it, and the interpreter that it names, can be executed"
        raise kind(message) from error


def replace_by(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Replaces this process by the program.

    Raises NotFound and NotExecutable.
    """
    for number in RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    start_program(lambda words: os.execvpe(words[0], words, environment), command)
    raise AssertionError("execvpe does not return")


def wait_for(command: list[str], environment: dict[str, str]) -> int:
    """Runs the program, passes signals on to it, and returns its exit status, or 128 + n if signal n ended it.

    Raises NotFound and NotExecutable.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if SIGCHLD were ignored, there would be no status to wait for
    watched = {signal.SIGCHLD, *PASSED_ON}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)

    def spawn(words: list[str]) -> int:
        return os.posix_spawnp(words[0], words, environment, setsigmask=before, setsigdef=RESET_SIGNALS)

    child = start_program(spawn, command)
    while True:
        received = signal.sigwaitinfo(watched)
        if received.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else EXIT_SIGNAL_BASE - code
        elif received.si_code <= 0:  # sent by a process; the program has already received those of the terminal
            os.kill(child, received.si_signo)
