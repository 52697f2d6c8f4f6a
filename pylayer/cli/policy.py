"""``pylayer policy``: checks the policy file, and explains what it means for a program and device."""

from __future__ import annotations

import os

import click

from ..common.config import PolicyFileError, Source, sources
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


def _print_problems(shown: str, problems: list[Problem], instead: str) -> None:
    for problem in problems:
        place = f":{problem.line}:{problem.column}" if problem.line else ""
        click.echo(printable(f"{shown}{place}: {problem.text}"))
    click.echo(f"{plural(len(problems), 'problem')}: {instead}")


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
    found: dict[str, list[Source]] = {}
    wrong = False
    for path in filter(None, (system, user)):
        try:
            found[path] = sources(path)
        except PolicyFileError as error:
            _print_problems(file or path, error.problems, "the layer uses nothing of this file.")
            wrong = True
    naming = next((path for path in reversed(found) if "policy" in found[path][-1].document), None)
    for path, of_file in found.items():
        if path == naming and (problem := class_problem(of_file, path)):
            told = Problem(f"policy: {problem}", of_file[-1].line("policy"), 1)
            _print_problems(file or path, [told], "the rest of this file is valid.")
            wrong = True
        else:
            preset = of_file[-1].document.get("preset")
            click.echo(f"{file or path} is valid{f', over the preset {preset}' if preset else ''}.")
    if not (found or wrong):
        click.echo(f"There is {no_policy_file()}.")
    elif not wrong and user == config_files()[1]:
        read_policies(config_files()[0], user, store_root())  # writes the compiled copy
    raise click.exceptions.Exit(EXIT_PROBLEM if wrong else 0)


policy.add_command(explain)
