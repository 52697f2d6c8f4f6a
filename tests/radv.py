"""RADV, Mesa's driver for AMD, without hardware: it compiles for a GPU that is not there."""

from __future__ import annotations

import glob

#: A library for LD_PRELOAD that answers as the kernel's driver would, in Debian's package mesa-drm-shim. From 26.0 on
#: Mesa has no other way; before, RADV_FORCE_FAMILY alone did it. .ci/system-packages installs it where it is needed.
DRM_SHIM = next(iter(glob.glob("/usr/lib/*/libamdgpu_noop_drm_shim.so")), "")

#: The device of gpu("navi21"): as Mesa names one without hardware, and as it names the one of that library.
NULL_HARDWARE, SHIM_DEVICE = "Null hardware (RADV NAVI21)", "AMD Radeon RX 6800 (RADV NAVI21)"
DEVICE = SHIM_DEVICE if DRM_SHIM else NULL_HARDWARE


def manifest() -> str:
    """Returns RADV's manifest for the Vulkan loader, or empty text if it is not installed."""
    return next(iter(sorted(glob.glob("/usr/share/vulkan/icd.d/radeon_icd*.json"))), "")


def gpu(family: str) -> dict[str, str]:
    """Returns the variables that give RADV a GPU of this family."""
    if DRM_SHIM:
        # VK_EXT_descriptor_heap is an experiment in Mesa 26.1.
        return {"LD_PRELOAD": DRM_SHIM, "AMDGPU_GPU_ID": family, "RADV_EXPERIMENTAL": "heap"}
    return {"RADV_FORCE_FAMILY": family}
