"""Every kind of file below the store's root, in one table, and names of files as a type.

Nothing else in pylayer/ lists suffixes: whoever wants 'all files that a fold reads' takes a column of this table. The
table in docs/internals/format.md is generated from it.

A ``Kind`` is its suffix, a string, with the columns as attributes. So it can be compared with the end of a name, and
``str.endswith`` takes a tuple of them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HEX = "0123456789abcdef"


#: Columns that are true or false.
FLAGS = ("appended", "folded", "loaded", "removed", "evicted", "verified", "quarantined", "synced")


class Kind(str):
    """One kind of file. ``pattern``: its path below the store's root. ``what``: what it holds.

    ``magic``: the kind in its file header; empty if it has none. ``counted``: what `pylayer ls` counts it as.
    ``appended``: one process appends to it; files of other kinds appear whole. ``folded``: a fold reads it. ``loaded``:
    a device loads its records. ``removed``: it goes with its program's pipelines. ``evicted``: it may go when the store
    exceeds its limit. ``verified``: `pylayer verify` reads it. ``quarantined``: a damaged one moves to quarantine as it
    is. ``synced``: its content is on the disk before its name is. Files of other kinds may be empty or missing after a
    power cut.

    For people: its ``bound``, who deletes it otherwise (``deleted``), what happens to one of a ``newer`` version.
    """

    __slots__ = ("bound", "counted", "deleted", "magic", "newer", "of_program", "pattern", "place", "what", *FLAGS)
    pattern: str
    what: str
    place: str
    of_program: bool
    magic: bytes
    bound: str
    deleted: str
    newer: str
    counted: str
    appended: bool
    folded: bool
    loaded: bool
    removed: bool
    evicted: bool
    verified: bool
    quarantined: bool
    synced: bool

    def __new__(  # noqa: D102
        cls,
        pattern: str,
        what: str,
        flags: str = "",
        *,
        magic: bytes = b"",
        counted: str = "",
        bound: str,
        deleted: str,
        newer: str,
    ) -> Kind:
        name = pattern.rpartition("/")[2]
        self = super().__new__(cls, name[name.rfind(".") :] if "." in name else "")
        self.pattern, self.what, self.magic = pattern, what, magic
        self.counted, self.bound, self.deleted, self.newer = counted, bound, deleted, newer
        self.place = pattern.partition("/")[0]
        self.of_program = name.startswith("<program>-")
        for flag in FLAGS:
            setattr(self, flag, flag in flags.split())
        return self


_PIPELINES = "folded loaded removed verified"
_WHOLE = "removed evicted verified quarantined"
_AGES = "stays; evicted by its age"
_LIMITS = "`max_store_mib`, `max_program_mib`"
_STORE = "store/<identity>/<program>-<unique>"
_COPY = "is another name"

IDENTITY = Kind(
    "store/<identity>/identity",
    "the identity's fields and `format`, as settings text",
    "synced",
    bound="one",
    deleted="`clear`, last of its folder; made again if it is missing or damaged",
    newer="stays, with its folder",
)
JOURNAL = Kind(
    _STORE + ".journal",
    "records of one process, which may still append",
    _PIPELINES + " appended",
    magic=b"JRNL",
    counted="journals",
    bound="32 MiB; an hour of appending",
    deleted="nobody while its writer may live; then it is renamed to `.closed`",
    newer=_AGES,
)
CLOSED = Kind(
    _STORE + ".closed",
    "the same, when it no longer does",
    _PIPELINES + " evicted",
    magic=b"JRNL",
    counted="journals",
    bound=_LIMITS,
    deleted="a fold, once its records are in a pack on the disk",
    newer=_AGES,
)
PACK = Kind(
    _STORE + ".pack",
    "journals of one program, folded; or pulled from a fleet",
    _PIPELINES + " evicted synced",
    magic=b"PACK",
    counted="packs",
    bound=_LIMITS,
    deleted="a fold, once its records are in another pack on the disk",
    newer=_AGES,
)
SNAPSHOT = Kind(
    _STORE + ".snapshot",
    "a whole VkPipelineCache of one process",
    _WHOLE + " loaded",
    magic=b"SNAP",
    counted="snapshots",
    bound=_LIMITS,
    deleted="whoever stores a snapshot that contains it",
    newer=_AGES,
)
BLOB = Kind(
    _STORE + ".blob",
    "the last data that one process read of one of its own caches",
    _WHOLE,
    magic=b"BLOB",
    counted="blobs",
    bound="64 a program",
    deleted="whoever stores the next data of that cache",
    newer=_AGES,
)
ATTEST = Kind(
    _STORE + ".attest",
    "digests of all that one process read of them",
    _WHOLE + " appended",
    magic=b"ATST",
    counted="attestation_files",
    bound="8 files that policy wrote, 32 that the layer wrote (64 if the program is always killed), 4,096 digests, "
    "1 MiB of sketches a program",
    deleted="whoever combines it with others, once its writer has ended",
    newer=_AGES,
)
#: The layer adds a file in each run that reads a new content, and has policy combine more than these at exit, or when
#: the program passes data if there are twice as many: MANY_FILES of shim/layer/caches/cache_history.c.
MANY_ATTEST_FILES = 32
BINARIES = Kind(
    _STORE + ".binaries",
    "what one process read of its own pipeline binaries",
    _WHOLE + " appended",
    magic=b"ABIN",
    counted="attestation_files",
    bound="8 files a program, `keep_cache_mib`",
    deleted="whoever combines it with others, once its writer has ended",
    newer=_AGES,
)
VERDICT = Kind(
    _STORE + ".verdict",
    "lasting verdicts about a program; with program 0, verdicts that concern all programs",
    "synced verified quarantined",
    magic=b"VRDT",
    bound="1,024 entries a program",
    deleted="whoever stores the next one of that program; `quarantine forget`",
    newer="stays",
)
LIVE = Kind(
    _STORE + ".live",
    "what one process has in the driver now, and its run until policy records that",
    magic=b"LIVE",
    bound="one a device",
    deleted="its process; a start that finds its process ended",
    newer="stays",
)
CLAIM = Kind(
    "store/<identity>/folding/<maker>",
    "who folds this folder, a directory",
    bound="one",
    deleted="its maker; the next fold if that has ended",
    newer=_COPY,
)
OLDER = Kind(
    "store/<identity>.old",
    "the folder of an older pylayer, renamed",
    bound="one an identity",
    deleted="`clear --stale`, `clear --all`",
    newer="none",
)
TEMPORARY = Kind(
    "<name>.<maker>.tmp",
    "what is being written, in any of these folders",
    deleted="its maker; a fold, or maintenance, once that has ended",
    bound="one a process that writes",
    newer=_COPY,
)
RUN = Kind(
    "runs/<unique>.run",
    "totals of one run on one device, as settings text",
    bound="2,000",
    deleted="maintenance, the oldest first; `forget`",
    newer="stays; unknown keys are not read",
)
EVENTS = Kind(
    "runs/<unique>.events",
    "timeline of that run",
    "appended",
    magic=b"EVNT",
    bound="50, 64 MiB",
    deleted="maintenance, the oldest first, once its writer has ended; `forget`",
    newer="stays",
)
PLAN = Kind(
    "plans/<digest>.plan",
    "a kept plan, for C",
    bound="1,000",
    deleted="maintenance, the oldest first; `clear --all`",
    newer=_COPY,
)
FLAT = Kind(
    "policy/<digest>.flat",
    "the compiled copy of a policy file",
    bound="64",
    deleted="maintenance, the oldest first; `clear --all`",
    newer=_COPY,
)
QUARANTINED = Kind(
    "quarantine/<unique>-<name>.data",
    "a file that could not be used",
    bound="100, 64 MiB; always the newest",
    deleted="maintenance, the oldest first; `quarantine empty`",
    newer="none",
)
REASON = Kind(
    "quarantine/<unique>-<name>.reason",
    "why, in one line",
    bound="as `.data`",
    deleted="with its `.data`",
    newer="none",
)
LOCK = Kind(
    "fleet/<url>/lock",
    "empty; whoever pulls or publishes has its lock",
    bound="one",
    deleted="as the index",
    newer="none",
)
INDEX = Kind(
    "fleet/<url>/<identity>.index",
    "the last index of a fleet that was accepted",
    "synced",
    bound="4 MiB",
    deleted="maintenance, after 180 days without a change below `<url>`",
    newer="is not accepted",
)
FLEET_STATE = Kind(
    "fleet/<url>/<identity>.state",
    "its ETag and how the last pull ended, as settings text",
    bound="64 KiB",
    deleted="as the index",
    newer="unknown keys are not read",
)
PULLED = Kind(
    "fleet/<url>/<identity>.pulled",
    "which pipelines each pulled pack has",
    "appended",
    bound="64 MiB",
    deleted="as the index",
    newer="none",
)
PUSHED = Kind(
    "fleet/<url>/<identity>.pushed",
    "which records this machine pushed",
    bound="128 MiB",
    deleted="as the index",
    newer="none",
)
PART = Kind(
    "fleet/<url>/<sha256>.part",
    "a pack that is being downloaded",
    bound="256 MiB",
    deleted="a pull, after 7 days",
    newer="none",
)
PUBLISHED = Kind(
    "fleet/<url>/<identity>/<sha256>.pack",
    "a publisher's copy of a published pack",
    magic=b"PACK",
    counted="packs",
    bound="those in the index",
    deleted="`fleet publish`, once no index names it",
    newer="stays",
)
SCRATCH = Kind(
    "fleet/<url>/<maker>.tmp/",
    "what a push or a publication works on",
    bound="one a command",
    deleted="its maker; the next push or publication, once that has ended",
    newer=_COPY,
)
PREWARM = Kind(
    "prewarm/<maker>.tmp/",
    "stores of their own, while `pylayer prewarm` or `pylayer rebuild` replays",
    bound="one a command",
    deleted="its maker; maintenance, once that has ended",
    newer=_COPY,
)
OBJECTS = Kind(
    "state/<program>-<unique>.objects",
    "what one process asked for when it created pipelines (state)",
    "appended removed verified quarantined",
    magic=b"STAT",
    bound="32 MiB; an hour of appending",
    deleted="a fold, once its writer has ended; `forget`, `clear`",
    newer="stays",
)
OBJECT_PACK = Kind(
    "state/<program>-<unique>.objectpack",
    "the same of one program, folded",
    "removed verified quarantined synced",
    magic=b"STAT",
    bound="`state_mib` a program",
    deleted="a fold, once its records are in another one on the disk; `forget`, `clear`",
    newer="stays",
)
UNRECORDED = Kind(
    "state/<program>.unrecorded",
    "a line: the program created something whose state may be missing, so its next run records",
    bound="one a program",
    deleted="a run, once it has recorded everything; `forget`, `clear`",
    newer=_COPY,
)
MANIFEST = Kind(
    "manifests/<digest>/<name>.json",
    "the manifest that `pylayer run` gives the loader",
    bound="one a version that ran",
    deleted="nobody",
    newer=_COPY,
)

#: Every kind, in the order of the documentation.
TABLE = tuple(value for value in list(globals().values()) if isinstance(value, Kind))


def _column(takes: Callable[[Kind], bool]) -> tuple[Kind, ...]:
    return tuple(kind for kind in TABLE if kind.place == "store" and kind.magic and takes(kind))


#: The kinds whose files are named ``<program>-<unique><suffix>``.
OF_PROGRAM = _column(lambda kind: kind.of_program)
#: What a fold reads, oldest data first.
FOLDED = (PACK, CLOSED, JOURNAL)
#: What a device loads.
LOADED = (*FOLDED, SNAPSHOT)
assert set(FOLDED) == set(_column(lambda kind: kind.folded)) and set(LOADED) == set(_column(lambda kind: kind.loaded))
REMOVED = _column(lambda kind: kind.removed)
EVICTED = _column(lambda kind: kind.evicted)
VERIFIED = _column(lambda kind: kind.verified)
MOVED_WHOLE = _column(lambda kind: kind.quarantined)
APPENDED = _column(lambda kind: kind.appended)
#: Files whose end may be torn: a process appends to them, or appended when it was killed.
MAY_BE_TORN = (*APPENDED, CLOSED, OBJECTS)
#: What a program asked for. It belongs to no identity.
STATE_FILES = (OBJECTS, OBJECT_PACK)
#: By suffix. A name in an identity's folder, or in state/ or runs/, has one of these.
BY_SUFFIX = {str(kind): kind for kind in (*OF_PROGRAM, *STATE_FILES, RUN, EVENTS)}
#: The folders in the store's root, but the one with pipelines.
BESIDE = tuple(dict.fromkeys(kind.place for kind in TABLE if kind.place not in ("store", TEMPORARY.place)))


class FileName:
    """The name of a file in an identity's folder or in state/: ``<program>-<unique><suffix>``."""

    __slots__ = ("kind", "program", "unique")

    def __init__(self, program: int, unique: str, kind: Kind) -> None:
        self.program = program
        self.unique = unique
        self.kind = kind

    @classmethod
    def parse(cls, path: str) -> FileName | None:
        """Returns the name of a file, given by its path or name. Returns None if it is not the name of a program's
        file, such as that of a temporary one."""
        name = path.rpartition("/")[2]
        stem, dot, suffix = name.rpartition(".")
        kind = BY_SUFFIX.get(dot + suffix)
        head, dash, unique = stem.partition("-")
        if kind is None or not kind.of_program or not dash or len(head) != 16 or head.strip(_HEX):
            return None
        return cls(int(head, 16), unique, kind)

    def __str__(self) -> str:
        return f"{self.program:016x}-{self.unique}{self.kind}"
