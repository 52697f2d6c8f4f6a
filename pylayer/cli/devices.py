"""The Vulkan devices of this machine. A child process asks for them (``probe.py``), so that a crash or a hang ends only
the child and can be reported."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..common.identity import Identity
from ..values import DeviceFacts
from .environment import without_layer

#: Timeout of one probe. The slowest probe starts an interpreter and a driver with its compilers.
TIMEOUT_SECONDS = 60


class Outcome(NamedTuple):
    """What a probe reported before it ended, and why it ended early (empty text if it did not)."""

    found: dict[str, Any]
    failure: str


def _findings(output: bytes | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in (output or b"").split(b"\n"):
        try:
            found.update(json.loads(line))
        except ValueError:
            continue  # a line that a crash cut off
    return found


def probe(*arguments: str, environment: Mapping[str, str] | None = None) -> Outcome:
    """Runs one probe. The layer is kept out unless ``environment`` switches it on."""
    import subprocess

    command = [sys.executable, "-P", os.path.join(os.path.dirname(__file__), "probe.py"), *arguments]
    try:
        child = subprocess.run(
            command,
            env=without_layer(os.environ) if environment is None else environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return Outcome(_findings(error.stdout), f"did not end within {TIMEOUT_SECONDS} s")
    except OSError as error:
        return Outcome({}, f"{sys.executable} could not be started: {error.strerror or error}")
    found = _findings(child.stdout)
    if child.returncode == 0:
        return Outcome(found, "")
    if child.returncode < 0:
        names = {one.value: one.name for one in signal.Signals}
        return Outcome(found, f"crashed with {names.get(-child.returncode, f'signal {-child.returncode}')}")
    lines = [line for line in child.stderr.decode("utf-8", "replace").split("\n") if line.strip()]
    return Outcome(found, lines[-1].strip() if lines else f"ended with exit status {child.returncode}")


def present_facts() -> tuple[list[DeviceFacts], str]:
    """Returns all devices that this machine's drivers list, and why they are unknown (empty text if they are known)."""
    return listed(probe("devices"))


def listed(outcome: Outcome) -> tuple[list[DeviceFacts], str]:
    """Returns the devices that ``probe("devices")`` found, and why they are unknown (empty text if they are known)."""
    if outcome.failure:
        return [], f"the drivers could not list their devices: {outcome.failure}"
    found = [
        DeviceFacts(**facts | {"pipeline_cache_uuid": bytes.fromhex(facts["pipeline_cache_uuid"])})
        for facts in outcome.found.get("devices", [])
    ]
    return found, "" if found else "there is no Vulkan device"


def described(facts: DeviceFacts) -> str:
    """Returns a device and its driver for people."""
    return f"{facts.device_name}, {facts.driver_name} {facts.driver_info}".strip()


def device_row(facts: DeviceFacts) -> dict[str, str]:
    """Returns a device and its driver for --json."""
    return {"device": facts.device_name, "driver": facts.driver_name, "driver_info": facts.driver_info}


def is_of(identity: Identity, facts: DeviceFacts) -> bool:
    """Returns whether an identity belongs to a device with its current driver."""
    return identity.name == Identity.of(facts).name
