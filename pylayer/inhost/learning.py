"""One device's blocks: what earlier runs decided for it, what this run learns, and the log lines about both."""

from __future__ import annotations

import os
import time

from ..common import paths
from ..store import block_files, block_list, deaths
from ..store.block_list import APPLICATION, LAYER_OFF, PIPELINE, RECORD, STUB, Block, BlockList
from ..store.format import number_of
from ..values import LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..values import Cell
    from .device import Device

#: When this process began to learn. A run that began before a decision says nothing new about it.
BEGAN_NS = time.time_ns()


def _tell_starter(text: str) -> None:
    """Writes a line to standard error although the log is off, if `pylayer run` started the program: its PYLAYER_STDERR
    says which file that was. A program may have closed it, and have another file under its number."""
    wanted = paths.getenv("PYLAYER_STDERR", "")
    try:
        status = os.fstat(2)
        if wanted == f"{status.st_dev}:{status.st_ino}":
            clean = "".join(letter if letter.isprintable() else "?" for letter in text)  # programs choose their names
            os.write(2, f"pylayer: {clean}\n".encode("utf-8", "replace"))
    except OSError:
        pass


class Learning:
    """What is decided for one device and program. Nothing is decided without a store. What a read-only store cannot
    keep holds for this process."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._known: BlockList | None = None
        #: When ``known`` was about to be read: a death of this run says nothing new about what is decided later.
        self.looked_ns = 0
        #: What is decided for all programs, once ``known`` is read.
        self.everyones = BlockList()
        #: Numbers of records that were blocked when this run began and that the driver made anew.
        self._made_anew: set[int] = set()
        self._empty_cells = 0
        self._cells = 0
        #: Blocks that ended and are not logged yet.
        self._ended: list[Block] = []
        #: Sentences about decisions of this run, for its statistics.
        self.told: list[str] = []

    @property
    def known(self) -> BlockList:
        """What is decided for the program. The first use looks for processes that died."""
        if self._known is None:
            self.looked_ns = time.time_ns()
            self._known = BlockList()
            folder, program = self._device.folder, self._device.program_id
            if folder is not None:
                findings = deaths.review(folder, self._device.read_only)
                for found in findings.values():
                    self._tell(found.new, found.application or "a program")
                    # It knows what it has just decided itself.
                    self.looked_ns = max([self.looked_ns, *(one.decided_ns + 1 for one in found.new)])
                    found.new = []
                self._known, self.everyones = (
                    findings.get(each) or block_files.read(folder, each)
                    for each in (program, block_files.EVERY_PROGRAM)
                )
        return self._known

    def count(self, type: int) -> int:
        """Returns how many blocks of a type are in force, as far as this run knows."""
        return len(self._known.in_force(type)) if self._known is not None else 0

    # ---- decisions -------------------------------------------------------------------------------

    def _tell(self, new: list[Block], program: str) -> None:
        """Logs the blocks that take effect. Those that end are logged later, by ``tell_ends``."""
        now = time.time()
        self._ended += [one for one in new if one.until_s == 0 and one.flags & block_list.DECIDED]
        begin = [one for one in new if one.holds(now)]
        self._say([block_list.sentence(group) for group in block_list.grouped(begin)], program)

    def tell_ends(self) -> None:
        """Logs the blocks that ended since the last call, in groups: each compile of a blocked pipeline ends a block,
        and a line for each would be too many."""
        ended, self._ended = block_list.grouped(self._ended), []
        self._say([block_list.sentence(group, ended=True) for group in ended], self._device.program.name)

    def _say(self, lines: list[str], program: str) -> None:
        self.told += lines
        for line in lines:
            self._device.log(LOG_WARN, f"{program}: {line}; pylayer ls shows more")
            if not self._device.commands.log_wanted(LOG_WARN):
                _tell_starter(f"{program}: {line}; pylayer ls shows more")

    def store(self) -> None:
        """Stores new decisions at once, so that a process that is killed does not lose them."""
        if self._known is None or not self._known.new:
            return
        folder, new, self._known.new = self._device.folder, self._known.new, []
        self._tell(new, self._device.program.name)
        if folder is None or self._device.read_only:
            return
        try:
            block_files.write(folder, self._device.program_id, self._device.program.name, new)
            self._device.is_stale = True
        except OSError:
            pass  # later runs learn it again

    # ---- what was blocked and is made anew -----------------------------------------------------

    def allows(self, cell: Cell, digest: bytes) -> bool:
        """Returns whether to store a record that was just compiled. False if the store has it already and it was
        blocked. What is blocked is compiled without stored data, so this compile clears the block."""
        number = number_of(digest)
        aside = self.known.holds(RECORD, 0, number) or number in self._made_anew
        if aside and self.known.unblock(RECORD, 0, number):
            self._made_anew.add(number)
        return self._created_anew(cell) and not aside

    def _created_anew(self, cell: Cell) -> bool:
        """Clears the block on the pipeline of a cell that was compiled. Returns False if it stays blocked."""
        key = (PIPELINE, 0, block_list.pipeline_number(cell.fingerprint, cell.kind))
        if self.known.holds(*key):
            self.known.unblock(*key)
        return not self.known.holds(*key)

    def note_returned(self, digest: bytes) -> None:
        """Clears the block on an application's cache data that the driver has just returned."""
        if self._known is None:
            return
        for type in (APPLICATION, RECORD):
            if self._known.holds(type, 0, number_of(digest)):
                self._known.unblock(type, 0, number_of(digest))
        self.store()

    # ---- what the run shows about the driver -----------------------------------------------------

    def empty_cell(self) -> bool:
        """Counts a whole pipeline that added nothing to its cell. Returns True if so many have, and no other cell came,
        that nothing can be stored in this run."""
        self._empty_cells += 1
        if self._empty_cells < block_list.EMPTY_CELLS or self._cells:
            return False
        if self._empty_cells == block_list.EMPTY_CELLS:
            self.known.block(STUB, began_ns=BEGAN_NS)
            self.store()
        return True

    def full_cell(self) -> None:
        """Counts a cell with data."""
        self._cells += 1
        if self._cells == 1:
            self.known.unblock(STUB)

    def settle(self, counters: dict[str, int], kind_hits: list[int], ended: bool = False) -> None:
        """Judges what the run has shown so far. ``ended``: the run ends well."""
        if not (
            (self._known is not None and self._known.new)
            or (self._device.keeps and self.known.are_undecided(*block_list.TABLE))
        ):
            return
        # The driver gets all cells that are fetched, and a binary only when a pipeline is created from it.
        given = 0 if self._device.has_binaries else counters["fetched"]
        if given + sum(kind_hits) >= (1 if ended else block_list.SUCCESSES):
            self.known.unblock(LAYER_OFF)
        self.store()
