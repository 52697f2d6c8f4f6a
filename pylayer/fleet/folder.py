"""What a machine has of a fleet beside its store, and who may work there.

    <root>/fleet/<url>                      whoever pulls has a lock on it, and changes its date at the beginning
    <root>/fleet/<url>/<identity>.index     the last index that was accepted, as it came: no older one is
    <root>/fleet/<url>/<sha256>.<maker>.tmp a pack that is being downloaded

<url> is a hash of the URL. All of it may be deleted: the next pull then believes any number of an index once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator

from ..common.files import remove_left_temporaries
from ..common.paths import make_private_below


def folder_of(root: str, url: str) -> str:
    """Returns the directory for a URL, which need not exist."""
    return os.path.join(root, "fleet", hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16])


def make_folder(root: str, url: str) -> str:
    """Makes the directory for a URL, deletes what killed processes left in it, and returns it. Raises OSError."""
    path = folder_of(root, url)
    make_private_below(root, "fleet", os.path.basename(path))
    remove_left_temporaries(path)
    return path


@contextlib.contextmanager
def turn(root: str, url: str) -> Iterator[None]:
    """Waits until no other process pulls from a URL into this store. On a file system without locks nobody waits: two
    at once do double work, and nothing else. Raises OSError."""
    fd = os.open(make_folder(root, url), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
