"""Frames: the program of tests/layer/frames.c writes when it presented, and the layer must tell the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripted_driver import ScriptedDriver
from world import BUILD, LAYER_NAME, World

from pylayer.report import late_frames
from pylayer.store import runs, timeline
from pylayer.store.timeline import FRAME_NS, Timeline, Usual

#: Each pipeline takes 10 ms.
SLOW = "pipeline=slow:10?compile"


#: How many hitches are measured beside busy processes; `make hitches` asks for 200.
HITCHES = int(os.environ.get("HITCHES", "12"))


@pytest.fixture
def driver(tmp_path: Path) -> ScriptedDriver:
    """A world with the scripted driver."""
    return ScriptedDriver(tmp_path)


class MeasuredFrames:
    """What the program measured, and what the layer recorded of it."""

    def __init__(self, driver: ScriptedDriver, *arguments: str | int, script: str = SLOW, **environment: str) -> None:
        self.driver = driver
        out = driver.program("frames", *arguments, script=script, **environment).stdout
        lines = [line.split() for line in out.splitlines()]
        #: Before and after each present, by swapchain and frame.
        self.measured: dict[int, dict[int, tuple[int, int]]] = {}
        for _, swapchain, number, before, after in (words for words in lines if words[0] == "frame"):
            self.measured.setdefault(int(swapchain), {})[int(number)] = int(before), int(after)
        self.hitches = {int(words[1]): int(words[2]) for words in lines if words[0] == "compiles"}
        *_, (self.name, self.values) = runs.read_named(str(driver.world.store))
        line = timeline.read(str(driver.world.store), self.name)
        assert line is not None and line.outcome == "ok"
        self.line: Timeline = line
        self.late = late_frames.late(line, FRAME_NS)
        self.by_pipelines = {own.frame.number: own for own in self.late if own.by_pipelines}

    def check_times(self) -> None:
        """Asserts that the layer saw each frame, and each present between the program's clock reads around it."""
        assert {swapchain: len(own) for swapchain, own in self.measured.items()} == {
            swapchain: len(times) for swapchain, (times, *_) in self.line.presents.items()
        }
        for swapchain, (times, numbers, _) in self.line.presents.items():
            for time_ns, number in zip(times, numbers, strict=True):
                before, after = self.measured[swapchain][number]
                assert before - 1000 <= time_ns <= after  # a timeline has microseconds
        counters = self.values["counters"]
        assert counters["frames"] == sum(map(len, self.measured.values())) and self.values["frames_lost"] == 0

    def took(self, number: int, swapchain: int = 1) -> int:
        """Returns how long a frame took, as the program measured it."""
        own = self.measured[swapchain]
        return own[number][0] - own[number - 1][0]

    def check_hitches(self) -> None:
        """Asserts that each late frame that pipelines made late is told as such, and no other. Whether a frame is late,
        and whether by pipelines or by something else on the machine, is decided from the program's own times; what is
        near the limit may be either."""
        usual, must, may = Usual(), set(), set()
        for number in range(2, len(self.measured[1]) + 1):
            took = self.took(number)
            if number in self.hitches:
                by_pipelines = 2 * self.hitches[number] * 10_000_000 >= took
                must |= {number} if usual.is_late(took * 9 // 10) and by_pipelines else set()
                may |= {number} if usual.is_late(took * 11 // 10) else set()
            usual.add(took)
        assert must <= set(self.by_pipelines) <= may
        for number, own in self.by_pipelines.items():
            assert sum(max(1, event.number) for event in own.events if event.type == "pipeline") == self.hitches[number]
            low, high = self.measured[1][number][0] - self.measured[1][number - 1][1], self.measured[1][number][1]
            high -= self.measured[1][number - 1][0]
            assert 0.9 * low <= own.frame.took_ns <= 1.1 * high
            assert self.hitches[number] * 10_000_000 <= own.pipelines_ns <= own.frame.took_ns


@pytest.mark.parametrize("by", ["present", "loader"])
def test_hitches(driver: ScriptedDriver, by: str) -> None:
    """Each late frame is told with what it compiled, as long as the program measured, and none is invented. The thread
    that presents compiles, or waits for one that does."""
    told = MeasuredFrames(driver, 120, f"by={by}")
    told.check_times()
    told.check_hitches()
    assert {told.line.threads[event.thread] for own in told.by_pipelines.values() for event in own.events} == {
        "render" if by == "present" else "loader"
    }
    text = late_frames.sentence(next(iter(told.by_pipelines.values())), told.line)
    thread = "render" if by == "present" else "loader"
    assert text.startswith("frame ") and " of it compiling water-" in text and f" on the {thread} thread" in text


def test_counted_by_the_layer(driver: ScriptedDriver) -> None:
    """The layer counts late frames as the report finds them in the timeline, prints them, and has them in its JSON."""
    told = MeasuredFrames(driver, 60)
    counters = told.values["counters"]
    assert counters["late_frames"] == len(told.late) and counters["late_by_pipelines"] == len(told.by_pipelines)
    longest = late_frames.longest_ns(told.line, told.late)
    assert abs(counters["longest_frame_ns"] - longest) <= 2000 and counters["last_late_s"] > 1_700_000_000
    before, after = told.measured[1][1]
    assert before <= counters["first_frame_ns"] <= after
    text = driver.world.pylayer("report").stdout
    assert "late frames" in text and "compiling water-" in text
    (own,) = json.loads(driver.world.pylayer("report", "--json").stdout)["runs"]
    assert own["frames"] == 60 and own["frames_all_seen"] is True
    assert own["late_frames"] == len(told.late) and own["late_by_pipelines"] == len(told.by_pipelines)
    assert {late["frame"] for late in own["late"]} == {late.frame.number for late in told.late}
    assert {pipeline["frame"] for pipeline in own["slowest"]} <= {*told.by_pipelines, None}


@pytest.mark.parametrize(
    ("settings", "script"),
    [
        ({"mode": "binaries"}, "internal-cache=no"),  # CAPTURE_DATA
        ({"mode": "observe"}, ""),
    ],
)
def test_counted_whoever_compiles(driver: ScriptedDriver, settings: dict[str, Any], script: str) -> None:
    """Frames that pipelines held up are counted with each mode."""
    driver.settings(**settings)
    driver.program("frames", 60, "api=3", script=f"{script};{SLOW}")
    assert driver.world.last()["late_by_pipelines"] > 0


@pytest.mark.parametrize("by", ["present", "loader"])
@pytest.mark.parametrize("generated", [0, 1, 2, 3, 6])
def test_generated_frames(driver: ScriptedDriver, generated: int, by: str) -> None:
    """Frames that are not generated are usual, also if more are. What held up one of them is told."""
    told = MeasuredFrames(driver, 60, f"generated={generated}", "every=30", f"by={by}", "pace=20000")
    assert told.values["counters"]["frames"] == 60 * (generated + 1)
    assert len(told.late) < 30 and set(told.hitches) <= set(told.by_pipelines)
    counters = told.values["counters"]
    assert counters["late_frames"] == len(told.late) and counters["late_by_pipelines"] == len(told.by_pipelines)


@pytest.mark.parametrize("by", ["present", "loader"])
def test_other_device(driver: ScriptedDriver, by: str) -> None:
    """What the program compiles on another device holds up frames as well, in the counts and in the report."""
    driver.program("frames", 60, "devices=2", f"by={by}", script=SLOW)
    (own,) = [run for run in json.loads(driver.world.pylayer("report", "--json").stdout)["runs"] if run["frames"]]
    assert own["pipelines"] == 0 and own["late_by_pipelines"] >= 5
    assert any("compiling water-" in late["text"] for late in own["late"])
    counted = [values["counters"] for values in driver.world.runs() if values["counters"]["frames"]]
    assert sum(counters["late_by_pipelines"] for counters in counted) >= 5


def test_short_pipelines(driver: ScriptedDriver) -> None:
    """Pipelines that take less time than what is told of single ones add up to a late frame."""
    arguments = 60, "every=20", "least=9000", "most=9000", "same=1"
    driver.program("frames", *arguments)
    driver.program("frames", *arguments)
    last = driver.world.last()
    assert last["compiled"] == 0 and last["late_by_pipelines"] >= 2


def test_short_calls_that_pass(driver: ScriptedDriver) -> None:
    """Calls that pass are told together if each of them is too short to be told."""
    for _ in range(10):  # on a busy machine the program may be stopped between two calls, which are in no row then
        told = MeasuredFrames(driver, 60, "every=20", "least=4000", "most=4000", "passed=1", script="")
        held_up = [own for own in told.late if own.frame.number in told.hitches]
        counts = [sum(event.number for event in own.events) for own in held_up]
        assert max(counts, default=0) <= 4000
        if counts and min(counts) >= 3500:
            return
    raise AssertionError("in each of ten runs calls were missing")


def test_beside_frames(driver: ScriptedDriver) -> None:
    """What a thread compiles while frames go on being presented holds up none of them."""
    told = MeasuredFrames(
        driver, 400, "by=beside", "every=399", "least=1", "most=1", script="pipeline=slow:400?compile"
    )
    told.check_times()
    assert [event.type for event in told.line.events].count("pipeline") == 1
    assert told.by_pipelines == {}
    text = driver.world.pylayer("report").stdout
    (row,) = (line for line in text.splitlines() if " water-" in line and "compute" in line)
    assert " no frame " in row


def test_two_swapchains(driver: ScriptedDriver) -> None:
    """Frames of two swapchains are told apart, also when both are presented with one call."""
    told = MeasuredFrames(driver, 40, "swapchains=2")
    told.check_times()
    assert {own.frame.swapchain for own in told.late} == {1, 2}
    assert " of swapchain 2 took " in late_frames.sentence(
        next(o for o in told.late if o.frame.swapchain == 2), told.line
    )


def test_many_swapchains(driver: ScriptedDriver) -> None:
    """The frames of sixteen swapchains are counted."""
    driver.program("frames", 50, "every=0", "swapchains=20")
    assert driver.world.last()["frames"] == 16 * 50


def test_replaced_swapchain(driver: ScriptedDriver) -> None:
    """Frames of a swapchain go on in the one that replaces it."""
    told = MeasuredFrames(driver, 40, "recreate=20")
    told.check_times()
    told.check_hitches()


def test_pause(driver: ScriptedDriver) -> None:
    """A frame of over two seconds without pipelines is a pause, and not late. One that compiled for as long is late."""
    told = MeasuredFrames(driver, 30, "pause=2100", "every=0")
    assert 30 not in {own.frame.number for own in told.late}
    assert told.values["counters"]["longest_frame_ns"] < 2_000_000_000
    told = MeasuredFrames(driver, 30, "every=29", "least=1", "most=1", script="pipeline=slow:2100?compile")
    assert 29 in told.by_pipelines and told.values["counters"]["longest_frame_ns"] > 2_000_000_000


def test_warm(driver: ScriptedDriver) -> None:
    """A run that only finds stored pipelines counts its frames without policy, and has no timeline."""
    told = MeasuredFrames(driver, 30)
    for _ in range(2):
        driver.program("frames", 30, script=SLOW)
    *_, (name, values) = runs.read_named(str(driver.world.store))
    assert values["counters"]["frames"] == 30 and values["counters"]["compiled"] == 0
    assert timeline.read(str(driver.world.store), name) is None and name != told.name


def test_off(driver: ScriptedDriver) -> None:
    """With mode off no frame is seen."""
    driver.settings(mode="off")
    driver.program("frames", 10, script=SLOW)
    counted = [values["counters"].get("frames", 0) for values in driver.world.runs()]
    assert counted in ([0], [])


def test_without_frames(world: World) -> None:
    """A run without a swapchain has no numbers of frames."""
    world.demo("--count", 4)
    (own,) = json.loads(world.pylayer("report", "--json").stdout)["runs"]
    assert own["frames"] is own["late_frames"] is own["longest_frame_ns"] is None and own["late"] == []


def test_real_driver(lavapipe: World) -> None:
    """Frames of a surface of Lavapipe's are seen."""
    command = [str(BUILD / "tests" / "frames"), "20", "every=5", "least=1", "most=1"]
    lavapipe.run(command, VK_INSTANCE_LAYERS=LAYER_NAME)
    assert lavapipe.runs()[-1]["counters"]["frames"] == 20


@pytest.mark.parametrize("processes", [0, 8])
def test_beside_busy_processes(driver: ScriptedDriver, processes: int) -> None:
    """Hitches are told as the program measured them, alone and beside eight busy processes, and none is invented."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        told = MeasuredFrames(driver, 10 * HITCHES + 9)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert len(told.hitches) == HITCHES
    told.check_times()
    told.check_hitches()
    errors = [abs(own.frame.took_ns / told.took(number) - 1) for number, own in told.by_pipelines.items()]
    print(f"{len(told.by_pipelines)} of {HITCHES} hitches told, {len(told.late)} late frames, error {max(errors):.2%}")
