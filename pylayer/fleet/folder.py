"""What a machine has of a fleet beside its store, and who may work there.

    <root>/fleet/<url>/lock                 whoever pulls has it, and changes it at the beginning
    <root>/fleet/<url>/<identity>.index     the last index that was accepted, as it came: no older one is
    <root>/fleet/<url>/<sha256>.<maker>.tmp a pack that is being downloaded
    <root>/fleet/<url>/<maker>.tmp/         what a publication works on

<url> is a hash of the URL. All of it may be deleted: the next pull then believes any number of an index once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator

from ..common.files import Scratch, remove_left_temporaries
from ..common.paths import make_private_below, open_in_store


def folder_of(root: str, url: str) -> str:
    """Returns the directory for a URL, which need not exist."""
    return os.path.join(root, "fleet", hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16])


def make_folder(root: str, url: str) -> str:
    """Makes the directory for a URL, deletes what killed processes left in it, and returns it. Raises OSError."""
    path = folder_of(root, url)
    make_private_below(root, "fleet", os.path.basename(path))
    remove_left_temporaries(path)
    return path


def scratch(root: str, url: str) -> Scratch:
    """Returns a directory for a publication. Raises OSError."""
    return Scratch(root, "fleet", os.path.basename(make_folder(root, url)))


def last_begun(root: str, url: str) -> float:
    """Returns when a process last began to pull from a URL, in seconds since 1970; 0 for never."""
    try:
        return os.stat(os.path.join(folder_of(root, url), "lock")).st_mtime
    except OSError:
        return 0.0


@contextlib.contextmanager
def turn(root: str, url: str) -> Iterator[None]:
    """Waits until no other process pulls from a URL into this store. On a file system without locks nobody waits: two
    at once do double work, and nothing else. Raises OSError."""
    fd = open_in_store(os.path.join(make_folder(root, url), "lock"), os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
        except TimeoutError:
            raise
        except OSError:
            pass  # there are no locks
        os.utime(fd)
        yield
    finally:
        os.close(fd)
