"""Reading a policy file exactly as strictly as the layer does."""

from __future__ import annotations

from typing import Any

from .. import config
from ..paths import require_own
from ..settings import top_setting


def read_trusted(path: str) -> dict[str, Any]:
    """The document of a policy file that the layer will use.

    Raises OSError and ValueError, each with what is wrong.
    """
    document = config.read(path)
    if top_setting(document, "policy") and top_setting(document, "policy_path"):
        require_own(top_setting(document, "policy_path"))
    return document
