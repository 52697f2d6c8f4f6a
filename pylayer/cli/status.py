"""Whether the layer is on for a program, or was on in its last run: the first lines of ``pylayer doctor``, and what
``pylayer run --summary`` says at the end.

A game that Steam starts has the environment that Steam gave it, which nobody can see from a shell. /proc can show it to
the process's owner.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ..common.paths import store_root
from ..report import recorded
from ..report.recorded import Run, comparable, is_named
from ..report.words import MINUTE, moment, plural
from ..store.store import Store
from ..values import Program
from .devices import probe
from .environment import DISABLE, NEWEST, container, loader_version, obstacles, why_not
from .manifests import LIBRARY_NAME, library_path
from .output import block_line, fail
from .policy_in_force import read_policy

#: The Vulkan loader: a process without it has not used Vulkan yet.
LOADER = "libvulkan.so"
#: The layer cuts longer names (shim/layer/process/program_name.h).
NAME_ROOM = 8192


# ---- running processes: what /proc says of them --------------------------------------------------------------


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()


def program_name(process: str) -> str:
    """Returns the name that the layer gives a process. ``process``: its directory in /proc. Raises OSError."""
    name = ctypes.create_string_buffer(NAME_ROOM)
    if ctypes.CDLL(str(library_path())).pylayer_program_name(name, process.encode()) != 0:
        raise FileNotFoundError(process)
    return name.value.decode("utf-8", "replace")


def _names(pid: int) -> list[str]:
    """Returns the names that people may have for a process, the layer's first: then a script's, argv[0] and
    the executable's. Raises OSError."""
    name = program_name(f"/proc/{pid}")
    executable = os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)"))
    called = os.path.basename(os.fsdecode(_read(pid, "cmdline").partition(b"\0")[0]))
    return [one for one in (name, name.removeprefix(f"{executable} "), called, executable) if one]


class Process:
    """A running process of this user. What /proc did not tell is None."""

    def __init__(self, pid: int, name: str) -> None:
        self.pid = pid
        self.name = name
        self.environment: dict[str, str] | None = None
        self.has_layer: bool | None = None
        self.has_vulkan: bool | None = None
        try:
            maps = _read(pid, "maps").decode("utf-8", "replace")
            self.has_layer, self.has_vulkan = LIBRARY_NAME in maps, LOADER in maps
            entries = (entry.partition("=") for entry in os.fsdecode(_read(pid, "environ")).split("\0"))
            self.environment = {name: value for name, equals, value in entries if equals}
        except OSError:
            pass  # it has ended, or does not let itself be looked at


def _pids() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            try:
                if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                    yield int(name)
            except OSError:
                continue  # it has ended


def _processes(takes: Callable[[int, list[str]], bool]) -> list[Process]:
    """Returns this user's processes that ``takes`` selects by number and names. Those with the layer come
    first, then those that use Vulkan."""
    found = []
    for pid in _pids():
        try:
            names = _names(pid)
            if takes(pid, names):
                found.append(Process(pid, names[0]))
        except OSError:
            continue  # it has ended, is a thread of the kernel, or does not let itself be looked at
    return sorted(found, key=lambda one: (not one.has_layer, not one.has_vulkan, one.pid))


def running(wanted: str, executables: set[str]) -> list[Process]:
    """Returns the processes that a person means by a name, or that run one of these executables."""
    known = {comparable(executable) for executable in executables}
    return _processes(lambda _, names: any(comparable(name) in known or is_named(wanted, name, 0) for name in names))


def of_session(session: str) -> list[Process]:
    """Returns the processes that were started with this ``PYLAYER_SESSION``."""
    variable = f"PYLAYER_SESSION={session}".encode()
    return _processes(lambda pid, _: variable in _read(pid, "environ").split(b"\0"))


# ---- is the layer on? ----------------------------------------------------------------------------------------

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

    #: Now, or in the last run.
    on: bool = False
    answer: str = ""
    program: str | None = None
    pid: int | None = None
    #: Name and text of each line below the answer.
    facts: list[tuple[str, str]] = field(default_factory=list)


# ---- why it is not on ------------------------------------------------------------------------------------


def _skipped(name: str, process: Process | None) -> str:
    """Returns the skip rule that excludes a program; empty text if none does."""
    from .policy import program_to_ask, skip_rule

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
    root = store_root()
    blocks = [block_line(block) for block in (Store(root).in_force(program) if root else []) if block.switches_off]
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
    """Answers for a program that a person names. If it runs, this command then uses the program's places."""
    known = recorded.named(store_root(), name)
    there = running(name, {run.executable for run in known})
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


# ---- the end of pylayer run --summary ------------------------------------------------------------------------

#: Programs that start others in containers, which have manifests and a store of their own.
CONTAINERS = ("flatpak", "snap", "docker", "podman")
#: How the file of a 32-bit program begins.
ELF_32 = b"\x7fELF\x01"


def of_file(path: str) -> str:
    """Returns why the layer does nothing in a program with this file; empty text if the file does not tell."""
    name = os.path.basename(path)
    if os.path.basename(os.path.realpath(path)) in CONTAINERS:
        return f"{name} starts programs in a container, which needs the layer and a store inside: docs/containers.md"
    try:
        elevated = os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID)
        if elevated or "security.capability" in os.listxattr(path):
            return f"{name} has elevated privileges, with which the layer does nothing"
        with open(path, "rb") as file:
            if file.read(len(ELF_32)) == ELF_32:
                return f"{name} is a 32-bit program, for which there is no layer"
    except OSError:
        pass
    return ""


def _why_nothing(command: str, environment: Mapping[str, str]) -> str:
    path, name = shutil.which(command) or command, os.path.basename(command)
    for found, _ in obstacles(environment):
        return found
    if found := of_file(path):
        return found
    nothing = f"nothing that {name} started created a Vulkan device under the layer"
    if off := why_off(name, name, None):
        return f"{nothing}, and {off}"
    return (
        "the program created no Vulkan device under the layer, a process that was already running started it, or the "
        "store cannot be written"
    )


def print_summary(root: str | None, session: str, command: str, environment: Mapping[str, str]) -> None:
    """Prints the table of the runs of processes that got ``session`` in their environment, and what of them still runs
    or why nothing was recorded, on standard error."""
    from ..report.rows import programs
    from .stats import print_tables

    found = [run for run in recorded.read(root) if run.session == session] if root else []
    if found:
        print_tables(programs(found), stderr=True)
    name = os.path.basename(shutil.which(command) or command)
    alive = [process for process in of_session(session) if process.has_layer or not found]
    if alive:
        others = f", and {len(alive) - 1} more" if len(alive) > 1 else ""
        fail(
            f"{name} has ended, and what it started still runs: {alive[0].name} (pid {alive[0].pid}){others}; "
            "pylayer stats --last shows its run once it has ended"
        )
    elif not found:
        why = _why_nothing(command, environment)
        fail(f"nothing was recorded: {why}; pylayer doctor {name} and pylayer run --log info show more")
