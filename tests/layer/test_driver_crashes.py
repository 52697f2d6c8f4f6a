"""A driver that crashes or hangs over data crashes or hangs once, and never again over the same data. If the crash has
nothing to do with stored data, all stored data stays in use."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from disk import FailingDisk
from scripted_driver import ScriptedDriver, read_counts
from world import BUILD, LAYER_NAME, Run, seen

from pylayer.common import file_kinds

#: The carrier, the command in which the driver crashes over the entry of the third pipeline, and how the program
#: creates its pipelines.
CRASHES: list[tuple[str, str, list[str | int]]] = [
    ("auto", "create-cache=crash?guilty", ["--count", 8]),
    ("auto", "merge=abort?guilty", ["--count", 8]),
    ("auto", "pipeline=kill?guilty", ["--count", 8]),
    ("auto", "pipeline=crash?has:4755494c5459", ["--count", 8, "--batch", 8]),
    ("auto", "pipeline=crash?guilty", ["--count", 16, "--threads", 4]),
    ("auto", "pipeline=crash?guilty", ["--count", 8, "--cache", "object"]),
    ("auto", "pipeline=crash?guilty", ["--count", 4, "--gpl"]),
    ("binaries", "create-binaries=crash?guilty?from-data", ["--count", 8, "--api", "1.3"]),
    ("binaries", "pipeline=crash?guilty?from-binaries", ["--count", 8, "--api", "1.3"]),
    ("binaries", "pipeline=crash?guilty?from-binaries", ["--count", 8, "--api", "1.3", "--batch", 4]),
]


@pytest.mark.parametrize(("carrier", "script", "arguments"), CRASHES)
def test_crashes_once(scripted: ScriptedDriver, carrier: str, script: str, arguments: list[str | int]) -> None:
    """After the driver crashed over stored data, the next run says what is set aside and creates all pipelines. The run
    after that compiles nothing, although the driver would still crash over the old data."""
    scripted.settings(carrier=carrier)
    driver = script.rpartition(";")[0]
    healthy = seen(scripted.demo(*arguments, script=f"guilty=3;{driver}"))
    crashed = scripted.demo(*arguments, script=script, check=False)
    assert crashed.returncode < 0
    result = scripted.demo(*arguments, script=script)
    assert seen(result) == healthy and "set aside" in scripted.warnings(result)
    assert seen(scripted.demo(*arguments, script=script, verify=True)) == healthy
    assert scripted.counts["compiles"] == 0


@pytest.mark.parametrize("cache", [(), ("--cache", "object")], ids=["no cache", "its own cache"])
@pytest.mark.parametrize("deferred", ["at-once", "to-join"])
def test_deferred_with_a_guilty_pipeline(scripted: ScriptedDriver, deferred: str, cache: tuple[str, ...]) -> None:
    """If the driver crashes over a stored pipeline that a program defers, the next runs create that pipeline without
    stored data."""
    way = ("--count", 4, "--ray-tracing", "--deferred", 2, "--api", "1.3", *cache)
    driver = f"deferral={deferred};"
    scripted.demo(*way, script=f"{driver}guilty=2")
    assert scripted.demo(*way, script=f"{driver}pipeline=crash?guilty", check=False).returncode == -signal.SIGSEGV
    for _ in range(2):
        assert scripted.demo(*way, script=f"{driver}pipeline=crash?guilty")["created"] == 4


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
    """The suspected pipeline is created after stored data was merged into the program's own cache, and the driver still
    has the fatal entry, of an equal pipeline with another name. The pipeline is still compiled, without any cache."""
    scripted.settings(carrier="cells")
    scripted.recipe(f"{optimized('spec=1000:1')}again: compute C0 : P3 shader=comp0 {SAME}\n", script="guilty=2")
    fatal = "internal-cache=no;pipeline=crash?guilty"
    assert scripted.recipe(optimized(SAME), script=fatal, check=False).returncode == -signal.SIGSEGV
    process = scripted.recipe(optimized(how), script=fatal + script)
    assert "optimized result=0" in process.stdout.splitlines()[-1]
    assert (scripted.counts["guilty-uses"], scripted.counts["hits"] > 0) == (0, True)


@pytest.mark.parametrize("carrier", ["auto"])
def test_cache_file_that_crashes_the_driver(scripted: ScriptedDriver, carrier: str, tmp_path: Path) -> None:
    """A program's own cache file that passes every check crashes the driver when it is used: in each run without the
    layer, once with it."""
    scripted.settings(carrier=carrier)
    file, script = tmp_path / "cache", "pipeline=crash?guilty"
    scripted.demo("--count", 8, "--cache", "object", "--cache-save", file, script="guilty=3")
    arguments = ["--count", 8, "--cache", file]
    for _ in range(2):
        assert scripted.demo(*arguments, script=script, layered=False, check=False).returncode == -signal.SIGSEGV
    assert scripted.demo(*arguments, script=script, check=False).returncode == -signal.SIGSEGV
    for _ in range(2):
        result = scripted.demo(*arguments, script=script, verify=True)
        assert result["created"] == 8 and "the program gets an empty cache" in scripted.warnings(result)


def test_verdict_in_a_file_that_is_replaced(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Another process combines the files of verdicts after this one has listed them, and before it opens them. The
    verdict in them still holds."""
    file, script = tmp_path / "cache", "pipeline=crash?guilty"
    scripted.demo("--count", 8, "--cache", "object", "--cache-save", file, script="guilty=3")
    arguments = ["--count", 8, "--cache", file]
    assert scripted.demo(*arguments, script=script, check=False).returncode == -signal.SIGSEGV
    scripted.demo(*arguments, script=script)
    disk = FailingDisk(scripted.world, "open:ENOENT:path=.verdict:nth=1")
    result = scripted.demo(*arguments, script=script, **disk.environment)
    assert disk.struck and "the program gets an empty cache" in scripted.warnings(result)


@pytest.mark.parametrize(
    ("carrier", "script"),
    [
        ("auto", "create-device=crash"),
        ("auto", "pipeline=abort?compile@2"),
        ("binaries", "pipeline=crash?compile"),
        ("binaries", "create-object=kill@40"),
    ],
)
def test_crash_that_is_none_of_the_stores(scripted: ScriptedDriver, carrier: str, script: str) -> None:
    """If the driver crashes repeatedly while it handles no stored data, all stored data stays in use."""
    scripted.settings(carrier=carrier)
    scripted.demo("--count", 8, "--api", "1.3")
    for _ in range(4):
        assert scripted.demo("--count", 12, "--api", "1.3", script=script, check=False).returncode < 0
    result = scripted.demo("--count", 8, "--api", "1.3", verify=True)
    assert scripted.counts["compiles"] == 0 and not scripted.warnings(result)


@pytest.mark.parametrize("script", ["pipeline=crash?hit@4", "pipeline=crash?may-not-compile"])
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


def start(scripted: ScriptedDriver, script: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**scripted.world.environment, **scripted.environment(script), "VK_INSTANCE_LAYERS": LAYER_NAME}
    command = [str(BUILD / "demo" / "pipelines"), "--json", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


#: The command that never returns on the policy thread, and how the program creates pipelines meanwhile. The hang
#: excludes the main thread, whose own caches the driver may return from.
IN_A_LOAD, IN_A_MERGE = "create-cache=hang?data?!main-thread", "merge=hang?!main-thread"
HANGS: list[tuple[str, list[str | int]]] = [
    (IN_A_LOAD, ["--count", 8]),
    (IN_A_LOAD, ["--count", 8, "--no-destroy"]),
    (IN_A_MERGE, ["--count", 8]),
    (IN_A_MERGE, ["--count", 8, "--cache", "object", "--threads", 4]),
]


def run_into(hang: str, arguments: list[str | int], directory: Path) -> tuple[ScriptedDriver, Run]:
    """Runs a program on a driver that hangs over stored data. Asserts that all pipelines are created and every call
    returns."""
    directory.mkdir()
    scripted = ScriptedDriver(directory)
    for _ in range(20):
        shutil.rmtree(scripted.world.store, ignore_errors=True)
        scripted.demo(*arguments)
        shutil.rmtree(scripted.world.store / "plans")  # with a plan the layer reads the store, on the program's threads
        result = scripted.demo(*arguments, script=f"create-object=slow:5;{hang}")
        assert result["created"] == 8
        # A process that ends before policy began to load leaves no sentinel.
        if scripted.counts["compiles"] == 8 and list(scripted.world.store.glob(f"store/*/*{file_kinds.LIVE}")):
            break
    else:
        raise AssertionError("the driver did not hang over what is stored")
    scripted.settings()
    return scripted, result


def test_stored_data_hangs_the_driver(tmp_path: Path) -> None:
    """If vkCreatePipelineCache never returns on the policy thread, the program still ends, also by exit(), and the next
    start sets aside the data that the driver hung in. If vkMergePipelineCaches never returns, nobody can merge into
    that cache or probe it, and one warning says why the pipelines were compiled.

    All cases run at once, because the layer waits for seconds before it abandons a driver that hangs."""
    with ThreadPoolExecutor(len(HANGS)) as pool:
        waits = [pool.submit(run_into, *how, tmp_path / str(number)) for number, how in enumerate(HANGS)]
    for (hang, arguments), wait in zip(HANGS, waits, strict=True):
        scripted, hung = wait.result()
        if hang == IN_A_MERGE:
            assert scripted.warnings(hung).count("the program goes on without stored pipelines") == 1
            continue
        result = scripted.demo(*arguments, script="create-cache=hang?data", verify=True)
        assert result["created"] == 8 and "set aside" in scripted.warnings(result)
        scripted.demo(*arguments, verify=True)
        scripted.demo(*arguments)
        assert scripted.counts["compiles"] == 0


def kill_in_a_hang(scripted: ScriptedDriver, hang: str) -> None:
    """What a user does whose program does not go on."""
    process = start(scripted, hang, "--count", "8")
    while read_counts(scripted.counts_file).get("acts", 0) == 0 and process.poll() is None:
        os.sched_yield()
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_stored_pipeline_hangs_the_driver(scripted: ScriptedDriver) -> None:
    """If the driver hangs in the creation of a stored pipeline, on the program's own thread, the user has to kill the
    program. The next run compiles that pipeline, and the driver no longer hangs."""
    scripted.demo("--count", 8, script="guilty=3")
    kill_in_a_hang(scripted, "pipeline=hang?guilty")
    for compiled in (1, 0):
        result = scripted.demo("--count", 8, script="pipeline=hang?guilty", verify=True)
        assert (result["created"], scripted.counts["compiles"]) == (8, compiled)


def test_all_stored_data_hangs_the_driver(scripted: ScriptedDriver) -> None:
    """If the driver hangs over whatever is stored, on the program's own thread, the first kill sets aside the one
    record that was read, and the second all that were read after it. Then the program compiles everything and goes
    on."""
    hang = "create-cache=hang?data"
    scripted.demo("--count", 8)
    for _ in range(2):
        kill_in_a_hang(scripted, hang)
    result = scripted.demo("--count", 8, script=hang, verify=True)
    assert (result["created"], scripted.counts["compiles"]) == (8, 8)
    scripted.demo("--count", 8)
    assert scripted.counts["compiles"] == 0
