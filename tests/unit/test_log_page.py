"""docs/troubleshooting.md lists exactly the warnings and errors that the sources can log."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lints

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
LEVELS = ("error", "warn", "info", "debug")
#: Placeholder for text that is known only when the line is written.
GAP = "…"
#: Functions that write a line, or hand one on that is given to them; their own calls have no text to be found.
PYTHON_CALLS = ("log", "_log", "say", "_say")
C_CALL = re.compile(r"\b(log_line|write_one|log_text|log_exception|put_line|pylayer_shim\(\)->log|commands->log)\(")
#: Parts of a call's arguments: strings, and anything else.
C_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|[^"()]+')
SPECIFIER = re.compile(r"%(?:\.\*)?[0-9]*(?:ll|z)?[sdu]")

Line = tuple[str, str]


def _squeezed(text: str) -> str:
    """Merges adjacent gaps into one."""
    return re.sub(f"{GAP}+", GAP, text)


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)


def _levels(node: ast.expr | None, default: str) -> str:
    names = re.findall(r"LOG_([A-Z]+)", ast.unparse(node)) if node is not None else []
    return ", ".join(sorted({name.lower() for name in names}, key=LEVELS.index)) or default


def python_lines() -> Iterator[Line]:
    for path in (ROOT / "pylayer").rglob("*.py"):
        if "cli" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name not in PYTHON_CALLS:
                continue
            level, text = (node.args[0], node.args[1]) if len(node.args) > 1 else (None, node.args[0])
            for found in _texts(text):
                if found.strip(GAP):
                    yield _levels(level, "info"), _squeezed(found)


def _literal(argument: str) -> str:
    """Joins adjacent string literals, with a gap for each macro between them."""
    pieces = re.findall(r'"((?:[^"\\]|\\.)*)"|([A-Z][A-Z_0-9]+)', argument)
    return _squeezed(SPECIFIER.sub(GAP, "".join(GAP if macro else text for text, macro in pieces)))


def _arguments(source: str, start: int) -> str:
    """Returns the arguments of the call whose parenthesis ends before ``start``."""
    depth, end = 1, start
    for piece in C_PIECE.finditer(source, start):
        depth += {"(": 1, ")": -1}.get(piece.group(), 0)
        if depth == 0:
            return source[start : piece.start()]
        end = piece.end()
    raise AssertionError(source[start:end])


def c_lines() -> Iterator[Line]:
    for path in (ROOT / "shim").rglob("*.c"):
        source = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for call in C_CALL.finditer(source):
            function, arguments = call.group(1), _arguments(source, call.end())
            level = re.search(r"PYLAYER_LOG_(ERROR|WARN|INFO|DEBUG)\b", arguments)
            named = level.group(1).lower() if level else "warn" if function == "put_line" else "info"
            rest = arguments[level.end() :] if level else arguments
            for one in re.split(r"\?|\n\s+: ", rest) if function == "put_line" else [rest]:
                text = _literal(re.split(r'"\s*,', one)[0] + '"' if '"' in one else "")
                if text.strip(GAP):
                    yield named, text + (f": {GAP}" if function in ("log_text", "log_exception") else "")
        for text in re.findall(r'snprintf\(line, sizeof line,\s*((?:"[^"]*"\s*)+),\s*pylayer_call_name', source):
            yield "warn", _literal(text)


def documented() -> list[str]:
    rows = re.findall(r"^\| (`.*`) \| [^|]+ \|$", PAGE.read_text().partition("\n## Warnings\n")[2], re.MULTILINE)
    return [text for row in rows for text in re.findall(r"`([^`]+)`", row)]


def test_every_warning_is_documented() -> None:
    """The page has each line of the levels warn and error once, and no others."""
    lines = {*python_lines(), *c_lines()}
    there = {text for level, text in lines if level.split(", ")[0] in ("error", "warn")}
    known = documented()
    assert len(known) == len(set(known)) > 30
    missing = [f"not on the page: {text}" for text in there - set(known)]
    lints.none([*missing, *(f"not in the sources: {text}" for text in set(known) - there)])


def test_lines_that_are_found() -> None:
    """The search finds lines in both languages, text in pieces, and alternatives."""
    there = {*python_lines(), *c_lines()}
    assert ("info", f"loaded {GAP} records, {GAP} bytes, for {GAP}") in there
    assert ("warn, debug", f"application cache of {GAP} bytes: {GAP}") in there
    assert ("warn", "PYLAYER_LOG_FILE cannot be written") in there
    assert (
        "info",
        f"policy cannot start, so the layer does nothing: {GAP} comes from another build; reinstall pylayer",
    ) in there
    assert ("info", f"policy cannot be loaded, so the layer does nothing: {GAP}") in there
