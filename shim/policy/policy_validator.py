"""Makes two modules of ``pylayer/common/`` from policy.schema.json: ``policy_validator.py``, which checks a policy
file's document, and ``policy_defaults.py``.

A program whose policy file changed waits for its check in vkCreateDevice. Compiling the schema there took 60 ms, and
importing fastjsonschema for it 10 (measured), so that is done here, and the program's process needs no fastjsonschema.
Importing json there for the defaults would take 7 ms.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import fastjsonschema

SCHEMA = Path("pylayer/common/policy.schema.json")

HEAD = '''\
"""Checks a policy file's document. Made from policy.schema.json when pylayer was built."""
# mypy: ignore-errors

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Violation(ValueError):
    """The first violation of the schema: ``value`` at ``path`` breaks ``rule`` of ``definition``."""

    def __init__(
        self, message: str, value: Any = None, name: str = "", definition: Any = None, rule: str = ""
    ) -> None:
        super().__init__(message)
        self.message, self.value, self.definition, self.rule = message, value, definition, rule
        self.path = [part for part in re.split(r"[.\\[\\]]+", name) if part][1:]


def check(document: object) -> None:
    """Raises Violation."""
    validate(document)


JsonSchemaValueException = Violation
Decimal = float  # the code below asks for it, and YAML has none
'''


def source() -> str:
    """The module's text."""
    # With use_default, fastjsonschema would write defaults into the document.
    code = fastjsonschema.compile_to_code(json.loads(SCHEMA.read_text(encoding="utf-8")), use_default=False)
    return HEAD + re.sub(r"^(from (decimal|fastjsonschema) |import re$|VERSION = ).*\n", "", code, flags=re.M)


def default(definition: dict[str, Any]) -> Any:
    """The default of a top-level key. A mapping has those of its keys."""
    inner = definition.get("properties")
    return {key: default(below) for key, below in inner.items()} if inner else definition["default"]


def defaults_source() -> str:
    """The text of the module of defaults."""
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
    """Writes the modules, and fails the build if the code needs something that the head lacks."""
    text = source()
    names: dict[str, object] = {}
    exec(compile(text, "policy_validator.py", "exec"), names)
    names["check"]({})  # type: ignore[operator]
    (directory / "policy_validator.py").write_text(text, encoding="utf-8")
    (directory / "policy_defaults.py").write_text(defaults_source(), encoding="utf-8")
