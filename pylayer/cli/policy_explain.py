"""``pylayer policy explain``: which rules match a program and device, where each setting is from, and the plan."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ..paths import config_file
from ..settings import DEFAULTS, TOP_DEFAULTS, glob_matches, rule_matches, settings_for
from ..values import CARRIER_NAMES, DeviceFacts, Program
from .output import EXIT_STATUSES, HELP, Failure, WrongUse, console, json_option, one_line, print_json, printable

if TYPE_CHECKING:
    from ..policy import Policy
    from ..values import Plan
    from .policy_file import Source

#: What is assumed of a device that this machine does not have: Vulkan 1.3, and what most drivers can do.
ASSUMED = "not in this machine; assumed to have pipelineCreationCacheControl and VK_KHR_pipeline_binary"


def _short(source: str) -> str:
    """A file's name in tables, above which its path stands; the preset's."""
    return source.rpartition("/")[2]


@dataclass
class Origin:
    """Where a value is from: the default, or a place in a preset or file."""

    source: str = "default"
    line: int = 0
    rule: int = 0

    def __str__(self) -> str:
        place = f"{_short(self.source)}:{self.line}" if self.line else self.source
        return f"rule {self.rule}, {place}" if self.rule else place


@dataclass
class Rule:
    """One rule, by its number from 1 among all; ``failed`` are the conditions that do not hold."""

    number: int
    source: str
    line: int
    match: dict[str, Any]
    set: dict[str, Any]
    failed: list[str] = field(default_factory=list)


@dataclass
class Explanation:
    """Everything about one program on one device."""

    program: Program
    facts: DeviceFacts
    device_note: str
    rules: list[Rule]
    settings: dict[str, Any]
    origins: dict[str, Origin]
    plan: Plan | None
    reason: str


# ---- what is asked about ---------------------------------------------------------------------------


def _assumed(device: str, driver: str, vendor: int) -> DeviceFacts:
    from ..policy import STUB_DRIVERS

    stubs = {"llvmpipe": 13, **{name.lower(): number for number, name in STUB_DRIVERS.items()}}
    known: dict[str, Any] = dict.fromkeys(DeviceFacts.__slots__, False)
    known |= {"api_version": 1 << 22 | 3 << 12, "device_id": 0, "driver_version": 0, "pipeline_cache_uuid": bytes(16)}
    known |= {"cache_control_supported": True, "binaries_supported": True, "feedback_supported": True}
    known |= {"device_name": device, "driver_name": driver, "driver_info": "", "vendor_id": vendor}
    return DeviceFacts(**known | {"driver_id": stubs.get(driver.lower(), 0)})


def _devices(device: str | None, driver: str | None, vendor: int | None) -> list[tuple[DeviceFacts, str]]:
    """Devices of this machine that are meant, else one that is assumed; each with what is to be said of it."""
    from .devices import present_facts

    present, problem = present_facts()
    chosen = [
        (facts, "")
        for facts in present
        if (device is None or glob_matches(device, facts.device_name))
        and (driver is None or glob_matches(driver, facts.driver_name))
        and (vendor is None or facts.vendor_id == vendor)
    ]
    if chosen:
        return chosen
    if device is None and driver is None and vendor is None:
        return [(_assumed("", "", 0), f"{problem}; {ASSUMED}")]
    return [(_assumed(device or "", driver or "", vendor or 0), ASSUMED)]


def _from_store(name: str) -> tuple[Program, str, str]:
    """The program of the newest run that is called so, its device and driver."""
    from .selection import require_root
    from .totals import read_runs

    root = require_root()
    found = [run for run in read_runs(root) if run.matches(name)]
    if not found:
        raise Failure(f"no run of a program named {name} is recorded in {root}; pylayer stats lists them")
    run = max(found, key=lambda run: run.started)
    return _program(run.executable, run.application, run.texts["engine"]), run.texts["device"], run.texts["driver"]


def _program(executable: str, application: str, engine: str) -> Program:
    return Program(
        api_version=0,
        application=application,
        application_version=0,
        engine=engine,
        engine_version=0,
        executable=executable,
    )


# ---- the answer ------------------------------------------------------------------------------------


def _merged(sources: list[Source]) -> dict[str, Any]:
    from ..config import with_preset

    return with_preset(sources[-1].document) if sources else {}


def _policy(document: dict[str, Any]) -> tuple[Policy, str]:
    """Who decides, and why it is not the user's class where that cannot be used; else empty text."""
    from .. import user_policy
    from ..policy import Policy

    wanted = document.get("policy")
    if not wanted:
        return Policy(), ""
    try:
        return user_policy.load(wanted, document.get("policy_path")), ""
    except BaseException as error:
        why = f"{type(error).__name__}: {one_line(error)}"
        return Policy(), f"{wanted} cannot be used ({why}); the built-in one decides"


def _rules(sources: list[Source], program: Program, facts: DeviceFacts) -> list[Rule]:
    rules: list[Rule] = []
    for source in sources:
        for index, rule in enumerate(source.document.get("rules") or []):
            failed = [key for key, value in rule["match"].items() if not rule_matches({key: value}, program, facts)]
            line = source.line("rules", index)
            rules.append(Rule(len(rules) + 1, source.name, line, rule["match"], rule["set"], failed))
    return rules


def _origins(sources: list[Source], rules: list[Rule]) -> dict[str, Origin]:
    origins = {key: Origin() for key in DEFAULTS}
    for source in sources:
        for key in source.document.get("settings") or {}:
            origins[key] = Origin(source.name, source.line("settings", key))
    for rule in rules:
        for key in rule.set if not rule.failed else ():
            origins[key] = Origin(rule.source, rule.line, rule.number)
    return origins


def _explain(sources: list[Source], policy: Policy, program: Program, facts: DeviceFacts, note: str) -> Explanation:
    from ..policy import choose_carrier

    settings = settings_for(_merged(sources), program, facts)
    rules = _rules(sources, program, facts)
    plan: Plan | None = None
    carrier, _, reason = choose_carrier(settings, facts)
    try:
        plan = policy.plan_device(program, facts, dict(settings))
        if plan.carrier != carrier:
            reason = "chosen by the policy class"
    except BaseException as error:
        reason = f"plan_device of the policy class failed: {type(error).__name__}: {one_line(error)}"
    return Explanation(program, facts, note, rules, settings, _origins(sources, rules), plan, reason)


def _top(sources: list[Source]) -> dict[str, tuple[Any, Origin]]:
    """Keys beside settings and rules, with where they are from; of mappings and lists, the strongest that says
    something."""
    document = _merged(sources)
    result = {}
    for key, default in TOP_DEFAULTS.items():
        origin = Origin()
        for source in sources:
            if key in source.document:
                origin = Origin(source.name, source.line(key))
        value = document.get(key, default)
        result[key] = ({**default, **value} if isinstance(default, dict) else value), origin
    return result


# ---- for people ------------------------------------------------------------------------------------


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return f"{len(value)} of them" if value else "none"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _match_text(match: dict[str, Any]) -> str:
    return ", ".join(f"{key}: {hex(value) if key == 'vendor' else value}" for key, value in match.items())


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
    if found.rules:
        lines = []
        for rule in found.rules:
            at = f"{rule.number}  {_short(rule.source)}:{rule.line}"
            why = "; ".join(f"{key} is {_has(found, key)}" for key in rule.failed)
            state = f"does not match: {why}" if rule.failed else f"matches, sets {_yaml(rule.set) or 'nothing'}"
            lines.append((at, _match_text(rule.match), state))
        rows("Rules, later ones win", list(lines))
    else:
        out.print(Text("\nThere are no rules.", style="bold"))
    values = [(key, found.settings[key], found.origins[key]) for key in DEFAULTS]
    values += [(key, value, origin) for key, (value, origin) in top.items()]
    said_values = [row for row in values if everything or row[2].source != "default"]
    if said_values:
        title = "Settings" if everything else "Settings that are not the default (--all: every one)"
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
@click.option("--program", metavar="GLOB", help="All of that, and the device, as in the newest recorded run of it.")
@click.option("--device", metavar="GLOB", help="A device by name; without it, all that are there.")
@click.option("--driver", metavar="GLOB", help="A driver by name.")
@click.option("--vendor", metavar="ID", help="A device by vendorID, such as 0x1002.")
@click.option("--policy", metavar="FILE", help="Another policy file than the one in force.")
@click.option("--preset", metavar="NAME", help="A preset by itself.")
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
    to have what most drivers have.

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
    asked = _program(executable or app or "", app or "", engine or "")
    if program:
        if app or executable or engine:
            raise WrongUse("--program takes all from a recorded run; leave --app, --executable and --engine out")
        asked, stored_device, stored_driver = _from_store(program)
        device, driver = device or stored_device, driver or stored_driver
    decider, problem = _policy(_merged(found_sources))
    devices = _devices(device, driver, _vendor(vendor))
    explained = [_explain(found_sources, decider, asked, facts, note) for facts, note in devices]
    top = _top(found_sources)
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
