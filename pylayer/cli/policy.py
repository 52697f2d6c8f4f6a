"""``pylayer policy``: checks the policy file, and explains which rules match a program and device, where each setting
comes from, and the mode."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ..common import user_policy
from ..common.config import PolicyFileError, Source, merged, read_preset, sources
from ..common.paths import config_files, store_root
from ..common.policy_errors import Problem, yaml_word
from ..common.settings import TOP_DEFAULTS, is_skipped, rule_matches, settings_for, top_setting
from ..policy import Policy, choose_mode
from ..report import recorded
from ..report.recorded import without_loader
from ..report.words import plural, printable
from ..values import MODE_NAMES, DeviceFacts, Plan, Program
from .devices import present_facts
from .output import Failure, console, end_if, files, json_option, print_facts, print_json
from .policy_in_force import no_policy_file, read_policies

if TYPE_CHECKING:
    from rich.console import Console

#: The device to assume if this machine has none: Vulkan 1.3, with pipelineCreationCacheControl and pipeline binaries.
ASSUMED = DeviceFacts(1 << 22 | 3 << 12, True, True, 0, "", 0, "", "", 0, True, bytes(16), 0)


# ---- what is asked about ---------------------------------------------------------------------------


def program_to_ask(name: str | None) -> Program:
    """Returns the program of the newest recorded run with this name. If there is none, nothing but the name is
    known."""
    return next(iter(programs_named(name)), Program(without_loader(name or ""), name or ""))


def programs_named(name: str | None) -> list[Program]:
    """Returns the programs with recorded runs that a user means by a name, as rules see them, the last started one
    first."""
    runs = sorted(recorded.named(store_root(), name), key=lambda run: run.started, reverse=True)
    found = (Program(without_loader(run.executable), run.application, run.texts["engine"]) for run in runs)
    return list(dict.fromkeys(found))


def devices_to_ask() -> list[tuple[DeviceFacts, str]]:
    """Returns the devices of this machine, or an assumed one if it has none. Each has a note for the user."""
    present, problem = present_facts()
    return [(facts, "") for facts in present] or [(ASSUMED, f"{problem}; assumed to have what most drivers support")]


# ---- the answer ------------------------------------------------------------------------------------


def _deciding(document: dict[str, Any], *files: str | None) -> tuple[Policy, str]:
    """Returns the policy that decides. If the user's policy class cannot be used, this is the built-in one, with the
    reason; otherwise the reason is empty. What the class prints goes to standard error."""
    wanted = document.get("policy")
    if not wanted:
        return Policy(), ""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return user_policy.load(wanted, *files), ""
    except BaseException as error:
        return Policy(), f"{wanted} cannot be used: {user_policy.describe(error)}; the built-in policy decides"


def class_problem(sources: list[Source], *files: str | None) -> str:
    """Asks the user's policy class for the plan of each device here. Returns what is wrong with it; empty text if
    nothing was found."""
    decider, problem = _deciding(merged(sources), *files)
    for facts, note in devices_to_ask():
        found = _explained(sources, decider, program_to_ask("game"), facts, note)
        if not (problem or found["plan"]):
            problem = f"{found['reason']}, for {facts.device_name or 'a device'}; programs run without the layer there"
    return problem


def skip_rule(document: dict[str, Any], program: Program) -> str:
    """Returns the rule because of which the layer does nothing in the program, or empty text if no rule matches."""
    built_in = Source("default", read_preset("default")).document.get("skip", [])
    for name, rules in (("skip", document.get("skip") or []), ("built-in skip", built_in)):
        for rule in rules:
            if is_skipped({"skip": [rule], "never_skip": document.get("never_skip")}, program, by_default=False):
                return f"{name} rule {_match_text(rule)}"
    return ""


def _rules(sources: list[Source], program: Program, facts: DeviceFacts) -> list[dict[str, Any]]:
    """Returns the rules. ``number`` counts from 1 over all files; ``failed`` lists the conditions that do not hold."""
    rules: list[dict[str, Any]] = []
    for source in sources:
        for index, rule in enumerate(source.document.get("rules") or []):
            failed = [key for key, value in rule["match"].items() if not rule_matches({key: value}, program, facts)]
            place = {"number": len(rules) + 1, "source": source.name, "line": source.line("rules", index)}
            rules.append({**place, **rule, "failed": failed, "matches": not failed})
    return rules


def _values(
    values: dict[str, Any], sources: list[Source], rules: list[dict[str, Any]], *below: str
) -> dict[str, dict[str, Any]]:
    """Returns values that are below a key, each with where it comes from: the default, or the place in the last source
    or rule that sets it. A mapping or list has several sources."""
    found = {key: {"value": value, "source": "default", "line": 0, "rule": 0} for key, value in values.items()}
    for source in sources:
        document = source.document
        for key in below:
            document = document.get(key) or {}
        for key in found.keys() & document:
            found[key] |= {"source": source.name, "line": source.line(*below, key)}
    for rule in rules:
        for key in rule["set"] if rule["matches"] else ():
            found[key] |= {"source": rule["source"], "line": rule["line"], "rule": rule["number"]}
    return found


def _explained(
    sources: list[Source], decider: Policy, program: Program, facts: DeviceFacts, note: str
) -> dict[str, Any]:
    """Returns everything about one program on one device. ``skipped`` is the rule because of which the layer does
    nothing in the program, or empty text."""
    document = merged(sources)
    settings = settings_for(document, program, facts)
    rules = _rules(sources, program, facts)
    shown: dict[str, Any] | None = None
    mode, reason = choose_mode(settings, facts)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            plan = decider.plan_device(program, facts, dict(settings))
        if not isinstance(plan, Plan):
            raise TypeError("plan_device returned no Plan")
        shown = {**plan.as_dict(), "mode": MODE_NAMES[plan.mode]}
        if plan.mode != mode:
            reason = "chosen by the policy class"
    except BaseException as error:
        reason = f"plan_device of the policy class failed: {user_policy.describe(error)}"
    return {
        "program": program.as_dict(),
        "device": facts.as_dict() | {"pipeline_cache_uuid": facts.pipeline_cache_uuid.hex()},
        "device_note": note,
        "skipped": skip_rule(document, program),
        "rules": rules,
        "settings": _values(settings, sources, rules, "settings"),
        "plan": shown,
        "reason": reason,
    }


# ---- for people ------------------------------------------------------------------------------------


def _match_text(match: dict[str, Any]) -> str:
    """Returns a rule's conditions in the syntax of a policy file."""
    return ", ".join(f"{key}: {hex(value) if key == 'vendor' else value}" for key, value in match.items())


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return f"{len(value)} of them" if value else "none"
    return yaml_word(value)


def _origin(own: dict[str, Any]) -> str:
    place = f"{own['source']}:{own['line']}" if own["line"] else own["source"]
    return f"rule {own['rule']}, {place}" if own["rule"] else place


def _rule_facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    device = found["device"]
    has = {**found["program"], "device": device["device_name"], "driver": device["driver_name"]}
    has["vendor"] = hex(device["vendor_id"])
    lines = []
    for rule in found["rules"]:
        why = "; ".join(f"{key} is {has[key] or 'not known'}" for key in rule["failed"])
        state = f"does not match: {why}" if why else f"matches, sets {_yaml(rule['set']) or 'nothing'}"
        place = f"{rule['number']}  {rule['source']}:{rule['line']}"
        lines.append((place, f"{_match_text(rule['match'])}: {state}"))
    return lines


def _print(out: Console, found: dict[str, Any], top: dict[str, dict[str, Any]]) -> None:
    def section(title: str, lines: list[tuple[str, str]]) -> None:
        out.print(f"\n{title}", style="bold", soft_wrap=True)
        print_facts(out, [(printable(name), text) for name, text in lines])

    facts, program = found["device"], found["program"]
    words = ", ".join(f"{key} {program[key]}" for key in ("application", "engine") if program[key])
    driver = ", ".join(text for text in (facts["driver_name"], facts["driver_info"]) if text)
    title = f"{program['executable'] or 'any program'}{f' ({words})' if words else ''}"
    device = f"{facts['device_name'] or 'any device'} ({driver or 'any driver'}, vendor {facts['vendor_id']:#x})"
    for text in (title, f"{device} {found['device_note']}"):
        out.print(printable(text.strip()), style="bold", soft_wrap=True)
    if found["skipped"]:
        said = f"The layer does nothing in this program, because of the {found['skipped']}."
        out.print(printable(said), soft_wrap=True)
        return
    mode = f"{found['plan']['mode']}: {found['reason']}" if found["plan"] else f"none: {found['reason']}"
    out.print(printable(f"Mode {mode}"), soft_wrap=True)
    if found["rules"]:
        section("Rules; later ones win", _rule_facts(found))
    else:
        section("There are no rules.", [])
    values = {**found["settings"], **top}
    section("Settings", [(key, f"{_yaml(own['value'])}  ({_origin(own)})") for key, own in values.items()])


# ---- the command -----------------------------------------------------------------------------------


@click.command
@click.argument(
    "program",
    required=False,
    help="A program that already ran, by the name that pylayer stats shows, or the executable of any other program.",
)
@json_option
def explain(program: str | None, as_json: bool) -> None:
    """Show what the policy file means for a program on each device.

    This shows the mode and the reason for it, which rules match and why others do not, and where each setting
    comes from. PYLAYER_CONFIG can name another policy file than the one in force. --json also shows the whole plan. The
    code that makes the plan in a program's process also makes it here, and calls your policy class if you have one.

    \b
    Example:
      pylayer policy explain blender
    """
    system, path = config_files()
    try:
        found_sources = sources(system, path)
    except PolicyFileError as error:
        raise Failure(f"{error}; the layer uses nothing of this file. pylayer policy check shows where") from error
    decider, problem = _deciding(merged(found_sources), path, system)
    about = [(program_to_ask(program), facts, note) for facts, note in devices_to_ask()]
    explained = [_explained(found_sources, decider, *one) for one in about]
    document = merged(found_sources)
    top = _values({key: top_setting(document, key) for key in TOP_DEFAULTS}, found_sources, [])
    if as_json:
        found = {"file": path, "system_file": system, "policy_problem": problem, "top": top, "devices": explained}
        print_json(found)
        return
    out = console()
    in_force = ", over ".join(file for file in (path, system) if file)
    click.echo(f"Policy: {in_force or 'the defaults; there is no policy file'}")
    if problem:
        click.echo(f"Policy class: {printable(problem)}")
    for found in explained:
        click.echo()
        _print(out, found, top)


@click.group
def policy() -> None:
    """Check and explain the policy file.

    \b
    Example:
      pylayer policy check
      pylayer policy explain blender
    """


def _print_problems(shown: str, problems: list[Problem], instead: str) -> None:
    for problem in problems:
        place = f":{problem.line}:{problem.column}" if problem.line else ""
        click.echo(printable(f"{shown}{place}: {problem.text}"))
    click.echo(f"{plural(len(problems), 'problem')}: {instead}")


@policy.command(epilog="Exit status: 0 valid, 1 not valid, 2 usage error.")
@click.argument(
    "file", required=False, shell_complete=files, help="The policy file to check. Default: the one in force."
)
def check(file: str | None) -> None:
    """Check whether a policy file is valid, and show where it is not.

    Without FILE, this checks those in force: /etc/pylayer/policy.yaml, and
    PYLAYER_CONFIG or pylayer/policy.yaml in $XDG_CONFIG_HOME or ~/.config. The
    layer uses nothing of an invalid file. A policy class is asked for the plan
    of each device here.

    \b
    Example:
      pylayer policy check
      pylayer policy check new-policy.yaml
    """
    system, user = config_files() if file is None else (None, os.path.abspath(file))
    found: dict[str, list[Source]] = {}
    wrong = False
    for path in filter(None, (system, user)):
        try:
            found[path] = sources(path)
        except PolicyFileError as error:
            _print_problems(file or path, error.problems, "the layer uses nothing of this file.")
            wrong = True
    naming = next((path for path in reversed(found) if "policy" in found[path][-1].document), None)
    for path, of_file in found.items():
        if path == naming and (problem := class_problem(of_file, path)):
            told = Problem(f"policy: {problem}", of_file[-1].line("policy"), 1)
            _print_problems(file or path, [told], "the rest of this file is valid.")
            wrong = True
        else:
            preset = of_file[-1].document.get("preset")
            click.echo(f"{file or path} is valid{f', over the preset {preset}' if preset else ''}.")
    if not (found or wrong):
        click.echo(f"There is {no_policy_file()}.")
    elif not wrong and user == config_files()[1]:
        read_policies(*config_files(), store_root())  # writes the compiled copy
    end_if(wrong)


policy.add_command(explain)
