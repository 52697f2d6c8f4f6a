"""docs/: typing the commands of a terminal block (```console) prints what the block shows, and every link has a target.

The test types the blocks of a page into one shell, in their order. Numbers differ from run to run, so any number
matches any other with the same unit. `…` matches any text, and any lines if it is alone on a line. The order of lines
is not compared, because the layer writes from a thread of its own.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import lints
import pytest
import radv
from cli.user import ON_RADV, User
from world import BUILD, ROOT

from pylayer.common import config

PAGES = sorted([*ROOT.glob("[A-Z]*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
SHOWN = [name for name, page in zip(NAMES, PAGES, strict=True) if BLOCK.search(page.read_text())]
#: Mesa's warnings about a driver without hardware, and of its stand-in for the kernel.
NOISE = re.compile("ac_compute_device_uuid|^DRM_IOCTL_GET_CAP: unhandled")
#: Whose terminal the pages show.
HOME = "/home/ada"


def masked(line: str) -> str:
    """Returns a line without the parts that differ from run to run, and from one Mesa to another."""
    line = re.sub(r"\bMesa \d[\w.+~-]*", "Mesa", line)
    # On a busy machine the store may take longer than the slowest pipeline.
    line = re.sub(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{12,32}\b|\bwaiting for the store\b", "ID", line)
    line = re.sub(r"\d+(\.\d+)*( (us|µs|ms|s|min|B|KiB|MiB|GiB)\b)?", "N", line)
    return " ".join(line.split())


def is_shown(printed: list[str], lines: list[str]) -> bool:
    """Returns whether these lines match what the page shows."""
    left = [masked(line) for line in printed]
    for line in lines:
        pattern = re.compile(re.escape(masked(line)).replace("…", ".*"))
        found = next((text for text in left if pattern.fullmatch(text)), None)
        if line != "…":
            if found is None:
                return False
            left.remove(found)
    return not left or "…" in lines


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Returns each command of a page and the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(page.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


@pytest.mark.parametrize("name", SHOWN)
@ON_RADV
def test_terminal(user: User, name: str) -> None:
    """Every command of the page prints what the page shows."""
    (user.directory / "build").symlink_to(BUILD)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**user.environment, "PATH": path, "COLUMNS": "120", "LC_ALL": "C.UTF-8"}
    for command, lines in commands(ROOT / name):
        done = subprocess.run(
            ["bash", "-c", command.replace(HOME, str(user.home))],
            env=environment,
            cwd=user.directory,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        output = done.stdout.replace(str(user.home), HOME).replace(radv.DEVICE, radv.NULL_HARDWARE)
        printed = [line for line in output.splitlines() if not NOISE.search(line)]
        assert is_shown(printed, lines), "\n".join([f"$ {command}", *printed, f"{name} has", *lines])


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page: those that GitHub makes of its headings, and its own."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    found = set(re.findall(r'<a id="([\w-]+)">', text))
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        while anchor in found:
            anchor += "-1"
        found.add(anchor)
    return found


def broken_links(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        if not (linked.exists() and linked.is_relative_to(ROOT)):
            yield target
        elif anchor and anchor not in anchors(linked):
            yield f"{target}: there is no such heading"


def test_links() -> None:
    """Every link of a page to a file of this repository leads to an existing file and heading."""
    lints.none(f"{page.relative_to(ROOT)}: {problem}" for page in PAGES for problem in broken_links(page))


def test_no_index_is_named() -> None:
    """No page and no message says that pip finds pylayer in a package index, because none has it."""
    sources = [*PAGES, *(ROOT / "pylayer").rglob("*.py")]
    wrong = re.compile(r"pip install[^\n`#]*\bvk-pylayer\b(?![^\n`]* @ )")
    lints.none(f"{path.relative_to(ROOT)}: {text}" for path in sources for text in wrong.findall(path.read_text()))


def test_index() -> None:
    """README.md links to every page."""
    linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text())}
    lints.none(f"README.md has no link to {name}" for name in {*NAMES} - linked - {"README.md"})


def test_architecture_names_files() -> None:
    """Each source that docs/internals/architecture.md names exists. The page names every folder of the layer."""
    text = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    there = {
        path.name for folder in ("shim", "pylayer", "tests", "config", "docs") for path in (ROOT / folder).rglob("*")
    }
    named = set(re.findall(r"`(?:[\w./-]*/)?([\w.-]+\.(?:c|h|py|json|yaml))`", text))
    folders = [path.name for path in (ROOT / "shim" / "layer").iterdir() if path.is_dir()]
    lints.none(
        [
            *(f"{name} is on the page, and not in the tree" for name in named - there),
            *(f"shim/layer/{name} is not on the page" for name in folders if f"    {name}/ " not in text),
        ]
    )


# ---- The reference -------------------------------------------------------------------------------


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


# ---- environment variables -----------------------------------------------------------------------------


def literals() -> Iterator[tuple[str, str]]:
    """Yields every string in the sources that is a name of a variable, with its file."""
    files = [*(ROOT / "pylayer").rglob("*.py"), *(ROOT / "shim").rglob("*.[ch]"), *(ROOT / "manifests").glob("*.json")]
    for path in files:
        for value in re.findall(r"""["']([A-Za-z_]+)["']""", path.read_text(encoding="utf-8")):
            if VARIABLE.fullmatch(value) and value not in NOT_FOR_USERS:
                yield value, str(path.relative_to(ROOT))


def test_every_variable_is_documented() -> None:
    """docs/policy-reference.md lists each variable that the sources name, and no others."""
    found = dict(literals())
    assert {"PYLAYER_LOG", "PYLAYER_STORE", "XDG_RUNTIME_DIR", "VK_LAYER_PATH", "PYLAYER_TRACEBACK"} <= set(found)
    section = (DOCS / "policy-reference.md").read_text().partition("\n## Variables\n")[2].partition("\n## ")[0]
    rows = set(re.findall(r"^- `([^`]+)`: \S", section, re.M))
    problems = [f"{file} reads {name}, which is not on the page" for name, file in found.items() if name not in rows]
    problems += [f"{name} is on the page, and nothing reads it" for name in rows - set(found) - OF_LIBRARIES]
    lints.none(problems)


# ---- The policy ----------------------------------------------------------------------------------


@pytest.fixture
def generator() -> ModuleType:
    """docs/policy_reference.py"""
    spec = importlib.util.spec_from_file_location("policy_reference", ROOT / "docs" / "policy_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_is_not_stale(generator: ModuleType) -> None:
    """The page and config/default.yaml describe each key as the schema does; `make docs` writes them."""
    assert generator.PAGE.read_text() == generator.page(), "docs/policy-reference.md is stale: run make docs"
    found = generator.DEFAULT_FILE.read_text()
    assert found == generator.default_file(), "config/default.yaml is stale: run make docs"


def test_examples_are_valid(generator: ModuleType) -> None:
    """Each YAML block of docs/policy.md, each key in its tables, and each example of the schema, is a policy file that
    pylayer accepts."""
    page = (ROOT / "docs" / "policy.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    cells = [text for row in re.findall(r"^\|.*$", page, re.M) for text in re.findall(r"`(\w+: [^`]+)`", row)]
    assert len(blocks) >= 2 and len(cells) >= 5
    for block in [*blocks, *cells]:
        config.parse(block, "docs/policy.md")
    for key, definition in config.schema()["definitions"]["settings"]["properties"].items():
        example = f"{key}: {generator.yaml_text(definition['examples'][0])}"
        config.parse(f"settings:\n  {example}\n", example)


# ---- The log -------------------------------------------------------------------------------------

#: A call of C with which a warning or an error is logged, and the beginning of its text.
C_CALL = re.compile(r'PYLAYER_LOG_(?:ERROR|WARN)\b[^;"]*?"((?:[^"\\]|\\.)*)"')
#: What is known only when the line is written.
GAP = re.compile(r"%(?:\.\*)?[0-9]*(?:ll|z)?[sdu]|{[^}]*}")
#: Ends of lines whose text is from a table, which says itself what happened.
OF_TABLES = {"pylayer ls shows more", "pylayer rm --all --blocks switches it on again"}


def warnings() -> Iterator[str]:
    """Yields a piece of each warning and error of the sources: its beginning, or what is longest."""
    texts = [text for path in (ROOT / "shim").rglob("*.c") for text in C_CALL.findall(path.read_text())]
    for path in (ROOT / "pylayer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            arguments = node.args if isinstance(node, ast.Call) and "cli" not in path.parts else []
            if len(arguments) > 1 and re.search("LOG_(WARN|ERROR)", ast.unparse(arguments[0])):
                texts += re.findall(r"""^f?["'](.*)["']$""", ast.unparse(arguments[1]))
    for first, *pieces in map(GAP.split, texts):
        yield (first or max(pieces, key=len, default="")).strip(": ;,")


def test_every_warning_is_documented() -> None:
    """docs/troubleshooting.md has each line of the levels warn and error."""
    section = " ".join((DOCS / "troubleshooting.md").read_text().partition("\n## Warnings\n")[2].split())
    found = {*filter(None, warnings())} - OF_TABLES
    assert len(found) > 20
    lints.none(f"not on the page: {text}" for text in found if text not in section)
