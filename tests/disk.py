"""What is on the disk: a store's content by program, and a disk that fails (tests/storage)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from world import BUILD, World

from pylayer.common import file_kinds
from pylayer.store import format, journal
from pylayer.store.compaction import SMALL_PACK_BYTES
from pylayer.store.folder import Folder, identity_names, read_identity
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
        for name in identity_names(self.root):
            identity = read_identity(self.root, name)
            if identity is None:
                continue
            folder = Folder(self.root, identity)
            seen: set[str] = set()
            again = True
            while again:  # what vanishes was compacted, and its pack is there
                paths = [path for path in folder.files(None) if path not in seen]
                again = False
                for path in paths:
                    seen.add(path)
                    try:
                        found, wrong = self._file(path, name, identity.digest)
                    except FileNotFoundError:
                        again = True
                        continue
                    for key, cells in found.items():
                        content.setdefault(key, set()).update(cells)
                    damage += wrong
        return content, damage

    def _file(self, path: str, name: str, identity_digest: bytes) -> tuple[Content, list[Damage]]:
        reader = Reader(path)
        key = (path, reader.size)
        if key not in self._known or path.endswith(journal.OPEN):
            self._known[key] = self._read(reader, name, identity_digest)
        return self._known[key]

    @staticmethod
    def _read(reader: Reader, name: str, identity_digest: bytes) -> tuple[Content, list[Damage]]:
        damage: list[Damage] = []
        header, outcome = reader.header(identity_digest)
        if header is None:
            return {}, [Damage(reader.path, outcome)]
        parts = reader.content(header, damage)
        records = [record for part in parts for record in part.records if record.magic != format.BINARIES]
        return {(name, header.program): {number for record in records for _, number in record.cells}}, damage


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
    (name,) = identity_names(str(world.store))
    identity = read_identity(str(world.store), name)
    assert identity is not None
    folder = Folder(str(world.store), identity)
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
