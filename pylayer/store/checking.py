"""Verifies whole files: every record, and whether a file of that kind may hold it.

Only the command line uses this. Loading verifies what it hands over and nothing else. Only ``unclean_padding`` checks
the padding between records, which nothing reads.
"""

from __future__ import annotations

from ..common import outcomes
from . import binaries, binary_history, format
from .format import Damage, Refused
from .reader import Part, Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .reader import Record

#: Records that each kind of file may hold.
CONTENT = {
    format.JOURNAL: (*format.PIPELINES, format.NOTE, format.USED),
    format.PACK: (*format.PIPELINES, format.NOTE, format.USED),
    format.EXPORT: (*format.PIPELINES, format.NOTE, format.USED),
    format.ATTEST_FILE: (format.ATTEST,),
    format.APPLICATION_BINARIES_FILE: (format.APPLICATION_BINARY,),
    format.VERDICT_FILE: (format.VERDICTS,),
    format.STATE_FILE: (format.OBJECT, format.CREATED, format.FAILED, format.IDENTIFIED, format.NOTE),
}


def text_of(magic: bytes) -> str:
    """Returns a magic as a message shows it."""
    return magic.decode("ascii", "replace") if magic.isalnum() else repr(magic)


class Checked:
    """What verified in a file, and what did not."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.records = 0
        #: Size of the records' data, as a driver or policy gets it.
        self.data_bytes = 0
        #: Size of the file.
        self.file_bytes = 0
        self.damage: list[Damage] = []

    def require_sound(self) -> None:
        """Raises Refused if there is any damage."""
        if self.damage:
            what = self.damage[0]
            detail = f" ({what.detail})" if what.detail else ""
            raise Refused(f"{what.outcome}: {outcomes.STORE[what.outcome]}{detail} at byte {what.offset}")

    def wrong(self, detail: str, offset: int = 0, size: int = -1) -> None:
        """Records damage."""
        self.damage.append(Damage(self.path, "impossible", offset, size, detail))


def check_file(
    path: str, kind: bytes, identity_digest: bytes | None, result: Checked, program: int | None = None
) -> Iterator[Part]:
    """Reads a file to its end: yields the parts that verify, and adds counts and damage to ``result``.

    ``kind`` and ``program`` are the kind of the file and its program according to its name. Raises OSError.
    """
    reader = Reader(path, foreign=kind == format.EXPORT)
    header, outcome = reader.header(identity_digest)
    if header is None:
        result.damage.append(Damage(path, outcome))
        return
    if header.kind != kind:
        result.wrong(f"a file of kind {text_of(header.kind)} with a name of kind {text_of(kind)}")
        return
    if program is not None and header.program != program:
        result.wrong(f"a file of program {header.program:016x} with the name of another")
    places: list[tuple[int, int]] = []
    for part in reader.content(header, result.damage):
        part.records = [record for record in part.records if not _is_impossible(part, record, result)]
        for record in part.records:
            if record.magic == format.TABLE and kind == format.PACK:
                if part.data_of(record) != format.table_of(places):
                    result.wrong("a table of other records", part.place(record))
                continue
            places += [(fingerprint, part.place(record)) for fingerprint in record.fingerprints or (0,)]
            if record.magic not in CONTENT[kind]:
                result.wrong(f"a {text_of(record.magic)} record in the wrong file", part.place(record))
            result.records += 1
            result.data_bytes += record.size
        yield part
    result.file_bytes += reader.size


def _is_impossible(part: Part, record: Record, result: Checked) -> bool:
    """Returns whether a record whose hash is valid holds what nothing writes, and says so in ``result``."""
    what = ""
    if record.magic == format.BINARIES:
        what = binaries.problem(part.data_of(record))
    elif record.magic == format.APPLICATION_BINARY and binary_history.parse(part.data_of(record)) is None:
        what = "no binary of an application"
    elif record.is_pipeline and not record.cells:
        what = "no chunk of cells"
    if what:
        result.wrong(what, part.place(record), format.record_size(record.size))
    return bool(what)


def unclean_padding(path: str) -> int | None:
    """Returns the offset at which padding after a record is not zero; None if all padding is zero. The file has been
    verified, but may belong to anybody and lie anywhere. Raises OSError."""
    reader = Reader(path, foreign=True)
    at = format.FILE_HEADER.size
    while at < reader.size:
        head = reader.bytes_at(at, format.RECORD_HEADER.size)
        if len(head) < format.RECORD_HEADER.size:
            return at
        size: int = format.RECORD_HEADER.unpack(head)[3]
        zeros = format.padding(size)
        end = at + format.RECORD_HEADER.size + size
        if end + len(zeros) > reader.size or reader.bytes_at(end, len(zeros)) != zeros:
            return end
        at = end + len(zeros)
    return None
