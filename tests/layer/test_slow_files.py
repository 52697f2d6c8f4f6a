"""The store or the policy file is on a file system that never answers (tests/slow_filesystem.py)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_steps import END, run_host
from scripted_driver import ScriptedDriver
from slow_filesystem import DEVICE, FOR_EVER, SlowFilesystem, mounted
from world import World

#: Mounting needs root.
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not DEVICE.exists(), reason="this kernel has no /dev/fuse"),
]

#: Nothing here depends on the driver.
QUICK = True

#: Far longer than any wait of the layer's. Then the test answers in the file system's place, and fails.
STUCK_SECONDS = 60
#: Reads that are late on a busy machine are compiled.
ATTEMPTS = 10


@pytest.fixture
def slow(world: World) -> Iterator[SlowFilesystem]:
    """The world's store, on a file system that answers at once as long as nothing else is said."""
    with mounted(world.directory, world.store) as slow:
        yield slow


def run_stuck(world: World, slow: SlowFilesystem, *steps: str | int) -> str:
    """Runs a program whose last step has the file system answer again: a process ends when its last read has ended.
    Returns what it wrote to standard error."""
    gave_up = threading.Event()

    def give_up() -> None:
        gave_up.set()
        slow.delay(0)

    timer = threading.Timer(STUCK_SECONDS, give_up)
    timer.start()
    try:
        process = run_host(world, *steps, *slow.step(0))
    finally:
        timer.cancel()
    assert not gave_up.is_set(), "the program waited for the file system"
    return process.stderr


def fill(world: World) -> None:
    """Stores eight pipelines and a plan, and has a run find them."""
    for _ in range(ATTEMPTS):
        run_host(world, "instance", "device", "pipelines", 8, *END)
        if world.last()["hits"] == 8 and list(world.store.glob("plans/*.plan")):
            return
    raise AssertionError("no run finds what is stored")


def test_stored_pipelines_are_found(world: World, slow: SlowFilesystem) -> None:
    """On a file system over a network that answers, stored pipelines are found, and no interpreter starts."""
    fill(world)
    before = slow.operations()
    for _ in range(ATTEMPTS):
        process = run_host(world, "instance", "device", "pipelines", 8, "mapped", "_policy.", *END)
        if world.last()["hits"] == 8:
            break
    assert (world.last()["hits"], world.last()["compiled"]) == (8, 0)
    assert "_policy. is not mapped" in process.stderr and slow.operations() > before


@pytest.mark.parametrize("filled", [False, True], ids=["first run", "later run"])
@pytest.mark.parametrize("moment", range(4), ids=["instance", "device", "pipelines", "end"])
def test_no_answer(world: World, slow: SlowFilesystem, moment: int, filled: bool) -> None:
    """A file system that stops to answer, at any moment, holds no call of the program: not in vkCreateInstance,
    vkCreateDevice, vkCreate*Pipelines or vkDestroyDevice."""
    if filled:
        fill(world)
    steps: list[str | int] = ["instance", "device", "pipelines", 8, *END]
    at = (0, 1, 2, 4)[moment]
    run_stuck(world, slow, *steps[:at], *slow.step(FOR_EVER), *steps[at:])


def test_it_is_said(world: World, slow: SlowFilesystem) -> None:
    """A device that runs without the layer because the store does not answer has a line in the log. Once the store
    answers, the next run finds everything."""
    fill(world)
    steps = (*slow.step(FOR_EVER), "instance", "device", "pipelines", 8, "device", "pipelines", 8, *END)
    said = [line for line in run_stuck(world, slow, *steps).splitlines() if line.startswith("pylayer: warn:")]
    assert said and all("did not answer within 250 ms" in line for line in said)
    fill(world)


def test_through_a_link(world: World, slow: SlowFilesystem, tmp_path: Path) -> None:
    """A store that is reached through links on local disks is no local one."""
    fill(world)
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "link").symlink_to("../far")
    (tmp_path / "far").symlink_to(world.directory)
    world.environment["PYLAYER_STORE"] = str(tmp_path / "near" / "link" / ".." / world.directory.name / "store")
    run_stuck(world, slow, *slow.step(FOR_EVER), "instance", "device", "pipelines", 8, *END)


def test_policy_file(world: World, tmp_path: Path) -> None:
    """A policy file that cannot be read because its file system does not answer holds no program. The plan that was
    kept without a policy file is not used in its place."""
    far = tmp_path / "far"
    run_host(world, "instance", "device", "pipelines", 8, *END)
    with mounted(tmp_path, far) as slow:
        (far / "policy.yaml").write_text("settings: {carrier: cells}\n")
        world.environment["PYLAYER_CONFIG"] = str(far / "policy.yaml")
        run_host(world, "instance", "device", "pipelines", 8, *END)
        count = len(world.runs())
        run_stuck(world, slow, *slow.step(FOR_EVER), "instance", "device", "pipelines", 8, *END)
        assert len(world.runs()) == count


def test_no_answer_to_a_policy(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """Where policy reads the store, as for binaries, the program waits for it as long as its settings say."""
    world = scripted.world
    scripted.settings(carrier="binaries", load_wait_ms=500, flush_wait_ms=500)
    with mounted(tmp_path, world.store) as slow:
        for _ in range(2):
            run_host(world, "instance", "device", "pipelines", 8, *END)
        run_stuck(world, slow, "instance", "device", *slow.step(FOR_EVER), "pipelines", 8, *END)
