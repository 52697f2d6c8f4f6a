"""Write what the layer has of Vulkan's registry: all structures that decide what a pipeline becomes, with their members
and the commands that use a VkPipelineCache (layer/vulkan/registry.inc, registry.h), and declarations that older headers
lack (vk_compat.h).

tests/registry/fetch.sh brings the newest registry that Debian has, and prints how to run this over it. The results are
committed, so that building needs no newer headers than those of the oldest system.
"""

from __future__ import annotations

import argparse
import re
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from registry_compat import Compat
from registry_members import Members
from registry_rules import FACTS

LAYER = Path(__file__).parent / "layer" / "vulkan"

#: What the table describes, with all that can be reached from it.
ROOTS = (
    "VkInstanceCreateInfo",
    "VkDeviceCreateInfo",
    "VkGraphicsPipelineCreateInfo",
    "VkComputePipelineCreateInfo",
    "VkRayTracingPipelineCreateInfoKHR",
    "VkPipelineShaderStageCreateInfo",
    "VkShaderModuleCreateInfo",
    "VkDescriptorSetLayoutCreateInfo",
    "VkSamplerCreateInfo",
    "VkSamplerYcbcrConversionCreateInfo",
    "VkPipelineLayoutCreateInfo",
    "VkRenderPassCreateInfo",
    "VkRenderPassCreateInfo2",
)
#: Of these, whose chain nobody visits: an instance is recorded without it.
WITHOUT_CHAIN = ("VkInstanceCreateInfo",)
#: Where C begins a walk (walk.h), with its names: those of objects are their kinds, in the order of their numbers
#: (layer/state/object.h).
NAMED = {
    "VkInstanceCreateInfo": "INSTANCE",
    "VkDeviceCreateInfo": "DEVICE",
    "VkSamplerCreateInfo": "SAMPLER",
    "VkSamplerYcbcrConversionCreateInfo": "YCBCR_CONVERSION",
    "VkDescriptorSetLayoutCreateInfo": "SET_LAYOUT",
    "VkPipelineLayoutCreateInfo": "PIPELINE_LAYOUT",
    "VkRenderPassCreateInfo": "RENDER_PASS",
    "VkRenderPassCreateInfo2": "RENDER_PASS_2",
    "VkShaderModuleCreateInfo": "SHADER_MODULE",
    "VkGraphicsPipelineCreateInfo": "GRAPHICS",
    "VkComputePipelineCreateInfo": "COMPUTE",
    "VkRayTracingPipelineCreateInfoKHR": "RAY_TRACING",
    "VkPipelineShaderStageCreateInfo": "STAGE",
}
#: Of these, what is no object.
NO_OBJECT = ("STAGE",)
#: Of the others, whose commands have hooks of their own.
HOOKED_APART = ("INSTANCE", "DEVICE", "SHADER_MODULE", "GRAPHICS", "COMPUTE", "RAY_TRACING")
#: The dynamic states that C asks for. Others may share a bit.
ASKED = ("RASTERIZER_DISCARD_ENABLE",)

#: The sType of structures that have none.
NO_TYPE = 0xFFFFFFFF

#: Bytes of what is no structure, in a 64-bit process: the layer is built for nothing else.
POINTER = 8
SIZES = {
    **dict.fromkeys(("char", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("int16_t", "uint16_t"), 2),
    **dict.fromkeys(("int", "int32_t", "uint32_t", "float"), 4),
    **dict.fromkeys(("int64_t", "uint64_t", "double", "size_t"), 8),
}


@dataclass(frozen=True)
class Layout:
    """Bytes of a type, and what its address is a multiple of."""

    size: int
    alignment: int


@dataclass(frozen=True)
class Structure:
    """A row of the table, without its size and its members."""

    name: str
    type: int
    name_of_type: str


def is_vulkans(element: xml.Element, attribute: str = "api") -> bool:
    """The registry is Vulkan SC's, too, and says of some elements whose they are."""
    return "vulkan" in element.get(attribute, "vulkan").split(",")


def declaration(element: xml.Element) -> str:
    """The C text of a member or parameter, without the registry's comment on it."""
    own = (text for part in element if part.tag != "comment" for text in (*part.itertext(), part.tail or ""))
    tails = (part.tail or "" for part in element if part.tag == "comment")
    return " ".join("".join([element.text or "", *own, *tails]).split())


def type_of(element: xml.Element) -> str:
    return element.findtext("type", "")


def name_of(element: xml.Element) -> str:
    return element.findtext("name", "")


def is_pointed_at(member: xml.Element) -> bool:
    """Returns whether a walk sees what the member is or points to: the program does not write results."""
    text = declaration(member)
    return name_of(member) != "pNext" and ("*" not in text or text.startswith("const "))


class Registry:
    """A vk.xml."""

    declaration = staticmethod(declaration)

    def __init__(self, path: Path) -> None:
        self.root = xml.parse(path).getroot()
        self.types: dict[str, xml.Element] = {}
        for element in self.root.iterfind("types/type"):
            name = element.get("name") or element.findtext("name") or element.findtext("proto/name", "")
            if name and is_vulkans(element):
                self.types.setdefault(name, element)

    @cached_property
    def version(self) -> str:
        """Of the headers that belong to it."""
        defines = {name: declaration(element) for name, element in self.types.items() if name.startswith("VK_HEADER")}
        complete = re.findall(r"\d+", defines["VK_HEADER_VERSION_COMPLETE"].partition("(")[2])
        return ".".join([*complete[1:3], defines["VK_HEADER_VERSION"].split()[-1]])

    def blocks(self, provisional: bool = False) -> Iterator[tuple[xml.Element, xml.Element]]:
        """What versions and extensions bring. Structures of provisional extensions still change from header to header,
        so nobody knows the size of the one that a program has."""
        for owner in [*self.root.iterfind("feature"), *self.root.iterfind("extensions/extension")]:
            offered = is_vulkans(owner, "api" if owner.tag == "feature" else "supported")
            if offered and (provisional or owner.get("provisional") != "true"):
                yield from ((owner, block) for block in owner.iterfind("require") if is_vulkans(block))

    @cached_property
    def values(self) -> dict[str, int]:
        """Of enumerants and constants that are whole numbers."""
        found: dict[str, int] = {}
        aliases: dict[str, str] = {}

        def add(enum: xml.Element, number: str) -> None:
            name = enum.attrib["name"]
            if "alias" in enum.attrib:
                aliases.setdefault(name, enum.attrib["alias"])
            elif "offset" in enum.attrib:
                value = 1000000000 + (int(enum.get("extnumber", number)) - 1) * 1000 + int(enum.attrib["offset"])
                found[name] = -value if enum.get("dir") == "-" else value
            elif "bitpos" in enum.attrib:
                found[name] = 1 << int(enum.attrib["bitpos"])
            elif re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", enum.get("value", "")):
                found[name] = int(enum.attrib["value"], 0)

        for enum in self.root.iterfind("enums/enum"):
            if is_vulkans(enum):
                add(enum, "0")
        for owner, block in self.blocks():
            for enum in block.iterfind("enum"):
                if is_vulkans(enum):
                    add(enum, owner.get("number", "0"))
        for name, alias in aliases.items():
            while alias in aliases:
                alias = aliases[alias]
            if alias in found:
                found.setdefault(name, found[alias])
        return found

    def members(self, structure: str) -> list[xml.Element]:
        element = self.types[structure]
        if "alias" in element.attrib:
            return self.members(element.attrib["alias"])
        return [member for member in element.iterfind("member") if is_vulkans(member)]

    def layout(self, name: str) -> Layout:
        """Of a type, by the rules of the System V ABI."""
        if name in SIZES:
            return Layout(SIZES[name], SIZES[name])
        element = self.types[name]
        category = element.get("category")
        if element.get("alias"):
            return self.layout(element.attrib["alias"])
        if category in ("struct", "union"):
            return self.aggregate(name)
        if category in ("handle", "funcpointer"):
            return Layout(POINTER, POINTER)
        if category == "enum":
            wide = self.root.find(f"enums[@name='{name}']")
            size = int(wide.get("bitwidth", "32")) // 8 if wide is not None else 4
            return Layout(size, size)
        if category in ("basetype", "bitmask") and type_of(element):
            pointer = "*" in declaration(element)
            return Layout(POINTER, POINTER) if pointer else self.layout(type_of(element))
        raise ValueError(f"{name}: a type whose size is unknown")

    def placed(self, name: str) -> Iterator[tuple[str, int, xml.Element]]:
        """The members of a structure or union with their names and offsets."""
        end = 0
        for member in self.members(name):
            one = self.member_layout(member)
            at = 0 if self.types[name].get("category") == "union" else -(-end // one.alignment) * one.alignment
            yield name_of(member), at, member
            end = at + one.size

    def aggregate(self, name: str) -> Layout:
        members = [(at, self.member_layout(member)) for _, at, member in self.placed(name)]
        alignment = max(one.alignment for _, one in members)
        return Layout(-(-max(at + one.size for at, one in members) // alignment) * alignment, alignment)

    def member_layout(self, member: xml.Element) -> Layout:
        text = declaration(member)
        if ":" in text:
            raise ValueError(f"{text}: a bit field")
        one = Layout(POINTER, POINTER) if "*" in text else self.layout(type_of(member))
        count = 1
        for length in re.findall(r"\[(\w+)\]", text):
            count *= int(length) if length.isdigit() else self.values[length]
        return Layout(one.size * count, one.alignment)

    def real_name(self, name: str) -> str:
        while "alias" in self.types[name].attrib:
            name = self.types[name].attrib["alias"]
        return name

    @cached_property
    def extensions(self) -> dict[str, list[str]]:
        """The structures that may stand in a structure's chain."""
        found: dict[str, list[str]] = {}
        for name, element in self.types.items():
            if element.get("category") == "struct" and "alias" not in element.attrib:
                for extended in filter(None, element.get("structextends", "").split(",")):
                    found.setdefault(self.real_name(extended), []).append(name)
        return found

    def structure(self, name: str) -> Structure | None:
        """None: nobody can chain it, because its sType is unknown."""
        name_of_type = self.members(name)[0].get("values", "")
        if name_of_type and name_of_type not in self.values:
            return None
        return Structure(name, self.values.get(name_of_type, NO_TYPE), name_of_type)

    @cached_property
    def structures(self) -> list[Structure]:
        """What can be reached from ROOTS, by the value of its sType. Those that have none come last."""
        found: dict[str, Structure] = {}
        names = list(ROOTS)
        for name in names:
            one = self.structure(name) if name not in found else None
            if one:
                found[name] = one
                types = {self.real_name(type_of(member)) for member in self.members(name) if is_pointed_at(member)}
                inner = (type for type in types if self.types[type].get("category") in ("struct", "union"))
                names += [*sorted(inner), *(self.extensions.get(name, []) if name not in WITHOUT_CHAIN else [])]
        chained = (one for one in found.values() if self.types[one.name].get("category") == "struct")
        return sorted(chained, key=lambda one: (one.type, one.name))

    @cached_property
    def cache_commands(self) -> list[str]:
        """Commands with a parameter that is a VkPipelineCache, or points to some."""
        offered = {command.attrib["name"] for _, block in self.blocks(True) for command in block.iterfind("command")}
        found = []
        for command in self.root.iterfind("commands/command"):
            name = command.findtext("proto/name", "")
            takes = any(type_of(one) == "VkPipelineCache" for one in command.iterfind("param") if is_vulkans(one))
            if takes and is_vulkans(command) and name in offered:
                found.append(name)
        return sorted(set(found))

    def creators(self, structure: str) -> list[xml.Element]:
        """The commands that make something of a structure, the first one first."""
        found = []
        for command in self.root.iterfind("commands/command"):
            takes = any(type_of(one) == structure for one in command.iterfind("param") if is_vulkans(one))
            if takes and is_vulkans(command) and command.findtext("proto/name", "").startswith("vkCreate"):
                found.append(command)
        return found

    def aliases(self, command: str) -> list[str]:
        """The other names of a command."""
        commands = self.root.iterfind("commands/command")
        return [one.attrib["name"] for one in commands if one.get("alias") == command and is_vulkans(one)]


def origin(registry: Registry, package: str) -> str:
    """The first line of what is written."""
    return (
        f"/* Written by shim/generate_registry.py from the vk.xml ({registry.version}) of libvulkan-dev {package}. */"
    )


def table(registry: Registry, package: str) -> str:
    """registry.inc"""
    lines = [origin(registry, package), "/* clang-format off */", *Members(registry).lines()]
    lines += ["", "/* Every command that uses a VkPipelineCache:", *registry.cache_commands, "*/"]
    return "\n".join(lines) + "\n"


def macro(name: str, rows: list[str]) -> list[str]:
    """The lines of a macro that has many."""
    return [f"#define {name} \\", *(f"    {row} \\" for row in rows[:-1]), f"    {rows[-1]}", ""]


def member_name(command: str) -> str:
    """How a struct names the pointer to a command: create_render_pass2_khr."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", command.removeprefix("vk"))
    return words.lower()


def objects(registry: Registry) -> list[str]:
    """What the layer records (layer/state/object.h), and the hooks of commands that make it (layer/hooks/state.c)."""
    kinds, hooks = [], []
    for structure, kind in NAMED.items():
        if kind in NO_OBJECT:
            continue
        (creator,) = registry.creators(structure)
        command = creator.findtext("proto/name", "")
        made = [type_of(one) for one in creator.iterfind("param") if is_vulkans(one)][-1]
        type = registry.structure(structure).name_of_type.removeprefix("VK_STRUCTURE_TYPE_")  # type: ignore[union-attr]
        object = registry.types[made].attrib["objtypeenum"].removeprefix("VK_OBJECT_TYPE_")
        both = "NULL, NULL" if kind in ("INSTANCE", "DEVICE") else f'"{command}", "vkDestroy{made[2:]}"'
        kinds.append(f"KIND({kind}, {type}, {structure}, {object}, {both})")
        for name in [command, *registry.aliases(command)] if kind not in HOOKED_APART else []:
            hooks.append(f"HOOK(WITH, {member_name(name)}, {name[2:]}, {kind}, {structure}, {made})")
    return [
        "/* What an object is of: its kind's name, the structure's type and name, what a command makes of it, that",
        " * command, and the one that destroys it. */",
        *macro("STATE_KINDS(KIND)", kinds),
        "/* The commands that make those that have no hook of their own. WITH: is passed on. */",
        *macro("STATE_COMMANDS(HOOK, WITH)", hooks),
    ]


def names(registry: Registry, package: str) -> str:
    """registry.h"""
    members = Members(registry)
    facts = [f"    FACT_{name} = {1 << bit:#x}," for bit, name in enumerate(FACTS)]
    width = max(map(len, facts))
    lines = [
        origin(registry, package),
        "/* registry.h - names of registry.inc: structures, facts of pipelines, dynamic states; kinds of objects. */",
        "/* clang-format off */",
        "#ifndef PYLAYER_REGISTRY_H",
        "#define PYLAYER_REGISTRY_H",
        "",
        "/* VK_HEADER_VERSION of the registry. */",
        f"#define REGISTRY_VERSION {registry.version.rpartition('.')[2]}",
        "",
        "enum StructureIndex {",
        *(f"    STRUCTURE_{NAMED[name]} = {index}," for name, index in members.indexes.items() if name in NAMED),
        "};",
        "",
        "/* What is known of a pipeline. */",
        "enum Fact {",
        *(f"{line:<{width}} /* {what} */" for line, what in zip(facts, FACTS.values(), strict=True)),
        "};",
        "",
        *(f"#define DYNAMIC_{state} (1ull << {members.bits[state]})" for state in ASKED),
        "",
        *objects(registry),
    ]
    return "\n".join([*lines, "#endif", ""])


def compat(registry: Registry, package: str) -> str:
    """vk_compat.h"""
    return "\n".join([origin(registry, package), *Compat(registry).lines(), ""])


#: What is written, and by what.
FILES = {"registry.inc": table, "registry.h": names, "vk_compat.h": compat}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("registry", type=Path, help="vk.xml")
    parser.add_argument("package", help="version of the package that it is from")
    arguments = parser.parse_args()
    registry = Registry(arguments.registry)
    for name, write in FILES.items():
        (LAYER / name).write_text(write(registry, arguments.package))
    print(f"{LAYER}: {len(Members(registry).structures)} structures, {len(registry.cache_commands)} commands")


if __name__ == "__main__":
    main()
