"""docs/: typing the commands of a terminal block (```console) prints what the block shows, and every link has a target.

The test types the blocks of a page into one shell, in their order. Numbers differ from run to run, so any number
matches any other with the same unit. `…` matches any text, and any lines if it is alone on a line. The order of lines
is not compared, because the layer writes from a thread of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lints
import pytest
import radv
from cli.marks import ON_RADV
from cli.user import User
from world import BUILD, ROOT

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
