"""``pylayer doctor``: whether the layer is on, whether it works here, and what it does for each device.

It has checks, each with what to do, and a program that it runs on each device under the layer.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from .. import LAYER_NAME
from ..common.config import sources
from ..common.files import Scratch, replace_file
from ..common.paths import config_files, store_root, system_store_root
from ..report import recorded
from ..report.words import human_bytes, one_line, plural, printable
from ..store.store import Store
from ..values import MODE_NAMES, MODES_THAT_KEEP, DeviceFacts
from . import manifests
from .devices import Outcome, listed, probe
from .environment import DISABLE, ELEVATED, LOG_LEVELS, container, loader_version, obstacles, with_layer
from .output import Failure, block_line, console, end_if, json_option, picked, print_facts, print_json, progress
from .policy import class_problem
from .policy_in_force import no_policy_file, read_policy
from .selection import NAMES, Names, Selection

if TYPE_CHECKING:
    from rich.console import Console

PAGE = "docs/containers.md"

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
    found = manifests.find()
    if not found:
        return Check("installed", OK, "no; pylayer run needs no installation")
    counts = [manifest for kind in manifests.KINDS if (manifest := manifests.in_force(found, kind))]
    wrong = next((manifest for manifest in found if not manifest.is_ours), None)
    if wrong is None:
        build = manifests.build_id()[: manifests.SHORT]
        return Check("installed", OK, f"build {build}; " + "; ".join(f"{each.kind}: {each.path}" for each in counts))
    ignored = "" if wrong in counts else ". The loader ignores it, because another one comes first"
    advice = "pylayer install makes it lead to this one, with --system and as root where it is for all users."
    return Check("installed", WARNING, f"{wrong.path} leads to {manifests.state(wrong)}{ignored}", advice)


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


def check_blocks(root: str | None, program: str | None) -> Check:
    """Reports what earlier runs decided that makes programs' later runs worse. ``program``: only about this one."""
    found = Store(root).in_force(program) if root else []
    if not found:
        return Check("blocks", OK, "nothing is blocked or switched off for a program")
    lines = [block_line(block) for block in found[:3]]
    more = [f"and {len(found) - 3} more"] if len(found) > 3 else []
    advice = f"pylayer ls shows all; pylayer rm {program or '--all'} --blocks ends them before their time."
    return Check("blocks", WARNING, ". ".join([*lines, *more]), advice)


def check_recordings(root: str | None, program: str | None) -> list[Check]:
    """Reports which programs have stored pipelines that ``pylayer rebuild`` knows nothing of. ``program``: only this
    one. Nothing if all are recorded, or if no state is to be."""
    if root is None or not (read_policy()[0].get("settings") or {}).get("record_state", True):
        return []
    from ..store import state

    store, names = Store(root), Names(root)
    partitions = Selection().partitions(store, names)
    found = []
    for number in sorted({number for partition in partitions for number in partition.holdings}):
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


KEEPING = [MODE_NAMES[mode] for mode in MODES_THAT_KEEP]
#: The first loader version that reads VK_ADD_LAYER_PATH, through which ``pylayer run`` shows it the manifest.
ADD_LAYER_PATH_SINCE = (1, 3, 207)
#: A line of the log: level, time, sentence and process.
_LOG_LINE = re.compile(r"pylayer: (\w+): \S+Z (.*) pid=\d+")

#: A physical device, and the result of running a program with one pipeline on it twice under the layer.
Device = dict[str, Any]


def check_container(root: str | None) -> list[Check]:
    """Checks whether the store outlives the container that doctor runs in."""
    name, place = container(os.environ), root or ""
    while place and not os.path.exists(place):
        place = os.path.dirname(place)
    if not name or not place:
        return []
    if os.stat(place).st_dev == os.stat("/").st_dev:
        found = f"{name}: the store {root} is in the container's own file system and is lost with it"
        return [Check("container", WARNING, found, f"Mount a volume there, or set PYLAYER_STORE to one: {PAGE}.")]
    return [Check("container", OK, f"{name}: the store is not in the container's own file system")]


# ---- the loader and the layer ------------------------------------------------------------------------------


def _check_loader(outcome: Outcome) -> Check:
    if "version" not in outcome.found:
        advice = (
            "No Vulkan program can start here. Install libvulkan1 (Debian, Ubuntu), vulkan-loader (Fedora) or "
            "vulkan-icd-loader (Arch)."
        )
        return Check("loader", PROBLEM, f"the Vulkan loader cannot be used: {outcome.failure}", advice)
    version = loader_version(outcome.found["version"])
    found = f"Vulkan {'.'.join(map(str, version))}, {outcome.found['library']}"
    if version >= ADD_LAYER_PATH_SINCE:
        return Check("loader", OK, found)
    least = ".".join(map(str, ADD_LAYER_PATH_SINCE))
    advice = f"pylayer run needs a loader of at least {least}; with this one use pylayer install and "
    return Check("loader", WARNING, found, f"{advice}VK_INSTANCE_LAYERS={LAYER_NAME}.")


def _broken() -> str:
    """Returns which part of the installation does not load, and why; empty text if all load."""
    path = manifests.library_path()
    if not path.is_file():
        return f"{path} is missing"
    if manifests.private_python() is None:
        return "the private copy of libpython is missing"
    for library in filter(None, (path, manifests.policy_library())):
        outcome = probe("open", str(library))
        if outcome.failure:
            return f"{library} does not load: {outcome.failure}"
        if library == path and not outcome.found.get("negotiates"):
            return f"{path} loads, but it is not a Vulkan layer"
    return ""


def _not_started(layers: list[str], failure: str, complaints: list[str]) -> Check:
    """Explains why the layer did not start in the trial program."""
    found = f"the layer did not start: {complaints[0] if complaints else failure or 'the loader did not load it'}"
    advice = "Programs run without it."
    if broken := _broken():
        found = broken
        advice = (
            "The layer cannot be loaded; install vk-pylayer again, as it was built for this machine (docs/install.md)."
        )
    elif layers and LAYER_NAME not in layers:
        found = f"the loader does not list {LAYER_NAME} under pylayer run"
        advice = (
            "Something disables it: VK_LOADER_LAYERS_DISABLE, a loader settings file (vkconfig), or a loader older "
            "than 1.3.207. VK_LOADER_DEBUG=layer,error pylayer run -- vulkaninfo --summary shows what the loader does."
        )
    return Check("layer", PROBLEM, found, advice)


def _log_lines(path: Path) -> list[tuple[str, str]]:
    """Returns level and sentence of each line that the layer wrote."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    return [(found[1], found[2]) for line in lines if (found := _LOG_LINE.fullmatch(line))]


# ---- devices -----------------------------------------------------------------------------------------------


#: How a device was judged: its status, what was tried, and what to do.
JUDGED = {
    "failed": (
        PROBLEM,
        "a program with one pipeline failed: {failure}",
        "Try it with DISABLE_PYLAYER=1. If it also fails without the layer, look for a newer driver.",
    ),
    "not tried": (SKIPPED, "", ""),
    "off": (WARNING, "nothing is stored for this device", ""),
    "found": (OK, "a program compiled a pipeline, and its second run found it in the store", ""),
    "not found": (
        WARNING,
        "a program compiled a pipeline, and its second run did not find it",
        "The driver gives nothing to store for it or does not find it again, or the policy file keeps it out of the "
        "store.",
    ),
}


def _judged(runs: list[recorded.Run], failure: str) -> Device:
    """Judges a device by its runs. There are two runs if all went well. ``failure`` says how the program failed."""
    device, how = dict.fromkeys(("identity", "mode", "reason"), ""), "failed" if failure else "not tried"
    if runs and not failure:
        last = runs[-1]
        device = {"identity": last.identity, "mode": last.texts["mode"], "reason": last.texts["reason"]}
        finds = last.numbers["fetched"] and not last.sums["compiled"]
        how = "off" if device["mode"] not in KEEPING else "found" if finds else "not found"
    status, tried, advice = JUDGED[how]
    return {**device, "status": status, "tried": tried.format(failure=failure), "advice": advice}


def _try_device(number: int, facts: DeviceFacts, scratch: str) -> tuple[Check, Device]:
    """Runs a program with one pipeline on a device twice, in the environment that ``pylayer run`` makes. The program
    uses the user's policy file but a store in ``scratch``, so it leaves no statistics behind. Returns the check of the
    layer, and the device."""
    names = {"name": facts.device_name, "driver": facts.driver_name, "driver_info": facts.driver_info}
    log, store = Path(scratch, f"log-{number}"), str(Path(scratch, f"store-{number}"))
    changes = {
        "PYLAYER_LOG": "debug",
        "PYLAYER_LOG_FILE": str(log),
        "PYLAYER_STORE": store,
        "PYLAYER_SYSTEM_STORE": str(Path(scratch, "none")),
    }
    # Unset DISABLE, or the layer would not start. check_environment reports that variable.
    environment = with_layer({name: value for name, value in os.environ.items() if name != DISABLE} | changes)
    outcome = probe("start", str(number), str(log), environment=environment)
    if not outcome.failure:
        outcome = probe("start", str(number), str(log), environment=environment)
    lines = _log_lines(log)
    complaints = [text for level, text in lines if level in ("error", "warn") or "the layer does nothing" in text]
    is_started = any(": mode " in text for _, text in lines)
    device = {"number": number, **names, **_judged(recorded.read(store), outcome.failure if is_started else "")}
    if not is_started:
        return _not_started(outcome.found.get("layers", []), outcome.failure, complaints), device
    if complaints:
        said = "; ".join(dict.fromkeys(complaints))
        return Check("layer", WARNING, f"it starts, and says: {said}", "See the lines below."), device
    found = f"it starts in a program's process, with Python {manifests.private_python_version()}"
    return Check("layer", OK, f"{found}: {manifests.library_path()}"), device


def _try_devices(present: Outcome) -> tuple[list[Check], list[Device]]:
    """Tries the layer on each device of ``probe("devices")``. Returns the checks of the layer, a bad one if any device
    had one, and of the devices; and the devices."""
    facts, problem = listed(present)
    if problem:
        advice = "Install the Vulkan driver of your GPU, such as mesa-vulkan-drivers; VK_DRIVER_FILES chooses one."
        layer = Check("layer", SKIPPED, "not checked: a driver must work first")
        return [layer, Check("devices", PROBLEM, problem, advice)], []
    with TemporaryDirectory(prefix="pylayer-doctor-") as scratch:
        try:
            tried = [_try_device(number, one, scratch) for number, one in enumerate(facts)]
        except Failure as failure:
            tried = [(Check("layer", PROBLEM, failure.message, "pylayer run starts programs without the layer."), {})]
    layer = next((check for check, _ in tried if check.status != OK), tried[0][0])
    devices = [device for _, device in tried if device]
    if layer.status == PROBLEM:
        return [layer, Check("devices", SKIPPED, "not checked: the layer must start first")], devices
    states, count = [device["status"] for device in devices], plural(len(devices), "device")
    if OK in states:
        return [layer, Check("devices", OK, f"{count}; pipelines of {states.count(OK)} are stored")], devices
    status, found = PROBLEM if PROBLEM in states else WARNING, f"{count}; no pipelines are stored"
    return [layer, Check("devices", status, found, "See the devices below.")], devices


def examine() -> tuple[list[Check], list[Device]]:
    """Runs all checks. Returns them, and the devices."""
    present = probe("devices")
    devices: list[Device] = []
    loader = _check_loader(present)
    tried = [Check(name, SKIPPED, "not checked: the loader must work first") for name in ("layer", "devices")]
    if loader.status != PROBLEM:
        tried, devices = _try_devices(present)
    layer, found = tried
    return [loader, layer, *limits(), *check_environment(), *check_container(store_root()), found], devices


def limits(program: str | None = None) -> list[Check]:
    """Returns the checks of what limits the layer, for one program or for all. They start nothing on a device."""
    store = check_store()
    root = store_root() if store.status != PROBLEM else None
    kept = [store, *check_system_store(), check_blocks(root, program), *check_recordings(root, program)]
    return [check_policy(), *kept, check_installed()]


# ---- the command ---------------------------------------------------------------------------------------------

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
    from . import status

    answer = status.of_program(name) if name else status.of_environment()
    devices: list[Device] = []
    if name:
        found = limits(answer.program)
    else:
        # Each check runs in a process of its own, which may take up to a minute.
        with progress("checking", None, as_json):
            found, devices = examine()
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
    end_if(not answer.on if name else problems)
