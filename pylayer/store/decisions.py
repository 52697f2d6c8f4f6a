"""What the layer obeys without the interpreter: all that is decided about a program on a device, in one small file.

``<root>/plans/<key>.plan`` is the XXH3-128 of the rest, then a PylayerDecision (shim/boundary.h) without the unused end
of its array, in native byte order, for this machine only. shim/layer/policy/decisions.c reads it.

It is compiled from other files, so it may be deleted, and two processes may write it at once. It is valid for one key,
which covers the request, the policy files and the build; until the first block ends; and while the folder has the
``.verdict`` files that it was compiled from.
"""

from __future__ import annotations

import os
import time

import xxhash

from ..common import file_kinds
from ..common.files import read_small, replace_file
from ..common.paths import make_private_below
from ..values import MODE_BINARIES, MODES_THAT_KEEP
from .block_list import ADDED_CALL, BLOCKED, CLOCK_SECONDS, EVERY_KIND, LAYER_OFF, MAX_ENTRIES, OFF, STUB, BlockList
from .crash_marker import ADDED, TOGETHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How long a decision is valid if no block ends.
FOREVER_SECONDS = 1 << 40


def _number_of_file(path: str) -> int:
    return xxhash.xxh3_64_intdigest(os.path.basename(path).encode())


def compiled(own: BlockList, everyones: BlockList, mode: int) -> dict[str, Any]:
    """Returns what blocks on a program and on all programs mean for a device with this mode, as fields of
    ``values.Decision``."""
    entries = [*own.entries.values(), *everyones.entries.values()]
    now = int(time.time())
    in_force = [one for one in entries if one.holds(now)]
    calls = bytearray(max(ADDED) - min(ADDED) + 1)
    for one in in_force:
        if one.type == ADDED_CALL and one.subject in ADDED:
            kinds = 0xFF if one.kind == EVERY_KIND else 1 << one.kind & 0xFF
            calls[TOGETHER.get(one.subject, one.subject) - min(ADDED)] |= kinds
    # Binaries do not need a VkPipelineCache that keeps something.
    off = (LAYER_OFF, *([STUB] if mode != MODE_BINARIES else [])) if mode in MODES_THAT_KEEP else ()
    blocked = sorted((one.decided_ns, one.subject) for one in in_force if one.type in BLOCKED)
    ends = [one.until_s - now + CLOCK_SECONDS for one in entries if one.until_s > now]
    return {
        "off_by": max([one.type for one in in_force if one.type in off], default=0),
        "undecided": own.are_undecided(*OFF),
        "calls_off": bytes(calls),
        "blocked": sorted({subject for _, subject in blocked[-MAX_ENTRIES:]}),
        "block_files": sum(map(_number_of_file, (*own.sources, *everyones.sources))) % (1 << 64),
        # A clock that was ahead when this was compiled, or that was ahead or behind when something was decided.
        "valid_from_s": now - CLOCK_SECONDS if entries else 0,
        "valid_s": 0 if own.doubted or everyones.doubted else min([FOREVER_SECONDS, *ends]),
    }


def keep(root: str, key: bytes, decision: bytes) -> None:
    """Writes one decision, whole or not at all, unless it is there. Raises OSError."""
    path, data = os.path.join(root, "plans", key.hex() + file_kinds.PLAN), xxhash.xxh3_128_digest(decision) + decision
    make_private_below(root, "plans")
    try:
        if read_small(path, len(data) + 1) == data:
            return
    except OSError:
        pass  # there is none
    replace_file(path, data)
