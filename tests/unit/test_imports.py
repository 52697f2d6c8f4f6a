"""What a program's process pays for: modules that are imported there import nothing slow."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_what_is_imported_is_frozen() -> None:
    """Modules that every session imports are inside the policy library: one that is not costs the program 0.2 ms."""
    freeze = (Path(__file__).parents[2] / "shim" / "policy" / "freeze.py").read_text()
    code = "import pylayer.session, sys; print(*sorted(name for name in sys.modules if name.startswith('pylayer')))"
    for name in run_python(code).split():
        assert f'"{name}",' in freeze, name


def test_report_knows_nothing_of_the_command_line() -> None:
    """The command line imports the report, and not the other way round."""
    sources = Path(__file__).parents[2] / "pylayer" / "report"
    for path in sources.glob("*.py"):
        assert not re.search(r"^\s*from (?:\.\.|pylayer\.)cli\b", path.read_text(), re.MULTILINE), path.name
