"""``pylayer policy explain``: which rules match a program and device, where each setting comes from, and the
carrier."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from ..common import user_policy
from ..common.config import PolicyFileError, over, parse_without_preset, read_preset
from ..common.paths import store_root, system_config_file
from ..common.policy_errors import yaml_word
from ..common.program_name import without_loader
from ..common.settings import DEFAULTS, TOP_DEFAULTS, glob_matches, is_skipped, rule_matches, settings_for, top_setting
from ..policy import Policy, choose_carrier
from ..report import recorded
from ..values import CARRIER_NAMES, DeviceFacts, Program
from .devices import present_facts
from .output import Failure, console, files, json_option, one_line, print_facts, print_json, printable
from .policy_file import sources
from .policy_in_force import policies_in_force

if TYPE_CHECKING:
    from rich.console import Console

    from ..values import Plan
    from .policy_file import PolicySource

#: The device to assume if this machine has none: Vulkan 1.3, and what most drivers support.
ASSUMED = "assumed to have pipelineCreationCacheControl and VK_KHR_pipeline_binary"
#: Attributes of a plan that are shown elsewhere, or that follow from having a policy class.
NOT_CHANGED = ("carrier", "may_be_kept")


@dataclass
class SetBy:
    """Where a value comes from: the default, or a place in a preset or file."""

    source: str = "default"
    line: int = 0
    rule: int = 0

    def __str__(self) -> str:
        place = f"{_short(self.source)}:{self.line}" if self.line else self.source
        return f"rule {self.rule}, {place}" if self.rule else place


@dataclass
class Rule:
    """One rule. ``number`` counts from 1 over all files; ``failed`` lists the conditions that do not hold."""

    number: int
    source: str
    line: int
    match: dict[str, Any]
    set: dict[str, Any]
    failed: list[str]


@dataclass
class Explanation:
    """Everything about one program on one device. ``skipped`` is the rule because of which the layer does nothing in
    the program, or empty text."""

    program: Program
    facts: DeviceFacts
    device_note: str
    skipped: str
    rules: list[Rule]
    settings: dict[str, Any]
    origins: dict[str, SetBy]
    plan: Plan | None
    #: What the user's policy class changed in the built-in policy's plan: values by name.
    changed: dict[str, Any]
    reason: str


def _short(source: str) -> str:
    """Returns a file's name for tables, whose heading shows its path. A preset keeps its name. The system's file keeps
    its path, because both files may have one name."""
    return source if source == system_config_file() else source.rpartition("/")[2]


def _match_text(match: dict[str, Any]) -> str:
    """Returns a rule's conditions in the syntax of a policy file."""
    return ", ".join(f"{key}: {hex(value) if key == 'vendor' else value}" for key, value in match.items())


# ---- what is asked about ---------------------------------------------------------------------------


def program_to_ask(name: str | None) -> Program:
    """Returns the program of the newest recorded run with this name. If there is none, nothing but the name is
    known."""
    return next(iter(programs_named(name)), Program(without_loader(name or ""), name or ""))


def programs_named(name: str | None) -> list[Program]:
    """Returns the programs with recorded runs that a user means by a name, as rules see them, the last started one
    first."""
    root = store_root()
    runs = [run for run in recorded.read(root) if run.matches(name)] if root and name else []
    runs.sort(key=lambda run: run.started, reverse=True)
    found = (Program(without_loader(run.executable), run.application, run.texts["engine"]) for run in runs)
    return list(dict.fromkeys(found))


def _assumed() -> DeviceFacts:
    known: dict[str, Any] = dict.fromkeys(("device_name", "driver_name", "driver_info"), "")
    known |= dict.fromkeys(("device_id", "driver_id", "driver_version", "vendor_id"), 0)
    known |= dict.fromkeys(("cache_control_supported", "binaries_supported", "feedback_supported"), True)
    return DeviceFacts(**known | {"api_version": 1 << 22 | 3 << 12, "pipeline_cache_uuid": bytes(16)})


def devices_to_ask(name: str | None) -> list[tuple[DeviceFacts, str]]:
    """Returns the matching devices of this machine, or an assumed one if it has none. Each has a note for the user."""
    present, problem = present_facts()
    if not present:
        return [(_assumed(), f"{problem}; {ASSUMED}")]
    chosen = [
        facts
        for facts in present
        if name is None or any(glob_matches(name, text) for text in (facts.device_name, facts.driver_name))
    ]
    if not chosen:
        here = "; ".join(f"{facts.device_name}, {facts.driver_name}" for facts in present)
        raise Failure(f"no device or driver here matches {name}; this machine has {here}")
    return [(facts, "") for facts in chosen]


# ---- the answer ------------------------------------------------------------------------------------


def merged(sources: list[PolicySource]) -> dict[str, Any]:
    """Returns the policy in force: the keys of each source override those before it."""
    document: dict[str, Any] = {}
    for source in sources:
        document = over(source.document, document)
    return document


def _deciding(document: dict[str, Any], *files: str | None) -> tuple[Policy, str]:
    """Returns the policy that decides. If the user's policy class cannot be used, this is the built-in one, with the
    reason; otherwise the reason is empty."""
    wanted = document.get("policy")
    if not wanted:
        return Policy(), ""
    try:
        return user_policy.load(wanted, *files), ""
    except BaseException as error:
        why = f"{type(error).__name__}: {one_line(error)}"
        return Policy(), f"{wanted} cannot be used ({why}); the built-in one decides"


def _rules(sources: list[PolicySource], program: Program, facts: DeviceFacts) -> list[Rule]:
    rules: list[Rule] = []
    for source in sources:
        for index, rule in enumerate(source.document.get("rules") or []):
            failed = [key for key, value in rule["match"].items() if not rule_matches({key: value}, program, facts)]
            line = source.line("rules", index)
            rules.append(Rule(len(rules) + 1, source.name, line, rule["match"], rule["set"], failed))
    return rules


def skip_rule(document: dict[str, Any], program: Program) -> str:
    """Returns the rule because of which the layer does nothing in the program, or empty text if no rule matches."""
    built_in = parse_without_preset(read_preset("default"), "default")[0].get("skip", [])
    for name, rules in (("skip", document.get("skip") or []), ("built-in skip", built_in)):
        for rule in rules:
            if is_skipped({"skip": [rule], "never_skip": document.get("never_skip")}, program, by_default=False):
                return f"{name} rule {_match_text(rule)}"
    return ""


def _origins(sources: list[PolicySource], rules: list[Rule]) -> dict[str, SetBy]:
    origins = {key: SetBy() for key in DEFAULTS}
    for source in sources:
        for key in source.document.get("settings") or {}:
            origins[key] = SetBy(source.name, source.line("settings", key))
    for rule in rules:
        for key in rule.set if not rule.failed else ():
            origins[key] = SetBy(rule.source, rule.line, rule.number)
    return origins


def _explained(
    sources: list[PolicySource], decider: Policy, program: Program, facts: DeviceFacts, note: str
) -> Explanation:
    document = merged(sources)
    settings = settings_for(document, program, facts)
    rules = _rules(sources, program, facts)
    plan: Plan | None = None
    changed: dict[str, Any] = {}
    carrier, reason = choose_carrier(settings, facts)
    try:
        plan = decider.plan_device(program, facts, dict(settings))
        built_in = Policy().plan_device(program, facts, dict(settings)).as_dict()
        changed = {name: value for name, value in plan.as_dict().items() if value != built_in[name]}
        if plan.carrier != carrier:
            reason = "chosen by the policy class"
    except BaseException as error:
        reason = f"plan_device of the policy class failed: {type(error).__name__}: {one_line(error)}"
    origins = _origins(sources, rules)
    skipped = skip_rule(document, program)
    return Explanation(program, facts, note, skipped, rules, settings, origins, plan, changed, reason)


def _top_settings(sources: list[PolicySource]) -> dict[str, tuple[Any, SetBy]]:
    """Returns the keys beside settings and rules, and where each comes from. A mapping or list has several sources; the
    origin is the last of them that sets the key."""
    origins = dict.fromkeys(TOP_DEFAULTS, SetBy())
    for source in sources:
        for key in origins.keys() & source.document:
            origins[key] = SetBy(source.name, source.line(key))
    document = merged(sources)
    return {key: (top_setting(document, key), origin) for key, origin in origins.items()}


# ---- for people ------------------------------------------------------------------------------------


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return f"{len(value)} of them" if value else "none"
    return yaml_word(value)


def _has(found: Explanation, condition: str) -> str:
    values = {"device": found.facts.device_name, "driver": found.facts.driver_name}
    if condition == "vendor":
        return hex(found.facts.vendor_id)
    return str(values.get(condition, getattr(found.program, condition, ""))) or "not known"


def _rule_facts(found: Explanation) -> list[tuple[str, str]]:
    lines = []
    for rule in found.rules:
        why = "; ".join(f"{key} is {_has(found, key)}" for key in rule.failed)
        state = f"does not match: {why}" if rule.failed else f"matches, sets {_yaml(rule.set) or 'nothing'}"
        lines.append((f"{rule.number}  {_short(rule.source)}:{rule.line}", f"{_match_text(rule.match)}: {state}"))
    return lines


def _carrier(found: Explanation) -> str:
    """Returns what the layer does with the device's pipelines, and why."""
    if found.plan is None:
        return f"none: {found.reason}; the device runs without the layer"
    return f"{CARRIER_NAMES[found.plan.carrier]}: {found.reason}"


def _print(out: Console, found: Explanation, top: dict[str, tuple[Any, SetBy]], everything: bool) -> None:
    def section(title: str, lines: list[tuple[str, str]]) -> None:
        out.print(f"\n{title}", style="bold", soft_wrap=True)
        print_facts(out, [(printable(name), text) for name, text in lines])

    facts, program = found.facts, found.program
    said = (("application", program.application), ("engine", program.engine))
    words = ", ".join(f"{key} {text}" for key, text in said if text)
    driver = ", ".join(text for text in (facts.driver_name, facts.driver_info) if text)
    title = f"{program.executable or 'any program'}{f' ({words})' if words else ''}"
    device = f"{facts.device_name or 'any device'} ({driver or 'any driver'}, vendor {facts.vendor_id:#x})"
    for text in (title, f"{device} {found.device_note}"):
        out.print(printable(text.strip()), style="bold", soft_wrap=True)
    if found.skipped:
        out.print(printable(f"The layer does nothing in this program, because of the {found.skipped}."), soft_wrap=True)
        return
    out.print(printable(f"Carrier {_carrier(found)}"), soft_wrap=True)
    if found.rules:
        section("Rules; later ones win", _rule_facts(found))
    else:
        section("There are no rules.", [])
    values = [(key, found.settings[key], found.origins[key]) for key in DEFAULTS]
    values += [(key, value, origin) for key, (value, origin) in top.items()]
    listed = [row for row in values if everything or row[2].source != "default"]
    shown = [(key, f"{_yaml(value)}  ({origin})") for key, value, origin in listed]
    if shown:
        section("Settings" if everything else "Settings that are set (--all shows the defaults too)", shown)
    else:
        section("Every setting is the default (--all shows them).", [])
    changed = [(name, _yaml(value)) for name, value in found.changed.items() if name not in NOT_CHANGED]
    if changed:
        section("The policy class changes these attributes of the plan", changed)


# ---- for programs ----------------------------------------------------------------------------------


def _as_json(found: Explanation) -> dict[str, Any]:
    plan = None
    if found.plan is not None:
        plan = found.plan.as_dict()
        plan["carrier"] = CARRIER_NAMES[plan["carrier"]]
    return {
        "program": found.program.as_dict(),
        "device": found.facts.as_dict() | {"pipeline_cache_uuid": found.facts.pipeline_cache_uuid.hex()},
        "device_note": found.device_note,
        "skipped": found.skipped,
        "rules": [{**asdict(rule), "matches": not rule.failed} for rule in found.rules],
        "settings": {key: {"value": value, **asdict(found.origins[key])} for key, value in found.settings.items()},
        "plan": plan,
        "reason": found.reason,
    }


@click.command
@click.argument(
    "program",
    required=False,
    help="A program that already ran, by the name that pylayer stats shows, or the executable of any other program.",
)
@click.option("--device", metavar="NAME", help="This device or driver, by its name or a pattern. Default: all devices.")
@click.option("--policy", metavar="FILE", shell_complete=files, help="This policy file instead of the one in force.")
@click.option("--all", "everything", is_flag=True, help="Also show settings that have their default.")
@json_option
def explain(program: str | None, device: str | None, policy: str | None, everything: bool, as_json: bool) -> None:
    """Show what the policy file means for a program.

    This shows the carrier and the reason for it, which rules match and why others do not, and where each setting
    comes from. --json also shows the whole plan. The code that makes the plan in a program's process also makes it
    here, and calls your policy class if you have one.

    \b
    Example:
      pylayer policy explain blender
      pylayer policy explain blender --device "*RTX 4090*" --all
    """
    system, user = policies_in_force()
    path = os.path.abspath(policy) if policy else user
    ignored = ""
    try:
        sources(system, None)
    except PolicyFileError as error:
        system, ignored = None, f"{error}; this file is not used"
    try:
        found_sources = sources(system, path)
    except PolicyFileError as error:
        instead = f"only {system}" if system else "the defaults"
        raise Failure(f"{error}; pylayer policy check shows where. The layer would use {instead}") from error
    decider, problem = _deciding(merged(found_sources), path, system)
    about = [(program_to_ask(program), facts, note) for facts, note in devices_to_ask(device)]
    explained = [_explained(found_sources, decider, *one) for one in about]
    top = _top_settings(found_sources)
    if as_json:
        print_json(
            {
                "file": path,
                "system_file": system,
                "policy_problem": problem,
                "top": {key: {"value": value, **asdict(origin)} for key, (value, origin) in top.items()},
                "devices": [_as_json(found) for found in explained],
            }
        )
        return
    out = console()
    files = ", over ".join(file for file in (path, system) if file)
    click.echo(f"Policy: {files or 'the defaults; there is no policy file'}")
    if ignored:
        click.echo(printable(ignored))
    if problem:
        click.echo(f"Policy class: {printable(problem)}")
    for found in explained:
        click.echo()
        _print(out, found, top, everything)
