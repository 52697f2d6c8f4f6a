"""Makes ``pylayer/common/policy_validator.py``, which checks a policy file's document, from policy.schema.json.

A program whose policy file changed waits for its check in vkCreateDevice. Compiling the schema there took 60 ms, and
importing fastjsonschema for it 10 (measured), so that is done here, and the program's process needs no fastjsonschema.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

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


def write(target: Path) -> None:
    """Writes the module, and fails the build if the code needs something that the head lacks."""
    text = source()
    names: dict[str, object] = {}
    exec(compile(text, str(target), "exec"), names)
    names["check"]({})  # type: ignore[operator]
    target.write_text(text, encoding="utf-8")
