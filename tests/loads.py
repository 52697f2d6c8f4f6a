"""What a run finds in a device's folder of the store."""

from __future__ import annotations

from pylayer.store import format
from pylayer.store.contents import fingerprints_of
from pylayer.store.folder import Folder
from pylayer.store.format import Damage
from pylayer.store.reader import Reader


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
