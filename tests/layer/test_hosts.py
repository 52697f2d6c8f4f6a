"""Programs that end in unusual ways, use signals, fork, change their environment, have a Python of their own, use
Vulkan inside of dlopen, or are built with a sanitizer."""

from __future__ import annotations

import glob
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_steps import END, HOST, STORED, hits_again, run_host, stored, waits
from world import BUILD, PACKAGE, World, said

from pylayer import LAYER_NAME
from pylayer.common import file_kinds

#: The driver of tests/driver, where the driver does nothing at the end of a process.
QUICK = True


THREE = "instance device pipelines 3"
OPEN, CLOSE = " ".join(STORED), " ".join(END)
#: Programs of steps, what they print and how often, and how many pipelines the next program finds. The layer works in
#: each, says nothing, and stores all pipelines.
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
    "handler of exit before the instance": (f"use-at-exit {OPEN}", "at exit: pipelines 0", 1, 3),
    "handler of exit behind the device": (f"{OPEN} use-at-exit", "at exit: pipelines 0", 1, 3),
    "destructor": (f"use-in-destructor {OPEN}", "at exit: pipelines 0", 1, 3),
    "RTLD_DEFAULT has no symbols of Python": (
        f"no-python-symbols {OPEN} no-python-symbols {CLOSE} no-python-symbols", "symbols of Python: 0", 3, 3
    ),
    "threads that have ended by then create the device and its pipelines, and destroy it": (
        "instance thread device join thread pipelines 3 join thread destroy-device join destroy-instance", "", 0, 3
    ),
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


LATE = """\

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


def write_policy(world: World, text: str) -> dict[str, str | None]:
    """Returns an environment with the policy class Mine and with what it prints in the log."""
    return {**world.policy_class(text), "PYLAYER_LOG": "info"}


def test_policy_cannot_change_handlers(world: World) -> None:
    """A policy class that imports signal late, or sets handlers, changes nothing: SIGINT keeps its default."""
    steps = [*STORED, "check-handler", "int", "check-all-default", *END, "check-handler", "int"]
    process = run_host(world, *steps, **write_policy(world, LATE))
    assert process.stderr.count("refused: Operation not permitted") == 3
    assert process.stdout.count("int is default") == 2


@pytest.mark.parametrize("ending", ["os._exit(3)", "os.abort()"])
@pytest.mark.parametrize("method", ["device_created", "plan_device"])
def test_policy_that_ends_the_process(world: World, method: str, ending: str) -> None:
    """A policy class that ends the process ends only policy. The program goes on without policy, and one line says
    so."""
    parameters = {"device_created": "program, facts, state", "plan_device": "program, facts, settings"}[method]
    text = f"import os\nfrom pylayer.policy import Policy\nclass Mine(Policy):\n    def {method}(self, {parameters}):\n"
    process = run_host(
        world, "instance", "device", "pipelines", 3, *END, **write_policy(world, text + f"        {ending}\n")
    )
    assert "policy ended the interpreter" in process.stderr


def test_policy_may_have_children(world: World) -> None:
    """A child process of policy ends with its own status, and policy goes on."""
    text = """
import os, subprocess

class Mine(Policy):
    def device_created(self, program, facts, state):
        child = os.fork()
        if child == 0:
            os._exit(5)
        print("child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print("other:", subprocess.run(["/bin/sh", "-c", "exit 6"]).returncode)
"""
    process = run_host(world, *STORED, *END, **write_policy(world, text))
    assert "child: 5" in process.stderr and "other: 6" in process.stderr
    assert stored(world) == [3]


@pytest.mark.parametrize("before", [[], ["destroy-device"]], ids=["with a device", "without"])
def test_exec(real: World, before: list[str]) -> None:
    """A program that executes itself anew keeps its process number. Each of its images stores what it compiles, and
    nothing is blocked."""
    for count in (2, 4):
        again = ["exec", "instance", "device", "pipelines", count + 1, *END]
        process = run_host(real, "instance", "device", "pipelines", count, *before, *again)
        assert said(process.stderr, "warn") == []
    hits_again(real, 5)


def test_exit_in_a_thread(real: World) -> None:
    """exit() in a thread ends the program with its status, while main creates pipelines and policy stores them."""
    for _ in range(3):
        assert run_host(real, "instance", "device", "pipelines", 3, "exit-in-thread", 0).returncode == 4
    run_host(real, "instance", "device", "pipelines", 3, *END)
    assert real.last()["hits"] == 3


@pytest.mark.parametrize("steps", [["device", "arm"], ["arm", "device"], ["device", "pipelines", "3", "arm"]])
def test_exit_in_a_handler_with_a_lock_held(world: World, steps: list[str]) -> None:
    """exit() in a signal handler does not wait for a lock of the layer that the interrupted code of the same thread
    holds."""
    words = [step if step != "arm" else "exit-under-lock" for step in steps]
    preload = str(BUILD / "tests" / "libsignal_under_lock.so")
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


def test_named_as_policys_thread(quick: World) -> None:
    """A program whose name begins as that of policy's thread is not taken for that thread, and does not end early."""
    program = quick.directory / "pylayer-game"
    shutil.copy(HOST, program)
    steps = ("instance", "device", "pipelines", "3", "main-thread-ends", "sleep", "2500", "pipelines", "3", *END)
    quick.run([str(program), *steps], VK_INSTANCE_LAYERS=LAYER_NAME)
    assert quick.last()["compiled"] == 6


def test_main_thread_ends_last(world: World) -> None:
    """If the main thread is the last to call pthread_exit, the process ends, also with a policy class, which the layer
    watches in another thread."""
    policy = "from pylayer.policy import Policy\nclass Mine(Policy):\n    pass\n"
    run_host(world, *STORED, *END, "main-thread-ends", **write_policy(world, policy))
    hits_again(world, 3)


def test_loader_closed_and_opened(real: World) -> None:
    """A program that opens and closes the Vulkan loader twenty times compiles its pipeline once."""
    run_host(real, "reload", "libvulkan.so.1", 20)
    runs = [run["counters"] for run in real.runs()]
    assert [run["compiled"] for run in runs] == [1] + [0] * 19
    assert [run["hits"] for run in runs] == [0] + [1] * 19


def test_two_loaders(world: World) -> None:
    """Two copies of the loader in one process share one layer."""
    maps = world.run(["sh", "-c", "/sbin/ldconfig -p | sed -n 's/.*libvulkan.so.1 .*=> //p' | head -1"]).stdout.strip()
    other = world.directory / "libvulkan-other.so"
    other.write_bytes(Path(maps).read_bytes())
    process = run_host(world, "two-loaders", "libvulkan.so.1", other)
    assert said(process.stderr, "warn") == []
    assert stored(world) == [1, 1]


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


@pytest.fixture
def open_world(world: World) -> Iterator[World]:
    """A world whose store is below a directory that every user may read."""
    directory = Path(tempfile.mkdtemp(prefix="pylayer-test-"))
    directory.chmod(0o755)
    world.store = directory / "store"
    world.environment["PYLAYER_STORE"] = str(world.store)
    yield world
    shutil.rmtree(directory)


@pytest.mark.root
@pytest.mark.parametrize("when", ["before the device", "before the first pipeline", "while the journal is open"])
def test_setuid(open_world: World, when: str) -> None:
    """A program that gives up its privileges goes on. One line says that pipelines can no longer be stored, and
    what was stored before is whole."""
    at = {"before the device": 1, "before the first pipeline": 2, "while the journal is open": 6}[when]
    steps = ["instance", "device", "pipelines", "3", "await-journal", "3", "pipelines", "3", *END]
    if at < 6:
        del steps[4:6]
    steps.insert(at, "become-nobody")
    process = run_host(open_world, *steps)
    (line,) = said(process.stderr, "warn")
    assert "pipelines cannot be stored" in line
    if at == 6:
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
        process = run_host(world, *run, LD_PRELOAD=str(BUILD / "tests" / "libwatch_environment.so"))
        asked = {line.rpartition(" ")[2] for line in process.stderr.splitlines() if " asks for " in line}
        assert asked <= {"VK_ENABLE_PIPELINE_CACHE", "DRM_SHIM_DEBUG"}
    assert world.last()["hits"] == 3


def test_policy_cannot_change_the_environment(world: World) -> None:
    """A policy class that sets, deletes and clears variables does so in a copy: the program's environment stays. Python
    3.15 clears it with one call of the C library."""
    config = world.policy_class(
        "import os\n"
        "os.environ['KEPT'] = 'no'\n"
        "del os.environ['KEPT']\n"
        "os.environ.clear()\n"
        "print('variables:', len(os.environ))\n"
        "class Mine(Policy):\n"
        "    pass\n"
    )
    process = run_host(world, *STORED, *END, "variable", "KEPT", **config, KEPT="yes", PYLAYER_LOG="info")
    assert "variables: 0" in process.stderr and "KEPT is yes" in process.stdout


def test_environment_without_home(world: World) -> None:
    """Without HOME and PYLAYER_STORE the program goes on, and one line says that nothing is stored."""
    process = run_host(world, "instance", "device", "pipelines", 3, *END, HOME=None, PYLAYER_STORE=None)
    assert len(said(process.stderr, "warn")) == 1 and "nothing is stored" in said(process.stderr, "warn")[0]


def test_calendar_of_policy(world: World) -> None:
    """Policy uses UTC, whatever the program's time zone is, and its calendar functions return what Python's return
    elsewhere."""
    moments = [0, 951782400, 1709164799, 4107542400, -1, -2203977600, -62135596800, 253402300799]
    config = world.policy_class(
        "import calendar, time\n"
        f"for moment in {moments}:\n"
        "    parts = time.localtime(moment)\n"
        "    print('policy:', tuple(parts)[:8], calendar.timegm(parts), int(time.mktime(parts)))\n"
        "class Mine(Policy):\n"
        "    pass\n"
    )
    process = run_host(world, *STORED, *END, **config, TZ="Asia/Tokyo", PYLAYER_LOG="info")
    for moment in moments:
        assert f"policy: {tuple(time.gmtime(moment))[:8]} {moment} {moment}" in process.stderr


@pytest.mark.parametrize("policy", ["", "import time, datetime; time.localtime(); time.mktime(time.gmtime())"])
def test_time_zone_is_the_programs(world: World, policy: str) -> None:
    """The C library reads TZ at the first use of a time zone and keeps it. Policy must not make that first use: a TZ
    that the program sets later applies."""
    environment = world.policy_class(f"{policy}\nclass Mine(Policy):\n    pass\n") if policy else {}
    process = run_host(world, *STORED, "local-time", "UTC-5", *END, **environment)
    assert "local time 05:00" in process.stdout


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


LIBRARY = str(BUILD / "tests" / "libconstructor.so")
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


def test_records_that_only_policy_reads(world: World) -> None:
    """Pipeline creation inside of dlopen does not wait for a load that cannot begin."""
    config = world.policy("settings: {mode: binaries}\n")
    for _ in range(2):
        world.run([str(HOST), *INSIDE["constructor"]], **config)
    assert not waits(world, INSIDE["constructor"], **config)


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
    steps = ("instance", "device", "pipelines", "3", *END)
    for hits in (0, 3):
        done = real.run([str(program), *steps], **{OPTIONS[kind]: f"suppressions={suppressions}"})
        assert "SUMMARY" not in done.stderr
        assert real.last()["hits"] == hits
