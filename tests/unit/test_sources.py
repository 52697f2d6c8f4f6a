"""What the sources may have: which C file may use which (docs/internals/architecture.md), what is imported, names on
both sides of the boundary, and the table of files."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import lints
import pytest
from pylayer._policy import ffi
from unit.things import run_python

from pylayer.common import file_kinds
from pylayer.common.file_kinds import FileName
from pylayer.inhost import boundary
from pylayer.report.counters import COUNTERS, NOT_SHOWN
from pylayer.values import Plan

ROOT = Path(__file__).resolve().parents[2]
LAYER = ROOT / "shim" / "layer"
#: Folders of shim/layer/, the lowest first. A file uses its own folder and those before it. All but process/ stand on
#: base.h, which needs what the system's vulkan.h lacks.
FLOORS = [
    "vulkan/vk_compat.h", "vulkan/registry.h", "process", "base.h", "driver", "vulkan", "mailbox", "run", "frames",
    "store", "crash", "shaders", "state", "caches", "binaries", "device", "pipelines", "hooks", "policy", "instance",
    "loader",
]  # fmt: skip


def height(path: str) -> int:
    """Returns the number of a file's floor."""
    return FLOORS.index(path if path in FLOORS else path.split("/")[0])


def test_folders_of_c_are_floors() -> None:
    """A C file includes headers of its own folder and of those below. It can call no function without its header."""
    texts = {str(path.relative_to(LAYER)): path.read_text() for path in LAYER.rglob("*.[ch]")}
    lints.none(
        f"{path} includes {other}"
        for path, text in texts.items()
        for other in re.findall(r'^#include "([\w/]+\.h)"', text, re.M)
        if other in texts and height(other) > height(path)
    )
    assert {path.split("/")[0] for path in texts} <= {*FLOORS}


# ---- What is imported ----------------------------------------------------------------------------


SLOW = ["re", "typing", "dataclasses", "enum", "json", "pathlib", "collections", "functools", "yaml", "inspect"]
IN_PROCESS = """
import sys
slow = set(sys.argv[1:]) - set(sys.modules)
import pylayer.inhost.session, pylayer.inhost.user_class
print(*slow & set(sys.modules))
print(*(name for name in sys.modules if name.startswith("pylayer")))
"""


def test_imports() -> None:
    """A session imports none of the slow modules. What it imports is frozen into the policy library: what is not costs
    the program 0.2 ms."""
    slow, names = run_python(IN_PROCESS, *SLOW).splitlines()
    freeze = (ROOT / "shim" / "policy" / "freeze.py").read_text()
    assert slow == ""
    lints.none(name for name in names.split() if f'"{name}"' not in freeze)


#: What takes long to import, and no command needs for its help.
SLOW_IN_COMMANDS = [
    "cryptography", "jinja2", "obstore", "rich", "urllib.request", "yaml", "pylayer.fleet", "pylayer.report.page",
    "pylayer.report.trace",
]  # fmt: skip

COMMAND_LINE = f"""
import sys
import click
from pylayer.cli.main import command

context = click.Context(command)
command.get_help(context)
for module in sorted(name for name in sys.modules if name.startswith("pylayer.cli.")):
    if module not in ("pylayer.cli.main", "pylayer.cli.output"):
        print("the list of commands imports", module)
slow = set({SLOW_IN_COMMANDS}) - set(sys.modules)
assert slow == set({SLOW_IN_COMMANDS})
for name in command.list_commands(context):
    found = command.get_command(context, name)
    found.get_help(click.Context(found))
    for module in sorted(slow & set(sys.modules)):
        print(name, "--help imports", module)
        slow.remove(module)
"""


def test_command_line() -> None:
    """The list of commands, for the help, imports no command. The help of a command imports nothing slow."""
    lints.none(run_python(COMMAND_LINE).splitlines())


# ---- Names on both sides of the boundary ---------------------------------------------------------


def test_names() -> None:
    """Every field of a plan has its name in Python, and every name has a field."""
    assert sorted(name for name, _ in ffi.typeof("PylayerPlan").fields) == sorted(Plan.__slots__)


def test_counters_are_shown() -> None:
    """The layer counts what the table has."""
    assert list(boundary.COUNTER_NAMES) == [*COUNTERS, *NOT_SHOWN]


# ---- The table of files --------------------------------------------------------------------------


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


# ---- What a build fetches for the report's page --------------------------------------------------


def test_another_archive_is_refused(tmp_path: Path) -> None:
    """If the archive's hash is not the pinned one, nothing is written and the message names both."""
    spec = importlib.util.spec_from_file_location("page_library", ROOT / "shim" / "page_library.py")
    assert spec is not None and spec.loader is not None
    page_library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page_library)
    archive = tmp_path / page_library.NAME
    archive.write_bytes(b"another")
    with pytest.raises(SystemExit, match=f"SHA-512 .*, not {page_library.SHA512[:20]}"):
        page_library.fetch(tmp_path, archive)
    assert [path.name for path in tmp_path.iterdir()] == [page_library.NAME]


# ---- Which packages a user is told to install ----------------------------------------------------


#: Mesa as dpkg-query has it, and as apt-cache offers it, and of it what is missing.
MESA = {
    "one that needs its shim: both at once": ("", "26.0.3-1", {"mesa-vulkan-drivers", "mesa-drm-shim"}),
    "one that needs no shim": ("", "25.0.7-2", {"mesa-vulkan-drivers"}),
    "only the shim is missing": ("mesa-vulkan-drivers installed 26.0.3\\n", "26.0.3", {"mesa-drm-shim"}),
    "too old": ("mesa-vulkan-drivers installed 22.3.6\\n", "26.0.3", {"mesa-vulkan-drivers"}),
}


@pytest.mark.parametrize(("installed", "candidate", "mesa"), MESA.values(), ids=MESA)
def test_mesa(tmp_path: Path, installed: str, candidate: str, mesa: set[str]) -> None:
    """.ci/system-packages names in one line what a user installs, who then calls make again."""
    answers = {"id": "1000", "dpkg-query": installed, "apt-cache": f"  Candidate: {candidate}\\n"}
    for name, answer in answers.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '{answer}'\n")
        (tmp_path / name).chmod(0o755)
    command, path = [ROOT / ".ci" / "system-packages", "demo"], f"{tmp_path}:{os.environ['PATH']}"
    asked = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    said, _, named = asked.stderr.partition(" apt-get install ")
    assert (asked.returncode, said) == (1, "pylayer: packages are missing: sudo")
    assert {name for name in named.split() if name.startswith("mesa")} == mesa
