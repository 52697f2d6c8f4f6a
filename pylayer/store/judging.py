"""Judges verified records that come from another machine: whether any pylayer writes such a record for that identity.

Hashes show that a record is undamaged. They do not show that it belongs to the device and driver which the file names.
"""

from __future__ import annotations

from ..common.cache_header import HEADER, HEADER_VERSION_ONE
from ..common.identity import Identity
from ..values import KIND_NAMES
from . import binaries, chunk, format, state
from .checking import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .reader import Record

#: Longer notes are refused.
MAX_NOTE_BYTES = 1 << 16
#: Fields of an identity and their types.
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


def describes_device(fields: Any) -> bool:
    """Returns whether the fields of an identity, which may be anything, describe a device and its driver."""
    if not isinstance(fields, dict):
        return False
    if {key: type(value) for key, value in fields.items()} != FIELDS:
        return False
    try:
        uuid = bytes.fromhex(fields["pipeline_cache_uuid"])
    except ValueError:
        return False
    numbers = [value for value in fields.values() if isinstance(value, int)]
    return len(uuid) == 16 and all(0 <= value < 1 << 32 for value in numbers)


def problem(record: Record, data: memoryview, identity: Identity) -> str:
    """Returns what is wrong with a record, in words; empty if nothing is. ``checking`` has verified its structure."""
    if not identity.fields:
        return state.problem(record, data)
    if record.is_pipeline:
        if record.kind >= len(KIND_NAMES) or record.flags & ~(format.EARLIER | format.PULLED):
            return "a pipeline of an unknown kind"
        if record.magic == format.BINARIES:
            reason = _binaries_problem(data)
        else:
            reason = _cell_problem(data if record.magic == format.CELL else chunk.merged_of(data), identity)
        return f"a pipeline {reason}" if reason else ""
    if record.magic == format.USED:
        return "a malformed list of uses" if len(data) % 8 else ""
    if record.magic == format.NOTE:
        return "a note with unknown content"
    return f"a {text_of(record.magic)} record in the wrong file"


def _cell_problem(data: memoryview, identity: Identity) -> str:
    """Returns what is wrong with the VkPipelineCacheHeaderVersionOne of a cell, in words; empty if nothing is."""
    fields = identity.fields
    if len(data) < HEADER.size:
        return "shorter than a pipeline cache header"
    length, version, vendor, device, uuid = HEADER.unpack_from(data)
    if version != HEADER_VERSION_ONE or not HEADER.size <= length <= len(data):
        return "without a pipeline cache header"
    if vendor != fields["vendor_id"] or device != fields["device_id"]:
        return "of another device than the file is for"
    if uuid != bytes.fromhex(fields["pipeline_cache_uuid"]):
        return "of another driver build than the file is for"
    return ""


def _binaries_problem(data: memoryview) -> str:
    return "" if binaries.HEADER.unpack_from(data)[2] else "of binaries, of a driver without a global key"
