"""What C has to know of the numbers in the store's files, as a header, made of pylayer/."""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path

#: What both C and Python know of the store's files: the module, what its constants begin with in C, and which.
SHARED = (
    ("common/files", "STORE", "AHEAD_SECONDS"),
    ("store/format", "STORE", "VERSION ALIGNMENT MAX_JOURNAL_BYTES MAX_RECORD_BYTES CHANGED_DRIVER CHUNK_CELLS"),
    ("store/maintenance", "STORE", "JOIN_BYTES EXIT_BYTES"),
    ("store/contents", "STORE", "RECENT_SECONDS"),
    ("store/crash_marker", "LIVE", "BYTES RUN_OFFSET"),
    ("store/runs", "RUNS", "MAX_RUNS"),
    ("store/cache_history", "HISTORY", "PASSED"),
)


def numbers(path: str) -> dict[str, int]:
    """A module's constants that are integers, without importing it."""
    found: dict[str, object] = {}
    for node in ast.parse(Path(path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            source = compile(ast.Module([node], []), path, "exec")
            with contextlib.suppress(NameError, TypeError):  # made of what is no integer
                exec(source, {"__builtins__": {}, "range": range}, found)
    return {name: value for name, value in found.items() if type(value) is int}


def header() -> str:
    """What shim/layer/store/store_format.h includes."""
    lines = ["/* Written by shim/policy/store_numbers.py, of pylayer/. */"]
    for module, prefix, names in SHARED:
        known = numbers(f"pylayer/{module}.py")
        lines += [f"#define {prefix}_{name} {known[name]}u" for name in names.split()]
    return "\n".join(lines) + "\n"
