"""What a program's process pays for: modules that are imported there import nothing slow."""

from __future__ import annotations

import pytest
from unit.things import run_python

IN_PROCESS = (
    "cache_header",
    "compiled",
    "flat",
    "identity",
    "paths",
    "policy",
    "session",
    "settings",
    "store.files",
    "store.folder",
    "store.journal",
    "store.runs",
    "values",
    "watchdog",
)
SLOW = ("re", "typing", "dataclasses", "enum", "json", "pathlib", "collections", "functools", "yaml", "inspect")

CODE = """
import os, site, sys
before = set(sys.modules)
__import__("pylayer." + sys.argv[1])
print(*sorted((set(sys.modules) - before) & set(sys.argv[2:])))
"""


@pytest.mark.parametrize("module", IN_PROCESS)
def test_imports(module: str) -> None:
    """None of the slow modules comes along."""
    assert run_python(CODE, module, *SLOW).split() == []
