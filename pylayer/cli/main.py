"""The ``pylayer`` command: its subcommands, its version, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from .. import __version__
from .clear import clear
from .doctor import doctor
from .install import install
from .ls import ls
from .output import EXIT_PROBLEM, EXIT_STATUSES, HELP, fail, one_line
from .quarantine import quarantine
from .run import run
from .show import show
from .stats import stats
from .transfer import export_command, import_command
from .trim import trim
from .uninstall import uninstall
from .verify import verify


@click.group(context_settings=HELP, epilog=EXIT_STATUSES)
@click.version_option(__version__, prog_name="pylayer", message="%(prog)s %(version)s")
def command() -> None:
    """Vulkan pipeline caching that survives, for programs that nobody changes.

    \b
    Example:
      pylayer run -- vkcube
      pylayer stats
    """


for subcommand in (
    run,
    install,
    uninstall,
    doctor,
    stats,
    ls,
    show,
    verify,
    trim,
    clear,
    export_command,
    import_command,
    quarantine,
):
    command.add_command(subcommand)


def main(arguments: list[str] | None = None) -> Any:
    """Runs the command line; returns only where click does. Ends with an exit status, never with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character shows another one instead of ending the command.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    try:
        return command.main(args=arguments, prog_name="pylayer")
    except Exception as error:
        if os.environ.get("PYLAYER_TRACEBACK"):
            raise
        fail(
            f"a defect in pylayer itself: {type(error).__name__}: {one_line(error)}; "
            "PYLAYER_TRACEBACK=1 shows where, for a report"
        )
        return EXIT_PROBLEM
