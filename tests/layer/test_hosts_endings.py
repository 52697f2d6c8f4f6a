"""Programs that end in unusual ways or use signals."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from host_steps import END, HOST, STORED, hits_again, lines, run_host, stored, waits
from world import BUILD, World

from pylayer import LAYER_NAME

#: The driver of tests/driver, where the driver does nothing at the end of a process.
QUICK = True


def test_all_signals_blocked(world: World) -> None:
    """The layer works in a program that blocks all signals."""
    run_host(world, "block-signals", "instance", "device", "pipelines", 3, *END)
    hits_again(world, 3)


def test_no_handler_and_no_mask_is_changed(world: World) -> None:
    """The layer changes neither the handler nor the mask of any signal."""
    process = run_host(world, "check-all-default", *STORED, "check-all-default", *END, "check-all-default")
    assert process.stdout.count("handlers: 0, blocked: 0") == 3


@pytest.mark.parametrize("signal", ["int", "chld", "alrm", "usr1", "term"])
def test_own_handlers(world: World, signal: str) -> None:
    """A signal sent to the process is handled on one of the program's threads, before kill() returns."""
    steps = ["handle", signal, *STORED, "send", signal, "check-handler", signal, *END, "send", signal]
    process = run_host(world, *steps)
    assert process.stdout.count("handled 1") == 2


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


def test_timers(world: World) -> None:
    """A timer that interrupts the program every 200 us does no harm: every pipeline is compiled."""
    run_host(world, "timer", 200, "instance", "device", "pipelines", 200, *END, "stop-timer")
    assert world.last()["compiled"] == 200


def test_children_and_sigchld(world: World) -> None:
    """Children may end while pipelines compile, with a handler of SIGCHLD. Every pipeline is stored."""
    run_host(world, "handle", "chld", "instance", "device", "children", 20, *END)
    hits_again(world, 20)


@pytest.mark.parametrize("ending", ["exit", "_exit", "quick_exit", "abort", "terminate", "kill"])
def test_endings(real: World, ending: str) -> None:
    """However a program ends, the pipelines in its journal are found in the next run."""
    run_host(real, *STORED, "end", ending)
    hits_again(real, 3)


@pytest.mark.parametrize("before", [[], ["destroy-device"]], ids=["with a device", "without"])
def test_exec(real: World, before: list[str]) -> None:
    """A program that executes itself anew keeps its process number. Each of its images stores what it compiles, and
    nothing is blocked."""
    for count in (2, 4):
        again = ["exec", "instance", "device", "pipelines", count + 1, *END]
        process = run_host(real, "instance", "device", "pipelines", count, *before, *again)
        assert lines(process) == []
    hits_again(real, 5)


def test_device_of_other_threads(real: World) -> None:
    """Threads that have ended by then create the device and its pipelines, and destroy it."""
    own = ["thread", "device", "join", "thread", "pipelines", "3", "join"]
    for count in (3, 0):
        run_host(real, "instance", *own, "thread", "destroy-device", "join", "destroy-instance")
        assert stored(real)[-1] == count


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


@pytest.mark.parametrize("ending", [[], list(END)])
@pytest.mark.parametrize("when", [0, 1, 2])
def test_main_thread_ends(real: World, when: int, ending: list[str]) -> None:
    """If the main thread calls pthread_exit, before or after it used the layer, the process ends with its last thread,
    as without the layer, and what it compiled is stored."""
    steps = ["instance", "device", "pipelines", "3", *ending]
    steps.insert(when, "main-thread-ends")
    assert run_host(real, *steps).returncode == 0
    hits_again(real, 3)


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


@pytest.mark.parametrize(
    "steps",
    [
        ["use-at-exit", *STORED],
        [*STORED, "use-at-exit"],
        ["use-in-destructor", *STORED],
    ],
    ids=["handler before the instance", "handler behind the device", "destructor"],
)
def test_vulkan_at_exit(quick: World, steps: list[str]) -> None:
    """Handlers of exit() and destructors can create pipelines and destroy a device. What was stored before is whole."""
    process = run_host(quick, *steps)
    assert "at exit: pipelines 0" in process.stdout
    hits_again(quick, 3)


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
    assert lines(process) == []
    assert stored(world) == [1, 1]


def test_malloc_of_the_programs(world: World) -> None:
    """With a preloaded malloc, every block that the layer, its Python and the driver free came from that malloc, and
    none is used after it was freed."""
    preload = str(BUILD / "tests" / "libmalloc_of_its_own.so")
    for _ in range(2):
        run_host(world, "instance", "device", "pipelines", 20, "again", 20, *END, LD_PRELOAD=preload)
    assert (world.last()["hits"], world.last()["compiled"]) == (40, 0)
