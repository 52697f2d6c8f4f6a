"""What the policy means for one program and device: the rules that match, where each setting is from, and the plan."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..settings import DEFAULTS, TOP_DEFAULTS, glob_matches, is_skipped, rule_matches, settings_for
from ..values import DeviceFacts, Program
from .output import Failure, one_line

if TYPE_CHECKING:
    from ..policy import Policy
    from ..values import Plan
    from .policy_file import Source

#: What is assumed of a device that this machine does not have: Vulkan 1.3, and what most drivers can do.
ASSUMED = "not in this machine; assumed to have pipelineCreationCacheControl and VK_KHR_pipeline_binary"


def short_name(source: str) -> str:
    """A file's name in tables, above which its path stands; the preset's."""
    return source.rpartition("/")[2]


def match_text(match: dict[str, Any]) -> str:
    """Conditions as a policy file has them."""
    return ", ".join(f"{key}: {hex(value) if key == 'vendor' else value}" for key, value in match.items())


@dataclass
class Origin:
    """Where a value is from: the default, or a place in a preset or file."""

    source: str = "default"
    line: int = 0
    rule: int = 0

    def __str__(self) -> str:
        place = f"{short_name(self.source)}:{self.line}" if self.line else self.source
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
    #: The rule by which the layer leaves this process alone, and nothing of the rest counts; else empty.
    skipped: str = ""


# ---- what is asked about ---------------------------------------------------------------------------


def _assumed(device: str, driver: str, vendor: int) -> DeviceFacts:
    from ..policy import STUB_DRIVERS

    stubs = {"llvmpipe": 13, **{name.lower(): number for number, name in STUB_DRIVERS.items()}}
    known: dict[str, Any] = dict.fromkeys(DeviceFacts.__slots__, False)
    known |= {"api_version": 1 << 22 | 3 << 12, "device_id": 0, "driver_version": 0, "pipeline_cache_uuid": bytes(16)}
    known |= {"cache_control_supported": True, "binaries_supported": True, "feedback_supported": True}
    known |= {"device_name": device, "driver_name": driver, "driver_info": "", "vendor_id": vendor}
    return DeviceFacts(**known | {"driver_id": stubs.get(driver.lower(), 0)})


def devices_meant(device: str | None, driver: str | None, vendor: int | None) -> list[tuple[DeviceFacts, str]]:
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


def program_in_store(name: str) -> tuple[Program, str, str]:
    """The program of the newest run that is called so, its device and driver."""
    from ..totals import read_runs
    from .selection import require_root

    root = require_root()
    found = [run for run in read_runs(root) if run.matches(name)]
    if not found:
        raise Failure(f"no run of a program named {name} is recorded in {root}; pylayer stats lists them")
    run = max(found, key=lambda run: run.started)
    return (
        program_called(run.executable, run.application, run.texts["engine"]),
        run.texts["device"],
        run.texts["driver"],
    )


def program_called(executable: str, application: str, engine: str) -> Program:
    """A program of which nothing else is known."""
    return Program(
        api_version=0,
        application=application,
        application_version=0,
        engine=engine,
        engine_version=0,
        executable=executable,
    )


# ---- the answer ------------------------------------------------------------------------------------


def merged(sources: list[Source]) -> dict[str, Any]:
    """What is in force: the file laid over its preset."""
    from ..config import with_preset

    return with_preset(sources[-1].document) if sources else {}


def deciding_policy(document: dict[str, Any]) -> tuple[Policy, str]:
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


#: Of the names that a layer setting's variable may have (docs/layer-settings.md); the last goes before the others.
PREFIXES = ("VK_", "VK_PIPELINE_CACHE_", "VK_PYLAYER_PIPELINE_CACHE_")


class Given:
    """Layer settings of the environment, as a program started from here would get them. ``variables``: by setting."""

    def __init__(self) -> None:
        from .. import layer_settings

        self.variables: dict[str, str] = {}
        for prefix in PREFIXES:
            for key in DEFAULTS:
                if f"{prefix}{key.upper()}" in os.environ:
                    self.variables[key] = f"{prefix}{key.upper()}"
        lines = [f"environment {key}={os.environ[name]}" for key, name in self.variables.items()]
        self.settings = layer_settings.parse("\n".join(lines)) if lines else layer_settings.LayerSettings()


def _skip_rule(sources: list[Source], program: Program) -> str:
    """The rule by which the layer leaves the program alone; empty text where it does not."""
    from ..config import parse_alone, read_preset

    built_in = parse_alone(read_preset("default"), "default")[0].get("skip", [])
    document = merged(sources)
    for name, rules in (("skip", document.get("skip") or []), ("built-in skip", built_in)):
        for rule in rules:
            if is_skipped({"skip": [rule], "never_skip": document.get("never_skip")}, program, by_default=False):
                return f"{name} rule {match_text(rule)}"
    return ""


def _origins(sources: list[Source], rules: list[Rule]) -> dict[str, Origin]:
    origins = {key: Origin() for key in DEFAULTS}
    for source in sources:
        for key in source.document.get("settings") or {}:
            origins[key] = Origin(source.name, source.line("settings", key))
    for rule in rules:
        for key in rule.set if not rule.failed else ():
            origins[key] = Origin(rule.source, rule.line, rule.number)
    return origins


def explain_for(sources: list[Source], policy: Policy, program: Program, facts: DeviceFacts, note: str) -> Explanation:
    """What ``sources`` mean for a program and a device, of which ``note`` is to be said; ``policy`` makes the plan."""
    from ..policy import choose_carrier

    given = Given()
    settings = settings_for(merged(sources), program, facts, given.settings)
    rules = _rules(sources, program, facts)
    plan: Plan | None = None
    carrier, _, reason = choose_carrier(settings, facts)
    try:
        plan = policy.plan_device(program, facts, dict(settings))
        if plan.carrier != carrier:
            reason = "chosen by the policy class"
    except BaseException as error:
        reason = f"plan_device of the policy class failed: {type(error).__name__}: {one_line(error)}"
    origins = _origins(sources, rules)
    origins |= {key: Origin(given.variables[key]) for key in given.settings.by_user}
    return Explanation(
        program, facts, note, rules, settings, origins, plan, reason, skipped=_skip_rule(sources, program)
    )


def top_settings(sources: list[Source]) -> dict[str, tuple[Any, Origin]]:
    """Keys beside settings and rules, with where they are from; of mappings and lists, the strongest that says
    something."""
    document = merged(sources)
    result = {}
    for key, default in TOP_DEFAULTS.items():
        origin = Origin()
        for source in sources:
            if key in source.document:
                origin = Origin(source.name, source.line(key))
        value = document.get(key, default)
        result[key] = ({**default, **value} if isinstance(default, dict) else value), origin
    return result
