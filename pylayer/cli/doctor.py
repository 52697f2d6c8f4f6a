"""``pylayer doctor``: does the layer work here, and what does it do for each device?"""

from __future__ import annotations

import os
from dataclasses import asdict
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from ..paths import store_root
from .environment import DISABLE, ENABLE
from .output import EXIT_OK, EXIT_PROBLEM, HELP, console, json_option, print_json, progress

if TYPE_CHECKING:
    from rich.console import Console

    from .checks import Check
    from .devices import Device

STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red", "skipped": "dim"}


def _examine() -> tuple[list[Check], list[Device]]:
    """All checks in the order of what needs what."""
    from . import checks
    from .checks import OK, PROBLEM, skipped
    from .containers import check_containers
    from .devices import find_devices

    store = checks.check_store()
    loader = checks.check_loader()
    library, interpreter = checks.check_library(), checks.check_interpreter()
    policy, document = checks.check_policy()
    devices: list[Device] = []
    listed = skipped("devices", "the loader must work first")
    if loader.status != PROBLEM:
        listed, devices = find_devices(document)
    broken = [check.name for check in (loader, library, interpreter) if check.status == PROBLEM]
    # Where the store cannot be written the rest is looked at all the same.
    with TemporaryDirectory(prefix="pylayer-doctor-") as scratch:
        root = (store_root() if store.status != PROBLEM else None) or scratch
        manifest = start = skipped("manifest", f"{' and '.join(broken)} must work first")
        if not broken:
            manifest = checks.check_manifest(root)
        start = skipped("start", "the loader must find the layer and a driver first")
        if manifest.status == OK and listed.status != PROBLEM:
            start = checks.check_start(root)
    about = [*checks.check_environment(), *check_containers(store_root())]
    others = [policy, store, checks.check_installed(), *about, listed]
    return [loader, library, interpreter, manifest, start, *others], devices


def _next_steps() -> str:
    """What somebody who has just installed pylayer does now."""
    from . import installed

    if DISABLE in os.environ:
        return f"Next: unset {DISABLE}"
    kinds = {manifest.kind for manifest in installed.find()}
    if installed.IMPLICIT in kinds:
        return f"Next: {ENABLE}=1 APP, then pylayer stats"
    once = "" if kinds else " (or: pylayer install --implicit)"
    return f"Next: pylayer run -- APP{once}, then pylayer stats"


def _print_checks(out: Console, found: list[Check]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in found:
        table.add_row(Text(check.status, style=STYLES[check.status]), check.name, Text(check.found))
        if check.advice:
            table.add_row("", "", Text(check.advice, style="italic"))
    out.print(table)


def _print_device(out: Console, device: Device) -> None:
    from rich.table import Table
    from rich.text import Text

    title = Text(f"\nDevice {device.number}: ").append(device.name, style="bold")
    out.print(title.append(f" ({device.status})", style=STYLES[device.status]))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    driver = ", ".join(text for text in (device.driver, device.driver_info) if text)
    others = [name for name, state in device.carriers.items() if state == "possible" and name != device.carrier]
    for name, text in (
        ("driver", driver),
        ("identity", device.identity),
        ("carrier", f"{device.carrier}: {device.reason}" if device.carrier else ""),
        ("also possible", ", ".join(others)),
        ("measured", device.measured),
        ("", device.advice),
    ):
        if text:
            table.add_row(f"  {name}", Text(text, style="" if name else "italic"))
    out.print(table)


@click.command(
    context_settings=HELP,
    epilog="Exit status: 0 the layer works here, 1 it cannot, 2 wrong use.",
    short_help="Check whether the layer works here.",
)
@json_option
def doctor(as_json: bool) -> None:
    """Check whether the layer works here, and show what it does for each device.

    Loads the layer as a program does, writes to the store, and compiles a small shader on every device; each
    in a process of its own, so that a driver that crashes is a line in the report. A warning leaves the exit
    status at 0.

    \b
    Example:
      pylayer doctor
    """
    # Each thing is looked at by a process of its own, which may take up to a minute.
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
            out.print(f"The layer cannot work here: {problems} problem{'s' * (problems > 1)} above.", style="bold red")
        else:
            out.print("The layer works here.", style="bold green")
            out.print(_next_steps())
    raise click.exceptions.Exit(EXIT_PROBLEM if problems else EXIT_OK)
