"""Policy rests until something needs it: a program that only finds stored pipelines starts no interpreter."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from host_steps import END, run_host
from scripted_driver import ScriptedDriver
from world import PACKAGE, World

from pylayer.store import format, recency, runs

MAPPED = ("mapped", "_policy.")


#: Nothing here depends on the driver.
QUICK = True


def starts(world: World, *steps: str | int) -> bool:
    """Runs steps and returns whether the interpreter's library was in the process at the end."""
    process = run_host(world, *steps, *MAPPED, *END)
    return "_policy. is mapped" in process.stderr


def fill(world: World, count: int = 8) -> None:
    """Two runs: the first stores pipelines and a plan. The second ends the tests' part in a first run of a day."""
    for _ in range(2):
        run_host(world, "instance", "device", "pipelines", count, *END)
    assert list(world.store.glob("plans/*.plan"))


@pytest.mark.parametrize(
    "end", [END, ("destroy-device",), ()], ids=["destroyed", "device destroyed", "nothing destroyed"]
)
def test_stored_pipelines_need_no_interpreter(world: World, end: tuple[str, ...]) -> None:
    """A program that creates stored pipelines, or none, ends without an interpreter. Its statistics are written."""
    fill(world)
    for count in (8, 0):
        count_before = len(world.runs())
        process = run_host(world, "instance", "device", "pipelines", count, *MAPPED, *end)
        if "_policy. is mapped" in process.stderr:  # one process of 64
            continue
        run = world.runs()[-1]
        assert len(world.runs()) == count_before + 1
        assert (run["counters"]["hits"], run["counters"]["compiled"], run["loaded_records"]) == (count, 0, count)
        assert run["executable"] == "host" and run["carrier"] == "cells" and run["ended"] >= run["started"] > 0
        assert run["identity"] == world.runs()[0]["identity"] and run["program"] == world.runs()[0]["program"]


def test_a_compile_starts_it(world: World) -> None:
    """A pipeline that is not stored starts the interpreter, which stores it."""
    fill(world)
    assert starts(world, "instance", "device", "pipelines", 12)
    assert world.last()["compiled"] == 4
    run_host(world, "instance", "device", "pipelines", 12, *END)
    assert world.last()["compiled"] == 0


def test_without_a_plan_it_starts_at_once(world: World) -> None:
    """The first run of all, and one after a change of the policy file, start the interpreter at vkCreateInstance."""
    assert starts(world, "instance")
    fill(world)
    config = world.directory / "policy.yaml"
    config.write_text("settings: {fsync_interval_ms: 5}\n")
    world.environment["PYLAYER_CONFIG"] = str(config)
    assert starts(world, "instance")


def test_it_starts_after_a_while(world: World) -> None:
    """In a program that goes on, the interpreter starts after two seconds, and its statistics appear."""
    fill(world)
    process = run_host(
        world, "instance", "device", "pipelines", 8, *MAPPED, "sleep", 3000, *MAPPED, "again", 8, *END
    )  # fmt: skip
    lines = [line for line in process.stderr.splitlines() if line.startswith("_policy.")]
    assert lines == ["_policy. is not mapped", "_policy. is mapped"]
    assert (world.last()["hits"], world.last()["compiled"]) == (16, 0)
    assert world.runs()[-1]["ended"] > 0


def test_uses_are_written_once_a_day(world: World) -> None:
    """The first run of a day that uses stored pipelines says so in the store; the next one has nothing to say."""
    fill(world)
    for path in world.stored_files(".closed", ".journal"):
        age(path)
    before = len(world.stored_files())
    run_host(world, "instance", "device", "pipelines", 8, *END)
    assert len(world.stored_files()) == before + 1
    run_host(world, "instance", "device", "pipelines", 8, *END)
    assert len(world.stored_files()) == before + 1


def age(path: Path) -> None:
    """Makes what a journal says of uses two days old."""
    data = bytearray(path.read_bytes())
    header, _ = format.read_file_header(bytes(data))
    assert header is not None
    at = format.FILE_HEADER.size
    while at < len(data):
        magic, kind, flags, size, create_ns, digest, fingerprint, _, _ = format.RECORD_HEADER.unpack_from(data, at)
        if magic in (format.USED, format.CELL):
            when = int(time.time()) - 2 * recency.RECENT_SECONDS
            head = format.record_header(magic, size, digest, kind, flags, create_ns, fingerprint, when)
            data[at : at + 64] = bytes(format.seal([head], header.salt)[0])
        at += format.record_size(size)
    path.write_bytes(data)


def test_caches_of_the_program(world: World, tmp_path: Path) -> None:
    """A program that passes data of its own to vkCreatePipelineCache has policy check it. From then on the interpreter
    starts with the program, so that it need not wait for it."""
    file = tmp_path / "cache"
    for _ in range(2):
        world.demo("--count", 4, "--cache", file, "--cache-save", file)
    assert list(world.store.glob("plans/*.early"))
    assert world.runs()[-1]["cache_outcomes"] == {"attested": 1}
    data = file.read_bytes()
    file.write_bytes(data[:-4] + bytes(byte ^ 1 for byte in data[-4:]))  # within one word of the sketch
    world.demo("--count", 4, "--cache", file)
    assert world.runs()[-1]["refused"] == {"altered": 1}


def test_one_process_of_64_prunes(scripted: ScriptedDriver) -> None:
    """Programs that only find stored pipelines leave no more statistics than others: now and then one deletes old
    ones."""
    world = scripted.world
    scripted.demo("--count", 1)
    (example,) = world.store.glob("runs/*.run")
    for number in range(runs.MAX_RUNS):
        example.with_name(f"{number:016x}-{number:016x}.run").write_bytes(example.read_bytes())
    for _ in range(2000):  # none of them with a chance of 1 in 10^13
        scripted.demo("--count", 1)
        if len(list(world.store.glob("runs/*.run"))) < runs.MAX_RUNS:
            return
    raise AssertionError("nothing was pruned")


def test_devices_that_come_and_go(world: World) -> None:
    """Messages of many short-lived devices do not pile up while policy rests."""
    fill(world, 2)
    steps = ["device", "again", 2, "destroy-device"] * 40
    process = run_host(world, "instance", *steps, *MAPPED, "destroy-instance")
    assert "_policy. is mapped" in process.stderr
    assert sum(run["counters"]["hits"] for run in world.runs()[2:]) == 80


def test_no_bytes_in_files(world: World) -> None:
    """A program that may write no byte to a file gets no signal for the files that the layer itself makes."""
    fill(world)
    run_host(world, "limit", "fsize", 0, "instance", "device", "pipelines", 8, *END)


@pytest.mark.root
def test_chroot_before_it_starts(world: World, tmp_path: Path) -> None:
    """If a program calls chroot while policy rests, a compile does not start the interpreter: its libraries' paths lead
    to other files now, here to copies. The program gets its pipelines."""
    fill(world)
    jail = tmp_path / "jail"
    shutil.copytree(PACKAGE, jail / PACKAGE.relative_to("/"))
    assert not starts(world, "instance", "device", "chroot", str(jail), "pipelines", 12)


@pytest.mark.parametrize("fork", ["fork", "fork-exit", "raw-fork"])
def test_sentinel_outlives_children(world: World, fork: str) -> None:
    """A child of the program that ends does not remove the program's crash sentinel."""
    fill(world)
    seen = world.directory / "seen"
    look = f"ls {world.store}/store/*/*.live >> {seen}; true"
    run_host(world, "instance", "device", "pipelines", 8, fork, "spawn", look, *END)
    assert len(seen.read_text().splitlines()) == 1
    assert not list(world.store.glob("store/*/*.live"))
