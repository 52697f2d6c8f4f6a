"""The file of a run on one device: what is known of the run, and its timeline.

``<root>/runs/<run>.run`` is a file of the store like a journal: a header, and records that the run's process appends.
Events wait in memory until ``flush``, so a program that is killed loses those since the last flush.
docs/internals/format.md, 'Runs', describes the bytes.
"""

from __future__ import annotations

import os
import struct

from ..common import file_kinds, flat
from ..common.files import append, read_small, replace_file
from ..common.paths import make_private_below
from ..values import Present, Value
from . import format
from .reader import Record, Scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..common.identity import Identity

#: Larger files are not read: no setting produces one.
MAX_FILE_BYTES = 17 << 20
MAX_NOTE_BYTES = 1 << 20
#: Most events that wait in memory for ``flush``. Later ones are dropped and counted.
MAX_WAITING = 16384
#: Most texts, and most names of threads, in one file. Later ones are left empty.
MAX_TEXTS = 8192
MAX_TEXT = 64
#: Most swapchains whose frames are read.
MAX_SWAPCHAINS = 1024

EVENT = struct.Struct("<QQQQIIIIHBBIQ")
assert EVENT.size == 64

#: Types of events. The file has their numbers, from 1. An earlier pylayer wrote those without a name.
TYPES = ("pipeline", "hits", "", "cache", "", "", "", "", "shader", "name")
#: Outcomes of pipelines. The file has their numbers.
OUTCOMES = ("compiled", "compiled", "uncacheable", "plain", "passed", "slow", "failed", "unknown")
#: The outcomes that are compilations, and those of which that is not known.
COMPILES = ("compiled", "uncacheable", "plain")
UNKNOWN = ("passed", "unknown")
#: Outcomes of an application's cache data. The file has their numbers.
CACHE_OUTCOMES = ("passed", "emptied", "refused")
_WORDS = {"pipeline": OUTCOMES, "cache": CACHE_OUTCOMES}


class Event(Value):
    """One event. Times are nanoseconds of CLOCK_MONOTONIC. The other fields depend on ``type``:

    pipeline  one that was not simply found. number: pipelines in the duration. value: bytes kept. text: entry point of
              the last stage, unless it is main
    hits      of one kind in an interval. value: how many
    count     another counter in an interval. value: its increase. text: its name
    cache     initial data of vkCreatePipelineCache. number: of the cache. value: bytes. text: why
    load      stored pipelines were read and merged in an interval. number: records. value: bytes
    device    from plan to existence. outcome: the mode. text: why
    shader    of a pipeline, for each of its first eight stages, after its event. value: hash of its code, 0 unknown.
              text: the program's name of the module
    name      that the program gave the pipeline; the last one counts. text: the name
    """

    type: str
    start_ns: int
    duration_ns: int
    outcome: str
    kind: int
    thread: int
    fingerprint: int
    number: int
    value: int
    stages: int
    text: str

    #: Reports read up to a million events. Value's own constructor takes 1.3 us, this one 0.2.
    def __init__(
        self, type: str, start_ns: int, duration_ns: int = 0, outcome: str = "", kind: int = 0, thread: int = 0,
        fingerprint: int = 0, number: int = 0, value: int = 0, stages: int = 0, text: str = "",
    ) -> None:  # fmt: skip
        self.type, self.start_ns, self.duration_ns, self.outcome, self.kind = type, start_ns, duration_ns, outcome, kind
        self.thread, self.fingerprint, self.number, self.value = thread, fingerprint, number, value
        self.stages, self.text = stages, text

    @property
    def is_compile(self) -> bool:
        """Whether the driver compiled pipelines."""
        return self.type == "pipeline" and self.outcome in COMPILES

    @property
    def may_be_compile(self) -> bool:
        """Whether the driver compiled pipelines, or it is not known that it did not."""
        return self.type == "pipeline" and self.outcome in COMPILES + UNKNOWN


def _thread_name(thread: int) -> str:
    """Returns the name of a thread of this process; empty if the thread has ended."""
    try:
        with open(f"/proc/self/task/{thread}/comm", "rb") as file:
            return file.read(32).strip().decode("utf-8", "replace")
    except OSError:
        return ""


def path_of(root: str, name: str) -> str:
    """Returns the path of a run's file."""
    return os.path.join(root, "runs", name + file_kinds.RUN)


class RunFile:
    """Writes the file of one run on one device. ``limit``: beyond so many bytes events are dropped."""

    def __init__(
        self, root: str, name: str, identity: Identity, program: int = 0, application: str = "", limit: int = 8 << 20
    ) -> None:
        #: Change it before anything is written.
        self.name = name
        #: Events for which there was no room.
        self.dropped = 0
        #: Presents that are not in the file.
        self.frames_left_out = 0
        self._root = root
        self.identity = identity
        self._program = program
        self._application = application
        self._limit = limit
        self._waiting: list[Event] = []
        self._presents: list[Present] = []
        self._frame_bytes = 0
        self._texts: dict[str, int] = {}
        #: Names of the threads that events and frames refer to, and those of them that the next ``flush`` writes.
        self._threads: dict[int, str] = {}
        self._new_threads: dict[int, str] = {}
        #: The lines of what ``note`` wrote, by key.
        self._noted: dict[str, str] = {}
        self._salt = 0
        self._size = 0
        self._closed = False

    @property
    def path(self) -> str:
        """Where the file is."""
        return path_of(self._root, self.name)

    def add(self, event: Event) -> None:
        """Keeps an event until the next ``flush``."""
        self._see_thread(event.thread)
        if len(self._waiting) >= MAX_WAITING or self._closed:
            self.dropped += 1
        else:
            self._waiting.append(event)

    def _see_thread(self, thread: int) -> None:
        """Reads the name of a thread now, because it may end before the next flush."""
        if thread and thread not in self._threads and len(self._threads) < MAX_TEXTS:
            self._threads[thread] = self._new_threads[thread] = _thread_name(thread)

    def present(self, presents: list[Present]) -> None:
        """Keeps frames until the next ``flush``, until they fill half of the file."""
        if self._closed or self._frame_bytes > self._limit // 2:
            self.frames_left_out += len(presents)
        else:
            for thread in {present.thread for present in presents}:
                self._see_thread(thread)
            self._presents += presents

    def note(self, values: dict[str, Any]) -> None:
        """Appends those of the run's values that changed. In a full file only the end of the run counts. Raises
        OSError."""
        lines = {line.partition("=")[0]: line for line in flat.dumps(values).split("\n") if line}
        if self._size > self._limit + MAX_NOTE_BYTES and not values.get("ended"):
            return
        for _ in range(2):  # the second time all of them, because somebody deleted the file
            changed = [line for key, line in lines.items() if self._noted.get(key) != line]
            text = "\n".join(changed).encode("utf-8", "replace")
            if not changed or self._append(format.record_parts(format.NOTE, text)):
                self._noted = lines
                return

    def flush(self) -> None:
        """Appends the events and frames that wait. Those that cannot be written are dropped. Raises OSError."""
        waiting, self._waiting = self._waiting, []
        presents, self._presents = self._presents, []
        room = self._limit - max(self._size, format.FILE_HEADER.size)
        shown = pack_frames(presents)
        if format.record_size(len(shown)) > room:
            self.frames_left_out += len(presents)
            presents, shown = [], b""
        room -= format.record_size(len(shown)) if shown else 0
        fits = max((room - format.record_size(0)) // EVENT.size, 0)
        self.dropped += len(waiting[fits:])
        waiting = waiting[:fits]
        if not waiting and not shown:
            return
        names: dict[str, dict[int, str]] = {"texts": {}, "threads": self._new_threads}
        data = b"".join([self._pack(event, names["texts"]) for event in waiting])
        parts = format.record_parts(format.EVENTS, data) if data else []
        if shown:
            parts += format.record_parts(format.FRAMES, shown)
            self._frame_bytes += len(shown)
        noted = {key: value for key, value in names.items() if value}
        if noted:
            parts = [*format.record_parts(format.NOTE, flat.dumps(noted).encode("utf-8", "replace")), *parts]
        written = False
        try:
            written = self._append(parts)
        finally:
            self._new_threads = {}
            if not written:
                self.dropped += len(waiting)
                self.frames_left_out += len(presents)
                self._texts, self._new_threads = {}, dict(self._threads)

    def _append(self, parts: list[bytes | memoryview]) -> bool:
        """Returns False if somebody deleted the file. The next call then begins it anew. Raises OSError."""
        if self._size:
            try:
                self._size += append(self.path, format.seal(parts, self._salt))
            except FileNotFoundError:
                self._size, self._noted = 0, {}
                return False
            return True
        make_private_below(self._root, "runs")
        self._salt = format.new_salt()
        head = format.file_header(format.RUN_FILE, self.identity, self._program, self._application, salt=self._salt)
        data = b"".join([head, *format.seal(parts, self._salt)])
        replace_file(self.path, data)
        self._size = len(data)
        return True

    def _pack(self, event: Event, texts: dict[int, str]) -> bytes:
        words = _WORDS.get(event.type)
        text = event.text[:MAX_TEXT]
        number = self._texts.get(text, 0)
        if text and not number and len(self._texts) < MAX_TEXTS:
            number = self._texts[text] = len(self._texts) + 1
            texts[number] = text
        return EVENT.pack(
            event.start_ns,
            event.duration_ns,
            event.fingerprint,
            event.value,
            event.thread,
            min(event.number, 0xFFFFFFFF),
            event.stages,
            number,
            TYPES.index(event.type) + 1,
            event.kind,
            words.index(event.outcome) if words and event.outcome in words else 0,
            0,
            0,
        )

    def close(self) -> None:
        """Drops later events. May be called twice."""
        self._closed = True


def merge(into: dict[str, Any], values: dict[str, Any]) -> None:
    """Puts values into others, level by level."""
    for key, value in values.items():
        there = into.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            merge(there, value)
        else:
            into[key] = value


def counted(data: bytes, text: bytes, summed: bool = False) -> dict[str, Any]:
    """Returns the values of a run that the layer counted: in ``data`` are groups of numbers, in ``text`` all else. The
    text says where the groups are, how many there are and how far apart (``layout``), and what the numbers of a group
    count (``counted`` and ``counted_kinds``). So every build reads what another one counted. ``summed``: there is one
    group, at the end. Raises ValueError."""
    values = flat.loads(text.decode("utf-8", "replace"))
    try:
        offset, groups, distance = (int(number) for number in values.pop("layout").split())
        if summed:
            offset, groups = len(data) - distance, 1
        names, kinds = values.pop("counted").split(), values.pop("counted_kinds").split(";")
        group = struct.Struct(f"={len(names) + len(kinds)}Q")
        if not group.size <= distance <= len(data) or not 0 < groups <= len(data) // distance:
            raise ValueError(f"{groups} groups")
        found = [group.unpack_from(data, offset + number * distance) for number in range(groups)]
    except (AttributeError, KeyError, OverflowError, struct.error) as error:
        raise ValueError(f"no run: {error}") from error
    sums = [sum(column) for column in zip(*found, strict=True)]
    numbers, hits = dict(zip(names, sums, strict=False)), dict(zip(kinds, sums[len(names) :], strict=True))
    values["counters"] = {**numbers, "hits": sum(hits.values())}
    values["kinds"] = {kind: {"hits": count} for kind, count in hits.items() if count}
    return values


class Timeline:
    """What a run's file says: the run's values, and its events, in the order in which they were written. ``outcome`` is
    ``ok``, or one of ``outcomes.STORE`` that says why not all of it could be read."""

    def __init__(self) -> None:
        self.outcome = "ok"
        self.header: format.FileHeader | None = None
        self.values: dict[str, Any] = {}
        self.events: list[Event] = []
        #: Events of other devices of the process (``see``).
        self.beside: list[Event] = []
        #: Names of threads where they are known. The text is untrusted, like all texts of events.
        self.threads: dict[int, str] = {}
        #: By fingerprint: the program's names of pipelines, and stage, hash of the code and name of their shaders.
        self.names: dict[int, str] = {}
        self.shaders: dict[int, list[tuple[int, int, str]]] = {}
        #: By swapchain: times, numbers and threads of its presents.
        self.presents: dict[int, tuple[array[int], array[int], array[int]]] = {}
        self._texts: dict[int, str] = {}

    def name_of(self, fingerprint: int) -> str:
        """Returns the program's name of a pipeline, or else the names of its shaders; empty if it gave none."""
        named = [name for _, _, name in self.shaders.get(fingerprint, ()) if name]
        return self.names.get(fingerprint) or " + ".join(named)

    def see(self, other: Timeline) -> None:
        """Takes in the events of another device of the process, which may have held up this one's frames."""
        self.beside += other.events
        self.threads = other.threads | self.threads
        self.names = other.names | self.names
        self.shaders = other.shaders | self.shaders

    def read(self, path: str, only_values: bool = False) -> None:
        """Reads what verifies in a file. Raises OSError."""
        data = read_small(path, MAX_FILE_BYTES + 1)
        header, outcome = format.read_file_header(data)
        if header is None or header.kind != format.RUN_FILE or len(data) > MAX_FILE_BYTES:
            self.outcome = outcome if header is None else "not-a-store-file"
            return
        self.header = header
        damage: list[format.Damage] = []
        found: list[Record] = []
        start = format.FILE_HEADER.size
        Scan(path, damage, header.salt).part(data[start:], len(data) - start, start, None, found)
        for record in found:
            at = start + record.start
            body = data[at : at + record.size]
            if record.magic == format.NOTE:
                self.take_note(body)
            elif record.magic == format.COUNTED:
                self.take_counted(body)
            elif record.magic == format.EVENTS and not only_values:
                self.take_events(body)
            elif record.magic == format.FRAMES and not only_values:
                self.take_frames(body)
        if damage:
            self.outcome = damage[0].outcome

    def take_note(self, data: bytes) -> None:
        """Adds the values of a note, and texts and thread names, which the events after it use."""
        try:
            if len(data) > MAX_NOTE_BYTES:
                raise ValueError("too long")
            values = flat.loads(data.decode("utf-8", "replace"))  # names are any bytes
        except ValueError:
            self.outcome = "impossible"
            return
        for key, into in (("texts", self._texts), ("threads", self.threads)):
            named = values.pop(key, None)
            for number, text in (named if isinstance(named, dict) else {}).items():
                if number.isdecimal() and len(into) < MAX_TEXTS:
                    into[int(number[:20])] = str(text)[:MAX_TEXT]
        merge(self.values, values)

    def take_counted(self, data: bytes) -> None:
        """Adds what the layer counted, and how the run ended. Of all else policy knows more, if it wrote notes."""
        try:
            values = counted(data, data.partition(b"\0")[0], summed=True)
        except ValueError:
            self.outcome = "impossible"
            return
        keys = ("counters", "kinds", "ended", "died")
        last: dict[str, Any] = {key: values.pop(key) for key in keys if key in values}
        merge(values, self.values)
        merge(values, last)
        self.values = values

    def take_frames(self, data: bytes) -> None:
        """Appends the presents in a record. Of a swapchain's, those that are not later than the last are impossible."""
        from array import array

        for time_ns, number, thread, swapchain in unpack_frames(data):
            if swapchain not in self.presents:
                if len(self.presents) >= MAX_SWAPCHAINS:
                    continue
                self.presents[swapchain] = array("Q"), array("I"), array("I")
            times, numbers, threads = self.presents[swapchain]
            if number >> 32 or time_ns >> 64 or (times and (time_ns < times[-1] or number <= numbers[-1])):
                continue
            times.append(time_ns)
            numbers.append(number)
            threads.append(thread)

    def take_events(self, data: bytes) -> None:
        """Appends the events in a record, except those that are impossible."""
        for fields in EVENT.iter_unpack(data[: len(data) - len(data) % EVENT.size]):
            start, duration, fingerprint, value, thread, number, stages, text, type, kind, outcome, *_ = fields
            if not 0 < type <= len(TYPES) or not TYPES[type - 1]:
                continue  # of another version
            word, name = "", self._texts.get(text, "")
            words = _WORDS.get(TYPES[type - 1])
            if words is not None:
                word = words[outcome] if outcome < len(words) else "unknown"
            if TYPES[type - 1] == "name":
                self.names[fingerprint] = name
                continue
            if TYPES[type - 1] == "shader":
                self.shaders.setdefault(fingerprint, []).append((stages, value, name))
                continue
            self.events.append(
                Event(TYPES[type - 1], start, duration, word, kind, thread, fingerprint, number, value, stages, name)
            )


def read(root: str, name: str) -> Timeline | None:
    """Returns the timeline of the run with this name; None if it has none."""
    line = Timeline()
    try:
        line.read(path_of(root, name))
    except OSError:
        return None
    return line if line.events or line.presents or line.outcome != "ok" else None


# ---- frames ------------------------------------------------------------------------------------------
#
# A frame of a swapchain lasts from one vkQueuePresentKHR to the next, and has the number of the present that ends it.
# The layer counts late frames by the same rule (shim/layer/frames/frames.h).

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


def pack_frames(presents: Iterable[Present]) -> bytes:
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


def unpack_frames(data: bytes) -> Iterator[tuple[int, int, int, int]]:
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
