"""Settings in force: defaults, what the policy file sets, and the rules that match program and device.

A policy file is YAML; ``config`` checks it against policy.schema.json. This module gets it as a plain mapping:
the program's process reads a compiled copy (``compiled``), because importing PyYAML would take it 13 ms.
"""

from __future__ import annotations

from ..values import DeviceFacts, Program, Value
from .policy_defaults import DEFAULTS as DEFAULTS
from .policy_defaults import TOP_DEFAULTS as TOP_DEFAULTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def glob_matches(pattern: str, text: str) -> bool:
    """Returns whether a pattern with ``*`` and ``?`` matches the whole text. Ignores the case of the letters A to Z.

    shim/layer/instance/skip.c must decide the same. fnmatch would import re (5 ms).
    """
    pattern, text = pattern.translate(_LOWER), text.translate(_LOWER)
    star = mark = -1
    at = position = 0
    while position < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, mark = at, position
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", text[position]):
            at += 1
            position += 1
        elif star >= 0:
            at = star + 1
            mark += 1
            position = mark
        else:
            return False
    return all(rest == "*" for rest in pattern[at:])


def _holds(conditions: dict[str, Any], values: dict[str, Any]) -> bool:
    """Returns whether every condition of a rule holds. ``values``: what it is about."""
    return all(
        wanted == values[key] if key == "vendor" else glob_matches(wanted, values[key])
        for key, wanted in conditions.items()
    )


def rule_matches(match: dict[str, Any], program: Program, facts: DeviceFacts) -> bool:
    """Returns whether every condition of a rule holds."""
    device = {"device": facts.device_name, "driver": facts.driver_name, "vendor": facts.vendor_id}
    return _holds(match, {**program.as_dict(), **device})


def is_skipped(document: dict[str, Any], program: Program, by_default: bool) -> bool:
    """Returns whether a skip rule applies to this process. ``by_default``: the built-in rules skip it. If skip.c can
    decide, it does so before policy starts; both must decide alike."""
    values = program.as_dict()
    if any(_holds(rule, values) for rule in document.get("never_skip") or []):
        return False
    return by_default or any(_holds(rule, values) for rule in document.get("skip") or [])


def settings_for(document: dict[str, Any], program: Program, facts: DeviceFacts) -> dict[str, Any]:
    """Returns the settings in force. Later sources override earlier ones: defaults, ``settings``, every matching rule
    in the order of the file."""
    result = {**DEFAULTS, **(document.get("settings") or {})}
    for rule in document.get("rules") or []:
        if rule_matches(rule["match"], program, facts):
            result.update(rule["set"])
    return result


def top_setting(document: dict[str, Any], key: str) -> Any:
    """Returns the value of a top-level key, or its default. What a mapping lacks has its own default."""
    default = TOP_DEFAULTS[key]
    value = document.get(key, default)
    return {**default, **(value or {})} if isinstance(default, dict) else value


class Limits(Value):
    """The most bytes that the store, and the state of one program, may take."""

    max_store: int
    state: int = 256 << 20

    @classmethod
    def of(cls, document: dict[str, Any]) -> Limits:
        """Returns the limits in a policy document."""
        return cls(*(int(top_setting(document, key)) << 20 for key in ("max_store_mib", "state_mib")))
