"""Identifies the process that writes a file, and tells whether it is still alive: shim/layer/store/owner.c in Python.

A process is identified by its boot, pid namespace, pid and start time. So neither a reused pid nor a process of another
container or machine that shares the store is mistaken for the writer. There are no locks, because NFS and FUSE mounts
may lack them. tests/unit/test_trust.py has one table of cases for both implementations.
"""

from __future__ import annotations

import os
import struct

import xxhash

TYPE_CHECKING = False
if TYPE_CHECKING:
    #: 8 unused bytes, where earlier versions had the machine, and the boot's 8; pid; pid namespace; clock ticks from
    #: boot to its start. Zeros are unknown.
    Process = tuple[bytes, int, int, int]

#: A writer never appends to a journal that is older than this many seconds by its monotonic clock.
APPEND_SECONDS = 3600.0
#: A file of a process elsewhere that did not change for this long has no writer any more.
FOREIGN_SECONDS = 24 * 3600.0

ALIVE, DEAD = "alive", "dead"
#: Of another boot, on whatever machine, or in another pid namespace, or /proc does not tell.
ELSEWHERE = "elsewhere"

_MAKER = struct.Struct("<16sIIQ")
_this: Process | None = None


def _look_up(pid: int) -> tuple[int, bool]:
    """Returns the clock ticks from boot to the process's start, and whether it is dead and only its parent has not
    noticed yet: fields 22, 3 and 20 of /proc/<pid>/stat. The state is that of the first thread, which may end before
    the others. Raises OSError, ValueError, IndexError."""
    text = _read(f"/proc/{pid}/stat")
    fields = text[text.rindex(b")") + 2 :].split()
    state, threads, start_ticks = fields[0], fields[17], fields[19]
    return int(start_ticks), state in (b"Z", b"X") and int(threads) <= 1


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(4096)


def _boot() -> int:
    try:
        return xxhash.xxh3_64_intdigest(_read("/proc/sys/kernel/random/boot_id").rstrip(b"\n"))
    except OSError:
        return 0


def _pid_namespace() -> int:
    """/proc may be that of another pid namespace, where our numbers are those of other processes."""
    try:
        ours = os.readlink("/proc/self") == str(os.getpid())
        return os.stat("/proc/self/ns/pid").st_ino & 0xFFFFFFFF if ours else 0
    except OSError:
        return 0


def this_process() -> Process:
    """Describes this process. What /proc does not tell is 0."""
    global _this
    pid = os.getpid()
    if _this is None or _this[1] != pid:
        place = struct.pack("<QQ", 0, _boot())
        try:
            start_ticks = _look_up(pid)[0]
        except (OSError, ValueError, IndexError):
            start_ticks = 0
        _this = (place, pid, _pid_namespace(), start_ticks)
    return _this


def state(process: Process) -> str:
    """Returns whether a process is ``ALIVE``, ``DEAD`` or ``ELSEWHERE``."""
    place, pid, namespace, start_ticks = process
    here, _, mine, _ = this_process()
    if not any(here[8:]) or place[8:] != here[8:] or not mine or namespace != mine:
        return ELSEWHERE
    try:
        started, is_dead = _look_up(pid)
    except (FileNotFoundError, ProcessLookupError):
        return DEAD
    except (OSError, ValueError, IndexError):
        return ELSEWHERE
    return DEAD if is_dead or started != start_ticks else ALIVE


def has_ended(process: Process, idle_seconds: float, limit: float = FOREIGN_SECONDS) -> bool:
    """Returns whether a file's writer is known to be gone. ``idle_seconds``: time since the file last changed, by this
    machine's clock. It is negative if that clock went backwards; it then proves nothing. ``limit``: a process elsewhere
    is taken for gone after so many of them."""
    found = state(process)
    return idle_seconds > limit if found == ELSEWHERE else found == DEAD


def maker() -> str:
    """Returns a name that identifies this process and is never used twice, for ``maker_has_ended``."""
    return f"{_MAKER.pack(*this_process()).hex()}-{os.urandom(8).hex()}"


def maker_has_ended(name: str, idle_seconds: float, limit: float = FOREIGN_SECONDS) -> bool:
    """Returns whether the process that made a name is known to be gone, like ``has_ended``. Accepts any name."""
    try:
        process = _MAKER.unpack(bytes.fromhex(name.partition("-")[0]))
    except (ValueError, struct.error):  # not a name of ``maker``
        return idle_seconds > limit
    return has_ended(process, idle_seconds, limit)
