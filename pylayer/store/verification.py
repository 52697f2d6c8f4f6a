"""Verifies a whole store. Only the command line uses this."""

from __future__ import annotations

import os

from ..common.identity import NO_IDENTITY
from . import checking, maintenance, state
from .folder import StoreFile, described_identity, files_of, folders, identity_names
from .format import Damage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Takes = Callable[[int], bool]
    TakesIdentity = Callable[[str], bool]


class Verification(checking.Checked):
    """What was verified, and what was found."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self.root = root

    @property
    def torn_ends(self) -> list[Damage]:
        """Returns incomplete ends of files that a process appends to, or appended to when it was killed. They are
        harmless."""
        return [what for what in self.damage if what.is_torn_end]

    @property
    def other_versions(self) -> list[Damage]:
        """Returns files of another version of the format. They are harmless but cannot be used."""
        return [what for what in self.damage if what.outcome == "foreign-version"]

    @property
    def problems(self) -> list[Damage]:
        """Returns all other damage."""
        return [what for what in self.damage if not what.is_torn_end and what.outcome != "foreign-version"]

    def steps(self, takes_identity: TakesIdentity, takes: Takes | None) -> Iterator[int]:
        """Verifies the files of the programs that ``takes`` selects, or with None all files of an identity. This
        includes files that appear meanwhile, such as those that a compaction writes. Yields the number of bytes
        read."""
        for name in identity_names(self.root):
            if not takes_identity(name):
                continue
            if takes is None:
                self._verify_identity(name)
            seen: set[str] = set()
            while new := [file for file in _files(self.root, name, takes) if file.path not in seen]:
                for file in new:
                    seen.add(file.path)
                    yield from self._verify_file(file, bytes.fromhex(name))
        if takes_identity(""):  # state belongs to none
            for program, paths in state.folder(self.root).files_by_program().items():
                for path in paths if takes is None or takes(program) else ():
                    yield from self._verify_file(StoreFile(path, 0, 0), NO_IDENTITY.digest)

    def repair(self) -> None:
        """Deletes the files that have problems, and keeps what verifies in packs and journals. Raises OSError."""
        for folder in (*folders(self.root), state.folder(self.root)):
            for _ in maintenance.tidy(folder, self.problems):
                pass

    def _verify_identity(self, name: str) -> None:
        """Verifies that an identity's description matches its folder's name."""
        path = os.path.join(self.root, "store", name, "identity")
        try:
            if described_identity(self.root, name) is None:
                self.damage.append(Damage(path, "damaged-data", detail="its fields do not match the folder"))
            else:
                self.file_bytes += os.stat(path).st_size
                self.files += 1
        except FileNotFoundError:
            self.damage.append(Damage(path, "unreadable", detail="it is missing"))
        except OSError as error:
            self.damage.append(Damage.unreadable(path, error))

    def _verify_file(self, file: StoreFile, identity: bytes) -> Iterator[int]:
        before = self.file_bytes
        try:
            for _ in checking.check_file(file.path, file.kind.magic, identity, self, file.program):
                yield 0
        except FileNotFoundError:
            return  # compacted meanwhile
        except OSError as error:
            self.damage.append(Damage.unreadable(file.path, error))
        yield self.file_bytes - before


def _files(root: str, name: str, takes: Takes | None) -> list[StoreFile]:
    """Returns the files of records in an identity's folder that are taken."""
    found = [file for file in files_of(root, name) if file.kind.verified and (takes is None or takes(file.program))]
    return sorted(found, key=lambda file: file.path)
