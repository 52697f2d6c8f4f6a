"""The store's limits as the policy file sets them."""

from __future__ import annotations

import os
from typing import Any

from ..paths import config_file
from ..settings import DEFAULTS, top_setting
from ..store.maintenance import Limits


def read_limits() -> tuple[Limits, str]:
    """Limits, and why they are the built-in ones where the policy file cannot be used; else empty text."""
    path = config_file()
    document: dict[str, Any] = {}
    problem = ""
    if path is not None and (os.environ.get("PYLAYER_CONFIG") or os.path.lexists(path)):
        from .policy_file import read_trusted  # PyYAML, only where it is needed

        try:
            document = read_trusted(path)
        except (OSError, ValueError) as error:
            problem = str(error)
    store, program = (int(top_setting(document, key)) << 20 for key in ("max_store_mib", "max_program_mib"))
    compress = (document.get("settings") or {}).get("compress", DEFAULTS["compress"])
    return Limits(store, program, bool(compress)), problem
