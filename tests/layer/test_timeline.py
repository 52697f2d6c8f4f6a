"""The timeline of a run: what was compiled, when, by which thread, with which outcome and under which name, for every
mode; and which frames were late by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import xxhash
from scripted_driver import ScriptedDriver
from world import AWAKE, BUILD, LAYER_NAME, World, repeated, until

from pylayer.inhost import maintaining
from pylayer.report import late_frames
from pylayer.store import runs, timeline
from pylayer.store.timeline import FRAME_NS, Event, Timeline, Usual

COUNT = 12


#: Nothing here depends on the driver.
QUICK = True


def newest(world: World) -> tuple[dict[str, Any], Timeline | None]:
    """Returns the statistics of the newest run, and its timeline."""
    *_, (name, values) = runs.read_named(str(world.store))
    return values, timeline.read(str(world.store), name)


def recorded(world: World) -> Timeline:
    """Returns the timeline of the newest run, which there must be."""
    _, line = newest(world)
    assert line is not None and line.outcome == "ok"
    return line


def pipelines(world: World) -> list[Event]:
    _, line = newest(world)
    return [event for event in recorded(world).events if event.type == "pipeline"] if line else []


def outcomes(world: World) -> list[str]:
    return [event.outcome for event in pipelines(world)]


@pytest.mark.parametrize("mode", ["cells", "binaries"])
def test_compiled_then_hit(world: World, mode: str) -> None:
    """The first run's timeline has each compiled pipeline with its fingerprint. The second run hits them all and
    records how many. Where policy does not start there is no timeline."""
    config = world.policy(f"settings: {{mode: {mode}}}")
    arguments = ("--count", COUNT, "--api", "1.3")
    before = time.monotonic_ns()
    world.demo(*arguments, **config)
    compiled = pipelines(world)
    assert outcomes(world) == ["compiled"] * COUNT
    assert len({event.fingerprint for event in compiled}) == COUNT and all(event.value for event in compiled)
    assert all(before < event.start_ns < time.monotonic_ns() and event.duration_ns for event in compiled)
    assert {(event.kind, event.stages) for event in compiled} == {(0, 0x20), (1, 0x11)}
    values, line = newest(world)[0], recorded(world)
    (thread,) = {event.thread for event in compiled}
    assert thread == values["pid"] and line.threads == {thread: "pipelines"}
    world.demo(*arguments, **config, **AWAKE)
    values, line = newest(world)[0], recorded(world)
    found = [event for event in line.events if event.type in ("pipeline", "hits") and event.outcome != "slow"]
    assert {event.type for event in found} == {"hits"} and sum(event.value for event in found) == COUNT
    kinds = {kind: numbers["hits"] for kind, numbers in values["kinds"].items()}
    assert kinds == {"compute": COUNT // 2, "graphics": COUNT // 2}


def test_a_run_begins_with_its_device(world: World) -> None:
    """Policy starts when a pipeline is compiled, and what was counted until then has no gap before it."""
    world.demo("--count", COUNT)
    world.demo("--count", COUNT + 1)
    values, line = newest(world)[0], recorded(world)
    (compiled,) = (event for event in line.events if event.type == "pipeline")
    assert {event.start_ns for event in line.events if event.type == "hits"} == {values["started_ns"]}
    assert values["started_ns"] < compiled.start_ns


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--count", 6, "--batch", 3], ["compiled"] * 6),
        (["--count", 2, "--ray-tracing", "--deferred", 2], ["compiled"] * 2),
        (["--count", 6, "--fail-on-compile-required"], []),
    ],
)
def test_ways(world: World, arguments: list[str | int], expected: list[str]) -> None:
    """Pipelines without a cell are recorded too. For those created together in one call, the event has their number."""
    world.demo(*arguments)
    assert outcomes(world) == expected
    assert sum(event.number for event in pipelines(world)) == len(expected)


def test_cache_verdicts(world: World) -> None:
    """Data that the program passes to vkCreatePipelineCache and that policy judges is recorded with the verdict and its
    reason."""
    file = world.directory / "program.cache"
    arguments = ("--count", 4, "--cache", file, "--cache-save", file)
    world.demo(*arguments, layers=None)
    size = file.stat().st_size
    world.demo(*arguments)
    file.write_bytes(file.read_bytes()[:-100])
    world.demo(*arguments)
    found = []
    for name, _ in runs.read_named(str(world.store)):
        line = timeline.read(str(world.store), name)
        assert line is not None
        found += [(event.outcome, event.text, event.value) for event in line.events if event.type == "cache"]
    assert found == [("passed", "unknown", size), ("emptied", "altered", size - 100)]


def test_killed(world: World) -> None:
    """The timeline of a killed program has the events until the last flush, and no end."""
    command = [str(BUILD / "demo" / "pipelines"), "--count", "14336"]
    with subprocess.Popen(command, env=world.environment, stderr=subprocess.DEVNULL, text=True) as process:
        until(process, lambda: any(b"EVTS" in path.read_bytes() for path in Path(world.store).glob("runs/*.run")))
        flushed = max(path.stat().st_size for path in Path(world.store).glob("runs/*.run"))
        until(process, lambda: any(path.stat().st_size > flushed for path in Path(world.store).glob("runs/*.run")))
        process.kill()
    values, line = newest(world)
    assert line is not None and line.outcome in ("ok", "truncated")
    assert any(event.outcome == "compiled" for event in line.events)
    assert values["ended"] == 0


def test_devices_that_come_and_go(world: World) -> None:
    """A process looks through what is in the store at the end of one device of many. So vkDestroyDevice of the last one
    takes as long as that of the first."""
    directory = Path(world.store) / "runs"
    directory.mkdir(mode=0o700, parents=True)
    left, there = directory / "1.events", directory / "2.events"  # as of an earlier pylayer, so they are deleted
    left.touch()
    gone = f"while test -e {left}; do sleep 0.01; done"
    device = ["device", "pipelines", "1", "destroy-device"]
    few = ["spawn", gone, "spawn", f"touch {left}", *device * 10, "spawn", f"mv {left} {there}"]
    many = [*device * maintaining.DEVICES, "spawn", gone.replace(str(left), str(there))]
    world.run([str(BUILD / "tests" / "host"), "instance", *device, *few, *many, "destroy-instance"], **AWAKE)
    assert len(world.runs()) == 11 + maintaining.DEVICES


# ---- Names of shaders and pipelines --------------------------------------------------------------


#: The third pipeline is the first one once more, a hit. The module that has no name may have the handle of the first.
NAMED = f"""device control
module comp0
name device a-device
name comp0 an-early-name
name comp0 hero.comp
compute - : P0 shader=comp0 spec=1
name P0 the-hero's-cape
name P0
unmodule comp0
module comp0
compute - : P1 shader=comp0 spec=2
name P1 {"n" * 199}
compute - : P2 shader=comp0 spec=1
name P2 the-hero's-other-cape
"""


def run_named(world: World, *options: str, **environment: str) -> None:
    printed = world.recipe(NAMED, *options, **environment).stdout
    assert printed.count("skip") == (0 if options else 7) and printed.count("result=0") == 5


@pytest.mark.parametrize("mode", ["cells", "binaries"])
def test_names_are_recorded(world: World, mode: str) -> None:
    """The timeline has the shaders of each compiled pipeline, with their hashes and names, and the pipelines' names. A
    hash is the XXH3-64 of the SPIR-V, so that a shader can be found among a program's files. A name that was replaced
    before a pipeline was created is not there, nor does a destroyed module pass its name on."""
    run_named(world, "--names", **world.policy(f"settings: {{mode: '{mode}'}}\n"), **AWAKE)
    line = recorded(world)
    main, twin = [event.fingerprint for event in line.events if event.is_compile][:2]
    assert list(line.shaders) == [main, twin]
    source = (BUILD / "recipes" / "shaders" / "comp0.h").read_text()
    words = source.partition("comp0_code[] = {")[2].partition("}")[0].replace(",", " ").split()
    digest = xxhash.xxh3_64_intdigest(b"".join(int(word, 0).to_bytes(4, "little") for word in words))
    assert list(line.shaders.values()) == [[(0x20, digest, "hero.comp")], [(0x20, digest, "")]]
    assert line.names == {main: "the-hero's-other-cape", twin: "n" * 63}
    assert line.name_of(main) == "the-hero's-other-cape"


def test_without_the_extension(world: World) -> None:
    """Of a program that does not enable the extension, the shaders are recorded without names."""
    run_named(world)
    line = recorded(world)
    assert [name for ((_, _, name),) in line.shaders.values()] == ["", ""] and not line.names


# ---- Frames: the program of tests/layer/frames.c writes when it presented, and the layer tells the same


#: Each pipeline takes 10 ms.
SLOW = "pipeline=slow:10?compile"


#: How many hitches are measured beside busy processes; `make hitches` asks for 200.
HITCHES = int(os.environ.get("HITCHES", "12"))


class MeasuredFrames:
    """What the program measured, and what the layer recorded of it."""

    def __init__(self, scripted: ScriptedDriver, *arguments: str | int, script: str = SLOW, **environment: str) -> None:
        def run() -> str:
            before = len([*runs.read_named(str(scripted.world.store))])
            out = scripted.program("frames", *arguments, script=script, **environment).stdout
            if len([*runs.read_named(str(scripted.world.store))]) > before:
                return out
            shutil.rmtree(scripted.world.store)  # policy had no time to record the run
            return ""

        lines = [line.split() for line in repeated(run).splitlines()]
        #: Before and after each present, by swapchain and frame.
        self.measured: dict[int, dict[int, tuple[int, int]]] = {}
        for _, swapchain, number, before, after in (words for words in lines if words[0] == "frame"):
            self.measured.setdefault(int(swapchain), {})[int(number)] = int(before), int(after)
        self.hitches = {int(words[1]): int(words[2]) for words in lines if words[0] == "compiles"}
        self.values, _ = newest(scripted.world)
        self.line = recorded(scripted.world)
        self.late = late_frames.late(self.line, FRAME_NS)
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
def test_hitches(scripted: ScriptedDriver, by: str) -> None:
    """Each late frame is told with what it compiled, as long as the program measured, and none is invented. The thread
    that presents compiles, or waits for one that does."""
    told = MeasuredFrames(scripted, 120, f"by={by}")
    told.check_times()
    told.check_hitches()
    thread = "render" if by == "present" else "loader"
    assert {told.line.threads[event.thread] for own in told.by_pipelines.values() for event in own.events} == {thread}
    text = late_frames.sentence(next(iter(told.by_pipelines.values())), told.line)
    assert text.startswith("frame ") and " of it compiling water-" in text and f" on the {thread} thread" in text


def test_counted_by_the_layer(scripted: ScriptedDriver) -> None:
    """The layer counts late frames as the report finds them in the timeline, prints them, and has them in its JSON."""
    told = MeasuredFrames(scripted, 60)
    counters = told.values["counters"]
    assert counters["late_frames"] == len(told.late) and counters["late_by_pipelines"] == len(told.by_pipelines)
    longest = late_frames.longest_ns(told.line, told.late)
    assert abs(counters["longest_frame_ns"] - longest) <= 2000 and counters["last_late_s"] > 1_700_000_000
    before, after = told.measured[1][1]
    assert before <= counters["first_frame_ns"] <= after
    text = scripted.world.pylayer("report").stdout
    assert "late frames" in text and "compiling water-" in text
    (own,) = json.loads(scripted.world.pylayer("report", "--json").stdout)["runs"]
    assert own["frames"] == 60 and own["frames_all_seen"] is True
    assert own["late_frames"] == len(told.late) and own["late_by_pipelines"] == len(told.by_pipelines)
    assert {late["frame"] for late in own["late"]} == {late.frame.number for late in told.late}
    assert {pipeline["frame"] for pipeline in own["slowest"]} <= {*told.by_pipelines, None}


#: The first with CAPTURE_DATA.
@pytest.mark.parametrize(("mode", "script"), [("binaries", "internal-cache=no"), ("observe", "")])
def test_counted_whoever_compiles(scripted: ScriptedDriver, mode: str, script: str) -> None:
    """Frames that pipelines held up are counted with each mode."""
    scripted.settings(mode=mode)
    scripted.program("frames", 60, "api=3", script=f"{script};{SLOW}")
    assert scripted.world.last()["late_by_pipelines"] > 0


@pytest.mark.parametrize("by", ["present", "loader"])
@pytest.mark.parametrize("generated", [0, 1, 2, 3, 6])
def test_generated_frames(scripted: ScriptedDriver, generated: int, by: str) -> None:
    """Frames that are not generated are usual, also if more are. What held up one of them is told."""

    def measured() -> MeasuredFrames | None:
        shutil.rmtree(scripted.world.store, ignore_errors=True)
        told = MeasuredFrames(scripted, 60, f"generated={generated}", "every=30", f"by={by}", "pace=20000")
        return told if len(told.late) < 30 else None  # all of them if a generated one counted; a busy machine adds some

    told = repeated(measured)
    assert told.values["counters"]["frames"] == 60 * (generated + 1)
    assert set(told.hitches) <= set(told.by_pipelines)
    counters = told.values["counters"]
    assert counters["late_frames"] == len(told.late) and counters["late_by_pipelines"] == len(told.by_pipelines)


@pytest.mark.parametrize("by", ["present", "loader"])
def test_other_device(scripted: ScriptedDriver, by: str) -> None:
    """What the program compiles on another device holds up frames as well, in the counts and in the report."""
    scripted.program("frames", 60, "devices=2", f"by={by}", script=SLOW)
    (own,) = [run for run in json.loads(scripted.world.pylayer("report", "--json").stdout)["runs"] if run["frames"]]
    assert own["pipelines"] == 0 and own["late_by_pipelines"] >= 5
    assert any("compiling water-" in late["text"] for late in own["late"])
    counted = [values["counters"] for values in scripted.world.runs() if values["counters"]["frames"]]
    assert sum(counters["late_by_pipelines"] for counters in counted) >= 5


def test_short_pipelines(scripted: ScriptedDriver) -> None:
    """Pipelines that take less time than what is told of single ones add up to a late frame."""
    arguments = 60, "every=20", "least=9000", "most=9000", "same=1"
    scripted.program("frames", *arguments)
    scripted.program("frames", *arguments)
    last = scripted.world.last()
    assert last["compiled"] == 0 and last["late_by_pipelines"] >= 2


def test_short_calls_that_pass(scripted: ScriptedDriver) -> None:
    """Calls that pass are told together if each of them is too short to be told."""
    # Code of this size takes some 0.03 ms: a busy machine stops the program within a call, and seldom between two.
    told = MeasuredFrames(scripted, 60, "every=20", "least=1000", "most=1000", "passed=1", script="payload=20000")
    counts = [sum(event.number for event in own.events) for own in told.late if own.frame.number in told.hitches]
    assert counts and min(counts) >= 900 and max(counts) <= 1000


def test_beside_frames(scripted: ScriptedDriver) -> None:
    """What a thread compiles while frames go on being presented holds up none of them."""
    told = MeasuredFrames(
        scripted, 400, "by=beside", "every=399", "least=1", "most=1", script="pipeline=slow:400?compile"
    )
    told.check_times()
    assert [event.type for event in told.line.events].count("pipeline") == 1
    assert told.by_pipelines == {}
    text = scripted.world.pylayer("report").stdout
    (row,) = (line for line in text.splitlines() if " water-" in line and "compute" in line)
    assert " no frame " in row


def test_two_swapchains(scripted: ScriptedDriver) -> None:
    """Frames of two swapchains are told apart, also when both are presented with one call."""
    told = MeasuredFrames(scripted, 40, "swapchains=2")
    told.check_times()
    assert {own.frame.swapchain for own in told.late} == {1, 2}
    second = next(own for own in told.late if own.frame.swapchain == 2)
    assert " of swapchain 2 took " in late_frames.sentence(second, told.line)


def test_many_swapchains(scripted: ScriptedDriver) -> None:
    """The frames of sixteen swapchains are counted."""
    scripted.program("frames", 50, "every=0", "swapchains=20")
    assert scripted.world.last()["frames"] == 16 * 50


def test_replaced_swapchain(scripted: ScriptedDriver) -> None:
    """Frames of a swapchain go on in the one that replaces it."""
    told = MeasuredFrames(scripted, 40, "recreate=20")
    told.check_times()
    told.check_hitches()


def test_pause(scripted: ScriptedDriver) -> None:
    """A frame of over two seconds without pipelines is a pause, and not late. One that compiled for as long is late."""
    told = MeasuredFrames(scripted, 30, "pause=2100", "every=0")
    assert 30 not in {own.frame.number for own in told.late}
    assert told.values["counters"]["longest_frame_ns"] < 2_000_000_000
    told = MeasuredFrames(scripted, 30, "every=29", "least=1", "most=1", script="pipeline=slow:2100?compile")
    assert 29 in told.by_pipelines and told.values["counters"]["longest_frame_ns"] > 2_000_000_000


def test_warm(scripted: ScriptedDriver) -> None:
    """A run that only finds stored pipelines counts its frames without policy, and has no timeline."""
    told = MeasuredFrames(scripted, 30)
    for _ in range(2):
        scripted.program("frames", 30, script=SLOW)
    values, line = newest(scripted.world)
    assert values["counters"]["frames"] == 30 and values["counters"]["compiled"] == 0
    assert line is None and values["pid"] != told.values["pid"]


def test_off(scripted: ScriptedDriver) -> None:
    """With mode off no frame is seen."""
    scripted.settings(mode="off")
    scripted.program("frames", 10, script=SLOW)
    counted = [values["counters"].get("frames", 0) for values in scripted.world.runs()]
    assert counted in ([0], [])


def test_without_frames(world: World) -> None:
    """A run without a swapchain has no numbers of frames."""
    world.demo("--count", 4)
    (own,) = json.loads(world.pylayer("report", "--json").stdout)["runs"]
    assert own["frames"] is own["late_frames"] is own["longest_frame_ns"] is None and own["late"] == []


def test_real_driver(lavapipe: World) -> None:
    """Frames of a surface of Lavapipe's are seen."""
    command = [str(BUILD / "tests" / "frames"), "20", "every=5", "least=1", "most=1"]
    if lavapipe.run(command, check=False).returncode:
        pytest.skip("this driver cannot be had: without the layer, too, it makes no swapchain")
    lavapipe.run(command, VK_INSTANCE_LAYERS=LAYER_NAME)
    assert lavapipe.runs()[-1]["counters"]["frames"] == 20


@pytest.mark.parametrize("processes", [0, 8])
def test_beside_busy_processes(scripted: ScriptedDriver, processes: int) -> None:
    """Hitches are told as the program measured them, alone and beside eight busy processes, and none is invented."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        told = MeasuredFrames(scripted, 10 * HITCHES + 9)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert len(told.hitches) == HITCHES
    told.check_times()
    told.check_hitches()
    errors = [abs(own.frame.took_ns / told.took(number) - 1) for number, own in told.by_pipelines.items()]
    print(f"{len(told.by_pipelines)} of {HITCHES} hitches told, {len(told.late)} late frames, error {max(errors):.2%}")
