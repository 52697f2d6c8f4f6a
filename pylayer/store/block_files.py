"""The files of blocks, and what is read from the crash markers of processes that died.

<root>/store/<identity>/<program>-<unique>.block    a VRDT record with entries of ``block_list.ENTRY``

No process changes another's file. A writer combines all files of the program into a new one and deletes those. For each
key the newest decision is in force, so it does not matter if two do that at once. Program 0 has what concerns every
program. The layer reads only the names: a new one makes what was compiled of the others invalid (``decisions``).
"""

from __future__ import annotations

from ..common import file_kinds
from ..common.files import remove
from . import format
from .block_list import ENTRY, TABLE, Block, BlockList
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .folder import Folder

#: Files with more bytes are not read. A file of MAX_ENTRIES has 41 KiB.
MAX_BYTES = 64 << 10
#: The most files of one program that are read. Only processes that die between two calls leave several.
MAX_FILES = 64
#: Most listings of one read, so that it ends even while files keep being combined.
MAX_LISTINGS = 8
#: The program of blocks that concern all programs.
EVERY_PROGRAM = 0


def _read_file(path: str, folder: Folder, found: BlockList) -> bool:
    """Adds what a file has. Returns whether another file may replace it: this version knows all of it, or it is
    damaged. Raises OSError."""
    reader = Reader(path)
    header, outcome = reader.header(folder.identity.digest)
    if header is None or header.kind != format.VERDICT_FILE or reader.size > MAX_BYTES:
        return outcome not in ("foreign-version", "foreign-identity")
    found.application = found.application or header.application
    is_known = True
    for part in reader.content(header, []):
        for record in part.records:
            if record.magic == format.VERDICTS and record.size % ENTRY.size == 0:
                for type, *fields in ENTRY.iter_unpack(part.data_of(record)):
                    is_known &= type <= max(TABLE)
                    if type in TABLE:
                        found.add(Block(type, *fields))
    return is_known


def read(folder: Folder, program: int) -> BlockList:
    """Returns what is decided for one program, or for ``EVERY_PROGRAM``. What cannot be read now is left out. If
    another process combines files while they are read, neither the old ones nor the new one may be found, and the next
    listing has the new one."""
    found = BlockList()
    for _ in range(MAX_LISTINGS):
        is_gone = False
        for path in folder.files(program, (file_kinds.VERDICT,))[-MAX_FILES:]:
            try:
                if path not in found.sources:
                    found.sources[path] = _read_file(path, folder, found)
            except OSError as error:
                is_gone |= isinstance(error, FileNotFoundError)
        if not is_gone:
            break
    return found


def read_all(folder: Folder) -> dict[int, BlockList]:
    """Returns what is decided for all programs of a folder about which something is decided."""
    return {program: read(folder, program) for program in folder.files_by_program((file_kinds.VERDICT,))}


def write(folder: Folder, program: int, application: str, new: list[Block]) -> None:
    """Stores new decisions together with what was decided before, in one file. Raises OSError."""
    known = read(folder, program)
    for block in new:
        known.add(block)
    kept = known.memorable()
    if kept:
        record = format.record_parts(format.VERDICTS, b"".join(one.pack() for one in kept))
        folder.write_file(file_kinds.VERDICT, program, application, record, sync=True)
    for path, may_go in known.sources.items():
        if may_go:
            remove(path)


def forget(folder: Folder, program: int | None = None) -> int:
    """Deletes all blocks about a program, or with None of a folder; returns how many files."""
    return sum(remove(path) for path in folder.files(program, (file_kinds.VERDICT,)))
