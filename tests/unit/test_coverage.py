"""docs/coverage.md: every test that it names exists, those of docs/security.md too, and every command that the layer
intercepts has its rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "coverage.md").read_text()
PATHS = ["hit", "miss", "refused", "passed"]
#: What a cell says that names no test.
REASONS = ("n/a: ", "by hand: ", "not tried", "not there yet")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its own two lines."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def intercepted() -> set[str]:
    """The commands in the tables of hooks."""
    tables = re.findall(r"static const Hook \w+\[\] = \{(.*?)\n\};", (ROOT / "shim/layer/loader.c").read_text(), re.S)
    assert len(tables) == 2
    found = {f"vk{name}" for table in tables for name in re.findall(r"HOOK\((\w+)\)", table)}
    found |= {name for table in tables for name in re.findall(r'"(vk\w+)"', table)}
    device_table = (ROOT / "shim/layer/device_commands.h").read_text().partition("#define DEVICE_COMMANDS")[2]
    hooked = {f"vk{name}" for name in re.findall(r"\bHOOKED\([^()]*?(\w+)\)", device_table)}
    assert len(hooked) > 10
    return found | hooked | {"vkGetDeviceProcAddr"}


def named_tests() -> list[str]:
    security = (ROOT / "docs" / "security.md").read_text()
    return sorted(set(re.findall(r"`([\w/]+\.py::\w+)`", TEXT + security)))


@pytest.mark.parametrize("name", named_tests())
def test_named_test_exists(name: str) -> None:
    """A test that a page names is a function of that name in that file."""
    file, _, function = name.partition("::")
    source = ROOT / "tests" / (file if "/" in file else f"layer/{file}")
    assert re.search(rf"^def {function}\(", source.read_text(), re.M)


def test_named_modes_exist() -> None:
    """A mode that the page names is a mode of the program, and each has its row."""
    named = set(re.findall(r"mode `(\w+)`", TEXT))
    modes = set(re.findall(r'^    \{"(\w+)", mode_', (ROOT / "tests/paths/paths.c").read_text(), re.M))
    assert named == modes and len(modes) > 10


def test_every_command_has_its_rows() -> None:
    """Each command that the layer intercepts is in one of the tables, with every path where it can find something."""
    whole: dict[str, list[str]] = {}
    command = ""
    for first, path, *_ in rows("Commands that find something, or keep it"):
        command = first.strip("`") or command
        whole.setdefault(command, []).append(path)
    assert set(map(tuple, whole.values())) == {tuple(PATHS)}
    answering = {first.strip("`") for first, *_ in rows("Commands that only answer")}
    assert not answering & set(whole)
    assert intercepted() <= answering | set(whole)


@pytest.mark.parametrize("heading", ["Commands that find something, or keep it", "Commands that only answer"])
def test_no_cell_is_empty(heading: str) -> None:
    """A cell names a test or says why there is none."""
    for first, *cells in rows(heading):
        drivers = cells[-3:]
        assert len(drivers) == 3 and all("::" in cell or cell.startswith(REASONS) for cell in drivers), (first, cells)


def test_every_difference_is_listed() -> None:
    """The page lists what the differential test allows, and nothing else."""
    source = (ROOT / "tests" / "differential" / "differences.py").read_text()
    allowed = re.findall(r'^    Allowed\(\n        "([^"]+)"', source, re.M)
    table = TEXT.split("## What is not as without the layer\n")[1].split("\nNo generated program")[0]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.M) == ["row", *sorted(allowed, key=table.index)]
    assert len(allowed) > 5
