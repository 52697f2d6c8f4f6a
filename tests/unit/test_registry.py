"""shim/generate_registry.py: its output matches the registry, and compilers agree with it on the registry's headers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "shim"))

from generate_registry import FILES, LAYER, NO_TYPE, Registry  # noqa: E402
from registry_members import Members  # noqa: E402
from registry_rules import QUICK, RULES  # noqa: E402

#: The packages that tests/registry/fetch.sh fetched, and those of the system.
NEWEST, SYSTEM = ROOT / "build" / "registry", Path("/usr")
TEXT = (LAYER / "registry.inc").read_text()
PACKAGE = re.search(r"libvulkan-dev (\S+)\. \*/", TEXT)[1]  # type: ignore[index]
ROWS = re.findall(r"^    \{(\d+)u, (\d+), [\w, ]+\}, /\* (\w+) \*/$", TEXT, re.M)
TYPES = [int(type) for type, _, _ in ROWS]
#: Size in bytes by name.
SIZES = {name: int(size) for _, size, name in ROWS}
CACHE_COMMANDS = re.findall(r"^vk(\w+)$", TEXT, re.M)

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


@cache
def registry_at(place: Path) -> Registry:
    if place == NEWEST:
        need_its_package()
        return Registry(NEWEST / "vk.xml")
    path = place / "share" / "vulkan" / "registry" / "vk.xml"
    if not path.exists():
        pytest.skip(f"this system has no registry: {path}")
    return Registry(path)


@pytest.mark.foreign
@pytest.mark.parametrize("name", FILES)
def test_file_is_its_registrys(name: str) -> None:
    """From the registry that the table names, the generator writes the existing file, byte for byte."""
    assert FILES[name](registry_at(NEWEST), PACKAGE) == (LAYER / name).read_text()


def test_table_can_be_searched() -> None:
    """Rows are sorted by sType and unique, those without one come last, and none is missing here."""
    typed = [one for one in TYPES if one != NO_TYPE]
    assert typed == sorted(set(typed)) == TYPES[: len(typed)]
    assert len(SIZES) == len(TYPES) > 400


def assertions(registry: Registry) -> Iterator[str]:
    """What a compiler must agree with: sizes, sTypes, and the offset and size of each member. The table has no row of
    plain data, whose size is that of an element."""
    members = Members(registry)
    for one in registry.structures:
        if one.name in SIZES or members.is_plain(one.name):
            size = SIZES.get(one.name, registry.layout(one.name).size)
            yield f'_Static_assert(sizeof({one.name}) == {size}, "{one.name}");'
            if one.type != NO_TYPE:
                yield f'_Static_assert({one.name_of_type} == {one.type}, "{one.name}\'s sType");'
            for name, offset, element in registry.placed(one.name):
                size = registry.member_layout(element).size
                yield f'_Static_assert(offsetof({one.name}, {name}) == {offset}, "{one.name}.{name}");'
                yield f'_Static_assert(sizeof((({one.name} *)0)->{name}) == {size}, "{one.name}.{name}");'


@pytest.mark.parametrize(
    "place", [pytest.param(SYSTEM, id="system"), pytest.param(NEWEST, id="newest", marks=pytest.mark.foreign)]
)
def test_layout_is_the_compilers(place: Path, tmp_path: Path) -> None:
    """Each structure that both the registry and the table know has the size and the members that a compiler finds in
    the registry's headers. A structure never changes (Vulkan, 'Compatibility Guarantees'), under any name."""
    include = place / "include"
    headers = [f"vulkan/vulkan_{name}.h" for name in ("core", *PLATFORMS)]
    lines = ["#include <stddef.h>", *(f"#include <{name}>" for name in headers if (include / name).exists())]
    lines += list(assertions(registry_at(place)))
    source = tmp_path / "layout.c"
    source.write_text("\n".join([*lines, ""]))
    compiler = subprocess.run(["cc", f"-I{include}", "-fsyntax-only", source], capture_output=True, text=True)
    assert compiler.returncode == 0, compiler.stderr
    assert len(lines) >= 1500


@pytest.mark.foreign
def test_rules_name_members() -> None:
    """Each rule is of a structure and a member that exist: a typing error would let the walk follow an ignored
    pointer."""
    members = Members(registry_at(NEWEST))
    for structure, rules in (*RULES.items(), *((name, rules or {}) for name, rules in QUICK.items())):
        assert structure in members.indexes
        assert rules.keys() <= members.offsets(structure).keys(), structure


def test_no_ignored_pointer_is_followed() -> None:
    """A pointer that the registry has no rule of validity for (noautovalidity) is followed only by a rule of ours."""
    registry = registry_at(NEWEST)
    members = Members(registry)
    for structure in members.indexes:
        followed = {one.name for one in members.of(structure, False) if one.counting != "HERE"}
        for name, _, element in registry.placed(structure):
            if "*" in registry.declaration(element) and element.get("noautovalidity") and name != "pNext":
                assert name not in followed or name in RULES.get(structure, {}), (structure, name)


def test_fingerprints_have_no_member_of_their_own() -> None:
    """Pipelines with equal canonical forms have equal fingerprints: whatever a fingerprint is made of counts among all
    members, too, under the same rule or a weaker one."""
    members = Members(registry_at(NEWEST))
    chosen = [(structure, one) for structure in QUICK for one in members.of(structure, True)]
    every = {structure: members.of(structure, False) for structure in QUICK}
    rules = {number: rule for rule, number in members.rules.items()}
    for structure, one in chosen:
        for name in one.name.split():
            (same,) = [each for each in every[structure] if name in each.name.split() and each.value == one.value]
            assert (same.kind, same.target, same.when) == (one.kind, one.target, one.when)
            (*weaker, all_weaker, moot, _), (*stronger, all_stronger, moot_too, _) = rules[same.rule], rules[one.rule]
            assert all(set(few) <= set(many) for few, many in zip(weaker, stronger, strict=True)), (structure, name)
            assert (all_weaker, moot) == (all_stronger, moot_too)


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
    assert len(lines) > 70
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
    assert len(CACHE_COMMANDS) >= 10
