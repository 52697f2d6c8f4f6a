"""The cost for a program's process: modules that are imported there import nothing slow."""

from __future__ import annotations

from pathlib import Path

import lints
from unit.things import run_python

IN_PROCESS = (
    "common.cache_header",
    "common.compiled",
    "common.flat",
    "common.identity",
    "common.paths",
    "common.settings",
    "inhost.session",
    "inhost.watchdog",
    "policy",
    "common.files",
    "store.folder",
    "store.journal",
    "store.runs",
    "values",
)
SLOW = ("re", "typing", "dataclasses", "enum", "json", "pathlib", "collections", "functools", "yaml", "inspect")

CODE = f"""
import os, site, sys
slow = set({SLOW}) - set(sys.modules)
for module in {IN_PROCESS}:
    __import__("pylayer." + module)
    for name in sorted(slow & set(sys.modules)):
        print("pylayer." + module, "imports", name)
        slow.remove(name)
"""


def test_imports() -> None:
    """None of the slow modules is imported."""
    lints.none(run_python(CODE).splitlines())


def test_what_is_imported_is_frozen() -> None:
    """Modules that every session imports are frozen into the policy library. One that is not costs the program 0.2
    ms."""
    freeze = (Path(__file__).parents[2] / "shim" / "policy" / "freeze.py").read_text()
    code = (
        "import pylayer.inhost.session, sys; print(*sorted(name for name in sys.modules if name.startswith('pylayer')))"
    )
    lints.none(name for name in run_python(code).split() if f'"{name}",' not in freeze)
