"""RADV, Mesa's driver for AMD, without hardware: it compiles for a GPU that is not there."""

from __future__ import annotations

import glob
import json
import struct
from pathlib import Path


def manifest() -> str:
    """Returns RADV's manifest for the Vulkan loader, or empty text if it is not installed."""
    return next(iter(sorted(glob.glob("/usr/share/vulkan/icd.d/radeon_icd*.json"))), "")


def has_null_hardware() -> bool:
    """Whether RADV_FORCE_FAMILY is enough: up to Mesa 25.0, which has this version of Vulkan."""
    version = json.loads(Path(manifest()).read_text())["ICD"]["api_version"] if manifest() else "0"
    return tuple(map(int, version.split("."))) <= (1, 4, 305)


#: A library for LD_PRELOAD that answers as the kernel's driver would, in Debian's package mesa-drm-shim. With it RADV
#: takes commands, of which it executes none.
DRM_SHIM = next(iter(glob.glob("/usr/lib/*/libamdgpu_noop_drm_shim.so")), "")

#: The device of gpu("navi21"): as Mesa names one without hardware, and as it names the one of that library.
NULL_HARDWARE, SHIM_DEVICE = "Null hardware (RADV NAVI21)", "AMD Radeon RX 6800 (RADV NAVI21)"
DEVICE = NULL_HARDWARE if has_null_hardware() else SHIM_DEVICE


def gpu(family: str) -> dict[str, str]:
    """Returns the variables that give RADV a GPU of this family."""
    if has_null_hardware():
        return {"RADV_FORCE_FAMILY": family}
    # VK_EXT_descriptor_heap is an experiment in Mesa 26.1.
    return {"LD_PRELOAD": DRM_SHIM, "AMDGPU_GPU_ID": family, "RADV_EXPERIMENTAL": "heap"}


def gpu_with_queues(family: str) -> dict[str, str | None]:
    """Returns the variables for programs that submit commands or show a window: a GPU with memory and queues, and an X
    server of any kind."""
    assert DRM_SHIM, "mesa-drm-shim is not installed; `make test` installs it"
    own = {"LD_PRELOAD": DRM_SHIM, "AMDGPU_GPU_ID": family, "MESA_VK_WSI_DEBUG": "linear,sw"}
    return {**own, "RADV_FORCE_FAMILY": None}


def cache_entries(data: bytes) -> tuple[bytes, list[tuple[int, bytes, bytes]]]:
    """Returns the head of a VkPipelineCache's data and, sorted, the type, key and data of each entry. Mesa writes the
    entries as its hash set has them, which depends on the order in which they were added, and each aligned."""
    head, at, entries = data[:36], 36, []
    while at < len(data):
        kind, key_size, size = struct.unpack_from("<iII", data, at)
        key, start = at + 12, at + 12 + key_size
        start += -start % 8
        entries.append((kind, data[key : key + key_size], data[start : start + size]))
        at = start + size
    return head, sorted(entries)
