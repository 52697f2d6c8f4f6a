"""Identifies the process that writes a file, and tells whether it is still alive.

A process is identified by its machine (boot and pid namespace), pid and start time. So neither a reused pid nor a
process of another container or machine that shares the store is mistaken for the writer. There are no locks, because
NFS and FUSE mounts may lack them.
"""

from __future__ import annotations

import os

import xxhash

#: A writer never appends to a journal that is older than this many seconds by its monotonic clock.
APPEND_SECONDS = 3600.0
#: A file of another machine that did not change for this long has no writer any more.
FOREIGN_SECONDS = 24 * 3600.0

_this: tuple[int, tuple[bytes, int, int]] | None = None


def _look_up(pid: int) -> tuple[int, bool]:
    """Returns the clock ticks from boot to the process's start, and whether it is dead and only its parent has not
    noticed yet: fields 22, 3 and 20 of /proc/<pid>/stat. The state is that of the first thread, which may end before
    the others. Raises OSError, ValueError, IndexError."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        text = file.read(4096)
    fields = text[text.rindex(b")") + 2 :].split()
    state, threads, start_ticks = fields[0], fields[17], fields[19]
    return int(start_ticks), state in (b"Z", b"X") and int(threads) <= 1


def _machine() -> bytes:
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        boot = file.read(64).strip()
    return xxhash.xxh3_128_digest(boot + b"\0" + os.readlink(b"/proc/self/ns/pid"))


def this_process() -> tuple[bytes, int, int]:
    """Returns machine, pid and start time of this process. Machine and start time are zeros if /proc cannot be read."""
    global _this
    pid = os.getpid()
    if _this is None or _this[0] != pid:
        try:
            _this = (pid, (_machine(), pid, _look_up(pid)[0]))
        except (OSError, ValueError, IndexError):
            _this = (pid, (bytes(16), pid, 0))
    return _this[1]


def has_ended(machine: bytes, pid: int, start_ticks: int, idle_seconds: float) -> bool:
    """Returns whether a file's writer is known to be gone. ``idle_seconds``: time since the file last changed, by this
    machine's clock. It is negative if that clock went backwards; it then proves nothing."""
    here = this_process()
    if machine != here[0] or not any(machine):
        return idle_seconds > FOREIGN_SECONDS
    if (pid, start_ticks) == here[1:]:
        return False
    try:
        started, is_dead = _look_up(pid)
        return started != start_ticks or is_dead
    except FileNotFoundError:
        return True
    except ProcessLookupError:
        return True
    except (OSError, ValueError, IndexError):
        return idle_seconds > FOREIGN_SECONDS


def maker() -> str:
    """Returns a name that identifies this process and is never used twice, for ``maker_has_ended``."""
    machine, pid, start_ticks = this_process()
    return f"{machine.hex()}-{pid:x}-{start_ticks:x}-{os.urandom(8).hex()}"


def maker_has_ended(name: str, idle_seconds: float) -> bool:
    """Returns whether the process that made a name is known to be gone, like ``has_ended``. Accepts any name."""
    try:
        machine, pid, start_ticks, _ = name.split("-")
        return has_ended(bytes.fromhex(machine), int(pid, 16), int(start_ticks, 16), idle_seconds)
    except ValueError:  # not a name of ``maker``
        return idle_seconds > FOREIGN_SECONDS
