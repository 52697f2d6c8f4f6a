"""Recordings: an object made by hand, and what ``pylayer rebuild`` says."""

from __future__ import annotations

import re
import struct
from typing import Any

HEADER, POINTER, HANDLE = struct.Struct("<IHHIIIIIIQ"), struct.Struct("<II"), struct.Struct("<II16s")


def rebuilds(text: str) -> list[dict[str, Any]]:
    """Returns what ``pylayer rebuild`` printed, by device."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        done = re.match(r"Rebuilt: (\d+) of (\d+) pipelines? for .* for them(?:; (\d+) more)?", line)
        reason = re.match(r" +(\d+) +(\S.*)", line)
        if done or line.startswith("Nothing to rebuild for "):
            numbers = [int(number or 0) for number in done.groups()] if done else [0, 0, 0]
            about = dict(zip(("rebuilt", "wanted", "without_data"), numbers, strict=True))
            found.append({**about, "not_rebuilt": {}, "not_tried": {}, "not_recorded": {}})
        elif reason:
            why, again, _ = reason[2].rstrip().partition(" (not tried again; --all does)")
            kind = "not_tried" if again else "not_recorded" if why.startswith("not recorded: ") else "not_rebuilt"
            found[-1][kind][why.removeprefix("not recorded: ")] = int(reason[1])
    return found


def object_of(image: bytes, kind: int, pointers: Any = (), handles: Any = ()) -> bytes:
    """Returns an object of its parts."""
    head = HEADER.pack(0x54535950, 1, kind, 0, len(image), len(pointers), len(handles), 239, 0, 0)
    packed = (POINTER.pack(*one) for one in sorted(pointers)), (HANDLE.pack(*one) for one in sorted(handles))
    return b"".join((head, image, *packed[0], *packed[1]))
