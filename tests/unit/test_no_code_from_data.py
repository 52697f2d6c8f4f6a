"""What is read from files stays data: nothing in the package executes it as code."""

from __future__ import annotations

import ast
from pathlib import Path

import lints

import pylayer

PACKAGE = Path(pylayer.__file__).parent
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "_private" not in path.parts)
MODULES = {"pickle", "marshal", "shelve", "dill", "cPickle", "_pickle", "runpy", "code", "codeop", "ctypes", "imp"}
CALLS = {"eval", "exec", "compile", "input", "breakpoint"}
#: PyYAML functions that create objects named by the text.
YAML = {
    "Loader",
    "UnsafeLoader",
    "FullLoader",
    "unsafe_load",
    "full_load",
    "load_all",
    "unsafe_load_all",
    "add_constructor",
}
#: Places that import modules by a name that is not a literal: the commands, from a table; the package's own modules.
IMPORTS = {"cli/main.py", "inhost/host.py"}
#: The probe runs in a process of its own and opens the libraries that the loader names. The layer's own library names
#: processes. A policy class is code.
ALLOWED = {
    ("cli/probe.py", "import ctypes"), ("cli/status.py", "import ctypes"),
    ("common/user_policy.py", "compile()"), ("common/user_policy.py", "exec()"),
}  # fmt: skip


def problems(source: str, name: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            found += [f"{line}: import {alias.name}" for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES and not node.level:
            found.append(f"{line}: from {node.module}")
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml" and node.attr in YAML:
            found.append(f"{line}: yaml.{node.attr}")
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.rpartition(".")[2] in CALLS and called != "re.compile":
                found.append(f"{line}: {called}()")
            if called == "yaml.load" and "Loader=_Loader" not in ast.unparse(node):
                found.append(f"{line}: yaml.load() of another loader")
            if called.rpartition(".")[2] in ("__import__", "import_module") and name not in IMPORTS:
                found.append(f"{line}: {called}()")
            if any(keyword.arg == "shell" for keyword in node.keywords) or called in ("os.system", "os.popen"):
                found.append(f"{line}: a shell")
    return [what for what in found if (name, what.partition(": ")[2]) not in ALLOWED]


def test_package() -> None:
    """Beside the policy class, the package uses no pickle, marshal, eval, exec or shell, and reads YAML with the safe
    loader only."""
    sources = [(path.read_text(), str(path.relative_to(PACKAGE))) for path in SOURCES]
    assert len(sources) > 50
    lints.none(f"{name}:{problem}" for source, name in sources for problem in problems(source, name))
