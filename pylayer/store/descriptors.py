"""Descriptors of files in a process that is somebody else's.

A program may close every descriptor that it finds, as daemons and launchers do, and the next file that it opens gets
the number of one of ours. Writing there would be writing into the program's file, and closing it would close that. So
what stays open for longer than a call is looked at before each use.
"""

from __future__ import annotations

import os

#: Journals get a number from here on: one that a program which closed everything does not get at once for a file of
#: its own, and below 64, where the kernel's table of descriptors would have to grow.
HIGH = 40
#: Below are standard input, output and error. In a program that was started without one of them a file of ours would
#: be what the program writes its output to.
LOWEST = 3


class OwnFile:
    """A descriptor, and which file it was when it was opened. Takes ``fd`` over, which may be closed then and the file
    have another number; on OSError it is closed."""

    __slots__ = ("_device", "_fd", "_inode")

    def __init__(self, fd: int) -> None:
        self._fd = fd = move_up(fd) if fd < LOWEST else fd
        try:
            status = os.fstat(fd)
        except OSError:
            os.close(fd)
            raise
        self._device, self._inode = status.st_dev, status.st_ino

    @property
    def inode(self) -> int:
        """The file's number in its file system."""
        return self._inode

    def is_own(self) -> bool:
        """Whether the number still stands for the file."""
        try:
            status = os.fstat(self._fd)
        except OSError:
            return False
        return status.st_ino == self._inode and status.st_dev == self._device

    def fileno(self) -> int:
        """The number, for one call. Raises OSError where it stands for something else by now."""
        if not self.is_own():
            raise OSError("the program closed the layer's file")
        return self._fd

    def duplicate(self) -> OwnFile:
        """Another descriptor of the file. Raises OSError."""
        return OwnFile(_duplicate(self.fileno()))

    def close(self) -> None:
        """Closes the file; what the number stands for otherwise stays open. May be called twice."""
        fd = self._fd
        if self.is_own():
            self._fd = -1
            os.close(fd)
        self._fd = -1


def _duplicate(fd: int) -> int:
    try:
        from fcntl import F_DUPFD_CLOEXEC, fcntl
    except ImportError:  # a file that cannot be opened or mapped any more
        return os.dup(fd)
    try:
        return fcntl(fd, F_DUPFD_CLOEXEC, HIGH)
    except OSError:  # the program's limit is lower
        return fcntl(fd, F_DUPFD_CLOEXEC, LOWEST)


def move_up(fd: int) -> int:
    """A descriptor of the same file out of the program's way; closes ``fd``. Where there is none to be had, ``fd``."""
    try:
        moved = _duplicate(fd)
    except OSError:
        return fd
    os.close(fd)
    return moved
