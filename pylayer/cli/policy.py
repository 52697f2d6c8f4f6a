"""``pylayer policy``: checks the policy file, and explains what it means for a program and device."""

from __future__ import annotations

import os
from typing import Any

import click

from ..common.config import PolicyFileError, sources
from ..common.paths import config_files, store_root
from ..common.policy_errors import Problem
from .output import EXIT_PROBLEM, files, plural, printable
from .policy_explain import class_problem, explain
from .policy_in_force import no_policy_file, read_policies


@click.group
def policy() -> None:
    """Check and explain the policy file.

    \b
    Example:
      pylayer policy check
      pylayer policy explain blender
    """


class _Checked:
    """A policy file, its document without the preset, and what is wrong with it. ``instead``: what that means."""

    def __init__(self, path: str, shown: str) -> None:
        self.path, self.shown, self.instead = path, shown, "the layer uses nothing of this file."
        self.document: dict[str, Any] = {}
        self.problems: list[Problem] = []
        try:
            self.sources = sources(path)
            self.document = self.sources[-1].document
        except PolicyFileError as error:
            self.problems = error.problems

    def try_class(self) -> None:
        """Asks the policy class that the file names."""
        if wrong := class_problem(self.sources, self.path):
            self.problems = [Problem(f"policy: {wrong}", self.sources[-1].line("policy"), 1)]
            self.instead = "the rest of this file is valid."

    def print(self) -> None:
        """Prints what is wrong, or that nothing is."""
        for problem in self.problems:
            place = f":{problem.line}:{problem.column}" if problem.line else ""
            click.echo(printable(f"{self.shown}{place}: {problem.text}"))
        if self.problems:
            click.echo(f"{plural(len(self.problems), 'problem')}: {self.instead}")
        else:
            name = self.document.get("preset")
            click.echo(f"{self.shown} is valid{f', over the preset {name}' if name else ''}.")


@policy.command(epilog="Exit status: 0 valid, 1 not valid, 2 usage error.")
@click.argument(
    "file", required=False, shell_complete=files, help="The policy file to check. Default: the one in force."
)
def check(file: str | None) -> None:
    """Check whether a policy file is valid, and show where it is not.

    Without FILE, this checks those in force: /etc/pylayer/policy.yaml, and
    PYLAYER_CONFIG or pylayer/policy.yaml in $XDG_CONFIG_HOME or ~/.config. The
    layer uses nothing of an invalid file. A policy class is asked for the plan
    of each device here.

    \b
    Example:
      pylayer policy check
      pylayer policy check new-policy.yaml
    """
    system, user = config_files() if file is None else (None, os.path.abspath(file))
    checked = [_Checked(path, shown) for path, shown in ((system, system), (user, file or user)) if path and shown]
    if naming := [one for one in checked if "policy" in one.document]:
        naming[-1].try_class()
    wrong = any(each.problems for each in checked)
    if checked and not wrong and user == config_files()[1]:
        read_policies(config_files()[0], user, store_root())  # writes the compiled copy
    if not checked:
        click.echo(f"There is {no_policy_file()}.")
    for each in checked:
        each.print()
    raise click.exceptions.Exit(EXIT_PROBLEM if wrong else 0)


policy.add_command(explain)
