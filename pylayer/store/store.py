"""The public interface of the store: what several commands and reports use of it.

Work that only one or two commands do is not here. These commands import its module themselves
(tests/unit/test_sources.py lists them). A program's process does not use this module: it loads and adds to one
identity's ``Folder``.
"""

from __future__ import annotations

import os

from ..common import file_kinds
from ..common.identity import Identity
from ..common.paths import open_in_store, require_own_below
from . import block_files, block_list, holdings
from .block_list import BlockText as BlockText
from .bounds import total_bytes
from .checking import TakesIdentity
from .folder import Folder, all_files, folders, identity_names
from .format import FINGERPRINTS as FINGERPRINTS
from .format import MAX_FILE_BYTES as MAX_FILE_BYTES
from .format import REBUILT
from .format import VERSION as VERSION
from .format import Damage as Damage
from .format import Refused as Refused
from .holdings import Holding as Holding
from .holdings import Learn
from .holdings import Partition as Partition
from .portable import Export as Export
from .portable import Import as Import

#: Shown in place of a program's name if a block concerns all programs of a driver.
EVERY = "all programs"


class Store:
    """A store on the disk, which need not exist. The constructor does not access the disk."""

    def __init__(self, root: str) -> None:
        self.root = root

    # ---- what it holds -----------------------------------------------------------------------------------

    def identities(self) -> list[str]:
        """Returns the names of the identities, which are those of their folders."""
        return identity_names(self.root)

    def total_bytes(self) -> int:
        """Returns the number of bytes in all identities' folders. Limits are about this number."""
        return total_bytes(self.root)

    def tree_bytes(self, *below: str) -> tuple[int, int]:
        """Returns the size in bytes and the number of all files below a folder of the store."""
        return holdings.tree_bytes(os.path.join(self.root, *below))

    def partitions(self, takes: TakesIdentity, learn: Learn) -> list[Partition]:
        """Returns what is stored under each identity that ``takes`` selects. ``learn`` gets the number and name of each
        program that a file names."""
        return [holdings.survey(self.root, name, learn) for name in self.identities() if takes(name)]

    def usable_packs(self) -> tuple[int, list[str]]:
        """Returns how many packs programs of this user can open if this is the system's store, and why they cannot open
        the others."""
        count, problems = 0, []
        for file in all_files(self.root):
            try:
                if file.kind == file_kinds.PACK:
                    require_own_below(self.root, "store", os.path.basename(os.path.dirname(file.path)))
                    os.close(open_in_store(file.path))
                    count += 1
            except OSError as error:
                problems.append(str(error))
        return count, problems

    # ---- what can be done with it ------------------------------------------------------------------------

    def export(self, identity: Identity, programs: dict[int, str], device: str) -> Export:
        """Returns an export of programs, given by number with their names, which has not begun."""
        return Export(Folder(self.root, identity), programs, device)

    def import_from(self, path: str, recipient: tuple[int, str] | None, rebuilt: bool = False) -> Import:
        """Returns an import, of which only the identity was read. ``rebuilt``: of what ``pylayer rebuild`` compiled.
        Raises Refused and OSError."""
        return Import(path, recipient, flags=REBUILT if rebuilt else 0)

    # ---- what is blocked -------------------------------------------------------------------------------

    def block_list(self) -> list[BlockText]:
        """Returns what makes later runs worse, and what did until lately, by identity and program. Only reads: what
        follows from a death that no later start of the layer has found is missing."""
        found = []
        for folder in folders(self.root):
            for program, known in block_files.read_all(folder).items():
                word = (known.application or f"program {program:016x}") if program else EVERY
                found += block_list.tell(folder.identity, program, word, known)
        return found

    def in_force(self, program: str | None = None) -> list[BlockText]:
        """Returns the blocks in force: all, or those about a program and those about all programs."""
        found = (one for one in self.block_list() if one.state == "in force")
        return [one for one in found if program is None or one.program in (program, EVERY)]

    def forget(self, blocks: list[BlockText]) -> None:
        """Ends these blocks, and all others about the same programs and drivers. What cannot be deleted stays."""
        for folder in folders(self.root):
            for program in {one.program_id for one in blocks if one.identity == folder.identity.name}:
                block_files.forget(folder, int(program, 16))
