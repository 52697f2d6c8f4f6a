"""The policy file in force, and the store's limits that it sets."""

from __future__ import annotations

import os
from typing import Any

from ..common import compiled
from ..common.paths import config_file, config_files, store_root
from ..common.settings import Limits
from .output import failing, write_whole


def no_policy_file() -> str:
    """Returns a sentence that says where programs started from here look for a policy file and find none."""
    path = config_file()
    where = f"no policy file at {path}" if path else "no policy file, because neither HOME nor XDG_CONFIG_HOME is set"
    return f"{where}: the defaults are in force"


def read_policies(system: str | None, user: str | None, root: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """Returns the document in force with these files, and for each file that cannot be used a sentence that says why
    and what is in force instead. Reads the compiled copy in the store ``root``, or writes it there if it can: from then
    on skip rules hold in programs without an interpreter (shim/layer/instance/skip.c)."""
    if system is None and user is None:
        return {}, []
    document, problems = compiled.load(system, user, root)
    return document, [f"{problem}; {compiled.instead(problem, system, problems)}" for problem in problems]


def read_policy() -> tuple[dict[str, Any], str]:
    """Returns the document in force. If a policy file cannot be used, the text says why and what is in force instead;
    otherwise it is empty."""
    document, problems = read_policies(*config_files())
    return document, "; ".join(problems)


def read_limits() -> tuple[Limits, str]:
    """Returns the limits. If the policy file cannot be used, they are the built-in ones and the text says why;
    otherwise the text is empty."""
    document, problem = read_policy()
    return Limits.of(document), problem


def write_policy(path: str, text: str) -> None:
    """Replaces the policy file, or the file that it is a link to. Raises Failure."""
    with failing(f"{path} was not written"):
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    write_whole(os.path.realpath(path), text)
    if path == config_files()[1]:
        read_policies(*config_files(), store_root())  # writes the compiled copy
