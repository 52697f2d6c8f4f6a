"""The Vulkan devices of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..common.identity import Identity
from ..values import DeviceFacts
from .children import probe


def facts_of(found: dict[str, Any]) -> list[DeviceFacts]:
    """Returns the devices that ``probe("devices")`` found."""
    return [
        DeviceFacts(**facts | {"pipeline_cache_uuid": bytes.fromhex(facts["pipeline_cache_uuid"])})
        for facts in found.get("devices", [])
    ]


def present_facts(environment: Mapping[str, str] | None = None) -> tuple[list[DeviceFacts], str]:
    """Returns all devices that this machine's drivers list, and why they are unknown (empty text if they are known).
    ``environment``: another one than this process's, without the layer."""
    outcome = probe("devices", environment=environment)
    if outcome.failure:
        return [], f"the drivers could not list their devices: {outcome.failure}"
    found = facts_of(outcome.found)
    return found, "" if found else "there is no Vulkan device"


def described(facts: DeviceFacts) -> str:
    """Returns a device and its driver for people."""
    return f"{facts.device_name}, {facts.driver_name} {facts.driver_info}".strip()


def is_of(identity: Identity, facts: DeviceFacts) -> bool:
    """Returns whether an identity belongs to a device with its current driver."""
    return identity.name == Identity.of(facts).name
