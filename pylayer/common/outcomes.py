"""What can become of data that was read: names, each with its meaning for people; and the check of a pipeline cache's
header, which says whether bytes can be initial data of a VkPipelineCache on this device.

Vulkan 1.4, 'Pipeline Cache Header': 16 bytes of headerSize, headerVersion, vendorID and deviceID, always little-endian,
then the 16 bytes of pipelineCacheUUID.
"""

from __future__ import annotations

import struct

from ..values import CacheData, DeviceFacts

#: Of the initial data of a vkCreatePipelineCache, by its header (``judge``).
BY_HEADER = {
    "accepted": "the header is this driver's",
    "zero-length": "a pointer to no data",
    "null": "a length without data",
    "truncated": "shorter than a pipeline cache header",
    "wrong-length": "the header's own length cannot be right",
    "wrong-version": "a header version that this Vulkan does not define",
    "wrong-vendor": "written for another vendor's device",
    "wrong-device": "written for another device",
    "wrong-uuid": "written by another driver build",
}
#: Of the same data, by what the program read before (``store/cache_history.py``). ``policy.Policy.admit_cache`` decides
#: what follows from it.
HISTORY = {
    "attested": "read back from this driver by this program, byte for byte, or passed in an earlier run",
    "stale": "read back by this program from another driver or device",
    "altered": "a damaged copy of data that this program read back from this driver",
    "unknown": "no record of it, and no damage recognised",
}
#: Why such data was passed or refused.
CACHE_DATA = {
    **BY_HEADER,
    **HISTORY,
    "blocked": "a process died while the driver handled it",
    "driver-error": "the driver returned an error for it",
}
#: Of a file of the store, or a part of one, that cannot be used.
STORE = {
    "empty": "the file is empty",
    "zero-filled": "zeros where records should be, as after a power failure",
    "truncated": "the file ends inside a record: its writer was killed, or the end was cut off",
    "extended": "bytes after the end",
    "damaged-header": "a header that does not match its hash",
    "damaged-data": "data that does not match its hash",
    "foreign-version": "another version of the format",
    "foreign-identity": "another driver or device than the folder is for",
    "not-a-store-file": "not a file of this store",
    "impossible": "impossible lengths or offsets, under a valid hash",
    "unreadable": "the file could not be read",
    "untrusted": "another user could have written it",
}


# ---- the header ----------------------------------------------------------------------------------

HEADER = struct.Struct("<IIII16s")
HEADER_VERSION_ONE = 1  # VK_PIPELINE_CACHE_HEADER_VERSION_ONE
#: Extensions define header versions of their own, such as VK_PIPELINE_CACHE_HEADER_VERSION_DATA_GRAPH_QCOM, 1000629000,
#: and the rest of such a header (Vulkan Style Guide: 1000 values for each extension).
EXTENSION_VERSIONS = range(1000000000, 1001000000)


def judge(data: CacheData, facts: DeviceFacts) -> str:
    """Returns the outcome, one of ``BY_HEADER``, for the initial data of one vkCreatePipelineCache."""
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
