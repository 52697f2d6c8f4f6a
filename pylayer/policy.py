"""Policy: the decisions. Subclass ``Policy`` to make your own (``policy: my_module:MyPolicy``).

Every method runs on the one policy thread. A request (a method that returns something) has a program's
thread waiting; an exception in it means 'do nothing', and the program goes on as if the layer were not there.
"""

from __future__ import annotations

from .settings import DEFAULTS
from .values import (
    CARRIER_CELLS,
    CARRIER_NAMES,
    CARRIER_OFF,
    CARRIER_SNAPSHOT,
    VERDICT_EMPTY,
    VERDICT_PASS,
    CacheData,
    Cell,
    DeviceFacts,
    DeviceState,
    Plan,
    Program,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MS = 1_000_000

#: VkDriverId of drivers whose VkPipelineCache keeps nothing (measured: 32 bytes, whatever was compiled).
STUB_DRIVERS = {13: "Lavapipe"}


def choose_carrier(settings: dict[str, Any], facts: DeviceFacts) -> tuple[int, int, str]:
    """Carrier, the one to fall back to, and the reason in words."""
    wanted = settings["carrier"]
    if wanted == "off":
        return CARRIER_OFF, CARRIER_OFF, "switched off by the policy file"
    if wanted == "snapshot":
        return CARRIER_SNAPSHOT, CARRIER_SNAPSHOT, "chosen by the policy file"
    if wanted == "auto" and facts.driver_id in STUB_DRIVERS:
        name = STUB_DRIVERS[facts.driver_id]
        return CARRIER_OFF, CARRIER_OFF, f"{name}'s VkPipelineCache is a stub that keeps nothing"
    if facts.cache_control_supported or facts.cache_control_requested:
        return CARRIER_CELLS, CARRIER_SNAPSHOT, "the driver has pipelineCreationCacheControl"
    return CARRIER_SNAPSHOT, CARRIER_SNAPSHOT, "the driver has no pipelineCreationCacheControl"


class Policy:
    """What pylayer does by itself, configured by the settings that hold for a program and device.

    The instance lives as long as the process; ``settings`` are those of the device that a method is about,
    as a mapping with the keys of config/default.yaml.
    """

    def plan_device(self, program: Program, facts: DeviceFacts, settings: dict[str, Any]) -> Plan:
        """Request: what the layer shall do for a device about to be created."""
        carrier, fallback, _ = choose_carrier(settings, facts)
        return Plan(
            adopt=settings["adopt_driver_cache"],
            answer_wait_ns=int(settings["answer_wait_ms"] * MS),
            carrier=carrier,
            check_caches=settings["application_caches"] != "pass",
            fallback_carrier=fallback,
            keep_cache_bytes=int(settings["keep_cache_mib"]) << 20 if settings["application_caches"] == "attest" else 0,
            flush_wait_ns=int(settings["flush_wait_ms"] * MS),
            load_wait_ns=int(settings["load_wait_ms"] * MS),
            may_be_kept=type(self) is Policy,
            plain_kinds=0,
            queue_bytes=int(settings["queue_mib"]) << 20,
            seed_caches=settings["seed_application_caches"],
        )

    def admit_cache(self, data: CacheData, facts: DeviceFacts, settings: dict[str, Any]) -> tuple[int, str]:
        """Request: may this initial data reach the driver? The verdict, and the outcome's name."""
        from .cache_header import judge  # not before the first plan: a program waits for that

        outcome = judge(data, facts)
        if settings["application_caches"] == "attest":
            if data.history == "stale":
                return VERDICT_EMPTY, "stale"
            if outcome == "accepted":
                return (VERDICT_EMPTY if data.history == "altered" else VERDICT_PASS), data.history
        return (VERDICT_PASS if outcome == "accepted" else VERDICT_EMPTY), outcome

    def keep_cell(self, cell: Cell, program: Program, settings: dict[str, Any]) -> bool:
        """Event: whether to store a cell. Its data may only be looked at during the call."""
        return True

    def device_created(self, program: Program, facts: DeviceFacts, state: DeviceState) -> None:
        """Event: a device exists, with this carrier in force."""

    def device_destroyed(self, program: Program, facts: DeviceFacts, counters: dict[str, int]) -> None:
        """Event: a device is about to go, or the process is; these are its totals."""


__all__ = ["CARRIER_NAMES", "DEFAULTS", "Policy", "choose_carrier"]
