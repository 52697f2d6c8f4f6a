"""Makes ``pylayer/common/policy_defaults.py``, the defaults of policy files, from policy.schema.json. A program's
process would need 7 ms to import json for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = Path("pylayer/common/policy.schema.json")


def default(definition: dict[str, Any]) -> Any:
    """The default of a top-level key. A mapping has those of its keys."""
    inner = definition.get("properties")
    return {key: default(below) for key, below in inner.items()} if inner else definition["default"]


def source() -> str:
    """The module's text."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    settings = {key: below["default"] for key, below in schema["definitions"]["settings"]["properties"].items()}
    top = {key: default(below) for key, below in schema["properties"].items() if key not in ("settings", "rules")}
    return f'''"""The defaults of policy files. Made from policy.schema.json when pylayer was built."""

#: Of ``settings``.
DEFAULTS = {settings!r}
#: Of the top-level keys other than ``settings`` and ``rules``. Built-in rules of ``skip`` are compiled into the layer.
TOP_DEFAULTS = {top!r}
'''


def write(directory: Path) -> None:
    """Writes the module."""
    (directory / "policy_defaults.py").write_text(source(), encoding="utf-8")
