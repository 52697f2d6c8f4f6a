"""The only module that uses the cffi object. It takes messages from the layer, and sends answers and commands to it.

Each function's docstring has the C signature it calls (shim/boundary.h). The only C memory that leaves this
module is ``data`` of Cell and Recorded, which is valid until the message is released.
"""

from __future__ import annotations

from .._policy import ffi, lib
from ..values import Activity, CacheData, Cell, Decision, DeviceFacts, DeviceState, Plan, Present, Program, Recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ..values import Value

    T = TypeVar("T", bound=Value)

PLAN_DEVICE = lib.PYLAYER_MSG_PLAN_DEVICE
DEVICE_CREATED = lib.PYLAYER_MSG_DEVICE_CREATED
ADMIT_CACHE = lib.PYLAYER_MSG_ADMIT_CACHE
CACHE_USED = lib.PYLAYER_MSG_CACHE_USED
CELL = lib.PYLAYER_MSG_CELL
STATE = lib.PYLAYER_MSG_STATE
ADMIT_BINARY = lib.PYLAYER_MSG_ADMIT_BINARY
STORE_DAMAGED = lib.PYLAYER_MSG_STORE_DAMAGED
FLUSH = lib.PYLAYER_MSG_FLUSH

COUNTER_NAMES = tuple([name for name, _ in ffi.typeof("PylayerCounters").fields if name not in Activity.__slots__])

_shim = lib.pylayer_shim()


def _text(array: Any) -> str:
    return ffi.string(array).decode("utf-8", "replace")  # type: ignore[no-any-return]


#: Converts a C field to a Python value, by the annotation of the value class's field.
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "bytes": lambda array: bytes(ffi.buffer(array)),
    "int": int,
    "list[int]": list,
    "str": _text,
}


def _plain(kind: type[T], c: Any, **given: Any) -> T:
    """Returns a value class's object, made from the C struct's fields of the same names. ``given`` has the fields that
    need another conversion."""
    fields = kind.__annotations__
    return kind(**given, **{name: _PLAIN[fields[name]](getattr(c, name)) for name in fields if name not in given})


class Message:
    """One message from the layer. Release it exactly once: its sender may be waiting."""

    __slots__ = ("_c", "device", "type")

    def __init__(self, c: Any) -> None:
        self._c = c
        self.type: int = c.type
        self.device: int = c.device

    def release(self) -> None:
        """void release(PylayerMessage *): frees the message. If it was not answered, wakes its sender."""
        _shim.release(self._c)

    def program(self, executable: str) -> Program:
        """Returns the program that PLAN_DEVICE describes."""
        c = self._c.info.instance
        return _plain(
            Program, c, application=_text(c.application_name), engine=_text(c.engine_name), executable=executable
        )

    @property
    def program_id(self) -> int:
        """PLAN_DEVICE: the program's number in the store."""
        return self._c.info.instance.program_id  # type: ignore[no-any-return]

    def device_facts(self) -> DeviceFacts:
        """Returns the physical device that PLAN_DEVICE describes."""
        return _plain(DeviceFacts, self._c.info)

    @property
    def skip_undecided(self) -> bool | None:
        """PLAN_DEVICE: None if the layer decided that no skip rule applies to the process. Otherwise policy
        must decide, and this says whether the built-in rules skip it."""
        return None if self._c.skip == lib.PYLAYER_SKIP_NO else bool(self._c.skip == lib.PYLAYER_SKIP_ASK_BUILT_IN)

    @property
    def sent_ns(self) -> int:
        """When the message was sent, on the clock of ``time.monotonic_ns``."""
        return self._c.time_ns  # type: ignore[no-any-return]

    @property
    def kept(self) -> bool:
        """PLAN_DEVICE: the layer found a decision, so nobody waits for an answer."""
        return bool(self._c.kept)

    @property
    def decision_key(self) -> bytes:
        """PLAN_DEVICE: the key of the decision to keep; zeros if none can be kept."""
        return bytes(ffi.buffer(self._c.decision_key))

    def damaged_file(self) -> str:
        """Returns the name of the file that STORE_DAMAGED is about."""
        return _text(self._c.file)

    def answer_plan(self, plan: Plan, record_now: bool) -> bool:
        """int32_t answer(PylayerMessage *): returns False if vkCreateDevice no longer waits for the plan.
        ``record_now``: this run records state."""
        # The whole plan is converted before it is assigned: if a value does not fit, no part of it takes effect.
        self._c.plan = ffi.new("PylayerPlan *", plan.as_dict())[0]
        self._c.record_now = record_now
        return bool(_shim.answer(self._c) == 0)

    def device_state(self) -> DeviceState:
        """Returns the outcome of a plan, from DEVICE_CREATED."""
        return _plain(DeviceState, self._c.created)

    def answer(self) -> None:
        """int32_t answer(PylayerMessage *): vkCreateDevice need not wait any longer."""
        _shim.answer(self._c)

    def cache_data(self) -> CacheData:
        """Returns what ADMIT_CACHE, CACHE_USED or ADMIT_BINARY says of data."""
        c = self._c.cache
        return _plain(
            CacheData,
            c,
            damage="",
            header=bytes(ffi.buffer(c.header, c.header_size)),
            history="unknown",
            sketch=bytes(self._data),
        )

    def answer_verdict(self, verdict: int) -> bool:
        """int32_t answer(PylayerMessage *): returns False if vkCreatePipelineCache no longer waits for the verdict."""
        self._c.verdict = verdict
        return bool(_shim.answer(self._c) == 0)

    @property
    def _data(self) -> memoryview:
        """A view of the memory that the message owns."""
        return memoryview(ffi.buffer(self._c.data, self._c.size)) if self._c.data else memoryview(b"")

    def cell(self) -> Cell:
        """Returns the cell of CELL. ``data`` is a view of the message's memory."""
        c = self._c.cell
        shaders = tuple(
            [(one.stage, one.code, _text(one.name)) for one in c.shaders if one.stage or one.name[0] != b"\0"]
        )
        return _plain(Cell, c, data=self._data, shaders=shaders)

    def recorded(self) -> Recorded:
        """Returns the object of STATE. ``data`` is a view of the message's memory."""
        return _plain(Recorded, self._c.state, data=self._data)


def next_message(timeout_ns: int) -> Message | None:
    """PylayerMessage *next(int64_t timeout_ns): returns None after the timeout. A negative one has no limit."""
    c = _shim.next(timeout_ns)
    return Message(c) if c else None


def is_open() -> bool:
    """_Bool is_open(void): returns False once no message can come any more."""
    return bool(_shim.is_open())


def _decision(decision: Decision) -> Any:
    values = decision.as_dict()
    reason = decision.reason.encode()[: lib.PYLAYER_REASON_BYTES - 1]
    about = decision.about.encode("utf-8", "replace")[: lib.PYLAYER_ABOUT_BYTES - 1].rpartition(b"\n")
    texts = {"reason": reason, "about": about[0] + about[1]}
    count = len(decision.blocked)
    return ffi.new("PylayerDecision *", {**values, **texts, "plan": decision.plan.as_dict(), "blocked_count": count})


def packed(decision: Decision) -> bytes:
    """Returns a PylayerDecision as it is kept, without the unused end of what is blocked."""
    c = _decision(decision)
    return bytes(ffi.buffer(c, ffi.offsetof("PylayerDecision", "blocked") + 8 * len(decision.blocked)))


def open_store(device: int, decision: Decision) -> DeviceState | None:
    """int32_t open_store(uint64_t, const PylayerDecision *, PylayerDeviceCreated *): the layer reads the device's
    folder and obeys the decision. Returns what is in force then; None if the store is open already or the device is
    gone."""
    out = ffi.new("PylayerDeviceCreated *")
    return _plain(DeviceState, out) if _shim.open_store(device, _decision(decision), out) == 0 else None


def switch_off(device: int) -> None:
    """int32_t switch_off(uint64_t device): from now on the device runs as if the layer were not there."""
    _shim.switch_off(device)


def counters(device: int) -> tuple[dict[str, int], Activity] | None:
    """int32_t counters(uint64_t, PylayerCounters *): returns None if the device is gone."""
    out = ffi.new("PylayerCounters *")
    if _shim.counters(device, out) != 0:
        return None
    return {name: getattr(out, name) for name in COUNTER_NAMES}, _plain(Activity, out)


def frames(device: int) -> tuple[list[Present], int]:
    """int64_t frames(uint64_t, PylayerFrame *out, uint64_t capacity, uint64_t *lost): returns the frames that were
    presented since the last call, and how many are lost."""
    out, lost, found = ffi.new("PylayerFrame[]", 256), ffi.new("uint64_t *"), []
    for _ in range(16):  # as many as the ring holds; more may be presented meanwhile
        count = _shim.frames(device, out, len(out), lost)
        found += [Present(c.time_ns, c.number, c.thread, c.swapchain) for c in out[0 : max(count, 0)]]
        if count < len(out):
            break
    return found, int(lost[0])


def fingerprints(device: int) -> bytes | None:
    """int64_t fingerprints(uint64_t, uint64_t *out, uint64_t capacity): returns the fingerprints of all pipelines that
    the device created, as an array of native uint64_t. None if the device is gone."""
    capacity = 0
    while True:  # pipelines may be created between two calls
        out = ffi.new("uint64_t[]", capacity)
        count = _shim.fingerprints(device, out, capacity)
        if count < 0:
            return None
        if count <= capacity:
            return bytes(ffi.buffer(out, count * 8))
        capacity = count + 64


def join_cells(device: int, cells: list[bytes]) -> bytes | None:
    """int64_t join_cells(uint64_t, const uint8_t *cells, const uint64_t *sizes, uint32_t cell_count, uint8_t *out,
    uint64_t capacity): returns the data of a VkPipelineCache into which the driver merged cells; None if it cannot be
    had, or the device is gone."""
    out = ffi.new("uint8_t[]", sum(map(len, cells)))
    joined, sizes = ffi.from_buffer("uint8_t[]", b"".join(cells)), ffi.new("uint64_t[]", [*map(len, cells)])
    size = _shim.join_cells(device, joined, sizes, len(cells), out, len(out))
    return bytes(ffi.buffer(out, size)) if size > 0 else None


def executable() -> str:
    """const char *executable(void): returns the program's name."""
    return _text(_shim.executable())


def log_wanted(level: int) -> bool:
    """_Bool log_wanted(enum PylayerLogLevel level): returns whether a line of this level would be written."""
    return bool(_shim.log_wanted(level))


def log(level: int, text: str) -> None:
    """void log(int32_t level, const char *text): writes a sentence."""
    if _shim.log_wanted(level):
        _shim.log(level, text.encode("utf-8", "replace"))
