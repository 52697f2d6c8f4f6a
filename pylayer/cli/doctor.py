"""``pylayer doctor``: whether the layer is on, whether it works here, and what it does for each device."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from .output import (
    EXIT_OK,
    EXIT_PROBLEM,
    console,
    json_option,
    picked,
    plural,
    print_facts,
    print_json,
    printable,
    progress,
)
from .selection import NAMES

if TYPE_CHECKING:
    from rich.console import Console

    from .checks import Check
    from .examination import Device

STYLES = {"ok": "", "warning": "yellow", "problem": "bold red", "skipped": "dim"}


def _print_checks(out: Console, found: list[Check]) -> None:
    width = max((len(check.name) for check in found), default=0)
    for check in found:
        text = f"{check.found}. {check.advice}" if check.advice else check.found
        print_facts(out, [(f"{check.status:7}  {check.name:{width}}", text)], style=STYLES[check.status])


def _print_device(out: Console, device: Device) -> None:
    out.print(f"\nDevice {device['number']}: {printable(device['name'])} ({device['status']})", style="bold")
    facts = {
        "driver": ", ".join(text for text in (device["driver"], device["driver_info"]) if text),
        "identity": device["identity"],
        "mode": f"{device['mode']}: {device['reason']}" if device["mode"] else "",
        "tried": device["tried"],
        "advice": device["advice"],
    }
    print_facts(out, [(name, text) for name, text in facts.items() if text])


def _print_conclusion(out: Console, problems: int, devices: list[Device]) -> None:
    out.print()
    if problems:
        out.print(f"The layer cannot work here: {plural(problems, 'problem')} above.", style="bold red")
    elif any(device["status"] == "ok" for device in devices):
        out.print("The layer works here.", style="bold green")
        out.print("Next: pylayer run -- APP (or once: pylayer install --implicit), then pylayer stats")
    else:
        out.print("The layer starts here but has nothing to do: no device has pipelines to store.", style="yellow")


@click.command(
    epilog="Exit status: 0 the layer works here, 1 it cannot, 2 usage error. With NAME: 0 it is on, 1 it is off.",
)
@click.argument("name", required=False, help=f"Answer for this program instead, {NAMES}.")
@json_option
def doctor(name: str | None, as_json: bool) -> None:
    """Check whether the layer works here, or is on for a program, and what limits it.

    The first line tells whether the layer is on. With NAME it says whether the layer is in the running program, and if
    not, why: the program's own environment tells, so this works for a game that Steam started an hour ago. If the
    program is not running, the answer is that of its last run, unless something recorded since switches the layer off.

    Without NAME, this runs a program with one pipeline twice on every device, under the layer and with a temporary
    store, and checks whether the second run finds what the first one compiled. Each run is a process of its own, so a
    driver that crashes becomes a line of the report. With warnings alone, the exit status is 0.

    \b
    Example:
      pylayer doctor
      pylayer doctor blender
    """
    from . import examination, status

    answer = status.of_program(name) if name else status.of_environment()
    devices: list[Device] = []
    if name:
        found = examination.examine_program(answer.program)
    else:
        # Each check runs in a process of its own, which may take up to a minute.
        with progress("checking", None, as_json):
            found, devices = examination.examine()
    problems = sum(check.status == "problem" for check in found)
    sentence = f"{'On' if answer.on else 'Off'}: {answer.answer}."
    if as_json:
        print_json(
            {
                **picked(answer, "on", "program", "pid"),
                "answer": sentence,
                "facts": [{"name": one, "text": text} for one, text in answer.facts],
                "works": not problems,
                "checks": [asdict(check) for check in found],
                "devices": devices,
            }
        )
    else:
        out = console()
        out.print(printable(sentence))
        print_facts(out, answer.facts)
        _print_checks(out, [check for check in found if not name or check.status != "ok"])
        for device in devices:
            _print_device(out, device)
        if not name:
            _print_conclusion(out, problems, devices)
    raise click.exceptions.Exit(EXIT_PROBLEM if (not answer.on if name else problems) else EXIT_OK)
