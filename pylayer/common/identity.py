"""The identity of a driver build on a device: a driver gets only cache data that was stored under an equal identity."""

from __future__ import annotations

import struct
import sys

import xxhash

from ..values import DeviceFacts
from . import flat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Pointer size in bits, and byte order: drivers write native structures into their data.
ABI = f"{struct.calcsize('P') * 8}-bit {sys.byteorder}-endian"
#: The fields and their types.
FIELDS: dict[str, type] = {
    "abi": str,
    "device_id": int,
    "driver_id": int,
    "driver_info": str,
    "driver_name": str,
    "driver_version": int,
    "pipeline_cache_uuid": str,
    "vendor_id": int,
}


class Identity:
    """vendorID, deviceID, driverVersion, pipelineCacheUUID, ABI, driverID, driverName and driverInfo.

    ``digest`` is the XXH3-128 (16 bytes) of the fields as settings text, in the order of their names. ``name`` is
    its hexadecimal form, and the name of the folder in the store.
    """

    __slots__ = ("digest", "fields", "name")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        text = flat.dumps({key: fields[key] for key in sorted(fields)})
        self.digest: bytes = xxhash.xxh3_128_digest(text.encode())
        self.name: str = self.digest.hex()

    @classmethod
    def of(cls, facts: DeviceFacts) -> Identity:
        """Returns the identity of a physical device."""
        known = {"abi": ABI, "pipeline_cache_uuid": facts.pipeline_cache_uuid.hex()}
        return cls({name: known.get(name) or getattr(facts, name) for name in FIELDS})


#: Of what belongs to no driver: what programs asked for.
NO_IDENTITY = Identity({})
