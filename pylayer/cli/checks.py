"""The checks of ``pylayer doctor`` that are not about single devices. Each check reports what it found and what to do
about it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from ..common.config import sources
from ..common.files import Scratch, replace_file
from ..common.paths import config_files, store_root, system_store_root
from ..store.store import Store
from . import installed, layer_files
from .blocks import in_force, line
from .environment import ELEVATED, LOG_LEVELS, obstacles
from .output import human_bytes, one_line, plural
from .policy_explain import class_problem
from .policy_in_force import no_policy_file, read_policy
from .selection import Names, Selection

OK, WARNING, PROBLEM, SKIPPED = "ok", "warning", "problem", "skipped"

LOW_SPACE_BYTES = 256 << 20
#: Size of the trial write to the store: about one compiled pipeline.
TRIAL_BYTES = 4096


@dataclass(frozen=True)
class Check:
    """The result of one check: what was found and, unless that is fine, what it means and what to do."""

    name: str
    status: str
    found: str
    advice: str = ""


def check_policy() -> Check:
    """Checks the policy files. The layer ignores a policy file that is not valid."""
    system, user = config_files()
    document, problem = read_policy()
    if problem:
        named = "PYLAYER_CONFIG names the file. " if os.environ.get("PYLAYER_CONFIG") else ""
        advice = f"{named}pylayer policy check shows where it is wrong."
        return Check("policy", WARNING, one_line(problem), advice)
    files = [file for file in (system, user) if file]
    if not files:
        return Check("policy", OK, no_policy_file())
    wrong = class_problem(sources(*files), *reversed(files)) if document.get("policy") else ""
    if wrong:
        found = f"{files[-1]} is valid, but not its policy class: {wrong}"
        return Check("policy", WARNING, found, "pylayer policy check tries it again.")
    return Check("policy", OK, f"{user} is valid, over {system}" if len(files) == 2 else f"{files[0]} is valid")


def check_installed() -> Check:
    """Checks the manifests that ``pylayer install`` wrote, from any installation, and reports which of them takes
    effect."""
    found = installed.find()
    if not found:
        return Check("installed", OK, "no; pylayer run needs no installation")
    counts = [manifest for kind in installed.KINDS if (manifest := installed.in_force(found, kind))]
    wrong = next((manifest for manifest in found if not manifest.is_ours), None)
    if wrong is None:
        build = layer_files.build_id()[: layer_files.SHORT]
        return Check("installed", OK, f"build {build}; " + "; ".join(f"{each.kind}: {each.path}" for each in counts))
    ignored = "" if wrong in counts else ". The loader ignores it, because another one comes first"
    advice = "pylayer install makes it lead to this one, with --system and as root where it is for all users."
    return Check("installed", WARNING, f"{wrong.path} leads to {installed.state(wrong)}{ignored}", advice)


def check_store() -> Check:
    """Checks that the store can be written to, by writing to it."""
    root = store_root()
    if root is None:
        advice = "Nothing can be stored; set PYLAYER_STORE to a directory of your own."
        return Check("store", PROBLEM, "neither HOME, XDG_CACHE_HOME nor PYLAYER_STORE is set", advice)
    is_new = not os.path.lexists(root)
    try:
        with Scratch(root) as place:
            replace_file(os.path.join(place, "trial"), bytes(TRIAL_BYTES), sync=True)
        status, free = Path(root).stat(), shutil.disk_usage(root).free
        if is_new and not os.listdir(root):  # a check leaves nothing behind
            os.rmdir(root)
    except OSError as error:
        instead = "Free some space" if error.errno == errno.ENOSPC else "Make it writable for you alone"
        advice = f"Pipelines are compiled again in every run. {instead}, or set PYLAYER_STORE."
        return Check("store", PROBLEM, f"{root} cannot be written: {error.strerror or error}", advice)
    found = f"{root} can be written ({stat.filemode(status.st_mode)}, user {status.st_uid}), {human_bytes(free)} free"
    if free < LOW_SPACE_BYTES:
        return Check("store", WARNING, found, "Pipelines that do not fit on the disk are not stored.")
    return Check("store", OK, found)


def check_system_store() -> list[Check]:
    """Checks that this user's programs can use the system's store. Returns nothing if there is none."""
    root = system_store_root()
    count, problems = Store(root).usable_packs()
    if not count and not problems:
        return []
    usable = f"{root}: {plural(count, 'pack')} can be used"
    if not problems:
        return [Check("system store", OK, usable)]
    found = f"{usable}, not {problems[0]}" + (f", and {len(problems) - 1} more" if len(problems) > 1 else "")
    return [Check("system store", WARNING, found, f"As root: chown -R root {root}; chmod -R u=rwX,go=rX {root}")]


def check_blocks(root: str | None, program: str | None = None) -> Check:
    """Reports what earlier runs decided that makes programs' later runs worse. ``program``: only about this one."""
    found = in_force(root, program)
    if not found:
        return Check("blocks", OK, "nothing is blocked or switched off for a program")
    lines = [line(block) for block in found[:3]]
    more = [f"and {len(found) - 3} more"] if len(found) > 3 else []
    advice = f"pylayer ls shows all; pylayer rm {program or '--all'} --blocks ends them before their time."
    return Check("blocks", WARNING, ". ".join([*lines, *more]), advice)


def check_recordings(root: str | None, program: str | None = None) -> list[Check]:
    """Reports which programs have stored pipelines that ``pylayer rebuild`` knows nothing of. ``program``: only this
    one. Nothing if all are recorded, or if no state is to be."""
    if root is None or not (read_policy()[0].get("settings") or {}).get("record_state", True):
        return []
    from ..store import state

    store, names = Store(root), Names(root)
    partitions = Selection().partitions(store, names)
    found = []
    for number in sorted({number for partition in partitions for number in partition.programs}):
        if program is None or names.matches(number, program):
            known = state.read(root, number)
            if lacks := len(state.lacking(partitions, known)):
                found.append((names.of(number), lacks, lacks + len(known.created)))
    if not found:
        return []
    worst, lacks, count = max(found, key=lambda one: one[1])
    others = f", and {plural(len(found) - 1, 'more program')}" if len(found) > 1 else ""
    what = f"{lacks} of {plural(count, 'pipeline')} of {worst} are stored without a recording{others}"
    advice = "pylayer rebuild cannot compile these for another driver. It has the next runs record what they create."
    return [Check("recordings", WARNING, what, advice)]


def check_environment() -> list[Check]:
    """Checks this environment for everything that changes how the layer works."""
    found = [(PROBLEM if what == ELEVATED else WARNING, what, advice) for what, advice in obstacles(os.environ)]
    if os.geteuid() == 0 and "SUDO_USER" in os.environ:
        what = f"sudo: root's store and policy were checked, not {os.environ['SUDO_USER']}'s"
        found.insert(0, (WARNING, what, "Run pylayer doctor without sudo."))
    level = os.environ.get("PYLAYER_LOG", "")
    if level and level not in LOG_LEVELS:
        levels = f"Nothing is logged; levels are {', '.join(LOG_LEVELS)}."
        found.append((WARNING, f"PYLAYER_LOG={level} is not a level", levels))
    return [Check("environment", *each) for each in found or [(OK, "no variable hinders the layer", "")]]
