"""Loads the user's policy class: one Python file beside the policy file that nobody else could have written.

It is not imported. So Python does not look for compiled files (``__pycache__``), in which nobody can see what they do,
and no directory of the user's is a place for later imports.
"""

from __future__ import annotations

import os
import sys

from ..common.paths import exists, read_own_file, require_own
from ..policy import Policy

MAX_SOURCE_BYTES = 16 << 20


def load(wanted: str, *files: str | None) -> Policy:
    """Returns an object of the class ``wanted``, which is module:Class. The module's file is in the directory of the
    first of these policy files that has it there.

    Raises OSError (UntrustedDirectory included), TypeError if the class is no subclass of Policy, and whatever the
    user's code raises.
    """
    name, _, class_name = wanted.partition(":")
    directories = [os.path.dirname(os.path.abspath(file)) for file in files if file]
    directory = next((one for one in directories if exists(f"{one}/{name}.py")), directories[0])
    require_own(directory)
    path = f"{directory}/{name}.py"
    code = compile(read_own_file(path, MAX_SOURCE_BYTES), path, "exec")
    module = type(sys)(f"user's {name}")  # a name that hides no module
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(code, module.__dict__)
    policy = getattr(module, class_name)()
    if not isinstance(policy, Policy):
        raise TypeError(f"{class_name} is not a subclass of pylayer.policy.Policy")
    return policy


def describe(error: BaseException) -> str:
    """Returns what the user's code raised in one line, with the file and line of the innermost frame that is not of
    ``LogStream``, which a user's print calls."""
    place = ""
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.endswith("user_output.py") or not place:
            place = f" ({file.rpartition('/')[2]}, line {traceback.tb_lineno})"
        traceback = traceback.tb_next
    try:
        text = " ".join(str(error).split())[:500]
    except BaseException as failure:  # the user's exception may have a __str__ that fails
        text = f"(its __str__ raised {type(failure).__name__})"
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"
