"""Verifies whole files: every record, and whether a file of that kind may hold it.

Only the command line verifies files. Loading verifies what it hands over and nothing else, and a compaction the records
that it takes. Nobody checks the padding between records, which nothing reads.
"""

from __future__ import annotations

from ..common import outcomes
from ..common.cache_header import HEADER, HEADER_VERSION_ONE
from ..common.identity import Identity
from ..values import KIND_NAMES
from . import binaries, chunk, compaction, format, state
from .format import Damage, Refused
from .reader import Part, Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
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


def text_of(magic: bytes) -> str:
    """Returns a magic as a message shows it."""
    return magic.decode("ascii", "replace") if magic.isalnum() else repr(magic)


class Checked:
    """What verified in files, and what did not."""

    def __init__(self) -> None:
        self.files = self.records = 0
        #: Size of the records' data, as a driver or policy gets it, and of the files.
        self.data_bytes = self.file_bytes = 0
        self.damage: list[Damage] = []

    def require_sound(self) -> None:
        """Raises Refused if there is any damage."""
        if self.damage:
            what = self.damage[0]
            detail = f" ({what.detail})" if what.detail else ""
            raise Refused(f"{what.outcome}: {outcomes.STORE[what.outcome]}{detail} at byte {what.offset}")


def check_file(
    path: str, kind: bytes, identity_digest: bytes | None, result: Checked, program: int | None = None
) -> Iterator[Part]:
    """Reads a file to its end: yields the parts that verify, and adds counts and damage to ``result``.

    ``kind`` and ``program`` are the kind of the file and its program according to its name. Raises OSError.
    """

    def wrong(detail: str, offset: int = 0, size: int = -1) -> None:
        result.damage.append(Damage(path, "impossible", offset, size, detail))

    reader, known = Reader(path, foreign=kind == format.EXPORT), len(result.damage)
    result.files += 1
    result.file_bytes += reader.size
    header, outcome = reader.header(identity_digest)
    if header is None:
        result.damage.append(Damage(path, outcome))
        return
    if header.kind != kind and (header.kind, kind) != (format.EARLIER_STATE_FILE, format.JOURNAL):
        wrong(f"a file of kind {text_of(header.kind)} with a name of kind {text_of(kind)}")
        return
    if program is not None and header.program != program:
        wrong(f"a file of program {header.program:016x} with the name of another")
    places: list[tuple[int, int]] = []
    for part in reader.content(header, result.damage):
        records, part.records = part.records, []
        for record in records:
            place, data = part.place(record), part.data_of(record)
            if record.magic == format.TABLE and kind == format.PACK:
                # Of a damaged record, nobody knows the places.
                if data != format.table_of(places) and len(result.damage) == known:
                    wrong("a table of other records", place)
                continue
            places += [(fingerprint, place) for fingerprint in record.fingerprints or (0,)]
            if detail := problem(record, data):
                wrong(detail, place, format.record_size(record.size))
                continue
            part.records.append(record)
            result.records += 1
            result.data_bytes += record.size
        yield part


def problem(record: Record, data: memoryview) -> str:
    """Returns why nothing writes a record with this data, whose hash is valid; empty text if it may be written."""
    return compaction.problem(record, data)


# ---- records of other machines -----------------------------------------------------------------------


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


def foreign_problem(record: Record, data: memoryview, identity: Identity) -> str:
    """Returns what is wrong with a record that verified and comes from another machine, in words; empty if nothing is.
    Hashes do not show that it belongs to the device and driver which the file names."""
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
