"""The timeline of a run: what was compiled, when, by which thread, with which outcome and under which name, for every
mode."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
import xxhash
from world import AWAKE, BUILD, World

from pylayer.inhost import maintaining
from pylayer.store import runs, timeline
from pylayer.store.timeline import Event, Timeline

COUNT = 12


#: Nothing here depends on the driver.
QUICK = True


def newest(world: World) -> tuple[dict[str, object], Timeline]:
    *_, (name, values) = runs.read_named(str(world.store))
    line = timeline.read(str(world.store), name)
    assert line is not None
    return values, line


def pipelines(world: World) -> list[Event]:
    *_, (name, _) = runs.read_named(str(world.store))
    line = timeline.read(str(world.store), name)
    assert line is None or line.outcome == "ok"
    return [event for event in line.events if event.type == "pipeline"] if line is not None else []


def outcomes(world: World) -> list[str]:
    return [event.outcome for event in pipelines(world)]


def policy(world: World, settings: str) -> dict[str, str]:
    return world.policy(f"settings: {{{settings}}}\n")


@pytest.mark.parametrize("mode", ["cells", "binaries"])
def test_compiled_then_hit(world: World, mode: str) -> None:
    """The first run's timeline has each compiled pipeline with its fingerprint. The second run hits them all and
    records how many. Where policy does not start there is no timeline."""
    config = policy(world, f"mode: {mode}")
    arguments = ("--count", COUNT, "--api", "1.3")
    before = time.monotonic_ns()
    world.demo(*arguments, **config)
    compiled = pipelines(world)
    assert outcomes(world) == ["compiled"] * COUNT
    assert len({event.fingerprint for event in compiled}) == COUNT and all(event.value for event in compiled)
    assert all(before < event.start_ns < time.monotonic_ns() and event.duration_ns for event in compiled)
    assert {(event.kind, event.stages) for event in compiled} == {(0, 0x20), (1, 0x11)}
    values, line = newest(world)
    (thread,) = {event.thread for event in compiled}
    assert thread == values["pid"] and line.threads == {thread: "pipelines"}
    world.demo(*arguments, **config, **AWAKE)
    values, line = newest(world)
    found = [event for event in line.events if event.type in ("pipeline", "hits") and event.outcome != "slow"]
    assert {event.type for event in found} == {"hits"} and sum(event.value for event in found) == COUNT
    kinds = {kind: numbers["hits"] for kind, numbers in values["kinds"].items()}  # type: ignore[attr-defined]
    assert kinds == {"compute": COUNT // 2, "graphics": COUNT // 2}


def test_a_run_begins_with_its_device(world: World) -> None:
    """Policy starts when a pipeline is compiled, and what was counted until then has no gap before it."""
    world.demo("--count", COUNT)
    world.demo("--count", COUNT + 1)
    values, line = newest(world)
    (compiled,) = (event for event in line.events if event.type == "pipeline")
    assert {event.start_ns for event in line.events if event.type == "hits"} == {values["started_ns"]}
    assert int(str(values["started_ns"])) < compiled.start_ns


@pytest.mark.parametrize(
    ("arguments", "settings", "expected"),
    [
        (["--count", 6, "--batch", 3], "mode: cells", ["compiled"] * 6),
        (["--count", 2, "--ray-tracing", "--deferred", 2], "mode: cells", ["compiled"] * 2),
        (["--count", 6, "--fail-on-compile-required"], "mode: cells", []),
    ],
)
def test_ways(world: World, arguments: list[str], settings: str, expected: list[str]) -> None:
    """Pipelines without a cell are recorded too. For those created together in one call, the event has their number."""
    world.demo(*arguments, **policy(world, settings))
    assert outcomes(world) == expected
    assert sum(event.number for event in pipelines(world)) == (int(arguments[1]) if expected else 0)


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
    with subprocess.Popen(command, env=world.environment, stderr=subprocess.DEVNULL) as process:
        while not any(b"EVTS" in path.read_bytes() for path in Path(world.store).glob("runs/*.run")):
            assert process.poll() is None
            time.sleep(0.01)
        flushed = max(path.stat().st_size for path in Path(world.store).glob("runs/*.run"))
        while max(path.stat().st_size for path in Path(world.store).glob("runs/*.run")) == flushed:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    values, line = newest(world)
    assert line.outcome in ("ok", "truncated") and [event for event in line.events if event.outcome == "compiled"]
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


PROGRAM = str(BUILD / "tests" / "debug_names")
EXTENSION = "VK_EXT_debug_utils"


def newest_timeline(world: World) -> Timeline | None:
    """Returns the timeline of the newest_timeline run."""
    *_, (name, _) = runs.read_named(str(world.store))
    return timeline.read(str(world.store), name)


def recorded(world: World) -> Timeline:
    """Returns the timeline of the newest_timeline run, which there must be."""
    line = newest_timeline(world)
    assert line is not None and line.outcome == "ok"
    return line


@pytest.mark.parametrize("mode", ["cells", "binaries"])
def test_names_are_recorded(world: World, mode: str) -> None:
    """The timeline has the shaders of each compiled pipeline, with their hashes and names, and the pipelines' names. A
    name that was replaced before a pipeline was created is not there, nor does a destroyed module pass its name on."""
    world.run([PROGRAM, EXTENSION], **world.policy(f"settings: {{mode: '{mode}'}}\n"), **AWAKE)
    line = recorded(world)
    main, twin = [event.fingerprint for event in line.events if event.is_compile][:2]
    assert list(line.shaders) == [main, twin]
    ((stage, _, name),), ((other_stage, _, other_name),) = line.shaders.values()
    assert (stage, name, other_stage, other_name) == (0x20, "hero.comp", 0x20, "")
    assert line.names == {main: "the hero's other cape", twin: "n" * 63}
    assert line.name_of(main) == "the hero's other cape"


def test_hash_is_of_the_code(world: World) -> None:
    """A shader's hash is the XXH3-64 of its SPIR-V, so that it can be found among a program's files."""
    world.run([PROGRAM, EXTENSION])
    source = (Path(__file__).parent / "program.h").read_text()
    words = source.partition("shader_code[] = {")[2].partition("}")[0].replace(",", " ").split()
    code = b"".join(int(word, 0).to_bytes(4, "little") for word in words)
    assert {found for ((_, found, _),) in recorded(world).shaders.values()} == {xxhash.xxh3_64_intdigest(code)}


def test_without_the_extension(world: World) -> None:
    """Of a program that does not enable the extension, the shaders are recorded without names."""
    world.run([PROGRAM])
    line = recorded(world)
    assert [name for ((_, _, name),) in line.shaders.values()] == ["", ""] and not line.names


def test_hits_send_no_names(world: World) -> None:
    """A run that only hits starts no interpreter, and records no names."""
    world.run([PROGRAM, EXTENSION])
    world.run([PROGRAM, EXTENSION])
    assert world.last()["hits"] == 3 and newest_timeline(world) is None
