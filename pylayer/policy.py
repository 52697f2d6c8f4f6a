"""Policy makes the decisions. Subclass ``Policy`` to make your own (``policy: my_module:MyPolicy``).

Every method runs on the one policy thread. During a request a thread of the program waits for the answer, until a
deadline. An exception in a request means 'do nothing': the program goes on as if the layer were not there.

A method gets copies of its arguments. If a call does not return, the program goes on without policy. A class that
fails three times in a row is replaced by ``Policy`` for the rest of the process.
"""

from __future__ import annotations

from .common.settings import DEFAULTS
from .values import (
    MODE_BINARIES,
    MODE_CELLS,
    MODE_NAMES,
    MODE_OBSERVE,
    MODE_OFF,
    MODES_THAT_KEEP,
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

#: VkDriverId of drivers whose VkPipelineCache keeps nothing (measured: always 32 bytes of data).
STUB_DRIVERS = {13: "Lavapipe"}

#: The first version of RADV whose vkMergePipelineCaches leaves its sources alone: Mesa 23.3. With 22.3.6 (Debian 12) a
#: program's cache was empty after its first run, because each cell goes into it and into the layer's.
RADV_COPIES = 23 << 22 | 3 << 12


def choose_mode(settings: dict[str, Any], facts: DeviceFacts) -> tuple[int, str]:
    """Returns the mode and the reason in words."""
    wanted = settings["mode"]
    if wanted == "off":
        return MODE_OFF, "switched off by the policy file"
    if wanted == "observe":
        return MODE_OBSERVE, "chosen by the policy file"
    if facts.internal_cache_disabled:
        return MODE_OFF, "the program disables internal caches"
    if not (facts.cache_control_supported or facts.cache_control_requested):
        return MODE_OFF, "the driver has no pipelineCreationCacheControl, so the layer cannot look pipelines up"
    missing = ""
    if wanted == "binaries":
        if facts.binaries_supported or facts.binaries_requested:
            return MODE_BINARIES, "chosen by the policy file"
        missing = "; binaries, which the policy file chose, need VK_KHR_pipeline_binary"
    if wanted != "cells" and facts.driver_id in STUB_DRIVERS:
        name = STUB_DRIVERS[facts.driver_id]
        return MODE_OFF, f"{name}'s VkPipelineCache is a stub that keeps nothing{missing}"
    return MODE_CELLS, f"the driver has pipelineCreationCacheControl{missing}"


class Policy:
    """The built-in policy, configured by the settings in force for a program and device.

    One object lives as long as the process. ``settings`` are those in force for the device that a method is about,
    as a mapping with the keys of config/default.yaml.
    """

    def plan_device(self, program: Program, facts: DeviceFacts, settings: dict[str, Any]) -> Plan:
        """Request: returns what the layer shall do for a device about to be created."""
        mode, _ = choose_mode(settings, facts)
        keeps = mode in MODES_THAT_KEEP
        return Plan(
            mode=mode,
            check_binaries=settings["application_caches"] not in ("pass", "report"),
            check_caches=settings["application_caches"] != "pass",
            merge_moves=facts.driver_id == 3 and facts.driver_version < RADV_COPIES,
            driver_cache_off=keeps and settings["driver_cache"] == "replace",
            may_be_kept=type(self) is Policy,
            record_state=keeps and settings["record_state"] and settings["store"] != "read-only",
            remember_caches=settings["application_caches"] in ("attest", "strict", "report"),
            report_caches=settings["application_caches"] == "report",
            strict_caches=settings["application_caches"] == "strict",
            tell_creations=settings["mode"] != "off",
        )

    def admit_cache(self, data: CacheData, facts: DeviceFacts, settings: dict[str, Any]) -> tuple[int, str]:
        """Request: returns whether initial data may reach the driver: VERDICT_PASS or VERDICT_EMPTY, and the outcome's
        name."""
        from .common.outcomes import judge  # imported here, because a program waits for the first plan

        outcome = judge(data, facts)
        if settings["application_caches"] == "report":
            return VERDICT_PASS, data.history if outcome == "accepted" else outcome
        if settings["application_caches"] in ("attest", "strict"):
            if data.history == "stale":
                return VERDICT_EMPTY, "stale"
            if outcome == "accepted":
                strict = settings["application_caches"] == "strict"
                refused = data.history != "attested" if strict else data.history == "altered"
                return VERDICT_EMPTY if refused else VERDICT_PASS, data.history
        return (VERDICT_PASS if outcome == "accepted" else VERDICT_EMPTY), outcome

    def keep_cell(self, cell: Cell, program: Program, settings: dict[str, Any]) -> bool:
        """Event: returns whether to store a cell."""
        return True

    def device_created(self, program: Program, facts: DeviceFacts, state: DeviceState) -> None:
        """Event: a device was created. ``state.mode`` is in force."""

    def device_destroyed(self, program: Program, facts: DeviceFacts, counters: dict[str, int]) -> None:
        """Event: a device is about to be destroyed, or the process ends. ``counters`` are the device's totals."""


__all__ = ["DEFAULTS", "MODE_NAMES", "Policy", "choose_mode"]
