"""``pylayer policy explain``: which rules match a program and device, where each setting is from, and the plan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from ..paths import config_file
from ..settings import DEFAULTS
from ..values import CARRIER_NAMES
from .complete import files, presets_there, programs
from .output import EXIT_STATUSES, HELP, Failure, WrongUse, console, json_option, print_json, printable
from .policy_meaning import (
    deciding_policy,
    devices_meant,
    explain_for,
    match_text,
    merged,
    program_called,
    program_in_store,
    short_name,
    top_settings,
)

if TYPE_CHECKING:
    from .policy_meaning import Explanation, Origin

# ---- for people ------------------------------------------------------------------------------------


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return f"{len(value)} of them" if value else "none"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _has(found: Explanation, condition: str) -> str:
    values = {"device": found.facts.device_name, "driver": found.facts.driver_name}
    if condition == "vendor":
        return hex(found.facts.vendor_id)
    return str(values.get(condition, getattr(found.program, condition, ""))) or "not known"


def _plan_lines(found: Explanation) -> list[tuple[str, str]]:
    plan = found.plan
    if plan is None:
        return [("none", f"{found.reason}; the device runs without the layer")]
    lines = [("carrier", f"{CARRIER_NAMES[plan.carrier]}: {found.reason}")]
    if plan.fallback_carrier != plan.carrier:
        lines.append(("or", f"{CARRIER_NAMES[plan.fallback_carrier]}, where the driver refuses what that needs"))
    values = {**plan.as_dict(), "carrier": None, "fallback_carrier": None, "may_be_kept": None}
    for name, value in values.items():
        if value is None:
            continue
        if name.endswith("_ns"):
            lines.append((name[:-3], f"{value / 1e6:g} ms"))
        elif name.endswith("_bytes"):
            lines.append((name[:-6], f"{value / (1 << 20):g} MiB"))
        else:
            lines.append((name, _yaml(value)))
    return lines


def _print(found: Explanation, top: dict[str, tuple[Any, Origin]], everything: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()

    def rows(title: str, lines: list[tuple[str, ...]]) -> None:
        out.print(Text(f"\n{title}", style="bold"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(no_wrap=True)
        for _ in lines[0][1:]:
            table.add_column(overflow="fold")
        for first, *rest in lines:
            table.add_row(f"  {printable(first)}", *(Text(printable(text)) for text in rest))
        out.print(table)

    facts, program = found.facts, found.program
    said = (("application", program.application), ("engine", program.engine))
    words = ", ".join(f"{key} {text}" for key, text in said if text)
    driver = ", ".join(text for text in (facts.driver_name, facts.driver_info) if text)
    device = f"{facts.device_name or 'any device'} ({driver or 'any driver'}, vendor {facts.vendor_id:#x})"
    out.print(Text(f"{program.executable or 'any program'}{f' ({words})' if words else ''}", style="bold"))
    out.print(Text(device, style="bold"))
    if found.device_note:
        out.print(Text(found.device_note, style="italic"))
    if found.skipped:
        out.print(Text(f"Left alone: the layer does nothing in this process, by the {found.skipped}.", style="bold"))
        return
    if found.rules:
        lines = []
        for rule in found.rules:
            at = f"{rule.number}  {short_name(rule.source)}:{rule.line}"
            why = "; ".join(f"{key} is {_has(found, key)}" for key in rule.failed)
            state = f"does not match: {why}" if rule.failed else f"matches, sets {_yaml(rule.set) or 'nothing'}"
            lines.append((at, match_text(rule.match), state))
        rows("Rules, later ones win", list(lines))
    else:
        out.print(Text("\nThere are no rules.", style="bold"))
    values = [(key, found.settings[key], found.origins[key]) for key in DEFAULTS]
    values += [(key, value, origin) for key, (value, origin) in top.items()]
    said_values = [row for row in values if everything or row[2].source != "default"]
    if said_values:
        title = "Settings" if everything else "Settings that are set (--all: the defaults too)"
        rows(title, [(key, _yaml(value), str(origin)) for key, value, origin in said_values])
    else:
        out.print(Text("\nEvery setting is the default (--all shows them).", style="bold"))
    rows("Plan", list(_plan_lines(found)))


def _as_json(found: Explanation) -> dict[str, Any]:
    facts = found.facts.as_dict() | {"pipeline_cache_uuid": found.facts.pipeline_cache_uuid.hex()}
    plan = None
    if found.plan is not None:
        plan = found.plan.as_dict()
        for key in ("carrier", "fallback_carrier"):
            plan[key] = CARRIER_NAMES[plan[key]]
    return {
        "program": found.program.as_dict(),
        "device": facts,
        "device_note": found.device_note,
        "skipped": found.skipped,
        "rules": [{**vars(rule), "matches": not rule.failed} for rule in found.rules],
        "settings": {key: {"value": value, **vars(found.origins[key])} for key, value in found.settings.items()},
        "plan": plan,
        "reason": found.reason,
    }


def _file(policy: str | None, preset: str | None) -> str | None:
    if policy and preset:
        raise WrongUse("--policy and --preset are both given; choose one")
    if preset:
        from .policy_file import preset_file

        return preset_file(preset)
    if policy:
        return os.path.abspath(policy)
    path = config_file()
    return path if path is not None and os.path.lexists(path) else None


def _vendor(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text, 0)
    except ValueError:
        raise WrongUse(f"--vendor {text} is no number; vendorID is one, such as 0x1002") from None


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@click.option("--app", metavar="NAME", help="What the program calls itself; its executable too, without --executable.")
@click.option("--executable", metavar="NAME", help="The name of its executable.")
@click.option("--engine", metavar="NAME", help="What it calls its engine.")
@click.option(
    "--program",
    metavar="GLOB",
    shell_complete=programs,
    help="All of that, and the device, as in the newest recorded run of it.",
)
@click.option("--device", metavar="GLOB", help="A device by name; without it, all that are there.")
@click.option("--driver", metavar="GLOB", help="A driver by name.")
@click.option("--vendor", metavar="ID", help="A device by vendorID, such as 0x1002.")
@click.option("--policy", metavar="FILE", shell_complete=files, help="Another policy file than the one in force.")
@click.option("--preset", metavar="NAME", shell_complete=presets_there, help="A preset by itself.")
@click.option("--all", "everything", is_flag=True, help="Show settings that are the default too.")
@json_option
def explain(
    app: str | None,
    executable: str | None,
    engine: str | None,
    program: str | None,
    device: str | None,
    driver: str | None,
    vendor: str | None,
    policy: str | None,
    preset: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Show what the policy means for a program and a device.

    Which rules match and why others do not, where each setting is from, and the
    plan that results, made by the code that makes it in the program's process;
    a policy class of yours is asked too. A device that is not there is assumed
    to have what most drivers have. Variables of layer settings count as they do
    for a program; vk_layer_settings.txt is not looked at.

    \b
    Example:
      pylayer policy explain --app blender
      pylayer policy explain --program "blender*"
      pylayer policy explain --app Game --device "*RTX 4090*" --vendor 0x10de
    """
    from ..config import PolicyFileError
    from .policy_file import sources

    path = _file(policy, preset)
    try:
        found_sources = sources(path)
        if preset:
            found_sources[-1].name = f"preset {preset}"
    except PolicyFileError as error:
        raise Failure(f"{error}; pylayer policy check shows where. The layer would use the defaults") from error
    asked = program_called(executable or app or "", app or "", engine or "")
    if program:
        if app or executable or engine:
            raise WrongUse("--program takes all from a recorded run; leave --app, --executable and --engine out")
        asked, stored_device, stored_driver = program_in_store(program)
        device, driver = device or stored_device, driver or stored_driver
    decider, problem = deciding_policy(merged(found_sources))
    devices = devices_meant(device, driver, _vendor(vendor))
    explained = [explain_for(found_sources, decider, asked, facts, note) for facts, note in devices]
    top = top_settings(found_sources)
    if as_json:
        print_json(
            {
                "file": path,
                "policy_problem": problem,
                "top": {key: {"value": value, **vars(origin)} for key, (value, origin) in top.items()},
                "devices": [_as_json(found) for found in explained],
            }
        )
        return
    click.echo(f"Policy: {f'preset {preset}' if preset else path or 'the defaults; there is no policy file'}")
    if problem:
        click.echo(f"Policy class: {printable(problem)}")
    for found in explained:
        click.echo()
        _print(found, top, everything)
