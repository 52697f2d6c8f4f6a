"""Writes the reference in docs/policy.md from pylayer/common/policy.schema.json: ``make docs``.

A test fails where the page is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "policy.md"
SCHEMA = ROOT / "pylayer" / "common" / "policy.schema.json"
BEGIN = "<!-- The rest is made from pylayer/common/policy.schema.json by `make docs`. -->\n"

TYPES = {
    "array": "list",
    "boolean": "`true` or `false`",
    "integer": "whole number",
    "null": "`null`",
    "number": "number",
    "object": "mapping",
    "string": "text",
}


def yaml_text(value: Any) -> str:
    """A value as it stands in a policy file, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {yaml_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(yaml_text, value)) + "]"
    if isinstance(value, str):
        plain = value.replace("_", "").replace("-", "").replace(" ", "").isalnum() and value not in ("off", "yes", "no")
        return value if plain else json.dumps(value)
    return json.dumps(value)


def resolved(definition: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A definition with what it refers to in its place."""
    result = dict(definition)
    for part in [*definition.get("allOf", []), definition]:
        if "$ref" in part:
            result = {**schema["definitions"][part["$ref"].rpartition("/")[2]], **result}
    return result


def type_text(definition: dict[str, Any]) -> str:
    """What a value may be."""
    if "enum" in definition:
        return "one of " + ", ".join(f"`{yaml_text(choice)}`" for choice in definition["enum"])
    names = definition.get("type", [])
    names = names if isinstance(names, list) else [names]
    texts = []
    for name in names:
        text = TYPES[name]
        if name in ("integer", "number") and "minimum" in definition and "maximum" in definition:
            text += f" from {definition['minimum']} to {definition['maximum']}"
        texts.append(text)
    return " or ".join(texts)


def facts(key: str, definition: dict[str, Any]) -> str:
    """Type, unit, default and example of one key."""
    lines = [f"Type: {type_text(definition)}"]
    if "unit" in definition:
        lines.append(f"unit: {definition['unit']}")
    is_mapping = definition.get("type") == "object"
    if "default" in definition and not is_mapping:
        lines.append(f"default: `{yaml_text(definition['default'])}`")
    text = "; ".join(lines)
    if definition.get("examples"):
        text += f". Example: `{key}: {yaml_text(definition['examples'][0])}`"
    return text


def section(path: str, definition: dict[str, Any], schema: dict[str, Any], level: int) -> list[str]:
    """A key and all below it."""
    definition = resolved(definition, schema)
    key = path.rpartition(".")[2]
    lines = [f"{'#' * level} `{path}`", "", f"{definition['description'].rstrip('.')}.", ""]
    is_settings = path == "rules[].set"
    if not is_settings:
        lines += [facts(key, definition), ""]
    if "enumDescriptions" in definition:
        lines += ["| value | meaning |", "|---|---|"]
        for value, meaning in zip(definition["enum"], definition["enumDescriptions"], strict=True):
            lines.append(f"| `{yaml_text(value)}` | {meaning} |")
        lines.append("")
    inner = {} if is_settings else definition.get("properties", {})
    items = resolved(definition.get("items", {}), schema)
    for name, below in inner.items():
        lines += section(f"{path}.{name}", below, schema, min(level + 1, 5))
    for name, below in items.get("properties", {}).items():
        lines += section(f"{path}[].{name}", below, schema, min(level + 1, 5))
    return lines


def reference() -> str:
    """The reference, from the first key to the last."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    lines = ["## Every key", ""]
    for key, definition in schema["properties"].items():
        lines += section(key, definition, schema, 3)
    return "\n".join(lines).rstrip() + "\n"


def page() -> str:
    """docs/policy.md as it should be."""
    prose, begin, _ = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    if not begin:
        sys.exit(f"{PAGE} has lost the line {BEGIN!r}")
    return f"{prose}{BEGIN}\n{reference()}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
