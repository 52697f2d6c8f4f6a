"""Plain Python values of what crosses the boundary: messages from the layer and answers to it.

Only ``boundary`` knows C's values; all other modules use these, so policy and store run and are tested without Vulkan.
The classes have ``__slots__`` and are no dataclasses: importing ``dataclasses`` takes 8 ms, more than the interpreter's
own start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, dataclass_transform
else:  # importing typing takes longer than a program may wait

    def dataclass_transform() -> Any:  # noqa: D103
        return lambda cls: cls


# The constants and names up to UNRECORDED are in C, too: the build makes enumerations of them for shim/boundary.h.

#: How a device keeps new pipelines: docs/internals/architecture.md, 'Modes'. With binaries all is enabled that cells
#: need, for pipelines that cannot be binaries. With observe none are kept: calls go to the driver as the program made
#: them, and are counted.
MODE_OFF, MODE_CELLS, MODE_BINARIES, MODE_OBSERVE = 0, 1, 2, 3
MODE_NAMES = ("off", "cells", "binaries", "observe")
#: Modes that store pipelines and use stored ones.
MODES_THAT_KEEP = (MODE_CELLS, MODE_BINARIES)

#: No answer: the call stays as the program made it. The cache gets the initial data, or none.
VERDICT_NONE, VERDICT_PASS, VERDICT_EMPTY = 0, 1, 2

#: Flags of a Cell. The driver put nothing into it, or finds nothing in its data, so it has none. The program waits
#: until it is stored.
CELL_EMPTY, CELL_AWAITED = 1, 2

#: What a Cell holds: data of a VkPipelineCache, or all binaries of one pipeline.
UNIT_CELL, UNIT_BINARIES = 0, 1

#: The outcome of a creation that left something to store.
OUTCOME_KEPT = 0

#: Names of PylayerOutcome, by number. kept: the cell's unit and flags say more. The others, in their order, have no
#: data: compiled, and kept elsewhere or not at all; compiled, but the driver returned nothing that can be kept; created
#: without a probe, and no cache had it, or the driver does not report that; the layer did nothing, and with those right
#: before it took over PYLAYER_TOLD_NS; a hit that took over PYLAYER_SLOW_NS; the driver returned an error; no pipeline:
#: the program named the one with this fingerprint.
OUTCOME_NAMES = ("kept", "compiled", "uncacheable", "plain", "passed", "slow", "failed", "named")

LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG = 1, 2, 3, 4

#: Outcomes of initial data in which nothing wrong was found.
GOOD_OUTCOMES = ("accepted", "attested", "unknown")

#: Names of PylayerPipelineKind, by number: kinds that a driver may treat differently when it probes a VkPipelineCache.
#: They never decide what is correct. fast-linked: without LINK_TIME_OPTIMIZATION.
KIND_NAMES = (
    "compute",
    "graphics",
    "graphics library",
    "graphics, fast-linked",
    "graphics, optimized link",
    "ray tracing",
    "ray tracing library",
    "ray tracing, linked",
)
#: Why the layer has no object of something that the program created. In their order: a structure is unknown; what it
#: refers to has no object; a shader is known by its identifier alone; it is made of binaries, or to be captured and
#: replayed; the queue is full; memory is short, or it is too large.
UNRECORDED_NOT, UNRECORDED_STRUCTURE, UNRECORDED_HANDLE, UNRECORDED_IDENTIFIER = 0, 1, 2, 3
UNRECORDED_CAPTURE, UNRECORDED_QUEUE, UNRECORDED_MEMORY = 4, 5, 6
#: What people read of them, by number.
UNRECORDED = (
    "",
    "an unknown structure",
    "refers to what is not recorded",
    "a shader's identifier without its code",
    "from pipeline binaries, or for capture and replay",
    "the queue was full",
    "memory was short",
)
#: Of these, what another run may not meet.
UNRECORDED_ONCE = (UNRECORDED_QUEUE, UNRECORDED_MEMORY)
#: Kinds whose pipelines compile something themselves. Pipelines of other kinds may rightly leave a cell empty.
KINDS_THAT_COMPILE = (0, 1, 5)


@dataclass_transform()
class _Fields(type):
    """Makes a class's annotations its slots, so that each field is named once, and their values its defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _Fields:
        fields = tuple(name for name in body.get("__annotations__", ()) if not name.startswith("_"))
        if fields or not bases:  # a user's subclass without annotations keeps the slots of its base
            body["__slots__"] = fields
            body["_defaults"] = {name: body.pop(name) for name in fields if name in body}
        return super().__new__(cls, name, bases, body)


class Value(metaclass=_Fields):
    """Base of classes that hold values. Gives them a constructor, equality and a repr, from the annotated fields.
    The constructor raises KeyError for a missing field and TypeError for an unknown one."""

    if TYPE_CHECKING:
        __slots__: ClassVar[tuple[str, ...]]
        _defaults: ClassVar[dict[str, Any]]

    def __init__(self, *given: Any, **named: Any) -> None:
        for name, value in zip(self.__slots__, given, strict=False):
            setattr(self, name, value)
        for name in self.__slots__[len(given) :]:
            setattr(self, name, named.pop(name) if name in named else self._defaults[name])
        if named or len(given) > len(self.__slots__):
            raise TypeError(f"{type(self).__name__} has no {', '.join(named) or 'so many fields'}")

    def as_dict(self) -> dict[str, Any]:
        """Returns names and values, in the order of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.as_dict().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.as_dict().items())})"


class Program(Value):
    """The program: what it says in VkApplicationInfo, and its executable's name."""

    executable: str
    application: str = ""
    engine: str = ""
    api_version: int = 0
    application_version: int = 0
    engine_version: int = 0

    @property
    def name(self) -> str:
        """One name for people: the executable, and the application's own name if that says more."""
        if self.application.encode().lower() not in self.executable.encode().lower():  # A to Z, as strcasestr
            return f"{self.executable} ({self.application})"
        return self.executable


class DeviceFacts(Value):
    """A physical device and what can be enabled on it.

    ``internal_cache`` and ``internal_cache_control`` are the driver's values in
    VkPhysicalDevicePipelineBinaryPropertiesKHR. ``internal_cache_disabled``: the program wants no cache that it does
    not hold itself.
    """

    api_version: int
    binaries_supported: bool
    cache_control_supported: bool
    device_id: int
    device_name: str
    driver_id: int
    driver_info: str
    driver_name: str
    driver_version: int
    feedback_supported: bool
    pipeline_cache_uuid: bytes
    vendor_id: int
    # Commands do not ask for what no mode depends on, and only a program can supply the rest.
    binaries_requested: bool = False
    cache_control_requested: bool = False
    internal_cache: bool = False
    internal_cache_control: bool = False
    internal_cache_disabled: bool = False


class Plan(Value):
    """What the layer shall do for one device.

    ``mode``: without what binaries need, it is cells, without what cells need off. ``check_caches``: the layer asks
    about initial data (ADMIT_CACHE). ``strict_caches``: such data that gets no verdict in time becomes an empty cache.
    ``may_be_kept``: the same program, device and policy file always get this plan, so the next run need not wait
    for Python to make it. ``report_caches``: the outcome of ``admit_cache`` is logged and counted, and all initial data
    passes. ``remember_caches``: the layer records which data the program reads from its caches, or passes, and passes
    what is known by itself. ``driver_cache_off``: switch the driver's own cache off if the driver has
    pipelineBinaryInternalCacheControl. ``check_binaries``: vkCreatePipelineBinariesKHR fails for stale and for altered
    data. ``merge_moves``: the driver takes entries out of the sources of vkMergePipelineCaches, so the layer merges
    copies. ``tell_creations``: the layer also sends a Cell for pipelines that leave nothing to store. ``record_state``:
    it also sends what pipelines are made of, in runs that record.
    """

    mode: int
    check_binaries: bool
    check_caches: bool
    driver_cache_off: bool
    may_be_kept: bool
    # Older policy classes make plans without these.
    merge_moves: bool = False
    record_state: bool = False
    remember_caches: bool = False
    report_caches: bool = False
    strict_caches: bool = False
    tell_creations: bool = False


class Decision(Value):
    """Everything that earlier runs decided about a program on a device, for the layer (PylayerDecision)."""

    plan: Plan
    key: bytes
    header: bytes
    reads_all: bool
    reason: str
    about: str
    marker_outside: bool
    off_by: int
    undecided: bool
    calls_off: bytes
    blocked: list[int]
    block_files: int
    valid_from_s: int
    valid_s: int


class CacheData(Value):
    """Data that the program gave to vkCreatePipelineCache, of which ``header`` holds at most 32 bytes, or that it got
    from vkGetPipelineCacheData.

    ``digest`` is the XXH3-128 of the whole data, zero without data. ``slot`` counts the device's caches from 0.
    ``history`` is what is known of given data from earlier runs: ``attested``, ``stale``, ``altered`` or ``unknown``
    (docs/internals/architecture.md, 'Application caches'). ``damage`` describes the damage of altered data. ``sketch``
    (pylayer/store/sketch.py) is empty without data. ``result``: with what VkResult the driver failed on it, or 0.
    """

    damage: str
    data_is_null: bool
    data_size: int
    digest: bytes
    header: bytes
    history: str
    result: int
    sketch: bytes
    slot: int


class Recorded(Value):
    """What the program passed to create something, as an object (format.md, 'Recordings'). ``data`` is valid
    during the call only. ``fingerprint``: of a pipeline that the program created, which took ``wait_ns``; of a shader
    module, the digest of its identifier; otherwise 0.
    ``unrecorded``: why a pipeline has no object; ``structure`` is then the VkStructureType that is unknown, or 0."""

    data: memoryview
    fingerprint: int
    kind: int
    structure: int
    unrecorded: int
    wait_ns: int


class Cell(Value):
    """What creating one pipeline added to an empty VkPipelineCache, or the pipeline's binaries, depending on ``unit``
    (docs/internals/format.md). ``data`` is a view that is valid during the call only; a policy class gets ``bytes``.

    ``fingerprint`` tells pipelines apart, approximately and alike in all processes; 0 is unknown. The creation began at
    ``start_ns`` (CLOCK_MONOTONIC) on the kernel's ``thread`` and lasted ``create_ns``, which is the time of all its
    ``pipelines`` together. ``others`` has the fingerprints of the further pipelines of a deferred operation, if all are
    known and few. ``stages`` are VkShaderStageFlags, ``entry_point`` is the last stage's. ``outcome`` says
    what became of a creation that left nothing to store. ``shaders`` has stage, hash of the code, and the program's own
    name of each of the first stages; of the outcome ``named``, the pipeline's name.
    """

    create_ns: int
    data: bytes | memoryview
    entry_point: str
    fingerprint: int
    flags: int
    kind: int
    others: list[int]
    outcome: int
    pipelines: int
    shaders: tuple[tuple[int, int, str], ...]
    stages: int
    start_ns: int
    thread: int
    unit: int


class Activity(Value):
    """The present state of a device. ``kind_hits``: hits by pipeline kind. ``untold``: creations that policy was not
    told of."""

    kind_hits: list[int]
    untold: int


class DeviceState(Value):
    """The outcome of a plan. ``mode`` is the one in force.

    ``reads_store``: the layer has read the device's folder of the store, with ``stored_cells`` pipelines, and watches
    for crashes. ``used_recently``: a run said within a day which pipelines it used. ``off_by``: the type of the block
    by which the layer is off, or 0. ``records_state``: what the program creates is recorded. ``run_name``: of the run
    that the layer has begun to record; empty if it has not.
    """

    cache_control: bool
    mode: int
    feedback: bool
    off_by: int
    reads_store: bool
    records_state: bool
    run_name: str
    stored_cells: int
    used_recently: bool


class Present(Value):
    """One vkQueuePresentKHR of one swapchain. ``number`` counts from 1."""

    time_ns: int
    number: int
    thread: int
    swapchain: int
