"""Programs with resource limits, in a sandbox, and with other descriptors and directories than they began with."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from host_steps import END, HOST, STORED, hits_again, run_host, stored
from world import BUILD, PACKAGE, World, said

from pylayer import LAYER_NAME

RUN = ["instance", "device", "pipelines", "3", *END]


#: The driver of tests/driver, where the limit is not one for the driver as well.
QUICK = True


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
    too_little, enough = 16 << 10, 4 << 20
    while enough - too_little > 256:
        middle = (too_little + enough) // 2
        if runs_alone(world, middle):
            enough = middle
        else:
            too_little = middle
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


@pytest.mark.parametrize("kind", ["misses", "hits"])
def test_stack_of_application_threads(world: World, kind: str) -> None:
    """The layer uses at most 4 KiB of a thread's stack beyond what the driver uses."""
    steps = ["instance", "device", "pipelines", "4", "stack", "262144", kind, "4", *END]
    alone = world.run([str(HOST), *steps], VK_INSTANCE_LAYERS=None)
    under = run_host(world, *steps)
    used = [int(re.findall(r"stack used: (\d+)", run.stderr)[-1]) for run in (alone, under)]
    assert used[1] - used[0] <= 4096, used


def test_stack_of_device_creation(real: World) -> None:
    """Creating a device uses at most 4 KiB of stack beyond what the driver uses, with and without a kept plan."""
    used = []
    for layers in (None, LAYER_NAME, LAYER_NAME):
        run = real.run([str(HOST), "instance", "device-on-stack", "262144", *END], VK_INSTANCE_LAYERS=layers)
        used += [int(size) for size in re.findall(r"stack used: (\d+)", run.stderr)]
    assert len(used) == 3 and max(used) - used[0] <= 4096, used


def test_small_stack_that_hits(real: World) -> None:
    """A thread with 32 KiB of stack, of which the driver uses 22, gets hits."""
    steps = ["instance", "device", "pipelines", "3", "await-journal", "3", "stack", "32768", "hits", "3", *END]
    run_host(real, *steps)
    assert real.last()["hits"] == 3


# ---- sandboxes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["refuse", "unknown", "trap"])
@pytest.mark.parametrize("what", ["open", "socket", "sync", "stat"])
@pytest.mark.parametrize("when", [1, 6])
def test_sandbox(world: World, how: str, what: str, when: int) -> None:
    """A program that enters a sandbox with all its threads runs as without the layer, whether system calls are refused,
    unknown, or answered by the program's SIGSYS handler. What was stored before is whole."""
    steps = [*STORED, "pipelines", "3", *END]
    if when < 6:
        del steps[4:6]
    steps[when:when] = [how, what]
    process = run_host(world, *steps)
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


def test_policy_is_scheduled_as_main(world: World) -> None:
    """A thread with real-time priority and one processor starts policy. Policy's thread has neither."""
    process = run_host(world, "privileged", *STORED, "join", *END)
    assert "privileged: 1" in process.stdout


# ---- Descriptors and directories -----------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Returns the directory for the program's own files."""
    return tmp_path / "own"


OPEN, CLOSE = " ".join(STORED), " ".join(END)
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
    process = run_host(real, "instance", "device", *looks, *END, LD_AUDIT=str(BUILD / "tests" / "libslow_linker.so"))
    assert [f"{library} is mapped" in process.stderr for library in libraries] == [True] * len(libraries)


def test_all_descriptors_used(real: World, own: Path) -> None:
    """If no descriptor is free, the program goes on and its files stay whole. One line says that nothing is stored."""
    steps = ["limit", "nofile", 64, "instance", "device", "own-files", own, "pipelines", 3, "destroy-device"]
    process = run_host(real, *steps, "check-files", "destroy-instance")
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
    steps = ["instance", "data-as-stderr", data, "device", "pipelines", 2, *END, "show-file", data]
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
    steps = ["instance", "device", "pipelines", "3", "await-journal", "3", "pipelines", "2", *END]
    if when < 6:
        del steps[4:6]
    steps[when:when] = ["chroot", str(jail)]
    process = run_host(real, *steps)
    assert os.listdir(jail) == []
    (line,) = said(process.stderr, "warn")
    assert ("gave no plan" if when == 1 else "the program changed its root directory") in line
    if when == 6:
        hits_again(real, 3)


def test_read_only_home(real: World) -> None:
    """If the home directory cannot be written, the program runs as without the layer, and one line says so."""
    blocker = real.directory / "home"
    blocker.write_text("a file, which nobody can make directories in, root included\n")
    process = run_host(real, "instance", "device", "pipelines", 3, *END, PYLAYER_STORE=None)
    assert len(said(process.stderr, "warn")) == 1
    assert real.stored_files() == []
