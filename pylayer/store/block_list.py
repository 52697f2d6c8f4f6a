"""The block list: everything that one run learns and that has later runs do less. This module is the one policy for it.

``TABLE`` has a rule for each type of block: which outcomes are evidence, in how many runs, how long a block lasts, and
what people are told. Every block has an end. After its end a block is *on trial*: what it forbade is tried again, the
first new evidence renews it, and a success ends it.

A process that was killed leaves the same crash marker as one that the driver crashed. So as little as possible is
blocked for a death, and it is used again as soon as the driver has made the same data anew. Data over which processes
died twice stays blocked until the block ends.

Nothing here touches the disk. ``block_files`` reads and writes blocks, ``decisions`` compiles them for the layer.
"""

from __future__ import annotations

import os
import struct
import time

from ..values import KIND_NAMES, Value
from .crash_marker import ADDED, PROBE
from .format import number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..common.identity import Identity
    from .reader import Record

#: Types of blocks. Earlier builds had others.
STUB, RECORD, PIPELINE = 2, 3, 4
APPLICATION, ADDED_CALL, LAYER_OFF = 6, 8, 9

#: The kind in a block on pipelines of all kinds.
EVERY_KIND = 255
#: States of a block: it holds; its end has passed, and nothing has shown since whether it was right; there is evidence
#: that does not suffice yet; it was cleared.
IN_FORCE, TRIAL, EVIDENCE, ENDED = STATES = ("in force", "on trial", "evidence", "ended")
#: Flags. DECIDED: the block is decided; without it this is only evidence. KILLED: the process was probably killed and
#: did not crash, because the driver may have been compiling, which takes long, or because stored data had been used
#: ``SUCCESSES`` times before.
DECIDED, KILLED = 1, 2

#: One entry of a file: type, kind, runs, flags, subject, decided_ns, until_s, found_ns.
ENTRY = struct.Struct("<BBHIQQQQ")
#: Beyond this many entries of a program the oldest are dropped.
MAX_ENTRIES = 1024

DAY = 24 * 3600
#: Clocks of machines that share a store may differ by this much.
CLOCK_SECONDS = 3600

#: A run that used stored data this many times has shown that stored data works. A driver that crashes on everything
#: stored crashes at the first use on each thread.
SUCCESSES = 8
#: A run is evidence of a stub if so many whole pipelines added nothing to their cells, and no cell has data.
EMPTY_CELLS = 4
#: Starts that found deaths over stored data, with no success in between, after which the layer is off for the program.
DEATHS = 3
#: Calls that the layer adds so often, or that take so long, that a kill often hits a program in one of them. They need
#: one more death than others, because without them pipelines are created more slowly.
OFTEN_KILLED = (PROBE,)

#: Variables that change what a driver gives, by how their names begin. What a driver does under them is no evidence
#: about the driver without them.
CHANGING = (
    "ACO_", "AGX_", "AMD_DEBUG", "ANV_", "DZN_", "ETNA_", "GALLIVM_", "HASVK_", "HK_", "INTEL_", "IR3_", "LP_", "LVP_",
    "MESA_", "NAK_", "NIR_", "NVK_", "PAN_", "PANVK_", "PVR_", "RADV_", "TU_", "V3D_", "V3DV_", "VN_", "__GL_",
)  # fmt: skip
#: Exceptions: where caches on disk are, which device is used, and how frames are presented.
HARMLESS = (
    "INTEL_STUB_GPU_", "MESA_DISK_CACHE_", "MESA_GLSL_CACHE_", "MESA_LOADER_", "MESA_SHADER_CACHE_",
    "MESA_VK_DEVICE_SELECT", "MESA_VK_WSI_", "RADV_FORCE_FAMILY", "__GL_SHADER_DISK_CACHE", "__GL_SYNC_", "__GL_VRR",
    "__GL_GSYNC",
)  # fmt: skip


class BlockRule(Value):
    """The policy for one type of block.

    ``runs``: this many different runs must have evidence. ``seconds``: how long the block lasts. ``again``: how long it
    lasts if evidence comes again after its end or after it was cleared; 0: as long as the first time. ``stays``: once
    this many runs have evidence, a success no longer clears it; twice as many are needed if the last process was
    probably killed; 0: a success always clears it. ``about_driver``: evidence and successes do not count while a
    variable of ``CHANGING`` is set. ``effect`` and ``end`` are what people are told.
    """

    name: str
    runs: int
    seconds: int
    effect: str
    end: str
    again: int = 0
    stays: int = 0
    about_driver: bool = False


TABLE = {
    # Evidence: the first EMPTY_CELLS whole pipelines of a run add nothing to their cells, and nothing is stored.
    # Success: a cell with data.
    STUB: BlockRule(
        "stub", 2, 14 * DAY, about_driver=True,
        effect="the layer is off, because the driver finds nothing in its own cache data",
        end="the layer is on again: the driver finds pipelines in its own cache data",
    ),
    # Evidence: a process died while the driver was given these records. Success: compiled to the same bytes.
    RECORD: BlockRule(
        "record", 1, 14 * DAY, stays=2,
        effect="stored records are blocked ({count}), because the program died while the driver handled them",
        end="stored records are used again ({count})",
    ),
    # Evidence: a process died while it created this pipeline with stored data, or one of this kind without a
    # fingerprint. Success: compiled.
    PIPELINE: BlockRule(
        "pipeline", 1, 14 * DAY, stays=2,
        effect="stored data of pipelines is blocked ({count}), because the program died when it created them",
        end="stored data of pipelines is used again ({count})",
    ),
    # Evidence: a process died while the driver was given this cache data of the program's. Success: the driver returns
    # the same data.
    APPLICATION: BlockRule(
        "application-cache", 1, 14 * DAY, stays=2,
        effect="data of the program's caches is refused ({count}), because the program died over it",
        end="data of the program's caches is accepted again ({count})",
    ),
    # Evidence: a process died in a call that the layer adds, for a pipeline of this kind. For all programs,
    # unless a variable of CHANGING was set. Calls of OFTEN_KILLED need two deaths.
    ADDED_CALL: BlockRule(
        "added-call", 1, DAY, again=90 * DAY,
        effect="{call} is not called for {kind} pipelines, because a program died in this call",
        end="{call} is called for {kind} pipelines again",
    ),
    # Evidence: a start found deaths over records or at creations, of processes that were probably not killed.
    # Success: a run that created SUCCESSES pipelines from stored data, or that created one and ended well.
    LAYER_OFF: BlockRule(
        "layer-off", DEATHS, 7 * DAY,
        effect="the layer is off, because the program died repeatedly while the driver handled stored data",
        end="the layer is on again",
    ),
}  # fmt: skip

#: Types that say that the layer is off for the program.
OFF = (STUB, LAYER_OFF)
#: Types that a death leads to.
BLOCKED = (RECORD, PIPELINE, APPLICATION)

Key = tuple[int, int, int]


def driver_is_changed() -> bool:
    """Returns whether an environment variable is set that changes what a driver gives."""
    return any(name.startswith(CHANGING) and not name.startswith(HARMLESS) for name in os.environ)


def pipeline_number(fingerprint: int, kind: int) -> int:
    """Returns the number that names a pipeline in blocks. Those of a kind without a fingerprint have one together."""
    return fingerprint or 1 + kind


class Block(Value):
    """A block, evidence for one, or the memory of one. ``until_s`` is 0 if it was cleared."""

    type: int
    kind: int
    #: Different runs with evidence.
    runs: int
    flags: int
    subject: int
    #: Of several decisions about a key the newest counts, whoever wrote it.
    decided_ns: int
    until_s: int
    #: When the start that found the death began to look for deaths: one time for everything that it found.
    found_ns: int

    @property
    def key(self) -> Key:
        """What the block is about."""
        return self.type, self.kind, self.subject

    @property
    def rule(self) -> BlockRule:
        """The policy for it."""
        return TABLE[self.type]

    def pack(self) -> bytes:
        """Returns the bytes of the entry."""
        return ENTRY.pack(*self.as_dict().values())

    def state(self, now_s: float) -> str:
        """Returns one of ``STATES``; empty text if the block no longer matters."""
        decided, rule = self.flags & DECIDED, self.rule
        if self.until_s > now_s:
            return IN_FORCE if decided else EVIDENCE
        if self.until_s == 0:
            matters = rule.stays and self.runs and now_s < self.decided_ns / 1e9 + rule.seconds
            return ENDED if matters else ""
        return TRIAL if decided and now_s < self.until_s + max(rule.seconds, rule.again) else ""

    def holds(self, now_s: float) -> bool:
        """Returns whether the block is in force."""
        return self.state(now_s) == IN_FORCE

    def is_believable(self, now_s: float) -> bool:
        """Whether the clock was right, as far as can be told, when this was decided. It may have been ahead then."""
        rule = TABLE.get(self.type)
        decided_s = self.decided_ns / 1e9
        return (
            rule is not None
            and decided_s <= now_s + CLOCK_SECONDS
            and self.until_s <= decided_s + max(rule.seconds, rule.again) + CLOCK_SECONDS
        )


class BlockList:
    """The blocks of one program, or with program 0 those of all programs. Digests are named by ``number_of``."""

    def __init__(self) -> None:
        self.entries: dict[Key, Block] = {}
        #: The program's name, if a file has it.
        self.application = ""
        #: Paths of the files that were read, and whether another file may replace them.
        self.sources: dict[str, bool] = {}
        #: An entry's time is impossible: the clock was wrong when it was made, or is now.
        self.doubted = False
        #: Decisions of this process that are not stored yet.
        self.new: list[Block] = []

    def add(self, block: Block) -> None:
        """Adds a decision, unless a newer one is known or the clock that made it was wrong."""
        known = self.entries.get(block.key)
        if not block.is_believable(time.time()):
            self.doubted = True
        elif known is None or known.decided_ns < block.decided_ns:
            self.entries[block.key] = block

    # ---- questions -------------------------------------------------------------------------------

    def holds(self, type: int, kind: int = 0, subject: int = 0) -> bool:
        """Returns whether a block is in force."""
        known = self.entries.get((type, kind, subject))
        return known is not None and known.holds(time.time())

    def in_force(self, *types: int) -> list[Block]:
        """Returns the blocks of these types that are in force."""
        now = time.time()
        return [one for one in self.entries.values() if one.type in types and one.holds(now)]

    def are_undecided(self, *types: int) -> bool:
        """Returns whether there is evidence that does not suffice, or a block on trial, which a success ends."""
        now = time.time()
        return any(one.type in types and one.state(now) in (EVIDENCE, TRIAL) for one in self.entries.values())

    def memorable(self) -> list[Block]:
        """Returns what is worth storing, the newest ``MAX_ENTRIES`` at most."""
        now = time.time()
        kept = [one for one in self.entries.values() if one.state(now)]
        return sorted(kept, key=lambda one: one.decided_ns)[-MAX_ENTRIES:]

    def takes_record(self, record: Record) -> bool:
        """Returns whether the driver must not get a record."""
        return self.holds(RECORD, 0, number_of(record.digest)) or any(
            self.holds(PIPELINE, 0, fingerprint) for fingerprint in record.fingerprints if fingerprint
        )

    def takes_application_data(self, digest: bytes) -> bool:
        """Returns whether to refuse an application's data."""
        return self.holds(APPLICATION, 0, number_of(digest))

    # ---- decisions -------------------------------------------------------------------------------

    def block(
        self, type: int, kind: int = 0, subject: int = 0, began_ns: int = 0, found_ns: int = 0, flags: int = 0
    ) -> None:
        """Takes evidence of one run. ``began_ns``: when that run began. If the last decision is later, the run is not
        new evidence, because it could not know of the decision."""
        rule, known, now = TABLE[type], self.entries.get((type, kind, subject)), time.time()
        state = known.state(now) if known is not None else ""
        known = known if state else None
        if (rule.about_driver and driver_is_changed()) or (known is not None and began_ns <= known.decided_ns):
            return
        runs = min(known.runs + 1, 0xFFFF) if known is not None else 1
        needed = rule.runs + (type == ADDED_CALL and subject in OFTEN_KILLED)
        decided = runs >= needed or state == TRIAL
        renewed = decided and known is not None and known.flags & DECIDED
        lasts = (renewed and rule.again) or rule.seconds
        now_ns, flags = self._after(known), flags | (DECIDED if decided else 0)
        self._decide(Block(type, kind, runs, flags, subject, now_ns, int(now) + lasts, found_ns or now_ns))

    def unblock(self, type: int, kind: int = 0, subject: int = 0) -> bool:
        """Takes a success, which clears a block, or the evidence for one. Returns False if there is neither, or if
        the block stays."""
        rule, known = TABLE[type], self.entries.get((type, kind, subject))
        if known is None or known.until_s == 0 or (rule.about_driver and driver_is_changed()):
            return False
        stays = rule.stays * (2 if known.flags & KILLED else 1)
        if stays and known.runs >= stays and known.holds(time.time()):
            return False
        self._decide(Block(type, kind, known.runs, known.flags, subject, self._after(known), 0, known.found_ns))
        return True

    def _decide(self, new: Block) -> None:
        self.entries[new.key] = new
        self.new.append(new)

    def _after(self, known: Block | None) -> int:
        """Returns the time of a new decision, which is later than the last one even if a clock went backwards."""
        return max(time.time_ns(), known.decided_ns + 1 if known is not None else 0)

    def judge_deaths(self, found_ns: int) -> None:
        """Decides what follows from all deaths together, after a start at ``found_ns`` has blocked what each names."""
        found = (one for one in self.in_force(RECORD, PIPELINE) if one.found_ns == found_ns)
        if not all(one.flags & KILLED for one in found):
            self.block(LAYER_OFF, began_ns=found_ns, found_ns=found_ns)


# ---- what people read --------------------------------------------------------------------------------


def sentence(block_list: list[Block], ended: bool = False) -> str:
    """Returns what one or several blocks of the same type and kind mean, for people."""
    one = block_list[0]
    kind = KIND_NAMES[one.kind] if one.kind < len(KIND_NAMES) else "any"
    text = one.rule.end if ended else one.rule.effect
    return text.format(kind=kind, count=len(block_list), call=ADDED.get(one.subject, "a call of the layer's"))


def grouped(block_list: Iterable[Block]) -> list[list[Block]]:
    """Returns groups of blocks that one sentence describes: of one type and kind, and of one death."""
    groups: dict[tuple[int, int, int, int], list[Block]] = {}
    for one in sorted(block_list, key=lambda each: (each.found_ns, each.key)):
        call = one.subject if one.type == ADDED_CALL else 0
        groups.setdefault((one.found_ns, one.type, one.kind, call), []).append(one)
    return list(groups.values())


class BlockText:
    """What people are told of one or several blocks about a program. ``state`` is one of ``STATES``."""

    def __init__(self, identity: Identity, number: int, program: str, state: str, group: list[Block]) -> None:
        fields = identity.fields
        known = [str(fields[key]) for key in ("driver_name", "driver_info") if fields.get(key)]
        self.identity = identity.name
        self.driver = ", ".join(known) or "unknown driver"
        self.program = program
        self.program_id = f"{number:016x}"
        self.type = group[0].rule.name
        self.state = state
        self.switches_off = group[0].type in OFF
        self.text = sentence(group, ended=state == ENDED)
        self.since_s = max(one.decided_ns for one in group) / 1e9
        self.until_s = max(one.until_s for one in group)


def tell(identity: Identity, number: int, program: str, known: BlockList) -> list[BlockText]:
    """Returns what is decided about a program, by state and then oldest first."""
    now = time.time()
    found = []
    for state in STATES:
        mine = [one for one in known.entries.values() if one.state(now) == state]
        found += [BlockText(identity, number, program, state, group) for group in grouped(mine)]
    return found
