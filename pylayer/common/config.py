"""Reading a policy file: YAML, checked against one JSON schema, with errors that say where and what.

Imported by the command line, and in a program's process only when the policy file is newer than its
compiled copy (``compiled``).
"""

from __future__ import annotations

import copy
import json
import os
import re
from typing import Any

import fastjsonschema
import yaml

from .paths import MAX_POLICY_FILE_BYTES, UntrustedDirectory, read_own_file


class Problem:
    """One thing wrong with a policy file: where, with lines and columns that count from 1 (0: nowhere in particular;
    ``end`` is the column behind it), and what."""

    __slots__ = ("column", "end", "line", "text")

    def __init__(self, text: str, line: int = 0, column: int = 0, end: int = 0) -> None:
        self.text, self.line, self.column, self.end = text, line, column, max(end, column + 1)


class PolicyFileError(ValueError):
    """A policy file that cannot be used. The text names file, line, key, what was found and what is allowed, for the
    first of ``problems``."""

    def __init__(self, name: str, problems: list[Problem]) -> None:
        first = problems[0]
        place = f"{name}{f', line {first.line}' if first.line else ''}: " if name else ""
        super().__init__(f"{place}{first.text}")
        self.problems = problems


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


def place(node: yaml.Node | None, path: list[Any], of_key: bool) -> tuple[int, int, int]:
    """Line, column and the column behind of the innermost part of ``path`` that the file has: of its value, or of its
    key, which is also taken where the value stands on other lines."""
    line, column, end = 1, 1, 1
    for depth, part in enumerate(path):
        found: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            key, found = next(((key, value) for key, value in node.value if key.value == str(part)), (None, None))
            if key is not None:
                line, column, end = _marks(key)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = node.value[part]
            line, column, end = _marks(found)
        if found is None:
            break
        is_last = depth == len(path) - 1
        scalar = isinstance(found, yaml.ScalarNode)
        if is_last and not of_key and (found.start_mark.line + 1 == line or scalar):
            marks = _marks(found)
            if (
                not isinstance(found, yaml.ScalarNode) or found.value or found.style
            ):  # `key:` alone has a value, of nothing, somewhere behind
                line, column, end = marks
        node = found
    return line, column, end


def _marks(node: yaml.Node) -> tuple[int, int, int]:
    start, stop = node.start_mark, node.end_mark
    end = stop.column if stop.line == start.line else start.column + 1
    return start.line + 1, start.column + 1, end + 1


def _meant(unknown: Any, path: list[Any], allowed: dict[str, Any]) -> str:
    """What was probably meant by an unknown key."""
    from difflib import get_close_matches

    whole = schema()
    settings, top = whole["definitions"]["settings"]["properties"], whole["properties"]
    if unknown in settings and allowed is not settings:
        return "it belongs into set; " if path[:1] == ["rules"] else "it belongs into settings; "
    if unknown in top and path:
        return "it belongs outside of everything else; "
    close = get_close_matches(str(unknown), [str(name) for name in allowed], 1)
    return f"did you mean {close[0]}? " if close else ""


def _explain(error: fastjsonschema.JsonSchemaValueException) -> tuple[list[Any], str, bool]:
    """Path of the key at fault, what was found and is allowed, and whether the key itself is wrong."""
    path = [int(part) if str(part).isdigit() else part for part in error.path[1:]]
    key = ".".join(str(part) for part in path) or "the file"
    definition = error.definition or {}
    if error.rule == "additionalProperties":
        properties = definition["properties"]
        unknown = next(name for name in error.value if name not in properties)
        meant = _meant(unknown, path, properties)
        return (
            [*path, unknown],
            (f"unknown key {_shown(unknown)} in {key}; {meant}allowed: {', '.join(sorted(properties))}"),
            True,
        )
    if error.rule == "enum":
        return path, f"{key} is {_shown(error.value)}; {_choices(error.value, definition['enum'])}", False
    if error.rule == "required":
        missing = [name for name in definition["required"] if name not in error.value]
        allowed = ", ".join(sorted(definition["properties"]))
        return path, f"{key} lacks {', '.join(missing)}; allowed: {allowed}", False
    types = definition.get("type")
    allowed = {
        "type": " or ".join(TYPE_WORDS[name] for name in (types if isinstance(types, list) else [types]) if name),
        "minimum": f"at least {definition.get('minimum')}",
        "maximum": f"at most {definition.get('maximum')}",
        "pattern": next((text for start, text in PATTERNS if definition.get("pattern", "").startswith(start)), ""),
        "minProperties": "at least one condition",
    }.get(str(error.rule), error.message)
    return path, f"{key} is {_shown(error.value)}; allowed: {allowed}", False


def _choices(found: Any, choices: list[Any]) -> str:
    from difflib import get_close_matches

    texts = [choice if isinstance(choice, str) else _shown(choice) for choice in choices]
    close = get_close_matches(str(found), texts, 1) if isinstance(found, str) else []
    return f"{f'did you mean {close[0]}? ' if close else ''}allowed: {', '.join(texts)}"


def _number_at_fault(value: Any, path: list[Any]) -> list[Any] | None:
    """Path of a number that is none, which no minimum or maximum catches."""
    if isinstance(value, float) and value != value:
        return path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((found for name, part in inner if (found := _number_at_fault(part, [*path, name])) is not None), None)


def _without(document: Any, path: list[Any]) -> bool:
    """Takes the part at fault out of the document, so that what else is wrong can be found; nothing that is missing
    because of it is to look like a mistake."""
    if path[:1] != ["rules"] and any(isinstance(part, int) for part in path):
        path = path[:1]
    if not path or not isinstance(document, dict):
        return False
    for part in path[:-1]:
        document = document[part]
    last = path[-1]
    if isinstance(document, list):
        document[last] = {"match": {"vendor": 0}, "set": {}}  # the places behind it stay where they are
    elif path[0] == "rules" and len(path) == 3 and last in ("match", "set"):
        document[last] = {"vendor": 0} if last == "match" else {}
    else:
        del document[last]
        if path[0] == "rules" and path[2:3] == ["match"] and not document:
            document["vendor"] = 0
    return True


def _problems(document: Any, node: yaml.Node | None, most: int) -> list[Problem]:
    """What the schema has against a document, in the order of the file."""
    # Without use_default it would write defaults into the document.
    validate = fastjsonschema.compile(schema(), use_default=False)
    found: list[Problem] = []
    while len(found) < most:
        try:
            validate(document)
            fault = _number_at_fault(document, [])
            if fault is None:
                break
            path, text, of_key = fault, f"{'.'.join(map(str, fault))} is nan; allowed: a number", False
        except fastjsonschema.JsonSchemaValueException as error:
            path, text, of_key = _explain(error)
        found.append(Problem(_short(text, 800), *place(node, path, of_key)))
        if len(found) < most:
            try:
                document = copy.deepcopy(document) if len(found) == 1 else document
            except RecursionError:  # nested so deeply that one problem will do
                break
            if not _without(document, path):
                break
    return sorted(found, key=lambda problem: problem.line)


def compose(text: str, name: str) -> tuple[Any, yaml.Node | None]:
    """What the YAML says, unchecked, and its nodes, which know where they stand.

    Raises PolicyFileError.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        # Not parsed a second time: a long file takes seconds, and a program's first device waits two for its plan.
        return (loader.construct_document(node) if node is not None else None), node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise PolicyFileError(name, [Problem(f"not YAML: {_short(what)}", line, column)]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise PolicyFileError(name, [Problem(f"not YAML: {error.reason}", line, column)]) from error
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError, IndexError, KeyError, TypeError) as error:
        # The latter four from PyYAML for text that is not what its tag says: !!int '', !!timestamp x, !!bool x
        raise PolicyFileError(name, [Problem(f"not YAML: {_short(' '.join(str(error).split()))}")]) from error


def parse_alone(text: str, name: str, most_problems: int = 1) -> tuple[dict[str, Any], yaml.Node | None]:
    """The document in ``text`` and its nodes; a preset that it names is not in it. ``name`` stands for the file in
    messages.

    Raises PolicyFileError with at most ``most_problems``.
    """
    document, node = compose(text, name)
    if document is None:
        return {}, node
    problems = _problems(document, node, most_problems)
    if problems:
        raise PolicyFileError(name, problems)
    return document, node


def parse(text: str, name: str) -> dict[str, Any]:
    """The policy document in ``text``, laid over the preset that it names.

    Raises PolicyFileError.
    """
    document, _ = parse_alone(text, name)
    return with_preset(document)


def decode(data: bytes, name: str) -> str:
    """The text of a policy file. Raises PolicyFileError."""
    if len(data) > MAX_POLICY_FILE_BYTES:
        raise PolicyFileError(name, [Problem(f"longer than {MAX_POLICY_FILE_BYTES} bytes")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicyFileError(name, [Problem("not UTF-8", line, 1)]) from error


def parse_bytes(data: bytes, name: str) -> dict[str, Any]:
    """As ``parse``, for a file's bytes."""
    return parse(decode(data, name), name)


def read_bytes(path: str) -> bytes:
    """What is in the policy file ``path``. Raises PolicyFileError, also where the file cannot be trusted."""
    try:
        return read_own_file(path, MAX_POLICY_FILE_BYTES + 1)
    except UntrustedDirectory as error:
        raise PolicyFileError("", [Problem(str(error))]) from error  # which names the file
    except OSError as error:
        raise PolicyFileError(path, [Problem(f"cannot be read: {error.strerror or error}")]) from error


def read(path: str) -> dict[str, Any]:
    """The policy document in the file ``path``.

    Raises PolicyFileError, also where the file cannot be read.
    """
    return parse_bytes(read_bytes(path), path)


# ---- presets -------------------------------------------------------------------------------------


def preset_path(name: str) -> str:
    """Where the preset ``name`` lies, which is in the schema's list."""
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "config", f"{name}.yaml")


def preset_names() -> list[str]:
    """The presets that come with pylayer."""
    return [name for name in schema()["properties"]["preset"]["enum"] if name]


def read_preset(name: str) -> str:
    """The text of a preset. Raises PolicyFileError."""
    path = preset_path(name)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise PolicyFileError(path, [Problem(f"cannot be read: {error.strerror or error}")]) from error


def with_preset(document: dict[str, Any]) -> dict[str, Any]:
    """A document laid over the preset that it names: mappings key by key; lists behind the preset's, so that of rules
    the file's own win; anything else in its place. Raises PolicyFileError."""
    name = document.get("preset")
    if not name:
        return document
    result, _ = parse_alone(read_preset(name), preset_path(name))
    for key, value in document.items():
        below = result.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            result[key] = {**below, **value}
        elif isinstance(value, list) and isinstance(below, list):
            result[key] = below + value
        else:
            result[key] = value
    return result
