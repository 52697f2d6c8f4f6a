"""Every kind of file below the store's root, in one table, and names of files as a type.

Nothing else in pylayer/ lists suffixes: whoever wants 'all files that a compaction reads' takes a column of this table.
The table in docs/internals/format.md says what each kind holds, its bound and who deletes it. A test compares the two.

A ``Kind`` is its suffix, a string, with the columns as attributes. So it can be compared with the end of a name, and
``str.endswith`` takes a tuple of them.
"""

from __future__ import annotations

from ..values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HEX = "0123456789abcdef"
#: So many hexadecimal digits of its SHA-256 are in the name of a pulled pack. With all of them the name would be longer
#: than the layer reads (PYLAYER_STORE_NAME_BYTES).
PULLED_DIGITS = 32


#: Columns that are true or false.
FLAGS = ("appended", "compacted", "removed", "evicted", "verified", "synced")


class Kind(str):
    """One kind of file. ``pattern``: its path below the store's root.

    ``magic``: the kind in its file header; empty if it has none.
    ``appended``: one process appends to it; files of other kinds appear whole. ``compacted``: a compaction reads it.
    ``removed``: it goes with its program's pipelines. ``evicted``: it may go when the store exceeds its limit.
    ``verified``: `pylayer ls --verify` reads it. ``synced``: its content is on the disk before its name is. Files of
    other kinds may be empty or missing after a power cut.
    """

    __slots__ = ("magic", "of_program", "pattern", "place", *FLAGS)
    pattern: str
    place: str
    of_program: bool
    magic: bytes
    appended: bool
    compacted: bool
    removed: bool
    evicted: bool
    verified: bool
    synced: bool

    def __new__(cls, pattern: str, flags: str = "", *, magic: bytes = b"") -> Kind:  # noqa: D102
        name = pattern.rpartition("/")[2]
        self = super().__new__(cls, name[name.rfind(".") :] if "." in name else "")
        self.pattern, self.magic = pattern, magic
        self.place = pattern.partition("/")[0]
        self.of_program = name.startswith("<program>-")
        for flag in FLAGS:
            setattr(self, flag, flag in flags.split())
        return self


#: The kind of all other files.
OTHER = Kind("")

_PIPELINES = "compacted removed verified"
_WHOLE = "removed evicted verified"
_STORE = "store/<identity>/<program>-<unique>"

IDENTITY = Kind("store/<identity>/identity", "synced")
JOURNAL = Kind(_STORE + ".journal", _PIPELINES + " appended", magic=b"JRNL")
CLOSED = Kind(_STORE + ".closed", _PIPELINES + " evicted", magic=b"JRNL")
PACK = Kind(_STORE + ".pack", _PIPELINES + " evicted synced", magic=b"PACK")
ATTEST = Kind(_STORE + ".attest", _WHOLE + " appended", magic=b"ATST")
VERDICT = Kind(_STORE + ".verdict", "synced verified", magic=b"VRDT")
LIVE = Kind(_STORE + ".live", magic=b"LIVE")
TEMPORARY = Kind("<name>.<maker>.tmp")
RUN = Kind("runs/<program>-<unique>.run", "appended", magic=b"RUNS")
PLAN = Kind("plans/<digest>.plan")
FLAT = Kind("policy/<digest>.flat")
INDEX = Kind("fleet/<url>/<identity>.index", "synced")
UNRECORDED = Kind("state/<program>.unrecorded")
WARMED = Kind("warmed/<digest>.warmed")

#: Every kind, in the order of the documentation.
TABLE = tuple(value for value in list(globals().values()) if isinstance(value, Kind) and value is not OTHER)


def _column(takes: Callable[[Kind], bool]) -> tuple[Kind, ...]:
    return tuple(kind for kind in TABLE if kind.place == "store" and kind.magic and takes(kind))


#: The kinds whose files are named ``<program>-<unique><suffix>``.
OF_PROGRAM = _column(lambda kind: kind.of_program)
#: What a compaction reads and a device loads, oldest data first.
COMPACTED = (PACK, CLOSED, JOURNAL)
assert set(COMPACTED) == set(_column(lambda kind: kind.compacted))
#: What is deleted when it is damaged. Of what is compacted, a compaction keeps the rest.
DROPPED_WHOLE = _column(lambda kind: kind.verified and not kind.compacted)
APPENDED = _column(lambda kind: kind.appended)
#: Files whose end may be torn: a process appends to them, or appended when it was killed.
MAY_BE_TORN = (*APPENDED, CLOSED)
#: By suffix. A name in an identity's folder, or in state/ or runs/, has one of these.
BY_SUFFIX = {str(kind): kind for kind in (*OF_PROGRAM, RUN)}
#: What is made again when it is missing: so many at most, then the oldest quarter goes.
MADE_AGAIN = {PLAN: 1000, FLAT: 64, WARMED: 64}
#: The folders in the store's root, but the one with pipelines.
BESIDE = tuple(dict.fromkeys(kind.place for kind in TABLE if kind.place not in ("store", TEMPORARY.place)))


class FileName(Value):
    """The name of a file in an identity's folder or in state/: ``<program>-<unique><suffix>``. In that of a pack which
    was pulled, ``unique`` is the beginning of the file's SHA-256."""

    program: int
    unique: str
    kind: Kind

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

    @property
    def is_published(self) -> bool:
        """Whether it is the name of a pack as it was pulled."""
        return len(self.unique) == PULLED_DIGITS and not self.unique.strip(_HEX)

    def __str__(self) -> str:
        return f"{self.program:016x}-{self.unique}{self.kind}"
