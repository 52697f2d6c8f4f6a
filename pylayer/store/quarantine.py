"""What could not be used, kept aside with the reason: nothing of it reaches a driver, and nothing is lost.

<root>/quarantine/<unique>.data     the bytes, or the whole file that was moved here
<root>/quarantine/<unique>.reason   settings text: outcome, detail, source, identity, offset, size, time
"""

from __future__ import annotations

import os
import time

from .. import flat
from ..paths import make_private_below
from .files import read_small, remove, replace_file, unique_name
from .format import Damage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The oldest items leave beyond this.
MAX_BYTES = 64 << 20
MAX_ITEMS = 1000
#: Of a stretch that is longer only so much is kept; a file that is moved is kept whole.
MAX_STRETCH_BYTES = 8 << 20


class Item:
    """One thing in quarantine."""

    def __init__(self, name: str, path: str, size: int, reason: dict[str, Any]) -> None:
        self.name = name
        self.path = path
        self.size = size
        self.outcome = str(reason.get("outcome", "unknown"))
        self.detail = str(reason.get("detail", ""))
        #: Path below the store's root that it was in.
        self.source = str(reason.get("source", ""))
        offset = reason.get("offset")
        self.offset = offset if isinstance(offset, int) else 0
        #: The whole file, not a part of it.
        self.whole_file = reason.get("whole_file") is True
        when = reason.get("time")
        # Numbers beyond any clock are none: an integer can be too large for a float, a float can be nan.
        self.time = float(when) if isinstance(when, (int, float)) and 0 <= when < 1 << 40 else 0.0


def directory_of(root: str) -> str:
    """Where quarantined items lie."""
    return os.path.join(root, "quarantine")


def _reason(root: str, damage: Damage, whole_file: bool) -> bytes:
    return flat.dumps(
        {
            "outcome": damage.outcome,
            "detail": damage.detail,
            "source": os.path.relpath(damage.path, root),
            "offset": damage.offset,
            "size": damage.size,
            "whole_file": whole_file,
            "time": time.time(),
        }
    ).encode()


def _start(root: str, damage: Damage, whole_file: bool) -> str:
    directory = directory_of(root)
    make_private_below(root, "quarantine")
    base = os.path.join(directory, unique_name())
    replace_file(f"{base}.reason", _reason(root, damage, whole_file))
    return base


def keep_bytes(root: str, damage: Damage, data: bytes) -> None:
    """Keeps a damaged stretch of a file. Raises OSError."""
    base = _start(root, damage, whole_file=False)
    try:
        replace_file(f"{base}.data", data[:MAX_STRETCH_BYTES])
    except BaseException:
        remove(f"{base}.reason")
        raise


def move_file(root: str, damage: Damage) -> None:
    """Moves a whole file here. Raises OSError; the file is then where it was."""
    base = _start(root, damage, whole_file=True)
    try:
        os.rename(damage.path, f"{base}.data")
    except BaseException:
        remove(f"{base}.reason")
        raise


def items(root: str) -> list[Item]:
    """Everything in quarantine, oldest first."""
    directory = directory_of(root)
    try:
        names = sorted(name[: -len(".data")] for name in os.listdir(directory) if name.endswith(".data"))
    except OSError:
        return []
    found = []
    for name in names:
        base = os.path.join(directory, name)
        reason: dict[str, Any] = {}
        try:
            size = os.stat(f"{base}.data").st_size
            reason = flat.loads(read_small(f"{base}.reason", 1 << 16).decode())
        except FileNotFoundError:
            if not os.path.exists(f"{base}.data"):
                continue
        except (OSError, ValueError):
            pass  # an item without a readable reason is still an item
        found.append(Item(name, f"{base}.data", size, reason))
    return found


def delete(item: Item) -> bool:
    """Removes an item for good; False where it is not there or cannot be removed."""
    removed = remove(item.path)
    remove(item.path[: -len(".data")] + ".reason")
    return removed


def prune(root: str) -> int:
    """Deletes the oldest items beyond the bounds; returns how many."""
    found = items(root)
    total = sum(item.size for item in found)
    removed = 0
    for item in found:
        if len(found) - removed <= MAX_ITEMS and total <= MAX_BYTES:
            break
        removed += delete(item)
        total -= item.size
    return removed
