"""Reading a policy file: YAML, checked against one JSON schema, with errors that say where and what.

Imported by the command line, and in a program's process only when the policy file is newer than its
compiled copy (``compiled``).
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

import fastjsonschema
import yaml

from .compiled import MAX_BYTES
from .paths import UntrustedDirectory, read_own_file


class PolicyFileError(ValueError):
    """A policy file that cannot be used. The text names file, line, key, what was found and what is allowed."""


class _Loader(yaml.SafeLoader):
    """YAML as people expect it: ``off``, ``yes`` and the like are text (``carrier: off``), as in YAML 1.2, and a
    key that stands twice is an error, and so are merges (``<<``) that multiply without end."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merges of merges first, so that what each of them became is seen before it is taken again: forty lines
        that double what they merge would take a terabyte."""
        merged = 0
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(part, yaml.MappingNode):
                        self.flatten_mapping(part)
                        merged += len(part.value)
        if merged > MAX_MERGED:
            raise yaml.constructor.ConstructorError(None, None, f"merges of {merged} keys", node.start_mark)
        super().flatten_mapping(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key '{key.value}' stands twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


_BOOL = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))

#: Keys that a mapping may merge.
MAX_MERGED = 1000

#: What the schema's patterns are called in messages, by how they begin.
PATTERNS = (
    ("^/", "an absolute path"),
    ("^pylayer-ed25519:", "a public key as pylayer key show prints it"),
    ("", "module:Class"),
)

#: What the schema's types are called in messages.
TYPE_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "a mapping",
    "string": "text",
}


def _short(text: str, size: int = 400) -> str:
    return text if len(text) <= size else f"{text[: size - 3]}..."


def _shown(value: Any) -> str:
    """What was found, on one line and not longer than it helps."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (dict, list)):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        return "a number of thousands of digits"
    return _short(text, 80)


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
        unknown = sorted((name for name in error.value if name not in definition["properties"]), key=str)[0]
        allowed = ", ".join(sorted(definition["properties"]))
        return [*path, unknown], f"unknown key {_shown(unknown)} in {key}; allowed: {allowed}"
    if error.rule == "enum":
        return path, f"{key} is {_shown(error.value)}; allowed: {', '.join(definition['enum'])}"
    if error.rule == "required":
        missing = [name for name in definition["required"] if name not in error.value]
        return path, f"{key} lacks {', '.join(missing)}; allowed: {', '.join(sorted(definition['properties']))}"
    types = definition.get("type")
    allowed = {
        "type": " or ".join(TYPE_WORDS[name] for name in (types if isinstance(types, list) else [types]) if name),
        "minimum": f"at least {definition.get('minimum')}",
        "maximum": f"at most {definition.get('maximum')}",
        "pattern": next((text for start, text in PATTERNS if definition.get("pattern", "").startswith(start)), ""),
        "minProperties": "at least one condition",
        "anyOf": str(definition.get("description")),
    }.get(str(error.rule), error.message)
    return path, f"{key} is {_shown(error.value)}; allowed: {allowed}"


def _number_at_fault(value: Any, path: list[Any]) -> list[Any] | None:
    """Path of a number that is none, which no minimum or maximum catches."""
    if isinstance(value, float) and value != value:
        return path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((found for name, part in inner if (found := _number_at_fault(part, [*path, name])) is not None), None)


def parse(text: str, name: str) -> dict[str, Any]:
    """The policy document in ``text``; ``name`` stands for the file in messages.

    Raises PolicyFileError.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        # Not parsed a second time: a long file takes seconds, and a program's first device waits two for its plan.
        document = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise PolicyFileError(f"{name}, line {line}: not YAML: {_short(what)}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise PolicyFileError(f"{name}, line {line}: not YAML: {error.reason}") from error
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError, IndexError, KeyError, TypeError) as error:
        # The latter four from PyYAML for text that is not what its tag says: !!int '', !!timestamp x, !!bool x
        raise PolicyFileError(f"{name}: not YAML: {_short(' '.join(str(error).split()))}") from error
    if document is None:
        return {}
    try:
        fastjsonschema.compile(schema())(document)
    except fastjsonschema.JsonSchemaValueException as error:
        path, problem = _explain(error)
        raise PolicyFileError(f"{name}, line {_line_of(node, path)}: {_short(problem, 800)}") from error
    fault = _number_at_fault(document, [])
    if fault is not None:
        key = ".".join(str(part) for part in fault)
        raise PolicyFileError(f"{name}, line {_line_of(node, fault)}: {key} is nan; allowed: a number")
    return document  # type: ignore[no-any-return]


def parse_bytes(data: bytes, name: str) -> dict[str, Any]:
    """As ``parse``, for a file's bytes."""
    if len(data) > MAX_BYTES:
        raise PolicyFileError(f"{name}: longer than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicyFileError(f"{name}, line {line}: not UTF-8") from error
    return parse(text, name)


def read(path: str) -> dict[str, Any]:
    """The policy document in the file ``path``.

    Raises PolicyFileError, also where the file cannot be read.
    """
    try:
        data = read_own_file(path, MAX_BYTES + 1)
    except UntrustedDirectory as error:
        raise PolicyFileError(str(error)) from error
    except OSError as error:
        raise PolicyFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    return parse_bytes(data, path)
