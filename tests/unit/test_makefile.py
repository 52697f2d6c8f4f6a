"""Every target of the Makefile works in a clone in which nothing else ran."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lints
import pytest
from world import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
#: Modules of the packages that only the tests need (pyproject.toml).
TEST_ONLY = {
    re.split(r"[><=]", name)[0].lower().replace("-", "_")
    for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["test"]
}


@dataclass
class Rule:
    needs: list[str]
    recipe: str


def rules() -> dict[str, Rule]:
    """Returns the rules by target. What a recipe has another make do is needed, too."""
    found = {}
    for targets, needs, recipe in re.findall(r"^([\w%-][\w% -]*):(?!=)(.*)\n((?:\t.*\n)*)", MAKEFILE, re.M):
        inner = " ".join(re.findall(r"\$\(MAKE\).*", recipe))
        for target in targets.split():
            found[target] = Rule(re.findall(r"[\w$()/.-]+", f"{needs} {inner}"), recipe)
    return found


RULES = rules()


def all_needs(target: str) -> set[str]:
    """Returns what is made before the recipe of ``target`` runs."""
    found: set[str] = set()
    waiting = [target]
    while waiting:
        for need in RULES[waiting.pop()].needs:
            if need not in found:
                found.add(need)
                waiting += [need] if need in RULES else []
    return found


def test_store_numbers() -> None:
    """The header of numbers is made again if one of the modules changes that have them, and for no other."""
    named = re.search(r"^NUMBERED := (.*)$", MAKEFILE, re.M)
    source = ast.parse((ROOT / "shim" / "policy" / "store_numbers.py").read_text())
    (shared,) = [node.value for node in source.body if isinstance(node, ast.Assign) and "SHARED" in ast.unparse(node)]
    assert named is not None
    assert set(named[1].split()) == {module for module, *_ in ast.literal_eval(shared)}


def runtime_imports(file: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    waiting: list[ast.AST] = [ast.parse(file.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(node)


def imported(script: Path) -> Iterator[tuple[Path, str]]:
    """Yields the modules that a script of the tests imports, itself or through other files of the tests, with the file
    that does."""
    seen = {script}
    waiting = [script]
    while waiting:
        file = waiting.pop()
        for node in runtime_imports(file):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                yield file, name.partition(".")[0]
                for base in (ROOT / "tests", script.parent):
                    other = base / f"{name.replace('.', '/')}.py"
                    if other.exists() and other not in seen:
                        seen.add(other)
                        waiting.append(other)


SCRIPTS = [
    (target, ROOT / script)
    for target, rule in RULES.items()
    if "$(VENV)/extra-test" not in all_needs(target)
    for script in re.findall(r"\$\(BIN\)/python (?:-P )?((?:tests|docs)/\S+\.py)", rule.recipe)
]


@pytest.mark.parametrize(("target", "script"), SCRIPTS, ids=lambda value: getattr(value, "stem", value))
def test_scripts_import_what_is_installed(target: str, script: Path) -> None:
    """A target that does not install the packages of the tests runs no script that imports one of them."""
    assert len(SCRIPTS) > 10
    lints.none(
        f"make {target}: {file.relative_to(ROOT)} imports {name}"
        for file, name in imported(script)
        if name.lower() in TEST_ONLY
    )


@pytest.mark.parametrize("target", [name for name, rule in RULES.items() if "$(BIN)/pytest" in rule.recipe])
def test_pytest_is_installed(target: str) -> None:
    """A target that runs pytest installs it."""
    assert "$(VENV)/extra-test" in all_needs(target)


def test_names_of_targets() -> None:
    """Targets that the Makefile's head and the pages name exist."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]
    named = re.findall(r"^# make ([\w-]+)", MAKEFILE, re.M)
    for page in pages:
        named += re.findall(r"(?:`|^    )make ([a-z][\w-]*)", page.read_text(), re.M)
    lints.none(f"make {name}" for name in named if name not in RULES)


@pytest.mark.parametrize(("target", "driver"), [("install", False), ("setup", False), ("demo", True), ("check", True)])
def test_packages_of_a_target(tmp_path: Path, target: str, driver: bool) -> None:
    """A user without root is told which packages are missing. To install needs no driver and no shader compiler."""
    for name, script in (("dpkg-query", "exit 1"), ("id", "echo 1000"), ("apt-cache", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))}
    found = subprocess.run(["make", "-pn", target], cwd=ROOT, env=alone, capture_output=True, text=True).stdout
    (packages,) = re.findall(r"^PACKAGES := (\w+)$", found, re.M)
    done = subprocess.run(
        [ROOT / ".ci" / "system-packages", packages],
        env={**alone, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr.startswith(
        "pylayer: packages are missing: sudo apt-get install gcc make"
    )
    assert ("mesa-vulkan-drivers" in done.stderr) == ("glslang-tools" in done.stderr) == driver
    assert "libxxhash-dev" in done.stderr and done.stderr.count("\n") == 1
