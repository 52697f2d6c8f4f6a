"""Programs that end in unusual ways, use signals, fork, change their environment, have a Python of their own, use
Vulkan inside of dlopen, are built with a sanitizer, have resource limits, run in a sandbox, or have other descriptors
and directories than they began with."""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
import subprocess
import time
from bisect import bisect_left
from pathlib import Path

import pytest
from host_steps import END, HOST, STORED, hits_again, run_host, stored, waits
from world import BUILD, PACKAGE, World, said

from pylayer import LAYER_NAME
from pylayer.common import file_kinds

#: The driver of tests/driver, where the driver does nothing at the end of a process.
QUICK = True


THREE = "instance device pipelines 3"
RUN = [*THREE.split(), *END]
OPEN, CLOSE = " ".join(STORED), " ".join(END)
#: What a program still does when it ends.
LAST = "pipelines 3 destroy-device then"
#: An ordinary user has nothing to be favoured with where there is only one processor.
MAY_BE_PRIVILEGED = os.geteuid() == 0 or len(os.sched_getaffinity(0)) > 1
#: Programs of steps, what they print and how often, and how many pipelines the next program finds. The layer works in
#: each, and stores all pipelines.
GOES_ON: dict[str, tuple[str, str, int, int]] = {
    "all signals are blocked": (f"block-signals {THREE} {CLOSE}", "", 0, 3),
    "the layer changes no handler and no mask": (
        f"check-all-default {OPEN} check-all-default {CLOSE} check-all-default", "handlers: 0, blocked: 0", 3, 3
    ),
    # Before kill() returns, on one of the program's threads.
    **{
        f"a handler of {name}": (
            f"handle {name} {OPEN} send {name} check-handler {name} {CLOSE} send {name}", "handled 1", 2, 3
        )
        for name in ("int", "chld", "alrm", "usr1", "term")
    },
    "a timer that interrupts every 200 us": (f"timer 200 instance device pipelines 200 {CLOSE} stop-timer", "", 0, 200),
    "children end while pipelines compile": (f"handle chld instance device children 20 {CLOSE}", "", 0, 20),
    "other processes are started": (f"{OPEN} vfork 'exit 3' spawn 'exit 4' children 20 {CLOSE}", "", 0, 23),
    # As fast as without the layer, however they were created.
    **{
        f"children fork, {way or 'parent'}": (
            f"{OPEN} {way} generations 20 vfork 'exit 3' spawn 'exit 4' {'join' if way else ''} {CLOSE}",
            "generations: in time", 1, 3
        )
        for way in ("", "fork", "raw-fork")
    },
    "handler of exit before the instance": (f"at exit {LAST} {OPEN}", "pipelines 0", 2, 3),
    "handler of exit behind the device": (f"{OPEN} at exit {LAST}", "pipelines 0", 2, 3),
    "destructor": (f"at destructor {LAST} {OPEN}", "pipelines 0", 2, 3),
    "RTLD_DEFAULT has no symbols of Python": (
        f"no-python-symbols {OPEN} no-python-symbols {CLOSE} no-python-symbols", "symbols of Python: 0", 3, 3
    ),
    "threads that have ended by then create the device and its pipelines, and destroy it": (
        "instance thread device join thread pipelines 3 join thread destroy-device join destroy-instance", "", 0, 3
    ),
    "a thread that draws starts policy, which is not scheduled as that": (
        f"privileged {OPEN} join {CLOSE}", f"privileged: {MAY_BE_PRIVILEGED:d}", 1, 3
    ),
    # Each of its images stores what it compiles.
    **{
        f"it executes itself anew, {what}": (f"{THREE} {step} exec instance device pipelines 5 {CLOSE}", "", 0, 5)
        for what, step in (("with a device", ""), ("without", END[0]))
    },
    # It keeps using the store that it started with.
    "the environment is cleared": (f"instance device clearenv pipelines 3 {CLOSE}", "", 0, 3),
    "other places are set": (
        f"instance setenv PYLAYER_STORE other setenv HOME other device pipelines 3 {CLOSE}", "", 0, 3
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "says", "times", "count"), GOES_ON.values(), ids=GOES_ON)
def test_goes_on(world: World, steps: str, says: str, times: int, count: int) -> None:
    """Whatever the program does besides, its pipelines are stored."""
    process = run_host(world, *shlex.split(steps))
    assert not says or process.stdout.count(says) == times
    hits_again(world, count)


#: How a program can end. After pthread_exit in main, it ends with its last thread.
DEVICE = ("instance", "device", "pipelines", 3)
ENDS: list[list[str | int]] = [
    [*STORED, "end", way] for way in ("exit", "_exit", "quick_exit", "abort", "terminate", "kill")
]
ENDS += [[*DEVICE[:at], "main-thread-ends", *DEVICE[at:], *end] for at in range(3) for end in ((), END)]


@pytest.mark.parametrize("steps", ENDS, ids=lambda steps: " ".join(map(str, steps)))
def test_endings(real: World, steps: list[str | int]) -> None:
    """However a program ends, it ends as without the layer, and what it compiled is found in the next run."""
    run_host(real, *steps)
    hits_again(real, 3)


SETS_HANDLERS = """
class Mine(Policy):
    def device_created(self, program, facts, state):
        import signal, subprocess, faulthandler, asyncio
        print("SIGINT for policy:", signal.getsignal(signal.SIGINT))
        for attempt in (
            lambda: signal.signal(signal.SIGINT, lambda *_: None),
            lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
            lambda: signal.siginterrupt(signal.SIGALRM, True),
        ):
            try:
                attempt()
            except OSError as error:
                print("refused:", error.strerror)
        try:
            faulthandler.enable()
        except (OSError, RuntimeError, AttributeError) as error:
            print("no faulthandler")
"""
HAS_CHILDREN = """
import os, subprocess

class Mine(Policy):
    def device_created(self, program, facts, state):
        child = os.fork()
        if child == 0:
            os._exit(5)
        print("child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print("other:", subprocess.run(["/bin/sh", "-c", "exit 6"]).returncode)
"""
#: Python 3.15 clears the environment with one call of the C library.
CHANGES_VARIABLES = """
import os
os.environ["KEPT"] = "no"
del os.environ["KEPT"]
os.environ.clear()
print("variables:", len(os.environ))
class Mine(Policy):
    pass
"""
MOMENTS = [0, 951782400, 1709164799, 4107542400, -1, -2203977600, -62135596800, 253402300799]
TELLS_TIME = f"""
import calendar, time
for moment in {MOMENTS}:
    parts = time.localtime(moment)
    print("policy:", tuple(parts)[:8], calendar.timegm(parts), int(time.mktime(parts)))
class Mine(Policy):
    pass
"""
#: Policy classes, programs of steps, and what is printed, how often. SIGINT keeps its default, a child of policy has
#: its own status, the program's environment stays, and policy uses UTC, whatever the program's time zone is. The C
#: library reads TZ at the first use of a time zone, which is not policy's: a TZ that the program sets later applies. A
#: main thread that is the last to call pthread_exit ends the process.
POLICIES: dict[str, tuple[str, str, dict[str, int]]] = {
    "sets handlers": (
        SETS_HANDLERS, f"{OPEN} check-handler int check-all-default {CLOSE} check-handler int",
        {"refused: Operation not permitted": 3, "int is default": 2},
    ),
    "has children": (HAS_CHILDREN, f"{OPEN} {CLOSE}", {"child: 5": 1, "other: 6": 1}),
    "changes variables": (CHANGES_VARIABLES, f"{OPEN} {CLOSE} variable KEPT", {"variables: 0": 1, "KEPT is yes": 1}),
    "tells the time": (
        TELLS_TIME, f"{OPEN} local-time UTC-5 {CLOSE}",
        {f"policy: {tuple(time.gmtime(moment))[:8]} {moment} {moment}": 1 for moment in MOMENTS}
        | {"local time 05:00": 1},
    ),
    "nothing, and main ends": ("class Mine(Policy):\n    pass\n", f"{OPEN} {CLOSE} main-thread-ends", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
def test_deeds_of_policy(world: World, name: str) -> None:
    """Whatever a policy class does in the process, the program does not see, and its pipelines are stored."""
    source, steps, told = POLICIES[name]
    process = run_host(world, *steps.split(), **write_policy(world, source), KEPT="yes", TZ="Asia/Tokyo")
    assert {text: (process.stdout + process.stderr).count(text) for text in told} == told
    assert stored(world) == [3]


def write_policy(world: World, text: str) -> dict[str, str | None]:
    """Returns an environment with the policy class Mine and with what it prints in the log."""
    return {**world.policy_class(text), "PYLAYER_LOG": "info"}


@pytest.mark.parametrize("ending", ["os._exit(3)", "os.abort()"])
@pytest.mark.parametrize("method", ["device_created", "plan_device"])
def test_policy_that_ends_the_process(world: World, method: str, ending: str) -> None:
    """A policy class that ends the process ends only policy. The program goes on without policy, and one line says
    so."""
    text = f"import os\nclass Mine(Policy):\n    def {method}(self, *arguments):\n        {ending}\n"
    assert "policy ended the interpreter" in run_host(world, *RUN, **write_policy(world, text)).stderr


def test_exit_in_a_thread(real: World) -> None:
    """exit() in a thread ends the program with its status, while main creates pipelines and policy stores them."""
    for _ in range(3):
        assert run_host(real, "instance", "device", "pipelines", 3, "exit-in-thread", 0).returncode == 4
    run_host(real, *RUN)
    assert real.last()["hits"] == 3


@pytest.mark.parametrize("steps", [["device", "arm"], ["arm", "device"], ["device", "pipelines", "3", "arm"]])
def test_exit_in_a_handler_with_a_lock_held(world: World, steps: list[str]) -> None:
    """exit() in a signal handler does not wait for a lock of the layer that the interrupted code of the same thread
    holds."""
    words = [step if step != "arm" else "exit-under-lock" for step in steps]
    preload = str(BUILD / "tests" / "libpreloaded.so")
    process = world.run(
        [str(HOST), "instance", *words, "pipelines", "2", "end", "exit"],
        check=False,
        VK_INSTANCE_LAYERS=LAYER_NAME,
        LD_PRELOAD=preload,
    )
    assert process.returncode == 4, process.stderr


@pytest.mark.parametrize("when", [0, 2, 6], ids=["before the layer", "with a device", "with nothing left"])
def test_ends_with_its_last_thread(quick: World, when: int) -> None:
    """After pthread_exit in main, the process ends right after its last thread, in first runs and later ones."""
    steps = ["instance", "device", "pipelines", "3", *END]
    steps.insert(when, "main-thread-ends")
    assert not waits(quick, tuple(steps), lambda: shutil.rmtree(quick.store, ignore_errors=True))
    assert not waits(quick, tuple(steps))


def test_threads_that_start_the_next_one(quick: World) -> None:
    """After pthread_exit in main, threads that live for microseconds each start the next one. The process does not end
    before the last."""
    for _ in range(3):
        shutil.rmtree(quick.store, ignore_errors=True)
        run_host(quick, "instance", "device", "pipelines", 3, "relay", 1, "pipelines", 3, *END)
        assert quick.last()["compiled"] == 6


def test_other_loaders(world: World) -> None:
    """Two copies of the loader in one process share one layer, however often the program opens and closes the other. It
    compiles its pipeline once."""
    maps = world.run(["sh", "-c", "/sbin/ldconfig -p | sed -n 's/.*libvulkan.so.1 .*=> //p' | head -1"]).stdout.strip()
    other = world.directory / "libvulkan-other.so"
    other.write_bytes(Path(maps).read_bytes())
    steps = ("instance", "device", "pipelines", 1, "await-journal", 1, *("other-loader", other) * 20, *END)
    process = run_host(world, *steps)
    assert said(process.stderr, "warn") == []
    assert sorted(run["counters"]["compiled"] for run in world.runs()) == [0] * 20 + [1]
    hits_again(world, 1)


def test_malloc_of_the_programs(world: World) -> None:
    """With a preloaded malloc, every block that the layer, its Python and the driver free came from that malloc, and
    none is used after it was freed."""
    preload = str(BUILD / "tests" / "libmalloc_of_its_own.so")
    for _ in range(2):
        run_host(world, "instance", "device", "pipelines", 20, "again", 20, *END, LD_PRELOAD=preload)
    assert (world.last()["hits"], world.last()["compiled"]) == (40, 0)


# ---- Forks, users and environments ---------------------------------------------------------------


IN_CHILD = {
    "device of its own": ["instance", "device", "pipelines", "2", *END],
    "parent's device": ["pipelines", "2", "again", "2", *END],
    "nothing": [],
}
FORKED = "this process was forked"


@pytest.mark.parametrize("way", ["fork", "fork-exit", "raw-fork"])
@pytest.mark.parametrize("child", IN_CHILD)
def test_fork_without_exec(real: World, way: str, child: str) -> None:
    """A forked child creates pipelines as without the layer, also a child of a raw system call, which the C library
    does not know of. Only the parent's pipelines are stored."""
    steps = [*STORED, way, *IN_CHILD[child], "join", "pipelines", 2, *END]
    process = run_host(real, *steps, PYLAYER_LOG="info")
    assert said(process.stderr, "warn") == []
    assert (FORKED in process.stderr) == (child == "device of its own")
    assert stored(real) == [5]
    hits_again(real, 5)


ONCE = f"instance device pipelines 2 {CLOSE}"
#: Where a program may fork, what compiles and hits in each of its runs that the layer records, and whether the child's
#: layer says that it does nothing.
FORKS: dict[str, tuple[str, list[tuple[int, int]], bool]] = {
    "between instances": (f"{ONCE} WAY {ONCE} join {ONCE}", [(2, 0), (2, 0)], True),
    "between instance and device": (
        f"instance WAY device pipelines 2 {END[0]} join device pipelines 3 {CLOSE}", [(3, 0)], False
    ),
    "before the first instance": (f"WAY {ONCE} join {ONCE}", [(2, 0), (0, 2)], False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("where", "way"),
    [*((where, way) for where in FORKS for way in ("fork", "raw-fork")), ("before the first instance", "fork-exit")],
)
def test_fork_without_a_device(world: World, where: str, way: str) -> None:
    """A program that forks while it has no device goes on in both processes. The parent's layer works as before, and
    the child's if there was no instance before."""
    steps, recorded, alone = FORKS[where]
    process = run_host(world, *steps.replace("WAY", way).split(), PYLAYER_LOG="info")
    assert said(process.stderr, "warn") == [] and (FORKED in process.stderr) == alone
    assert [(run["counters"]["compiled"], run["counters"]["hits"]) for run in world.runs()] == recorded


@pytest.mark.parametrize("way", ["vfork", "spawn"])
def test_other_programs_are_started(world: World, way: str) -> None:
    """A child that executes a program finds what its parent has stored, while the parent's device exists."""
    child = " ".join(["exec", str(HOST), "instance", "device", "pipelines", "3", *END])
    run_host(world, *STORED, way, child, "pipelines", 2, *END)
    assert sorted(run["counters"]["hits"] for run in world.runs()) == [0, 3]
    hits_again(world, 5)


def stored_with(when: int, *step: str) -> list[str]:
    """Returns a program that takes this step after so many others: early, or when three pipelines are stored."""
    steps = [*STORED, "pipelines", "3", *END] if when == 6 else list(RUN)
    return [*steps[:when], *step, *steps[when:]]


@pytest.mark.root
@pytest.mark.parametrize("when", [1, 2, 6])
def test_setuid(open_world: World, when: int) -> None:
    """A program that gives up its privileges goes on. One line says that pipelines can no longer be stored, and
    what was stored before is whole."""
    process = run_host(open_world, *stored_with(when, "become-nobody"))
    (line,) = said(process.stderr, "warn")
    assert "pipelines cannot be stored" in line
    if when == 6:
        hits_again(open_world, 3)


def test_environment_that_changes(world: World) -> None:
    """A program may change its environment as soon as vkCreateInstance has returned: the policy thread, which is still
    starting, does not read it. The preloaded malloc overwrites freed memory, so a read would show."""
    storm = ["environment-storm", "60"]
    preload = str(BUILD / "tests" / "libmalloc_of_its_own.so")
    for _ in range(3):
        shutil.rmtree(world.store, ignore_errors=True)
        steps = ["instance", *storm, "device", "pipelines", 3, *storm, *END]
        process = run_host(world, *steps, LD_PRELOAD=preload)
        assert said(process.stderr, "warn") == []
        assert world.last()["compiled"] == 3


def test_environment_is_read_on_the_programs_thread(world: World) -> None:
    """Policy asks the C library for no variable, from its start to the end of the device. The only variable asked for
    is RADV's, in each vkCreatePipelineCache, or that of its stand-in for the kernel (tests/radv.py)."""
    for _ in range(2):
        run = ["instance", "device", "pipelines", 3, *END]
        process = run_host(world, *run, LD_PRELOAD=str(BUILD / "tests" / "libpreloaded.so"))
        asked = {line.rpartition(" ")[2] for line in process.stderr.splitlines() if " asks for " in line}
        assert asked <= {"VK_ENABLE_PIPELINE_CACHE", "DRM_SHIM_DEBUG"}
    assert world.last()["hits"] == 3


@pytest.mark.parametrize("home", [None, "/dev/null"])
def test_environment_without_home(world: World, home: str | None) -> None:
    """Without PYLAYER_STORE, and without HOME or with one that cannot be written, the program goes on, and one line
    says that nothing is stored."""
    (line,) = said(run_host(world, *RUN, HOME=home, PYLAYER_STORE=None).stderr, "warn")
    assert home or "nothing is stored" in line


# ---- A Python of their own -----------------------------------------------------------------------


PLACES = (
    "/usr/lib/*/libpython3.*.so.1.0",
    "/usr/local/lib/libpython3.*.so.1.0",
    str(Path.home() / ".pyenv/versions/*/lib/libpython3.*.so.1.0"),
)
LIBRARIES = sorted(path for place in PLACES for path in glob.glob(place))
assert LIBRARIES, "this machine has no shared libpython"
CODE = "import sys; assert 'pylayer' not in sys.modules; print('mine', sys.version_info[:2], flush=True)"
MORE = "print('more', len('text'), flush=True)"
#: Extension modules find their Python only if it was loaded with RTLD_GLOBAL.
WITH_MODULES = "; import math, json, threading, struct, zlib; print(math.pi, zlib.crc32(b'x'), flush=True)"


def home(library: str) -> str:
    """Returns the PYTHONHOME for a libpython."""
    return library.partition("/lib/")[0]


#: When the program loads its Python, and with which scope. Global symbols can collide with the layer's at any moment,
#: most of all while both start; local ones cannot.
WAYS = [("before the instance", "global"), ("between", "global"), ("behind pipelines", "global")]
WAYS += [("while it starts", "local")]


#: Every library at that moment, and one library in the other ways.
CASES = [("while it starts", "global", library) for library in LIBRARIES]
CASES += [(*way, library) for way in WAYS for library in LIBRARIES[-1:]]


@pytest.mark.parametrize(("when", "scope", "library"), CASES)
def test_python_of_the_programs(world: World, library: str, scope: str, when: str) -> None:
    """A program that loads a libpython of any version, with either scope, before, between or after its pipelines, runs
    its own code in it, and the layer's Python works beside it."""
    modules = WITH_MODULES if scope == "global" else ""
    python, more = ["python", library, scope, CODE + modules], ["python", library, scope, MORE + modules]
    steps = {
        "before the instance": [*python, *STORED, *more, "pipelines", "3", *END],
        "while it starts": ["instance", *python, "device", "pipelines", "3", *more, "pipelines", "3", *END],
        "between": ["instance", "device", *python, "pipelines", "3", *more, "pipelines", "3", *END],
        "behind pipelines": [*STORED, *python, "pipelines", "3", *END, *more],
    }[when]
    process = run_host(world, *steps, PYTHONHOME=home(library))
    assert "mine (3, " in process.stdout and "more 4" in process.stdout
    hits_again(world, 6)


# ---- Inside of dlopen ----------------------------------------------------------------------------


LIBRARY = str(BUILD / "tests" / "libpreloaded.so")
USE = ("instance", "device", "pipelines", "4")
INSIDE: dict[str, tuple[str, ...]] = {
    "constructor": ("dlopen", LIBRARY, *USE, *END, "opened"),
    "exit with the device": ("dlopen", LIBRARY, *USE, "opened"),
    "pipelines afterwards": ("dlopen", LIBRARY, "instance", "device", "opened", "pipelines", "4", *END),
    "fork": ("dlopen", LIBRARY, *USE, "fork", "join", *END, "opened"),
    # vkCreateDevice of the Vulkan loader itself waits for another thread's dlopen.
    "another thread's": ("instance", "device", "dlopen-beside", LIBRARY, "pipelines", "4", END[0], "opened", END[1]),
    "destructor": ("dlopen", LIBRARY, "opened", "dlclose", *USE, *END, "closed"),
}


@pytest.mark.parametrize("way", INSIDE)
def test_inside_of_dlopen(world: World, way: str) -> None:
    """Neither first runs nor later ones wait for policy. After the first there is a folder, so the second opens the
    store by itself. Later runs find all pipelines."""
    assert not waits(world, INSIDE[way], lambda: shutil.rmtree(world.store, ignore_errors=True))
    run_host(world, *INSIDE[way])
    assert list(world.store.glob("store/*"))
    assert not waits(world, INSIDE[way])
    run_host(world, *INSIDE[way])
    assert (world.last()["hits"], world.last()["compiled"]) == (4, 0)


def test_unknown_cache_data(world: World, tmp_path: Path) -> None:
    """vkCreatePipelineCache inside of dlopen does not wait for policy's verdict on unknown data: it passes."""
    file = str(tmp_path / "cache")
    world.run([str(HOST), "instance", "device", "load-cache", file, "pipelines", "4", "save-cache", file, *END])
    inside = ("dlopen", LIBRARY, "instance", "device", "load-cache", file, "pipelines", "4", *END, "opened")
    for _ in range(2):
        world.run([str(HOST), *inside])

    def forget() -> None:
        for history in world.stored_files(file_kinds.ATTEST):
            history.unlink()

    assert not waits(world, inside, forget)


# ---- Built with a sanitizer ----------------------------------------------------------------------


OPTIONS = {"leak": "LSAN_OPTIONS", "thread": "TSAN_OPTIONS"}


@pytest.mark.parametrize("kind", OPTIONS)
def test_sanitized_program(real: World, kind: str) -> None:
    """With the suppressions that the package has, a sanitizer reports nothing, in a run that compiles and in one that
    finds its pipelines."""
    program = HOST.with_name(f"host_{kind}")
    suppressions = PACKAGE / "data" / "config" / f"{kind}.supp"
    try:
        real.run([str(program), *RUN], check=False, timeout=20, VK_INSTANCE_LAYERS=None)
    except subprocess.TimeoutExpired:
        pytest.skip("this system's LeakSanitizer hangs without the layer, too")
    for hits in (0, 3):
        done = real.run([str(program), *RUN], **{OPTIONS[kind]: f"suppressions={suppressions}"})
        assert "SUMMARY" not in done.stderr
        assert real.last()["hits"] == hits


# ---- Resource limits, sandboxes, other descriptors and directories -------------------------------


@pytest.mark.parametrize("way", ["no-more", "refuse"])
def test_no_threads(real: World, way: str) -> None:
    """If no thread can be created, the program runs as without the layer, and one line says so."""
    process = run_host(real, way, "thread", *RUN, PYLAYER_LOG="info")
    assert "the policy thread cannot be created" in process.stderr
    assert not real.store.exists()


def runs_alone(world: World, kib: int) -> bool:
    """Returns whether the program runs without the layer in this much address space."""
    command = [str(HOST), "limit", "as", str(kib << 10), *RUN]
    return world.run(command, check=False, VK_INSTANCE_LAYERS=None).returncode == 0


def test_a_mebibyte_of_address_space_to_spare(world: World) -> None:
    """A program with 1 MiB of address space more than it needs without the layer also runs under it, and one line says
    that policy did not start. The same holds with up to 256 MiB more. With 2 GiB more policy starts."""
    sizes = range(16 << 10, 4 << 20, 256)
    enough = sizes[bisect_left(sizes, True, key=lambda kib: runs_alone(world, kib))]
    for more in (1, 2, 4, 8, 32, 128, 256):
        process = run_host(world, "limit", "as", (enough << 10) + (more << 20), *RUN, PYLAYER_LOG="info")
        assert process.returncode == 0
        assert "too little address space" in process.stderr
    process = run_host(world, "limit", "as", (enough << 10) + (2 << 30), *RUN)
    assert world.last()["compiled"] == 3


@pytest.mark.parametrize("spare_mib", [48, 96])
@pytest.mark.parametrize("when", [0, 1, 2, 4])
def test_address_space_that_shrinks(real: World, when: int, spare_mib: int) -> None:
    """If the address space is limited while policy works, the program runs as without the layer."""
    steps = ["instance", "device", "pipelines", "3", "pipelines", "3", *END]
    spare = spare_mib << 10 if when else spare_mib + 256 << 10
    steps[when:when] = ["spare-memory", str(spare)]
    assert run_host(real, *steps).returncode == 0
    run_host(real, *RUN)
    counters = real.last()
    assert counters["hits"] + counters["compiled"] == 3


def test_no_bytes_in_files(quick: World) -> None:
    """The layer's writes never end a program by the SIGXFSZ of RLIMIT_FSIZE. One line says that pipelines cannot be
    stored."""
    process = run_host(quick, "limit", "fsize", 0, *RUN)
    assert sum("pipelines cannot be stored" in line for line in said(process.stderr, "warn")) == 1


def test_small_stack_limit(world: World) -> None:
    """An RLIMIT_STACK of 96 KiB, which is also the default stack size of new threads, is enough. RADV itself needs 62
    KiB in vkEnumeratePhysicalDevices."""
    run_host(world, *RUN, command=("sh", "-c", 'ulimit -s 96; exec "$@"', "sh"))
    hits_again(world, 3)


@pytest.mark.parametrize(
    "steps",
    ["device pipelines 4 stack 262144 misses 4", "device pipelines 4 stack 262144 hits 4", "device-on-stack 262144"],
)
def test_stack(real: World, steps: str) -> None:
    """Creating a device, compiling and finding pipelines uses at most 4 KiB of a thread's stack beyond what the driver
    uses, with and without a kept plan."""
    used = []
    for layers in (None, LAYER_NAME, LAYER_NAME):
        run = real.run([str(HOST), "instance", *steps.split(), *END], VK_INSTANCE_LAYERS=layers)
        used += [int(size) for size in re.findall(r"stack used: (\d+)", run.stderr)]
    assert len(used) == 3 and max(used) - used[0] <= 4096, used


# ---- sandboxes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["refuse", "unknown", "trap"])
@pytest.mark.parametrize("what", ["open", "socket", "sync", "stat"])
@pytest.mark.parametrize("when", [1, 6])
def test_sandbox(world: World, how: str, what: str, when: int) -> None:
    """A program that enters a sandbox with all its threads runs as without the layer, whether system calls are refused,
    unknown, or answered by the program's SIGSYS handler. What was stored before is whole."""
    process = run_host(world, *stored_with(when, how, what))
    assert len(said(process.stderr, "warn")) <= 2, said(process.stderr, "warn")
    run_host(world, *RUN)
    counters = world.last()
    assert (counters["hits"], counters["compiled"]) in ([(3, 0)] if when == 6 else [(3, 0), (0, 3)])


def test_little_memory_may_be_locked(world: World) -> None:
    """A program that may lock little memory has all of it to itself."""
    steps = ("limit", "memlock", 64 << 10, "instance", "device", "pipelines", 3, "lock-memory", 64, *END)
    as_others = ("setpriv", "--bounding-set=-ipc_lock") if os.geteuid() == 0 else ()  # root may lock any memory
    for _ in range(2):
        run_host(world, *steps, command=as_others)


def test_log_lines_in_a_sandbox(world: World) -> None:
    """A line of the log needs no system call that strict sandboxes end a process for."""
    process = run_host(world, "instance", "forbid", "signals", "device", "pipelines", 3, *END, PYLAYER_LOG="info")
    assert "mode cells for host" in process.stderr


# ---- Descriptors and directories -----------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Returns the directory for the program's own files."""
    return tmp_path / "own"


#: The program closes every descriptor and opens files of its own under these numbers.
TAKE = "close-from 3 own-files own"
CHECKED = "destroy-device check-files destroy-instance"
#: Programs of steps, and how many pipelines are stored.
CLOSING = {
    "and used again": (f"limit nofile 256 {OPEN} {TAKE} free-some 20 pipelines 5 {CHECKED} check-files", 8),
    "before the device": (
        f"limit nofile 256 instance {TAKE} free-some 20 device pipelines 5 {CLOSE} check-files", 5
    ),
    "with the journal": (f"limit nofile 256 {OPEN} {TAKE} {CHECKED}", 3),
    "one by one": (f"{OPEN} {'close-from 3 pipelines 1 sleep 40 ' * 5} {CLOSE}", 8),
    "no thread can be created, so policy's own waits for the disk": (
        f"instance device no-more thread pipelines 3 {CLOSE}", 3
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "count"), CLOSING.values(), ids=CLOSING)
def test_descriptors_are_closed(quick: World, steps: str, count: int) -> None:
    """A program that closes the layer's descriptors keeps its own files whole and open, also one that has the number of
    the journal. Every pipeline is stored."""
    process = run_host(quick, *steps.split())
    assert process.stdout.count("own files: 0 wrong\n") == steps.split().count("check-files")
    assert count == 3 or (said(process.stderr, "warn") == [] and stored(quick) == [count])
    hits_again(quick, count)


def test_libraries_are_mapped_before_the_program_goes_on(real: World) -> None:
    """vkCreateInstance returns after policy's libraries are mapped. Otherwise a file of the program could take the
    number of a descriptor that the dynamic linker has just opened, and be mapped in the library's place."""
    # Some builds of Python have the last two inside libpython.
    libraries = ["_policy.", "_cffi_backend.", "_xxhash."]
    libraries += [name for name in ("_struct.", "fcntl.") if list(PACKAGE.glob(f"_private/dynload/{name}*"))]
    looks = [word for library in libraries for word in ("mapped", library)]
    process = run_host(real, "instance", "device", *looks, *END, LD_AUDIT=str(BUILD / "tests" / "libpreloaded.so"))
    assert [f"{library} is mapped" in process.stderr for library in libraries] == [True] * len(libraries)


def test_all_descriptors_used(quick: World, own: Path) -> None:
    """If no descriptor is free, the program goes on and its files stay whole. One line says that nothing is stored."""
    steps = ["limit", "nofile", 64, "instance", "device", "own-files", own, "pipelines", 3, "destroy-device"]
    process = run_host(quick, *steps, "check-files", "destroy-instance")
    assert "own files: 0 wrong\n" in process.stdout
    assert ["stored" in line for line in said(process.stderr, "warn")] == [True]


def test_started_without_standard_streams(real: World) -> None:
    """If a program starts with its first three descriptors closed, what it writes to them does not end up in a file of
    the layer, and what it compiles is stored."""
    log = real.directory / "log.txt"
    environment = {"PYLAYER_LOG": "warn", "PYLAYER_LOG_FILE": str(log)}
    command = ("sh", "-c", 'exec "$@" 0<&- 1<&- 2<&-', "sh")
    run_host(real, *STORED, "shout", "pipelines", 3, "shout", *END, command=command, **environment)
    hits_again(real, 6)
    assert log.read_text() == ""
    for path in real.store.rglob("*"):
        assert not path.is_file() or b"shouted" not in path.read_bytes(), path


def test_log_file_that_the_program_closes(quick: World, own: Path) -> None:
    """Log lines are neither lost nor written to a file of the program that has the log file's number."""
    log = quick.directory / "log.txt"
    steps = ["limit", "nofile", 256, *STORED, "close-from", 3, "own-files", own, "free-some", 20, "pipelines", 2]
    steps += [*END, "check-files", "instance", "device", *END]
    process = run_host(quick, *steps, PYLAYER_LOG="info", PYLAYER_LOG_FILE=str(log))
    assert "own files: 0 wrong\n" in process.stdout
    assert log.read_text().count("mode cells") == 2


def test_log_and_a_stderr_that_is_data(real: World) -> None:
    """If a daemon closes standard error and opens its data file under that number, no log line goes into the data."""
    data = real.directory / "data"
    steps = ["instance", "data-as-stderr", data, "device", "pipelines", 2, *END]
    run_host(real, *steps, PYLAYER_LOG="debug")
    assert "pylayer" not in data.read_text()  # the driver itself writes to standard error
    hits_again(real, 2)


def test_log_follows_a_terminal_or_appended_file(real: World) -> None:
    """If a program redirects standard error to a file of messages, the log lines are in that file."""
    messages = real.directory / "messages"
    run_host(real, "instance", "append-stderr", messages, "device", "pipelines", 2, *END, PYLAYER_LOG="info")
    assert "mode cells" in messages.read_text()


def test_change_of_directory(real: World) -> None:
    """A relative PYLAYER_STORE is resolved against the directory in which the program started, even after it changes
    its directory, and with a kept plan."""
    (real.directory / "elsewhere").mkdir()
    for when in (1, 2, 1, 1):
        steps = ["instance", "device", "pipelines", 3, *END]
        steps[when:when] = ["chdir", "elsewhere"]
        run_host(real, *steps, PYLAYER_STORE="here/store")
    assert os.listdir(real.directory / "elsewhere") == []
    real.store = real.directory / "here" / "store"
    assert real.last()["hits"] == 3


@pytest.mark.root
@pytest.mark.parametrize("when", [1, 2, 6])
def test_chroot(real: World, when: int) -> None:
    """If a program calls chroot into an empty directory, the layer creates nothing there. What was compiled before is
    stored, and one line says that the rest is not."""
    jail = real.directory / "jail"
    jail.mkdir()
    process = run_host(real, *stored_with(when, "chroot", str(jail)))
    assert os.listdir(jail) == []
    (line,) = said(process.stderr, "warn")
    assert ("gave no plan" if when == 1 else "the program changed its root directory") in line
    if when == 6:
        hits_again(real, 3)
