"""The crash marker. Stored data that crashes the driver ends one process and is then blocked. A crash with another
cause blocks nothing. What makes later runs do less needs evidence, concerns the program that gave it, and ends. The
scripted driver crashes and hangs where a test tells it to."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from disk import CRASH, FailingDisk, fill
from pylayer._policy import ffi
from scripted_driver import ScriptedDriver, read_counts
from world import BUILD, LAYER_NAME, Run, World, seen
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from pylayer.store import block_files, crash_marker, deaths, format
from pylayer.store.block_files import read_all
from pylayer.store.block_list import (
    ADDED_CALL,
    BLOCKED,
    DAY,
    DECIDED,
    ENTRY,
    OFTEN_KILLED,
    PIPELINE,
    RECORD,
    Block,
    pipeline_number,
)
from pylayer.store.crash_marker import PROBE
from pylayer.store.deaths import review
from pylayer.store.format import number_of
from pylayer.store.reader import Reader
from pylayer.values import KIND_NAMES

#: Nothing here depends on the driver, but for the test that takes ``real``.
QUICK = True
COUNT = 24


def warm(world: World) -> None:
    """Gives the world a store with one journal."""
    fill(world, "--count", COUNT)


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


def decided(type: int, subject: int, kind: int = 0) -> Block:
    """Returns a block that was just decided, for a day."""
    now = time.time_ns()
    times = {"decided_ns": now, "until_s": now // 10**9 + DAY, "found_ns": now}
    return Block(type=type, kind=kind, subject=subject, runs=1, flags=DECIDED, **times)


# ---- stored data that crashes ---------------------------------------------------------------------


def test_suspects_are_not_exported(world: World) -> None:
    """An export leaves out blocked records, also before a start has reviewed the crash, and says so."""
    warm(world)
    world.environment |= CRASH
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
    world.environment |= CRASH
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
    again(
        world, "--no-destroy", PYLAYER_TEST_DRIVER="guilty=3"
    )  # keeps a plan for this environment, too: the next process needs no policy
    # After the folder the layer reads the runtime directory. A process that is stopped there learns nothing more.
    storage = FailingDisk(world, "open:STOP:path=/pylayer-live:nth=1").environment
    storage["PYLAYER_TEST_STORAGE_ROOT"] = str(world.directory)
    world.environment |= CRASH
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


@pytest.mark.parametrize(
    "before", ["thread again 1 join " * 100 + "thread", "again 2 hammer 40"], ids=["after others", "beside others"]
)
def test_crash_in_one_of_many_threads(scripted: ScriptedDriver, before: str) -> None:
    """A crash over a stored pipeline is found however many threads have ended and how many create pipelines at once."""
    steps = ("host", "instance", "device")
    scripted.program(*steps, "pipelines", 8, script="guilty=3")
    crash = "pipeline=crash?guilty"
    died = scripted.program(*steps, *before.split(), "again", 8, script=crash, check=False)
    assert died.returncode == -signal.SIGSEGV
    for compiled in (1, 0):
        scripted.program(*steps, "pipelines", 8, script=crash)
        assert (scripted.world.last()["compiled"], scripted.world.last()["hits"]) == (compiled, 8 - compiled)


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
    """A record that crashes the driver ends one process. The next run compiles that pipeline, the run after it none. A
    crashed process that its parent has not waited for counts as dead, and its crash marker file is removed."""
    warm(world)
    world.environment |= CRASH
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
    new = [decided(RECORD, number_of(one.digest)) for one in found[:16:2]]
    new += [decided(PIPELINE, one.fingerprint) for one in found[1:16:2]]
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


# ---- Crashes and hangs over data -----------------------------------------------------------------


#: The mode, the command in which the driver crashes over the entry of the third pipeline, and how the program
#: creates its pipelines.
CRASHES: list[tuple[str, str, list[str | int]]] = [
    ("auto", "create-cache=crash?guilty", ["--count", 8]),
    ("auto", "merge=abort?guilty", ["--count", 8]),
    ("auto", "pipeline=kill?guilty", ["--count", 8]),
    ("auto", "pipeline=crash?guilty", ["--count", 24, "--batch", 24]),  # more than a mark has room for
    ("auto", "pipeline=crash?guilty", ["--count", 16, "--threads", 4]),
    ("auto", "pipeline=crash?guilty", ["--count", 8, "--cache", "object"]),
    ("auto", "pipeline=crash?guilty", ["--count", 4, "--gpl"]),
    ("binaries", "create-binaries=crash?guilty?from-data", ["--count", 8, "--api", "1.3"]),
    ("binaries", "pipeline=crash?guilty?from-binaries", ["--count", 8, "--api", "1.3"]),
    ("binaries", "pipeline=crash?guilty?from-binaries", ["--count", 8, "--api", "1.3", "--batch", 4]),
]


@pytest.mark.parametrize(("mode", "script", "arguments"), CRASHES)
def test_crashes_once(scripted: ScriptedDriver, mode: str, script: str, arguments: list[str | int]) -> None:
    """After the driver crashed over stored data, the next run says what is blocked and creates all pipelines. The run
    after that compiles nothing, although the driver would still crash over the old data."""
    scripted.settings(mode=mode)
    driver = script.rpartition(";")[0]
    healthy = seen(scripted.demo(*arguments, script=f"guilty=3;{driver}"))
    crashed = scripted.demo(*arguments, script=script, check=False)
    assert crashed.returncode < 0
    result = scripted.demo(*arguments, script=script)
    assert seen(result) == healthy and "blocked" in scripted.warnings(result)
    assert seen(scripted.demo(*arguments, script=script, verify=True)) == healthy
    assert scripted.counts["compiles"] == 0


@pytest.mark.parametrize("cache", [(), ("--cache", "object")], ids=["no cache", "its own cache"])
@pytest.mark.parametrize("deferred", ["at-once", "to-join"])
@pytest.mark.parametrize("crash", ["pipeline=crash?guilty", "get-data=crash@4+", "merge=crash"])
def test_deferred(scripted: ScriptedDriver, crash: str, deferred: str, cache: tuple[str, ...]) -> None:
    """If the driver crashes over a stored pipeline that a program defers, the next runs create that pipeline without
    stored data. If it crashes in a call that the layer adds, they do without the call."""
    way = ("--count", 4, "--ray-tracing", "--deferred", 2, "--api", "1.3", *cache)
    driver = f"deferral={deferred};"
    if "guilty" in crash:
        scripted.demo(*way, script=f"{driver}guilty=2")
    assert scripted.demo(*way, script=driver + crash, check=False).returncode == -signal.SIGSEGV
    for _ in range(2):
        assert scripted.demo(*way, script=driver + crash)["created"] == 4


#: Differs from the stored pipeline by a constant that is not in the shader.
SAME = "spec=1000:0"
INSEPARABLE = f"{SAME} flags=allow,noopt / P2 shader=comp0 {SAME} flags2 base=#0 unknown"


def optimized(how: str) -> str:
    """Returns a recipe with a cache, a pipeline that is not optimized and one that is."""
    return f"""device control maintenance5 binaries modules
cache: cache C0
not-optimized: compute C0 : P0 shader=comp0 flags=noopt
optimized: compute C0 : P1 shader=comp0 {how}
"""


@pytest.mark.parametrize(
    ("how", "script"),
    [
        (f"{SAME} flags2=always unknown", ""),  # its flags follow a struct of unknown size
        (SAME, ";pipeline=error:unknown?compile@1"),  # it cannot be compiled into a cell
        (INSEPARABLE, ""),  # the call is passed unchanged
    ],
)
def test_suspect_with_a_seeded_cache(scripted: ScriptedDriver, how: str, script: str) -> None:
    """The blocked pipeline is created after stored data was merged into the program's own cache, and the driver still
    has the fatal entry, of an equal pipeline with another name. The pipeline is still compiled, without any cache."""
    scripted.settings(mode="cells")
    scripted.recipe(f"{optimized('spec=1000:1')}again: compute C0 : P3 shader=comp0 {SAME}\n", script="guilty=2")
    fatal = "internal-cache=no;pipeline=crash?guilty"
    assert scripted.recipe(optimized(SAME), script=fatal, check=False).returncode == -signal.SIGSEGV
    process = scripted.recipe(optimized(how), script=fatal + script)
    assert "optimized result=0" in process.stdout.splitlines()[-1]
    assert (scripted.counts["guilty-uses"], scripted.counts["hits"] > 0) == (0, True)


@pytest.mark.parametrize("mode", ["auto", "observe"])
def test_cache_file_that_crashes_the_driver(scripted: ScriptedDriver, mode: str, tmp_path: Path) -> None:
    """A program's own cache file that passes every check crashes the driver when it is used: in each run without the
    layer, once with it."""
    scripted.settings(mode=mode)
    file, script = tmp_path / "cache", "pipeline=crash?guilty"
    scripted.demo("--count", 8, "--cache", "object", "--cache-save", file, script="guilty=3")
    arguments = ["--count", 8, "--cache", file]
    for _ in range(2):
        assert scripted.demo(*arguments, script=script, layered=False, check=False).returncode == -signal.SIGSEGV
    assert scripted.demo(*arguments, script=script, check=False).returncode == -signal.SIGSEGV
    for _ in range(2):
        result = scripted.demo(*arguments, script=script, verify=True)
        assert result["created"] == 8 and "the program gets an empty cache" in scripted.warnings(result)


@pytest.mark.parametrize(
    ("mode", "script"),
    [
        ("auto", "create-device=crash"),
        ("auto", "pipeline=abort?compile@2"),
        ("binaries", "pipeline=crash?compile"),
        ("binaries", "create-object=kill@40"),
    ],
)
def test_crash_that_is_none_of_the_stores(scripted: ScriptedDriver, mode: str, script: str) -> None:
    """If the driver crashes repeatedly while it handles no stored data, all stored data stays in use."""
    scripted.settings(mode=mode)
    scripted.demo("--count", 8, "--api", "1.3")
    for _ in range(4):
        assert scripted.demo("--count", 12, "--api", "1.3", script=script, check=False).returncode < 0
    result = scripted.demo("--count", 8, "--api", "1.3", verify=True)
    assert scripted.counts["compiles"] == 0 and not scripted.warnings(result)


@pytest.mark.parametrize(
    "script", ["pipeline=crash?hit@4", "pipeline=crash?may-not-compile", "create-cache=crash?data"]
)
@pytest.mark.parametrize("cache", [(), ("--cache", "object")], ids=["no cache", "its own cache"])
def test_driver_that_crashes_on_everything(scripted: ScriptedDriver, script: str, cache: tuple[str, ...]) -> None:
    """If the driver crashes at every use of stored data, the layer is off for the program after three crashes."""
    arguments = ("--count", 8, *cache)
    scripted.demo(*arguments)
    crashes = 0
    while scripted.demo(*arguments, script=script, check=False).returncode < 0:
        crashes += 1
        assert crashes <= 3
    result = scripted.demo(*arguments, script=script, verify=True)
    assert (crashes, result["created"]) == (3, 8) and "the layer is off, because" in scripted.warnings(result)


# ---- Hanging ----------------------------------------------------------------------------------------------------


def start(scripted: ScriptedDriver, script: str, *arguments: str, log: str = "") -> subprocess.Popen[str]:
    environment = {**scripted.world.environment, **scripted.environment(script), "VK_INSTANCE_LAYERS": LAYER_NAME}
    environment["PYLAYER_LOG"] = log
    command = [str(BUILD / "demo" / "pipelines"), "--json", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_stored_pipeline_hangs_the_driver(scripted: ScriptedDriver) -> None:
    """If the driver hangs in the creation of a stored pipeline, on the program's own thread, the user has to kill the
    program. The next run compiles that pipeline, and the driver no longer hangs."""
    scripted.demo("--count", 8, script="guilty=3")
    process = start(scripted, "pipeline=hang?guilty", "--count", "8")
    while read_counts(scripted.counts_file).get("acts", 0) == 0 and process.poll() is None:
        os.sched_yield()
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    for compiled in (1, 0):
        result = scripted.demo("--count", 8, script="pipeline=hang?guilty", verify=True)
        assert (result["created"], scripted.counts["compiles"]) == (8, compiled)


def test_a_merge_that_hangs(scripted: ScriptedDriver) -> None:
    """If vkMergePipelineCaches never returns, its thread hangs, and the others create their pipelines without the
    layer's cache. One warning says so."""
    scripted.demo("--count", 8)
    process = start(scripted, "merge=hang@1", "--count", "8", "--threads", "4", log="warn")
    assert process.stderr is not None
    said = next(line for line in iter(process.stderr.readline, "") if "has been merging" in line)
    process.kill()
    process.communicate()
    assert "the program goes on without stored pipelines" in said


# ---- One bad moment has no lasting effect --------------------------------------------------------


FEW = 8


def block_list(world: World) -> list[Path]:
    return sorted(world.store.glob("store/*/*.verdict"))


def hits(world: World) -> None:
    """Asserts that the last run found everything in the store, that the layer itself read it, and that nothing but
    pipelines is stored."""
    last = world.last()
    assert (last["hits"], last["compiled"], last["plain"], last["fetched"]) == (FEW, 0, 0, FEW)
    assert block_list(world) == []


@pytest.mark.parametrize("variable", ["nocache", "shaders", "spirv", "preoptir"])
def test_debug_variable_of_the_driver(real: World, variable: str) -> None:
    """First runs under a variable with which RADV's caches stay empty change nothing for runs without it."""
    for _ in range(3):
        real.demo("--count", FEW, RADV_DEBUG=variable)
    assert block_list(real) == []
    for _ in range(2):
        real.demo("--count", FEW)
    hits(real)


@pytest.mark.parametrize("seconds", [15 * DAY, 365 * DAY, -365 * DAY])
def test_driver_that_keeps_nothing(scripted: ScriptedDriver, seconds: int) -> None:
    """After two runs in which the driver's caches kept nothing, the layer is off without the interpreter. A run after
    the block's end tries again, and the first cell with data ends it. What was decided while the clock was a year ahead
    or behind does not count."""
    world = scripted.world
    for _ in range(2):
        scripted.demo("--count", FEW, script="pipeline=ignore")
    for _ in range(3):
        scripted.demo("--count", FEW, script="pipeline=ignore")
        assert world.last()["passed"] == FEW
        assert world.runs()[-1]["reason"] == "the layer is off, because the driver finds nothing in its own cache data"
    assert world.without_policy(3)
    age(world, seconds)
    scripted.demo("--count", FEW)
    assert world.last()["compiled"] == FEW
    scripted.demo("--count", FEW)
    assert world.last()["hits"] == FEW
    if seconds > 0:  # what was decided ahead of time stays
        hits(world)


def age(world: World, seconds: int) -> None:
    """Makes all blocks, and the decisions that were compiled from them, older by this many seconds."""
    for path in world.store.glob("plans/*.plan"):
        decision = bytearray(path.read_bytes()[16:])
        at = ffi.offsetof("PylayerDecision", "valid_from_s")
        made = struct.unpack_from("=Q", decision, at)[0]
        struct.pack_into("=Q", decision, at, made and made - seconds)
        path.write_bytes(xxh3_128_digest(bytes(decision)) + decision)
    for path in block_list(world):
        data = bytearray(path.read_bytes())
        salt = struct.unpack_from("<Q", data, 240)[0]
        for at in range(320, 320 + struct.unpack_from("<Q", data, 264)[0], ENTRY.size):
            *fields, decided, until, found = ENTRY.unpack_from(data, at)
            ENTRY.pack_into(data, at, *fields, decided - seconds * 10**9, max(until - seconds, 0), found)
        size = struct.unpack_from("<Q", data, 264)[0]
        data[280:296] = xxh3_128_digest(bytes(data[320 : 320 + size]))
        data[312:320] = xxh3_64_intdigest(bytes(data[256:312]), salt).to_bytes(8, "little")
        path.write_bytes(data)


# ---- deaths ----------------------------------------------------------------------------------------


def test_death_costs_the_program_that_died(scripted: ScriptedDriver) -> None:
    """After a crash of one program another one reads its stored pipelines without the interpreter, before and after the
    crash was found."""
    world = scripted.world
    other = world.directory / "another"
    shutil.copy(BUILD / "demo" / "pipelines", other)

    def run_other() -> None:
        world.run([str(other), "--json", "--count", str(FEW)])
        assert (world.last()["hits"], world.last()["fetched"]) == (FEW, FEW)

    for _ in range(2):
        world.run([str(other), "--json", "--count", str(FEW)])
        scripted.demo("--count", FEW)
    died = scripted.demo("--count", FEW, script="pipeline=crash?hit@3", check=False)
    assert died.returncode == -signal.SIGSEGV
    run_other()
    scripted.demo("--count", FEW)
    assert (world.last()["hits"], world.last()["compiled"]) == (FEW - 1, 1)
    run_other()
    scripted.demo("--count", FEW)
    assert (world.last()["hits"], world.last()["fetched"]) == (FEW, FEW)


def test_people_are_told(scripted: ScriptedDriver) -> None:
    """Without a log, `pylayer run` says when something takes effect or ends. stats repeats it."""
    world = scripted.world

    def pylayer(*arguments: str, script: str = "") -> subprocess.CompletedProcess[str]:
        environment = {"VK_INSTANCE_LAYERS": None, "PYLAYER_LOG": None, "PYLAYER_TEST_DRIVER": script}
        return world.pylayer(*arguments, check=False, **environment)

    demo = [str(BUILD / "demo" / "pipelines"), "--count", str(FEW)]
    for _ in range(2):
        assert "pylayer: " not in pylayer("run", "--", *demo).stderr
    assert pylayer("run", "--", *demo, script="pipeline=crash?hit@3").returncode != 0
    told = pylayer("run", "--", *demo).stderr
    assert "pipelines: stored records are blocked (1), because the program died while the driver handled them" in told
    assert "pipelines: stored records are used again (1)" in told
    assert "stored records are blocked" in pylayer("stats").stdout
    assert "pylayer: " not in pylayer("run", "--", *demo).stderr


def test_kills_in_programs_that_use_much(scripted: ScriptedDriver) -> None:
    """A program is killed in a hit in each run, and never ends well. As other stored pipelines do no harm before, it
    keeps the layer."""
    scripted.demo("--count", 24)
    scripted.demo("--count", 24)
    for number in range(10, 16):
        died = scripted.demo("--count", 24, script=f"pipeline=kill?hit@{number}", check=False)
        assert died.returncode == -signal.SIGKILL
    for _ in range(2):
        scripted.demo("--count", 24)
    assert (scripted.world.last()["hits"], scripted.world.last()["compiled"]) == (24, 0)


def test_too_many_deaths_cost_nothing_more(scripted: ScriptedDriver) -> None:
    """Once the layer is off for a program, its runs start no interpreter, and another program keeps the layer."""
    world = scripted.world
    scripted.demo("--count", 24)
    for number in (1, 2, 3):
        died = scripted.demo("--count", 24, script=f"pipeline=crash?hit@{number}", check=False)
        assert died.returncode == -signal.SIGSEGV
        deaths.review(world.folder())
    for _ in range(3):
        scripted.demo("--count", 24)
        assert world.last()["passed"] == 24 and "died repeatedly" in world.runs()[-1]["reason"]
    assert world.without_policy(3)
    age(world, 8 * DAY)
    scripted.demo("--count", 24)
    assert world.last()["hits"] >= 21


@pytest.mark.parametrize("whose", ["its own", "all programs'"])
def test_verdict_of_another_process(scripted: ScriptedDriver, whose: str) -> None:
    """A block that another process writes, or that somebody ends, takes effect from the next run on, and the
    layer obeys it alone from the run after that on."""
    world = scripted.world
    for _ in range(3):
        scripted.demo("--count", FEW)
    hits(world)
    program = int(world.stored_files()[0].name[:16], 16) if whose == "its own" else block_files.EVERY_PROGRAM
    new = [decided(ADDED_CALL, PROBE, kind) for kind in range(len(KIND_NAMES))]
    block_files.write(world.folder(), program, "pipelines", new)
    decisions = []
    for _ in range(3):
        scripted.demo("--count", FEW)
        assert (world.last()["hits"], world.last()["compiled"]) == (0, 0)
        decisions.append([path.stat().st_ino for path in world.store.glob("plans/*.plan")])
    assert decisions[0] == decisions[1] == decisions[2]
    world.pylayer("rm", "--all", "--blocks", "--yes")
    scripted.demo("--count", FEW)
    hits(world)


def test_merge_that_did_nothing(scripted: ScriptedDriver) -> None:
    """If the driver ignores one merge, the pipelines are compiled in that run. The next run's hits take the evidence
    back, and the run after it needs no interpreter."""
    for script in ("", "", "merge=ignore@1", ""):
        scripted.demo("--count", FEW, script=script)
    assert (scripted.world.last()["hits"], block_list(scripted.world)) == (FEW, [])
    for _ in range(3):
        scripted.demo("--count", FEW)
    assert scripted.world.without_policy(3)


@pytest.mark.parametrize("earlier", [0, 2])
@pytest.mark.parametrize("result", ["feature-not-present", "out-of-host-memory", "initialization-failed"])
def test_device_that_is_refused_once(scripted: ScriptedDriver, earlier: int, result: str) -> None:
    """If vkCreateDevice fails once with what the layer adds, in a program's first run or later, the layer is off in
    that run. Each later one is as if it had not failed."""
    for script in ("",) * earlier + (f"create-device=error:{result}@1",):
        scripted.demo("--count", FEW, script=script)
    assert scripted.world.runs()[-1]["mode"] == "off"
    for _ in range(4):
        scripted.demo("--count", FEW)
    hits(scripted.world)
    assert "could not be enabled" not in scripted.world.runs()[-1]["reason"]
    assert scripted.world.without_policy(3)


@pytest.mark.parametrize("damage", [b"", b"\0" * 400, b"\xff" * 9000])
def test_damaged_file_of_verdicts(scripted: ScriptedDriver, damage: bytes) -> None:
    """A damaged file of blocks says nothing, and the layer reads the store as without it."""
    world = scripted.world
    for _ in range(2):
        scripted.demo("--count", FEW)
    path = world.folder().new_path(int(world.stored_files()[0].name[:16], 16), format.file_kinds.VERDICT)
    Path(path).write_bytes(damage)
    scripted.demo("--count", FEW)
    assert (world.last()["hits"], world.last()["fetched"]) == (FEW, FEW)
