"""``pylayer doctor``: checks whether the layer works here, and what it does for each device."""

from __future__ import annotations

import os
import textwrap
from dataclasses import asdict
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from ..common.paths import store_root
from . import checks, installed, layer_files
from .checks import OK, PROBLEM, WARNING, Check, skipped, try_layer
from .children import probe
from .containers import check_containers
from .devices import facts_of, judged
from .environment import DISABLE, ENABLE
from .output import (
    EXIT_OK,
    EXIT_PROBLEM,
    Failure,
    console,
    is_quiet,
    json_option,
    plural,
    print_facts,
    print_json,
    printable,
    progress,
)

if TYPE_CHECKING:
    from rich.console import Console

    from .checks import Check
    from .children import Outcome
    from .devices import TriedDevice

INSTALL_DRIVER = (
    "Install the Vulkan driver of your GPU, such as mesa-vulkan-drivers; VK_DRIVER_FILES chooses one of several."
)
STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red", "skipped": "dim"}


def _try_devices(present: Outcome, root: str | None) -> tuple[Check, list[TriedDevice]]:
    """Tries the layer on each device of ``probe("devices")``. Returns one check of the layer, a bad one if any device
    had one, and the devices."""
    layer, devices = None, []
    with TemporaryDirectory(prefix="pylayer-doctor-") as scratch:
        try:
            manifests = str(layer_files.run_directory(root or scratch))
        except Failure as failure:
            return Check("layer", PROBLEM, failure.message, "pylayer run starts programs without the layer."), []
        for number, facts in enumerate(facts_of(present.found)):
            found, runs, problem = try_layer(number, manifests, scratch)
            devices.append(judged(number, facts, runs, problem))
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
    if PROBLEM in states and OK not in states:
        return Check("devices", PROBLEM, f"{count}; no device could be used", "See the devices below.")
    if OK not in states:
        return Check("devices", WARNING, f"{count}; no pipelines are stored", "See the devices below.")
    which = "" if len(devices) == 1 else "of all " if set(states) == {OK} else f"of {states.count(OK)} of them "
    return Check("devices", OK, f"{count}; pipelines {which}are stored")


def _examine() -> tuple[list[Check], list[TriedDevice]]:
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
        # Try the layer even if the store cannot be written to.
        layer, devices = _try_devices(present, store_root() if store.status != PROBLEM else None)
        listed = skipped("devices", "the layer must start first")
        if layer.status != PROBLEM:
            listed = _summary(present, devices)
    others = [checks.check_installed(), *checks.check_environment(), *check_containers(store_root()), listed]
    verdicts = checks.check_verdicts(store_root() if store.status != PROBLEM else None)
    return [loader, layer, checks.check_policy(), store, *checks.check_system_store(), verdicts, *others], devices


def _next_steps() -> str:
    """Returns what a user who has just installed pylayer should do next."""
    if DISABLE in os.environ:
        return f"Next: unset {DISABLE}"
    kinds = {manifest.kind for manifest in installed.find()}
    if installed.IMPLICIT in kinds:
        return f"Next: {ENABLE}=1 APP, then pylayer stats"
    once = "" if kinds else " (or: pylayer install --implicit)"
    return f"Next: pylayer run -- APP{once}, then pylayer stats"


def _print_checks(out: Console, found: list[Check]) -> None:
    from rich.text import Text

    name_width = max(len(check.name) for check in found) + 2
    status_width = max(len(check.status) for check in found) + 2
    width = max(12, out.width - status_width - name_width)
    for check in found:
        text = f"{check.found}. {check.advice}" if check.advice else check.found
        lines = textwrap.wrap(printable(text), width, break_on_hyphens=False)
        out.print(
            Text(check.status.ljust(status_width), style=STYLES[check.status]).append(
                f"{check.name.ljust(name_width)}{lines[0]}", style="default"
            ),
            soft_wrap=True,
        )
        for line in lines[1:]:
            out.print(" " * (status_width + name_width) + line, soft_wrap=True)


def _print_device(out: Console, device: TriedDevice) -> None:
    from rich.text import Text

    title = Text(f"\nDevice {device.number}: ").append(printable(device.name), style="bold")
    out.print(title.append(f" ({device.status})", style=STYLES[device.status]))
    facts = (
        ("driver", ", ".join(text for text in (device.driver, device.driver_info) if text)),
        ("identity", device.identity),
        ("carrier", f"{device.carrier}: {device.reason}" if device.carrier else ""),
        ("tried", device.tried),
        ("advice", device.advice),
    )
    print_facts(out, [(name, text) for name, text in facts if text])


@click.command(
    epilog="Exit status: 0 the layer works here, 1 it cannot, 2 usage error.",
    short_help="Check whether the layer works here.",
)
@json_option
def doctor(as_json: bool) -> None:
    """Check whether the layer works here, and show what it does for each device.

    This runs a program with one pipeline twice on every device, under the layer and with a temporary store, and checks
    whether the second run finds what the first one compiled. Each run is a process of its own, so a driver that crashes
    becomes a line of the report. With warnings alone, the exit status is 0.

    \b
    Example:
      pylayer doctor
    """
    # Each check runs in a process of its own, which may take up to a minute.
    with progress("checking", None, as_json):
        found, devices = _examine()
    problems = sum(check.status == "problem" for check in found)
    if as_json:
        print_json(
            {
                "works": not problems,
                "checks": [asdict(check) for check in found],
                "devices": [asdict(device) for device in devices],
            }
        )
    else:
        out = console()
        _print_checks(out, found)
        for device in devices:
            _print_device(out, device)
        out.print()
        if problems:
            out.print(f"The layer cannot work here: {plural(problems, 'problem')} above.", style="bold red")
        elif any(device.status == "ok" for device in devices):
            out.print("The layer works here.", style="bold green")
            if not is_quiet():
                out.print(_next_steps())
        else:
            out.print("The layer starts here but has nothing to do: no device has pipelines to store.", style="yellow")
    raise click.exceptions.Exit(EXIT_PROBLEM if problems else EXIT_OK)
