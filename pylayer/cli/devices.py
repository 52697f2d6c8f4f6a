"""The Vulkan devices for ``pylayer doctor``: what policy does for each and why, and what its driver really keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..identity import Identity
from ..policy import choose_carrier
from ..settings import settings_for
from ..values import CARRIER_NAMES, CARRIERS_THAT_KEEP, DeviceFacts, Program
from .checks import OK, PROBLEM, WARNING, Check
from .children import probe
from .output import plural

#: Conditions of a rule that doctor, which looks at no program in particular, cannot judge.
PROGRAM_CONDITIONS = {"executable", "application", "engine"}
INSTALL_DRIVER = (
    "Install the Vulkan driver of your GPU, such as mesa-vulkan-drivers; VK_DRIVER_FILES chooses one of several."
)


@dataclass
class Device:
    """One physical device. Sizes are None where the driver could not be asked."""

    number: int
    status: str = OK
    name: str = ""
    driver: str = ""
    driver_info: str = ""
    identity: str = ""
    carrier: str = ""
    carriers: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    measured: str = ""
    advice: str = ""
    empty_cache_bytes: int | None = None
    filled_cache_bytes: int | None = None


def _choose(device: Device, facts: DeviceFacts, document: dict[str, Any]) -> None:
    """Identity and carrier, as policy gets them from the same facts."""
    device.name, device.driver, device.driver_info = facts.device_name, facts.driver_name, facts.driver_info
    device.identity = Identity.of(facts).name
    anybody = Program(api_version=0, application="", application_version=0, engine="", engine_version=0, executable="")
    carrier, _, device.reason = choose_carrier(settings_for(document, anybody, facts), facts)
    device.carrier = CARRIER_NAMES[carrier]
    if any(PROGRAM_CONDITIONS & set(rule["match"]) for rule in document.get("rules") or []):
        device.reason += "; rules for single programs may choose otherwise"
    device.carriers = {
        "cells": "possible" if facts.cache_control_supported else "needs pipelineCreationCacheControl",
        "snapshot": "possible",
        "binaries": "possible" if facts.binaries_supported else "needs VK_KHR_pipeline_binary",
    }


def _measure(device: Device, found: dict[str, Any]) -> None:
    """Whether an empty VkPipelineCache held more after a pipeline was compiled into it."""
    empty, filled = found["empty_cache_bytes"], found["filled_cache_bytes"]
    device.empty_cache_bytes, device.filled_cache_bytes = empty, filled
    if not found["keeps_pipelines"]:
        device.measured = f"the driver's VkPipelineCache keeps nothing: {empty} bytes before and after a compilation"
        device.carriers |= dict.fromkeys(("cells", "snapshot"), "the driver's VkPipelineCache keeps nothing")
        device.advice = "Nothing can be stored for this device; the layer stays out of the way."
        device.status = WARNING
        return
    device.measured = f"the driver's VkPipelineCache keeps pipelines: {empty} bytes empty, {filled} with one"
    if "stub" in device.reason:
        device.advice = "This driver keeps more than it is known for; carrier: cells in the policy file uses that."
        device.status = WARNING


def present_facts() -> tuple[list[DeviceFacts], str]:
    """All devices that this machine's drivers list, and why they are not known; else empty text."""
    outcome = probe("facts")
    if outcome.failure:
        return [], f"the drivers cannot be asked for devices: {outcome.failure}"
    found = outcome.found.get("all_facts") or []
    for facts in found:
        facts["pipeline_cache_uuid"] = bytes.fromhex(facts["pipeline_cache_uuid"])
    return [DeviceFacts(**facts) for facts in found], "" if found else "there is no Vulkan device"


def is_of(identity: Identity, facts: DeviceFacts) -> bool:
    """Whether an identity is a device's with its driver of now, whatever a program enabled on it."""
    fields = {key: value for key, value in identity.fields.items() if key != "global_key"}
    return fields == Identity.of(facts).fields


def examine(number: int, document: dict[str, Any]) -> Device:
    """One device, asked in a child process without the layer."""
    device = Device(number, name=f"device {number}")
    outcome = probe("device", str(number))
    if "facts" in outcome.found:
        facts = outcome.found["facts"]
        facts["pipeline_cache_uuid"] = bytes.fromhex(facts["pipeline_cache_uuid"])
        _choose(device, DeviceFacts(**facts), document)
    if "keeps_pipelines" in outcome.found:
        _measure(device, outcome.found)
    if outcome.failure:
        device.status = PROBLEM
        device.measured = f"the driver failed, without the layer: {outcome.failure}"
        device.advice = "Programs that use this device will have trouble; look for a newer driver."
    return device


def find_devices(document: dict[str, Any]) -> tuple[Check, list[Device]]:
    """All devices, and whether there is one that the layer can work on."""
    outcome = probe("devices")
    if outcome.failure:
        found = f"the drivers cannot be asked for devices: {outcome.failure}"
        return Check("devices", PROBLEM, found, INSTALL_DRIVER), []
    devices = [examine(number, document) for number in range(outcome.found["count"])]
    if not devices:
        found = "there is no Vulkan device"
        return Check("devices", PROBLEM, found, INSTALL_DRIVER), []
    if all(device.status == PROBLEM for device in devices):
        return Check("devices", PROBLEM, "no device could be used", "See the devices below."), devices
    keeping = [CARRIER_NAMES[carrier] for carrier in CARRIERS_THAT_KEEP]
    useful = [device for device in devices if device.status == OK and device.carrier in keeping]
    if not useful:
        found = f"{plural(len(devices), 'device')}, and nothing of what programs compile there is stored"
        return Check("devices", WARNING, found, "See the devices below."), devices
    found = f"{plural(len(devices), 'device')}; pipelines of {len(useful)} are stored"
    if len(useful) == len(devices):
        found = f"{plural(len(devices), 'device')}, and {'its' if len(devices) == 1 else 'their'} pipelines are stored"
    return Check("devices", OK, found), devices
