"""Reads a policy file: YAML, checked against one JSON schema, with errors that say what is wrong and where.

The command line imports this module. A program's process imports it only if the policy file has no compiled copy
(``compiled``).
"""

from __future__ import annotations

import os
import re

import yaml

from .paths import MAX_POLICY_FILE_BYTES, UntrustedDirectory, read_own_file
from .policy_validator import Violation, check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Problem:
    """One thing wrong with a policy file: what, and where. Lines and columns count from 1; 0 means no particular place.
    ``end`` is the column after the last one."""

    __slots__ = ("column", "end", "line", "text")

    def __init__(self, text: str, line: int = 0, column: int = 0, end: int = 0) -> None:
        self.text, self.line, self.column, self.end = text, line, column, max(end, column + 1)


class PolicyFileError(ValueError):
    """A policy file that cannot be used. The text describes the first of ``problems``: file, line, key, what was found
    and what is allowed."""

    def __init__(self, name: str, problems: list[Problem]) -> None:
        first = problems[0]
        place = f"{name}{f', line {first.line}' if first.line else ''}: " if name else ""
        super().__init__(f"{place}{first.text}")
        self.problems = problems


class _Loader(yaml.SafeLoader):
    """YAML as people expect it. ``off``, ``yes`` and the like are text (``carrier: off``), as in YAML 1.2. A duplicate
    key is an error, and so is a mapping that merges (``<<``) more than MAX_MERGED keys."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Flattens nested merges first, so that their size is known before they are merged again. Without the limit,
        forty lines that each double what they merge would take a terabyte."""
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
                        None, None, f"the key '{key.value}' appears twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


_BOOL = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))

#: Most keys that a mapping may merge.
MAX_MERGED = 1000

#: Words for the schema's patterns in messages, by the beginning of the pattern.
PATTERNS = (
    ("^/", "an absolute path"),
    ("^(https?|", "a URL that begins with https://, http://, s3://, gs://, az:// or file:/// and has no user or query"),
    ("^pylayer-ed25519:", "a public key as pylayer key show prints it"),
    ("", "module:Class"),
)

#: Words for the schema's types in messages.
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
    """Returns a value that was found as text for a message: one line, shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (dict, list)):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    try:
        text = repr(value)
    except ValueError:  # Python does not convert an integer of more than 4300 digits
        return "a number with thousands of digits"
    return _short(text, 80)


def has_secret(text: str) -> bool:
    """Returns whether a text has a URL with credentials, as they stand before an @ or in a query."""
    return re.search(r"://([^/\s]*@|\S*\?)", text) is not None


def schema() -> dict[str, Any]:
    """Returns the JSON schema of policy files."""
    import json

    with open(os.path.join(os.path.dirname(__file__), "policy.schema.json"), encoding="utf-8") as file:
        return json.load(file)  # type: ignore[no-any-return]


def place(node: yaml.Node | None, path: list[Any], of_key: bool) -> tuple[int, int, int]:
    """Returns line, first column and the column after the last one of the innermost part of ``path`` that the file has.
    That is the place of its value, or of its key if ``of_key`` or if the value begins on another line than the key."""
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
            ):  # `key:` without a value has an empty node at some later place
                line, column, end = marks
        node = found
    return line, column, end


def _marks(node: yaml.Node) -> tuple[int, int, int]:
    start, stop = node.start_mark, node.end_mark
    end = stop.column if stop.line == start.line else start.column + 1
    return start.line + 1, start.column + 1, end + 1


def _meant(unknown: Any, path: list[Any], allowed: dict[str, Any]) -> str:
    """Returns a hint what an unknown key was probably meant to be. Empty if there is none."""
    from difflib import get_close_matches

    whole = schema()
    settings, top = whole["definitions"]["settings"]["properties"], whole["properties"]
    if unknown in settings and allowed is not settings:
        return "it belongs in set; " if path[:1] == ["rules"] else "it belongs in settings; "
    if unknown in top and path:
        return "it is a top-level key; "
    close = get_close_matches(str(unknown), [str(name) for name in allowed], 1)
    return f"did you mean {close[0]}? " if close else ""


def _explain(error: Violation) -> tuple[list[Any], str, bool]:
    """Returns the path of the key at fault, a text of what was found and what is allowed, and whether the key itself is
    wrong (otherwise its value)."""
    path = [int(part) if str(part).isdigit() else part for part in error.path]
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
    }.get(error.rule, error.message)
    is_secret = isinstance(error.value, str) and has_secret(error.value)
    found = "another text" if is_secret else _shown(error.value)
    return path, f"{key} is {found}; allowed: {allowed}", False


def _choices(found: Any, choices: list[Any]) -> str:
    from difflib import get_close_matches

    texts = [choice if isinstance(choice, str) else _shown(choice) for choice in choices]
    close = get_close_matches(str(found), texts, 1) if isinstance(found, str) else []
    return f"{f'did you mean {close[0]}? ' if close else ''}allowed: {', '.join(texts)}"


def _number_at_fault(value: Any, path: list[Any]) -> list[Any] | None:
    """Returns the path of a NaN in a document, or None. The schema's minimum and maximum do not catch NaN."""
    if isinstance(value, float) and value != value:
        return path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((found for name, part in inner if (found := _number_at_fault(part, [*path, name])) is not None), None)


def _without(document: Any, path: list[Any]) -> bool:
    """Removes the part at fault from the document, so that further problems can be found. Puts in placeholders where
    the removal itself would violate the schema. Returns False if the part cannot be removed."""
    if path[:1] != ["rules"] and any(isinstance(part, int) for part in path):
        path = path[:1]
    if not path or not isinstance(document, dict):
        return False
    for part in path[:-1]:
        document = document[part]
    last = path[-1]
    if isinstance(document, list):
        document[last] = {"match": {"vendor": 0}, "set": {}}  # a placeholder, so that later indices stay valid
    elif path[0] == "rules" and len(path) == 3 and last in ("match", "set"):
        document[last] = {"vendor": 0} if last == "match" else {}
    else:
        del document[last]
        if path[0] == "rules" and path[2:3] == ["match"] and not document:
            document["vendor"] = 0
    return True


def _problems(document: Any, node: yaml.Node | None, most: int) -> list[Problem]:
    """Returns at most ``most`` problems of a document, in the order of the file."""
    found: list[Problem] = []
    while len(found) < most:
        try:
            check(document)
            fault = _number_at_fault(document, [])
            if fault is None:
                break
            path, text, of_key = fault, f"{'.'.join(map(str, fault))} is nan; allowed: a number", False
        except Violation as error:
            path, text, of_key = _explain(error)
        found.append(Problem(_short(text, 800), *place(node, path, of_key)))
        if len(found) < most:
            import copy

            try:
                document = copy.deepcopy(document) if len(found) == 1 else document
            except RecursionError:  # the document is nested too deeply to be copied: report one problem
                break
            if not _without(document, path):
                break
    return sorted(found, key=lambda problem: problem.line)


def compose(text: str, name: str) -> tuple[Any, yaml.Node | None]:
    """Returns the YAML's document, not yet checked against the schema, and its root node, which knows the places of
    all nodes.

    Raises PolicyFileError.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        # Parse once: a long file takes seconds, and a program's first device waits two seconds for its plan.
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
        # PyYAML raises the last four for text that does not fit its tag: !!int '', !!timestamp x, !!bool x
        raise PolicyFileError(name, [Problem(f"not YAML: {_short(' '.join(str(error).split()))}")]) from error


def parse_alone(text: str, name: str, most_problems: int = 1) -> tuple[dict[str, Any], yaml.Node | None]:
    """Returns the document in ``text``, without the preset that it names, and its root node. ``name`` is the file's
    name in messages.

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
    """Returns the policy document in ``text``, laid over the preset that it names.

    Raises PolicyFileError.
    """
    document, _ = parse_alone(text, name)
    return with_preset(document)


def decode(data: bytes, name: str) -> str:
    """Returns the text of a policy file. Raises PolicyFileError if it is too long or not UTF-8."""
    if len(data) > MAX_POLICY_FILE_BYTES:
        raise PolicyFileError(name, [Problem(f"longer than {MAX_POLICY_FILE_BYTES} bytes")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicyFileError(name, [Problem("not UTF-8", line, 1)]) from error


def parse_bytes(data: bytes, name: str) -> dict[str, Any]:
    """Returns the policy document in a file's bytes, without the preset that it names. Raises PolicyFileError."""
    return parse_alone(decode(data, name), name)[0]


def read_bytes(path: str) -> bytes:
    """Returns the bytes of the policy file ``path``. Raises PolicyFileError if the file cannot be read or trusted."""
    try:
        return read_own_file(path, MAX_POLICY_FILE_BYTES + 1)
    except UntrustedDirectory as error:
        raise PolicyFileError("", [Problem(str(error))]) from error  # the error's text names the file
    except OSError as error:
        raise PolicyFileError(path, [Problem(f"cannot be read: {error.strerror or error}")]) from error


def read(path: str) -> dict[str, Any]:
    """Returns the policy document in the file ``path``.

    Raises PolicyFileError, also if the file cannot be read.
    """
    return with_preset(parse_bytes(read_bytes(path), path))


# ---- presets -------------------------------------------------------------------------------------


def preset_path(name: str) -> str:
    """Returns the path of the preset ``name``, which must be in the schema's list."""
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "config", f"{name}.yaml")


def preset_names() -> list[str]:
    """Returns the names of the presets that come with pylayer."""
    return [name for name in schema()["properties"]["preset"]["enum"] if name]


def read_preset(name: str) -> str:
    """Returns the text of a preset. Raises PolicyFileError."""
    path = preset_path(name)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise PolicyFileError(path, [Problem(f"cannot be read: {error.strerror or error}")]) from error


def over(above: Any, below: Any) -> Any:
    """Returns a value laid over another one. Mappings are combined key by key. Lists are appended to the lists below,
    so that the rules above win. Any other value replaces the one below."""
    if isinstance(above, dict) and isinstance(below, dict):
        return {**below, **{key: over(value, below.get(key)) for key, value in above.items()}}
    if isinstance(above, list) and isinstance(below, list):
        return below + above
    return above


def with_preset(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document laid over the preset that it names. Raises PolicyFileError."""
    name = document.get("preset")
    if not name:
        return document
    result: dict[str, Any] = over(document, parse_alone(read_preset(name), preset_path(name))[0])
    return result


def combined(system: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    """Returns the user's document laid over the system's, each with the preset that it names. The user's choice of a
    preset, or of none with null, replaces the system's. Raises PolicyFileError."""
    if "preset" in user:
        system = {key: value for key, value in system.items() if key != "preset"}
    result: dict[str, Any] = over(with_preset(user), with_preset(system))
    return result
