"""``pylayer doctor``: checks whether the layer works here, and what it does for each device."""

from __future__ import annotations

import os
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from .environment import DISABLE, ENABLE
from .output import (
    EXIT_OK,
    EXIT_PROBLEM,
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
    from .examination import TriedDevice

STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red", "skipped": "dim"}


def _next_steps() -> str:
    """Returns what a user who has just installed pylayer should do next."""
    if DISABLE in os.environ:
        return f"Next: unset {DISABLE}"
    from . import installed

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
    from .examination import examine

    # Each check runs in a process of its own, which may take up to a minute.
    with progress("checking", None, as_json):
        found, devices = examine()
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
