"""Stores as programs leave them, made with the store's own code: journals, packs, attestations."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path
from typing import Any

import disk
import recorded_runs
import xxhash
from unit.things import facts, program_id, record

from pylayer.cli.devices import probe
from pylayer.common import file_kinds, owner
from pylayer.common.files import unique_name
from pylayer.common.identity import Identity
from pylayer.common.outcomes import HEADER, HEADER_VERSION_ONE
from pylayer.common.settings import Limits
from pylayer.store import format
from pylayer.store.block_list import DAY, DECIDED, RECORD, Block
from pylayer.store.cache_history import Known
from pylayer.store.checking import Checked
from pylayer.store.compaction import Compaction
from pylayer.store.contents import used_parts
from pylayer.store.folder import Folder
from pylayer.store.format import number_of
from pylayer.store.maintenance import maintain
from pylayer.values import DeviceFacts

GAME, TOOL, OTHER = ("game", "The Game"), ("tool", ""), ("other", "")
NOW = int(time.time())


def name_of(program: tuple[str, str]) -> str:
    """Returns a program's name as policy writes it into a file."""
    executable, application = program
    return f"{executable} ({application})" if application else executable


IDENTITY = Identity.of(facts())
OLD_DRIVER = Identity.of(facts(driver_info="Mesa 24.0.5", driver_version=100663301, pipeline_cache_uuid=bytes(16)))


def cell_data(number: int, identity: Identity = IDENTITY, size: int = 900) -> bytes:
    """Returns what a driver gives for one pipeline: its header, and code that partly repeats other pipelines'."""
    fields = identity.fields
    uuid = bytes.fromhex(fields["pipeline_cache_uuid"])
    head = HEADER.pack(HEADER.size, HEADER_VERSION_ONE, fields["vendor_id"], fields["device_id"], uuid)
    common = random.Random(0).randbytes(size * 3 // 4)
    return head + struct.pack("<Q", number) + common + random.Random(number + 1).randbytes(size // 4)


def cell(number: int, last_used: int = NOW, identity: Identity = IDENTITY, **fields: Any) -> bytes:
    """Returns a record of one pipeline. Its fingerprint is its number."""
    data = cell_data(number, identity, fields.pop("size", 900))
    values = {"kind": 1, "create_ns": 2_000_000, "fingerprint": number, "last_used": last_used, **fields}
    return record(data, **values)


def note(text: bytes = b"stub=b:1\n") -> bytes:
    """Returns what an older version wrote about the driver."""
    return record(text, format.NOTE)


def verdict(type: int = RECORD, subject: int = 11, **changes: int) -> bytes:
    """Returns a record with a block that was just decided."""
    now = time.time_ns()
    values = {"kind": 0, "runs": 1, "flags": DECIDED, "decided_ns": now, "until_s": now // 10**9 + DAY, "found_ns": now}
    return record(Block(type=type, subject=subject, **{**values, **changes}).pack(), format.VERDICTS)


def used(fingerprints: list[int], when: int = NOW) -> bytes:
    return b"".join(used_parts(fingerprints, when))


class Store:
    """A store with the files of programs that have ended."""

    def __init__(self, root: Path, identity: Identity = IDENTITY) -> None:
        self.root = root
        self.identity = identity
        self.folder = Folder(str(root), identity)
        self.folder.prepare()
        self.path = Path(self.folder.path)

    def file(self, suffix: str, program: tuple[str, str], *records: bytes, alive: bool = False) -> Path:
        """Writes a program's file. Its writer is this process if ``alive``, and otherwise a process that has ended."""
        number = program_id(*program)
        path = self.path / f"{number:016x}-{unique_name()}{suffix}"
        head = format.file_header(file_kinds.BY_SUFFIX[suffix].magic, self.identity, number, name_of(program), salt=0)
        path.write_bytes((head if alive else ended(head)) + b"".join(records))
        return path

    def journal(self, program: tuple[str, str], *records: bytes, alive: bool = False) -> Path:
        return self.file(".journal" if alive else ".closed", program, *records, alive=alive)

    def know(self, program: tuple[str, str], data: bytes) -> Path:
        parts = Known(xxhash.xxh3_128_digest(data), len(data), NOW, 0).parts()
        return self.file(".attest", program, b"".join(parts))

    def blocked(self, program: tuple[str, str], *digests: bytes) -> Path:
        """Blocks records for a program."""
        return self.file(".verdict", program, *(verdict(subject=number_of(digest)) for digest in digests))

    def pack(self) -> None:
        """Compacts everything into one pack for each program."""
        for program in self.folder.programs():
            compaction = Compaction(self.folder, program, everything=True, drop=lambda planned: False)
            list(compaction.steps())
            assert compaction.written and not compaction.damage

    def mend(self) -> None:
        """Repairs what is damaged, as a run does while it is idle."""
        report = Checked(str(self.root))
        list(report.steps(lambda name: name == self.path.name, None))
        assert [*maintain(self.folder, report.damage, Limits(1 << 40), lambda text: None)]

    def loaded(self, program: tuple[str, str]) -> list[int]:
        """Returns the numbers of the pipelines that a run of the program would load."""
        found = disk.load(self.folder, program_id(*program)).cells.values()
        return sorted(struct.unpack_from("<Q", data, HEADER.size)[0] for data in found)

    def sizes(self) -> int:
        """Returns the bytes of every file of all identities."""
        files = [path for path in (self.root / "store").rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files)

    def files(self, pattern: str = "*") -> list[Path]:
        return sorted(self.path.glob(pattern))


def ended(head: bytes) -> bytes:
    """Returns a file header whose writer has ended: its pid belongs to no process."""
    place, _, namespace, ticks = owner.this_process()
    fields = list(format.FILE_HEADER.unpack(head))
    fields[17:21] = [place, 0x7FFFFFFE, namespace, ticks]
    body = format.FILE_HEADER.pack(*fields)[: format.HASHED_FILE_HEADER]
    return body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body))


def filled(root: Path) -> Store:
    """Returns a store of two programs: a pack each, with some equal records, a journal, and one of each other file."""
    store = Store(root)
    store.journal(GAME, *(cell(number) for number in range(40)), note(), used([1, 2, 3]))
    store.journal(TOOL, *(cell(number) for number in range(30, 60)), used([31]))
    store.pack()
    store.journal(GAME, *(cell(number) for number in range(100, 105)))
    store.know(GAME, b"what the game read")
    return store


def write_run(root: Path, identity: Identity, program: tuple[str, str] = GAME, device: str = "A device") -> None:
    """Writes a run, which makes names of programs and devices known."""
    recorded_runs.write(
        root, executable=program[0], application=program[1], program=name_of(program), identity=identity.name,
        device=device, driver="radv", driver_info="Mesa 25.0.7", started=float(NOW), counters={},
    )  # fmt: skip


def present(environment: dict[str, str]) -> Identity:
    """Returns the identity of the first device that the drivers of this environment list."""
    found = dict(probe("devices", environment=environment).found["devices"][0])
    found["pipeline_cache_uuid"] = bytes.fromhex(found["pipeline_cache_uuid"])
    return Identity.of(DeviceFacts(**found))
