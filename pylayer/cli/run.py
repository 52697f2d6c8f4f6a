"""``pylayer run``: starts one program under the layer, with the same signals and exit status as without pylayer."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from typing import NoReturn

import click

from ..common.files import unique_name
from ..common.paths import config_files, make_private, require_own, store_root
from .environment import LOG_LEVELS, obstacles, with_layer
from .output import Failure, WrongUse, fail, files
from .policy_in_force import read_policies

#: The exit status of a program that signal n ended is this plus n, as in every shell.
EXIT_SIGNAL_BASE = 128

#: Python ignores these signals in its own process. A program expects the defaults.
RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class NotFound(Failure):
    """There is no such program, or no such interpreter. The exit status is env(1)'s."""

    exit_code = 127


class NotExecutable(Failure):
    """The program exists but cannot be started. The exit status is env(1)'s."""

    exit_code = 126


def start_program(start: Callable[[list[str]], int], command: list[str]) -> int:
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


def _check_policy(path: str) -> None:
    """Raises WrongUse if the layer would not accept a policy file, or a policy class beside it."""
    from ..common.config import read  # imports PyYAML, which is needed only here

    try:
        if read(path).get("policy"):
            require_own(os.path.dirname(os.path.abspath(path)))
    except (OSError, ValueError) as error:
        raise WrongUse(f"{error}; nothing was started") from error


def _environment(root: str | None) -> tuple[dict[str, str], bool]:
    """Returns the program's environment, and whether the program runs under the layer. If the layer cannot be used, the
    program still starts, and one line says why."""
    environment = dict(os.environ)
    try:
        status = os.fstat(2)
        environment["PYLAYER_STDERR"] = f"{status.st_dev}:{status.st_ino}"  # for what people must know: inhost/learning
    except OSError:
        pass
    is_on = False
    try:
        if root is None:
            raise Failure("neither HOME, XDG_CACHE_HOME nor PYLAYER_STORE is set; set one")
        make_private(root)
        changed = with_layer(environment)
        for found, advice in obstacles(changed):
            raise Failure(f"{found}. {advice}")
        environment, is_on = changed, True
    except Failure as failure:
        fail(f"the program runs without the layer: {failure.message}")
    except OSError as error:
        problem = f"{root} cannot be used as store ({error.strerror or error}); set PYLAYER_STORE to another"
        fail(f"the program runs without the layer: {problem}")
    return environment, is_on


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="Exit status: the program's own; 127 if it is not found, 126 if it cannot be executed, "
    "128 + n with --summary if signal n ended it, 2 usage error.",
)
@click.option("--policy", metavar="FILE", shell_complete=files, help="Policy file for this run (PYLAYER_CONFIG).")
@click.option(
    "--preset",
    metavar="NAME",
    help="A preset instead of a policy file; docs/policy.md lists them.",
)
@click.option("--log", type=click.Choice(LOG_LEVELS), help="What the layer writes to standard error (PYLAYER_LOG).")
@click.option("--summary", is_flag=True, help="Wait for the program, then print its statistics to standard error.")
@click.argument(
    "command",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="-- APP [ARGS]...",
    shell_complete=files,
    help="The program, found as a shell finds it, and its arguments.",
)
def run(
    policy: str | None,
    preset: str | None,
    log: str | None,
    summary: bool,
    command: tuple[str, ...],
) -> None:
    """Run a program under the layer, without installing anything.

    \b
    Example:
      pylayer run --log warn -- vkcube --c 100
    As a Steam launch option:
      pylayer run -- %command%
    """
    if policy and preset:
        raise WrongUse(f"--policy and --preset are both given; write 'preset: {preset}' into {policy} to have both")
    if preset:
        from ..common.config import preset_names, preset_path

        if preset not in preset_names():
            raise WrongUse(f"there is no preset {preset}; the presets are {', '.join(preset_names())}")
        policy = preset_path(preset)
    policy = os.path.abspath(policy) if policy else None
    if policy:
        _check_policy(policy)
    given = {"PYLAYER_CONFIG": policy, "PYLAYER_LOG": log}
    os.environ.update({variable: value for variable, value in given.items() if value})
    root = store_root()
    environment, is_on = _environment(root)
    _, problems = read_policies(*config_files(), root if is_on else None)
    for problem in problems:
        fail(problem)
    if not summary:
        replace_by(list(command), environment)
    from .status import print_summary

    session = environment["PYLAYER_SESSION"] = unique_name()  # other programs may begin meanwhile
    status = wait_for(list(command), environment)
    print_summary(root, session, command[0], environment)
    raise click.exceptions.Exit(status)
