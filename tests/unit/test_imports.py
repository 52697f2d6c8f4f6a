"""The cost for a program's process and for the command line: modules import nothing slow that they may not need."""

from __future__ import annotations

from pathlib import Path

import lints
from unit.things import run_python

IN_PROCESS = (
    "common.outcomes",
    "common.compiled",
    "common.flat",
    "common.identity",
    "common.paths",
    "common.settings",
    "inhost.session",
    "inhost.user_class",
    "policy",
    "common.files",
    "store.folder",
    "store.journal",
    "store.runs",
    "values",
)
SLOW = ("re", "typing", "dataclasses", "enum", "json", "pathlib", "collections", "functools", "yaml", "inspect")

CODE = f"""
import os, site, sys
slow = set({SLOW}) - set(sys.modules)
for module in {IN_PROCESS}:
    __import__("pylayer." + module)
    for name in sorted(slow & set(sys.modules)):
        print("pylayer." + module, "imports", name)
        slow.remove(name)
"""


def test_imports() -> None:
    """None of the slow modules is imported."""
    lints.none(run_python(CODE).splitlines())


def test_what_is_imported_is_frozen() -> None:
    """Modules that every session imports are frozen into the policy library. One that is not costs the program 0.2
    ms."""
    freeze = (Path(__file__).parents[2] / "shim" / "policy" / "freeze.py").read_text()
    code = (
        "import pylayer.inhost.session, sys; print(*sorted(name for name in sys.modules if name.startswith('pylayer')))"
    )
    lints.none(name for name in run_python(code).split() if f'"{name}",' not in freeze)


#: What takes long to import, and no command needs for its help.
SLOW_IN_COMMANDS = (
    "cryptography",
    "jinja2",
    "obstore",
    "rich",
    "urllib.request",
    "yaml",
    "pylayer.fleet",
    "pylayer.report.page",
    "pylayer.report.trace",
)

COMMAND_LINE = f"""
import sys
import click
from pylayer.cli.main import command

context = click.Context(command)
command.get_help(context)
for module in sorted(name for name in sys.modules if name.startswith("pylayer.cli.")):
    if module not in ("pylayer.cli.main", "pylayer.cli.output"):
        print("the list of commands imports", module)
slow = set({SLOW_IN_COMMANDS}) - set(sys.modules)
assert slow == set({SLOW_IN_COMMANDS})
for name in command.list_commands(context):
    found = command.get_command(context, name)
    found.get_help(click.Context(found))
    for module in sorted(slow & set(sys.modules)):
        print(name, "--help imports", module)
        slow.remove(module)
"""


def test_command_line() -> None:
    """The list of commands, for the help, imports no command. The help of a command imports nothing slow."""
    lints.none(run_python(COMMAND_LINE).splitlines())
