"""The policy file in force, and the store's limits that it sets."""

from __future__ import annotations

import os
from typing import Any

from ..common.paths import config_file
from ..common.settings import Limits, top_setting


def policy_in_force() -> str | None:
    """Returns the path of the policy file that programs started from here would use. Returns None if the defaults are
    in force. A file that PYLAYER_CONFIG names is in force even if it does not exist; reading it is then an error."""
    path = config_file()
    named = bool(os.environ.get("PYLAYER_CONFIG"))
    return path if path is not None and (named or os.path.lexists(path)) else None


def no_policy_file() -> str:
    """Returns a sentence that says where programs started from here look for a policy file and find none."""
    path = config_file()
    where = f"no policy file at {path}" if path else "no policy file, because neither HOME nor XDG_CONFIG_HOME is set"
    return f"{where}: the defaults are in force"


def read_policy() -> tuple[dict[str, Any], str]:
    """Returns the document in force. If the policy file cannot be used, it is empty and the text says why; otherwise
    the text is empty."""
    path = policy_in_force()
    if path is None:
        return {}, ""
    from .policy_file import read_trusted  # imports PyYAML, which is needed only here

    try:
        return read_trusted(path), ""
    except (OSError, ValueError) as error:
        return {}, str(error)


def read_limits() -> tuple[Limits, str]:
    """Returns the limits. If the policy file cannot be used, they are the built-in ones and the text says why;
    otherwise the text is empty."""
    document, problem = read_policy()
    store, program = (int(top_setting(document, key)) << 20 for key in ("max_store_mib", "max_program_mib"))
    return Limits(store, program), problem


def compile_policy(path: str | None, root: str | None) -> None:
    """Writes the compiled copy of a policy file into the store, if it is not there yet. From then on its skip rules
    hold in programs without an interpreter (shim/layer/instance/skip.c). Does nothing if the file cannot be used or the
    store cannot be written to: then the first program that needs policy does it."""
    if path is None or root is None:
        return
    from ..common import compiled

    try:
        compiled.load(path, root)
    except (OSError, ValueError):
        pass
