"""Says what is wrong with a policy file's document, and where, in one line for each problem."""

from __future__ import annotations

import os
import re

from .policy_validator import Violation, check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import yaml


def schema() -> dict[str, Any]:
    """Returns the JSON schema of policy files."""
    import json  # 7 ms, which config needs only for a file that is wrong

    with open(os.path.join(os.path.dirname(__file__), "policy.schema.json"), encoding="utf-8") as file:
        return json.load(file)  # type: ignore[no-any-return]


def yaml_word(value: Any) -> str:
    """Returns a value as a policy file writes it."""
    return {None: "null", True: "true", False: "false"}[value] if value is None or type(value) is bool else str(value)


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


#: Words for the schema's types in messages.
TYPE_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "object": "a mapping",
    "string": "text",
}


def short(text: str, size: int = 400) -> str:
    """Returns a text in at most so many characters."""
    return text if len(text) <= size else f"{text[: size - 3]}..."


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
    return short(text, 80)


def has_secret(text: str) -> bool:
    """Returns whether a text has a URL with credentials, as they stand before an @ or in a query."""
    return re.search(r"://([^/\s]*@|\S*\?)", text) is not None


def position(node: yaml.Node | None, path: list[Any], of_key: bool) -> tuple[int, int, int]:
    """Returns line, first column and the column after the last one of the innermost part of ``path`` that the file has.
    That is the place of its value, or of its key if ``of_key`` or if the value begins on another line than the key."""
    import yaml  # here, because most commands read no policy file

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
        "pattern": definition.get("patternDescription", ""),
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


def problems(document: Any, node: yaml.Node | None, most: int) -> list[Problem]:
    """Returns at most ``most`` problems of a document, in the order of the file."""
    found: list[Problem] = []
    while len(found) < most:
        try:
            check(document)
            break
        except Violation as error:
            path, text, of_key = _explain(error)
        found.append(Problem(short(text, 800), *position(node, path, of_key)))
        if len(found) < most:
            import copy

            try:
                document = copy.deepcopy(document) if len(found) == 1 else document
            except RecursionError:  # the document is nested too deeply to be copied: report one problem
                break
            if not _without(document, path):
                break
    return sorted(found, key=lambda problem: problem.line)
