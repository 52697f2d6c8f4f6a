"""Reads a policy file's YAML, and checks it against policy.schema.json."""

from __future__ import annotations

import re
from itertools import islice

import yaml

from .policy_errors import PolicyFileError, Problem, has_secret, schema, short, yaml_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class _Loader(yaml.SafeLoader):
    """YAML as people expect it. ``off``, ``yes`` and the like are text (``mode: off``), and ``<<`` is a key as any
    other, as in YAML 1.2. A duplicate key is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key '{key.value}' appears twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


_BOOL, _MERGE = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:merge"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOL, _MERGE)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def _compose(text: str, name: str) -> tuple[Any, yaml.Node | None]:
    """Returns the YAML's document, not yet checked, and its root node. Raises PolicyFileError."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        # Parse once: a long file takes seconds, and a program's first device waits two seconds for its plan.
        return (loader.construct_document(node) if node is not None else None), node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise PolicyFileError(name, [Problem(f"not YAML: {short(what)}", line, column)]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise PolicyFileError(name, [Problem(f"not YAML: {error.reason}", line, column)]) from error
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError, IndexError, KeyError, TypeError) as error:
        # PyYAML raises the last four for text that does not fit its tag: !!int '', !!timestamp x, !!bool x
        raise PolicyFileError(name, [Problem(f"not YAML: {short(' '.join(str(error).split()))}")]) from error


# ---- the schema ----------------------------------------------------------------------------------

#: The schema's types in Python and in messages.
TYPES = {
    "array": (list, "a list"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
    "null": (type(None), "null"),
    "object": (dict, "a mapping"),
    "string": (str, "text"),
}
#: The most problems to report for one file. Further ones are most likely of the same kind.
MOST_PROBLEMS = 20
#: Line and column.
Place = tuple[int, int]


def _shown(value: Any) -> str:
    """Returns a value that was found as text for a message: one line, shortened."""
    if value is None or isinstance(value, bool):
        return yaml_word(value)
    if isinstance(value, (dict, list)):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    try:
        text = repr(value)
    except ValueError:  # Python does not convert an integer of more than 4300 digits
        return "a number with thousands of digits"
    return "another text" if has_secret(text) else short(text, 80)


def _close(found: Any, names: list[str]) -> str:
    """Returns the name that a user probably meant, as a question. Empty if there is none."""
    from difflib import get_close_matches

    close = get_close_matches(found, names, 1) if isinstance(found, str) else []
    return f"did you mean {close[0]}? " if close else ""


def _meant(unknown: Any, path: list[Any], allowed: dict[str, Any]) -> str:
    """Returns a hint what an unknown key was probably meant to be. Empty if there is none."""
    whole = schema()
    settings, top = whole["definitions"]["settings"]["properties"], whole["properties"]
    if unknown in settings and allowed is not settings:
        return "it belongs in set; " if path[:1] == ["rules"] else "it belongs in settings; "
    if unknown in top and path:
        return "it is a top-level key; "
    return _close(unknown, list(allowed))


def _refusal(value: Any, rule: dict[str, Any]) -> str:
    """Returns what is allowed instead of a value itself. Empty if the schema allows it."""
    if "enum" in rule:
        choices = [yaml_word(choice) for choice in rule["enum"]]
        fits = value is None or isinstance(value, str)
        return "" if fits and value in rule["enum"] else f"{_close(value, choices)}allowed: {', '.join(choices)}"
    names = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    allowed = ""
    if type(value) not in [TYPES[name][0] for name in names]:
        allowed = " or ".join(TYPES[name][1] for name in names)
    elif value is not None and "pattern" in rule and not re.fullmatch(rule["pattern"], value):
        allowed = rule["patternDescription"]
    elif "minimum" in rule and value < rule["minimum"]:
        allowed = f"at least {rule['minimum']}"
    elif "maximum" in rule and value > rule["maximum"]:
        allowed = f"at most {rule['maximum']}"
    elif "minProperties" in rule and not value:
        allowed = "at least one condition"
    return allowed and f"allowed: {allowed}"


def _place(node: yaml.Node) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _place_of_value(key: yaml.Node, value: yaml.Node) -> Place:
    """Returns the place of a key's value, or of the key if the value is empty or begins on a line of its own."""
    if isinstance(value, yaml.ScalarNode):
        return _place(value if value.value or value.style else key)
    return _place(value if value.start_mark.line == key.start_mark.line else key)


def _problems(value: Any, rule: dict[str, Any], node: yaml.Node, place: Place, path: list[Any]) -> Iterator[Problem]:
    """Yields what is wrong with a value, by its part of the schema."""
    rule = rule.get("allOf", [rule])[0]
    if "$ref" in rule:
        rule = schema()["definitions"][rule["$ref"].rpartition("/")[2]]
    key = ".".join(map(str, path)) or "the file"
    if refusal := _refusal(value, rule):
        yield Problem(short(f"{key} is {_shown(value)}; {refusal}", 800), *place)
    elif isinstance(value, list) and isinstance(node, yaml.SequenceNode):
        for index, (inner, below) in enumerate(zip(value, node.value, strict=True)):
            yield from _problems(inner, rule["items"], below, _place(below), [*path, index])
    elif isinstance(value, dict) and isinstance(node, yaml.MappingNode):
        properties, nodes = rule["properties"], {key.value: (key, below) for key, below in node.value}
        allowed = f"allowed: {', '.join(sorted(properties))}"
        if missing := [name for name in rule.get("required", ()) if name not in value]:
            yield Problem(f"{key} lacks {', '.join(missing)}; {allowed}", *place)
        for name, inner in value.items():
            of, below = nodes.get(str(name), (node, node))
            if name in properties:
                yield from _problems(inner, properties[name], below, _place_of_value(of, below), [*path, name])
            else:
                text = f"unknown key {_shown(name)} in {key}; {_meant(name, path, properties)}{allowed}"
                yield Problem(short(text, 800), *_place(of))


def parse(text: str, name: str) -> tuple[dict[str, Any], yaml.Node | None]:
    """Returns the document in ``text`` and its root node. Raises PolicyFileError with everything that is wrong, in the
    order of the file. ``name`` is the file's name in messages."""
    document, node = _compose(text, name)
    if document is None or node is None:
        return {}, node
    found = list(islice(_problems(document, schema(), node, (1, 1), []), MOST_PROBLEMS))
    if found:
        raise PolicyFileError(name, sorted(found, key=lambda problem: problem.line))
    return document, node


def line_of(node: yaml.Node | None, path: tuple[Any, ...]) -> int:
    """Returns the line of a key or an item of a list in a document that was checked."""
    line = 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            key, node = next(pair for pair in reversed(node.value) if pair[0].value == part)
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
