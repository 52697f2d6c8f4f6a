"""Writes docs/pylayer.1 from the commands' own help, docs/man-introduction.txt and the variables in
docs/policy-reference.md, the numbers of `pylayer stats` in docs/json.yaml, what drivers do with pipeline caches in
docs/internals/coverage.md, from tests/drivers/facts.json.

make docs
.venv/bin/python docs/generate.py --check     # which of them is stale, and status 1 if one is
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from pylayer import __version__
from pylayer.cli.main import command
from pylayer.report.counters import NUMBERS
from pylayer.report.recorded import OF_COMPILES

DOCS = Path(__file__).resolve().parent
#: In a list of options each of them would have it.
EVERYWHERE = "--help"


# ---- what the commands say of themselves ---------------------------------------------------------------


@dataclass
class Example:
    """What stands above a few lines, and the lines."""

    heading: str
    lines: list[str] = field(default_factory=list)


@dataclass
class Page:
    """One command's help, in parts."""

    path: str
    short: str
    usage: str
    paragraphs: list[str] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    arguments: list[tuple[str, str]] = field(default_factory=list)
    options: list[tuple[str, str]] = field(default_factory=list)
    #: Of a group, the commands in it.
    commands: list[str] = field(default_factory=list)
    exit_status: str = ""


def _read_help(page: Page, text: str) -> None:
    for block in re.split(r"\n{2,}", inspect.cleandoc(text).partition("\f")[0]):
        if not block.startswith("\b"):
            page.paragraphs.append(" ".join(block.split()))
            continue
        for line in block.split("\n")[1:]:
            if line.startswith(" "):
                page.examples[-1].lines.append(line.strip())
            else:
                page.examples.append(Example(line.strip()))


def _page(found: click.Command, context: click.Context) -> Page:
    usage = " ".join([context.command_path, *found.collect_usage_pieces(context)])
    page = Page(context.command_path, found.get_short_help_str(200), usage)
    _read_help(page, found.help or "")
    page.exit_status = " ".join((found.epilog or "").split()).removeprefix("Exit status: ")
    for parameter in found.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Argument):
            page.arguments.append((parameter.make_metavar(context), parameter.help or ""))
        elif record is not None and EVERYWHERE not in record[0]:
            page.options.append(record)
    return page


def pages(found: click.Command = command, parent: click.Context | None = None) -> Iterator[Page]:
    """The command and all below it, a group before its own."""
    name = "pylayer" if parent is None else found.name
    with click.Context(found, parent=parent, info_name=name) as context:
        page = _page(found, context)
        inner = []
        if isinstance(found, click.Group):
            for word in found.list_commands(context):
                below = found.get_command(context, word)
                if below is not None and not below.hidden:
                    inner.append(below)
                    page.commands.append(f"{context.command_path} {word}")
        yield page
        for below in inner:
            yield from pages(below, context)


# ---- tables of other pages -----------------------------------------------------------------------------


def _type(name: str) -> str:
    return "integer or null" if name in OF_COMPILES else "integer"


def json_output() -> str:
    """docs/json.yaml, with the numbers of `pylayer stats` from pylayer/report/counters.py."""
    numbers = "".join(f"    {name}: {_type(name)} - {row.meaning}\n" for name, row in NUMBERS.items())
    text = (DOCS / "json.yaml").read_text(encoding="utf-8")
    block = re.compile(r"(    # numbers\n).*?(    # end of the numbers\n)", re.DOTALL)
    return block.sub(lambda found: found[1] + numbers + found[2], text)


def _hit_flag(row: dict[str, Any]) -> str:
    kinds = {kind: row[f"{kind}_hits"] for kind in ("compute", "graphics")}
    words = {"": "never", "own cache, driver's cache": "also for the driver's cache"}
    wrong = [f"{kind}: {words.get(when, when)}" for kind, when in kinds.items() if when != "own cache"]
    return "right" if not wrong else "never" if not any(kinds.values()) else "; ".join(wrong)


def _binaries(row: dict[str, Any]) -> str:
    return row["global_key"] if row["pipeline_binary"] else "no"


def _sizes(rows: list[dict[str, Any]]) -> str:
    kinds = [sorted(row[f"{kind}_bytes"] for row in rows) for kind in ("compute", "graphics")]
    return ", ".join(str(one[0]) if one[0] == one[-1] else f"{one[0]} to {one[-1]}" for one in kinds)


#: The columns of facts that chips of one driver may share.
FACTS = {
    "cache control": lambda row: "yes" if row["cache_control"] else "no",
    "binaries, global key": _binaries,
    "hit flag": _hit_flag,
    "small caches": lambda row: "found" if row["small_caches_found"] else "lost",
    "merges": lambda row: row["merge"],
    "captured representations": lambda row: "kept" if row["captured_kept"] else "not kept",
    "`VK_INCOMPLETE`": lambda row: row["incomplete_at_exact_size"] or "right",
    "over a warm cache": lambda row: row["bytes_over_warm_cache"],
}


def drivers() -> str:
    """docs/internals/coverage.md, with a new table of what drivers do with pipeline caches."""
    facts = json.loads((DOCS.parent / "tests" / "drivers" / "facts.json").read_text(encoding="utf-8"))
    builds: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in facts:
        told = (row["driver"], row["version"], *(column(row) for column in FACTS.values()))
        builds.setdefault(told, []).append(row)
    # Versions of a driver that answer alike on the same chips share a row.
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for (driver, _, *columns), rows in builds.items():
        chips = ", ".join(row["chip"] for row in rows)
        groups.setdefault((driver, chips, *columns), []).extend(rows)
    lines = [
        f"| driver | chips | version | {' | '.join(FACTS)} | bytes of a pipeline |",
        "|---" * (len(FACTS) + 4) + "|",
    ]
    for (driver, chips, *columns), rows in groups.items():
        versions = ", ".join(dict.fromkeys(row["version"] for row in rows))
        lines.append(f"| {driver} | {chips} | {versions} | {' | '.join(columns)} | {_sizes(rows)} |")
    text = (DOCS / "internals" / "coverage.md").read_text(encoding="utf-8")
    block = re.compile(r"(<!-- facts -->\n).*?(<!-- end of facts -->)", re.DOTALL)
    return block.sub(lambda found: found[1] + "\n".join(lines) + "\n" + found[2], text)


# ---- man page ------------------------------------------------------------------------------------------


def _roff(text: str) -> str:
    """Text as roff takes it literally."""
    text = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("~", "\\(ti")
    )
    return f"\\&{text}" if text.startswith(".") else text


def _roff_text(text: str) -> str:
    """Prose: a hyphen is one inside a word, and a minus where an option begins."""
    text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", text)
    bold = re.split(r"`([^`]*)`", text)
    pieces = [f"\\fB{_roff(piece)}\\fR" if number % 2 else _roff_prose(piece) for number, piece in enumerate(bold)]
    line = "".join(pieces)
    return f"\\&{line}" if line.startswith((".", "\\(aq")) else line


def _roff_prose(text: str) -> str:
    text = text.replace("\\", "\\e").replace("'", "\\(aq").replace("~", "\\(ti")
    return re.sub(r"(?<![\w-])(-+)(?=\w)|(?<=-)(-)", lambda found: found[0].replace("-", "\\-"), text)


def _roff_list(rows: list[tuple[str, str]]) -> list[str]:
    lines = []
    for name, text in rows:
        lines += [".TP", f".B {_roff(name)}", _roff_text(text) or "\\&"]
    return lines


def _roff_page(page: Page) -> list[str]:
    lines = [f'.SS "{_roff(page.path)}"', f".B {_roff(page.usage)}"]
    for paragraph in page.paragraphs:
        lines += [".PP", _roff_text(paragraph)]
    lines += _roff_list([*page.arguments, *page.options])
    for example in page.examples:
        lines += [".PP", _roff_text(example.heading), ".RS 4", ".EX", *map(_roff, example.lines), ".EE", ".RE"]
    if page.exit_status:
        lines += [".PP", f"Exit status: {_roff_text(page.exit_status)}"]
    return lines


def variables() -> list[tuple[str, str]]:
    """Each variable in docs/policy-reference.md, and what it means."""
    text = (DOCS / "policy-reference.md").read_text(encoding="utf-8").partition("\n## Variables\n")[2]
    return re.findall(r"^- `(\w+)`: (.*)$", text, re.MULTILINE)


def man() -> str:
    """docs/pylayer.1."""
    found = list(pages())
    root = found[0]
    lines = [
        ".\\\" make docs writes this file, from the commands' own help and docs/policy-reference.md.",
        f'.TH PYLAYER 1 "" "pylayer {_roff(__version__)}" "User Commands"',
        ".SH NAME",
        "pylayer \\- save and reuse the Vulkan pipelines of unchanged programs",
        ".SH SYNOPSIS",
        ".B pylayer run \\-\\- \\fIAPP\\fR [\\fIARGS\\fR]...",
        ".br",
        ".B pylayer \\fICOMMAND\\fR [\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
    ]
    introduction = (DOCS / "man-introduction.txt").read_text(encoding="utf-8")
    for block in introduction.strip("\n").split("\n\n"):
        if block.startswith("- "):
            for item in block.split("\n- "):
                lines += [".IP \\(bu 2", _roff_text(" ".join(item.removeprefix("- ").split()))]
        else:
            lines += [".PP", _roff_text(" ".join(block.split()))]
    lines += [".SH OPTIONS", *_roff_list([*root.options, ("-h, --help", "Show the help of pylayer, or of a command.")])]
    lines += [".SH COMMANDS"]
    for page in found[1:]:
        lines += _roff_page(page)
    lines += [".SH ENVIRONMENT", *_roff_list(variables())]
    lines += [
        ".SH FILES",
        *_roff_list(
            [
                ("~/.cache/pylayer", "The store, with what runs said of themselves. It may be deleted at any time."),
                ("~/.config/pylayer/policy.yaml", "The policy file, if there is one."),
            ]
        ),
        ".SH SEE ALSO",
        ".BR vulkaninfo (1)",
    ]
    return "\n".join(lines) + "\n"


# ---- files ---------------------------------------------------------------------------------------------

FILES = {
    "json.yaml": json_output,
    "internals/coverage.md": drivers,
    "pylayer.1": man,
}


def main() -> int:
    """Writes the files, or with --check says which is stale; returns the exit status."""
    check = sys.argv[1:] == ["--check"]
    stale = 0
    for name, make in FILES.items():
        path = DOCS / name
        text = make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if check:
            print(f"docs/{name} is not what the sources say; make docs writes it")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"docs/{name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
