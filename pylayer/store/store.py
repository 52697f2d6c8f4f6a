"""The public interface of the store: what several commands and reports use of it.

Each method imports the module that does the work, so that a command loads only what it needs. Work that only one or two
commands do is not here. These commands import its module themselves (tests/unit/test_sources.py lists them). A
program's process does not use this module: it loads and adds to one identity's ``Folder``.
"""

from __future__ import annotations

import os

from ..common import file_kinds
from .format import FINGERPRINTS as FINGERPRINTS
from .format import MAX_FILE_BYTES as MAX_FILE_BYTES
from .format import VERSION as VERSION
from .format import Refused as Refused
from .frames import AT_ONCE_NS as AT_ONCE_NS
from .frames import FRAME_NS as FRAME_NS
from .frames import PAUSE_NS as PAUSE_NS
from .frames import Usual as Usual

#: Shown in place of a program's name if a block concerns all programs of a driver.
EVERY = "all programs"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..common.identity import Identity
    from .block_list import BlockList as BlockList
    from .block_list import BlockText as BlockText
    from .format import Damage as Damage
    from .holdings import Holding as Holding
    from .holdings import Learn
    from .holdings import Partition as Partition
    from .portable import Export as Export
    from .portable import Import as Import
    from .portable import Moved as Moved
    from .timeline import Event as Event
    from .timeline import Timeline as Timeline
    from .verification import TakesIdentity


class Store:
    """A store on the disk, which need not exist. The constructor does not access the disk."""

    def __init__(self, root: str) -> None:
        self.root = root

    # ---- what it holds -----------------------------------------------------------------------------------

    def identities(self) -> list[str]:
        """Returns the names of the identities, which are those of their folders."""
        from .folder import identity_names

        return identity_names(self.root)

    def total_bytes(self) -> int:
        """Returns the number of bytes in all identities' folders. Limits are about this number."""
        from .bounds import total_bytes

        return total_bytes(self.root)

    def tree_bytes(self, *folders: str) -> tuple[int, int]:
        """Returns the size in bytes and the number of all files below a folder of the store."""
        from .holdings import tree_bytes

        return tree_bytes(os.path.join(self.root, *folders))

    def partitions(self, takes: TakesIdentity, learn: Learn) -> list[Partition]:
        """Returns what is stored under each identity that ``takes`` selects. ``learn`` gets the number and name of each
        program that a file names."""
        from .holdings import survey

        return [survey(self.root, name, learn) for name in self.identities() if takes(name)]

    def usable_packs(self) -> tuple[int, list[str]]:
        """Returns how many packs programs of this user can open if this is the system's store, and why they cannot open
        the others."""
        from ..common.paths import open_in_store, require_own_below
        from .folder import all_files

        count, problems = 0, []
        for file in all_files(self.root):
            if file.kind != file_kinds.PACK:
                continue
            try:
                require_own_below(self.root, "store", os.path.basename(os.path.dirname(file.path)))
                os.close(open_in_store(file.path))
                count += 1
            except OSError as error:
                problems.append(str(error))
        return count, problems

    # ---- what can be done with it ------------------------------------------------------------------------

    def export(self, identity: Identity, programs: dict[int, str], device: str) -> Export:
        """Returns an export of programs, given by number with their names, which has not begun."""
        from .folder import Folder
        from .portable import Export as Export

        return Export(Folder(self.root, identity), programs, device)

    def import_from(self, path: str, recipient: tuple[int, str] | None, rebuilt: bool = False) -> Import:
        """Returns an import, of which only the identity was read. ``rebuilt``: of what ``pylayer rebuild`` compiled.
        Raises Refused and OSError."""
        from .format import REBUILT
        from .portable import Import

        return Import(path, recipient, flags=REBUILT if rebuilt else 0)

    # ---- what is blocked -------------------------------------------------------------------------------

    def block_list(self) -> list[BlockText]:
        """Returns what makes later runs worse, and what did until lately, by identity and program. Only reads: what
        follows from a death that no later start of the layer has found is missing."""
        from . import block_files, block_list
        from .folder import folders

        found = []
        for folder in folders(self.root):
            for program, known in block_files.read_all(folder).items():
                word = (known.application or f"program {program:016x}") if program else EVERY
                found += block_list.tell(folder.identity, program, word, known)
        return found

    def forget(self, block_list: list[BlockText]) -> None:
        """Ends these blocks, and all others about the same programs and drivers. What cannot be deleted stays."""
        from . import block_files
        from .folder import folders

        for folder in folders(self.root):
            for program in {one.program_id for one in block_list if one.identity == folder.identity.name}:
                block_files.forget(folder, int(program, 16))
