"""The Vulkan devices of this machine, and what the layer does for each. ``pylayer doctor`` tries each one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..common.identity import Identity
from ..report.recorded import Run
from ..values import CARRIER_NAMES, CARRIERS_THAT_KEEP, DeviceFacts
from .checks import OK, PROBLEM, SKIPPED, WARNING
from .children import probe

KEEPING = [CARRIER_NAMES[carrier] for carrier in CARRIERS_THAT_KEEP]


def facts_of(found: dict[str, Any]) -> list[DeviceFacts]:
    """Returns the devices that ``probe("devices")`` found."""
    return [
        DeviceFacts(**facts | {"pipeline_cache_uuid": bytes.fromhex(facts["pipeline_cache_uuid"])})
        for facts in found.get("devices", [])
    ]


def present_facts() -> tuple[list[DeviceFacts], str]:
    """Returns all devices that this machine's drivers list, and why they are unknown (empty text if they are known)."""
    outcome = probe("devices")
    if outcome.failure:
        return [], f"the drivers could not list their devices: {outcome.failure}"
    found = facts_of(outcome.found)
    return found, "" if found else "there is no Vulkan device"


def is_of(identity: Identity, facts: DeviceFacts) -> bool:
    """Returns whether an identity belongs to a device with its current driver, whatever a program enabled on it."""
    fields = {key: value for key, value in identity.fields.items() if key != "global_key"}
    return fields == Identity.of(facts).fields


@dataclass
class TriedDevice:
    """One physical device, and the result of running a program with one pipeline on it twice under the layer."""

    number: int
    status: str
    name: str
    driver: str
    driver_info: str
    identity: str = ""
    carrier: str = ""
    reason: str = ""
    tried: str = ""
    advice: str = ""


def judged(number: int, facts: DeviceFacts, runs: list[Run], failure: str) -> TriedDevice:
    """Judges a device by its runs. There are two runs if all went well. ``failure`` says how the program failed."""
    device = TriedDevice(number, SKIPPED, facts.device_name, facts.driver_name, facts.driver_info)
    if failure:
        device.status, device.tried = PROBLEM, f"a program with one pipeline failed: {failure}"
        device.advice = "Try it with DISABLE_PYLAYER=1. If it also fails without the layer, look for a newer driver."
        return device
    if not runs:
        return device
    last = runs[-1]
    device.identity, device.carrier, device.reason = last.identity, last.texts["carrier"], last.texts["reason"]
    if device.carrier not in KEEPING:
        device.status, device.tried = WARNING, "nothing is stored for this device"
    elif last.numbers["loaded_records"] and not last.compiled:
        device.status, device.tried = OK, "a program compiled a pipeline, and its second run found it in the store"
    else:
        device.status, device.tried = WARNING, "a program compiled a pipeline, and its second run did not find it"
        device.advice = "The driver gives nothing to store for it, or the policy file keeps it out of the store."
    return device
