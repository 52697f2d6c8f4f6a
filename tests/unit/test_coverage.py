"""coverage.md and reliability.md in docs/internals name tests that exist, and no command is missing."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import lints

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "internals" / "coverage.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Returns the cells of the table under a heading, without the table's first two lines."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def intercepted() -> set[str]:
    """Returns the commands in the table of hooks."""
    layer = ROOT / "shim/layer"
    (table,) = re.findall(r"instance_hooks\[\] = \{(.*?)\n\};", (layer / "loader/loader.c").read_text(), re.S)
    found = {f"vk{name}" for name in re.findall(r"HOOK\((\w+)\)", table)}
    device_table = (layer / "driver/device_commands.h").read_text().partition("#define DEVICE_COMMANDS")[2]
    hooked = {f"vk{name}" for name in re.findall(r"\bHOOKED\([^()]*?(\w+)\)", device_table)}
    assert len(hooked) > 10
    return found | hooked | {"vkGetDeviceProcAddr"}


@cache
def functions(file: str) -> set[str]:
    """Returns the functions of a file of tests/ or of tests/layer/, or nothing if there is no such file."""
    path = ROOT / "tests" / (file if "/" in file else f"layer/{file}")
    return set(re.findall(r"^def (\w+)\(", path.read_text(), re.M)) if path.exists() else set()


def test_named_tests_exist() -> None:
    """A test that a page names is a function of that name in that file."""
    pages = [(path.name, path.read_text()) for path in (ROOT / "docs").rglob("*.md")]
    named = [(page, *test) for page, text in pages for test in re.findall(r"`([\w/]+\.py)::(\w+)`", text)]
    assert len(named) > 200
    lints.none(f"{page}: {file}::{name}" for page, file, name in named if name not in functions(file))


def test_named_recipes_exist() -> None:
    """Each recipe that the page names is a file, and each file has its row."""
    named = set(re.findall(r"recipe `(\w+)`", TEXT))
    recipes = {path.stem for path in (ROOT / "tests/recipes/ways").glob("*.recipe")}
    assert named == recipes and len(recipes) > 10


def test_every_command_has_a_row() -> None:
    """Each command that the layer intercepts is in one of the tables, with at least one test."""
    tables = [*rows("Commands that find or keep something"), *rows("Commands that only answer")]
    assert intercepted() <= {first.strip("`") for first, *_ in tables}
    lints.none(first for first, *cells in tables if "::" not in "".join(cells))


def test_every_fault_names_its_test() -> None:
    """Each row of the tables of faults in docs/internals/reliability.md appears once, and its last column names tests
    only."""
    faults = (ROOT / "docs" / "internals" / "reliability.md").read_text().split("## Drivers that fail")[1]
    found = [line.strip("| ").split(" | ") for line in faults.splitlines() if line.startswith("| ")]
    found = [row for row in found if row[-1] != "tests"]
    assert len(found) > 50
    names = [row[0] for row in found]
    test = r"`[\w/]+\.py::\w+`"
    lints.none(row[0] for row in found if not re.fullmatch(rf"{test}(, {test})*", row[-1]) or names.count(row[0]) > 1)


def test_every_difference_is_listed() -> None:
    """The page lists exactly the differences that the differential test allows."""
    source = (ROOT / "tests" / "differential" / "differences.py").read_text()
    allowed = re.findall(r'^    Allowed\(\n        "([^"]+)"', source, re.M)
    table = TEXT.split("## What a program may notice\n")[1].split("\nNo generated program")[0]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.M) == ["row", *sorted(allowed, key=table.index)]
    assert len(allowed) > 5
