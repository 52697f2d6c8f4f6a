"""What is on the disk: a store's content by program and as a run finds it, uses, and stores that a run filled; and a
disk that fails (tests/storage)."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from world import BUILD, World

from pylayer.common import file_kinds
from pylayer.common.identity import Identity
from pylayer.store import contents, format, journal, reader
from pylayer.store.compaction import SMALL_PACK_BYTES
from pylayer.store.contents import fingerprints_of
from pylayer.store.folder import Folder, folders
from pylayer.store.format import Damage
from pylayer.store.reader import Reader

LIBRARY = BUILD / "tests" / "libstorage.so"

FOLD_EVERYTHING = """
import sys
from pylayer.store import compaction, folder
for found in folder.folders(sys.argv[1]):  # one that is being made, or was when its maker was killed, has no identity
    for program in found.programs():
        work = compaction.Compaction(found, program, everything=True)
        for _ in work.steps():
            pass
"""


class FailingDisk:
    """The environment of a program for which file operations below the store fail, and what came of it."""

    def __init__(self, world: World, rules: str) -> None:
        self.log = world.directory / f"storage-{len(list(world.directory.glob('storage-*.log')))}.log"
        self.log.touch()
        self.environment: dict[str, str | None] = {
            "LD_PRELOAD": str(LIBRARY),
            "PYLAYER_TEST_STORAGE": rules,
            "PYLAYER_TEST_STORAGE_ROOT": str(world.store),
            "PYLAYER_TEST_STORAGE_LOG": str(self.log),
        }

    @property
    def struck(self) -> list[str]:
        """One line for each fault that was injected."""
        return self.log.read_text().splitlines()


#: Numbers of the cells, in chunks or not, of one program under one identity.
Content = dict[tuple[str, int], set[int]]


class StoreReader:
    """Reads and verifies all of a store, as often as wanted. What cannot change is read once."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._known: dict[tuple[str, int], tuple[Content, list[Damage]]] = {}

    def read(self) -> tuple[Content, list[Damage]]:
        """What every program finds, and what does not verify, torn tails of journals included."""
        content: Content = {}
        damage: list[Damage] = []
        for folder in folders(self.root):
            seen: set[str] = set()
            again = True
            while again:  # what vanishes was compacted, and its pack is there
                paths = [path for path in folder.files(None) if path not in seen]
                again = False
                for path in paths:
                    seen.add(path)
                    try:
                        found, wrong = self._file(path, folder.identity)
                    except FileNotFoundError:
                        again = True
                        continue
                    for key, cells in found.items():
                        content.setdefault(key, set()).update(cells)
                    damage += wrong
        return content, damage

    def _file(self, path: str, identity: Identity) -> tuple[Content, list[Damage]]:
        reader = Reader(path)
        key = (path, reader.size)
        if key not in self._known or path.endswith(journal.OPEN):
            self._known[key] = self._read(reader, identity)
        return self._known[key]

    @staticmethod
    def _read(reader: Reader, identity: Identity) -> tuple[Content, list[Damage]]:
        damage: list[Damage] = []
        header, outcome = reader.header(identity.digest)
        if header is None:
            return {}, [Damage(reader.path, outcome)]
        parts = reader.content(header, damage)
        records = [record for part in parts for record in part.records if record.magic != format.BINARIES]
        return {(identity.name, header.program): {number for record in records for _, number in record.cells}}, damage


def is_torn_tail(damage: Damage) -> bool:
    """What a kill leaves: the end of a journal is missing, nothing else."""
    return damage.outcome == "truncated" and damage.offset > 0 and damage.path.endswith((journal.OPEN, journal.CLOSED))


def content_of(world: World) -> Content:
    """All programs' cells; nothing in the store is damaged but torn ends of journals."""
    content, damage = StoreReader(world.store).read()
    assert all(map(is_torn_tail, damage)), [str(what) for what in damage]
    return content


def loses_nothing(before: Content, after: Content) -> bool:
    """Every program still has what it had."""
    return all(cells <= after.get(key, set()) for key, cells in before.items())


def leftovers(root: Path) -> list[str]:
    """Files that should not stay: temporary and empty ones."""
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.name.endswith(".tmp") or (path.is_file() and path.stat().st_size == 0)
    )


def not_compacted(root: Path) -> list[str]:
    """What a compaction of everything leaves nothing of: journals, and more than one small pack of a program. It does
    not rewrite large packs."""
    names = [path.name for path in root.glob("store/*/*") if path.suffix in (".journal", ".closed")]
    small: dict[str, list[str]] = {}
    for path in root.glob("store/*/*.pack"):
        if path.stat().st_size < SMALL_PACK_BYTES:
            small.setdefault(path.name[:16], []).append(path.name)
    return sorted(names + [name for packs in small.values() if len(packs) > 1 for name in packs])


def split_journals(world: World, count: int) -> None:
    """Makes so many closed journals of what the store's journals and packs hold."""
    folder = world.folder()
    paths = folder.files(None, (journal.CLOSED, file_kinds.PACK))
    records = []
    for path in paths:
        reader = Reader(path)
        header, _ = reader.header()
        assert header is not None
        for part in reader.parts([]):
            for one in part.records:
                if one.magic == format.TABLE:
                    continue
                head = (one.digest, one.kind, one.flags, one.create_ns, one.fingerprint, one.last_used)
                records.append(format.record_parts(one.magic, bytes(part.data_of(one)), *head))
    assert len(records) >= count
    for number in range(count):
        writer = journal.Journal(folder, header.program, header.application)
        for parts in records[number::count]:
            writer.append(parts)
        writer.close()
    for path in paths:
        os.unlink(path)


def compact_everything(root: Path, **options: object) -> subprocess.Popen[bytes]:
    """Starts a process that compacts the whole store, as `pylayer trim` does."""
    return subprocess.Popen([sys.executable, "-I", "-c", FOLD_EVERYTHING, str(root)], **options)  # type: ignore[call-overload,no-any-return]


@functools.cache
def _filled(driver: str, arguments: tuple[str, ...], journals: int, packed: bool) -> tempfile.TemporaryDirectory[str]:
    """Returns a directory with a store that one run filled. It is deleted when the process ends."""
    directory = tempfile.TemporaryDirectory()
    world = World(Path(directory.name), driver)
    world.demo(*arguments, "--no-destroy", PYLAYER_TEST_DRIVER="guilty=3", **world.never_idle())
    if journals > 1:
        split_journals(world, journals)
    if packed:
        assert compact_everything(world.store).wait(60) == 0
    shutil.rmtree(world.store / "plans", ignore_errors=True)
    return directory


#: The driver crashes over the third pipeline of a store that ``fill`` made.
CRASH = {"PYLAYER_TEST_DRIVER": "pipeline=crash?guilty"}


def fill(world: World, *arguments: str | int, journals: int = 1, packed: bool = False) -> None:
    """Gives the world a store that one run of the demo filled. What it holds is in so many closed journals, or in a
    pack. There is no plan, so policy reads it in the next run."""
    driver = "test" if "test_driver" in world.environment["VK_DRIVER_FILES"] else "radv"
    filled = _filled(driver, tuple(map(str, arguments)), journals, packed)
    shutil.copytree(Path(filled.name) / "store", world.store, dirs_exist_ok=True)


# ---- Uses ----------------------------------------------------------------------------------------


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


# ---- What a run finds ----------------------------------------------------------------------------


class Loaded:
    """All that verifies, and what does not. Data by digest and fingerprint."""

    def __init__(self) -> None:
        self.cells: dict[tuple[bytes, int], bytes] = {}
        self.binaries: dict[tuple[bytes, int], bytes] = {}
        #: Fingerprints of pipelines that runs used.
        self.used: set[int] = set()
        self.damage: list[Damage] = []
        #: How long it took to compile all of them.
        self.create_ns = 0

    def read(self, path: str, identity_digest: bytes) -> None:
        """Adds what one file has."""
        into = {format.CELL: self.cells, format.BINARIES: self.binaries}
        damage: list[Damage] = []
        try:
            for part in Reader(path).verified(identity_digest, damage):
                for record in part.records:
                    data = bytes(part.data_of(record))
                    if record.magic in into:
                        self.create_ns += record.create_ns if record.name not in into[record.magic] else 0
                        into[record.magic].setdefault(record.name, data)
                    elif record.magic == format.USED:
                        self.used.update(fingerprints_of(data))
        except FileNotFoundError:
            return
        except OSError as error:
            damage.append(Damage.unreadable(path, error))
        self.damage += [what for what in damage if not what.is_torn_end]


def load(folder: Folder, program: int | None) -> Loaded:
    """Reads what a program has in the user's store and in the system's, or with None all programs."""
    found = Loaded()
    problem = folder.problem()
    if problem is not None:
        found.damage.append(problem)
    for path in folder.files(program) if problem is None else []:
        found.read(path, folder.identity.digest)
    for path in folder.system_packs(program, []):
        found.read(path, folder.identity.digest)
    return found
