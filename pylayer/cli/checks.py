"""The checks of ``pylayer doctor`` that are not about single devices. Each check reports what it found and what to do
about it."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from .. import LAYER_NAME
from ..common.config import sources
from ..common.files import Scratch, replace_file
from ..common.paths import config_files, store_root, system_store_root
from ..report import recorded
from ..report.recorded import Run
from ..store.store import Store
from . import installed, layer_files
from .blocks import in_force, line
from .children import Outcome, probe
from .environment import DISABLE, LOG_LEVELS, obstacles, with_layer
from .output import human_bytes, one_line, plural
from .policy_explain import class_problem
from .policy_in_force import no_policy_file, read_policy

OK, WARNING, PROBLEM, SKIPPED = "ok", "warning", "problem", "skipped"

#: The first loader version that reads VK_ADD_LAYER_PATH, through which ``pylayer run`` shows it the manifest.
ADD_LAYER_PATH_SINCE = (1, 3, 207)
LOW_SPACE_BYTES = 256 << 20
#: Size of the trial write to the store: about one compiled pipeline.
TRIAL_BYTES = 4096

REINSTALL = "The layer cannot be loaded; install vk-pylayer again, as it was built for this machine (docs/install.md)."


@dataclass(frozen=True)
class Check:
    """The result of one check: what was found and, unless that is fine, what it means and what to do."""

    name: str
    status: str
    found: str
    advice: str = ""


def skipped(name: str, reason: str) -> Check:
    """Returns the result of a check that an earlier problem makes impossible."""
    return Check(name, SKIPPED, f"not checked: {reason}")


def check_loader(outcome: Outcome) -> Check:
    """Checks the Vulkan loader, as ``probe("devices")`` found it."""
    if "version" not in outcome.found:
        return Check(
            "loader",
            PROBLEM,
            f"the Vulkan loader cannot be used: {outcome.failure}",
            "No Vulkan program can start here. Install libvulkan1 (Debian, Ubuntu), vulkan-loader (Fedora) or "
            "vulkan-icd-loader (Arch).",
        )
    number = outcome.found["version"]
    version = (number >> 22 & 0x7F, number >> 12 & 0x3FF, number & 0xFFF)
    found = f"Vulkan {'.'.join(map(str, version))}, {outcome.found['library']}"
    if version < ADD_LAYER_PATH_SINCE:
        return Check(
            "loader",
            WARNING,
            found,
            f"pylayer run needs a loader of at least {'.'.join(map(str, ADD_LAYER_PATH_SINCE))}; with this one use "
            f"pylayer install and VK_INSTANCE_LAYERS={LAYER_NAME}.",
        )
    return Check("loader", OK, found)


def _broken_library() -> Check | None:
    """Reports which of the installation's libraries does not load, and why. Returns None if all load."""
    path = layer_files.library_path()
    if not path.is_file():
        return Check("layer", PROBLEM, f"{path} is missing", REINSTALL)
    if layer_files.private_python() is None:
        return Check("layer", PROBLEM, "the private copy of libpython is missing", REINSTALL)
    for library in (path, layer_files.policy_library()):
        outcome = probe("open", str(library)) if library is not None else None
        if outcome is not None and outcome.failure:
            return Check("layer", PROBLEM, f"{library} does not load: {outcome.failure}", REINSTALL)
        if library == path and outcome is not None and not outcome.found.get("negotiates"):
            return Check("layer", PROBLEM, f"{path} loads, but it is not a Vulkan layer", REINSTALL)
    return None


#: A line of the log: level, time, sentence, and the key=value pairs after it (docs/troubleshooting.md).
_LOG_LINE = re.compile(r'pylayer: (\w+): \S+Z (.*?)(?: [a-z_]+=(?:"(?:[^"\\]|\\.)*"|[^ "]*))*')


def _log_lines(path: Path) -> list[tuple[str, str]]:
    """Returns level and sentence of each line that the layer wrote."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    return [(found[1], found[2]) for line in lines if (found := _LOG_LINE.fullmatch(line))]


def _not_started(layers: list[str], failure: str, complaints: list[str]) -> Check:
    """Explains why the layer did not start in the trial program."""
    broken = _broken_library()
    if broken is not None:
        return broken
    if layers and LAYER_NAME not in layers:
        return Check(
            "layer",
            PROBLEM,
            f"the loader does not list {LAYER_NAME} under pylayer run",
            "Something disables it: VK_LOADER_LAYERS_DISABLE, a loader settings file (vkconfig), or a loader older "
            "than 1.3.207. VK_LOADER_DEBUG=layer,error pylayer run -- vulkaninfo --summary shows what the loader does.",
        )
    reason = complaints[0] if complaints else failure or "the loader did not load it"
    return Check("layer", PROBLEM, f"the layer did not start: {reason}", "Programs run without it.")


def try_layer(number: int, scratch: str) -> tuple[Check, list[Run], str]:
    """Runs a program with one pipeline on a device twice, in the environment that ``pylayer run`` makes. The program
    uses the user's policy file but a store in ``scratch``, so it leaves no statistics behind. Returns the check of the
    layer, the runs that the layer recorded, and how the program failed (empty text if it did not)."""
    log, store = Path(scratch, f"log-{number}"), str(Path(scratch, f"store-{number}"))
    none = str(Path(scratch, "none"))
    changes = {
        "PYLAYER_LOG": "debug",
        "PYLAYER_LOG_FILE": str(log),
        "PYLAYER_STORE": store,
        "PYLAYER_SYSTEM_STORE": none,
    }
    # Unset DISABLE, or the layer would not start. check_environment reports that variable.
    switched_on = {variable: value for variable, value in os.environ.items() if variable != DISABLE}
    environment = with_layer({**switched_on, **changes})
    for _ in range(2):
        outcome = probe("start", str(number), str(log), environment=environment)
        if outcome.failure:
            break
    runs = recorded.read(store)
    lines = _log_lines(log)
    complaints = [text for level, text in lines if level in ("error", "warn") or "the layer does nothing" in text]
    if not any(": carrier " in text for _, text in lines):
        return _not_started(outcome.found.get("layers", []), outcome.failure, complaints), runs, ""
    if complaints:
        said = "; ".join(dict.fromkeys(complaints))
        return Check("layer", WARNING, f"it starts, and says: {said}", "See the lines below."), runs, outcome.failure
    found = f"it starts in a program's process, with Python {layer_files.private_python_version()}"
    return Check("layer", OK, f"{found}: {layer_files.library_path()}"), runs, outcome.failure


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


def _try_writing(root: str) -> None:
    """Writes a file, flushes it to the disk and deletes it. Raises OSError."""
    with Scratch(root) as place:
        replace_file(os.path.join(place, "trial"), bytes(TRIAL_BYTES), sync=True)


def check_store() -> Check:
    """Checks that the store can be written to, by writing to it."""
    root = store_root()
    if root is None:
        return Check(
            "store",
            PROBLEM,
            "neither HOME, XDG_CACHE_HOME nor PYLAYER_STORE is set",
            "Nothing can be stored; set PYLAYER_STORE to a directory of your own.",
        )
    try:
        _try_writing(root)
        status, free = Path(root).stat(), shutil.disk_usage(root).free
    except OSError as error:
        instead = "Free some space" if error.errno == errno.ENOSPC else "Make it writable for you alone"
        return Check(
            "store",
            PROBLEM,
            f"{root} cannot be written: {error.strerror or error}",
            f"Pipelines are compiled again in every run. {instead}, or set PYLAYER_STORE.",
        )
    mode = stat.filemode(status.st_mode)
    found = f"{root} can be written ({mode}, user {status.st_uid}), {human_bytes(free)} free"
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
        return Check("blocks", OK, "nothing is set aside or switched off for a program")
    lines = [line(block) for block in found[:3]]
    more = [f"and {len(found) - 3} more"] if len(found) > 3 else []
    advice = f"pylayer ls shows all; pylayer rm {program or '--all'} --blocks ends them before their time."
    return Check("blocks", WARNING, ". ".join([*lines, *more]), advice)


def check_environment() -> list[Check]:
    """Checks this environment for everything that changes how the layer works."""
    checks = []

    def note(status: str, found: str, advice: str) -> None:
        checks.append(Check("environment", status, found, advice))

    if os.geteuid() != os.getuid() or os.getegid() != os.getgid():
        note(PROBLEM, "this process runs with another user's rights", "The layer does nothing in such programs.")
    elif os.geteuid() == 0 and os.environ.get("SUDO_USER"):
        found = f"sudo: root's store and policy were checked, not {os.environ['SUDO_USER']}'s"
        note(WARNING, found, "Run pylayer doctor without sudo.")
    for found, advice in obstacles(os.environ):
        note(WARNING, found, advice)
    if "VK_LAYER_PATH" in os.environ:
        note(
            WARNING,
            f"VK_LAYER_PATH={os.environ['VK_LAYER_PATH']} replaces the directories that the loader searches for layers",
            "pylayer run adds its own. The loader does not find an explicit layer that pylayer install registered.",
        )
    level = os.environ.get("PYLAYER_LOG", "")
    if level and level not in LOG_LEVELS:
        note(WARNING, f"PYLAYER_LOG={level} is not a level", f"Nothing is logged; levels are {', '.join(LOG_LEVELS)}.")
    return checks or [Check("environment", OK, "no variable hinders the layer")]
