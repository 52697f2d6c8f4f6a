"""Verifies whole files: every record, and whether a file of that kind may hold it.

Only the command line verifies files. Loading verifies what it hands over and nothing else, and a fold the records that
it takes. Nobody checks the padding between records, which nothing reads.
"""

from __future__ import annotations

from ..common import outcomes
from . import fold, format
from .format import Damage, Refused
from .reader import Part, Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .reader import Record


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
    return fold.problem(record, data)
