"""One identity's folder in the store: what is read when a device is created, and what is added to it.

common/file_kinds.py lists the kinds of files in it. A process changes the content of its own files only, so two
processes need no lock.
"""

from __future__ import annotations

import os

from ..common import file_kinds, flat
from ..common.file_kinds import COMPACTED, FileName, Kind
from ..common.files import date_of, entries_in, names_in, read_small, replace_file, unique_name
from ..common.identity import NO_IDENTITY, Identity
from ..common.paths import UntrustedDirectory, exists, make_private_below, require_own_below, system_store_root
from . import format
from .format import Damage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: The most pipelines that are stored without their recordings and are waited for, and in how many runs in a row that
#: create none of them.
MOST_STORED, MOST_RUNS = 1 << 14, 3


#: Time of last use of what has none, or one in the future: after what came from a fleet and was never used.
UNDATED = 1 << 20


class Folder:
    """The folder of one identity. That of NO_IDENTITY has what programs asked for (state.py), and no description. The
    constructor does not access the disk."""

    def __init__(self, root: str, identity: Identity) -> None:
        self.root = root
        self.identity = identity
        self.has_state = identity.digest == NO_IDENTITY.digest
        #: Magics of the records that are in its journals and packs for good, in the order of a pack.
        self.content = format.STATE if self.has_state else format.PIPELINES
        self._names = (file_kinds.UNRECORDED.place,) if self.has_state else ("store", identity.name)
        self.path = os.path.join(root, *self._names)

    def prepare(self) -> None:
        """Makes the folder and the description in it. If that is damaged, as after a power cut, makes it anew.

        Raises OSError, ``paths.UntrustedDirectory`` included.
        """
        make_private_below(self.root, *self._names)
        try:
            is_damaged = not self.has_state and described_identity(self.root, self.identity.name) is None
        except FileNotFoundError:
            is_damaged = True
        except OSError:
            is_damaged = False  # whoever reads the folder says what is wrong
        if is_damaged:
            # On the disk before this returns: without it no command can use what is stored.
            fields = {**self.identity.fields, "format": format.VERSION}
            replace_file(os.path.join(self.path, "identity"), flat.dumps(fields).encode(), sync=True)

    def check(self) -> None:
        """Raises OSError if the folder is missing or somebody else could have written to it."""
        require_own_below(self.root, *self._names)

    def files(self, program: int | None, kinds: tuple[str, ...] = COMPACTED) -> list[str]:
        """Returns paths of the files of one program, or of all programs with None: by kind in the order given, then
        oldest first."""
        names = names_in(self.path)
        prefix = "" if program is None else f"{program:016x}-"
        found = []
        for kind in kinds:
            mine = [name for name in names if name.endswith(kind) and name.startswith(prefix)]
            mine.sort(key=lambda name: name.partition("-")[2])
            found += [os.path.join(self.path, name) for name in mine]
        return found

    def files_by_program(self, kinds: tuple[str, ...] = COMPACTED) -> dict[int, list[str]]:
        """As ``files``, for all programs, with one listing however many there are."""
        found: dict[int, list[str]] = {}
        for path in self.files(None, kinds):
            name = FileName.parse(path)
            if name is not None:
                found.setdefault(name.program, []).append(path)
        return found

    def new_path(self, program: int, kind: Kind) -> str:
        """Returns the path of a new file of a program."""
        return os.path.join(self.path, str(FileName(program, unique_name(), kind)))

    def programs(self) -> list[int]:
        """Returns every program that has pipelines here."""
        return sorted(self.files_by_program())

    # ---- reading ---------------------------------------------------------------------------------

    def system_packs(self, program: int | None, damage: list[Damage]) -> list[str]:
        """Returns paths of the packs of this identity in the system's store: none if it is missing or this folder's own
        store. Adds to ``damage`` if it cannot be trusted."""
        folder = Folder(system_store_root(), self.identity)
        if folder.path == self.path or not exists(folder.path):
            return []
        try:
            folder.check()
        except OSError as error:
            damage.append(Damage(folder.path, "untrusted", detail=str(error)))
            return []
        return folder.files(program, (file_kinds.PACK,))

    def problem(self) -> Damage | None:
        """Returns why the folder cannot be read. None if it can, or if nothing is stored for this driver."""
        try:
            self.check()
            os.listdir(self.path)
        except OSError as error:
            if isinstance(error, FileNotFoundError) or self._is_missing():
                return None
            untrusted = isinstance(error, UntrustedDirectory)
            detail = str(error) if untrusted else f"{error.strerror or error}: {error.filename}"
            return Damage(self.path, "untrusted" if untrusted else "unreadable", detail=detail)
        return None

    def _is_missing(self) -> bool:
        try:
            os.lstat(self.path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False

    # ---- whole files -----------------------------------------------------------------------------

    def write_file(
        self, kind: Kind, program: int, application: str, parts: list[bytes | memoryview], sync: bool = False
    ) -> tuple[str, int]:
        """Writes a file of whole records, given as the pieces of ``format.record_parts``. Returns its path, and the
        number that its records are sealed with. ``sync``: waits until it is on the disk. Raises OSError."""
        self.prepare()
        path = self.new_path(program, kind)
        salt = format.new_salt()
        head = format.file_header(kind.magic, self.identity, program, application, salt=salt)
        replace_file(path, [head, *format.seal(parts, salt)], sync)
        return path, salt


def unrecorded_path(root: str, program: int) -> str:
    """Returns the path of the file that has a program's next run record. The layer looks for it."""
    return os.path.join(root, file_kinds.UNRECORDED.place, f"{program:016x}{file_kinds.UNRECORDED}")


def record_again(root: str, program: int, stored: Collection[int] = ()) -> None:
    """Has the program's next run record what is missing, and later ones until these pipelines are recorded, which the
    store got without their recordings. Raises OSError."""
    known, _ = read_unrecorded(root, program)
    if not known.issuperset(stored) or not exists(unrecorded_path(root, program)):
        write_unrecorded(root, program, known.union(stored), MOST_RUNS)


def came_unrecorded(root: str, program: int, stored: Collection[int]) -> None:
    """Has the program's next runs record pipelines that came without their recordings, if earlier runs recorded some. A
    machine that never recorded the program, such as a new container, is not made to. Raises OSError."""
    folder = os.path.join(root, file_kinds.UNRECORDED.place)
    if any(name.startswith(f"{program:016x}-") for name in names_in(folder)):
        record_again(root, program, stored)


def write_unrecorded(root: str, program: int, stored: Collection[int], runs: int) -> None:
    """Has the program's next runs record what they create, until all of these pipelines are recorded, or so many runs
    in a row created none of them. Raises OSError."""
    lines = ["the next run records what it creates", str(runs), *(f"{one:016x}" for one in sorted(stored))]
    make_private_below(root, file_kinds.UNRECORDED.place)
    replace_file(unrecorded_path(root, program), "\n".join([*lines[: MOST_STORED + 2], ""]).encode())


def read_unrecorded(root: str, program: int) -> tuple[set[int], int]:
    """Returns the pipelines that ``write_unrecorded`` named, and the number of runs."""
    try:
        text = read_small(unrecorded_path(root, program), 20 * MOST_STORED).decode()
        _, runs, *names = text.split("\n")[:-1]
        return {int(name, 16) for name in names}, int(runs)
    except (OSError, ValueError):
        return set(), MOST_RUNS


def identity_names(root: str) -> list[str]:
    """Returns the names of the identities' folders."""
    names = names_in(os.path.join(root, "store"))
    return [name for name in names if len(name) == 32 and all(c in "0123456789abcdef" for c in name)]


def read_identity(root: str, name: str) -> Identity | None:
    """Returns the identity of a folder; None if its description is missing, unreadable, or of another folder."""
    try:
        return described_identity(root, name)
    except OSError:
        return None


def described_identity(root: str, name: str) -> Identity | None:
    """Returns the identity of a folder; None if its description is damaged or of another folder. Raises OSError."""
    try:
        fields = flat.loads(read_small(os.path.join(root, "store", name, "identity"), 1 << 16).decode())
    except ValueError:
        return None
    fields.pop("format", None)
    identity = Identity(fields)
    return identity if identity.name == name else None


def folders(root: str) -> Iterator[Folder]:
    """Yields the folders whose identity is known."""
    for name in identity_names(root):
        identity = read_identity(root, name)
        if identity is not None:
            yield Folder(root, identity)


# ---- every file, whatever it is ----------------------------------------------------------------------


class StoreFile:
    """A file of the store and its size on the disk. If the name is not that of a program's file, ``program`` is 0 and
    ``kind`` is OTHER."""

    __slots__ = ("date", "kind", "path", "program", "size")

    def __init__(self, path: str, size: int, mtime: float) -> None:
        name = FileName.parse(path)
        self.path = path
        self.program, self.kind = (name.program, name.kind) if name is not None else (0, file_kinds.OTHER)
        self.size = size
        #: When it was written, in seconds since 1970.
        self.date = int(date_of(mtime)) or UNDATED


def files_of(root: str, identity_name: str) -> list[StoreFile]:
    """Returns every file in an identity's folder, whatever it is."""
    found = entries_in(os.path.join(root, "store", identity_name))
    return [StoreFile(entry.path, status.st_size, status.st_mtime) for entry, status in found]


def all_files(root: str) -> list[StoreFile]:
    """Returns every file in every identity's folder."""
    return [file for name in identity_names(root) for file in files_of(root, name)]
