"""Checks VkPipelineCacheHeaderVersionOne: whether bytes can be initial data of a VkPipelineCache on this device.

Vulkan 1.4, 'Pipeline Cache Header': 16 bytes of headerSize, headerVersion, vendorID and deviceID, always
little-endian, then the 16 bytes of pipelineCacheUUID.
"""

from __future__ import annotations

import struct

from ..values import CacheData, DeviceFacts

HEADER = struct.Struct("<IIII16s")
HEADER_VERSION_ONE = 1  # VK_PIPELINE_CACHE_HEADER_VERSION_ONE
#: Extensions define header versions of their own, such as VK_PIPELINE_CACHE_HEADER_VERSION_DATA_GRAPH_QCOM, 1000629000,
#: and the rest of such a header (Vulkan Style Guide: 1000 values for each extension).
EXTENSION_VERSIONS = range(1000000000, 1001000000)


def judge(data: CacheData, facts: DeviceFacts) -> str:
    """Returns the outcome, one of ``outcomes.HEADER``, for the initial data of one vkCreatePipelineCache."""
    if data.data_is_null:
        return "null" if data.data_size else "zero-length"
    if data.data_size == 0:
        return "zero-length"
    if data.data_size < HEADER.size or len(data.header) < HEADER.size:
        return "truncated"
    length, version, vendor, device, uuid = HEADER.unpack_from(data.header)
    if version in EXTENSION_VERSIONS:
        return "accepted"
    if version != HEADER_VERSION_ONE:
        return "wrong-version"
    if not HEADER.size <= length <= data.data_size:
        return "wrong-length"
    if vendor != facts.vendor_id:
        return "wrong-vendor"
    if device != facts.device_id:
        return "wrong-device"
    if uuid != facts.pipeline_cache_uuid:
        return "wrong-uuid"
    return "accepted"
