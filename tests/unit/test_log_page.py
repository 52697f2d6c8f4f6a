"""docs/troubleshooting.md lists the warnings and errors that the sources can log, each as it is printed, and
quotes other messages word for word."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lints

from pylayer.common import outcomes
from pylayer.store import block_list
from pylayer.store.block_list import TABLE, Block
from pylayer.values import KIND_NAMES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
LEVELS = ("error", "warn", "info", "debug")
#: Placeholder for text that is known only when the line is written.
GAP = "…"
#: Functions that write a line, or hand one on that is given to them; their own calls have no text to be found.
PYTHON_CALLS = ("log", "_log", "say", "_say")
C_CALL = re.compile(r"\b(log_line|write_one|log_text|log_exception|pylayer_shim\(\)->log|commands->log)\(")
#: Parts of a call's arguments: strings, and anything else.
C_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|[^"()]+')
SPECIFIER = re.compile(r"%(?:\.\*)?[0-9]*(?:ll|z)?[sdu]")

Line = tuple[str, str]

#: Lines whose text stands in a table of the sources; the page has what the function returns instead.
TELLS = f"{GAP}: {GAP}; pylayer ls shows more"
SWITCHES_OFF = f"{GAP}: {GAP}; pylayer rm --all --blocks switches it on again"


def _squeezed(text: str) -> str:
    """Merges adjacent gaps into one."""
    return re.sub(f"{GAP}+", GAP, text)


def _texts(node: ast.AST) -> Iterator[str]:
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
            named = level.group(1).lower() if level else "info"
            rest = arguments[level.end() :] if level else arguments
            text = _literal(re.split(r'"\s*,', rest)[0] + '"' if '"' in rest else "")
            if text.strip(GAP):
                yield named, text + (f": {GAP}" if function in ("log_text", "log_exception") else "")


def of_tables() -> list[str]:
    """Returns the texts of tables that lines contain, with a gap or an example for each number."""
    found = [f"{GAP}: {name}{GAP}: {meaning}" for name, meaning in outcomes.STORE.items()]
    for type, row in TABLE.items():
        one = Block(type, KIND_NAMES.index("graphics"), row.runs, 0, 8, 0, 0, 0)
        found += [block_list.sentence([one]), block_list.sentence([one], ended=True)]
    return found


def documented() -> list[str]:
    """Returns the lines of the list: what is quoted before the first colon that no quotation has."""
    section = PAGE.read_text().partition("\n## Warnings\n")[2]
    rows = re.findall(r"^- ((?:`[^`]+`,?\s+)*`[^`]+`): ", section, re.MULTILINE)
    return [text for row in rows for text in re.findall(r"`([^`]+)`", " ".join(row.split()))]


def is_of(template: str, line: str) -> bool:
    """Returns whether the sources can print this line of the page, which may have an example for a gap."""
    return re.fullmatch(".*".join(map(re.escape, template.split(GAP))), line) is not None


def test_every_warning_is_documented() -> None:
    """The page has each line of the levels warn and error, and none that the sources cannot print. It need not have the
    texts of tables, which say themselves what happened."""
    lines = {text for level, text in {*python_lines(), *c_lines()} if level.split(", ")[0] in ("error", "warn")}
    lines -= {TELLS, SWITCHES_OFF}
    tables, known = of_tables(), documented()
    assert len(known) == len(set(known)) >= 25
    missing = {line for line in lines if not any(is_of(line, text) or is_of(text, line) for text in known)}
    unknown = [text for text in known if not any(is_of(line, text) for line in [*lines, *tables])]
    told = [f"not on the page: {line}" for line in missing]
    lints.none([*told, *(f"not in the sources: {line}" for line in unknown)])


def test_messages_of_commands() -> None:
    """Messages that the page quotes outside of its list of warnings consist of texts of the sources."""
    texts: set[str] = set()
    for path in (ROOT / "pylayer").rglob("*.py"):
        texts |= {text for node in ast.walk(ast.parse(path.read_text())) for text in _texts(node)}
    texts |= {text for path in (ROOT / "shim").rglob("*.c") for text in re.findall(r'"([^"]+)"', path.read_text())}
    pieces = sorted({piece for text in texts for piece in text.split(GAP) if len(piece) > 9}, key=len, reverse=True)
    page = re.sub(r"^```.*?^```", "", PAGE.read_text().partition("\n## Warnings\n")[0], flags=re.DOTALL | re.MULTILINE)
    quoted = [" ".join(text.split()) for text in re.findall(r"`([^`]+)`", page)]
    commands = ("pylayer ", "sudo ", "DISABLE_PYLAYER=1 ")
    messages = [text for text in quoted if (GAP in text or text.count(" ") > 3) and not text.startswith(commands)]
    assert len(messages) > 8
    wrong = []
    for message in messages:
        left = message
        for piece in pieces:
            left = left.replace(piece, GAP)
        # A link between two texts may stay, as "in" does.
        wrong += [f"not in the sources: {message}: {left}"] * (len(re.findall(r"[A-Za-z]{2,}", left)) > 2)
    lints.none(wrong)
