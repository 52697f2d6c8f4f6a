"""Writes files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import time

from . import owner
from .file_kinds import TEMPORARY as TEMPORARY
from .file_kinds import Kind
from .paths import make_private_below, open_in_store, open_made, read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The most pieces that Linux writes with one call.
IOV_MAX = 1024

#: Error numbers of a full disk.
FULL = (errno.ENOSPC, errno.EDQUOT)

#: Clocks of machines that share a store differ by less.
AHEAD_SECONDS = 300

#: How names of directories for the work of commands begin, in the store's root.
SCRATCH = "scratch."

_FILE_TYPE, _PLAIN_FILE = 0o170000, 0o100000  # stat.S_IFMT, stat.S_IFREG


def unique_name() -> str:
    """Returns a name that no other process makes, not even on another machine or in another container that shares the
    directory: the time in nanoseconds, so that names sort by age, and 64 random bits."""
    return f"{time.time_ns():016x}-{os.urandom(8).hex()}"


def date_of(when: float) -> float:
    """Returns the date by which to order what was written at ``when``, in seconds since 1970. A date in the future was
    written while the clock was wrong, so it counts as the oldest. Otherwise it would count as the newest until then,
    and everything written since would be deleted first."""
    return when if when <= time.time() + AHEAD_SECONDS else 0.0


def date_of_name(path: str) -> float:
    """As ``date_of``, for a file whose name begins with that of ``unique_name``. Returns 0 for another name."""
    try:
        return date_of(int(path.rpartition("/")[2][:16], 16) / 1e9)
    except ValueError:
        return 0.0


def write_all(fd: int, parts: list[bytes | memoryview]) -> int:
    """Writes every byte of ``parts``; returns their number.

    Raises OSError; the file may then end in a part of them.
    """
    total = sum(len(part) for part in parts)
    written = os.writev(fd, parts[:IOV_MAX])
    if written < total:
        rest = memoryview(b"".join(parts))[written:]
        while rest:
            rest = rest[os.write(fd, rest) :]
    return total


def append(path: str, parts: list[bytes | memoryview]) -> int:
    """Appends to a file that this process made; returns the number of bytes. The file is open during this call only: a
    program may close every descriptor that it finds, and a number that we kept could then belong to a file of the
    program's own. Raises OSError; the file is then as it was."""
    fd = open_made(path, os.O_WRONLY | os.O_APPEND)
    try:
        return append_all(fd, parts)
    finally:
        os.close(fd)


def append_all(fd: int, parts: list[bytes | memoryview]) -> int:
    """As ``write_all``, at the end of a file that was opened with O_APPEND. Raises OSError; the file is then as it was,
    so that what a full disk took is not mistaken for the torn end of a process that was killed."""
    size = os.fstat(fd).st_size
    try:
        return write_all(fd, parts)
    except OSError:
        os.ftruncate(fd, size)
        raise


def write_at_start(path: str, data: bytes) -> None:
    """Overwrites the first bytes of a file that this process made. Raises OSError."""
    fd = open_made(path, os.O_WRONLY)
    try:
        write_all(fd, [data])
    finally:
        os.close(fd)


def sync_file(path: str) -> None:
    """Waits until a file's content, or a directory's entries, are on the disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    status = os.fstat(fd)
    try:
        os.fsync(fd)
    finally:
        if os.path.samestat(os.fstat(fd), status):  # fsync may take seconds; the program may own the number by then
            os.close(fd)


def read_small(path: str, limit: int) -> bytes:
    """Returns at most ``limit`` bytes of a file of the store. Raises OSError, also if it is not a plain file or belongs
    to another user."""
    return read_all(open_in_store(path), limit)


def size_of(path: str) -> int:
    """Returns the size of a file; 0 if it is gone."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def open_foreign(path: str) -> int:
    """Opens a plain file that may belong to anybody, for reading; returns the descriptor. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if os.fstat(fd).st_mode & _FILE_TYPE != _PLAIN_FILE:
        os.close(fd)
        raise OSError(f"{path} is not a regular file")
    return fd


def names_in(directory: str) -> list[str]:
    """Returns the names in a directory, in order; none if it cannot be read."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def entries_in(directory: str, ending: str = "") -> list[tuple[os.DirEntry[str], os.stat_result]]:
    """Returns what is in a directory, each with its own status, not that of what a link leads to. ``ending``: only what
    has a name that ends so. What cannot be read or is deleted meanwhile is left out."""
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    if entry.name.endswith(ending):
                        found.append((entry, entry.stat(follow_symlinks=False)))
                except OSError:
                    continue
    except OSError:
        pass
    return found


def create_temporary(path: str, anywhere: bool = False) -> tuple[int, str]:
    """Creates a temporary file beside ``path``, to be renamed to it; returns its descriptor and name. ``anywhere``: the
    file is not in the store and may be in a directory that others may write to. Raises OSError."""
    temporary = f"{path}.{owner.maker()}{TEMPORARY}"
    opened = open_made if anywhere else open_in_store
    return opened(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL), temporary


def replace_file(
    path: str,
    data: bytes | list[bytes | memoryview] | Iterator[bytes],
    sync: bool = False,
    anywhere: bool = False,
    mode: int = 0o600,
) -> None:
    """Writes ``data`` to a temporary file in the same directory and renames it to ``path``. What an iterator yields is
    written piece by piece. With ``sync``, the file and its name are on the disk when this returns. ``anywhere``: as for
    ``create_temporary``.

    Raises OSError; ``path`` is then unchanged.
    """
    fd, temporary = create_temporary(path, anywhere)
    try:
        try:
            if isinstance(data, (bytes, list)):
                write_all(fd, [data] if isinstance(data, bytes) else data)
            else:
                for piece in data:
                    write_all(fd, [piece])
            if mode != 0o600:
                os.fchmod(fd, mode)
        finally:
            os.close(fd)
        if sync:
            sync_file(temporary)
        os.rename(temporary, path)
    except BaseException:
        remove(temporary)
        raise
    if sync:
        sync_file(os.path.dirname(path))


def rename_to_new(path: str, new: str) -> None:
    """Renames a file to a name that no file has. Raises FileExistsError if the name is taken, and OSError; the file
    then keeps its name. Does not use link(2), which FAT lacks."""
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    try:
        os.rename(path, new)
    except BaseException:
        remove(new)
        raise


def remove(path: str) -> bool:
    """Deletes a file. Returns False if it does not exist or cannot be deleted."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def remove_tree(path: str) -> bool:
    """Deletes a directory with everything in it. Returns False if something stays."""
    for directory, _, names in os.walk(path, topdown=False):
        for name in names:
            remove(os.path.join(directory, name))
        try:
            os.rmdir(directory)
        except OSError:
            pass
    return not os.path.lexists(path)


class Scratch:
    """A directory for one command's work in a store's root, for ``with``, which gives its path. If this process is
    killed, maintenance and the next such command delete it: the name says whose it is. Raises OSError."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._name = f"{SCRATCH}{owner.maker()}{TEMPORARY}"

    def __enter__(self) -> str:
        make_private_below(self._root, self._name)
        remove_left_temporaries(self._root, SCRATCH)
        return os.path.join(self._root, self._name)

    def __exit__(self, *_: object) -> None:
        remove_tree(os.path.join(self._root, self._name))


def prune_oldest(directory: str, kind: Kind, most: int) -> int:
    """Deletes the files of a kind in a directory that were written longest ago, a quarter at a time, if there are more
    than ``most``; returns how many."""
    if sum(name.endswith(kind) for name in names_in(directory)) <= most:
        return 0
    found = [(date_of(status.st_mtime), entry.path) for entry, status in entries_in(directory, kind)]
    return sum(remove(path) for _, path in sorted(found)[: len(found) - most * 3 // 4])


def remove_left_temporaries(directory: str, beginning: str = "", limit: float = owner.FOREIGN_SECONDS) -> None:
    """Deletes temporary files and directories of processes that have ended. ``beginning``: only those whose names begin
    with it. ``limit``: seconds after which a process elsewhere counts as ended."""
    now = time.time()
    for entry, status in entries_in(directory, TEMPORARY):
        if entry.name.startswith(beginning):
            maker = entry.name[: -len(TEMPORARY)].rpartition(".")[2]
            if owner.maker_has_ended(maker, now - status.st_mtime, limit) and not remove(entry.path):
                remove_tree(entry.path)
