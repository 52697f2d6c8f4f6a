"""Nested settings as lines of text. The program's process reads this format because importing json takes it 7 ms.

A line is ``key.key=T:value``. T is one of s (text), i (integer), f (float), b (1 or 0), n (null), d (empty
mapping), l (empty list). The key of a list item is ``[`` and its index. ``%``, line ends, ``.``, ``=`` and ``[`` in
a key, and ``%`` and line ends in a value, are written as %XX.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_KEY_ESCAPES = {"%": "%25", "\n": "%0A", "\r": "%0D", ".": "%2E", "=": "%3D", "[": "%5B"}
_VALUE_ESCAPES = {"%": "%25", "\n": "%0A", "\r": "%0D"}
#: No setting or statistic that ``dumps`` writes is nested deeper.
_MAX_DEPTH = 8


def _escape(text: str, escapes: dict[str, str]) -> str:
    for plain, escaped in escapes.items():
        if plain in text:
            text = text.replace(plain, escaped)
    return text


def _unescape(text: str) -> str:
    if "%" not in text:
        return text
    head, *rest = text.split("%")
    return head + "".join(chr(int(part[:2], 16)) + part[2:] for part in rest)


def _lines(value: Any, key: str | None) -> Iterator[str]:
    prefix = "" if key is None else f"{key}."
    if isinstance(value, dict):
        if not value:
            yield f"{key}=d:"
        for name, inner in value.items():
            yield from _lines(inner, prefix + _escape(str(name), _KEY_ESCAPES))
    elif isinstance(value, (list, tuple)):
        if not value:
            yield f"{key}=l:"
        for index, inner in enumerate(value):
            yield from _lines(inner, f"{prefix}[{index}")
    elif isinstance(value, bool):
        yield f"{key}=b:{int(value)}"
    elif isinstance(value, int):
        yield f"{key}=i:{value}"
    elif isinstance(value, float):
        yield f"{key}=f:{value!r}"
    elif value is None:
        yield f"{key}=n:"
    else:
        yield f"{key}=s:{_escape(str(value), _VALUE_ESCAPES)}"


def dumps(value: dict[str, Any]) -> str:
    """Returns the text of a mapping. Its leaves are str, int, float, bool or None."""
    return "\n".join(_lines(value, None)) + "\n" if value else "\n"


def _leaf(kind: str, text: str) -> Any:
    if kind == "s":
        return _unescape(text)
    if kind == "b":
        return text == "1"
    if kind == "f":
        return float(text)
    return {"n": None, "d": {}, "l": []}[kind]


def _mapping(within: dict[str, Any], path: str) -> dict[str, Any]:
    """Returns the mapping with this path, in which each name ends in a dot, and makes what is missing."""
    names = path.split(".")[:-1]
    if len(names) >= _MAX_DEPTH:
        raise ValueError(f"{len(names)} levels")
    for name in names:
        within = within.setdefault(name, {})
    return within


def _lists(value: Any) -> Any:
    """Turns mappings whose keys are list indices into lists."""
    if not isinstance(value, dict):
        return value
    if value and all(name.startswith("[") for name in value):
        return [_lists(inner) for inner in value.values()]
    return {_unescape(name): _lists(inner) for name, inner in value.items()}


def loads(text: str) -> dict[str, Any]:
    """Returns the mapping from text that ``dumps`` wrote.

    Raises ValueError for anything else.
    """
    result: dict[str, Any] = {}
    place, inside = result, ""
    try:
        for line in text.split("\n"):
            if not line:
                continue
            path, _, rest = line.partition("=")
            last = path.rpartition(".")[2]
            outer = path[: len(path) - len(last)]
            if outer != inside:  # most lines are in the mapping of the line before
                place, inside = _mapping(result, outer), outer
            place[last] = int(rest[2:]) if rest[0] == "i" else _leaf(rest[0], rest[2:])
        # Most texts have neither a list nor an escaped key.
        unlisted = _lists(result) if "[" in text or "%" in text else result
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not settings text: {error}") from error
    if not isinstance(unlisted, dict):
        raise ValueError("not settings text: a list")
    return unlisted
