"""What the sources may have: which module may use which (docs/internals/architecture.md), what is imported, names on
both sides of the boundary, and the table of files."""

from __future__ import annotations

import ast
import io
import re
import sys
import tarfile
from graphlib import TopologicalSorter
from pathlib import Path

import lints
import pytest
from pylayer._policy import ffi
from unit.things import run_python

from pylayer import values
from pylayer.common import file_kinds
from pylayer.common.file_kinds import FileName
from pylayer.inhost import boundary
from pylayer.report.counters import COUNTERS, NOT_SHOWN
from pylayer.values import Plan

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pylayer"
LAYER = ROOT / "shim" / "layer"
#: Folders of pylayer/ whose modules never run in a program's process.
OUTSIDE = ("cli", "fleet", "report")
#: What modules outside use of the store: what several commands need, and a module for each subject of one or two.
COMMANDS = ("store", "checking", "portable", "removal")
#: Of these, what a program's process uses, too.
SHARED = ("runs", "state", "timeline")
#: A function's definition: its name, at the beginning of a line, and no semicolon before the brace.
DEFINITION = re.compile(
    r"^(?!static|typedef|struct|extern|enum|return|[#\s/}])[\w *]*?\b(?!__)(\w+)\([^;{]*\)\n\{", re.M
)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
INLINE = re.compile(r"^static inline [\w *]*?\b(\w+)\(", re.M)
#: Folders of shim/layer/, the lowest first. A file uses its own folder and those before it.
FLOORS = (
    "process",
    "driver",
    "vulkan",
    "mailbox",
    "run",
    "frames",
    "store",
    "crash",
    "shaders",
    "state",
    "caches",
    "binaries",
    "device",
    "pipelines",
    "hooks",
    "policy",
    "instance",
    "loader",
)
#: All but process/ stand on base.h, which needs what the system's vulkan.h lacks. The lowest have declarations alone.
BASE, LOWEST = "base.h", ("vulkan/vk_compat.h", "vulkan/registry.h")


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports() -> dict[str, set[str]]:
    """Returns, for each module of the package, the other modules that it imports, including imports for types only."""
    known = modules()
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        graph[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                for alias in node.names:
                    graph[name].add(f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base)
        graph[name] = {other for other in graph[name] if other in known and other != name}
    return graph


def floor_of(module: str) -> str:
    """Returns a module's folder below pylayer/, or empty text for modules in pylayer/ itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 2 or (PACKAGE / parts[-1]).is_dir() else ""


def layer() -> dict[str, str]:
    """Returns the layer's C sources and headers by path, without comments."""
    return {str(path.relative_to(LAYER)): COMMENT.sub("", path.read_text()) for path in LAYER.rglob("*.[ch]")}


def height(path: str) -> float:
    """Returns the number of a file's floor."""
    return {**dict.fromkeys(LOWEST, -1), BASE: 0.5}.get(path) or FLOORS.index(path.split("/")[0])


def uses(texts: dict[str, str]) -> dict[tuple[str, str], set[str]]:
    """Returns what each file uses of each other one: the functions that it names, and its header, if it includes it."""
    defined: dict[str, str] = {}
    for path, text in texts.items():
        defined |= dict.fromkeys((DEFINITION if path.endswith(".c") else INLINE).findall(text), path)
    found: dict[tuple[str, str], set[str]] = {}
    for path, text in texts.items():
        for name in set(re.findall(r"(?<![.>\w])\w+\b", text)) & defined.keys():
            if defined[name].endswith(".c") or re.search(rf"(?<![.>\w]){name}\(", text):
                found.setdefault((path, defined[name]), set()).add(name)
        for header in re.findall(r'^#include "([\w/]+\.h)"', text, re.M):
            found.setdefault((path, header), set()).add("#include")
    return found


def test_no_circle_in_python() -> None:
    """No module of the package imports itself through other modules."""
    TopologicalSorter(imports()).prepare()  # raises CycleError, with the circle


def test_folders_of_c_are_floors() -> None:
    """A C file names functions of its own folder and of those below, and includes no other headers."""
    texts = layer()
    lints.none(
        f"{path} uses {other}: {', '.join(sorted(names))}"
        for (path, other), names in sorted(uses(texts).items())
        if height(other) > height(path)
    )
    assert {path.split("/")[0] for path in texts} == {*FLOORS, BASE}


def test_program_and_command_line_are_apart() -> None:
    """A module uses only floors below its own. Commands, reports and fleets use nothing of the store but its faces.
    No program's process uses those of commands."""
    below = {
        "inhost": ("store", "common", ""),
        "store": ("common", ""),
        "common": ("",),
        "fleet": ("store", "common", ""),
        "report": ("store", "common", ""),
        "cli": ("fleet", "report", "store", "common", ""),
    }
    wrong = []
    for module, others in imports().items():
        floor = floor_of(module)
        for other in others if floor else ():
            there = floor_of(other)
            allowed = there == floor or there in below[floor]
            if there == "store" and floor != "store":
                name = other.removeprefix("pylayer.store.")
                allowed = allowed and (name in SHARED or (name in COMMANDS) == (floor in OUTSIDE))
            if not allowed:
                wrong.append(f"{module} imports {other}")
    assert wrong == []


# ---- What is imported ----------------------------------------------------------------------------


IN_PROCESS = (
    "common.outcomes",
    "common.compiled",
    "common.flat",
    "common.identity",
    "common.paths",
    "common.settings",
    "inhost.session",
    "inhost.user_class",
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


#: What takes long to import, and no command needs for its help.
SLOW_IN_COMMANDS = (
    "cryptography",
    "jinja2",
    "obstore",
    "rich",
    "urllib.request",
    "yaml",
    "pylayer.fleet",
    "pylayer.report.page",
    "pylayer.report.trace",
)

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


def test_reasons_by_number() -> None:
    """Each reason why state is not recorded stands at its number."""
    said = {"NOT": "", "STRUCTURE": "structure", "HANDLE": "refers to", "IDENTIFIER": "identifier"}
    said |= {"CAPTURE": "capture", "QUEUE": "queue", "MEMORY": "memory"}
    assert len(values.UNRECORDED) == len(said)
    for name, word in said.items():
        reason = values.UNRECORDED[getattr(values, f"UNRECORDED_{name}")]
        assert word in reason and bool(word) == bool(reason)


# ---- The table of files --------------------------------------------------------------------------


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


# ---- What a build fetches for the report's page --------------------------------------------------


sys.path.insert(0, str(ROOT / "shim"))
import page_library  # noqa: E402

INSIDE = {"LICENSE": b"do what you like\n", "dist/uPlot.iife.min.js": b"draw()\n", "dist/uPlot.min.css": b".u {}\n"}


def archive_of(directory: Path) -> Path:
    """A release that is not the one that is meant."""
    path = directory / page_library.NAME
    with tarfile.open(path, "w:gz") as package:
        for name, data in INSIDE.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            package.addfile(member, io.BytesIO(data))
    return path


def test_another_archive_is_refused(tmp_path: Path) -> None:
    """If the archive's hash is not the pinned one, nothing is written and the message names both."""
    with pytest.raises(SystemExit, match=f"SHA-512 .*, not {page_library.SHA512[:20]}"):
        page_library.fetch(tmp_path, archive_of(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [page_library.NAME]
