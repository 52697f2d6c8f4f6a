"""Verifying whole files: every record, and that a pack's directory and index say what is in it.

For the command line, to verify and to import: loading verifies what it hands over and looks at nothing else. Nothing
reads the padding between records.
"""

from __future__ import annotations

from . import application_binaries, binaries, format, pack
from .format import Damage
from .reader import Part, Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .pack import Directory, Entry, Group
    from .reader import Record

    Programs = tuple[int, ...]

#: Records that may stand in a file of a kind. Packs have blocks, too, which ``Reader`` unpacks.
CONTENT = {
    format.JOURNAL: (*format.PIPELINES, format.NOTE, format.USED),
    format.PACK: (*format.PIPELINES, format.NOTE, format.USED, format.GROUP),
    format.EXPORT: (*format.PIPELINES, format.NOTE, format.USED, format.GROUP),
    format.SNAPSHOT_FILE: (format.SNAPSHOT,),
    format.BLOB_FILE: (format.BLOB,),
    format.ATTEST_FILE: (format.ATTEST,),
    format.APPLICATION_BINARIES_FILE: (format.APPLICATION_BINARY,),
    format.SUSPECTS_FILE: (format.NOTE,),
}


def _problem(magic: bytes, data: memoryview) -> str:
    """What cannot be in a record whose hash is right, in words; empty where nothing is wrong."""
    if magic == format.BINARIES:
        return binaries.problem(data)
    return "" if application_binaries.parse(data) is not None else "no binary of an application"


def text_of(magic: bytes) -> str:
    """A magic in a message."""
    return magic.decode("ascii", "replace") if magic.isalnum() else repr(magic)


class Checked:
    """What verified in a file, and what did not."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.records = 0
        #: Their data, as a driver or policy gets it.
        self.data_bytes = 0
        #: Of the file.
        self.file_bytes = 0
        self.damage: list[Damage] = []
        #: Known before the first records are; of a pack also the programs' names.
        self.header: format.FileHeader | None = None
        self.names: dict[int, str] = {}

    def wrong(self, detail: str, offset: int = 0, size: int = -1, outcome: str = "impossible") -> None:
        """Adds to the damage."""
        self.damage.append(Damage(self.path, outcome, offset, size, detail))


def check_file(
    path: str,
    kind: bytes,
    identity_digest: bytes | None,
    result: Checked,
    program: int | None = None,
    wanted: Callable[[Programs], bool] | None = None,
) -> Iterator[tuple[Programs, Part]]:
    """Reads a file byte by byte; what verifies is yielded with the programs it belongs to, the rest is in ``result``.

    ``kind`` is what the file's name says it is, ``program`` whose it is by its name. ``wanted`` chooses groups of a
    pack: the others are left out. Raises OSError.
    """
    reader = Reader(path, foreign=kind == format.EXPORT)
    try:
        header, outcome = reader.header(identity_digest)
        if header is None:
            result.damage.append(Damage(path, outcome))
            return
        result.header = header
        if header.kind != kind:
            result.wrong(f"a file of the kind {text_of(header.kind)}, not {text_of(kind)}")
            return
        if program is not None and header.program != program:
            result.wrong(f"a file of program {header.program:016x} under the name of another")
        result.file_bytes += format.FILE_HEADER.size
        pieces = _pack(reader, header, result, wanted) if kind in (format.PACK, format.EXPORT) else None
        if pieces is None:
            pieces = _records(reader, header, result)
        for programs, part in pieces:
            part.records = [record for record in part.records if not _is_impossible(part, record, result)]
            for record in part.records:
                if record[0] not in CONTENT[kind]:
                    result.wrong(f"a {text_of(record[0])} record here", part.place(record)[0])
                if record[0] != format.GROUP:
                    result.records += 1
                    result.data_bytes += record[4]
            yield programs, part
    finally:
        reader.close()


def _is_impossible(part: Part, record: Record, result: Checked) -> bool:
    if record[0] not in (format.BINARIES, format.APPLICATION_BINARY):
        return False
    what = _problem(record[0], memoryview(part.data)[record[3] : record[3] + record[4]])
    if what:
        result.wrong(what, part.place(record)[0], format.record_size(record[4]))
    return bool(what)


def _records(reader: Reader, header: format.FileHeader, result: Checked) -> Iterator[tuple[Programs, Part]]:
    programs = (header.program,)
    for part in reader.parts(result.damage):
        yield programs, part
    result.file_bytes = reader.size


def _pack(
    reader: Reader, header: format.FileHeader, result: Checked, wanted: Callable[[Programs], bool] | None
) -> Iterator[tuple[Programs, Part]]:
    directory = pack.read_directory(reader, header, result.damage)
    if directory is None:
        yield from _without_directory(reader, result, wanted)
        return
    result.names = dict(directory.names)
    entries = pack.read_index(reader, directory)
    if entries is None:
        size = format.record_size(directory.index_size)
        result.damage.append(Damage(reader.path, "damaged-data", directory.index_offset, size, "INDX"))
    place = format.FILE_HEADER.size
    for group in directory.groups:
        _gap(result, place, group.offset)
        place = group.offset + group.size
        rows = None if entries is None else [next(entries) for _ in range(group.count)]
        if wanted is None or wanted(group.programs):
            result.file_bytes += group.size
            yield from _group(reader, group, rows, result)
    _ends(header, directory, place, result)
    result.file_bytes += reader.size - place


def _ends(header: format.FileHeader, directory: Directory, place: int, result: Checked) -> None:
    """INDX stands behind the last group, and GRPS behind INDX."""
    _gap(result, place, directory.index_offset)
    _gap(result, directory.index_offset + format.record_size(directory.index_size), header.groups_offset)


def _gap(result: Checked, place: int, following: int) -> None:
    if place != following:
        result.wrong("bytes of no group", place, following - place)


def _without_directory(
    reader: Reader, result: Checked, wanted: Callable[[Programs], bool] | None
) -> Iterator[tuple[Programs, Part]]:
    programs: Programs = ()
    for part in reader.parts(result.damage):
        # A part may hold several groups: each run of records goes with its own.
        run: list[Record] = []
        for record in part.records:
            if record[0] == format.GROUP:
                if run and (wanted is None or wanted(programs)):
                    yield programs, Part(part.data, run, part.base, part.in_block)
                run = []
                programs = pack.group_programs(part.data[record[3] : record[3] + record[4]])
            elif record[0] not in (format.INDEX, format.GROUPS):
                run.append(record)
        if run and (wanted is None or wanted(programs)):
            yield programs, Part(part.data, run, part.base, part.in_block)
    result.file_bytes = reader.size


def _group(reader: Reader, group: Group, rows: list[Entry] | None, result: Checked) -> Iterator[tuple[Programs, Part]]:
    """The records of one group, each compared with its row of INDX."""
    expected = None if rows is None else {(row.offset, row.inner): row for row in rows}
    damaged_before = len(result.damage)
    count = raw_bytes = headed = 0
    for part in reader.parts(result.damage, group.offset, group.offset + group.size):
        for record in part.records:
            place = part.place(record)
            if record[0] == format.GROUP:
                members = pack.group_programs(part.data[record[3] : record[3] + record[4]])
                if headed or place[0] != group.offset or members != group.programs:
                    result.wrong("GRUP and GRPS do not agree", place[0])
                headed += 1
                continue
            count += 1
            raw_bytes += record[4]
            if expected is not None:
                row = expected.pop(place, None)
                if row is None or _columns(row) != _fields(record):
                    result.wrong("INDX and the record do not agree", place[0])
        yield group.programs, part
    new = result.damage[damaged_before:]
    if not new:
        if not headed:
            result.wrong("GRUP is missing", group.offset)
        if (count, raw_bytes) != (group.count, group.raw_bytes):
            result.wrong("GRPS counts other records", group.offset)
    for row in (expected or {}).values():
        if not any(what.offset <= row.offset < what.offset + max(what.size, 1) for what in new):
            result.wrong("INDX lists a record that is not there", row.offset)
            break


def _columns(row: Entry) -> tuple[object, ...]:
    return (
        row.magic, row.kind, row.flags, row.size, row.create_us, row.digest, row.fingerprint, row.last_used
    )  # fmt: skip


def _fields(record: Record) -> tuple[object, ...]:
    magic, kind, flags, _, size, create_ns, digest, fingerprint, last_used = record
    return (
        magic, kind, flags, size, min(create_ns // 1000, 0xFFFFFFFF), digest, fingerprint, min(last_used, 0xFFFFFFFF)
    )  # fmt: skip
