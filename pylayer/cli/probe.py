"""The probes of ``pylayer doctor``. They run in a child process, because libraries and drivers may crash.

This file runs as a script and imports nothing from this package, so that it works if the package itself is broken:

    python probe.py devices | instance | start N LOGFILE | open PATH

Each finding is one JSON object on a line of standard output, written as soon as it is known, so a crash loses only
later findings. Errors are the last line of standard error.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

#: Handwritten SPIR-V 1.0 of a compute shader, ``void main() {}``. The upper half of an instruction's first word is its
#: word count.
SPIRV = b"".join(
    word.to_bytes(4, sys.byteorder)
    for word in (
        *(0x07230203, 0x00010000, 0, 5, 0),  # magic, version 1.0, no generator, ids below 5, schema
        *(2 << 16 | 17, 1),  # OpCapability Shader
        *(3 << 16 | 14, 0, 1),  # OpMemoryModel Logical GLSL450
        *(5 << 16 | 15, 5, 1, 0x6E69616D, 0),  # OpEntryPoint GLCompute %1 "main"
        *(6 << 16 | 16, 1, 17, 1, 1, 1),  # OpExecutionMode %1 LocalSize 1 1 1
        *(2 << 16 | 19, 2),  # %2 = OpTypeVoid
        *(3 << 16 | 33, 3, 2),  # %3 = OpTypeFunction %2
        *(5 << 16 | 54, 2, 1, 0, 3),  # %1 = OpFunction %2 None %3
        *(2 << 16 | 248, 4),  # %4 = OpLabel
        1 << 16 | 253,  # OpReturn
        1 << 16 | 56,  # OpFunctionEnd
    )
)
CACHE_CONTROL_EXTENSION = "VK_EXT_pipeline_creation_cache_control"
BINARY_EXTENSION = "VK_KHR_pipeline_binary"
FEEDBACK_EXTENSION = "VK_EXT_pipeline_creation_feedback"
VULKAN_1_3 = 1 << 22 | 3 << 12
#: The layer writes its first log line while the interpreter starts, which takes long on a loaded machine.
LOG_WAIT_SECONDS = 10.0

#: Redirect standard output to standard error, so that nothing a driver prints ends up among the findings.
_results = os.dup(1)
os.dup2(2, 1)


def tell(**finding: Any) -> None:
    """Writes one finding."""
    os.write(_results, json.dumps(finding).encode() + b"\n")


def end_with(message: str) -> NoReturn:
    """Ends the probe with its reason."""
    print(message, file=sys.stderr)
    sys.exit(1)


def load_vulkan() -> Any:
    """Returns the vulkan package. Importing it opens the loader."""
    try:
        import vulkan
    except (ImportError, OSError) as error:
        end_with(f"{type(error).__name__}: {error}")
    call = vulkan._vulkan._callApi

    def successful(function: Any, *arguments: Any) -> Any:
        result = call(function, *arguments)
        return min(result, vulkan.VK_SUCCESS) if isinstance(result, int) else result

    # The package raises an exception for every VkResult but VK_SUCCESS, also for VK_INCOMPLETE.
    vulkan._vulkan._callApi = successful
    return vulkan


def described(error: Exception) -> str:
    """Returns which VkResult an exception of the vulkan package stands for. It raises KeyError for an unknown one."""
    import vulkan

    if isinstance(error, KeyError):
        return f"an error ({error.args[0]})"
    numbers = [number for number, known in vulkan.exception_codes.items() if type(error) is known]
    return f"{type(error).__name__} ({numbers[0]})" if numbers else f"{type(error).__name__}: {error}"


def text(vk: Any, array: Any) -> str:
    """Returns a C string as text."""
    return str(vk.ffi.string(array).decode("utf-8", "replace"))


def loader_version(vk: Any) -> int:
    """Calls vkEnumerateInstanceVersion, which a loader of Vulkan 1.0 lacks."""
    version = vk.ffi.new("uint32_t *", 1 << 22)
    if hasattr(vk.lib, "vkEnumerateInstanceVersion"):
        vk.vkEnumerateInstanceVersion(version)
    return int(version[0])


def probe_open(path: str) -> None:
    """Opens a library and reports whether it exports the function that the loader calls first in a layer."""
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
    except OSError as error:
        end_with(str(error))
    tell(negotiates=hasattr(library, "vkNegotiateLoaderLayerInterfaceVersion"))


def create_instance(vk: Any) -> Any:
    """Creates an instance of Vulkan 1.3, or of the loader's version if that is older."""
    version = min(max(loader_version(vk) & ~0xFFF, 1 << 22), VULKAN_1_3)
    application = vk.VkApplicationInfo(pApplicationName="pylayer doctor", apiVersion=version)
    return vk.vkCreateInstance(vk.VkInstanceCreateInfo(pApplicationInfo=application), None)


def cache_control_supported(vk: Any, physical: Any, core: bool, extensions: set[str]) -> bool:
    """Returns whether the device has the feature pipelineCreationCacheControl, which the mode 'cells' needs."""
    if not core and CACHE_CONTROL_EXTENSION not in extensions:
        return False
    control = vk.VkPhysicalDevicePipelineCreationCacheControlFeatures()
    vk.vkGetPhysicalDeviceFeatures2(physical, vk.VkPhysicalDeviceFeatures2(pNext=control))
    return bool(control.pipelineCreationCacheControl)


def device_facts(vk: Any, physical: Any) -> dict[str, Any]:
    """Returns what the layer learns of the device when a program creates one: ``values.DeviceFacts``, UUID in
    hexadecimal."""
    driver = vk.VkPhysicalDeviceDriverProperties()
    properties = vk.VkPhysicalDeviceProperties2(pNext=driver)
    vk.vkGetPhysicalDeviceProperties2(physical, properties)
    base = properties.properties
    extensions = {each.extensionName for each in vk.vkEnumerateDeviceExtensionProperties(physical, None)}
    core = min(base.apiVersion, loader_version(vk)) >= VULKAN_1_3
    return {
        "api_version": base.apiVersion,
        "binaries_supported": BINARY_EXTENSION in extensions,  # the extension implies its feature, and maintenance5
        "cache_control_supported": cache_control_supported(vk, physical, core, extensions),
        "device_id": base.deviceID,
        "device_name": text(vk, base.deviceName),
        "driver_id": int(driver.driverID),
        "driver_info": text(vk, driver.driverInfo),
        "driver_name": text(vk, driver.driverName),
        "driver_version": base.driverVersion,
        "feedback_supported": core or FEEDBACK_EXTENSION in extensions,
        "pipeline_cache_uuid": bytes(vk.ffi.buffer(base.pipelineCacheUUID)).hex(),
        "vendor_id": base.vendorID,
    }


def create_device(vk: Any, physical: Any) -> Any:
    """Creates a device with one queue and nothing enabled."""
    queue = vk.VkDeviceQueueCreateInfo(pQueuePriorities=[1.0])
    return vk.vkCreateDevice(physical, vk.VkDeviceCreateInfo(pQueueCreateInfos=[queue]), None)


def create_pipeline(vk: Any, device: Any) -> None:
    """Creates one compute pipeline from ``SPIRV`` and destroys it with everything it was made from."""
    module = vk.vkCreateShaderModule(device, vk.VkShaderModuleCreateInfo(codeSize=len(SPIRV), pCode=SPIRV), None)
    layout = vk.vkCreatePipelineLayout(device, vk.VkPipelineLayoutCreateInfo(), None)
    stage = vk.VkPipelineShaderStageCreateInfo(stage=vk.VK_SHADER_STAGE_COMPUTE_BIT, module=module, pName="main")
    info = vk.VkComputePipelineCreateInfo(stage=stage, layout=layout)
    (pipeline,) = vk.vkCreateComputePipelines(device, None, 1, [info], None)
    vk.vkDestroyPipeline(device, pipeline, None)
    vk.vkDestroyPipelineLayout(device, layout, None)
    vk.vkDestroyShaderModule(device, module, None)


def mapped(name: str) -> list[str]:
    """Returns the paths of the files in this process whose names begin so."""
    lines = Path("/proc/self/maps").read_text(errors="replace").split("\n")
    return [line.split(None, 5)[5] for line in lines if f"/{name}" in line]


def tell_loader(vk: Any) -> None:
    """Reports the loader's version and file."""
    tell(version=loader_version(vk), library=next(iter(mapped("libvulkan.so")), "libvulkan.so.1"))


def probe_instance() -> None:
    """Reports whether the loader loads the layer into a program that creates an instance."""
    vk = load_vulkan()
    tell_loader(vk)
    instance = create_instance(vk)
    tell(loaded=bool(mapped("libVkLayer_pylayer_pipeline_cache.so")))
    vk.vkDestroyInstance(instance, None)


def probe_devices() -> None:
    """Reports the loader, the facts of all physical devices, and the libraries that know them. Creates no device."""
    vk = load_vulkan()
    tell_loader(vk)
    tell(devices=[device_facts(vk, physical) for physical in vk.vkEnumeratePhysicalDevices(create_instance(vk))])
    tell(files=sorted({path for path in mapped("") if ".so" in path}))


def has_policy() -> bool:
    """Returns whether vkCreateDevice started the policy thread in this process (shim/layer/process/process.h)."""
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # a thread of the driver's may have ended
            if path.read_text() == "pylayer-policy\n":
                return True
    return False


def wait_for_log(path: Path, wanted: str) -> None:
    """Waits until the layer's policy has logged a line that contains ``wanted``, has ended, or LOG_WAIT_SECONDS have
    passed."""
    end = time.monotonic() + LOG_WAIT_SECONDS
    while has_policy() and time.monotonic() < end:
        log = path.read_text(errors="replace") if path.exists() else ""
        if wanted in log or "the layer does nothing" in log:
            return
        time.sleep(0.01)


def probe_start(number: str, log: str) -> None:
    """Reports the layers that the loader finds. Then acts as a program with one pipeline on device ``number`` under the
    layer, which logs to the file ``log``."""
    vk = load_vulkan()
    tell(layers=[layer.layerName for layer in vk.vkEnumerateInstanceLayerProperties()])
    instance = create_instance(vk)
    device = create_device(vk, vk.vkEnumeratePhysicalDevices(instance)[int(number)])
    wait_for_log(Path(log), ": mode ")
    for _ in range(4):  # so many empty cells show that the driver finds nothing (EMPTY_CELLS in store/block_list.py)
        create_pipeline(vk, device)
    vk.vkDestroyDevice(device, None)


PROBES: dict[str, Callable[..., None]] = {
    "devices": probe_devices,
    "instance": probe_instance,
    "start": probe_start,
    "open": probe_open,
}

if __name__ == "__main__":
    try:
        PROBES[sys.argv[1]](*sys.argv[2:])
    except AttributeError as error:  # this loader does not export a function
        end_with(f"the loader is too old: {error}")
    except Exception as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        if not last.name.startswith("vk"):
            raise
        end_with(f"{last.name} returned {described(error)}")
    os._exit(0)  # skip the driver's own destructors: they are not probed
