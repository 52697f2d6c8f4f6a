"""One bad moment has no lasting effect: what makes later runs do less needs evidence, concerns the program that gave
it, and ends. The layer obeys it without the interpreter."""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from pylayer._policy import ffi
from scripted_driver import ScriptedDriver
from world import BUILD, World
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from pylayer.store import block_files, deaths, format
from pylayer.store.block_list import ADDED_CALL, DAY, DECIDED, ENTRY, Block
from pylayer.store.crash_marker import PROBE
from pylayer.values import KIND_NAMES

COUNT = 8


def block_list(world: World) -> list[Path]:
    return sorted(world.store.glob("store/*/*.verdict"))


def hits(world: World) -> None:
    """Asserts that the last run found everything in the store, that the layer itself read it, and that nothing but
    pipelines is stored."""
    last = world.last()
    assert (last["hits"], last["compiled"], last["plain"], last["fetched"]) == (COUNT, 0, 0, COUNT)
    assert block_list(world) == []


def without_interpreter(world: World, runs: int) -> bool:
    """Returns whether the layer wrote one of the last runs, not policy. By chance, policy starts at the end of one run
    in 64."""
    return any("duplicates" not in run for run in world.runs()[-runs:])


@pytest.mark.parametrize("variable", ["nocache", "shaders", "spirv", "preoptir"])
def test_debug_variable_of_the_driver(world: World, variable: str) -> None:
    """First runs under a variable with which RADV's caches stay empty change nothing for runs without it."""
    for _ in range(3):
        world.demo("--count", COUNT, RADV_DEBUG=variable)
    assert block_list(world) == []
    for _ in range(2):
        world.demo("--count", COUNT)
    hits(world)


def test_driver_that_keeps_nothing(scripted: ScriptedDriver) -> None:
    """After two runs in which the driver's caches kept nothing, the layer is off without the interpreter. A run after
    the block's end tries again, and the first cell with data ends it."""
    world = scripted.world
    for _ in range(2):
        scripted.demo("--count", COUNT, script="pipeline=ignore")
    for _ in range(3):
        scripted.demo("--count", COUNT, script="pipeline=ignore")
        assert world.last()["passed"] == COUNT
        assert world.runs()[-1]["reason"] == "the layer is off, because the driver finds nothing in its own cache data"
    assert without_interpreter(world, 3)
    age(world, 15 * DAY)
    scripted.demo("--count", COUNT)
    assert world.last()["compiled"] == COUNT and block_list(world) == []
    scripted.demo("--count", COUNT)
    hits(world)


@pytest.mark.parametrize("seconds", [365 * DAY, -365 * DAY])
def test_clock_that_was_wrong(scripted: ScriptedDriver, seconds: int) -> None:
    """What was decided while the clock was a year ahead or behind does not count."""
    world = scripted.world
    for _ in range(3):
        scripted.demo("--count", COUNT, script="pipeline=ignore")
    age(world, -seconds)
    scripted.demo("--count", COUNT)
    assert world.last()["compiled"] == COUNT
    scripted.demo("--count", COUNT)
    assert world.last()["hits"] == COUNT


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
        world.run([str(other), "--json", "--count", str(COUNT)])
        assert (world.last()["hits"], world.last()["fetched"]) == (COUNT, COUNT)

    for _ in range(2):
        world.run([str(other), "--json", "--count", str(COUNT)])
        scripted.demo("--count", COUNT)
    died = scripted.demo("--count", COUNT, script="pipeline=crash?hit@3", check=False)
    assert died.returncode == -signal.SIGSEGV
    run_other()
    scripted.demo("--count", COUNT)
    assert (world.last()["hits"], world.last()["compiled"]) == (COUNT - 1, 1)
    run_other()
    scripted.demo("--count", COUNT)
    assert (world.last()["hits"], world.last()["fetched"]) == (COUNT, COUNT)


def test_people_are_told(scripted: ScriptedDriver) -> None:
    """Without a log, `pylayer run` says when something takes effect or ends. stats repeats it."""
    world = scripted.world

    def pylayer(*arguments: str, script: str = "") -> subprocess.CompletedProcess[str]:
        environment = {"VK_INSTANCE_LAYERS": None, "PYLAYER_LOG": None, "PYLAYER_TEST_DRIVER": script}
        return world.pylayer(*arguments, check=False, **environment)

    demo = [str(BUILD / "demo" / "pipelines"), "--count", str(COUNT)]
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
    assert without_interpreter(world, 3)
    age(world, 8 * DAY)
    scripted.demo("--count", 24)
    assert world.last()["hits"] >= 21


@pytest.mark.parametrize("whose", ["its own", "all programs'"])
def test_verdict_of_another_process(scripted: ScriptedDriver, whose: str) -> None:
    """A block that another process writes, or that somebody ends, takes effect from the next run on, and the
    layer obeys it alone from the run after that on."""
    world = scripted.world
    for _ in range(3):
        scripted.demo("--count", COUNT)
    hits(world)
    program = int(world.stored_files()[0].name[:16], 16) if whose == "its own" else block_files.EVERY_PROGRAM
    now = time.time_ns()
    about = {"runs": 1, "flags": DECIDED, "decided_ns": now, "until_s": now // 10**9 + DAY, "found_ns": now}
    new = [Block(type=ADDED_CALL, kind=kind, subject=PROBE, **about) for kind in range(len(KIND_NAMES))]
    block_files.write(world.folder(), program, "pipelines", new)
    decisions = []
    for _ in range(3):
        scripted.demo("--count", COUNT)
        assert (world.last()["hits"], world.last()["compiled"]) == (0, 0)
        decisions.append([path.stat().st_ino for path in world.store.glob("plans/*.plan")])
    assert decisions[0] == decisions[1] == decisions[2]
    world.pylayer("rm", "--all", "--blocks", "--yes")
    scripted.demo("--count", COUNT)
    hits(world)


def test_merge_that_did_nothing(scripted: ScriptedDriver) -> None:
    """If the driver ignores one merge, the pipelines are compiled in that run. The next run's hits take the evidence
    back, and the run after it needs no interpreter."""
    for script in ("", "", "merge=ignore@1", ""):
        scripted.demo("--count", COUNT, script=script)
    assert (scripted.world.last()["hits"], block_list(scripted.world)) == (COUNT, [])
    for _ in range(3):
        scripted.demo("--count", COUNT)
    assert without_interpreter(scripted.world, 3)


@pytest.mark.parametrize("earlier", [0, 2])
@pytest.mark.parametrize("result", ["feature-not-present", "out-of-host-memory", "initialization-failed"])
def test_device_that_is_refused_once(scripted: ScriptedDriver, earlier: int, result: str) -> None:
    """If vkCreateDevice fails once with what the layer adds, in a program's first run or later, the layer is off in
    that run. Each later one is as if it had not failed."""
    for script in ("",) * earlier + (f"create-device=error:{result}@1",):
        scripted.demo("--count", COUNT, script=script)
    assert scripted.world.runs()[-1]["mode"] == "off"
    for _ in range(4):
        scripted.demo("--count", COUNT)
    hits(scripted.world)
    assert "could not be enabled" not in scripted.world.runs()[-1]["reason"]
    assert without_interpreter(scripted.world, 3)


@pytest.mark.parametrize("damage", [b"", b"\0" * 400, b"\xff" * 9000])
def test_damaged_file_of_verdicts(scripted: ScriptedDriver, damage: bytes) -> None:
    """A damaged file of blocks says nothing, and the layer reads the store as without it."""
    world = scripted.world
    for _ in range(2):
        scripted.demo("--count", COUNT)
    path = world.folder().new_path(int(world.stored_files()[0].name[:16], 16), format.file_kinds.VERDICT)
    Path(path).write_bytes(damage)
    scripted.demo("--count", COUNT)
    assert (world.last()["hits"], world.last()["fetched"]) == (COUNT, COUNT)
