"""docs/pylayer.1, and the generated parts of docs/: they match the code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import files as installed_files
from pathlib import Path

import click
import lints
import pytest
from cli.test_command import ALL
from world import ROOT

DOCS = ROOT / "docs"

#: Variables that other libraries read and that pylayer documents nevertheless.
OF_LIBRARIES = {
    *("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"),  # rich, and click for COLUMNS
    "TMPDIR",  # tempfile
    "container",  # a name like other words: below
    *("VK_ADD_DRIVER_FILES", "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_LOADER_DEBUG"),  # the Vulkan loader
}
#: Strings in the sources that look like a variable but are not for users.
NOT_FOR_USERS = {
    "_PYLAYER_COMPLETE",  # click's, between a shell and its script
}
VARIABLE = re.compile(
    r"_?PYLAYER_[A-Z_]+|(?:EN|DIS)ABLE_PYLAYER|XDG_[A-Z_]+|VK_[A-Z_]+_(?:LAYERS|PATH|FILES|FILENAMES|ENABLE|DISABLE|ALLOW|DEBUG)|"
    r"VK_INSTANCE_LAYERS|HOME|TMPDIR|NO_COLOR|(?:CLICOLOR_)?FORCE(?:_COLOR)?|TERM|COLUMNS|SUDO_USER|SNAP|(?:STEAM|FLATPAK|PRESSURE_VESSEL)_[A-Z_]+"
)


def test_reference_is_what_the_commands_say() -> None:
    """The man page and the generated parts of other pages are what `make docs` would write."""
    check = [sys.executable, str(DOCS / "generate.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def all_parameters() -> Iterator[tuple[str, str]]:
    """Every command with each of its options."""
    for words, found in ALL:
        path = " ".join(("pylayer", *words))
        yield path, ""
        for parameter in found.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                yield from ((path, name) for name in parameter.opts)


def test_every_command_and_option_is_in_the_reference() -> None:
    """The man page has a section for each command, with each of its options."""
    page = (DOCS / "pylayer.1").read_text().replace("\\-", "-")
    man = dict(re.findall(r'^\.SS "(pylayer[a-z -]*)"$(.*?)(?=^\.S[SH] |\Z)', page, re.M | re.S))
    wanted = list(all_parameters())
    assert {path for path, _ in wanted} == set(man)
    lints.none(f"{path} {option}" for path, option in wanted if option not in man[path])


@pytest.mark.foreign
def test_man_page_is_clean() -> None:
    """groff reports nothing about the man page. It fits 80 columns, except for examples and URLs."""
    page = DOCS / "pylayer.1"
    options = ["-t", "-man", "-Tutf8", "-Kutf8", "-ww", "-rLL=78n", "-P-c", "-P-b", "-P-u", "-P-o"]
    done = subprocess.run(["groff", *options, str(page)], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert (done.returncode, done.stderr) == (0, "")
    lines = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout).splitlines()
    assert len(lines) > 300
    assert [line for line in lines if len(line) > 80 and not line.strip().startswith("pylayer ")] == []
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "ENVIRONMENT", "FILES", "SEE ALSO"):
        assert section in lines


def test_man_page_is_installed() -> None:
    """The man page is installed where the environment's `man` finds it."""
    found = [file for file in installed_files("vk-pylayer") or () if file.name == "pylayer.1"]
    assert len(found) == 1
    path = Path(str(found[0].locate())).resolve()
    assert path.parts[-4:-1] == ("share", "man", "man1")
    assert path.is_relative_to(Path(sys.prefix).resolve())


# ---- environment variables -----------------------------------------------------------------------------


def literals() -> Iterator[tuple[str, str]]:
    """Yields every string in the sources, with its file. Docstrings and comments are left out."""
    for path in sorted((ROOT / "pylayer").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, str(path.relative_to(ROOT))
    for path in sorted([*(ROOT / "shim").rglob("*.[ch]"), *(ROOT / "manifests").glob("*.json")]):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.S)
        for value in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
            yield value, str(path.relative_to(ROOT))


def documented() -> set[str]:
    """Returns the variables that docs/policy-reference.md lists, each with what it means."""
    section = (DOCS / "policy-reference.md").read_text().partition("\n## Variables\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^- `([^`]+)`: \S", section, re.M))


def test_every_variable_is_documented() -> None:
    """docs/policy-reference.md lists each variable that the sources name, and no others."""
    found = {value: file for value, file in literals() if VARIABLE.fullmatch(value) and value not in NOT_FOR_USERS}
    assert {"PYLAYER_LOG", "PYLAYER_STORE", "XDG_RUNTIME_DIR", "VK_LAYER_PATH", "PYLAYER_TRACEBACK"} <= set(found)
    rows = documented()
    problems = [f"{file} reads {name}, which is not on the page" for name, file in found.items() if name not in rows]
    problems += [f"{name} is on the page, and nothing reads it" for name in rows - set(found) - OF_LIBRARIES]
    lints.none(problems)


def test_every_getenv_is_seen() -> None:
    """Sources read only variables whose names the scan above recognizes."""
    reads = re.compile(r"""\b(?:getenv|secure_getenv|environment_get|environ\.get|environ)[(\[]\s*"([^"]+)\"""")
    sources = [*(ROOT / "pylayer").rglob("*.py"), *(ROOT / "shim").rglob("*.[ch]")]
    read = [(path.name, name) for path in sources for name in reads.findall(path.read_text(encoding="utf-8"))]
    lints.none(
        f"{file} reads {name}" for file, name in read if not VARIABLE.fullmatch(name) and name not in documented()
    )
