"""shim/generate_registry.py: its output matches the registry, and compilers agree with it on the registry's headers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "shim"))

from generate_registry import FILES, LAYER, Registry  # noqa: E402

#: The packages that tests/registry/fetch.sh fetched, and those of the system.
NEWEST, SYSTEM = ROOT / "build" / "registry", Path("/usr")
TEXT = (LAYER / "registry.inc").read_text()
PACKAGE = re.search(r"libvulkan-dev (\S+)\. \*/", TEXT)[1]  # type: ignore[index]
#: Size in bytes by the value of sType.
SIZES = {int(row[1]): int(row[2]) for row in re.finditer(r"^STRUCTURE\(\w+, (\d+), (\d+), [A-Z_ |]+\)$", TEXT, re.M)}
CACHE_COMMANDS = re.findall(r"^PIPELINE_CACHE_COMMAND\(vk(\w+)\)$", TEXT, re.M)

#: Headers that declare structures of the table without anything of their platform's.
PLATFORMS = ("android", "ohos", "screen")


def fetched() -> str:
    """Returns the version of the package that was fetched."""
    file = NEWEST / "package"
    return file.read_text().strip() if file.exists() else ""


def need_its_package() -> None:
    if fetched() != PACKAGE:
        pytest.skip(
            f"the table is of libvulkan-dev {PACKAGE}, and tests/registry/fetch.sh found {fetched() or 'nothing'};"
            " it prints how to renew the table"
        )


def registry_at(place: Path) -> Registry:
    if place == NEWEST:
        need_its_package()
        return Registry(NEWEST / "vk.xml")
    path = place / "share" / "vulkan" / "registry" / "vk.xml"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return Registry(path)


@pytest.mark.parametrize("name", FILES)
def test_file_is_its_registrys(name: str) -> None:
    """From the registry that the table names, the generator writes the existing file, byte for byte."""
    assert FILES[name](registry_at(NEWEST), PACKAGE) == (LAYER / name).read_text()


def test_table_can_be_searched() -> None:
    """Rows are sorted by sType and unique, and none is missing here."""
    assert list(SIZES) == sorted(SIZES)
    assert len(SIZES) == TEXT.count("STRUCTURE(") > 300


@pytest.mark.parametrize("place", [SYSTEM, NEWEST], ids=["system", "newest"])
def test_sizes_are_the_compilers(place: Path, tmp_path: Path) -> None:
    """Each structure that both the registry and the table know has the size that a compiler finds in the registry's
    headers. A structure never changes its size (Vulkan, 'Compatibility Guarantees'), under any name."""
    structures = [one for one in registry_at(place).structures if one.type in SIZES]
    include = place / "include"
    headers = [f"vulkan/vulkan_{name}.h" for name in ("core", *PLATFORMS)]
    lines = [f"#include <{name}>" for name in headers if (include / name).exists()]
    lines += [
        f'_Static_assert(sizeof({one.name}) == {SIZES[one.type]}, "{one.name}");'
        f'\n_Static_assert({one.name_of_type} == {one.type}, "{one.name}\'s sType");'
        for one in structures
    ]
    source = tmp_path / "sizes.c"
    source.write_text("\n".join([*lines, ""]))
    compiler = subprocess.run(["cc", f"-I{include}", "-fsyntax-only", source], capture_output=True, text=True)
    assert compiler.returncode == 0, compiler.stderr
    assert len(structures) >= 160


def names_seen(include: Path, directory: Path) -> str:
    """Returns what a program prints of everything that vk_compat.h declares, with the headers of a package."""
    text = (LAYER / "vk_compat.h").read_text()
    numbers = re.findall(r"^#define (VK_\w+) [^\n\"]+$", text, re.M)
    texts = re.findall(r"^#define (VK_\w+) \"", text, re.M)
    structures = re.findall(r"^typedef struct (Vk\w+) \{$", text, re.M)
    members = re.findall(r"^typedef struct (Vk\w+) \{\n((?:    .+\n)+)", text, re.M)
    lines = ["#include <stdio.h>", "#include <stddef.h>", f'#include "{LAYER}/vk_compat.h"', "int main(void) {"]
    lines += [f'printf("{name} %lld\\n", (long long){name});' for name in numbers]
    lines += [f'printf("{name} %s\\n", {name});' for name in texts]
    lines += [f'printf("{name} %zu\\n", sizeof({name}));' for name in structures]
    for structure, body in members:
        for member in re.findall(r"(\w+)(?:\[\w+\])?;", body):
            lines.append(f'printf("{structure}.{member} %zu\\n", offsetof({structure}, {member}));')
    assert len(lines) > 120
    (directory / "names.c").write_text("\n".join([*lines, "}", ""]))
    program = directory / "names"
    subprocess.run(["cc", f"-I{include}", "-o", program, directory / "names.c"], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def test_newer_names_are_the_headers(tmp_path: Path) -> None:
    """What vk_compat.h adds to the system's headers has the values and the layout of the newest headers."""
    need_its_package()
    assert names_seen(SYSTEM / "include", tmp_path) == names_seen(NEWEST / "include", tmp_path)


def test_cache_users_are_hooked() -> None:
    """The layer hooks every command that uses a VkPipelineCache, because it must not merge into a cache that is in
    use."""
    table = (
        (ROOT / "shim" / "layer" / "driver" / "device_commands.h").read_text().partition("#define DEVICE_COMMANDS")[2]
    )
    hooks = re.findall(r"\bHOOKED\([^()]*?(\w+)\)", table)
    assert set(CACHE_COMMANDS) - set(hooks) == set()
    assert len(CACHE_COMMANDS) == TEXT.count("PIPELINE_CACHE_COMMAND(") >= 10
