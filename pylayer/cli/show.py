"""``pylayer show``: one program, or one driver identity, in detail."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from .complete import programs_and_identities
from .output import (
    EXIT_STATUSES,
    HELP,
    Failure,
    console,
    day,
    human_bytes,
    human_time,
    json_option,
    plural,
    print_json,
    printable,
)
from .selection import LEAST_PREFIX, Names, Selection, identity_option, require_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.format import Damage, FileHeader
    from ..store.reader import Reader
    from ..store.recency import Uses
    from .inventory import Inventory, Shelf

#: Suffixes of files that hold pipelines.
PIPELINE_FILES = (".pack", ".journal", ".closed")

#: The histogram of last use: until so many days ago, and what that is called.
AGES = ((1, "today"), (7, "within 7 days"), (30, "within 30 days"), (90, "within 90 days"), (None, "longer ago"))


class Detail:
    """One program, or all programs together, under one identity."""

    def __init__(self, shelf: Shelf, program: int | None) -> None:
        self.shelf = shelf
        self.program = program
        self.files: list[dict[str, Any]] = []
        #: By magic, how many records.
        self.records: dict[str, int] = {}
        self.kinds: dict[str, int] = {}
        #: Of the records that a pack or journal holds: their data, and what they take on the disk.
        self.data_bytes = 0
        self.disk_bytes = 0
        self.compile_us = 0
        self.timed = 0
        self.adopted = 0
        self.binaries = 0
        self.ages = dict.fromkeys((name for _, name in AGES), 0)
        self.plain_kinds: set[str] = set()
        self.stub = False
        self.attestations = 0
        self.application_binaries = 0
        self.last_attested = 0
        self.blobs: list[dict[str, Any]] = []
        self._seen: set[tuple[int, bytes]] = set()
        self._to_date: list[tuple[int, int, int]] = []
        self._uses: dict[int, Uses] = {}

    def uses(self, program: int) -> Uses:
        """What USED records of a program say, to be added to."""
        from ..store.recency import Uses

        return self._uses.setdefault(program, Uses())

    def count(self, magic: bytes) -> None:
        """One record."""
        from ..store.checking import text_of

        name = text_of(magic)
        self.records[name] = self.records.get(name, 0) + 1

    def pipeline(
        self,
        magic: bytes,
        program: int,
        digest: bytes,
        kind: int,
        flags: int,
        us: int,
        fingerprint: int,
        when: int,
    ) -> None:
        """One stored pipeline; the same in a second file is loaded once."""
        from ..store import format
        from ..values import KIND_NAMES

        if (program, digest) in self._seen:
            return
        self._seen.add((program, digest))
        self.binaries += magic == format.BINARIES
        name = KIND_NAMES[kind] if kind < len(KIND_NAMES) else f"kind {kind}"
        self.kinds[name] = self.kinds.get(name, 0) + 1
        if flags & format.ADOPTED:
            self.adopted += 1
        elif us:
            self.compile_us += us
            self.timed += 1
        self._to_date.append((program, fingerprint, when))

    def read_note(self, data: bytes) -> None:
        """What runs found out about the driver."""
        from ..store.folder import Loaded, _read_note
        from ..values import KIND_NAMES

        loaded = Loaded()
        _read_note(data, loaded)
        self.stub = self.stub or loaded.stub
        self.plain_kinds |= {name for number, name in enumerate(KIND_NAMES) if loaded.plain_kinds >> number & 1}

    def date(self) -> None:
        """Fills the histogram, when all uses are known."""
        now = time.time()
        for program, fingerprint, own in self._to_date:
            days = (now - self.uses(program).last_use(fingerprint, own)) / (24 * 3600)
            self.ages[next(name for limit, name in AGES if limit is None or days < limit)] += 1


def _examine(root: str, shelf: Shelf, program: int | None) -> Detail:
    from ..store.bounds import files_of
    from ..store.reader import Reader

    detail = Detail(shelf, program)
    for file in sorted(files_of(root, shelf.name), key=lambda file: file.path):
        suffix = os.path.splitext(file.path)[1]
        if file.program is None or program not in (None, file.program):
            continue
        try:
            reader = Reader(file.path)
        except OSError as error:
            detail.files.append(_file_json(file.path, file.size, file.mtime, f"unreadable: {error.strerror or error}"))
            continue
        try:
            outcome = _read(detail, reader, suffix)
        except OSError as error:
            outcome = f"unreadable: {error.strerror or error}"
        detail.files.append(_file_json(file.path, file.size, file.mtime, outcome))
    detail.date()
    return detail


def _file_json(path: str, size: int, mtime: float, outcome: str) -> dict[str, Any]:
    from ..store import ended, format

    writer = False
    if path.endswith(format.APPENDED):
        try:
            writer = ended.has_writer(path)
        except OSError:
            pass  # folded meanwhile
    return {
        "file": os.path.basename(path),
        "bytes": size,
        "changed_s": int(mtime),
        "outcome": outcome,
        "has_writer": writer,
    }


def _read(detail: Detail, reader: Reader, suffix: str) -> str:
    from ..store import format

    header, outcome = reader.header(bytes.fromhex(detail.shelf.name))
    if header is None:
        return outcome
    damage: list[format.Damage] = []
    for record, data in _records(reader, header, damage):
        magic, kind, flags, _, size, create_ns, digest, fingerprint, last_used = record
        detail.count(magic)
        if magic in format.PIPELINES:
            detail.pipeline(magic, header.program, digest, kind, flags, create_ns // 1000, fingerprint, last_used)
        elif magic == format.BLOB:
            detail.blobs.append({"slot": kind, "bytes": size, "program_id": f"{header.program:016x}"})
        else:
            _other(detail, header.program, magic, data, last_used)
        if suffix in PIPELINE_FILES:
            detail.data_bytes += size
    if suffix in PIPELINE_FILES:
        detail.disk_bytes += reader.size
    return next((what.outcome for what in damage if not what.is_torn_end), "ok")


def _records(reader: Reader, header: FileHeader, damage: list[Damage]) -> Iterator[tuple[Any, bytes]]:
    from ..store import format

    small = (format.NOTE, format.USED, format.ATTEST)
    for part in reader.content(header, damage):
        for record in part.records:
            data = bytes(part.data[record[3] : record[3] + record[4]]) if record[0] in small else b""
            yield record, data


def _other(detail: Detail, program: int, magic: bytes, data: bytes, when: int) -> None:
    from ..store import format
    from ..store.recency import fingerprints_of

    if magic == format.NOTE:
        detail.read_note(data)
    elif magic == format.USED:
        detail.uses(program).note(fingerprints_of(data), when)
    elif magic == format.APPLICATION_BINARY:
        detail.application_binaries += 1
    elif magic == format.ATTEST:
        detail.attestations += 1
        detail.last_attested = max(detail.last_attested, when)


def _ratio(detail: Detail) -> float | None:
    return round(detail.data_bytes / detail.disk_bytes, 2) if detail.disk_bytes else None


def _json(found: Inventory, detail: Detail) -> dict[str, Any]:
    from .inventory import describe

    shelf = detail.shelf
    device, driver = describe(shelf.identity, shelf.name, found.names)
    programs = shelf.programs if detail.program is None else [detail.program]
    return {
        "identity": shelf.name,
        "device": device,
        "driver": driver,
        "fields": shelf.identity.fields if shelf.identity is not None else None,
        "programs": [{"program": found.names.of(number), "program_id": f"{number:016x}"} for number in programs],
        "pipelines": sum(detail.kinds.values()),
        "binaries": detail.binaries,
        "pipelines_by_kind": detail.kinds,
        "records": detail.records,
        "data_bytes": detail.data_bytes,
        "disk_bytes": detail.disk_bytes,
        "compression_ratio": _ratio(detail),
        "compile_time_saved_per_load_ns": detail.compile_us * 1000,
        "timed_pipelines": detail.timed,
        "adopted_pipelines": detail.adopted,
        "last_used_days": detail.ages,
        "attestations": detail.attestations,
        "application_binaries": detail.application_binaries,
        "last_attested_s": detail.last_attested,
        "blobs": detail.blobs,
        "plain_kinds": sorted(detail.plain_kinds),
        "stub": detail.stub,
        "files": detail.files,
    }


def _lines(found: Inventory, detail: Detail) -> list[tuple[str, str]]:
    kinds = ", ".join(f"{count} {name}" for name, count in sorted(detail.kinds.items(), key=lambda item: -item[1]))
    pipelines = str(sum(detail.kinds.values()))
    records = ", ".join(f"{count} {name}" for name, count in sorted(detail.records.items()))
    ratio = _ratio(detail)
    sizes = f"{human_bytes(detail.data_bytes)} of data in {human_bytes(detail.disk_bytes)} on disk"
    saved = human_time(detail.compile_us * 1000)
    blobs = ", ".join(f"cache {blob['slot']}: {human_bytes(blob['bytes'])}" for blob in detail.blobs)
    lines = [
        ("pipelines", f"{pipelines} ({kinds})" if kinds else pipelines),
        ("records", records or "none"),
        ("size", f"{sizes}, ratio {ratio}" if ratio is not None else sizes),
        ("saved", f"{saved} of compiling, each time that all of it is loaded" if detail.timed else "unknown"),
        ("last used", ", ".join(f"{count} {name}" for name, count in detail.ages.items() if count) or "never"),
    ]
    if detail.binaries:
        lines.append(("binaries", f"{detail.binaries} of the pipelines are kept as pipeline binaries"))
    if detail.adopted:
        lines.append(("adopted", f"{detail.adopted} from the driver's own cache, compile time unknown"))
    if detail.attestations:
        when = day(detail.last_attested)
        lines.append(("attested", f"{plural(detail.attestations, 'state')} of its own caches, the last on {when}"))
    if detail.application_binaries:
        lines.append(("attested", f"{detail.application_binaries} of its own pipeline binaries"))
    if blobs:
        lines.append(("kept", f"the program's own {blobs}"))
    if detail.plain_kinds:
        lines.append(("note", f"not looked for in the cache first: {', '.join(sorted(detail.plain_kinds))}"))
    if detail.stub:
        lines.append(("note", "the driver's VkPipelineCache was found to keep nothing"))
    if detail.program is None:
        lines.append(("programs", ", ".join(found.names.of(program) for program in detail.shelf.programs) or "none"))
    return lines


def _print(found: Inventory, detail: Detail) -> None:
    from rich.table import Table
    from rich.text import Text

    from .inventory import describe

    out = console()
    shelf = detail.shelf
    device, driver = describe(shelf.identity, shelf.name, found.names)
    title = device if detail.program is None else found.names.of(detail.program)
    out.print(Text(title, style="bold"))
    under = f"{driver}; identity {shelf.name}"
    out.print(Text(under if detail.program is None else f"{device}; {under}", style="dim"))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _lines(found, detail):
        table.add_row(f"  {name}", Text(text))
    if detail.program is None and shelf.identity is not None:
        for key, value in sorted(shelf.identity.fields.items()):
            text = f"{value:#x}" if isinstance(value, int) and key != "driver_id" else str(value)
            table.add_row(f"  {key.replace('_', ' ')}", Text(printable(text), style="dim"))
    out.print(table)
    for file in detail.files:
        state = "" if file["outcome"] == "ok" else f"  {file['outcome']}"
        state += "  being written" if file["has_writer"] else ""
        line = Text(f"  {human_bytes(file['bytes']):>9}  {day(file['changed_s'])}  {printable(file['file'])}{state}")
        out.print(line, soft_wrap=True)


def _resolve(found: Inventory, name: str) -> list[tuple[Shelf, int | None]]:
    """The identity, or the program under each identity, that is meant."""
    if len(name) >= LEAST_PREFIX and all(c in "0123456789abcdef" for c in name.lower()):
        shelves = [shelf for shelf in found.shelves if shelf.name.startswith(name.lower())]
        if len(shelves) > 1:
            listed = ", ".join(shelf.name[:12] for shelf in shelves)
            raise Failure(f"{name} is the beginning of {len(shelves)} identities ({listed}); give more of it")
        if shelves:
            return [(shelves[0], None)]
    meant = [(shelf, program) for shelf in found.shelves for program in shelf.programs]
    chosen: list[tuple[Shelf, int | None]] = [pair for pair in meant if found.names.matches(pair[1], name)]
    if not chosen:
        raise Failure(f"{found.root} has no program and no identity {name}; pylayer ls lists what is there")
    programs = {program for _, program in chosen if program is not None}
    if len(programs) > 1:
        listed = ", ".join(sorted(f"{found.names.of(program)} ({program:016x})" for program in programs)[:8])
        raise Failure(f"{name} names {len(programs)} programs: {listed}; name one, or its number")
    return chosen


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@click.argument(
    "name",
    shell_complete=programs_and_identities,
    help="A program's name, with * and ?, or the beginning of an identity, as pylayer ls shows them.",
)
@identity_option
@json_option
def show(name: str, identity: str | None, as_json: bool) -> None:
    """Show one program, or one driver identity, in detail.

    saved is what compiling the stored pipelines took, which a run that loads them all does not spend again. Sizes
    compare the records' data with their part of the files.

    \b
    Example:
      pylayer show "blender*"
    """
    from .inventory import Inventory

    root = require_root()
    found = Inventory(root, Selection(identity=identity), Names(root))
    details = [_examine(root, shelf, program) for shelf, program in _resolve(found, name)]
    if as_json:
        print_json({"store": root, "found": [_json(found, detail) for detail in details]})
        return
    for number, detail in enumerate(details):
        if number:
            click.echo()
        _print(found, detail)
