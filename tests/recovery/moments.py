"""Scenarios, which say how a store is filled and which run has the bad moment; and every moment that can be drawn."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline_binaries import APPLICATION
from recovery import damage
from recovery.beside import OTHERS
from world import BUILD, PACKAGE

# ---- scenarios ---------------------------------------------------------------------------------------

EIGHT = ("--count", "8")
EIGHT_13 = ("--api", "1.3", *EIGHT)
TWELVE = ("--count", "12")


@dataclass(frozen=True)
class Scenario:
    """One world. Arguments are those of its program."""

    name: str
    #: The runs that fill the store.
    before: tuple[tuple[str, ...], ...]
    #: The run with the bad moment, and each run after it.
    arguments: tuple[str, ...]
    #: What the scripted driver is (tests/driver/driver.h).
    script: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    driver: str = "test"
    program: tuple[str, ...] = (str(BUILD / "demo" / "pipelines"), "--json")


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("warm", (EIGHT, EIGHT), EIGHT),
        Scenario("more", (EIGHT, EIGHT), TWELVE),
        Scenario("first", (), EIGHT),
        Scenario("own cache", (("--cache", "cache", "--cache-save", "cache", *EIGHT),) * 2,
                 ("--cache", "cache", "--cache-save", "cache", *TWELVE)),
        Scenario("binaries", (EIGHT_13, EIGHT_13), ("--api", "1.3", *TWELVE), settings={"mode": "binaries"}),
        Scenario("strict own cache", (("--cache", "cache", "--cache-save", "cache", *EIGHT),) * 2,
                 ("--cache", "cache", "--cache-save", "cache", *TWELVE), settings={"application_caches": "strict"}),
        Scenario("strict own binaries", ((*EIGHT, "--archive", "archive", "--source", "capture"),) * 2,
                 (*TWELVE, "--archive", "archive", "--source", "capture"),
                 settings={"application_caches": "strict"}, program=APPLICATION),
        Scenario("libraries", (("--gpl", "--count", "2"),) * 2, ("--gpl", "--count", "3")),
        Scenario("deferred", (("--ray-tracing", "--deferred", "1", "--count", "4"),) * 2,
                 ("--ray-tracing", "--deferred", "1", "--count", "6")),
        Scenario("compaction", tuple((*EIGHT, "--seed", str(seed)) for seed in range(1, 18)), (*EIGHT, "--seed", "20")),
        Scenario("ends badly", (EIGHT, EIGHT), (*EIGHT, "--exit", "_exit")),
        Scenario("RADV warm", (EIGHT, EIGHT), EIGHT, driver="radv"),
        Scenario("RADV more", (EIGHT, EIGHT), TWELVE, driver="radv"),
        Scenario("RADV first", (), EIGHT, driver="radv"),
    )
}  # fmt: skip

# ---- moments -----------------------------------------------------------------------------------------

#: Results that vkCreate* and the like return, by the names of tests/driver, or as numbers.
RESULTS = (
    "out-of-host-memory", "out-of-device-memory", "initialization-failed", "device-lost", "too-many-objects",
    "invalid-external-handle", "fragmentation", "feature-not-present", "invalid-shader", "unknown", "incomplete",
    "not-ready", "compile-required", "missing", "not-enough-space", "2", "-5", "-6", "-7", "-9", "1000268000",
)  # fmt: skip
COMMANDS = (
    "create-instance", "create-device", "create-object", "create-cache", "destroy-cache", "get-data", "merge",
    "create-pipelines", "pipeline", "get-key", "create-binaries", "binary-data", "release-captured", "create-more",
    "join", "get-result", "allocate",
)  # fmt: skip
#: What returns nothing, or fails in one way alone.
RESULTS_OF: dict[str, tuple[str, ...]] = {"destroy-cache": (), "allocate": ("out-of-host-memory",)}
#: Answers that are no results.
ANSWERS = {
    "create-cache": ("null", "ignore"),
    "get-data": (
        "empty", "grow", "incomplete", "overstate", "shrink", "garbage", "stub", "header:short", "header:version",
        "header:vendor", "header:device", "header:uuid", "header:length", "header:zero",
    ),
    "merge": ("ignore",),
    "pipeline": ("null", "ignore"),
    "get-key": ("zero", "long"),
    "create-binaries": ("missing", "incomplete", "partial:1"),
    "binary-data": ("grow", "garbage"),
    "join": ("late",),
}  # fmt: skip
DEATHS = ("kill", "abort", "exit")
#: Errors by system call; for others, OTHER_ERRORS.
ERRORS = {
    call: tuple(errors.split())
    for calls, errors in {
        "openat": "EMFILE ENFILE EIO ENOMEM EINTR EACCES",
        "openat+": "EMFILE EIO ENOMEM ENOSPC EINTR EROFS",
        "read pread64": "EIO EINTR ENOMEM",
        "write pwrite64 writev ftruncate fallocate fsync fdatasync": "EIO ENOSPC EINTR",
        "close": "EIO EINTR",
        "getdents64": "EIO ENOMEM EINTR",
        "fcntl": "EMFILE EINTR EIO",
        "rename renameat2": "EIO ENOSPC EACCES",
        "mkdir mkdirat": "EIO ENOSPC EMLINK",
        "unlink unlinkat": "EIO EACCES",
        "mmap": "ENOMEM EMFILE",
        "mprotect madvise mlock mremap": "ENOMEM",
        "clone clone3": "EAGAIN ENOMEM",
        "memfd_create": "EMFILE ENOMEM",
        "getrandom": "EINTR ENOSYS",
    }.items()
    for call in calls.split()
}
OTHER_ERRORS = ("EIO", "ENOMEM", "EINTR")
TRANSFERS = ("read", "pread64", "readv", "preadv", "write", "pwrite64", "writev", "pwritev", "pwritev2")
#: What Mesa documents to change what RADV compiles or keeps.
RADV_DEBUG = (
    "nocache", "shaders", "spirv", "preoptir", "nir", "asm", "shaderstats", "nooptvariant", "nomeshshader", "llvm",
    "info", "metashaders", "nongg", "nodcc", "zerovram", "invariantgeom", "splitfma",
)  # fmt: skip
VARIABLES = (
    *({"RADV_DEBUG": value} for value in RADV_DEBUG),
    {"RADV_PERFTEST": "nosam"},
    {"RADV_PERFTEST": "cswave32"},
    {"MESA_SHADER_CACHE_DISABLE": "0"},
    {"MESA_VK_VERSION_OVERRIDE": "1.1"},
    {"NIR_DEBUG": "print"},
    {"ACO_DEBUG": "noopt"},
    {"MESA_LOADER_DRIVER_OVERRIDE": "radeonsi"},
)


@dataclass(frozen=True)
class Moment:
    """One bad moment of one run."""

    #: driver result, driver answer, hang, driver death, system call, short transfer, death, reboot, variable, ...
    kind: str
    scenario: str
    #: Describes it, and with --like draws it again.
    name: str
    #: Statements for the scripted driver.
    script: str = ""
    #: Of tests/recovery/moment.py: which call, and what becomes of it.
    call: str = ""
    action: str = ""
    variables: dict[str, str] = field(default_factory=dict, hash=False)
    arguments: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    umask: int = -1
    #: Seconds that the clock is ahead; negative: behind.
    ahead: int = 0
    #: What is damaged before it: arguments of damage.damage.
    damage: tuple[str, str, int] | tuple[()] = ()
    #: The run ends by it.
    dies: bool = False
    #: The machine starts anew after it, and what was not synced is lost.
    reboot: bool = False
    #: What others do with the store meanwhile: beside.OTHERS.
    beside: str = ""
    #: The command in which the clean runs run.
    later: tuple[str, ...] = ()
    #: After so long the run is killed. 0: it must end by itself.
    seconds: float = 0

    @property
    def at(self) -> tuple[str, ...]:
        """Arguments of tests/recovery/moment.py."""
        return (self.call, self.action) if self.call else ()

    @property
    def may_crash(self) -> bool:
        """Whether the program may crash. What it does after a wrong answer of the driver, other tests judge."""
        return self.dies or bool(self.script)

    def __str__(self) -> str:
        return f"{self.scenario}: {self.kind}: {self.name}"

    @property
    def again(self) -> str:
        """The command that draws it again."""
        options = ["--moments", "0", "--in", self.scenario, "--only", self.kind, "--like", self.name]
        return f".venv/bin/python -P tests/recovery/run.py {shlex.join(options)}"


def of_driver(scenario: str, commands: dict[str, int]) -> Iterator[Moment]:
    """Moments of each call that the driver gets."""
    for command in COMMANDS:
        for index in range(1, commands.get(command, 0) + 1):
            for result in RESULTS_OF.get(command, RESULTS):
                script = f"{command}=error:{result}@{index}"
                yield Moment("driver result", scenario, script, script)
            for answer in ANSWERS.get(command, ()):
                script = f"{command}={answer}@{index}"
                yield Moment("driver answer", scenario, script, script)
            if command == "allocate":
                continue
            for death in (*DEATHS, "crash"):
                script = f"{command}={death}@{index}"
                yield Moment("driver death", scenario, script, script, dies=True)
                if death == "kill":
                    yield Moment("driver reboot", scenario, script, script, dies=True, reboot=True)
            script = f"{command}=slow:1000@{index}"
            yield Moment("hang of a second", scenario, script, script)
            script = f"{command}=hang@{index}"
            yield Moment("hang", scenario, script, script, dies=True, seconds=3)


def of_calls(scenario: str, calls: list[str]) -> Iterator[Moment]:
    """Moments of each system call, from the lines of moment.py."""
    for line in calls:
        place, call, *about = line.split(" ")
        name = f"{place} {call} {' '.join(about)}"
        where = f"{place}.{call.removesuffix('+')}"

        def moment(kind: str, action: str, dies: bool = False, where: str = where, name: str = name) -> Moment:
            return Moment(kind, scenario, f"{name}: {action}", call=where, action=action, dies=dies)

        for error in ERRORS.get(call, OTHER_ERRORS):
            yield moment("system call", f"error:{error}")
        if call in TRANSFERS:
            yield moment("short transfer", "short")
        if call in TRANSFERS and "write" in call:
            yield moment("death", "torn", dies=True)
            yield replace(moment("reboot", "torn", dies=True), reboot=True)
        for death in DEATHS:
            yield moment("death", death, dies=True)
        yield replace(moment("reboot", "kill", dies=True), reboot=True)


def of_run(scenario: str, driver: str) -> Iterator[Moment]:
    """Moments of a run as a whole."""
    for umask in (0o000, 0o002, 0o077, 0o777):
        yield Moment("umask", scenario, f"{umask:03o}", umask=umask)
    for name, seconds in (("an hour back", -3600), ("a year ahead", 365 * 86400), ("a year back", -365 * 86400)):
        yield Moment("clock", scenario, name, ahead=seconds)
    for ending in ("return", "exit", "_exit", "abort"):
        yield Moment("ending", scenario, ending, arguments=("--exit", ending), dies=ending == "abort")
    for files in (*range(3, 24), 32, 64):
        limit = ("prlimit", f"--nofile={files}")
        yield Moment("limit", scenario, f"{files} descriptors", prefix=limit)
    for size in (0, 1, 100, 4000, 8191):
        yield Moment("limit", scenario, f"files of {size} bytes", prefix=("prlimit", f"--fsize={size}"), dies=True)
    for variables in VARIABLES if driver == "radv" else ():
        text = " ".join(f"{key}={value}" for key, value in variables.items())
        yield Moment("variable", scenario, text, variables=dict(variables))


#: Slows the program down, so that others finish while it runs.
SLOW = "create-device=slow:50;pipeline=slow:10;create-cache=slow:10"
#: Commands for a container with process numbers of its own, and for one with mounts of its own: an overlay over the
#: package, as in an image.
CONTAINER = ("unshare", *(() if os.geteuid() == 0 else ("-r",)), "--pid", "--fork", "--kill-child", "--mount-proc")
IMAGE = (
    "unshare", *(() if os.geteuid() == 0 else ("-r",)), "--mount", "sh", "-ec",
    'mount -t tmpfs none apart/image && mkdir apart/image/u apart/image/w && '
    'mount -t overlay overlay -o "lowerdir=$0,upperdir=apart/image/u,workdir=apart/image/w" "$0" && exec "$@"',
    str(PACKAGE),
)  # fmt: skip


def of_others(scenario: str, driver: str, commands: dict[str, int], calls: list[str]) -> Iterator[Moment]:
    """Moments beside others, and in containers."""
    if driver != "test" or scenario == "ends badly":
        return  # A program that ends at once stores nothing, so that what `rm` removed is not stored again.
    deaths = [f"{name}={death}@{commands[name]}" for name in ("create-cache", "pipeline") for death in DEATHS]
    places = [line.split(" ")[0] for line in calls if "/store/" in line][::17]
    for other in OTHERS:
        yield Moment("beside others", scenario, other, SLOW, beside=other)
        for death in deaths:
            yield Moment("beside others", scenario, f"{other}: {death}", f"{SLOW};{death}", dies=True, beside=other)
        for place in places:
            for action in ("kill", "error:EIO"):
                call = Moment("beside others", scenario, f"{other}: {place}: {action}", SLOW, place, action)
                yield replace(call, dies=action == "kill", beside=other)
    for kind, prefix in (("container", CONTAINER), ("image", IMAGE)):
        yield Moment(kind, scenario, "undisturbed", prefix=prefix, later=prefix)
        for death in deaths:
            yield Moment(kind, scenario, death, death, dies=True, prefix=prefix, later=prefix)
            yield Moment(kind, scenario, f"{death}, then outside", death, dies=True, prefix=prefix)


#: Each kind of damage can be drawn with so many seeds.
SEEDS = 300


def of_damage(scenario: str) -> Iterator[Moment]:
    """Moments before a run: its files are damaged."""
    for target, kind in damage.names(scenario):
        for seed in range(SEEDS):
            yield Moment(f"damage: {target}", scenario, f"{kind} {seed}", damage=(target, kind, seed))


def all_of(scenario: str, driver: str, commands: dict[str, int], calls: list[str]) -> list[Moment]:
    """Every moment that can be drawn."""
    if scenario.startswith("strict"):
        return list(of_damage(scenario))
    found = [
        *(of_driver(scenario, commands) if driver == "test" else ()),
        *of_calls(scenario, calls),
        *of_run(scenario, driver),
        *of_others(scenario, driver, commands, calls),
        *of_damage(scenario),
    ]
    # A program that ends at once, without its exit handlers, stores nothing: what is blocked after a death is not
    # stored anew.
    return [moment for moment in found if not (moment.dies and scenario == "ends badly")]
