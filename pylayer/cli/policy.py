"""``pylayer policy``: checks the policy file, and explains what it means for a program and device."""

from __future__ import annotations

import os
import textwrap
from typing import Any

import click

from ..common.config import PolicyFileError
from ..common.paths import store_root
from ..common.policy_errors import Problem, has_secret
from .children import try_policy_class
from .output import (
    EXIT_PROBLEM,
    UNWRAPPED,
    files,
    is_terminal,
    json_option,
    plural,
    print_json,
    printable,
    say,
)
from .policy_explain import explain
from .policy_file import read_text, sources
from .policy_in_force import compile_policy, no_policy_file, policies_in_force


@click.group
def policy() -> None:
    """Check and explain the policy file.

    \b
    Example:
      pylayer policy check
      pylayer policy explain blender
    """


def _caret(problem: Problem, lines: list[str]) -> list[str]:
    """Returns the line at fault and a line that marks the error below it. Tabs and long lines are shortened so that the
    mark stays in place. Returns nothing for a line that may hold a password."""
    if not 0 < problem.line <= len(lines) or has_secret(lines[problem.line - 1]):
        return []
    text = printable(lines[problem.line - 1].replace("\t", " ").rstrip("\n\r"))
    start = problem.column - 1
    first = max(0, start - 50) if len(text) > 70 else 0
    shown = text[first : first + 70]
    width = max(1, min(problem.end - problem.column, len(shown) - (start - first)))
    number = f"{problem.line:>6} | "
    return [f"{number}{shown}", f"{' ' * 7}| {' ' * (start - first)}{'^' * width}"]


def _print_problem(name: str, problem: Problem, lines: list[str]) -> None:
    text, _, allowed = problem.text.partition("allowed: ")
    place = f"{name}:{problem.line}:{problem.column}: " if problem.line else f"{name}: "
    click.echo(printable(place + text.rstrip("; ")))
    for line in _caret(problem, lines):
        click.echo(line)
    if allowed:
        text = f"  allowed: {printable(allowed)}"
        click.echo(textwrap.fill(text, 80 if is_terminal() else UNWRAPPED, subsequent_indent="    "))


class _Checked:
    """A policy file, its document without the preset, and what is wrong with it. ``instead``: what that means."""

    def __init__(self, path: str, shown: str, instead: str) -> None:
        self.path, self.shown, self.instead = path, shown, instead
        self.document: dict[str, Any] = {}
        self.problems: list[Problem] = []
        self.lines: list[str] = []
        try:
            self.lines = read_text(path).split("\n")
            self.source = sources(None, path)[-1]
            self.document = self.source.document
        except PolicyFileError as error:
            self.problems = error.problems

    def try_class(self) -> None:
        """Asks the policy class that the file names."""
        wrong = try_policy_class(None, self.path) if self.document.get("policy") else ""
        if wrong:
            self.problems = [Problem(f"policy: {self.document['policy']}: {wrong}", self.source.line("policy"), 1)]
            self.instead = "the rest of this file is valid."

    def print(self) -> None:
        """Prints what is wrong, or that nothing is."""
        for problem in self.problems:
            _print_problem(self.shown, problem, self.lines)
        if self.problems:
            click.echo(f"{plural(len(self.problems), 'problem')}: {self.instead}")
        else:
            name = self.document.get("preset")
            say(f"{self.shown} is valid{f', over the preset {name}' if name else ''}.")


def _json(user: str | None, system: str | None, checked: list[_Checked]) -> dict[str, Any]:
    listed = [
        {
            "file": each.path,
            "line": found.line,
            "column": found.column,
            "end_column": found.end,
            "message": found.text,
        }
        for each in checked
        for found in each.problems
    ]
    about: dict[str, Any] = {"preset": None, "policy": None}
    for each in checked:
        about |= {key: each.document[key] for key in about if key in each.document}
    return {"file": user, "system_file": system, "valid": not listed, **about, "problems": listed}


@policy.command(epilog="Exit status: 0 valid, 1 not valid, 2 usage error.")
@json_option
@click.argument(
    "file", required=False, shell_complete=files, help="The policy file to check. Default: the one in force."
)
def check(file: str | None, as_json: bool) -> None:
    """Check whether a policy file is valid, and show where it is not.

    Without FILE, this checks those in force: /etc/pylayer/policy.yaml, and
    PYLAYER_CONFIG or pylayer/policy.yaml in $XDG_CONFIG_HOME or ~/.config. The
    layer uses nothing of an invalid file. A policy class is asked for the plan
    of each device here, in a process of its own.

    \b
    Example:
      pylayer policy check
      pylayer policy check new-policy.yaml
    """
    system, user = policies_in_force() if file is None else (None, os.path.abspath(file))
    if system is None and user is None:
        if as_json:
            print_json(_json(None, None, []))
        else:
            click.echo(f"There is {no_policy_file()}.")
        return
    checked = []
    if system:
        checked.append(_Checked(system, system, "this file is not used."))
    if user:
        usable = system is not None and not checked[0].problems
        instead = f"only {system}" if usable else "the defaults"
        instead = f"the layer would use {instead} instead of this file."
        checked.append(_Checked(user, file or user, instead))
    if system is None or "policy" not in checked[-1].document:
        checked[0].try_class()
    else:
        checked[-1].try_class()
    wrong = any(each.problems for each in checked)
    if not wrong and user == policies_in_force()[1]:
        compile_policy(user, store_root())
    if as_json:
        print_json(_json(user, system, checked))
    else:
        for each in checked:
            each.print()
    raise click.exceptions.Exit(EXIT_PROBLEM if wrong else 0)


policy.add_command(explain)
