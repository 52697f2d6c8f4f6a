"""Writes the reference in docs/policy-reference.md from pylayer/common/policy.schema.json: ``make docs``.

A test fails if the page is stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "policy-reference.md"
SCHEMA = ROOT / "pylayer" / "common" / "policy.schema.json"
BEGIN = "<!-- `make docs` writes these tables from pylayer/common/policy.schema.json. -->\n"
END = "<!-- End of the tables. -->\n"


def yaml_text(value: Any) -> str:
    """Returns a value as a policy file has it, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {yaml_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(yaml_text, value)) + "]"
    if isinstance(value, str):
        plain = value.replace("_", "").replace("-", "").replace(" ", "").isalnum() and value not in ("off", "yes", "no")
        return value if plain else json.dumps(value)
    return json.dumps(value)


def resolved(definition: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a definition together with the definitions that it refers to."""
    result = dict(definition)
    for part in [*definition.get("allOf", []), definition]:
        if "$ref" in part:
            result = {**schema["definitions"][part["$ref"].rpartition("/")[2]], **result}
    return result


def value_text(definition: dict[str, Any]) -> str:
    """Returns the default of a key, its unit and its range."""
    parts = []
    if "default" in definition:
        unit = f" {definition['unit']}" if "unit" in definition else ""
        parts.append(f"`{yaml_text(definition['default'])}`{unit}")
    elif definition.get("type") == "integer":
        parts.append("number")
    if "minimum" in definition and "maximum" in definition and "default" in definition:
        parts.append(f"{definition['minimum']} to {definition['maximum']}")
    return ", ".join(parts)


def row(path: str, definition: dict[str, Any], schema: dict[str, Any]) -> str:
    """Returns the table's row for one key."""
    text = f"{definition['description'].rstrip('.')}."
    inner = resolved(definition.get("items", {}), schema).get("properties", {})
    if inner and "match" not in inner:
        text += f" Items: {', '.join(f'`{name}`' for name in inner)}."
    meanings = definition.get("enumDescriptions", [])
    for value, meaning in zip(definition.get("enum", []) if meanings else [], meanings, strict=True):
        text += f"<br>`{yaml_text(value)}`: {meaning}."
    return f"| `{path}` | {value_text(definition)} | {text} |"


def rows(path: str, definition: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    """Yields the rows for a key and for all below it."""
    definition = resolved(definition, schema)
    inner = definition.get("properties", {})
    if path == "rules[].set" or not inner:
        yield row(path, definition, schema)
        inner = {}
    for name, below in inner.items():
        yield from rows(f"{path}.{name}", below, schema)
    if path == "rules":
        for name, below in resolved(definition["items"], schema)["properties"].items():
            yield from rows(f"rules[].{name}", below, schema)


def reference() -> str:
    """Returns the tables: the keys of the file, and the keys of `settings`."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    head = ["| key | default, range | meaning |", "|---|---|---|"]
    keys = [key for key in schema["properties"] if key != "settings"]
    lines = ["## Top-level keys", "", *head]
    for key in keys:
        lines += rows(key, schema["properties"][key], schema)
    lines += ["", "## `settings`", "", *head]
    for key, definition in schema["definitions"]["settings"]["properties"].items():
        lines += rows(key, definition, schema)
    return "\n".join(lines) + "\n"


def page() -> str:
    """Returns docs/policy-reference.md as it should be."""
    prose, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE} has lost the line {BEGIN!r} or {END!r}")
    return f"{prose}{BEGIN}\n{reference()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
