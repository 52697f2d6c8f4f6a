"""Runs that the layer records without policy: others see them while they go on, and after a kill. Who is alive is known
after a reboot, in containers, and of a process whose main thread has ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from disk import FailingDisk
from host_steps import END, HOST
from namespaces import container, rebooted
from world import LAYER_NAME, World, until
from xxhash import xxh3_64_hexdigest

from pylayer.store import crash_marker, runs

#: Nothing here depends on the driver.
QUICK = True
COUNT = 8
PYLAYER = str(Path(sys.executable).parent / "pylayer")
WARM = ("instance", "device", "pipelines", str(COUNT))


def told(world: World, *words: str, around: tuple[str, ...] = (), **environment: str) -> Any:
    """Returns the JSON that a command of pylayer prints."""
    command = [*around, PYLAYER] if around else [sys.executable, "-m", "pylayer"]
    return json.loads(world.run([*command, *words, "--json"], **environment).stdout)


def run(world: World, *steps: str, around: tuple[str, ...] = (), **environment: str | None) -> int:
    return world.run([*around, str(HOST), *steps], check=False, **environment).returncode


def fill(world: World) -> None:
    """Stores what warm programs find."""
    for _ in range(2):
        assert run(world, *WARM, *END) == 0


@contextmanager
def going_on(
    world: World, *steps: str, around: tuple[str, ...] = (), **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program that has done these steps and then waits. It is killed in the end."""
    command = [*around, str(HOST), *steps, "spawn", "echo there", "sleep", "600000"]
    variables = {**world.environment, "VK_INSTANCE_LAYERS": LAYER_NAME, **environment}
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as program:
        until(program, lambda: program.stdout is not None and program.stdout.readline() == "there\n")
        try:
            yield program
        finally:
            program.kill()


def kill(world: World, *steps: str, **environment: str | None) -> None:
    """Runs a program that only finds stored pipelines and is killed."""
    assert run(world, *(steps or WARM), "end", "kill", **environment) in (-signal.SIGKILL, 128 + signal.SIGKILL)


def kill_inside(program: subprocess.Popen[bytes]) -> None:
    """Kills what runs in a container."""
    (inside,) = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    os.kill(int(inside), signal.SIGKILL)
    program.wait()


def newest(world: World, *around: str) -> tuple[int, str, int]:
    """Returns pid, state and hits of the process that `pylayer stats --runs` names first."""
    own = told(world, "stats", "--runs", around=around)["processes"][0]
    return own["pid"], own["state"], own["hits"]


def test_a_warm_program_is_seen(world: World) -> None:
    """`pylayer stats`, with --runs too, sees a program that only finds stored pipelines, while it runs and after a
    kill. It has no thread of the layer's."""
    fill(world)
    before = told(world, "stats")["total"]
    with going_on(world, *WARM) as program:
        (shown,) = [one for one in told(world, "stats", "--runs")["processes"] if one["state"] == "running"]
        keys = ("pid", "hits", "pipelines", "compiled", "program", "mode")
        assert [shown[key] for key in keys] == [program.pid, COUNT, COUNT, 0, "host", "cells"]
        assert shown["last_started_s"] > 0
        total = told(world, "stats")["total"]
        assert (total["runs"], total["hits"]) == (before["runs"] + 1, before["hits"] + COUNT)
        assert len(os.listdir(f"/proc/{program.pid}/task")) == 1
    assert newest(world) == (program.pid, "died", COUNT) and told(world, "stats")["total"]["hits"] == total["hits"]


def test_looks_follow_a_warm_program(world: World) -> None:
    """What a program finds between two looks is shown by the second one, although its file's time does not change."""
    fill(world)
    watch = f"{PYLAYER} stats --runs --json > {{}}"
    seen = [world.directory / name for name in ("first", "second")]
    steps = [word for path in seen for word in ("again", "3", "spawn", watch.format(path))]
    run(world, "instance", "device", *steps, *END)
    hits = [json.loads(path.read_text())["processes"][0]["hits"] for path in seen]
    assert hits == [3, 6]


def test_the_next_start_keeps_it(world: World) -> None:
    """The next start of the layer writes the file of a run whose process was killed, with what the crash marker said,
    and deletes the crash marker. It needs no interpreter for that."""
    fill(world)
    kill(world)
    (left,) = world.live_files()
    counted = runs.read_marker(str(left))
    assert counted["counters"]["hits"] == COUNT
    process = world.run([str(HOST), *WARM, "mapped", "_policy.", *END])
    assert "_policy. is not mapped" in process.stderr
    assert world.live_files() == []
    found = runs.read(str(world.store), runs.name_of(str(left)))
    assert found.pop("died") is True
    assert counted.pop("alive") is False
    kinds = [{kind: own["hits"] for kind, own in values.pop("kinds").items()} for values in (counted, found)]
    assert counted == found and kinds[0] == kinds[1]
    assert [one["counters"]["hits"] for one in world.runs()[-2:]] == [COUNT, COUNT]


#: Programs that are killed: one that has only found pipelines, and one that has compiled some, too.
KILLED = {"warm": (WARM, 0), "cold in its middle": ((*WARM, "pipelines", "3", "await-journal", "3"), 3)}


@pytest.mark.parametrize("counted", ["in the crash marker", "by the next start"])
@pytest.mark.parametrize(("steps", "compiled"), KILLED.values(), ids=list(KILLED))
def test_each_command_shows_it(world: World, steps: tuple[str, ...], compiled: int, counted: str) -> None:
    """Each command that reads runs shows what a killed program found and compiled, whether only its crash marker counts
    that or the next start has written it down."""
    fill(world)
    before = told(world, "stats")["total"]
    kill(world, *steps, **FailingDisk(world, "open:ENOSPC:path=/runs/").environment)
    assert not list(world.store.glob(f"runs/{runs.name_of(str(world.live_files()[0]))}.*"))
    if counted == "by the next start":
        run(world, "instance", "device", *END)
        assert world.live_files() == []
    numbers = (COUNT + compiled, COUNT, compiled)
    keys = ("pipelines", "hits", "compiled")
    total = told(world, "stats")["total"]
    assert tuple(total[key] - before[key] for key in keys) == numbers
    (shown,) = [one for one in told(world, "stats", "--runs")["processes"] if one["state"] == "died"]
    (report,) = told(world, "report", "last")["runs"]
    for found in (shown, report):
        assert tuple(found[key] for key in keys) == numbers and found["stored_records"] == 0
    page = world.directory / "page.html"
    for words in (("stats",), ("stats", "--runs"), ("report", "last", "--html", str(page)), ("report", "last")):
        assert "host" in world.run([PYLAYER, *words]).stdout + (page.read_text() if page.exists() else "")
    metrics = world.run([PYLAYER, "stats", "--prometheus"]).stdout
    assert re.search(rf"^pylayer_pipelines_total{{.*}} {total['pipelines']}$", metrics, re.MULTILINE)


def test_first_run_that_is_killed(world: World) -> None:
    """The crash marker of a program counts its first run, too, if policy could not write the run's file."""
    steps = ("instance", "device", "pipelines", "3", "await-journal", "3")
    kill(world, *steps, **FailingDisk(world, "open:ENOSPC:path=/runs/").environment)
    assert len(world.live_files()) == len(world.runs()) == told(world, "stats")["total"]["runs"] == 1


def test_kills_leave_no_more_runs_than_others(world: World) -> None:
    """If a program is killed each time, its next start deletes old statistics once they are many."""
    fill(world)
    example = next(world.store.glob("runs/*.run"))
    for number in range(runs.MAX_RUNS):
        example.with_name(f"{7:016x}-{number:016x}-{number:016x}.run").write_bytes(example.read_bytes())
    kill(world)
    with going_on(world, *WARM) as program:
        until(program, lambda: len(list(world.store.glob("runs/*.run"))) < runs.MAX_RUNS)


def test_policy_goes_on_with_the_run(world: World) -> None:
    """If such a program compiles a pipeline, policy starts and records the same run: it is shown and counted once, also
    after a kill, and what policy knew of it stays."""
    fill(world)
    before = len(world.runs())
    with going_on(world, *WARM, "pipelines", "3", "await-journal", "3") as program:
        until(program, lambda: world.runs()[-1].get("stored_records") == 3)
        (shown,) = [one for one in told(world, "stats", "--runs")["processes"] if one["state"] == "running"]
        assert (shown["hits"], shown["compiled"]) == (COUNT, 3)
        assert len(world.runs()) == before + 1
    assert newest(world) == (program.pid, "died", COUNT) and len(world.runs()) == before + 1
    for _ in range(2):
        *_, died = (one for one in world.runs() if one["counters"]["compiled"] == 3)
        assert (died["stored_records"], died["kinds"]["compute"]["compiled"], died["counters"]["hits"]) == (3, 3, COUNT)
        assert died["program"] == "host" and died["reason"] == "the driver has pipelineCreationCacheControl"
        run(world, *WARM, *END)
        assert world.live_files() == []
    assert len(world.runs()) == before + 3 and died["died"] is True


def test_two_devices(world: World) -> None:
    """Each device of a process has a run of its own, whichever of them is left when it is killed."""
    fill(world)
    before = len(world.runs())
    kill(world, *WARM, "device", "again", "3", "destroy-device", "device", "again", "5")
    assert [one["counters"]["hits"] for one in world.runs()[before:]] == [COUNT, 3, 5]
    assert [one.get("ended", 0) > 0 for one in world.runs()[before:]] == [False, True, False]


def test_after_a_reboot(world: World, tmp_path: Path) -> None:
    """After a reboot no program of before is said to be running, and its run is counted."""
    fill(world)
    kill(world)
    around = rebooted(tmp_path)
    assert newest(world, *around)[1:] == ("died", COUNT)
    run(world, *WARM, *END, around=around)
    assert world.live_files() == [] and world.runs()[-2]["died"] is True


@pytest.mark.parametrize("steps", [WARM, (*WARM, "pipelines", "3", "await-journal", "3")], ids=["warm", "with policy"])
def test_killed_container(world: World, steps: tuple[str, ...]) -> None:
    """The program of a container is running as long as it lives, and died as soon as the container is killed: also once
    another start has deleted its crash marker."""
    fill(world)
    with going_on(world, *steps, around=container()) as program:
        until(program, lambda: told(world, "stats", "--runs")["processes"] and newest(world)[1] == "running")
        kill_inside(program)
        assert newest(world)[1:] == ("died", COUNT)
    run(world, *WARM, *END)
    assert world.live_files() == []
    states = [own["state"] for own in told(world, "stats", "--runs")["processes"]]
    assert states.count("died") == 1 and "running" not in states


@pytest.mark.parametrize("setting", ["store: read-only", "no store"])
def test_store_that_is_not_written(world: World, setting: str, tmp_path: Path) -> None:
    """With a store that programs only read, the crash marker is in the runtime directory, and a warm program is seen
    there. Without a store nothing is recorded."""
    fill(world)
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    world.environment["XDG_RUNTIME_DIR"] = str(runtime)
    if setting == "no store":
        world.environment["PYLAYER_STORE"] = "/dev/null/none"
        kill(world)
        assert not list(runtime.rglob("*.live"))
        return
    world.configure(store="read-only")
    for _ in range(2):
        run(world, *WARM, *END)
    with going_on(world, *WARM) as program:
        assert [path.suffix for path in runtime.glob("pylayer-live-*/*")] == [".live"]
        assert newest(world) == (program.pid, "running", COUNT)
    assert newest(world)[1:] == ("died", COUNT)
    run(world, *WARM, *END)
    assert list(runtime.glob("pylayer-live-*/*")) == []


def replaced(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


RUN = crash_marker.RUN_OFFSET
#: Damage to a crash marker, with the place of its text.
WOUNDS: dict[str, Callable[[bytes, int], bytes]] = {
    "empty": lambda data, text: b"",
    "a piece": lambda data, text: data[:100],
    "zeros": lambda data, text: bytes(len(data)),
    "ones": lambda data, text: b"\xff" * len(data),
    "truncated": lambda data, text: data[: RUN + 100],
    "no run": lambda data, text: replaced(data, RUN, bytes(len(data) - RUN)),
    "endless": lambda data, text: replaced(data, text, b"layout=s:1 99999999 1"[:20]),
    "far": lambda data, text: data[:text] + b"layout=s:%d 2 4096" % 10**30 + data[data.index(b"\n", text) :],
}


@pytest.mark.parametrize("how", WOUNDS)
def test_damaged_marker(world: World, how: str) -> None:
    """A crash marker that is cut off or damaged counts no run. The commands work, the program finds its pipelines, and
    the file is deleted by the next start of the layer or of policy, which blocks nothing."""
    fill(world)
    before = len(world.runs())
    kill(world)
    (path,) = world.live_files()
    data = path.read_bytes()
    path.write_bytes(WOUNDS[how](data, data.index(b"layout=s:", RUN)))
    assert len(world.runs()) == before and told(world, "stats", "--runs")["processes"] is not None
    assert told(world, "stats")["total"]["runs"] == before
    run(world, *WARM, *END)
    assert world.last()["hits"] == COUNT
    run(world, *WARM, *END, PYLAYER_LOG="info")
    assert world.live_files() == [] and not world.stored_files(".verdict")


def test_another_build_counted(world: World) -> None:
    """A run that another build of pylayer counted, with other counters, is shown by the commands. The layer leaves it
    to policy, which keeps it."""
    fill(world)
    kill(world)
    (path,) = world.live_files()
    data = path.read_bytes()
    assert data.count(b"counted=s:pipelines ") == 1
    path.write_bytes(data.replace(b"counted=s:pipelines ", b"counted=s:gathering "))
    assert world.runs()[-1]["counters"]["gathering"] == COUNT
    run(world, *WARM, *END)
    assert world.live_files() == [path] and world.runs()[-2]["alive"] is False
    world.configure(application_caches="check")  # policy starts, because the file changed
    run(world, *WARM, *END)
    assert world.live_files() == []
    (kept,) = [one for one in world.runs() if "gathering" in one["counters"]]
    assert kept["died"] is True and kept["counters"]["hits"] == COUNT


def test_marker_of_a_newer_version(world: World) -> None:
    """The crash marker of a newer version stays, and keeps nobody from reading the store."""
    fill(world)
    kill(world)
    (path,) = world.live_files()
    data = bytearray(path.read_bytes())
    data[8] += 1
    path.write_bytes(data)
    for policy in ({}, {"PYLAYER_LOG": "info"}):
        run(world, *WARM, *END, **policy)
        assert path.read_bytes() == data and world.last()["fetched"] == COUNT


@pytest.mark.parametrize("marked", [False, True])
def test_forget(world: World, marked: bool) -> None:
    """`pylayer rm --history` removes a killed program's run, which does not come back, and keeps that of a living one.
    What the driver was working on when the program died is still found."""
    fill(world)
    kill(world)
    (path,) = world.live_files()
    forget = ("rm", "host", "--history", "--yes")
    if marked:
        data = bytearray(path.read_bytes())
        data[crash_marker.OFFSET : crash_marker.OFFSET + 8] = b"\5\0\0\0\0\0\1\0"
        path.write_bytes(data)
        world.pylayer(*forget)
        assert path.exists() and world.runs() == []
        run(world, *WARM, *END)
        assert not path.exists() and len(world.runs()) == 1
        assert "host" in world.pylayer("ls").stdout
        return
    with going_on(world, *WARM) as program:
        world.pylayer(*forget)
        assert [one["pid"] for one in world.runs()] == [program.pid] and not path.exists()


# ---- Who is alive --------------------------------------------------------------------------------


#: A program that has a device.
DEVICE = ("instance", "device", "pipelines", "1")
#: The driver crashes in the third pipeline that it finds in a cache.
CRASH = "pipeline=crash?hit@3"


@pytest.mark.parametrize(
    ("first", "then"),
    [("outside", "outside"), ("outside", "rebooted"), ("container", "outside"), ("container", "container")],
)
def test_crash_is_found(world: World, tmp_path: Path, first: str, then: str) -> None:
    """A process that dies in the driver over stored data leaves a crash marker, which the next start finds, outside or
    in another container, and after the machine was started again: the driver crashes once. The run is kept."""
    around = {"outside": tuple[str, ...], "container": container, "rebooted": lambda: rebooted(tmp_path)}
    fill(world)
    status = run(world, *WARM, around=around[first](), PYLAYER_TEST_DRIVER=CRASH)
    assert status in (-signal.SIGSEGV, 128 + signal.SIGSEGV)
    (left,) = world.live_files()
    assert world.runs()[-1]["counters"]["hits"] == 2
    for compiled in (1, 0):
        assert run(world, *WARM, *END, around=around[then]()) == 0
        assert not left.exists() and world.last()["compiled"] == compiled
    died = world.runs()[-3]
    assert died["died"] is True and died["counters"]["hits"] == 2


def test_container_beside(world: World) -> None:
    """The crash marker of a container beside, and that of one that was killed, do not keep others from reading the
    store without the interpreter. The first stays, the second is deleted."""
    fill(world)
    with going_on(world, *DEVICE, around=container()) as program:
        run(world, *WARM, *END)
        assert world.last()["fetched"] == COUNT and len(world.live_files()) == 1
        assert run(world, *WARM, *END, around=container()) == 0 and world.last()["fetched"] == COUNT
        kill_inside(program)
        run(world, *WARM, *END)
        assert world.last()["fetched"] == COUNT and world.live_files() == []


def test_program_without_its_main_thread(world: World) -> None:
    """The crash marker of a program whose main thread has ended stays: the program lives."""
    fill(world)
    with going_on(world, "main-thread-ends", *DEVICE) as program:
        (path,) = world.live_files()
        stat = Path(f"/proc/{program.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            os.sched_yield()
        run(world, *WARM, *END)
        assert world.last()["fetched"] == COUNT and path.exists()


def test_marker_that_is_being_made(world: World) -> None:
    """A crash marker that somebody is writing is left alone, and one that nobody finished is deleted. Neither starts
    the interpreter."""
    fill(world)
    (folder,) = (world.store / "store").iterdir()
    path = folder / f"{7:016x}-1-2.live"
    with path.open("wb"):
        run(world, *WARM, *END)
        assert world.last()["fetched"] == COUNT and path.exists()
    run(world, *WARM, *END)
    assert world.last()["fetched"] == COUNT and not path.exists()


def test_runtime_directory_of_another_user(world: World, tmp_path: Path) -> None:
    """What lies in a runtime directory that others can write to is not believed: it does not start the interpreter."""
    fill(world)
    assert run(world, *WARM, PYLAYER_TEST_DRIVER=CRASH) and world.live_files()
    (left,) = world.live_files()
    (folder,) = (world.store / "store").iterdir()
    runtime = tmp_path / "runtime" / f"pylayer-live-{xxh3_64_hexdigest(os.fsencode(folder.resolve()))}"
    runtime.mkdir(parents=True)
    left.rename(runtime / left.name)
    runtime.chmod(0o777)
    for log in ("warn", "info"):  # by the layer, and by policy
        run(world, *WARM, *END, XDG_RUNTIME_DIR=str(tmp_path / "runtime"), PYLAYER_LOG=log)
        assert world.last()["hits"] == COUNT and len(list(runtime.iterdir())) == 1
    runtime.chmod(0o700)
    run(world, *WARM, *END, XDG_RUNTIME_DIR=str(tmp_path / "runtime"))
    assert world.last()["fetched"] == COUNT - 1 and list(runtime.iterdir()) == []  # one is blocked


def test_clear_beside_a_running_program(world: World) -> None:
    """``pylayer rm`` keeps the crash marker of a program that runs, so that its crash is found."""
    run(world, *WARM, *END)
    with going_on(world, *DEVICE) as program:
        (path,) = world.live_files()
        world.run([PYLAYER, "rm", "--pipelines", "--all", "--yes"], check=False)
        assert path.exists()
        program.kill()
        program.wait()
        world.run([PYLAYER, "rm", "--pipelines", "--all", "--yes"])
        assert not path.exists()
