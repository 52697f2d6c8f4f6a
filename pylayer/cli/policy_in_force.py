"""The policy file in force, and the store's limits as it sets them."""

from __future__ import annotations

import os
from typing import Any

from ..common.paths import config_file
from ..common.settings import DEFAULTS, top_setting
from ..store.maintenance import Limits


def policy_in_force() -> str | None:
    """The path of the policy file that programs started from here would use; None where the defaults are in force. One
    that PYLAYER_CONFIG names is in force even if it is not there, which is an error of the file."""
    path = config_file()
    named = bool(os.environ.get("PYLAYER_CONFIG"))
    return path if path is not None and (named or os.path.lexists(path)) else None


def read_policy() -> tuple[dict[str, Any], str]:
    """The document in force, and why it is empty where the policy file cannot be used; else empty text."""
    path = policy_in_force()
    if path is None:
        return {}, ""
    from .policy_file import read_trusted  # PyYAML, only where it is needed

    try:
        return read_trusted(path), ""
    except (OSError, ValueError) as error:
        return {}, str(error)


def read_limits() -> tuple[Limits, str]:
    """Limits, and why they are the built-in ones where the policy file cannot be used; else empty text."""
    document, problem = read_policy()
    store, program = (int(top_setting(document, key)) << 20 for key in ("max_store_mib", "max_program_mib"))
    compress = (document.get("settings") or {}).get("compress", DEFAULTS["compress"])
    return Limits(store, program, bool(compress)), problem
