"""Pipelines as trees of create infos. Tests make two things of them: state, as the layer records it, and a program
that creates the same pipelines with Vulkan's own functions.

    python recorded_state.py COUNT [plain]   that program; plain: without graphics, features and extensions
"""

from __future__ import annotations

import re
import struct
import sys
from typing import Any

import xxhash

HEADER, POINTER, HANDLE = struct.Struct("<IHHIIIIIIQ"), struct.Struct("<II"), struct.Struct("<II16s")
OBJECT_TYPES = {5: 20, 6: 17, 7: 18, 9: 15, 10: 19, 11: 19}
CREATES = {
    5: "vkCreateDescriptorSetLayout",
    6: "vkCreatePipelineLayout",
    7: "vkCreateRenderPass",
    9: "vkCreateShaderModule",
    10: "vkCreateGraphicsPipelines",
    11: "vkCreateComputePipelines",
}
VERSION_1_3 = 1 << 22 | 3 << 12


def rebuilds(text: str) -> list[dict[str, Any]]:
    """Returns what ``pylayer rebuild`` printed, by device."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        done = re.match(r"Rebuilt: (\d+) of (\d+) pipelines? for .* for them(?:; (\d+) more)?", line)
        reason = re.match(r" +(\d+) +(\S.*)", line)
        if done or line.startswith("Nothing to rebuild for "):
            numbers = [int(number or 0) for number in done.groups()] if done else [0, 0, 0]
            about = dict(zip(("rebuilt", "wanted", "without_data"), numbers, strict=True))
            found.append({**about, "not_rebuilt": {}, "not_tried": {}, "not_recorded": {}})
        elif reason:
            why, again, _ = reason[2].rstrip().partition(" (not tried again; --all does)")
            kind = "not_tried" if again else "not_recorded" if why.startswith("not recorded: ") else "not_rebuilt"
            found[-1][kind][why.removeprefix("not recorded: ")] = int(reason[1])
    return found


def vulkan() -> Any:
    import vulkan

    return vulkan


class Tree:
    """A structure. Values of ``fields``: a number; a Tree, in the structure or pointed to; a list of Trees, numbers or
    texts; bytes; a text; an Object, which is a handle."""

    def __init__(self, type: str, **fields: Any) -> None:
        self.type, self.fields = type, fields


class Object:
    """What a create info makes. ``kind``: as state numbers it."""

    def __init__(self, kind: int, info: Tree) -> None:
        self.kind, self.info = kind, info


# ---- state ---------------------------------------------------------------------------------------------


class Image:
    """The image of a tree: bytes, places of pointers and of handles. Collects ``objects`` by digest."""

    def __init__(self, objects: dict[bytes, bytes]) -> None:
        self.data = bytearray()
        self.pointers: list[tuple[int, int]] = []
        self.handles: list[tuple[int, int, bytes]] = []
        self.objects = objects
        self.ffi = vulkan().ffi

    def reserve(self, size: int) -> int:
        at = len(self.data)
        self.data += bytes(size + -size % 8)
        return at

    def put(self, at: int, tree: Tree) -> None:
        fields = dict(self.ffi.typeof(tree.type).fields)
        later = []
        for name, value in tree.fields.items():
            kind, place = fields[name].type, at + fields[name].offset
            if isinstance(value, Object):
                self.handles.append((place, OBJECT_TYPES[value.kind], digest_of(value, self.objects)))
            elif kind.kind == "pointer":
                later.append((place, kind, value))
            elif isinstance(value, Tree):
                self.put(place, value)
            else:
                self.number(place, kind, value)
        for place, kind, value in later:
            self.pointers.append((place, self.target(kind, value)))

    def number(self, place: int, kind: Any, value: float) -> None:
        size = self.ffi.sizeof(kind)
        whole = struct.unpack("<I", struct.pack("<f", value))[0] if kind.cname == "float" else int(value)
        self.data[place : place + size] = (whole & (1 << 8 * size) - 1).to_bytes(size, "little")

    def target(self, kind: Any, value: Any) -> int:
        if isinstance(value, str):
            value = value.encode() + b"\0"
        if isinstance(value, bytes):
            at = self.reserve(len(value))
            self.data[at : at + len(value)] = value
            return at
        if isinstance(value, Tree):
            at = self.reserve(self.ffi.sizeof(value.type))
            self.put(at, value)
            return at
        size = self.ffi.sizeof(value[0].type if isinstance(value[0], Tree) else kind.item)
        at = self.reserve(size * len(value))
        for number, one in enumerate(value):
            place = at + number * size
            if isinstance(one, Tree):
                self.put(place, one)
            elif isinstance(one, Object):
                self.handles.append((place, OBJECT_TYPES[one.kind], digest_of(one, self.objects)))
            elif isinstance(one, str):
                self.pointers.append((place, self.target(None, one)))
            else:
                self.number(place, kind.item, one)
        return at


def object_of(image: bytes, kind: int, pointers: Any = (), handles: Any = ()) -> bytes:
    """Returns an object of its parts."""
    head = HEADER.pack(0x54535950, 1, kind, 0, len(image), len(pointers), len(handles), 239, 0, 0)
    packed = (POINTER.pack(*one) for one in sorted(pointers)), (HANDLE.pack(*one) for one in sorted(handles))
    return b"".join((head, image, *packed[0], *packed[1]))


def digest_of(made: Object, objects: dict[bytes, bytes]) -> bytes:
    """Adds an object, and what it is made of, to ``objects``; returns its digest."""
    image = Image(objects)
    image.put(image.reserve(image.ffi.sizeof(made.info.type)), made.info)
    data = object_of(bytes(image.data), made.kind, image.pointers, image.handles)
    digest = xxhash.xxh3_128_digest(data)
    objects[digest] = data
    return digest


# ---- the same, created ---------------------------------------------------------------------------------


class Creator:
    """Creates trees with Vulkan's functions."""

    def __init__(self) -> None:
        self.vk = vulkan()
        self.ffi = self.vk.ffi
        self.kept: list[Any] = []
        self.made: dict[int, Any] = {}
        self.device: Any = None

    def value(self, kind: Any, value: Any) -> Any:
        if isinstance(value, Object):
            return self.handle(value)
        if isinstance(value, Tree):
            info = self.ffi.new(f"{value.type} *")
            fields = dict(self.ffi.typeof(value.type).fields)
            for name, one in value.fields.items():
                found = self.value(fields[name].type, one)
                setattr(info, name, found[0] if fields[name].type.kind == "struct" else found)
            self.kept.append(info)
            return info
        if isinstance(value, str):
            value = value.encode() + b"\0"
        if isinstance(value, bytes):
            array = self.ffi.new("char[]", value)
            self.kept.append(array)
            return self.ffi.cast(kind, array)
        if isinstance(value, list):
            item = self.ffi.typeof(value[0].type) if isinstance(value[0], Tree) else kind.item
            array = self.ffi.new(self.ffi.getctype(item, "[]"), len(value))
            for number, one in enumerate(value):
                found = self.value(item, one)
                array[number] = found[0] if isinstance(one, Tree) else found
            self.kept.append(array)
            return array
        return value

    def handle(self, made: Object) -> Any:
        if id(made) not in self.made:
            info = self.value(None, made.info)
            handle = self.ffi.new("uint64_t *")
            function = getattr(self.vk.lib, CREATES[made.kind])
            kinds = self.ffi.typeof(function).args
            before = (self.ffi.NULL, 1) if made.kind >= 10 else ()
            result = function(self.device, *before, info, self.ffi.NULL, self.ffi.cast(kinds[-1], handle))
            assert result == 0, f"{CREATES[made.kind]} returned {result}"
            self.made[id(made)] = self.ffi.cast(kinds[-1], handle)[0]
        return self.made[id(made)]

    def create_device(self, made: Object) -> None:
        instance = self.ffi.new("VkInstance *")
        assert self.vk.lib.vkCreateInstance(self.value(None, INSTANCE.info), self.ffi.NULL, instance) == 0
        count, physical = self.ffi.new("uint32_t *", 1), self.ffi.new("VkPhysicalDevice *")
        assert self.vk.lib.vkEnumeratePhysicalDevices(instance[0], count, physical) >= 0
        device = self.ffi.new("VkDevice *")
        assert self.vk.lib.vkCreateDevice(physical[0], self.value(None, made.info), self.ffi.NULL, device) == 0
        self.device = device[0]


# ---- pipelines -----------------------------------------------------------------------------------------

INSTANCE = Object(
    1,
    Tree(
        "VkInstanceCreateInfo",
        sType=1,
        pApplicationInfo=Tree(
            "VkApplicationInfo", sType=0, pApplicationName="recorded", pEngineName="none", apiVersion=VERSION_1_3
        ),
    ),
)
QUEUE = Tree("VkDeviceQueueCreateInfo", sType=2, queueCount=1, pQueuePriorities=[1.0])
DEVICE = Object(
    2,
    Tree(
        "VkDeviceCreateInfo",
        sType=3,
        pNext=Tree("VkPhysicalDeviceVulkan13Features", sType=53, dynamicRendering=1),
        queueCreateInfoCount=1,
        pQueueCreateInfos=[QUEUE],
        enabledExtensionCount=1,
        ppEnabledExtensionNames=["VK_KHR_push_descriptor"],
    ),
)


def plain_device(**more: Any) -> Object:
    return Object(2, Tree("VkDeviceCreateInfo", sType=3, queueCreateInfoCount=1, pQueueCreateInfos=[QUEUE], **more))


PLAIN_DEVICE = plain_device()


def spirv(model: int, *mode: int, generator: int = 0) -> bytes:
    """Handwritten SPIR-V of ``void main() {}``, whose words pylayer/cli/probe.py explains. To drivers, that of another
    generator is another shader."""
    words = (
        *(0x07230203, 0x00010000, generator, 5, 0),
        *(2 << 16 | 17, 1),
        *(3 << 16 | 14, 0, 1),
        *(5 << 16 | 15, model, 1, 0x6E69616D, 0),
        *(((len(mode) + 2) << 16 | 16, 1, *mode) if mode else ()),
        *(2 << 16 | 19, 2),
        *(3 << 16 | 33, 3, 2),
        *(5 << 16 | 54, 2, 1, 0, 3),
        *(2 << 16 | 248, 4),
        1 << 16 | 253,
        1 << 16 | 56,
    )
    return struct.pack(f"<{len(words)}I", *words)


def module(code: bytes) -> Object:
    return Object(9, Tree("VkShaderModuleCreateInfo", sType=16, codeSize=len(code), pCode=code))


def stage(bit: int, code: bytes) -> Tree:
    return Tree("VkPipelineShaderStageCreateInfo", sType=18, stage=bit, module=module(code), pName="main")


BINDING = Tree("VkDescriptorSetLayoutBinding", binding=0, descriptorType=7, descriptorCount=1, stageFlags=0x20)
SET_LAYOUT = Object(5, Tree("VkDescriptorSetLayoutCreateInfo", sType=32, bindingCount=1, pBindings=[BINDING]))
LAYOUT = Object(6, Tree("VkPipelineLayoutCreateInfo", sType=30, setLayoutCount=1, pSetLayouts=[SET_LAYOUT]))
ATTACHMENT = Tree("VkAttachmentDescription", format=37, samples=1, finalLayout=2)
REFERENCE = Tree("VkAttachmentReference", attachment=0, layout=2)
SUBPASS = Tree("VkSubpassDescription", colorAttachmentCount=1, pColorAttachments=[REFERENCE])
PASS = Object(
    7,
    Tree(
        "VkRenderPassCreateInfo",
        sType=38,
        attachmentCount=1,
        pAttachments=[ATTACHMENT],
        subpassCount=1,
        pSubpasses=[SUBPASS],
    ),
)
RENDERING = Tree(
    "VkPipelineRenderingCreateInfo", sType=1000044002, colorAttachmentCount=1, pColorAttachmentFormats=[37]
)


def compute(number: int, layout: Object = LAYOUT) -> Object:
    """A compute pipeline; each number is another one to drivers."""
    code = spirv(5, 17, number + 1, 1, 1)
    return Object(
        11,
        Tree(
            "VkComputePipelineCreateInfo",
            sType=29,
            stage=stage(0x20, code),
            layout=layout,
            basePipelineIndex=-1,
        ),
    )


def graphics(is_dynamic: bool) -> Object:
    """A graphics pipeline, with a render pass or for dynamic rendering."""
    place = {"pNext": RENDERING} if is_dynamic else {"renderPass": PASS}
    blend = Tree("VkPipelineColorBlendAttachmentState", colorWriteMask=0xF)
    return Object(
        10,
        Tree(
            "VkGraphicsPipelineCreateInfo",
            sType=28,
            **place,
            stageCount=2,
            pStages=[stage(1, spirv(0, generator=is_dynamic)), stage(0x10, spirv(4, 7))],
            pVertexInputState=Tree("VkPipelineVertexInputStateCreateInfo", sType=19),
            pInputAssemblyState=Tree("VkPipelineInputAssemblyStateCreateInfo", sType=20, topology=3),
            pViewportState=Tree("VkPipelineViewportStateCreateInfo", sType=22, viewportCount=1, scissorCount=1),
            pRasterizationState=Tree("VkPipelineRasterizationStateCreateInfo", sType=23, lineWidth=1.0),
            pMultisampleState=Tree("VkPipelineMultisampleStateCreateInfo", sType=24, rasterizationSamples=1),
            pColorBlendState=Tree(
                "VkPipelineColorBlendStateCreateInfo", sType=26, attachmentCount=1, pAttachments=[blend]
            ),
            pDynamicState=Tree(
                "VkPipelineDynamicStateCreateInfo", sType=27, dynamicStateCount=2, pDynamicStates=[0, 1]
            ),
            layout=LAYOUT,
            basePipelineIndex=-1,
        ),
    )


def pipelines(count: int, is_plain: bool = False) -> list[Object]:
    """All that the program creates, in its order."""
    return [*(compute(number) for number in range(count)), *([] if is_plain else [graphics(False), graphics(True)])]


if __name__ == "__main__":
    creator = Creator()
    plain = "plain" in sys.argv
    creator.create_device(PLAIN_DEVICE if plain else DEVICE)
    for pipeline in pipelines(int(sys.argv[1]), plain):
        creator.handle(pipeline)
    creator.vk.lib.vkDestroyDevice(creator.device, creator.ffi.NULL)
