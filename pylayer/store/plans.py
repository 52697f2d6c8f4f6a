"""Plans that the layer may take again without waiting for Python; shim/layer/kept_plans.c reads them.

<root>/plans/<name>   32 bytes of header, the plan, the key: native byte order, for this machine alone
"""

from __future__ import annotations

import os
import struct

from ..paths import make_private_below
from .files import replace_file

MAGIC = 0x314E414C504C5950  # PYLAYER_PLAN_MAGIC
HEADER = struct.Struct("=QQQQ")

#: Beyond this many the least recently made are deleted, a quarter at a time.
MAX_PLANS = 1000


def fnv1a(data: bytes) -> int:
    """FNV-1a, 64 bits: what the layer computes without a library."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def keep(root: str, name: str, plan: bytes, key: bytes) -> None:
    """Writes one plan, whole or not at all. Raises OSError."""
    directory = os.path.join(root, "plans")
    make_private_below(root, "plans")
    body = plan + key
    replace_file(os.path.join(directory, name), HEADER.pack(MAGIC, len(plan), len(key), fnv1a(body)) + body)


def prune(root: str) -> int:
    """Deletes the oldest plans beyond ``MAX_PLANS``; returns how many."""
    directory = os.path.join(root, "plans")
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.stat().st_mtime_ns)
    except OSError:
        return 0
    if len(entries) <= MAX_PLANS:
        return 0
    removed = 0
    for entry in entries[: len(entries) - MAX_PLANS * 3 // 4]:
        try:
            os.unlink(entry.path)
            removed += 1
        except OSError:
            pass  # another process prunes too
    return removed
