"""Declarations of newer headers that the layer uses, for building with older ones (layer/vulkan/vk_compat.h)."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generate_registry import Registry

#: What Debian 12 (1.3.239) lacks, by the macro that newer headers define. Empty: all that the extension brings.
MISSING = {
    "VK_VERSION_1_4": ["VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_4_FEATURES"],
    "VK_KHR_maintenance5": [
        "VK_KHR_MAINTENANCE_5_EXTENSION_NAME",
        "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR",
        "VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR",
        "VkPipelineCreateFlags2CreateInfoKHR",
    ],
    "VK_KHR_maintenance8": ["VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR"],
    "VK_KHR_pipeline_binary": [],
}


class Compat:
    """Writes what MISSING names."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.declared: set[str] = set()
        brought = {name for macro, names in MISSING.items() if not names for name in self.names_of(macro)}
        #: Types of members that need a declaration.
        self.new_types = brought | {"VkPipelineCreateFlags2"}
        #: An enumerant is defined where it has more than a name.
        self.enums = {one.attrib["name"]: one for one in registry.root.iter("enum") if len(one.attrib) > 1}

    def lines(self) -> Iterator[str]:
        yield "/* vk_compat.h - declarations that the layer uses and the headers of Debian 12 (1.3.239) lack. */"
        yield from ("/* clang-format off */", "#ifndef PYLAYER_VK_COMPAT_H", "#define PYLAYER_VK_COMPAT_H", "")
        yield from ("#include <vulkan/vulkan.h>", "")
        for macro, names in MISSING.items():
            yield f"#ifndef {macro}"
            for name in names or self.names_of(macro):
                yield from self.declare(name)
            yield from ("#endif", "")
        yield "#endif"

    def names_of(self, extension: str) -> list[str]:
        """All that an extension brings, constants first."""
        found: dict[str, list[str]] = {"enum": [], "type": [], "command": []}
        for owner, block in self.registry.blocks():
            for tag in found if owner.get("name") == extension else ():
                found[tag] += [one.attrib["name"] for one in block.iterfind(tag)]
        return [name for names in found.values() for name in names if not name.endswith("SPEC_VERSION")]

    def declare(self, name: str) -> Iterator[str]:
        """Declares what a declaration needs before it."""
        if name in self.declared:
            return
        self.declared.add(name)
        if name in self.enums:
            yield f"#define {name} {self.value(self.enums[name])}"
        elif name in self.registry.types:
            yield from self.type(name)
        else:
            yield self.command(name)

    def value(self, enum: xml.Element) -> str:
        name, of = enum.attrib["name"], enum.get("extends", "")
        if not of or name not in self.registry.values:
            return enum.attrib["value"]
        value = self.registry.values[name]
        return f"{value:#x}ull" if of.endswith("2") else f"(({of}){value})"

    def type(self, name: str) -> Iterator[str]:
        element = self.registry.types[name]
        category = element.get("category")
        if category == "handle":
            yield f"VK_DEFINE_NON_DISPATCHABLE_HANDLE({name})"
        elif category == "struct":
            members = self.registry.members(name)
            for member in members:
                yield from self.before(member)
            yield f"typedef struct {name} {{"
            yield from (f"    {self.registry.declaration(member)};" for member in members)
            yield f"}} {name};"
        else:
            yield self.registry.declaration(element)

    def before(self, member: xml.Element) -> Iterator[str]:
        type = member.findtext("type", "")
        if type in self.new_types:
            yield from self.declare(type)

    def command(self, name: str) -> str:
        (found,) = (one for one in self.registry.root.iter("command") if one.findtext("proto/name") == name)
        parameters = ", ".join(self.registry.declaration(one) for one in found.iterfind("param"))
        return f"typedef {found.findtext('proto/type')} (VKAPI_PTR *PFN_{name})({parameters});"
