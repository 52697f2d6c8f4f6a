"""Writes the reference in docs/policy-reference.md and config/default.yaml from pylayer/common/policy.schema.json, and
what a policy class gets from pylayer/values.py: ``make docs``. The built-in rules of ``skip`` stand in
config/default.yaml alone.

A test fails if one of them is stale.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pylayer import values

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "policy-reference.md"
DEFAULT_FILE = ROOT / "config" / "default.yaml"
SCHEMA = ROOT / "pylayer" / "common" / "policy.schema.json"
BEGIN = "<!-- `make docs` writes these tables from pylayer/common/policy.schema.json and pylayer/values.py. -->\n"
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


#: The arguments of a policy class's methods, and what plan_device returns.
ARGUMENTS = {
    "program": values.Program,
    "facts": values.DeviceFacts,
    "data": values.CacheData,
    "cell": values.Cell,
    "state": values.DeviceState,
    "a `Plan`": values.Plan,
}


def arguments() -> list[str]:
    """Returns a row for each argument of a policy class's methods, with its fields."""
    named = ((name if "`" in name else f"`{name}`", kind.__slots__) for name, kind in ARGUMENTS.items())
    return [f"| {name} | {', '.join(f'`{field}`' for field in fields)} |" for name, fields in named]


def reference() -> str:
    """Returns the tables: the keys of the file, the keys of `settings`, and what a policy class gets."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    head = ["| key | default, range | meaning |", "|---|---|---|"]
    keys = [key for key in schema["properties"] if key != "settings"]
    lines = ["## Top-level keys", "", *head]
    for key in keys:
        lines += rows(key, schema["properties"][key], schema)
    lines += ["", "## `settings`", "", *head]
    for key, definition in schema["definitions"]["settings"]["properties"].items():
        lines += rows(key, definition, schema)
    lines += ["", "## A policy class", "", "| argument | fields |", "|---|---|", *arguments()]
    return "\n".join(lines) + "\n"


def page() -> str:
    """Returns docs/policy-reference.md as it should be."""
    prose, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE} has lost the line {BEGIN!r} or {END!r}")
    return f"{prose}{BEGIN}\n{reference()}\n{END}{after}"


# ---- config/default.yaml -------------------------------------------------------------------------------

UNITS = {"s": "seconds", "ms": "milliseconds"}
DEFAULT_HEAD = """\
# The defaults of pylayer, with the meaning of each key. Copy to ~/.config/pylayer/policy.yaml and change what you need.
# If the file has an error, these defaults apply, and PYLAYER_LOG=warn says why. docs/policy-reference.md has ranges.
"""


def comment(text: str, first: str, others: str = "") -> list[str]:
    """Returns a text as lines of a comment. ``first`` and ``others``: what they begin with."""
    return textwrap.wrap(text, 120, initial_indent=first, subsequent_indent=others or first, break_on_hyphens=False)


def conditions(definition: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Returns lines on the conditions that the rules of a list have; none for other keys."""
    item = resolved(definition.get("items", {}), schema)
    match = resolved(item.get("properties", {}).get("match", item), schema)
    if "minProperties" not in match:
        return []
    how = match["description"].partition(". ")[2]
    executable, example = (match["properties"]["executable"][key] for key in ("description", "examples"))
    lines = comment(f"Conditions: {', '.join(match['properties'])}. {how}.", "# ")
    return lines + comment(f"executable: {executable[0].lower()}{executable[1:]}. Example: {example[0]}.", "# ")


def documented(key: str, definition: dict[str, Any], schema: dict[str, Any], indent: str = "") -> list[str]:
    """Returns the lines of a key with its default and what it means."""
    definition = resolved(definition, schema)
    unit = definition.get("unit", "")
    text = f"{definition['description'].rstrip('.')}.{f' In {UNITS.get(unit, unit)}.' if unit else ''}"
    lines = comment(text, f"{indent}# ")
    words = [yaml_text(value).strip('"') for value in definition.get("enum", ())]
    width = max(map(len, words), default=0) + 2
    for word, meaning in zip(words, definition.get("enumDescriptions", ()), strict=True):
        lines += comment(meaning.replace("`", ""), f"{indent}#   {word:{width}}", f"{indent}#   {' ' * width}")
    lines += conditions(definition, schema) if key != "never_skip" else []
    inner = definition.get("properties", {})
    lines.append(f"{indent}{key}:" if inner else f"{indent}{key}: {yaml_text(definition['default'])}")
    for number, (name, below) in enumerate(inner.items()):
        lines += [""] * (number > 0) + documented(name, below, schema, f"{indent}  ")
    if definition["default"] == []:
        lines += [f"{indent}#  - {yaml_text(example)}" for example in definition["examples"][0]]
    return lines


def default_file() -> str:
    """Returns config/default.yaml as it should be, with the built-in rules that it has."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    text = DEFAULT_FILE.read_text(encoding="utf-8")
    rules = text[text.index("\nskip:\n") : text.index("\n\n", text.index("\nskip:\n"))]
    parts = []
    for key, definition in schema["properties"].items():
        lines = documented(key, definition, schema)
        parts.append("\n".join(lines) if key != "skip" else "\n".join(lines[: lines.index("skip: []")]) + rules)
    return "\n\n".join([DEFAULT_HEAD.rstrip("\n"), *parts]) + "\n"


if __name__ == "__main__":
    for path, text in ((PAGE, page()), (DEFAULT_FILE, default_file())):
        if path.read_text(encoding="utf-8") != text:  # a newer file would have the package built again
            path.write_text(text, encoding="utf-8")
