"""The first lines of ``pylayer doctor``: whether the layer is on for a program, or was on in its last run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..common.paths import store_root
from ..report import recorded
from ..report.words import MINUTE, moment
from ..values import Program
from .blocks import in_force, line
from .children import probe
from .containers import container
from .environment import DISABLE, NEWEST, loader_version, obstacles, why_not
from .output import plural
from .policy_in_force import read_policy

if TYPE_CHECKING:
    from ..report.recorded import Run
    from .processes import Process

#: Variables that tell where a program's store, policy file and manifests are.
PLACES = (
    "PYLAYER_STORE",
    "PYLAYER_CONFIG",
    "PYLAYER_SYSTEM_CONFIG",
    "PYLAYER_SYSTEM_STORE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_HOME",
    "XDG_DATA_DIRS",
    "HOME",
)
HOW = "pylayer run -- APP runs one program under it"


@dataclass
class Status:
    """The answer: whether the layer is on, in one sentence, and what else is known."""

    on: bool = False
    answer: str = ""
    program: str | None = None
    pid: int | None = None
    #: Name and text of each line below the answer.
    facts: list[tuple[str, str]] = field(default_factory=list)


# ---- why it is not on ------------------------------------------------------------------------------------


def _skipped(name: str, process: Process | None) -> str:
    """Returns the skip rule that excludes a program; empty text if none does."""
    from .policy_explain import program_to_ask, skip_rule

    program = program_to_ask(name)
    if process is not None and not program.application:
        program = Program(process.name)
    return skip_rule(read_policy()[0], program)


def _adopt(environment: Mapping[str, str]) -> None:
    """Makes this command use the store and the policy file of a running program."""
    for name in PLACES:
        os.environ.pop(name, None)
        if name in environment:
            os.environ[name] = environment[name]


# ---- the answer ------------------------------------------------------------------------------------------


def _device(run: Run) -> str:
    """Returns what the layer does for one device of a process: its mode, and what was found and compiled."""
    why = f" ({run.texts['reason']})" if run.texts["reason"] else ""
    shown = run.shown()
    compiled = "?" if shown["compiled"] is None else shown["compiled"]
    counts = f"{plural(run.pipelines, 'pipeline')}, {shown['hits']} found, {compiled} compiled"
    policy = f"; {run.policy}" if run.policy else ""
    return f"{run.texts['device']}: mode {run.texts['mode'] or 'unknown'}{why}; {counts}{policy}"


def _off_mode(runs: list[Run]) -> str:
    """Returns why the layer stores nothing on any device of a process; empty text if it stores something."""
    reasons = [one.texts["reason"] for one in runs if one.texts["mode"] == "off"]
    return (reasons[0] or "mode off") if len(reasons) == len(runs) else ""


def why_off(program: str, name: str, process: Process | None) -> str:
    """Returns why the layer does nothing in a program of which no run is being recorded: a skip rule, a block, or what
    its process shows. Empty text if it is not known."""
    blocks = [line(block) for block in in_force(store_root(), program) if block.switches_off]
    if skipped := _skipped(name, process):
        return f"the {skipped} excludes {program}; pylayer off {shlex.quote(name)} --undo includes it"
    if blocks or process is None:
        return next(iter(blocks), "")
    if process.has_layer:
        return "the layer is loaded, and has no device yet or is switched off by the policy file"
    if process.environment is None:
        return "its environment cannot be read"
    if process.has_vulkan is False:
        unused = "it has not used Vulkan yet"
    elif (inside := container(process.environment, f"/proc/{process.pid}/root")) and inside != container(os.environ):
        unused = f"it runs in a container ({inside}), whose loader finds no layer: docs/containers.md"
        return next((found for found, _ in obstacles(process.environment)), unused)
    else:
        unused = "the loader did not load it"
    return why_not(process.environment) or unused


def of_program(name: str) -> Status:
    """Answers for a program that a person names."""
    from . import processes

    known = recorded.named(store_root(), name)
    there = processes.running(name, {run.executable for run in known})
    process = there[0] if there else None
    if process is not None and process.environment is not None:
        _adopt(process.environment)
        known = recorded.named(store_root(), name)
    alive = [run for run in known if run.state == "running"]
    runs = [run for run in alive if run.process == alive[-1].process] or next(iter(recorded.processes(known)), [])
    if alive:
        process = next((one for one in there if one.pid == runs[0].pid), None)
    program = runs[0].title if runs else name
    why = "" if alive else why_off(program, name, process)
    mode = _off_mode(runs) if alive or (runs and process is None) else ""
    facts = [("device" if alive else "last run under the layer", _device(run)) for run in runs]
    found = Status(bool(alive or runs) and not (why or mode), program=program, facts=facts)
    if alive or process is not None:
        found.pid = process.pid if process else runs[0].pid
        since = f", since {moment(runs[0].started, MINUTE)}" if alive else ""
        what = "under the layer" if found.on else f"and the layer does nothing in it: {why or mode}"
        found.answer = f"{program} is running (pid {found.pid}{since}) {what}"
    elif why or not runs:
        found.answer = why or f"{name} is not running, and no run of it under the layer is recorded"
    else:
        last = f"in the last run of {program}, {moment(runs[0].started, MINUTE)}"
        found.answer = f"{last}, the layer did nothing: {mode}" if mode else f"{last}; it is not running now"
    return found


def of_environment() -> Status:
    """Answers for programs that are started from here. Asks the loader whether it loads the layer. If it does not, the
    list of obstacles says why. The list also decides if there is no loader to ask."""
    asked = probe("instance", environment=os.environ).found
    version = asked.get("version")
    why = why_not(os.environ, loader_version(version) if version is not None else NEWEST)
    if asked.get("loaded") and DISABLE not in os.environ:
        why = ""
    elif "loaded" in asked and not why:
        why = f"{asked['library']} does not load it; VK_LOADER_DEBUG=layer,error pylayer run -- APP shows what it does"
    here = "programs that are started from here"
    return Status(not why, f"{here} run under the layer" if not why else f"in {here}: {why}. {HOW}")
