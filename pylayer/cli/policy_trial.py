"""Calls a user's policy class as the layer would, in a process of its own: the class may crash, hang or print.

    python -m pylayer.cli.policy_trial SYSTEM-FILE FILE

It is asked for the plan of each device here, for a program ``game``. Prints one JSON object; ``problem`` is empty if
all went well.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from ..common import user_policy
from ..common.settings import settings_for
from ..values import Plan
from .output import one_line
from .policy_explain import devices_to_ask, merged, program_to_ask
from .policy_file import sources


def _why(error: BaseException) -> str:
    *_, last = traceback.extract_tb(error.__traceback__)
    has_place = isinstance(error, SyntaxError) or last.filename.startswith("<")  # in its text, or in importlib
    place = "" if has_place else f" ({os.path.basename(last.filename)}, line {last.lineno})"
    return f"{type(error).__name__}: {one_line(error)}{place}"


def problem(system: str, user: str) -> str:
    """Returns what is wrong with the class of valid policy files; empty text if nothing was found."""
    document = merged(sources(system or None, user or None))
    try:
        policy = user_policy.load(document["policy"], user, system)
    except BaseException as error:
        return f"it cannot be used: {_why(error)}; the built-in policy would decide"
    program = program_to_ask("game")
    for facts, _ in devices_to_ask(None):
        settings = settings_for(document, program, facts)
        named = facts.device_name or "a sample device"
        try:
            plan = policy.plan_device(program, facts, dict(settings))
        except BaseException as error:
            return f"it failed for {named}: {_why(error)}; programs would run without the layer there"
        if not isinstance(plan, Plan):
            return f"plan_device returned no Plan for {named}; programs would run without the layer there"
    return ""


if __name__ == "__main__":
    out = os.dup(1)
    os.dup2(2, 1)  # what the class prints is not the answer
    answer = json.dumps({"problem": problem(*sys.argv[1:3])})
    os.write(out, answer.encode())
