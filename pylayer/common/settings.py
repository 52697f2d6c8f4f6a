"""Settings in force: defaults, what the policy file sets, and the rules that match program and device.

A policy file is YAML, checked against policy.schema.json by ``config``. Here it is a plain mapping already:
the program's process reads a compiled copy (``compiled``), because importing PyYAML would cost it 13 ms.
"""

from __future__ import annotations

from ..values import DeviceFacts, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What holds where nothing else is said. config/default.yaml documents each key; a test compares the two.
DEFAULTS: dict[str, Any] = {
    "carrier": "auto",
    "store": "read-write",
    "application_caches": "attest",
    "keep_cache_mib": 64,
    "seed_application_caches": True,
    "adopt_driver_cache": True,
    "driver_cache": "keep",
    "application_binaries": "restore",
    "prefers_internal_cache": "driver",
    "precompiled_internal_cache": "driver",
    "binaries_mib": 256,
    "load_wait_ms": 2000,
    "answer_wait_ms": 1000,
    "flush_wait_ms": 1000,
    "queue_mib": 64,
    "fsync_interval_ms": 5000,
    "compress": True,
    "timeline_mib": 4,
}

#: Keys beside ``settings`` and ``rules``.
TOP_DEFAULTS: dict[str, Any] = {
    "preset": None,
    "policy": None,
    "policy_path": None,
    "share": "program",
    "max_store_mib": 4096,
    "max_program_mib": 1024,
    #: Beside the built-in rules (config/default.yaml), which are compiled into the layer.
    "skip": [],
    "never_skip": [],
    "trusted_keys": [],
    "import": {"require_signature": False},
    "watchdog": {
        "failures": 8,
        "total_failures": 100,
        "call_ms": 500,
        "import_ms": 1500,
        "event_ms": 1,
        "event_percent": 10,
    },
}


_LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def glob_matches(pattern: str, text: str) -> bool:
    """Whether a pattern with ``*`` and ``?`` matches the whole text, whatever the case of the letters A to Z.

    shim/layer/instance/skip.c decides the same. fnmatch would import re (5 ms).
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


def rule_matches(match: dict[str, Any], program: Program, facts: DeviceFacts) -> bool:
    """Whether every condition of a rule holds."""
    texts = {
        "executable": program.executable,
        "application": program.application,
        "engine": program.engine,
        "device": facts.device_name,
        "driver": facts.driver_name,
    }
    for key, wanted in match.items():
        if key == "vendor":
            if facts.vendor_id != wanted:
                return False
        elif not glob_matches(wanted, texts[key]):
            return False
    return True


def is_skipped(document: dict[str, Any], program: Program, by_default: bool) -> bool:
    """Whether the layer leaves this process alone; ``by_default``: the built-in rules say so. As skip.c decides
    it, where it can."""

    def holds(rule: dict[str, Any]) -> bool:
        return all(glob_matches(wanted, getattr(program, key)) for key, wanted in rule.items())

    if any(holds(rule) for rule in document.get("never_skip") or []):
        return False
    return by_default or any(holds(rule) for rule in document.get("skip") or [])


def settings_for(
    document: dict[str, Any],
    program: Program,
    facts: DeviceFacts,
    by_application: dict[str, Any] | None = None,
    by_user: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Defaults, then layer settings of the application, then ``settings``, then every matching rule in the order of the
    file, then layer settings of the user."""
    result = {**DEFAULTS, **(by_application or {})}
    result.update(document.get("settings") or {})
    for rule in document.get("rules") or []:
        if rule_matches(rule["match"], program, facts):
            result.update(rule["set"])
    return {**result, **(by_user or {})}


def top_setting(document: dict[str, Any], key: str) -> Any:
    """One of ``TOP_DEFAULTS``."""
    return document.get(key, TOP_DEFAULTS[key])


def watchdog_limits(document: dict[str, Any]) -> dict[str, Any]:
    """What a policy class may do before it is switched off: defaults, and what ``watchdog`` sets of them."""
    return {**TOP_DEFAULTS["watchdog"], **(document.get("watchdog") or {})}
