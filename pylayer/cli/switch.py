"""``pylayer off``, with --undo too: rules in the user's policy file that exclude a program, or no longer do.

The file is edited by lines, because its comments and its layout are the user's. Each rule is a line of its own with a
mark, so that the opposite finds it. The result is parsed before it is written: nothing else may have changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from typing import Any

import click

from ..common.config import PolicyFileError, Source, merged, read_text, with_presets
from ..common.paths import config_file, config_files
from ..common.settings import glob_matches
from ..report.recorded import executable_in, is_named, is_pattern, without_loader
from ..values import Program
from .output import Failure
from .policy_in_force import write_policy
from .selection import NAMES

MARK = "  # by pylayer off"
LISTS = ("skip", "never_skip")


class Edit:
    """The text of a policy file, its document, and the system's file below it. Raises PolicyFileError if the file is
    not valid."""

    def __init__(self, text: str, path: str, system: list[Source]) -> None:
        self.text, self.path, self._system = text, path, system
        self.source = Source(path, text)
        self.document, self._node = self.source.document, self.source.node

    def _with(self, text: str) -> Edit:
        return Edit(text, self.path, self._system)

    def without(self, rule: dict[str, str]) -> Edit:
        """Returns the file without the lines that these commands wrote for a rule. Raises Failure if the rest is not
        valid."""
        lines = self.text.splitlines(keepends=True)
        is_windows = rule["executable"].lower().endswith(".exe")
        item = re.compile(rf"\s*- {re.escape(_flow(rule) + MARK)}\s*", re.IGNORECASE if is_windows else 0)
        kept = [line for line in lines if not item.fullmatch(line)]
        if len(kept) == len(lines):
            return self
        # A list that is now empty would be null, which is not valid.
        for number, line in enumerate(kept):
            rest = (other for other in kept[number + 1 :] if not re.match(r"\s*(#|$)", other))
            if line.rstrip() in ("skip:", "never_skip:") and not next(rest, "").startswith(("-", " ")):
                kept[number] = ""
        try:
            return self._with("".join(kept))
        except PolicyFileError as error:
            raise Failure(f"{self.path} was not changed: remove line {self.line(rule)} by hand") from error

    def plus(self, key: str, rule: dict[str, str]) -> Edit:
        """Returns the file with a rule at the beginning of a list. Raises Failure if the list is in brackets, or the
        file's layout does not allow it."""
        node = next((value for name, value in self._node.value if name.value == key), None) if self._node else None
        text, item = self.text, f"- {_flow(rule)}{MARK}\n"
        if node is None:
            text += ("\n" if text and not text.endswith("\n") else "") + f"{key}:\n{item}"
        elif not node.flow_style:
            at = node.start_mark.index
            text = text[:at] + item + " " * node.start_mark.column + text[at:]
        try:
            new = self._with(text)
        except PolicyFileError:
            new = self
        rules = self.document.get(key, [])
        if new.document not in ({**self.document, key: [rule, *rules]}, {**self.document, key: [*rules, rule]}):
            raise Failure(f"{self.path} was not changed: add the item {_flow(rule)} to its list {key} by hand")
        return new

    def excludes(self, program: Program) -> str:
        """Returns the skip rule that excludes a program; empty text if none does."""
        from .policy import skip_rule

        return skip_rule(merged(with_presets([*self._system, self.source])), program)

    def line(self, rule: dict[str, str]) -> int:
        """Returns the number of the line with a rule; 0 if it has none."""
        lines = self.text.split("\n")
        return next((number for number, line in enumerate(lines, 1) if _flow(rule) in line and MARK in line), 0)


def _flow(rule: dict[str, str]) -> str:
    """Returns a rule as YAML on one line."""
    return "{" + ", ".join(f"{key}: {json.dumps(text, ensure_ascii=False)}" for key, text in rule.items()) + "}"


def _rule(name: str, program: Program) -> dict[str, str]:
    """Returns the rule for what a user names: a pattern or an executable, with its application if the name has both."""
    rule = {"executable": name if is_pattern(name) else program.executable}
    both = not is_named(name, program.executable, 0) and is_named(name, program.name, 0)
    return {**rule, "application": program.application} if both and not is_pattern(name) else rule


def _read(path: str) -> Edit:
    """Returns the policy file, an empty one if there is none. Raises Failure."""
    system = config_files()[0]
    below = []
    with contextlib.suppress(PolicyFileError):  # the layer uses nothing of it
        below = [Source(system, read_text(system))] if system else []
    try:
        return Edit(read_text(path) if os.path.lexists(path) else "", path, below)
    except PolicyFileError as error:
        raise Failure(f"{error}; nothing was changed. Correct the file first: pylayer policy check") from error


def _switch(name: str, off: bool) -> None:
    from .policy import programs_named

    path = config_file()
    if path is None:
        raise Failure("neither HOME, XDG_CONFIG_HOME nor PYLAYER_CONFIG is set, so there is no policy file; set one")
    known = programs_named(name)
    program = known[0] if known else Program(without_loader(name), name)
    rule: dict[str, Any] = _rule(name, program)
    old, word, other = _read(path), "off" if off else "on", " --undo" * off

    def wrong(edit: Edit) -> Program | None:
        """Returns a program that is not yet as the user wants it."""
        return next((one for one in known or [program] if bool(edit.excludes(one)) != off), None)

    because, key = old.excludes(program), LISTS[not off]
    changed = wrong(old) is not None
    if not known and not because and not (off and wrong(old.without(rule)) is None):
        item = _flow({"executable": executable_in(without_loader(name))})
        first = f"; to exclude it before its first run, add the item {item} to the list skip of {path}" if off else ""
        raise Failure(f"nothing was changed: no run of {name} is recorded (pylayer stats shows the names){first}")
    if is_pattern(name) and not all(glob_matches(name, one.executable) for one in known):
        raise Failure(f"nothing was changed: {name} is no pattern of executables alone; give one that is, or a name")
    if changed:
        new = old.without(rule)
        if wrong(new):
            new = new.plus(key, rule)
        if other_one := wrong(new):
            which = "never_skip of a policy file"
            raise Failure(f"{path} was not changed: {which} includes {other_one.executable} and overrides skip")
        write_policy(path, new.text)
        line = new.line(rule)
        done = f"wrote {key} {_flow(rule)} to {path}:{line}" if line else f"removed the rule from {path}"
        click.echo(f"{name} is {word} from its next start: {done}. To undo: pylayer off {shlex.quote(name)}{other}")
    else:
        because = f", because of the {because}" if off else ": no skip rule excludes it"
        click.echo(f"{name} is already {word}{because}. Nothing was changed.")


@click.command
@click.argument("name", help=f"The program, {NAMES}.")
@click.option("--undo", is_flag=True, help="Let the layer work in it again, also if another rule excludes it.")
def off(name: str, undo: bool) -> None:
    """Exclude a program from the layer: it runs as if pylayer were not there.

    This adds a rule to the list skip of your policy file, in a line of its own. Everything else in the file stays as it
    is. Stored pipelines stay, too. --undo removes the rule. If another rule excludes the program, such as a built-in
    one, it adds an exception to the list never_skip of your policy file. `pylayer doctor NAME` tells what else limits
    the layer.

    \b
    Example:
      pylayer off blender
      pylayer off blender --undo
    """
    _switch(name, not undo)
