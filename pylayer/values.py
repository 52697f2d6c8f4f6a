"""Plain Python values of what crosses the boundary: messages from the layer and answers to it.

Every module but ``boundary`` works with these, so policy and store run and are tested without Vulkan.
Classes with ``__slots__`` rather than dataclasses: importing ``dataclasses`` costs 8 ms, more than the
interpreter's own start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CARRIER_OFF, CARRIER_CELLS, CARRIER_SNAPSHOT = 0, 1, 2
CARRIER_NAMES = ("off", "cells", "snapshot")

VERDICT_PASS, VERDICT_EMPTY, VERDICT_PASS_KEPT = 1, 2, 3

CELL_ADOPTED, CELL_AFTER_LOAD, CELL_EMPTY = 1, 2, 4

LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG = 1, 2, 3, 4

#: Names of PylayerPipelineKind, by number.
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
#: Kinds whose pipelines compile something themselves; the others may rightly leave a cell empty.
KINDS_THAT_COMPILE = (0, 1, 5)

COUNTER_NAMES = (
    "pipelines",
    "hits",
    "application_hits",
    "compiled",
    "adopted",
    "uncacheable",
    "plain",
    "plain_compiled",
    "passed",
    "compile_required",
    "failed",
    "caches_emptied",
    "absorbed",
    "events_dropped",
    "answers_late",
    "hit_ns",
    "compile_ns",
    "plain_ns",
    "load_wait_ns",
    "load_failed",
    "fingerprints_dropped",
)


class Record:
    """Base of the value classes: keyword construction, equality and a readable repr from ``__slots__``."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, **values: Any) -> None:
        for name in self.__slots__:
            setattr(self, name, values.pop(name))
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def as_dict(self) -> dict[str, Any]:
        """Names and values in the order of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.as_dict().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.as_dict().items())})"


class Program(Record):
    """What is known of the program: its own words in VkApplicationInfo, and the process."""

    __slots__ = ("api_version", "application", "application_version", "engine", "engine_version", "executable")
    api_version: int
    application: str
    application_version: int
    engine: str
    engine_version: int
    executable: str

    @property
    def name(self) -> str:
        """One name for people: the executable, and the application's own name where that says more."""
        if self.application and self.application.lower() not in self.executable.lower():
            return f"{self.executable} ({self.application})"
        return self.executable


class DeviceFacts(Record):
    """A physical device and what can be enabled on it."""

    __slots__ = (
        "api_version",
        "binary_data_compressed",
        "cache_control_requested",
        "cache_control_supported",
        "device_id",
        "device_name",
        "driver_id",
        "driver_info",
        "driver_name",
        "driver_version",
        "feedback_supported",
        "pipeline_cache_uuid",
        "vendor_id",
    )
    api_version: int
    binary_data_compressed: bool
    cache_control_requested: bool
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


class Plan(Record):
    """What the layer shall do for one device. Durations in nanoseconds, sizes in bytes.

    ``may_be_kept``: the same program, device and policy file always get this plan, so the next run need not wait
    for Python to make it. ``keep_cache_bytes``: what the program reads out of a cache comes with ``CacheRead`` up to
    this size, 0 never.
    """

    __slots__ = (
        "adopt",
        "answer_wait_ns",
        "carrier",
        "check_caches",
        "fallback_carrier",
        "flush_wait_ns",
        "keep_cache_bytes",
        "load_wait_ns",
        "may_be_kept",
        "plain_kinds",
        "queue_bytes",
        "seed_caches",
    )
    adopt: bool
    answer_wait_ns: int
    carrier: int
    check_caches: bool
    fallback_carrier: int
    flush_wait_ns: int
    keep_cache_bytes: int
    load_wait_ns: int
    may_be_kept: bool
    plain_kinds: int
    queue_bytes: int
    seed_caches: bool


class CacheData(Record):
    """Initial data that the program gave to vkCreatePipelineCache; ``header`` holds at most 32 bytes of it.

    ``digest`` is the XXH3-128 of all of it, zero where there is none; ``slot`` counts the device's caches from 0.
    ``history`` is what is known of it from earlier runs: ``attested``, ``stale``, ``altered`` or ``unknown``
    (docs/architecture.md, 'Application caches'). ``load_expected``: pipeline creations wait for a load more.
    """

    __slots__ = ("cache", "data_is_null", "data_size", "digest", "header", "history", "load_expected", "result", "slot")
    cache: int
    data_is_null: bool
    data_size: int
    digest: bytes
    header: bytes
    history: str
    load_expected: bool
    result: int
    slot: int


class CacheRead(Record):
    """What vkGetPipelineCacheData gave to the program. ``data`` is valid during the call only.

    It is None where a copy is here already, where the program's buffer was too small (``incomplete``), and where it
    is too large to be kept or to wait in the queue.
    """

    __slots__ = ("cache", "data", "digest", "incomplete", "size", "slot")
    cache: int
    data: memoryview | None
    digest: bytes
    incomplete: bool
    size: int
    slot: int


class Cell(Record):
    """What creating one pipeline added to an empty VkPipelineCache. ``data`` is valid during the call only.

    ``fingerprint`` tells pipelines apart, approximately and alike in all processes; 0 is unknown.
    """

    __slots__ = ("create_ns", "data", "fingerprint", "flags", "kind")
    create_ns: int
    data: memoryview
    fingerprint: int
    flags: int
    kind: int


class DeviceState(Record):
    """What came of a plan: the carrier in force, and the size of an empty VkPipelineCache's data in bytes.

    ``global_key`` is the driver's vkGetPipelineKeyKHR, empty where the program does not enable pipelineBinaries.
    """

    __slots__ = ("cache_control", "carrier", "empty_cache_bytes", "feedback", "global_key")
    cache_control: bool
    carrier: int
    empty_cache_bytes: int
    feedback: bool
    global_key: bytes
