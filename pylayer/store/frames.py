"""Frames: when a program presented, as a timeline keeps it, and which frames came late.

A frame of a swapchain lasts from one vkQueuePresentKHR to the next, and has the number of the present that ends it. The
layer counts late frames by the same rule (shim/layer/frames/frames.h).
"""

from __future__ import annotations

import struct

from ..values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: A frame at 60 Hz. What lasts no longer is not late.
FRAME_NS = 16_700_000
#: A frame that lasts longer is a pause (a hidden window, a loading screen), unless pipelines took half of it.
PAUSE_NS = 2_000_000_000
#: How many frames before a frame say what is usual.
HISTORY = 60
#: A present that comes so soon after another one shows a generated frame.
AT_ONCE_NS = 4_000_000

#: What begins a group of presents in a FRMS record: when the first one was, its number, thread and swapchain, and how
#: many follow. For each of those there are the microseconds since the one before.
GROUP = struct.Struct("<QIIII")
_MOST_BETWEEN = 0xFFFFFFFF


class Present(Value):
    """One vkQueuePresentKHR of one swapchain. ``number`` counts from 1."""

    time_ns: int
    number: int
    thread: int
    swapchain: int


class Usual:
    """How long the last frames of a swapchain took."""

    __slots__ = ("_at", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        self._at = 0

    def usual_ns(self) -> int:
        """Returns the median of the last frames; 0 if there were none. If half of them are generated ones, which follow
        another at once, one in eight or more is not, and tells."""
        times = sorted(self._times)
        median = times[len(times) // 2] if times else 0
        return times[len(times) * 7 // 8] if times and median < AT_ONCE_NS else median

    def is_late(self, took_ns: int, budget_ns: int = FRAME_NS) -> bool:
        """Returns whether the next frame is late if it takes this long. It is not added."""
        return took_ns > budget_ns and 2 * took_ns > 3 * self.usual_ns()

    def add(self, took_ns: int) -> None:
        """Adds a frame."""
        if len(self._times) < HISTORY:
            self._times.append(took_ns)
        else:
            self._times[self._at % HISTORY] = took_ns
        self._at += 1


def pack(presents: Iterable[Present]) -> bytes:
    """Returns a FRMS record of presents, which are in order for each swapchain."""
    groups: list[tuple[Present, list[int]]] = []
    last: dict[int, tuple[Present, list[int]]] = {}
    for present in presents:
        before, between = last.get(present.swapchain, (None, []))
        took = present.time_ns // 1000 - before.time_ns // 1000 if before is not None else -1
        adjacent = before is not None and present.number == before.number + 1 and present.thread == before.thread
        if adjacent and 0 <= took <= _MOST_BETWEEN:
            between.append(took)
        else:
            between = []
            groups.append((present, between))
        last[present.swapchain] = (present, between)
    return b"".join(
        [
            GROUP.pack(first.time_ns, first.number, first.thread, first.swapchain, len(between))
            + struct.pack(f"<{len(between)}I", *between)
            for first, between in groups
        ]
    )


def unpack(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yields time, number, thread and swapchain of each present in a FRMS record. A record that says more than it holds
    ends where it holds no more."""
    at = 0
    while at + GROUP.size <= len(data):
        time_ns, number, thread, swapchain, count = GROUP.unpack_from(data, at)
        at += GROUP.size
        yield time_ns, number, thread, swapchain
        count = min(count, (len(data) - at) // 4)
        for took in struct.unpack_from(f"<{count}I", data, at):
            number += 1
            time_ns = (time_ns // 1000 + took) * 1000
            yield time_ns, number, thread, swapchain
        at += 4 * count
