"""Programs that fork, change their user or change their environment while the layer works."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_steps import END, HOST, STORED, hits_again, lines, run_host, stored
from world import BUILD, World

IN_CHILD = {
    "device of its own": ["instance", "device", "pipelines", "2", *END],
    "parent's device": ["pipelines", "2", "again", "2", *END],
    "nothing": [],
}
FORKED = "this process was forked"


#: The driver of tests/driver, where no child uses the driver.
QUICK = True


@pytest.mark.parametrize("way", ["fork", "fork-exit", "raw-fork"])
@pytest.mark.parametrize("child", IN_CHILD)
def test_fork_without_exec(real: World, way: str, child: str) -> None:
    """A forked child creates pipelines as without the layer, also a child of a raw system call, which the C library
    does not know of. Only the parent's pipelines are stored."""
    steps = [*STORED, way, *IN_CHILD[child], "join", "pipelines", 2, *END]
    process = run_host(real, *steps, PYLAYER_LOG="info")
    assert lines(process) == []
    assert (FORKED in process.stderr) == (child == "device of its own")
    assert stored(real) == [5]
    hits_again(real, 5)


@pytest.mark.parametrize("way", [[], ["fork"], ["raw-fork"]], ids=["parent", "fork", "raw-fork"])
def test_children_fork(world: World, way: list[str]) -> None:
    """Children of children fork as fast as without the layer, however they were created."""
    others = ["vfork", "exit 3", "spawn", "exit 4"]
    process = run_host(world, *STORED, *way, "generations", 20, *others, *way and ["join"], *END)
    assert "generations: in time" in process.stdout


@pytest.mark.parametrize("way", ["fork", "raw-fork"])
def test_fork_between_instances(world: World, way: str) -> None:
    """A program that forks while it has no instance goes on in both processes. The parent's layer works as before."""
    once = ["instance", "device", "pipelines", 2, *END]
    process = run_host(world, *once, way, *once, "join", *once, PYLAYER_LOG="info")
    assert lines(process) == []
    assert FORKED in process.stderr
    assert stored(world) == [2, 2]


@pytest.mark.parametrize("way", ["fork", "raw-fork"])
def test_fork_before_the_device(world: World, way: str) -> None:
    """If the program forks between its instance and its device, both processes may create a device. The layer works in
    the parent's."""
    process = run_host(world, "instance", way, "device", "pipelines", 2, END[0], "join", "device", "pipelines", 3, *END)
    assert lines(process) == []
    assert stored(world) == [3]


def test_fork_before_the_first_instance(world: World) -> None:
    """If the program forks before its first instance, the layer works in both processes."""
    once = ["instance", "device", "pipelines", 2, *END]
    process = run_host(world, "fork-exit", *once, "join", *once, PYLAYER_LOG="info")
    assert FORKED not in process.stderr
    assert [(run["counters"]["compiled"], run["counters"]["hits"]) for run in world.runs()] == [(2, 0), (0, 2)]


def test_other_processes_are_started(world: World) -> None:
    """vfork, posix_spawn, and children reaped while pipelines compile work as without the layer."""
    run_host(world, *STORED, "vfork", "exit 3", "spawn", "exit 4", "children", 20, *END)
    hits_again(world, 23)


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
    (line,) = lines(process)
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
        assert lines(process) == []
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


def test_cleared_environment(world: World) -> None:
    """A program that clears its environment keeps using the store that it started with."""
    for _ in range(2):
        run_host(world, "instance", "device", "clearenv", "pipelines", 3, *END)
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
    assert len(lines(process)) == 1 and "nothing is stored" in lines(process)[0]


def test_store_is_the_one_at_the_start(world: World) -> None:
    """If the program sets PYLAYER_STORE and HOME after vkCreateInstance, the store stays where it was."""
    other = world.directory / "other"
    steps = ["instance", "setenv", "PYLAYER_STORE", other, "setenv", "HOME", other, "device", "pipelines", 3, *END]
    run_host(world, *steps)
    assert not other.exists()
    hits_again(world, 3)


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
