"""A driver that crashes or hangs over data crashes or hangs once, and never again over the same data. If the crash has
nothing to do with stored data, all stored data stays in use."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from scripted_driver import ScriptedDriver, read_counts
from world import BUILD, LAYER_NAME, seen

#: The mode, the command in which the driver crashes over the entry of the third pipeline, and how the program
#: creates its pipelines.
CRASHES: list[tuple[str, str, list[str | int]]] = [
    ("auto", "create-cache=crash?guilty", ["--count", 8]),
    ("auto", "merge=abort?guilty", ["--count", 8]),
    ("auto", "pipeline=kill?guilty", ["--count", 8]),
    ("auto", "pipeline=crash?has:4755494c5459", ["--count", 24, "--batch", 24]),  # more than a mark has room for
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
