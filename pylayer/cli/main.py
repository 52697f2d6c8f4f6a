"""The ``pylayer`` command: its subcommands, its version, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from .. import __version__
from .output import EXIT_PROBLEM, EXIT_STATUSES, HELP, fail, one_line

#: Where each command is: the module, and its name in there where that is not the command's.
COMMANDS = {
    "clear": ("clear", ""),
    "doctor": ("doctor", ""),
    "export": ("transfer", "export_command"),
    "import": ("transfer", "import_command"),
    "install": ("install", ""),
    "key": ("key", ""),
    "ls": ("ls", ""),
    "policy": ("policy", ""),
    "quarantine": ("quarantine", ""),
    "report": ("report", ""),
    "run": ("run", ""),
    "show": ("show", ""),
    "stats": ("stats", ""),
    "top": ("top", ""),
    "trim": ("trim", ""),
    "uninstall": ("uninstall", ""),
    "verify": ("verify", ""),
}


class Commands(click.Group):
    """Imports a command when it is asked for: ``pylayer run`` stands before every start of a program."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Called by click for the help and for completion."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Called by click with what stands on the command line."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        found: click.Command = getattr(import_module(f".{module}", __package__), attribute or cmd_name)
        return found


@click.group(cls=Commands, context_settings=HELP, epilog=EXIT_STATUSES)
@click.version_option(__version__, prog_name="pylayer", message="%(prog)s %(version)s")
def command() -> None:
    """Vulkan pipeline caching that survives, for programs that nobody changes.

    \b
    Example:
      pylayer run -- vkcube
      pylayer stats
    """


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
