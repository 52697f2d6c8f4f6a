"""The one module that touches the cffi object: messages in, answers and commands out.

Each function carries the C signature it calls (shim/boundary.h). Nothing that belongs to C leaves this
module except ``data`` of Cell, CacheRead and BinaryRead, which is valid until the message is released.
"""

from __future__ import annotations

import time

from .._policy import ffi, lib
from ..values import (
    COUNTER_NAMES,
    Activity,
    Attested,
    BinaryProperties,
    BinaryRead,
    CacheData,
    CacheRead,
    Cell,
    DeviceFacts,
    DeviceState,
    Plan,
    Program,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from ..values import Record

    T = TypeVar("T", bound=Record)

CREATE_INSTANCE = lib.PYLAYER_MSG_CREATE_INSTANCE
PLAN_DEVICE = lib.PYLAYER_MSG_PLAN_DEVICE
DEVICE_CREATED = lib.PYLAYER_MSG_DEVICE_CREATED
ADMIT_CACHE = lib.PYLAYER_MSG_ADMIT_CACHE
CACHE_REFUSED = lib.PYLAYER_MSG_CACHE_REFUSED
CELL = lib.PYLAYER_MSG_CELL
FLUSH_DEVICE = lib.PYLAYER_MSG_FLUSH_DEVICE
FLUSH_PROCESS = lib.PYLAYER_MSG_FLUSH_PROCESS
CACHE_EMPTY = lib.PYLAYER_MSG_CACHE_EMPTY
CACHE_READ = lib.PYLAYER_MSG_CACHE_READ
BINARY_READ = lib.PYLAYER_MSG_BINARY_READ
PROPERTIES = lib.PYLAYER_MSG_PROPERTIES

_shim = lib.pylayer_shim()


def _text(array: Any) -> str:
    return ffi.string(array).decode("utf-8", "replace")  # type: ignore[no-any-return]


#: Reads a C field as the annotation of a value class's field says.
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "bytes": lambda array: bytes(ffi.buffer(array)),
    "int": int,
    "list[int]": list,
    "str": _text,
}


def _plain(kind: type[T], c: Any, **given: Any) -> T:
    """A value class's object from the fields of the same names in a C struct; ``given``: those that differ."""
    fields = kind.__annotations__
    return kind(**given, **{name: _PLAIN[fields[name]](getattr(c, name)) for name in fields if name not in given})


class Message:
    """One message from the layer. Release it exactly once; its sender may be waiting."""

    __slots__ = ("_c", "device", "type")

    def __init__(self, c: Any) -> None:
        self._c = c
        self.type: int = c.type
        self.device: int = c.device

    def release(self) -> None:
        """void release(PylayerMessage *): wakes the sender if it was not answered, and frees the message."""
        _shim.release(self._c)

    def program(self, executable: str) -> Program:
        """The program behind CREATE_INSTANCE, PLAN_DEVICE or PROPERTIES."""
        c = self._c.instance if self.type == CREATE_INSTANCE else self._c.info.instance
        return _plain(
            Program, c, application=_text(c.application_name), engine=_text(c.engine_name), executable=executable
        )

    def device_facts(self) -> DeviceFacts:
        """The device of PLAN_DEVICE or PROPERTIES."""
        return _plain(DeviceFacts, self._c.info)

    @property
    def skip_undecided(self) -> bool | None:
        """PLAN_DEVICE, PROPERTIES: None where the layer decided that the process is not left alone; else policy has to
        decide, and this is what the built-in rules say."""
        return None if self._c.skip == lib.PYLAYER_SKIP_NO else bool(self._c.skip == lib.PYLAYER_SKIP_ASK_BUILT_IN)

    @property
    def layer_settings(self) -> str:
        """PLAN_DEVICE, PROPERTIES: as pylayer.common.layer_settings.parse reads it; empty where there is none."""
        c = self._c.layer_settings
        return ffi.string(c).decode("utf-8", "replace") if c else ""

    @property
    def sent_ns(self) -> int:
        """When it was sent, on the clock of ``time.monotonic_ns``."""
        return self._c.time_ns  # type: ignore[no-any-return]

    @property
    def kept(self) -> bool:
        """PLAN_DEVICE: the layer found a plan that was kept; nobody waits for another."""
        return bool(self._c.kept)

    def plan_to_keep(self, for_all_programs: bool) -> tuple[str, bytes] | None:
        """PLAN_DEVICE, answered: file name and plan; None where it cannot be kept."""
        c = self._c
        name = _text(c.general_plan_name if for_all_programs else c.plan_name)
        return (name, bytes(ffi.buffer(ffi.addressof(c.plan)))) if name else None

    def answer_plan(self, plan: Plan) -> bool:
        """int32_t answer(PylayerMessage *): False when vkCreateDevice has gone on without."""
        # Whole or not at all: a plan with a value that does not fit must not be half in force.
        self._c.plan = ffi.new("PylayerPlan *", plan.as_dict())[0]
        return bool(_shim.answer(self._c) == 0)

    def answer_properties(self, properties: BinaryProperties) -> bool:
        """int32_t answer(PylayerMessage *): False when the program has the driver's own properties already."""
        self._c.properties = ffi.new("PylayerProperties *", properties.as_dict())[0]
        return bool(_shim.answer(self._c) == 0)

    def device_state(self) -> DeviceState:
        """The outcome in DEVICE_CREATED."""
        c = self._c.created
        return _plain(DeviceState, c, global_key=bytes(ffi.buffer(c.global_key, c.global_key_size)))

    def cache_data(self) -> CacheData:
        """The initial data of ADMIT_CACHE or CACHE_REFUSED; of CACHE_EMPTY, that there is none."""
        c = self._c.cache
        return _plain(
            CacheData,
            c,
            damage="",
            header=bytes(ffi.buffer(c.header, c.header_size)),
            history="unknown",
            sketch=bytes(ffi.buffer(c.sketch, c.sketch_size)) if c.sketch else b"",
        )

    def cache_read(self) -> CacheRead:
        """What the program read in CACHE_READ; ``data`` is a view of the message's own memory."""
        c = self._c.read
        return _plain(
            CacheRead,
            c,
            data=memoryview(ffi.buffer(c.data, c.size)) if c.data else None,
            sketch=bytes(ffi.buffer(c.sketch, c.sketch_size)) if c.sketch else b"",
        )

    def answer_verdict(self, verdict: int) -> bool:
        """int32_t answer(PylayerMessage *): False when vkCreatePipelineCache has gone on without."""
        self._c.verdict = verdict
        return bool(_shim.answer(self._c) == 0)

    def cell(self) -> Cell:
        """The cell of CELL; ``data`` is a view of the message's own memory."""
        c = self._c.cell
        data = memoryview(ffi.buffer(c.data, c.size)) if c.size else memoryview(b"")
        return _plain(Cell, c, data=data)

    def binary_read(self) -> BinaryRead:
        """The binary of BINARY_READ; ``data`` is a view of the message's own memory."""
        c = self._c.binary
        return _plain(
            BinaryRead,
            c,
            data=memoryview(ffi.buffer(c.data, c.size)) if c.data else None,
            key=bytes(ffi.buffer(c.key, c.key_size)),
        )


def next_message(timeout_ns: int) -> Message | None:
    """PylayerMessage *next(int64_t timeout_ns)"""
    c = _shim.next(timeout_ns)
    return Message(c) if c else None


def is_open() -> bool:
    """int32_t is_open(void)"""
    return bool(_shim.is_open())


#: What load_records published, by device: the layer reads it until the next publication.
_published: dict[int, tuple[Any, ...]] = {}


def load_records(
    device: int, data: bytes | bytearray, offsets: Sequence[int], sizes: Sequence[int], digests: Sequence[bytes]
) -> bool:
    """int64_t load_records(uint64_t, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
    const uint8_t *digests, uint64_t count): finishes the records published before and publishes these. ``data`` must
    not change until the next call or ``load_done``. False when the device is gone."""
    arguments = (
        ffi.from_buffer("uint8_t[]", data),
        ffi.new("uint64_t[]", offsets),
        ffi.new("uint64_t[]", sizes),
        ffi.from_buffer("uint8_t[]", b"".join(digests)),
    )
    done = _shim.load_records(device, *arguments, len(offsets))
    _published[device] = arguments
    return bool(done == 0)


def load_done(device: int) -> int:
    """int64_t load_done(uint64_t device): how many records the driver took since the last ``load_done``, -1 when the
    device is gone. Another load may follow."""
    taken = int(_shim.load_done(device))
    _published.pop(device, None)
    return taken


def load_binaries(device: int, data: bytes | bytearray, offsets: Sequence[int], sizes: Sequence[int]) -> int:
    """int64_t load_binaries(uint64_t, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
    uint64_t count): copies binaries records into the device's index; how many found room, -1 when the device is gone.
    Before ``load_done``."""
    return int(
        _shim.load_binaries(
            device,
            ffi.from_buffer("uint8_t[]", data),
            ffi.new("uint64_t[]", offsets),
            ffi.new("uint64_t[]", sizes),
            len(offsets),
        )
    )


def load_attested(device: int, attested: Sequence[Attested]) -> int:
    """int64_t load_attested(uint64_t, const PylayerAttested *, uint64_t count): copies what the program read in earlier
    runs; how many it took, -1 when the device is gone. Before ``load_done``."""
    array = ffi.new("PylayerAttested[]", len(attested))
    views = []
    for c, one in zip(array, attested, strict=True):
        c.key_size = len(one.key)
        ffi.memmove(c.key, one.key, len(one.key))
        ffi.memmove(c.digest, one.digest, len(one.digest))
        c.stale = one.stale
        c.size = one.size
        if one.data is not None:
            views.append(ffi.from_buffer("uint8_t[]", one.data))
            c.data = views[-1]
    return int(_shim.load_attested(device, array, len(attested)))


def load_begin(device: int) -> None:
    """int32_t load_begin(uint64_t device): pipeline creations that miss wait for one ``load_done`` more."""
    _shim.load_begin(device)


def load_cancel(device: int) -> None:
    """int32_t load_cancel(uint64_t device): a load that was expected does not come."""
    _shim.load_cancel(device)


def restorable(device: int, slots: int) -> None:
    """int32_t restorable(uint64_t device, uint64_t slots): a bit for each of the program's caches, by the order of
    their creation, for which the layer expects a load where it is created empty; before this, for each."""
    _shim.restorable(device, slots)


def watch(device: int, descriptor: int) -> int:
    """int32_t watch(uint64_t device, int32_t fd): maps the crash sentinel; 0, or -2 where the file system is unfit."""
    return int(_shim.watch(device, descriptor))


def suspect(device: int, fingerprints: Sequence[int], kinds: int) -> bool:
    """int32_t suspect(uint64_t, const uint64_t *fingerprints, uint64_t count, uint32_t kinds): pipelines with these
    fingerprints, in ascending order, are created without anything stored."""
    return bool(_shim.suspect(device, ffi.new("uint64_t[]", fingerprints), len(fingerprints), kinds) == 0)


def make_plain(device: int, kind: int) -> None:
    """int32_t make_plain(uint64_t device, int32_t kind)"""
    _shim.make_plain(device, kind)


def stop_adopting(device: int, kind: int) -> None:
    """int32_t stop_adopting(uint64_t device, int32_t kind)"""
    _shim.stop_adopting(device, kind)


def switch_off(device: int) -> None:
    """int32_t switch_off(uint64_t device)"""
    _shim.switch_off(device)


def read_merged(device: int) -> bytes | None:
    """int64_t read_merged(uint64_t, uint8_t *data, uint64_t size): all data of the layer's cache, None where
    the driver does not give it."""
    for _ in range(4):  # the cache may grow between the two calls
        size = _shim.read_merged(device, ffi.NULL, 0)
        if size <= 0:
            return None
        data = bytearray(size)
        written = _shim.read_merged(device, ffi.from_buffer("uint8_t[]", data), size)
        if written > 0:
            return bytes(memoryview(data)[:written])
    return None


def counters(device: int) -> dict[str, int] | None:
    """int32_t counters(uint64_t, PylayerCounters *): None when the device is gone."""
    out = ffi.new("PylayerCounters *")
    if _shim.counters(device, out) != 0:
        return None
    return {name: getattr(out, name) for name in COUNTER_NAMES}


def activity(device: int) -> Activity | None:
    """int32_t activity(uint64_t, PylayerActivity *): None when the device is gone."""
    out = ffi.new("PylayerActivity *")
    if _shim.activity(device, out) != 0:
        return None
    return _plain(Activity, out)


def fingerprints(device: int) -> bytes | None:
    """int64_t fingerprints(uint64_t, uint64_t *out, uint64_t capacity): those of all pipelines that the device
    created, as an array of native uint64_t; None when the device is gone."""
    capacity = 0
    while True:  # there may be more of them at the second call
        out = ffi.new("uint64_t[]", capacity)
        count = _shim.fingerprints(device, out, capacity)
        if count < 0:
            return None
        if count <= capacity:
            return bytes(ffi.buffer(out, count * 8))
        capacity = count + 64


def executable() -> str:
    """const char *executable(void): what program this is, valid UTF-8 whatever its file is called."""
    name = _shim.executable()
    return ffi.string(name).decode("utf-8", "replace") if name else "unknown"


def environment(name: str, default: str = "") -> str:
    """const char *environment(const char *): a variable of the program's environment."""
    value = _shim.environment(name.encode())
    return ffi.string(value).decode("utf-8", "surrogateescape") if value else default


def log_wanted(level: int) -> bool:
    """int32_t log_wanted(int32_t level)"""
    return bool(_shim.log_wanted(level))


def log(level: int, text: str, **fields: str | int) -> None:
    """void log(int32_t level, const char *text): a sentence, and what is in it once more as key=value."""
    if _shim.log_wanted(level):
        _shim.log(level, (text + "".join(map(_field, fields.items()))).encode("utf-8", "replace"))


def _field(pair: tuple[str, str | int]) -> str:
    key, value = pair
    text = str(value)
    if isinstance(value, int) or (text and not any(character in text for character in ' "=\\')):
        return f" {key}={text}"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f' {key}="{escaped}"'


_call_names: dict[str, Any] = {}


def call_begins(name: str, limit_ns: int) -> None:
    """The policy thread goes into code of the user's: after ``limit_ns`` PolicyTimeout is raised in it
    (shim/policy/watchdog.c). void pylayer_watch(void)"""
    if name not in _call_names:
        _call_names[name] = ffi.new("char[]", name.encode())
    other_limit = lib.pylayer_call_limit_ns != limit_ns  # it may sleep for longer than this one
    lib.pylayer_call_name = _call_names[name]
    lib.pylayer_call_limit_ns = limit_ns
    lib.pylayer_call_began_ns = time.monotonic_ns()
    if other_limit or not lib.pylayer_watching:
        lib.pylayer_watch()


def call_ended() -> None:
    """It came out. An exception that was raised for it comes no later than in here, before the call is over."""
    lib.pylayer_call_began_ns = 0
