"""The table of the store's files (pylayer/common/file_kinds.py) is the only one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import lints

from pylayer.common import file_kinds
from pylayer.common.file_kinds import FileName

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {str(kind) for kind in file_kinds.TABLE if kind}


def test_no_other_list() -> None:
    """No other module has a suffix of a file of the store as a text. Modules that name objects of a fleet's storage do:
    those are other files."""
    found = []
    for path in sorted((ROOT / "pylayer").rglob("*.py")):
        if path.name not in ("file_kinds.py", "index.py", "publishing.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and node.value in SUFFIXES:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}")
    lints.none(found)


def test_suffixes_in_c() -> None:
    """The suffixes that the layer's C knows are in the table."""
    texts = [path.read_text() for path in (ROOT / "shim/layer").rglob("*.[ch]")]
    named = {suffix for text in texts for suffix in re.findall(r'"(?:%[^" ]*|)(\.[a-z]{3,12})"', text)}
    assert {".pack", ".journal", ".live", ".run", ".plan"} <= named
    lints.none(sorted(named - SUFFIXES - {".json", ".cache", ".config", ".exe"}))


def test_file_name() -> None:
    """A name is what it was made of. The name of a temporary file, of a run, or without a program is none."""
    name = FileName(7, "0123-4567", file_kinds.PACK)
    assert str(name) == "0000000000000007-0123-4567.pack"
    found = FileName.parse(f"/somewhere/{name}")
    assert found is not None and (found.program, found.unique, found.kind) == (7, "0123-4567", file_kinds.PACK)
    for other in (
        "identity",
        "compacting",
        f"{name}.a-b.tmp",
        "0123-4567.run",
        "7-0123.pack",
        "000000000000000G-0.pack",
    ):
        assert FileName.parse(other) is None


def test_every_file_is_described() -> None:
    """docs/internals/format.md has a row for each kind, in this order: what it holds, its flags, its bound, and who
    deletes it."""
    text = (ROOT / "docs/internals/format.md").read_text()
    table = re.search(r"\| file \|.*\n\|[-|]+\n((?:\|.*\n)+)", text)
    assert table is not None
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    flags = [", ".join(flag for flag in file_kinds.FLAGS if getattr(kind, flag)) for kind in file_kinds.TABLE]
    described = zip(file_kinds.TABLE, flags, strict=True)
    assert [(row[0], row[2]) for row in rows] == [(f"`{kind.pattern}`", flag or "-") for kind, flag in described]
    lints.none(row[0] for row in rows if len(row) != 5 or not all(row))
