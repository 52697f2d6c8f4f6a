"""The ``pylayer`` command: its subcommands, its version, and how it reports errors."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
from importlib import import_module
from typing import NoReturn

import click

from .. import __version__
from ..report.words import one_line
from .output import EXIT_OK, EXIT_PROBLEM, fail

#: The module of each command, its name in there if that differs from the command's, and what it does. The help
#: lists the commands without importing them.
COMMANDS = {
    "doctor": ("doctor", "", "Check whether the layer works here, or is on for a program."),
    "export": ("transfer", "export_command", "Write a program's pipelines into one file."),
    "fleet": ("fleet", "", "Pull and publish pipelines of other machines."),
    "import": ("transfer", "import_command", "Import pipelines from an exported file."),
    "install": ("install", "", "Install pylayer and register its layer, for this user."),
    "key": ("transfer", "", "Print or create a key that signs exports."),
    "ls": ("ls", "", "Show what the store holds, for each driver and program."),
    "off": ("switch", "off", "Exclude a program from the layer."),
    "policy": ("policy", "", "Check and explain the policy file."),
    "prewarm": ("prewarm", "", "Compile a program's pipelines before it runs."),
    "rebuild": ("rebuild", "", "Compile pipelines for a new driver."),
    "report": ("report", "", "Show what a run compiled, what held it up, and what was refused."),
    "rm": ("rm", "", "Remove what the store has of a program or a driver."),
    "run": ("run", "", "Run a program under the layer, without installing anything."),
    "stats": ("stats", "", "Show what the layer did, for each driver and program."),
    "trim": ("trim", "", "Compact the store and keep it within its limits."),
    "warm": ("warm", "", "Fill the driver's own disk cache from the store."),
    "uninstall": ("install", "", "Remove what `pylayer install` wrote, and nothing else."),
}

#: With this variable click prints the script with which a shell completes, or what it asks for (docs/install.md).
COMPLETE = "_PYLAYER_COMPLETE"
EXIT_STATUSES = "Exit status: 0 success, 1 a problem was found, 2 usage error."
#: Help is never wider than this, even on a wide terminal: long lines are hard to read.
WIDEST_HELP, NARROWEST_HELP = 80, 30


def _complete(command: click.Command) -> None:
    """Gives a command the exit statuses in its help, if it has no others."""
    command.epilog = command.epilog or EXIT_STATUSES
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _complete(below)


def _handle_ctrl_c() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt. Until a command is imported it ends the process at once
    (pylayer/__main__.py), because an exception in the middle of an import may be lost."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Commands(click.Group):
    """Imports a command only when it is needed, because ``pylayer run`` delays every start of a program."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Called by click."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Called by click with a word of the command line. Returns None for an unknown command."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, text = COMMANDS[cmd_name]
        found: click.Command = getattr(import_module(f".{module}", __package__), attribute or cmd_name)
        _handle_ctrl_c()
        _complete(found)
        found.short_help = text
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Called by click for the help. Prints each command's whole line; click would cut it to the width beside the
        name."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


def _print_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Called by click for --version. Scripts read the first line, so it must not change."""
    if not wanted or context.resilient_parsing:
        return
    from ..store.store import VERSION
    from .manifests import build_id, private_python_version

    python = private_python_version()
    click.echo(f"pylayer {__version__}")
    click.echo(f"policy runs in Python {python}" if python else "the Python for policy is missing: see pylayer doctor")
    click.echo(f"store format {VERSION}")
    click.echo(f"build {build_id() or 'unknown'}")
    context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_STATUSES)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the versions of pylayer, of policy's Python and of the store's format, and the build id.",
)
def command() -> None:
    """Save the Vulkan pipelines that programs compile, and reuse them in later runs. Programs need no changes.

    \b
    Example:
      pylayer run -- vkcube
      pylayer stats
    """


def _usage_error(error: click.UsageError) -> None:
    """Prints one line with what is wrong and which help to read."""
    path = error.ctx.command_path if error.ctx is not None else "pylayer"
    message = one_line(error.format_message()).rstrip(".")
    fail(f"{message[:1].lower()}{message[1:]}{' See' if message.endswith('?') else '; see'} {path} --help")


def _die_of(number: signal.Signals) -> NoReturn:
    """Ends the process by a signal, as its parent expects: a shell then reports 128 + n and ends its loop."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise AssertionError("the signal is blocked")


def _abandon_output() -> None:
    """Discards output that is still buffered. Nobody can read it, and Python would print an error when it flushes at
    exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run(arguments: list[str]) -> int:
    """Runs the command and returns its exit status. Replaces click's own main(), which ends with status 1 after Ctrl-C
    and if nobody reads the output."""
    instruction = os.environ.get(COMPLETE)
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(command, {}, "pylayer", COMPLETE, instruction)
    columns = shutil.get_terminal_size().columns
    width = max(NARROWEST_HELP, min(columns, WIDEST_HELP))
    try:
        with command.make_context("pylayer", arguments, terminal_width=width) as context:
            command.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and not isinstance(error, click.exceptions.NoArgsIsHelpError):
            _usage_error(error)
        else:
            error.show()
        return error.exit_code
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise
        fail("there was no answer, so nothing was done")
        return EXIT_PROBLEM
    return EXIT_OK


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns its exit status. Ends by SIGINT after Ctrl-C, and by SIGPIPE if nobody reads
    the output any more. Never prints a traceback, unless PYLAYER_TRACEBACK is set."""
    for stream in (sys.stdout, sys.stderr):
        # Replace a character that the terminal's encoding lacks. Without this, the command would fail on it.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        if sys.stderr is not None and sys.stderr.isatty():
            click.echo(err=True)  # the terminal shows ^C in the line
        _die_of(signal.SIGINT)
    except Exception as error:
        if isinstance(error, BrokenPipeError):
            _die_of(signal.SIGPIPE)
        if os.environ.get("PYLAYER_TRACEBACK"):
            raise
        if isinstance(error, OSError) and error.filename is None and error.errno in (errno.ENOSPC, errno.EIO):
            _abandon_output()
            fail(f"the output cannot be written: {error.strerror}")
        else:
            fail(
                f"pylayer has a defect: {type(error).__name__}: {one_line(error)}; "
                "run it with PYLAYER_TRACEBACK=1 and report what it prints"
            )
        return EXIT_PROBLEM
    return status
