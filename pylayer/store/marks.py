"""What the marks of a crash sentinel say: PylayerMarkedCall and PylayerMark of shim/boundary.h."""

from __future__ import annotations

from ..values import Value

#: PylayerMarkedCall.
RECORDS, APPLICATION, MERGE, PIPELINES, COMPILE = 2, 3, 4, 5, 6
KEY, PROBE = 7, 11
#: Calls that the layer added to what the program asked for, and how people know them. Stored data is no cause of a
#: death in one. The last four concern no kind of pipeline. Older versions had 12 and 16.
ADDED = {
    KEY: "vkGetPipelineKeyKHR",
    8: "vkCreatePipelineBinariesKHR",
    9: "vkGetPipelineBinaryDataKHR",
    10: "a creation with VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR",
    PROBE: "a creation with VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT",
    13: "vkGetPipelineCacheData of a compiled pipeline",
    14: "vkMergePipelineCaches of a compiled pipeline",
    15: "vkMergePipelineCaches of two caches in use",
    17: "vkGetShaderModuleIdentifierEXT",
    18: "vkMergePipelineCaches of stored pipelines",
}


#: Calls that are useless without another one. The layer asks whether that one is off.
TOGETHER = {8: KEY, 9: KEY, 14: 13}


class Mark(Value):
    """One call to the driver that never returned. ``ids`` are those of PylayerMark. ``call`` may be one of ADDED."""

    call: int
    kind: int
    cache: int
    ids: tuple[int, ...]
