"""What ``pylayer doctor`` finds out: its checks, and a program that it runs on each device under the layer."""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryDirectory

from ..common.paths import store_root
from ..report.recorded import Run
from ..values import CARRIER_NAMES, CARRIERS_THAT_KEEP, DeviceFacts
from . import checks
from .checks import OK, PROBLEM, SKIPPED, WARNING, Check, skipped, try_layer
from .children import Outcome, probe
from .containers import check_containers
from .devices import facts_of
from .output import Failure, plural

KEEPING = [CARRIER_NAMES[carrier] for carrier in CARRIERS_THAT_KEEP]
INSTALL_DRIVER = (
    "Install the Vulkan driver of your GPU, such as mesa-vulkan-drivers; VK_DRIVER_FILES chooses one of several."
)


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


def _judged(number: int, facts: DeviceFacts, runs: list[Run], failure: str) -> TriedDevice:
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
    elif last.numbers["loaded_records"] and not last.sums["compiled"]:
        device.status, device.tried = OK, "a program compiled a pipeline, and its second run found it in the store"
    else:
        device.status, device.tried = WARNING, "a program compiled a pipeline, and its second run did not find it"
        device.advice = "The driver gives nothing to store for it, or the policy file keeps it out of the store."
    return device


def _try_devices(present: Outcome) -> tuple[Check, list[TriedDevice]]:
    """Tries the layer on each device of ``probe("devices")``. Returns one check of the layer, a bad one if any device
    had one, and the devices."""
    layer, devices = None, []
    with TemporaryDirectory(prefix="pylayer-doctor-") as scratch:
        for number, facts in enumerate(facts_of(present.found)):
            try:
                found, runs, problem = try_layer(number, scratch)
            except Failure as failure:
                return Check("layer", PROBLEM, failure.message, "pylayer run starts programs without the layer."), []
            devices.append(_judged(number, facts, runs, problem))
            layer = found if layer is None or layer.status == OK else layer
    assert layer is not None  # there is at least one device
    return layer, devices


def _summary(present: Outcome, devices: list[TriedDevice]) -> Check:
    """Returns one check that sums up all devices."""
    if present.failure or not present.found["devices"]:
        found = f"the drivers could not list their devices: {present.failure}"
        return Check("devices", PROBLEM, found if present.failure else "there is no Vulkan device", INSTALL_DRIVER)
    count = plural(len(devices), "device")
    states = [device.status for device in devices]
    if OK not in states:
        status = PROBLEM if PROBLEM in states else WARNING
        return Check("devices", status, f"{count}; no pipelines are stored", "See the devices below.")
    return Check("devices", OK, f"{count}; pipelines of {states.count(OK)} are stored")


def examine() -> tuple[list[Check], list[TriedDevice]]:
    """Runs all checks. Returns them, and the devices."""
    store, present = checks.check_store(), probe("devices")
    loader = checks.check_loader(present)
    devices: list[TriedDevice] = []
    if loader.status == PROBLEM:
        layer = listed = skipped("layer", "the loader must work first")
        listed = skipped("devices", "the loader must work first")
    elif present.failure or not present.found["devices"]:
        layer, listed = skipped("layer", "a driver must work first"), _summary(present, devices)
    else:
        layer, devices = _try_devices(present)
        listed = skipped("devices", "the layer must start first")
        if layer.status != PROBLEM:
            listed = _summary(present, devices)
    others = [checks.check_installed(), *checks.check_environment(), *check_containers(store_root()), listed]
    blocks = checks.check_blocks(store_root() if store.status != PROBLEM else None)
    return [loader, layer, checks.check_policy(), store, *checks.check_system_store(), blocks, *others], devices


def examine_program(program: str | None) -> list[Check]:
    """Returns the checks of what limits the layer for a program. They start nothing on a device."""
    return [
        checks.check_policy(),
        checks.check_store(),
        checks.check_blocks(store_root(), program),
        checks.check_installed(),
    ]
