"""Prints how large the project is: lines of code by subject, files, and how much a user has to know.

    make count
    .venv/bin/python tests/count.py --functions    # names the long functions, too

Lines of code are lines that hold more than blanks, comments and docstrings.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import lizard

from pylayer.cli.main import command
from pylayer.common import file_kinds

ROOT = Path(__file__).resolve().parents[1]
#: Pages outside of docs/. The changelog is not counted.
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
#: Written by shim/generate_registry.py.
GENERATED = tuple(f"shim/layer/vulkan/{name}" for name in ("registry.inc", "registry.h", "vk_compat.h"))
SCHEMA = ROOT / "pylayer" / "common" / "policy.schema.json"
LONG_FUNCTION = 40
#: Options that every command has.
EVERYWHERE = {"help", "version"}


def files(*folders: str) -> list[str]:
    """Returns the paths of all files in these folders, from the project's root."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    return sorted(str(path.relative_to(ROOT)) for path in found if path.is_file() and path.suffix != ".pyc")


def lines_of_python(text: str) -> int:
    """Returns the lines of code. Comments, blank lines and docstrings are none."""
    passed = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    found: set[int] = set()
    before = tokenize.NEWLINE
    for token, after in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
        alone = token.type == tokenize.STRING and before in passed and after.type in passed
        if token.type not in passed and not alone:
            found.update(range(token.start[0], token.end[0] + 1))
        before = before if token.type in (tokenize.COMMENT, tokenize.NL) else token.type
    return len(found)


#: Strings, which may hold what looks like a comment, and comments of C, JavaScript and CSS.
STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|(/\*.*?\*/|//[^\n]*)', re.DOTALL)


def lines_of_c(text: str) -> int:
    """Returns the lines that are neither blank nor comments."""
    bare = STRING_OR_COMMENT.sub(lambda match: "" if match[1] else match[0], text)
    return sum(bool(line.strip()) for line in bare.splitlines())


def code_lines() -> dict[str, int]:
    """Returns the lines of code of each file in shim/, pylayer/ and tests/."""
    found = {}
    for name in files("shim", "pylayer", "tests"):
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        if name.endswith(".py"):
            found[name] = lines_of_python(text)
        elif name.endswith((".c", ".h", ".inc", ".cc", ".cpp", ".js", ".css")):
            found[name] = lines_of_c(text)
    return found


def words() -> int:
    """Returns the words of all pages but the changelog."""
    pages = [name for name in files("docs") if name.endswith(".md")]
    return sum(len((ROOT / name).read_text(encoding="utf-8").split()) for name in [*ROOT_PAGES, *pages])


def commands(group: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Returns each command that does something, below groups too."""
    if not isinstance(group, click.Group):
        yield name, group
        return
    context = click.Context(group)
    for part in group.list_commands(context):
        below = group.get_command(context, part)
        if below is not None:
            yield from commands(below, f"{name} {part}".strip())


def options(found: list[click.Command]) -> int:
    """Returns the number of options of all commands together. One that several have in common counts in each."""
    return sum(
        isinstance(parameter, click.Option) and not parameter.hidden and parameter.name not in EVERYWHERE
        for one in found
        for parameter in one.params
    )


def policy_keys(schema: dict[str, Any]) -> int:
    """Returns the number of keys that a policy file can have. A mapping counts by its own keys."""
    settings = schema["definitions"]["settings"]
    properties = {**schema["properties"], "settings": settings}
    return sum(len(below.get("properties") or [below]) for below in properties.values())


def long_functions() -> list[tuple[str, int]]:
    """Returns the C functions of the product that are longer than they should be, longest first."""
    sources = [str(ROOT / name) for name in files("shim") if name.endswith((".c", ".h"))]
    found = [
        (f"{Path(file.filename).relative_to(ROOT)}:{function.start_line} {function.name}", function.length)
        for file in lizard.analyze_files(sources)
        for function in file.function_list
        if function.length > LONG_FUNCTION
    ]
    return sorted(found, key=lambda one: -one[1])


def main() -> None:
    """Prints the figures, one a line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--functions", action="store_true")
    names_them = parser.parse_args().functions
    lines = code_lines()

    def total(start: str, *ends: str) -> int:
        return sum(count for name, count in lines.items() if name.startswith(start) and name.endswith(ends))

    generated = sum(lines.get(name, 0) for name in GENERATED)
    found = dict(commands(command))
    long = long_functions()
    figures = {
        "C by hand": total("shim/", ".c", ".h", ".inc") - generated,
        "C generated": generated,
        "Python": total("pylayer/", ".py"),
        "Python that builds": total("shim/", ".py"),
        "page of the report": total("pylayer/", ".js", ".css"),
        "tests": total("tests/", ".py", ".c", ".h", ".cc", ".cpp", ".js"),
        "words of pages": words(),
        "kinds of files": len(file_kinds.TABLE),
        "policy keys": policy_keys(json.loads(SCHEMA.read_text(encoding="utf-8"))),
        "commands": len(found),
        "options": options(list(found.values())),
        f"C functions above {LONG_FUNCTION} lines": len(long),
    }
    for name, figure in figures.items():
        print(f"{name:32} {figure:7}")
    folders: Counter[str] = Counter()
    for name in files("shim", "pylayer", "tests", "docs", "config", "packaging"):
        folders["/".join(name.split("/")[:-1][:2])] += 1
    print("\nfiles of each folder: " + ", ".join(f"{name} {count}" for name, count in sorted(folders.items())))
    for name, length in long if names_them else ():
        print(f"{length:4} {name}")


if __name__ == "__main__":
    main()
