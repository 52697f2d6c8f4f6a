"""Which module may use which, taken from the imports of Python and the calls of C (docs/internals/architecture.md)."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import lints

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
