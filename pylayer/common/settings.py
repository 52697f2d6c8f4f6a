"""Settings in force: defaults, what the policy file sets, and the rules that match program and device.

A policy file is YAML; ``config`` checks it against policy.schema.json. This module gets it as a plain mapping:
the program's process reads a compiled copy (``compiled``), because importing PyYAML would take it 13 ms.
"""

from __future__ import annotations

from ..values import DeviceFacts, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Defaults of ``settings``. config/default.yaml documents each key; a test compares the two.
DEFAULTS: dict[str, Any] = {
    "carrier": "auto",
    "store": "read-write",
    "application_caches": "attest",
    "keep_cache_mib": 64,
    "seed_application_caches": True,
    "adopt_driver_cache": True,
    "driver_cache": "keep",
    "application_binaries": "restore",
    "binaries_mib": 256,
    "load_wait_ms": 2000,
    "answer_wait_ms": 1000,
    "flush_wait_ms": 1000,
    "queue_mib": 64,
    "fsync_interval_ms": 5000,
    "timeline_mib": 4,
}

#: Defaults of the top-level keys other than ``settings`` and ``rules``.
TOP_DEFAULTS: dict[str, Any] = {
    "preset": None,
    "policy": None,
    "policy_path": None,
    "share": "program",
    "max_store_mib": 4096,
    "max_program_mib": 1024,
    #: Rules in addition to the built-in ones (config/default.yaml), which are compiled into the layer.
    "skip": [],
    "never_skip": [],
    "trusted_keys": [],
    "import": {"require_signature": False},
    "fleet": {
        "url": None,
        "keys": [],
        "pull_on_run_seconds": 5,
        "pull_interval_minutes": 60,
        "pull_seconds": 600,
        "pull_mib": 1024,
    },
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


def rule_matches(match: dict[str, Any], program: Program, facts: DeviceFacts) -> bool:
    """Returns whether every condition of a rule holds."""
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
    """Returns whether a skip rule applies to this process. ``by_default``: the built-in rules skip it. If skip.c can
    decide, it does so before policy starts; both must decide alike."""

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
    """Returns the settings in force. Later sources override earlier ones: defaults, layer settings of the application,
    ``settings``, every matching rule in the order of the file, layer settings of the user."""
    result = {**DEFAULTS, **(by_application or {})}
    result.update(document.get("settings") or {})
    for rule in document.get("rules") or []:
        if rule_matches(rule["match"], program, facts):
            result.update(rule["set"])
    return {**result, **(by_user or {})}


def top_setting(document: dict[str, Any], key: str) -> Any:
    """Returns the value of a top-level key, or its default in ``TOP_DEFAULTS``."""
    return document.get(key, TOP_DEFAULTS[key])


def watchdog_limits(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the limits beyond which a policy class is switched off: defaults, overridden by ``watchdog``."""
    return {**TOP_DEFAULTS["watchdog"], **(document.get("watchdog") or {})}


def fleet_settings(document: dict[str, Any]) -> dict[str, Any]:
    """Returns where pipelines are pulled from and what a pull may take: defaults, overridden by ``fleet``."""
    return {**TOP_DEFAULTS["fleet"], **(document.get("fleet") or {})}


class Limits:
    """The most bytes that the store, one program, and the data of its own binaries may take."""

    __slots__ = ("application_binaries", "max_program", "max_store")

    def __init__(self, max_store: int, max_program: int, application_binaries: int = 64 << 20) -> None:
        self.application_binaries = application_binaries
        self.max_store = max_store
        self.max_program = max_program
