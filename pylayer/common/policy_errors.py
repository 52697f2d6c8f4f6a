"""Problems of policy files, in one line each, and the schema of these files."""

from __future__ import annotations

import os
import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@cache
def schema() -> dict[str, Any]:
    """Returns the JSON schema of policy files."""
    import json

    with open(os.path.join(os.path.dirname(__file__), "policy.schema.json"), encoding="utf-8") as file:
        return json.load(file)  # type: ignore[no-any-return]


def yaml_word(value: Any) -> str:
    """Returns a value as a policy file writes it."""
    return {None: "null", True: "true", False: "false"}[value] if value is None or type(value) is bool else str(value)


class Problem:
    """One thing wrong with a policy file: what, and where. Lines and columns count from 1; 0 means no particular
    place."""

    __slots__ = ("column", "line", "text")

    def __init__(self, text: str, line: int = 0, column: int = 0) -> None:
        self.text, self.line, self.column = text, line, column


class PolicyFileError(ValueError):
    """Says why a policy file cannot be used. The text describes the first of ``problems``, of which there is at least
    one. ``name``: the file; empty if the problem's text names it."""

    def __init__(self, name: str, problems: list[Problem]) -> None:
        first = problems[0]
        place = f"{name}{f', line {first.line}' if first.line else ''}: " if name else ""
        super().__init__(f"{place}{first.text}")
        self.problems = problems


def short(text: str, size: int = 400) -> str:
    """Returns a text in at most so many characters."""
    return text if len(text) <= size else f"{text[: size - 3]}..."


def has_secret(text: str) -> bool:
    """Returns whether a text has a URL with an @ before its path, or with a query, which may be credentials."""
    return re.search(r"://([^/\s]*@|\S*\?)", text) is not None
