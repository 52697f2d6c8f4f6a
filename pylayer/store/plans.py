"""Plans that the layer may reuse without waiting for Python. shim/layer/policy/kept_plans.c reads them.

``<root>/plans/<name>`` is the XXH3-128 of the name and the plan, then the plan in native byte order (PylayerKept), for
this machine only.
"""

from __future__ import annotations

import os

import xxhash

from ..common import file_kinds
from ..common.files import prune_oldest, replace_file
from ..common.paths import make_private_below

#: Beyond this many plans the least recently made are deleted, a quarter at a time.
MAX_PLANS = 1000


def keep(root: str, name: str, plan: bytes) -> None:
    """Writes one plan, whole or not at all. Raises OSError."""
    make_private_below(root, "plans")
    replace_file(os.path.join(root, "plans", name), xxhash.xxh3_128_digest(name.encode() + plan) + plan)


def prune(root: str) -> int:
    """Deletes the oldest plans beyond ``MAX_PLANS``; returns how many."""
    return prune_oldest(os.path.join(root, "plans"), file_kinds.PLAN, MAX_PLANS)
