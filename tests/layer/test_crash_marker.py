"""The crash marker. Stored data that crashes the driver ends one process and is then blocked. A crash with another
cause blocks nothing. RADV crashes when it creates poisoned pipelines; the scripted driver crashes where a test
tells it to."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from disk import FailingDisk
from poison import poison_records
from scripted_driver import ScriptedDriver
from world import BUILD, Run, World

from pylayer.store import block_files, crash_marker
from pylayer.store.block_files import read_all
from pylayer.store.block_list import (
    BLOCKED,
    DAY,
    DECIDED,
    OFTEN_KILLED,
    PIPELINE,
    RECORD,
    Block,
    pipeline_number,
)
from pylayer.store.deaths import review
from pylayer.store.format import number_of
from pylayer.store.reader import Reader

COUNT = 24


#: On a busy machine policy is idle between two pipelines. It would then close the journal and join what is in it.
NEVER_IDLE = """\
from pylayer.inhost import host
host.INTERVAL_NS = host.LAST_INTERVAL_NS = 1 << 60


class Mine(Policy):
    pass
"""


@functools.cache
def warm_directory(driver: str) -> tempfile.TemporaryDirectory[str]:
    """Returns a directory with a store that one run filled, with one journal. It is deleted when the process ends."""
    directory = tempfile.TemporaryDirectory()
    world = World(Path(directory.name), driver)
    run = world.demo("--count", COUNT, "--no-destroy", **world.policy_class(NEVER_IDLE))
    assert run["created"] == COUNT and world.last()["compiled"] == COUNT
    return directory


def warm(world: World) -> None:
    """Copies a store that one run filled into the world."""
    driver = "test" if "test_driver" in world.environment["VK_DRIVER_FILES"] else "radv"
    shutil.copytree(Path(warm_directory(driver).name) / "store", world.store)


def poison(world: World, *numbers: int, suffix: str = ".closed") -> None:
    """Poisons the records with these numbers in the store's only file with this suffix."""
    (path,) = world.stored_files(suffix)
    assert len(poison_records(path, lambda number, record: number in numbers)) == len(numbers)


def again(world: World, *arguments: str | float, **environment: str) -> Run:
    """Runs the demo and fails unless it creates all its pipelines."""
    result = world.demo("--count", COUNT, *arguments, **environment)
    assert (result["created"], result["failed"]) == (COUNT, 0)
    return result


def dies(world: World, *arguments: str | float | Path, with_signal: int = signal.SIGSEGV, **environment: str) -> Run:
    result = world.demo("--count", COUNT, *arguments, check=False, **environment)
    assert result.returncode == -with_signal
    return result


def blocked(world: World) -> list[Block]:
    """Returns what is blocked for any program."""
    return [one for known in read_all(world.folder()).values() for one in known.in_force(*BLOCKED)]


def reviewed(world: World) -> list[Block]:
    """Returns what is blocked after a review, which adds what the last process died of."""
    review(world.folder())
    return blocked(world)


# ---- stored data that crashes ---------------------------------------------------------------------


def test_suspects_are_not_exported(world: World) -> None:
    """An export leaves out blocked records, also before a start has reviewed the crash, and says so."""
    warm(world)
    poison(world, 3)
    dies(world)
    for elsewhere in ("unreviewed", "reviewed"):
        text = world.pylayer("export", f"{elsewhere}.pylayer", "--app", "pipelines").stdout
        assert f"Exported: {COUNT - 1} pipelines" in text
        assert "\n  without 1 record blocked after a crash (pylayer ls)\n" in text
        world.pylayer("import", f"{elsewhere}.pylayer", PYLAYER_STORE=elsewhere)
        again(world, PYLAYER_STORE=elsewhere)
        reviewed(world)


def test_several_processes_die_at_once(world: World) -> None:
    """Several processes that crash at the same time each leave a crash marker, and the next start blocks all of it."""
    warm(world)
    poison(world, 2)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: world.demo("--count", COUNT, check=False), range(4)))
    assert {result.returncode for result in results} <= {-signal.SIGSEGV, 0}
    assert any(result.returncode for result in results)
    again(world)
    again(world)
    assert (world.last()["compiled"], world.last()["hits"]) == (0, COUNT)


def test_death_that_was_not_known_of(world: World) -> None:
    """A process that read the store before the first death over a record was judged could not know of it. Its own death
    there is not the second one, after which the record would stay blocked."""
    world.environment["XDG_RUNTIME_DIR"] = str(world.directory)
    again(world, "--no-destroy")  # keeps a plan for this environment, too: the next process needs no policy
    # After the folder the layer reads the runtime directory. A process that is stopped there learns nothing more.
    storage = FailingDisk(world, "open:STOP:path=/pylayer-live:nth=1").environment
    storage["PYLAYER_TEST_STORAGE_ROOT"] = str(world.directory)
    poison(world, 2)
    unknowing = subprocess.Popen(
        [str(BUILD / "demo" / "pipelines"), "--count", str(COUNT)], env=world.environment_with(storage)
    )
    _, status = os.waitpid(unknowing.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    dies(world)
    assert reviewed(world)
    os.kill(unknowing.pid, signal.SIGCONT)
    assert unknowing.wait() == -signal.SIGSEGV
    again(world)
    again(world)
    assert world.last()["compiled"] == 0


def test_marks_outlast_threads() -> None:
    """As many calls at once are watched as the crash marker has marks, however many threads have ended."""
    done = subprocess.run([str(BUILD / "tests" / "marks")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "moment", ["create-cache=crash?data@1", "create-cache=crash?data@2", "merge=crash@1", "merge=crash@2"]
)
def test_crash_while_the_store_is_loaded(scripted: ScriptedDriver, moment: str) -> None:
    """Records that were being loaded or merged when the process died are not loaded in the next run, which compiles
    them."""
    world = scripted.world
    warm(world)
    dies(world, PYLAYER_TEST_DRIVER=moment)
    assert 1 <= sum(one.type == RECORD for one in reviewed(world)) <= 8  # are given at once
    again(world)
    assert 1 <= world.last()["compiled"] <= 8
    again(world)
    assert (world.last()["compiled"], world.last()["hits"]) == (0, COUNT)


# ---- calls that the layer adds ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "script", "call"),
    [
        ("binaries", "get-key=crash?!global@3", "vkGetPipelineKeyKHR"),
        ("binaries", "internal-cache=no;create-binaries=crash?from-pipeline@3", "vkCreatePipelineBinariesKHR"),
        ("binaries", "binary-data=crash@3", "vkGetPipelineBinaryDataKHR"),
        ("binaries", "internal-cache=no;pipeline=crash?capture@3", "CAPTURE_DATA"),
        ("binaries", "internal-cache=no;release-captured=crash@3", "CAPTURE_DATA"),
        ("cells", "create-cache=crash@3", "vkGetPipelineCacheData of a compiled pipeline"),
        ("cells", "get-data=crash@4", "vkGetPipelineCacheData of a compiled pipeline"),
        ("cells", "merge=crash@3", "vkMergePipelineCaches of a compiled pipeline"),
    ],
)
def test_crash_in_a_call_that_the_layer_adds(scripted: ScriptedDriver, mode: str, script: str, call: str) -> None:
    """The crash marker names the call, and the pipeline that it was for. No stored data is blocked. After one death, or
    two if kills are likely to hit that call, later runs do not make it for this kind of pipeline. The first of them
    says so, and the program works."""
    world = scripted.world
    scripted.settings(mode=mode)
    dies(world, "--compute", "--api", "1.3", PYLAYER_TEST_DRIVER=script)
    (death,) = crash_marker.deaths(world.folder())
    (mark,) = death.marks
    assert call in crash_marker.ADDED[mark.call] and mark.kind == 0
    assert mark.ids[0]
    if mark.call in OFTEN_KILLED:
        dies(world, "--compute", "--api", "1.3", PYLAYER_TEST_DRIVER=script)
    first = again(world, "--compute", "--api", "1.3", PYLAYER_TEST_DRIVER=script, PYLAYER_LOG="warn")
    assert f"{crash_marker.ADDED[mark.call]} is not called for " in first.stderr
    again(world, "--compute", "--api", "1.3", PYLAYER_TEST_DRIVER=script)
    assert not reviewed(world)


def test_crash_in_a_key_of_another_kind(scripted: ScriptedDriver) -> None:
    """After a death in vkGetPipelineKeyKHR it is called for no kind of pipeline: a driver that crashes there would do
    so once for each kind."""
    world, arguments = scripted.world, ("--api", "1.3")
    scripted.settings(mode="binaries")
    crash = {"PYLAYER_TEST_DRIVER": "get-key=crash?!global@3"}
    dies(world, "--compute", *arguments, **crash)
    first = again(world, *arguments, PYLAYER_LOG="warn", **crash)
    assert "vkGetPipelineKeyKHR is not called for any pipelines" in first.stderr
    again(world, "--compute", *arguments, **crash)


@pytest.mark.parametrize("warm", [False, True], ids=["policy's crash marker", "the layer's"])
@pytest.mark.parametrize("variable", ["RADV_DEBUG", "MESA_SHADER_CACHE_DIR"])
def test_deaths_under_a_variable_of_the_driver(scripted: ScriptedDriver, warm: bool, variable: str) -> None:
    """A program dies in a call that the layer adds. If a variable changed what the driver gave it, only that program
    does without the call. Other programs may have a driver that does not crash."""
    world, driver = scripted.world, {"PYLAYER_TEST_DRIVER": "get-data=crash@4+"}
    other = world.directory / "another"
    shutil.copy(BUILD / "demo" / "pipelines", other)
    if warm:
        again(world, **{variable: "/tmp"})
    dies(world, "--compute", "--seed", 7, **driver, **{variable: "/tmp"})
    again(world, "--compute", "--seed", 7, **driver)
    others = world.run([str(other), "--compute", "--count", str(COUNT)], check=False, **driver).returncode
    assert others == (-signal.SIGSEGV if variable == "RADV_DEBUG" else 0)
    again(world, "--compute", "--seed", 8, **driver)


def test_deaths_in_a_probe(scripted: ScriptedDriver) -> None:
    """A program creates a pipeline twice, so the layer probes for it, and the driver crashes in probes. Nothing is
    stored that could be the cause. After two deaths the layer probes for no pipeline of this kind, and the program
    works."""
    world, script = scripted.world, "pipeline=crash?may-not-compile"
    recipe = "device control modules\nfirst: compute - : P0 shader=comp0\nagain: compute - : P1 shader=comp0\n"
    for _ in range(2):
        assert scripted.recipe(recipe, script=script, check=False).returncode == -signal.SIGSEGV
        (death,) = crash_marker.deaths(world.folder())
        assert "FAIL_ON_PIPELINE_COMPILE_REQUIRED" in crash_marker.ADDED[death.marks[0].call]
        for path in world.stored_files(".journal", ".closed"):
            path.unlink()
    for _ in range(2):
        scripted.recipe(recipe, script=script)
    assert not reviewed(world)


# ---- crashes with other causes ---------------------------------------------------------------------


def test_nobody_waits_for_the_dead(world: World) -> None:
    """A record that crashes RADV ends one process. The next run compiles that pipeline, and the run after it none. A
    crashed process that its parent has not waited for counts as dead, and its crash marker file is removed."""
    warm(world)
    poison(world, 7)
    dead = subprocess.Popen(
        [str(BUILD / "demo" / "pipelines"), "--count", str(COUNT)], env=world.environment, stderr=subprocess.DEVNULL
    )
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    assert "blocked" in again(world).stderr
    assert (world.last()["compiled"], world.last()["hits"]) == (1, COUNT - 1)
    assert dead.wait() == -signal.SIGSEGV
    assert not world.live_files()
    again(world)
    assert (world.last()["compiled"], world.last()["hits"]) == (0, COUNT)


@pytest.mark.parametrize("end", [(), ("--no-destroy", "--exit", "_exit")], ids=["return", "_exit"])
def test_killed_in_a_hit(scripted: ScriptedDriver, end: tuple[str, ...]) -> None:
    """A kill during a probe cannot be told from a crash there. That one pipeline is compiled once more and then used
    again, because the driver made the same bytes. It does not matter how the program that compiled it ends."""
    world = scripted.world
    warm(world)
    dies(world, with_signal=signal.SIGKILL, PYLAYER_TEST_DRIVER="pipeline=kill?may-not-compile@5")
    again(world, *end)
    if not end:  # what _exit leaves is counted by the next start
        assert (world.last()["compiled"], world.last()["hits"]) == (1, COUNT - 1)
    stored = sum(path.stat().st_size for path in world.stored_files(".journal", ".closed"))
    again(world)
    assert (world.last()["compiled"], world.last()["hits"]) == (0, COUNT)
    assert sum(path.stat().st_size for path in world.stored_files(".journal", ".closed")) == stored


@pytest.mark.parametrize("end", ["exit", "_exit", "kill"])
def test_ends_in_hits(scripted: ScriptedDriver, end: str) -> None:
    """A program that ends while its threads create the same pipelines again, as Wine's TerminateProcess ends it, sets
    nothing aside: the driver has created them without harm."""
    program = ("host", "instance", "device", "pipelines", 8)
    for _ in range(2):
        scripted.program(*program)
    for _ in range(3):
        scripted.program(*program, "hammer", 4, "end", end, script="pipeline=slow:2?hit", check=False, allow=True)
        assert not reviewed(scripted.world)
    scripted.program(*program)
    assert (scripted.world.last()["hits"], scripted.world.last()["compiled"]) == (8, 0)


def test_exit_while_a_record_is_read(scripted: ScriptedDriver) -> None:
    """A program calls exit() while another thread gives a stored pipeline to the driver. That is no evidence."""
    for _ in range(2):
        scripted.program("host", "instance", "device", "pipelines", 8)
    ends = scripted.program(
        "host", "instance", "device", "exit-in-thread", 300, script="create-cache=hang?data", check=False
    )
    assert ends.returncode == 4
    assert not reviewed(scripted.world)


@pytest.mark.parametrize("payload", [256, 1 << 18], ids=["small", "large"])
@pytest.mark.parametrize("before", [(), ("pipelines", 1, "sleep", 500)], ids=["all at the end", "one stored before"])
def test_ends_right_after_compiling(scripted: ScriptedDriver, before: tuple[str | int, ...], payload: int) -> None:
    """A program that compiles a few pipelines and then ends by _exit loses them once at most."""
    program = ("host", "instance", "device", *before, "pipelines", 3)
    script = f"payload={payload};pipeline=slow:3?compile"
    for _ in range(2):
        scripted.program(*program, "end", "_exit", script=script, check=False)
    scripted.program(*program, script=f"payload={payload}")
    assert (scripted.world.last()["hits"], scripted.world.last()["compiled"]) == (4 if before else 3, 0)


def test_suspected_twice(scripted: ScriptedDriver) -> None:
    """A pipeline at which processes died twice is compiled in every run: nothing stored is used for it, and nothing new
    is stored for it."""
    world = scripted.world
    warm(world)
    for _ in range(2):
        dies(world, PYLAYER_TEST_DRIVER="pipeline=crash?may-not-compile@5")
        again(world)
    for _ in range(2):
        again(world)
        assert (world.last()["compiled"], world.last()["hits"]) == (1, COUNT - 1)


def test_suspects_of_two_types(world: World) -> None:
    """The layer itself, when it reads the store, tells blocked records from blocked pipelines."""
    warm(world)
    (path,) = world.stored_files(".closed")
    found = [one for part in Reader(str(path)).parts([]) for one in part.records if one.is_pipeline]
    again(world, "--no-destroy")  # with a kept plan the next run reads the store itself
    now = time.time_ns()
    new = [
        Block(
            type=PIPELINE if number % 2 else RECORD,
            subject=one.fingerprint if number % 2 else number_of(one.digest),
            kind=0, runs=1, flags=DECIDED, decided_ns=now, until_s=now // 10**9 + DAY, found_ns=now,
        )
        for number, one in enumerate(found[:16])
    ]  # fmt: skip
    program = int(path.name.partition("-")[0], 16)
    block_files.write(world.folder(), program, "pipelines", new)
    again(world)
    counters = world.last()
    assert (counters["compiled"], counters["hits"], counters["fetched"]) == (16, COUNT - 16, COUNT - 16)


def test_suspect_without_a_fingerprint(scripted: ScriptedDriver) -> None:
    """A pipeline linked from a library that was created from binaries has no fingerprint. If a process dies when it
    creates one with stored data, later runs create those of its kind without, until one compiled to the same bytes.
    After a second death they do so for 14 days."""
    scripted.settings(mode="cells")
    recipe = """device control binaries libraries modules
library: graphics - : P0 vert=vert0 frag=frag0 part=input,vertex,fragment,output flags=library,capture
binaries: binaries B0 pipeline=P0
from-binaries: graphics - : P1 binaries=B0
link: graphics - : P2 link=P1
"""
    for hits in (0, 1):
        scripted.recipe(recipe)
        assert scripted.world.last()["hits"] == hits
    dead = -signal.SIGSEGV
    for expected in (dead, 0, dead, 0, 0, 0):
        assert scripted.recipe(recipe, script="pipeline=crash?hit", check=False).returncode == expected
        if expected == 0:
            assert (scripted.world.last()["hits"], scripted.world.last()["compiled"]) == (0, 1)
    (known,) = read_all(scripted.world.folder()).values()
    assert [(one.type, one.subject) for one in known.in_force(*BLOCKED)] == [(PIPELINE, pipeline_number(0, 3))]
