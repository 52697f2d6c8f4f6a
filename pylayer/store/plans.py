"""Plans that the layer may reuse without waiting for Python. shim/layer/policy/kept_plans.c reads them.

``<root>/plans/<name>`` is the XXH3-128 of the name and the plan, then the plan in native byte order (PylayerKept), for
this machine only.
"""

from __future__ import annotations

import os

import xxhash

from ..common.files import replace_file
from ..common.paths import make_private_below

#: Beyond this many plans the least recently made are deleted, a quarter at a time.
MAX_PLANS = 1000


def keep(root: str, name: str, plan: bytes) -> None:
    """Writes one plan, whole or not at all. Raises OSError."""
    make_private_below(root, "plans")
    replace_file(os.path.join(root, "plans", name), xxhash.xxh3_128_digest(name.encode() + plan) + plan)


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
