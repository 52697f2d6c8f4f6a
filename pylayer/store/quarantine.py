"""Files that could not be used, kept with the reason so that a person can examine them. pylayer never loads them.

<root>/quarantine/<unique>-<name>.data      a file of the store that was moved here
<root>/quarantine/<unique>-<name>.reason    one line: where it was, and what is wrong with it
"""

from __future__ import annotations

import os

from ..common import file_kinds
from ..common.files import date_of, names_in, read_small, remove, replace_file, unique_name
from ..common.paths import make_private_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .format import Damage

#: Beyond these limits the oldest files are deleted, but never the newest.
MAX_BYTES = 64 << 20
MAX_FILES = 100
DATA, REASON = file_kinds.QUARANTINED, file_kinds.REASON


class QuarantinedFile:
    """One file in quarantine. ``time``: when it was moved, in seconds since 1970; 0 if its name does not say."""

    def __init__(self, base: str, size: int, reason: str) -> None:
        self.path, self.reason_path = base + DATA, base + REASON
        self.name = os.path.basename(base)
        self.size = size
        self.reason = reason
        try:
            self.time = int(self.name.partition("-")[0][:16], 16) / 1e9
        except ValueError:
            self.time = 0.0


def move_file(root: str, path: str, damage: list[Damage]) -> bool:
    """Moves a file to quarantine and records the reason. Deletes it and returns False if it is empty, as a power cut
    leaves files: there is nothing to examine. Raises OSError; the file is then where it was."""
    if os.lstat(path).st_size == 0:
        os.unlink(path)
        return False
    make_private_below(root, "quarantine")
    base = os.path.join(root, "quarantine", f"{unique_name()}-{os.path.basename(path)}")
    more = f"; and {len(damage) - 1} more places" if len(damage) > 1 else ""
    os.rename(path, base + DATA)
    try:
        replace_file(base + REASON, f"{os.path.relpath(path, root)}: {damage[0].reason}{more}\n".encode())
    except OSError:
        pass  # a full disk: the file is listed without a reason
    return True


def items(root: str) -> list[QuarantinedFile]:
    """Returns everything in quarantine, oldest first."""
    directory = os.path.join(root, "quarantine")
    found = []
    for name in names_in(directory):
        if not name.endswith(DATA):
            continue
        base = os.path.join(directory, name.removesuffix(DATA))
        try:
            size = os.stat(base + DATA).st_size
        except OSError:
            continue  # deleted meanwhile
        try:
            reason = read_small(base + REASON, 1 << 10).decode("utf-8", "replace").partition("\n")[0]
        except OSError:
            reason = ""
        found.append(QuarantinedFile(base, size, reason))
    return found


def prune(root: str) -> int:
    """Deletes the oldest files beyond the limits; returns how many."""
    found = sorted(items(root), key=lambda item: (date_of(item.time), item.name))
    total = sum(item.size for item in found)
    removed = 0
    for item in found[:-1]:
        if len(found) - removed <= MAX_FILES and total <= MAX_BYTES:
            break
        remove(item.reason_path)
        removed += remove(item.path)
        total -= item.size
    return removed
