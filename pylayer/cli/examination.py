"""What ``pylayer doctor`` finds out: its checks, and a program that it runs on each device under the layer."""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .. import LAYER_NAME
from ..common.paths import store_root
from ..report import recorded
from ..values import MODE_NAMES, MODES_THAT_KEEP, DeviceFacts
from . import checks, layer_files
from .checks import OK, PROBLEM, SKIPPED, WARNING, Check
from .children import Outcome, probe
from .containers import check_containers
from .devices import facts_of
from .environment import DISABLE, loader_version, with_layer
from .output import Failure, plural

KEEPING = [MODE_NAMES[mode] for mode in MODES_THAT_KEEP]
#: The first loader version that reads VK_ADD_LAYER_PATH, through which ``pylayer run`` shows it the manifest.
ADD_LAYER_PATH_SINCE = (1, 3, 207)
#: A line of the log: level, time, sentence and process.
_LOG_LINE = re.compile(r"pylayer: (\w+): \S+Z (.*) pid=\d+")

#: A physical device, and the result of running a program with one pipeline on it twice under the layer.
Device = dict[str, Any]


# ---- the loader and the layer ------------------------------------------------------------------------------


def _check_loader(outcome: Outcome) -> Check:
    if "version" not in outcome.found:
        advice = (
            "No Vulkan program can start here. Install libvulkan1 (Debian, Ubuntu), vulkan-loader (Fedora) or "
            "vulkan-icd-loader (Arch)."
        )
        return Check("loader", PROBLEM, f"the Vulkan loader cannot be used: {outcome.failure}", advice)
    version = loader_version(outcome.found["version"])
    found = f"Vulkan {'.'.join(map(str, version))}, {outcome.found['library']}"
    if version >= ADD_LAYER_PATH_SINCE:
        return Check("loader", OK, found)
    least = ".".join(map(str, ADD_LAYER_PATH_SINCE))
    advice = f"pylayer run needs a loader of at least {least}; with this one use pylayer install and "
    return Check("loader", WARNING, found, f"{advice}VK_INSTANCE_LAYERS={LAYER_NAME}.")


def _broken() -> str:
    """Returns which part of the installation does not load, and why; empty text if all load."""
    path = layer_files.library_path()
    if not path.is_file():
        return f"{path} is missing"
    if layer_files.private_python() is None:
        return "the private copy of libpython is missing"
    for library in filter(None, (path, layer_files.policy_library())):
        outcome = probe("open", str(library))
        if outcome.failure:
            return f"{library} does not load: {outcome.failure}"
        if library == path and not outcome.found.get("negotiates"):
            return f"{path} loads, but it is not a Vulkan layer"
    return ""


def _not_started(layers: list[str], failure: str, complaints: list[str]) -> Check:
    """Explains why the layer did not start in the trial program."""
    found = f"the layer did not start: {complaints[0] if complaints else failure or 'the loader did not load it'}"
    advice = "Programs run without it."
    if broken := _broken():
        found = broken
        advice = (
            "The layer cannot be loaded; install vk-pylayer again, as it was built for this machine (docs/install.md)."
        )
    elif layers and LAYER_NAME not in layers:
        found = f"the loader does not list {LAYER_NAME} under pylayer run"
        advice = (
            "Something disables it: VK_LOADER_LAYERS_DISABLE, a loader settings file (vkconfig), or a loader older "
            "than 1.3.207. VK_LOADER_DEBUG=layer,error pylayer run -- vulkaninfo --summary shows what the loader does."
        )
    return Check("layer", PROBLEM, found, advice)


def _log_lines(path: Path) -> list[tuple[str, str]]:
    """Returns level and sentence of each line that the layer wrote."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    return [(found[1], found[2]) for line in lines if (found := _LOG_LINE.fullmatch(line))]


# ---- devices -----------------------------------------------------------------------------------------------


def _judged(device: Device, runs: list[recorded.Run], failure: str) -> None:
    """Judges a device by its runs. There are two runs if all went well. ``failure`` says how the program failed."""
    if failure:
        device |= {
            "status": PROBLEM,
            "tried": f"a program with one pipeline failed: {failure}",
            "advice": "Try it with DISABLE_PYLAYER=1. If it also fails without the layer, look for a newer driver.",
        }
    elif runs:
        last = runs[-1]
        device |= {"identity": last.identity, "mode": last.texts["mode"], "reason": last.texts["reason"]}
        device |= {"status": WARNING, "tried": "a program compiled a pipeline, and its second run did not find it"}
        if device["mode"] not in KEEPING:
            device["tried"] = "nothing is stored for this device"
        elif last.numbers["fetched"] and not last.sums["compiled"]:
            device |= {"status": OK}
            device["tried"] = "a program compiled a pipeline, and its second run found it in the store"
        else:
            device["advice"] = (
                "The driver gives nothing to store for it or does not find it again, or the policy file keeps it out "
                "of the store."
            )


def _try_device(number: int, facts: DeviceFacts, scratch: str) -> tuple[Check, Device]:
    """Runs a program with one pipeline on a device twice, in the environment that ``pylayer run`` makes. The program
    uses the user's policy file but a store in ``scratch``, so it leaves no statistics behind. Returns the check of the
    layer, and the device."""
    names = {"name": facts.device_name, "driver": facts.driver_name, "driver_info": facts.driver_info}
    device = {"number": number, "status": SKIPPED, **names}
    device |= dict.fromkeys(("identity", "mode", "reason", "tried", "advice"), "")
    log, store = Path(scratch, f"log-{number}"), str(Path(scratch, f"store-{number}"))
    changes = {
        "PYLAYER_LOG": "debug",
        "PYLAYER_LOG_FILE": str(log),
        "PYLAYER_STORE": store,
        "PYLAYER_SYSTEM_STORE": str(Path(scratch, "none")),
    }
    # Unset DISABLE, or the layer would not start. check_environment reports that variable.
    environment = with_layer({name: value for name, value in os.environ.items() if name != DISABLE} | changes)
    outcome = probe("start", str(number), str(log), environment=environment)
    if not outcome.failure:
        outcome = probe("start", str(number), str(log), environment=environment)
    lines = _log_lines(log)
    complaints = [text for level, text in lines if level in ("error", "warn") or "the layer does nothing" in text]
    runs = recorded.read(store)
    if not any(": mode " in text for _, text in lines):
        _judged(device, runs, "")
        return _not_started(outcome.found.get("layers", []), outcome.failure, complaints), device
    _judged(device, runs, outcome.failure)
    if complaints:
        said = "; ".join(dict.fromkeys(complaints))
        return Check("layer", WARNING, f"it starts, and says: {said}", "See the lines below."), device
    found = f"it starts in a program's process, with Python {layer_files.private_python_version()}"
    return Check("layer", OK, f"{found}: {layer_files.library_path()}"), device


def _try_devices(present: Outcome) -> tuple[list[Check], list[Device]]:
    """Tries the layer on each device of ``probe("devices")``. Returns the checks of the layer, a bad one if any device
    had one, and of the devices; and the devices."""
    if present.failure or not present.found["devices"]:
        found = f"the drivers could not list their devices: {present.failure}" if present.failure else ""
        advice = "Install the Vulkan driver of your GPU, such as mesa-vulkan-drivers; VK_DRIVER_FILES chooses one."
        nothing = Check("devices", PROBLEM, found or "there is no Vulkan device", advice)
        return [Check("layer", SKIPPED, "not checked: a driver must work first"), nothing], []
    with TemporaryDirectory(prefix="pylayer-doctor-") as scratch:
        try:
            tried = [_try_device(number, facts, scratch) for number, facts in enumerate(facts_of(present.found))]
        except Failure as failure:
            tried = [(Check("layer", PROBLEM, failure.message, "pylayer run starts programs without the layer."), {})]
    layer = next((check for check, _ in tried if check.status != OK), tried[0][0])
    devices = [device for _, device in tried if device]
    if layer.status == PROBLEM:
        return [layer, Check("devices", SKIPPED, "not checked: the layer must start first")], devices
    states, count = [device["status"] for device in devices], plural(len(devices), "device")
    if OK in states:
        return [layer, Check("devices", OK, f"{count}; pipelines of {states.count(OK)} are stored")], devices
    status, found = PROBLEM if PROBLEM in states else WARNING, f"{count}; no pipelines are stored"
    return [layer, Check("devices", status, found, "See the devices below.")], devices


def examine() -> tuple[list[Check], list[Device]]:
    """Runs all checks. Returns them, and the devices."""
    present = probe("devices")
    loader = _check_loader(present)
    tried: list[Check] = [
        Check(name, SKIPPED, "not checked: the loader must work first") for name in ("layer", "devices")
    ]
    devices: list[Device] = []
    if loader.status != PROBLEM:
        tried, devices = _try_devices(present)
    store = checks.check_store()
    blocks = checks.check_blocks(store_root() if store.status != PROBLEM else None)
    layer, listed = tried
    kept = [store, *checks.check_system_store(), blocks]
    if store.status != PROBLEM:
        kept += checks.check_recordings(store_root())
    others = [checks.check_policy(), *kept, checks.check_installed()]
    return [loader, layer, *others, *checks.check_environment(), *check_containers(store_root()), listed], devices


def examine_program(program: str | None) -> list[Check]:
    """Returns the checks of what limits the layer for a program. They start nothing on a device."""
    blocks = checks.check_blocks(store_root(), program)
    recordings = checks.check_recordings(store_root(), program)
    return [checks.check_policy(), checks.check_store(), blocks, *recordings, checks.check_installed()]
