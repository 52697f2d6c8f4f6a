"""Who is alive, in real processes: after a reboot, in containers, and in a process whose main thread has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from namespaces import container, rebooted
from world import BUILD, LAYER_NAME, World
from xxhash import xxh3_64_hexdigest

QUICK = True
COUNT = 8
DEMO = str(BUILD / "demo" / "pipelines")
PYLAYER = str(Path(sys.executable).parent / "pylayer")
#: The driver crashes in the third pipeline that it finds in a cache.
CRASH = "pipeline=crash?hit@3"


def run(world: World, around: tuple[str, ...] = (), script: str = "", *arguments: str) -> int:
    """Runs the demo below another command. Returns its exit status."""
    command = [*around, DEMO, "--json", "--count", str(COUNT), *arguments]
    return world.run(command, check=False, PYLAYER_TEST_DRIVER=script).returncode


def has_crashed(status: int) -> bool:
    return status in (-signal.SIGSEGV, 128 + signal.SIGSEGV)


@contextmanager
def running(world: World, *around: str, before: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program that has a device and does nothing more."""
    steps = (*before, "instance", "device", "pipelines", "1", "sleep", "60000")
    environment = {**world.environment, "VK_INSTANCE_LAYERS": LAYER_NAME}
    there = set(world.live_files())
    with subprocess.Popen([*around, str(BUILD / "tests" / "host"), *steps], env=environment, stdout=-1) as program:
        while set(world.live_files()) <= there:
            assert program.poll() is None
            os.sched_yield()
        yield program
        program.kill()


def crash_is_found(world: World, first: tuple[str, ...], then: tuple[str, ...]) -> None:
    """Asserts that a crash in a process that ran below ``first`` is found by the next one, below ``then``."""
    world.demo("--count", COUNT)
    world.demo("--count", COUNT)
    assert has_crashed(run(world, first, CRASH))
    (left,) = world.live_files()
    assert run(world, then) == 0
    assert not left.exists() and world.last()["compiled"] == 1, "the crash was not found"
    assert run(world, then) == 0 and world.last()["hits"] == COUNT


def test_crash_before_a_reboot(world: World, tmp_path: Path) -> None:
    """If the machine is started again after a crash, the next start finds it: the driver crashes once."""
    crash_is_found(world, (), rebooted(tmp_path))


@pytest.mark.parametrize("then", ["outside", "another"])
def test_crash_in_a_container(world: World, then: str) -> None:
    """A crash in a container is found at once, by the next start outside and in another container."""
    crash_is_found(world, container(), container() if then == "another" else ())


def test_container_beside(world: World) -> None:
    """The crash marker of a container beside, and that of one that was killed, do not keep others from reading the
    store without the interpreter. The first stays, the second is deleted."""
    world.demo("--count", COUNT)
    world.demo("--count", COUNT)
    with running(world, *container()) as program:
        world.demo("--count", COUNT)
        assert world.last()["fetched"] == COUNT and len(world.live_files()) == 1
        assert run(world, container()) == 0 and world.last()["fetched"] == COUNT
        (inside,) = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        os.kill(int(inside), signal.SIGKILL)
        program.wait()
        world.demo("--count", COUNT)
        assert world.last()["fetched"] == COUNT and world.live_files() == []


def test_program_without_its_main_thread(world: World) -> None:
    """The crash marker of a program whose main thread has ended stays: the program lives."""
    world.demo("--count", COUNT)
    world.demo("--count", COUNT)
    with running(world, before=("main-thread-ends",)) as program:
        (path,) = world.live_files()
        stat = Path(f"/proc/{program.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            os.sched_yield()
        world.demo("--count", COUNT)
        assert world.last()["fetched"] == COUNT and path.exists()


def test_marker_that_is_being_made(world: World) -> None:
    """A crash marker that somebody is writing is left alone, and one that nobody finished is deleted. Neither starts
    the interpreter."""
    world.demo("--count", COUNT)
    world.demo("--count", COUNT)
    (folder,) = (world.store / "store").iterdir()
    path = folder / f"{7:016x}-1-2.live"
    with path.open("wb"):
        world.demo("--count", COUNT)
        assert world.last()["fetched"] == COUNT and path.exists()
    world.demo("--count", COUNT)
    assert world.last()["fetched"] == COUNT and not path.exists()


def test_runtime_directory_of_another_user(world: World, tmp_path: Path) -> None:
    """What lies in a runtime directory that others can write to is not believed: it does not start the interpreter."""
    world.demo("--count", COUNT)
    world.demo("--count", COUNT)
    assert run(world, (), CRASH, "--exit", "_exit") and world.live_files()
    (left,) = world.live_files()
    (folder,) = (world.store / "store").iterdir()
    runtime = tmp_path / "runtime" / f"pylayer-live-{xxh3_64_hexdigest(os.fsencode(folder.resolve()))}"
    runtime.mkdir(parents=True)
    left.rename(runtime / left.name)
    runtime.chmod(0o777)
    for log in ("warn", "info"):  # by the layer, and by policy
        world.demo("--count", COUNT, XDG_RUNTIME_DIR=str(tmp_path / "runtime"), PYLAYER_LOG=log)
        assert world.last()["hits"] == COUNT and len(list(runtime.iterdir())) == 1
    runtime.chmod(0o700)
    world.demo("--count", COUNT, XDG_RUNTIME_DIR=str(tmp_path / "runtime"))
    assert world.last()["fetched"] == COUNT - 1 and list(runtime.iterdir()) == []  # one is blocked


def test_clear_beside_a_running_program(world: World) -> None:
    """``pylayer rm`` keeps the crash marker of a program that runs, so that its crash is found."""
    world.demo("--count", COUNT)
    with running(world) as program:
        (path,) = world.live_files()
        world.run([PYLAYER, "rm", "--pipelines", "--all", "--yes"], check=False)
        assert path.exists()
        program.kill()
        program.wait()
        world.run([PYLAYER, "rm", "--pipelines", "--all", "--yes"])
        assert not path.exists()
