"""What a store's journals say of uses: reads it, and makes it older."""

from __future__ import annotations

import time
from pathlib import Path

from pylayer.store import contents, format, reader


def uses_in(path: Path) -> tuple[format.FileHeader, list[tuple[tuple[int, ...], int]]]:
    """Returns a journal's header, and the fingerprints and time of each of its USED records."""
    file, damage = reader.Reader(str(path)), []  # type: tuple[reader.Reader, list[format.Damage]]
    header, outcome = file.header()
    assert header is not None, outcome
    found = [
        (contents.fingerprints_of(part.data_of(record)), record.last_used)
        for part in file.content(header, damage)
        for record in part.records
        if record.magic == format.USED
    ]
    assert not damage
    return header, found


def age(path: Path, ago: int) -> None:
    """Makes what a journal says of uses so many seconds old."""
    data = bytearray(path.read_bytes())
    header, _ = format.read_file_header(bytes(data))
    assert header is not None
    at = format.FILE_HEADER.size
    while at < len(data):
        magic, kind, flags, size, create_ns, digest, fingerprint, _, _ = format.RECORD_HEADER.unpack_from(data, at)
        if magic in (format.USED, format.CELL):
            when = int(time.time()) - ago
            head = format.record_header(magic, size, digest, kind, flags, create_ns, fingerprint, when)
            data[at : at + 64] = bytes(format.seal([head], header.salt)[0])
        at += format.record_size(size)
    path.write_bytes(data)
