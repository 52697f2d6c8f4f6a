"""What the installed package needs of the machine: the C library, and nothing of the Python that built it."""

from __future__ import annotations

import ctypes
import re
import subprocess
from ctypes import POINTER, byref, c_char_p, c_int, c_uint32, c_void_p
from pathlib import Path

import lints
import pytest
from scripted_driver import ScriptedDriver
from world import LAYER_NAME, PACKAGE, World

LIBRARIES = sorted(path for path in PACKAGE.rglob("*.so*") if path.is_file())


def dynamic(library: Path, tag: str) -> list[str]:
    """Returns the values of one tag of the dynamic section."""
    text = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", text)


def test_nothing_of_the_building_machine() -> None:
    """No library searches directories outside the package for others, because on another machine anybody may own
    them."""
    assert len(LIBRARIES) > 10
    found = [(path.name, text) for path in LIBRARIES for tag in ("RUNPATH", "RPATH") for text in dynamic(path, tag)]
    directories = [(name, directory) for name, text in found for directory in re.split("[,:]", text)]
    lints.none(f"{name}: {where}" for name, where in directories if where and not where.startswith("$ORIGIN/"))


def test_needs_of_the_start() -> None:
    """The libraries that every program loads need only the C library, because containers have few others."""
    (policy,) = PACKAGE.glob("_policy*.so")
    (python,) = (PACKAGE / "_private" / "lib").glob("libpylayer-python*")
    layer = PACKAGE / "libVkLayer_pylayer_pipeline_cache.so"
    system = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libutil.so.1", "ld-linux-x86-64.so.2"}
    # Debian's libpython has modules built in that need these.
    system |= {"libz.so.1", "libexpat.so.1"}
    for library in (layer, policy, python):
        assert set(dynamic(library, "NEEDED")) <= system | {python.name}, library


def test_a_library_reached_by_a_link(world: World, tmp_path: Path) -> None:
    """A manifest may name a link to the library, as in Steam's containers. Policy is found beside the library
    itself."""
    links = tmp_path / "links" / "package"
    links.mkdir(parents=True)
    (links / "libVkLayer_pylayer_pipeline_cache.so").symlink_to(PACKAGE / "libVkLayer_pylayer_pipeline_cache.so")
    world.install_manifest(links)
    assert world.demo("--count", 4)["created"] == 4
    assert world.last()["compiled"] == 4


def test_the_standard_library_is_the_packages(world: World) -> None:
    """A policy class can import the standard library, with its extension modules, from the package alone. No other
    Python's is read, because a container need not have one."""
    own = world.directory / "own"
    own.mkdir()
    (own / "mine.py").write_text(
        "import ctypes, email.message, json, sqlite3, sys\n"
        "from pylayer.policy import Policy\n"
        "class Mine(Policy):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        files = [getattr(module, '__file__', None) for module in list(sys.modules.values())]\n"
        "        print('paths', json.dumps([sys.prefix, *sys.path, *filter(None, files)]))\n"
    )
    (own / "policy.yaml").write_text("policy: mine:Mine\n")
    log = world.demo("--count", 4, PYLAYER_CONFIG=str(own / "policy.yaml"), PYLAYER_LOG="info").stderr
    (line,) = [line for line in log.splitlines() if "paths [" in line]
    print(line)
    elsewhere = [path for path in re.findall(r'"(/[^"]*)"', line) if not path.startswith((str(PACKAGE), str(own)))]
    assert elsewhere == []


# ---- Negotiation ---------------------------------------------------------------------------------


VK_SUCCESS, VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_LAYER_NOT_PRESENT = 0, -3, -6
LAYER_NEGOTIATE_INTERFACE_STRUCT = 1


class NegotiateLayerInterface(ctypes.Structure):
    """VkNegotiateLayerInterface"""

    _fields_ = (
        ("sType", c_int),
        ("pNext", c_void_p),
        ("loaderLayerInterfaceVersion", c_uint32),
        ("pfnGetInstanceProcAddr", ctypes.CFUNCTYPE(c_void_p, c_void_p, c_char_p)),
        ("pfnGetDeviceProcAddr", c_void_p),
        ("pfnGetPhysicalDeviceProcAddr", c_void_p),
    )


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(PACKAGE / "libVkLayer_pylayer_pipeline_cache.so"))


def negotiate(library: ctypes.CDLL, version: int) -> tuple[int, NegotiateLayerInterface]:
    interface = NegotiateLayerInterface(LAYER_NEGOTIATE_INTERFACE_STRUCT, None, version)
    return library.vkNegotiateLoaderLayerInterfaceVersion(byref(interface)), interface


def command(library: ctypes.CDLL, name: str, *types: type) -> ctypes._CFunctionType:
    _, interface = negotiate(library, 2)
    address = interface.pfnGetInstanceProcAddr(None, name.encode())
    assert address
    return ctypes.CFUNCTYPE(c_int, *types)(address)


@pytest.mark.parametrize(
    ("offered", "result", "agreed"), [(1, VK_ERROR_INITIALIZATION_FAILED, 1), (2, 0, 2), (7, 0, 2)]
)
def test_interface_version(library: ctypes.CDLL, offered: int, result: int, agreed: int) -> None:
    """The layer supports version 2 of the loader's interface."""
    said, interface = negotiate(library, offered)
    assert (said, interface.loaderLayerInterfaceVersion) == (result, agreed)


def test_extensions(library: ctypes.CDLL) -> None:
    """The layer lists no extension of an instance or a device, and does not answer for other layers."""
    types = (c_char_p, POINTER(c_uint32), c_void_p)
    of_instance = command(library, "vkEnumerateInstanceExtensionProperties", *types)
    of_device = command(library, "vkEnumerateDeviceExtensionProperties", c_void_p, *types)
    count = c_uint32(7)
    assert of_instance(LAYER_NAME.encode(), byref(count), None) == VK_SUCCESS and count.value == 0
    assert of_instance(None, byref(count), None) == VK_ERROR_LAYER_NOT_PRESENT
    assert of_instance(b"VK_LAYER_other", byref(count), None) == VK_ERROR_LAYER_NOT_PRESENT
    count.value = 7
    assert of_device(None, LAYER_NAME.encode(), byref(count), None) == VK_SUCCESS and count.value == 0


def test_commands_before_an_instance(library: ctypes.CDLL) -> None:
    """The library exports no Vulkan command but the negotiation. Without an instance the layer returns vkCreateInstance
    and no command that needs an instance."""
    assert not hasattr(library, "vkGetInstanceProcAddr") and not hasattr(library, "vkCreateInstance")
    _, interface = negotiate(library, 2)
    assert interface.pfnGetInstanceProcAddr(None, b"vkCreateInstance")
    assert not interface.pfnGetInstanceProcAddr(None, b"vkCreateGraphicsPipelines")
    assert not interface.pfnGetInstanceProcAddr(None, b"vkNoSuchCommand")


HIDDEN = (
    "vkCreatePipelineBinariesKHR", "vkDestroyPipelineBinaryKHR", "vkGetPipelineKeyKHR", "vkGetPipelineBinaryDataKHR",
    "vkReleaseCapturedPipelineDataKHR", "vkCmdBindIndexBuffer2KHR", "vkGetRenderingAreaGranularityKHR",
    "vkGetDeviceImageSubresourceLayoutKHR", "vkGetImageSubresourceLayout2KHR",
)  # fmt: skip


@pytest.mark.parametrize("settings", ["{mode: binaries}", "{mode: cells, driver_cache: replace}"])
def test_commands_of_what_the_layer_enables(world: World, settings: str) -> None:
    """A program that does not enable pipeline binaries gets none of their commands, although the layer enables them.
    One that does gets the same commands as without the layer."""
    policy = world.policy(f"settings: {settings}")
    for wanted in ("control", "binaries"):
        printed = world.recipe(f"device {wanted}\nwhere {' '.join(HIDDEN)}\n", **policy).stdout
        assert re.findall(r"\bvk\w+", printed) == (list(HIDDEN) if wanted == "binaries" else [])


def test_instance_that_cannot_have_more_extensions(scripted: ScriptedDriver) -> None:
    """For a Vulkan 1.0 program the layer enables an extension of its own. If that fails, the program gets its instance
    without it, and in no case two."""
    for script, calls in (("", 1), ("create-instance=error:initialization-failed@1", 2)):
        assert scripted.demo("--count", 1, "--api", "1.0", script=script)["created"] == 1
        assert scripted.counts["create-instance"] == calls
