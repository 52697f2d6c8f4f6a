"""Reading a policy file: YAML, checked against one JSON schema, with errors that say where and what.

Imported by the command line, and in a program's process only when the policy file is newer than its
compiled copy (``compiled``).
"""

from __future__ import annotations

import json
import os
from typing import Any

import fastjsonschema
import yaml


class PolicyFileError(ValueError):
    """A policy file that cannot be used. The text names file, line, key, what was found and what is allowed."""


def schema() -> dict[str, Any]:
    """The JSON schema of policy files."""
    with open(os.path.join(os.path.dirname(__file__), "policy.schema.json"), encoding="utf-8") as file:
        return json.load(file)  # type: ignore[no-any-return]


def _line_of(node: yaml.Node | None, path: list[Any]) -> int:
    """1-based line of the innermost part of ``path`` that the file has."""
    line = 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(part)]
            if not found:
                break
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _explain(error: fastjsonschema.JsonSchemaValueException) -> tuple[list[Any], str]:
    """Path of the key at fault, and what was found and is allowed."""
    path = [int(part) if str(part).isdigit() else part for part in error.path[1:]]
    key = ".".join(str(part) for part in path) or "the file"
    definition = error.definition or {}
    if error.rule == "additionalProperties":
        unknown = sorted(set(error.value) - set(definition["properties"]))
        allowed = ", ".join(sorted(definition["properties"]))
        return [*path, unknown[0]], f"unknown key '{unknown[0]}' in {key}; allowed: {allowed}"
    if error.rule == "enum":
        return path, f"{key} is {error.value!r}; allowed: {', '.join(definition['enum'])}"
    if error.rule == "required":
        missing = [name for name in definition["required"] if name not in error.value]
        return path, f"{key} lacks {', '.join(missing)}"
    allowed = {
        "type": f"a {definition.get('type')}",
        "minimum": f"at least {definition.get('minimum')}",
        "maximum": f"at most {definition.get('maximum')}",
        "pattern": {"^/": "an absolute path"}.get(definition.get("pattern", ""), "module:Class"),
        "minProperties": "at least one condition",
    }.get(error.rule, error.message)
    if isinstance(definition.get("type"), list) and error.rule == "type":
        allowed = " or ".join(definition["type"])
    return path, f"{key} is {error.value!r}; allowed: {allowed}"


def parse(text: str, name: str) -> dict[str, Any]:
    """The policy document in ``text``; ``name`` stands for the file in messages.

    Raises PolicyFileError.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 1
        raise PolicyFileError(f"{name}, line {line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise PolicyFileError(f"{name}: not YAML: {error}") from error
    if document is None:
        return {}
    try:
        fastjsonschema.compile(schema())(document)
    except fastjsonschema.JsonSchemaValueException as error:
        path, problem = _explain(error)
        raise PolicyFileError(f"{name}, line {_line_of(node, path)}: {problem}") from error
    return document  # type: ignore[no-any-return]


def read(path: str) -> dict[str, Any]:
    """The policy document in the file ``path``.

    Raises PolicyFileError, also where the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyFileError(f"{path}: cannot be read: {error}") from error
    return parse(text, path)
