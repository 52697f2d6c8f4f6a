"""Files that could not be used, kept so that a person can examine them. pylayer never loads them.

<root>/quarantine/<unique>-<name>.<outcome>.data    a file of the store that was moved here, and what is wrong with it
"""

from __future__ import annotations

import os

from ..common import outcomes
from ..common.file_kinds import QUARANTINED
from ..common.files import date_of_name, entries_in, remove, unique_name
from ..common.paths import make_private_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .format import Damage

#: Beyond these limits the oldest files are deleted, but never the newest.
MAX_BYTES = 64 << 20
MAX_FILES = 100


class QuarantinedFile:
    """One file in quarantine. ``time``: when it was moved, in seconds since 1970; 0 if its name does not say."""

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.size = size
        outcome = self.name.removesuffix(QUARANTINED).rpartition(".")[2]
        self.reason = f"{outcome}: {outcomes.STORE[outcome]}" if outcome in outcomes.STORE else ""
        self.time = date_of_name(path)


def move_file(root: str, path: str, damage: list[Damage]) -> bool:
    """Moves a file to quarantine. Its name says why: the first damage. Deletes it and returns False if it is empty, as
    a power cut leaves files: there is nothing to examine. Raises OSError; the file is then where it was."""
    if os.lstat(path).st_size == 0:
        os.unlink(path)
        return False
    make_private_below(root, "quarantine")
    name = f"{unique_name()}-{os.path.basename(path)}.{damage[0].outcome}{QUARANTINED}"
    os.rename(path, os.path.join(root, "quarantine", name))
    return True


def items(root: str) -> list[QuarantinedFile]:
    """Returns everything in quarantine, oldest first."""
    found = entries_in(os.path.join(root, "quarantine"), QUARANTINED)
    return sorted((QuarantinedFile(entry.path, status.st_size) for entry, status in found), key=lambda it: it.name)


def prune(root: str) -> int:
    """Deletes the oldest files beyond the limits; returns how many."""
    found = sorted(items(root), key=lambda item: (item.time, item.name))
    total = sum(item.size for item in found)
    removed = 0
    for item in found[:-1]:
        if len(found) - removed <= MAX_FILES and total <= MAX_BYTES:
            break
        removed += remove(item.path)
        total -= item.size
    return removed
